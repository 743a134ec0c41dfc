"""Rows between our own processes, as field tables."""
