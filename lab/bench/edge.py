"""``fleetpulse bench edge``: what the edge costs, part by part: the agent (also beside an engine), the proxy, the SDK.

Every part gives numbers and, as ``within``, which bounds they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from schemas.errors import ConfigError

Say = Callable[[str], None]

PARTS = ("agent", "agent_engine", "proxy", "sdk")


def measure(parts: Iterable[str], seconds: int, say: Say) -> dict[str, Any]:
    """Numbers of each part. Raises ConfigError for a part that there is not."""
    wanted = tuple(parts) or PARTS
    for part in wanted:
        if part not in PARTS:
            raise ConfigError("--part", part, f"must be one of {', '.join(PARTS)}")
    return {part: import_module(f"lab.bench.{part}").measure(seconds, say) for part in wanted}


def outside(result: Mapping[str, Any]) -> list[str]:
    """The bounds that were not kept, as ``part.bound``."""
    return [
        f"{part}.{bound}"
        for part, measured in result.items()
        for bound, kept in measured.get("within", {}).items()
        if not kept
    ]


def rows(result: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(part, metric, value) of every number, for people."""
    return [
        (part, name, value)
        for part, measured in result.items()
        for name, value in measured.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
