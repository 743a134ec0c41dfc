"""Serving engines on this host: metrics as ``engine.samples``, registrations as ``engine.events``."""
