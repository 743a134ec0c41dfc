"""Chaos: kill -9 of every part under load, then the books and the generator's own truth must agree exactly."""
