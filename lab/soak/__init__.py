"""Soak: the whole pipeline under an even load for an hour, in which nothing may grow."""
