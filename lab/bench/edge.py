"""``fleetpulse bench edge``: what the edge costs, part by part: the agent, the proxy, the SDK.

Every part gives numbers and, as ``within``, which bounds they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from schemas.errors import ConfigError

Say = Callable[[str], None]

PROXY_ROUND_S = 20
"""What a round with the proxy, two without and one through the bare relay take together."""


def _agent(seconds: int, say: Say) -> dict[str, Any]:
    from lab.bench.agent import measure

    return measure(seconds, say)


def _proxy(seconds: int, say: Say) -> dict[str, Any]:
    from lab.bench.proxy import run

    rounds = max(1, seconds // PROXY_ROUND_S)
    say(f"{rounds} rounds without the proxy, with it, through a bare relay, and without it again")
    result = run(rounds=rounds)
    targets = result["targets"]
    at_most = {name: result[name] <= targets[name] for name in ("added_ttft_p99_us", "added_chunk_p99_us")}
    enough = (result["chunks_per_cpu_s"] or 0) >= targets["chunks_per_cpu_s"]
    whole = {
        "streams_identical": result["streams_identical"],
        "events": result["events"] == result["events_expected"],
    }
    return result | {"within": at_most | {"chunks_per_cpu_s": enough} | whole}


def _sdk(seconds: int, say: Say) -> dict[str, Any]:
    from lab.bench.sdk import measure

    return measure(max(1, seconds // 10), say)


PARTS: Mapping[str, Callable[[int, Say], dict[str, Any]]] = {"agent": _agent, "proxy": _proxy, "sdk": _sdk}


def measure(parts: Iterable[str], seconds: int, say: Say) -> dict[str, Any]:
    """Numbers of each part. Raises ConfigError for a part that there is not."""
    wanted = tuple(parts) or tuple(PARTS)
    for part in wanted:
        if part not in PARTS:
            raise ConfigError("--part", part, f"must be one of {', '.join(PARTS)}")
    return {part: PARTS[part](seconds, say) for part in wanted}


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
