"""``fleetpulse bench edge``: what the edge costs, part by part: the agent, the proxy, the SDK.

Every part is a module with ``measure(seconds, tell)``, which gives figures and, as ``within``, which bounds they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from schemas.errors import ConfigError

Tell = Callable[[str], None]

PARTS: Mapping[str, str] = {
    "agent": "fleetpulse.bench.agent",
}


def measure(parts: Iterable[str], seconds: int, tell: Tell) -> dict[str, Any]:
    """Figures of each part. Raises ConfigError for a part that there is not."""
    wanted = tuple(parts) or tuple(PARTS)
    for part in wanted:
        if part not in PARTS:
            raise ConfigError("--part", part, f"must be one of {', '.join(PARTS)}")
    return {part: import_module(PARTS[part]).measure(seconds, tell) for part in wanted}


def outside(result: Mapping[str, Any]) -> list[str]:
    """The bounds that were not kept, as ``part.bound``."""
    return [
        f"{part}.{bound}"
        for part, figures in result.items()
        for bound, kept in figures.get("within", {}).items()
        if not kept
    ]


def rows(result: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(part, figure, value) of every number, for people."""
    return [
        (part, name, value)
        for part, figures in result.items()
        for name, value in figures.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
