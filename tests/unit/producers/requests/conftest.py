"""Hypothesis without deadlines: the first call makes the table of bins, on any machine at any load."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
