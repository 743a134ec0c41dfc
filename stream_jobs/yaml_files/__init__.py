"""Files of people, in YAML: read within limits, every mistake reported with its line."""
