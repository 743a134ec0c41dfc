"""Serving engines on this host: their metrics as ``engine.samples``, who they are as ``engine.events``."""
