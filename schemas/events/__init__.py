"""Event types as data: fields, units, grouping sets and metric definitions."""
