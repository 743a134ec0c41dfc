"""Files of people, in YAML: read within limits, every mistake told with its line."""
