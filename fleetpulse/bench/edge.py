"""``fleetpulse bench edge``: what the edge costs, part by part: the agent, the proxy, the SDK.

Every part gives figures and, as ``within``, which bounds they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from schemas.errors import ConfigError

Tell = Callable[[str], None]

PROXY_ROUND_S = 20
"""What a round with the proxy, two without and one through the bare relay take together."""


def _agent(seconds: int, tell: Tell) -> dict[str, Any]:
    from fleetpulse.bench.agent import measure

    return measure(seconds, tell)


def _proxy(seconds: int, tell: Tell) -> dict[str, Any]:
    from fleetpulse.bench.proxy import run

    rounds = max(1, seconds // PROXY_ROUND_S)
    tell(f"{rounds} rounds without the proxy, with it, through a bare relay, and without it again")
    figures = run(rounds=rounds)
    targets = figures["targets"]
    at_most = {name: figures[name] <= targets[name] for name in ("added_ttft_p99_us", "added_chunk_p99_us")}
    enough = (figures["chunks_per_cpu_s"] or 0) >= targets["chunks_per_cpu_s"]
    whole = {
        "streams_identical": figures["streams_identical"],
        "events": figures["events"] == figures["events_expected"],
    }
    return figures | {"within": at_most | {"chunks_per_cpu_s": enough} | whole}


def _sdk(seconds: int, tell: Tell) -> dict[str, Any]:
    from fleetpulse.bench.sdk import measure

    return measure(max(1, seconds // 10), tell)


PARTS: Mapping[str, Callable[[int, Tell], dict[str, Any]]] = {"agent": _agent, "proxy": _proxy, "sdk": _sdk}


def measure(parts: Iterable[str], seconds: int, tell: Tell) -> dict[str, Any]:
    """Figures of each part. Raises ConfigError for a part that there is not."""
    wanted = tuple(parts) or tuple(PARTS)
    for part in wanted:
        if part not in PARTS:
            raise ConfigError("--part", part, f"must be one of {', '.join(PARTS)}")
    return {part: PARTS[part](seconds, tell) for part in wanted}


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
