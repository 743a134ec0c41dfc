"""Bring topics, tables and their settings to what this version and its configuration need."""
