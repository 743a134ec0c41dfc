"""The version of fleetpulse that runs."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """As its distribution says, like ``0.2.0``; ``unknown`` where it is not installed."""
    try:
        return metadata.version("fleetpulse")
    except metadata.PackageNotFoundError:
        return "unknown"
