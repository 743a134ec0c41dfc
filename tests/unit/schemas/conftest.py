"""Hypothesis without deadlines: the first call of compiled code loads or compiles it, on any machine at any load."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
