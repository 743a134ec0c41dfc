"""The question of ``bench peers``, its exact answer, and how far the rows of a side are from it. Pure.

Asked of every side, for each window of 10 s and each series of the grouping set *engine* of ``llm.requests``: how many
requests, the count, sum and three quantiles of TTFT, and the sum of output tokens. The exact answer comes from the
events themselves, not from any side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.events.grouping import sets_of
from schemas.limits import WINDOW_MS

TOPIC, LATENCY, TOKENS = "llm.requests", "ttft_us", "output_tokens"
(GROUPING,) = (one for one in sets_of(TOPIC) if one.name == "engine")
LEVELS = (0.5, 0.95, 0.99)
Key = tuple[int, tuple[str | None, ...]]
"""Start of the window, and the series."""
_SLACK = 1e-6
"""For exact quantiles between two ranks, computed in floating point."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a side says of one series in one window."""

    key: Key
    events: int
    count: int
    total: int
    tokens: int
    quantiles: tuple[float | None, ...]


@dataclass(slots=True)
class Exact:
    """The truth about one series in one window."""

    events: int = 0
    tokens: int = 0
    values: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a side's rows differ from the truth. ``repeated``: rows that replaced an earlier one of the same key; the
    last one counts. ``quantile_error_max`` is relative, beyond the two ranks that a quantile may lie between."""

    windows: int
    series: int
    events: int
    lost: int
    doubled: int
    wrong_sums: int
    repeated: int
    quantiles: int
    quantile_error_max: float
    quantile_error_allowed: float

    @property
    def equal(self) -> bool:
        """Every count and sum is right, and every quantile within the side's own error."""
        within = self.quantile_error_max <= self.quantile_error_allowed + _SLACK
        return not (self.lost or self.doubled or self.wrong_sums) and within


def exact(records: Iterable[bytes], from_ms: int, to_ms: int) -> dict[Key, Exact]:
    """The truth about the windows of [from_ms, to_ms), from records of NDJSON."""
    found: dict[Key, Exact] = {}
    for record in records:
        for line in record.splitlines():
            event = orjson.loads(line)
            window_ms = event["at_ms"] // WINDOW_MS * WINDOW_MS
            if from_ms <= window_ms < to_ms:
                key = (window_ms, tuple(map(event.get, GROUPING.dimensions)))
                _add(found.setdefault(key, Exact()), event)
    for one in found.values():
        one.values.sort()
    return found


def _add(one: Exact, event: Mapping[str, Any]) -> None:
    one.events += 1
    one.tokens += event[TOKENS] or 0
    if event[LATENCY] is not None:
        one.values.append(event[LATENCY])


def events_by_window(truth: Mapping[Key, Exact]) -> dict[int, int]:
    """Requests of each window."""
    found: dict[int, int] = {}
    for (window_ms, _), one in truth.items():
        found[window_ms] = found.get(window_ms, 0) + one.events
    return found


def row(value: bytes) -> Row:
    """A row as the peers' programs write it: an object with an array ``series`` and the numbers; no sum is 0."""
    got = orjson.loads(value)
    key = (int(got["window_ms"]), tuple(got["series"]))
    quantiles = tuple(got["quantiles"]) if got["count"] else (None,) * len(LEVELS)
    return Row(key, got["events"], got["count"], got["total"] or 0, got["tokens"] or 0, quantiles)


def judge(truth: Mapping[Key, Exact], rows: Iterable[Row], error_allowed: float) -> Verdict:
    """Compare the last row of every key with the truth; rows of windows that are not asked for are left out."""
    asked = {window_ms for window_ms, _ in truth}
    last: dict[Key, Row] = {}
    repeated = 0
    for one in rows:
        if one.key[0] in asked:
            repeated += one.key in last
            last[one.key] = one
    lost = sum(max(0, one.events - _events(last, key)) for key, one in truth.items())
    doubled = sum(max(0, one.events - _events(truth, key)) for key, one in last.items())
    sound = [(one, last[key]) for key, one in truth.items() if _events(last, key) == one.events]
    errors = list(_errors(sound))
    return Verdict(
        windows=len(asked),
        series=len(truth),
        events=sum(one.events for one in truth.values()),
        lost=lost,
        doubled=doubled,
        wrong_sums=sum(not _same_sums(*pair) for pair in sound),
        repeated=repeated,
        quantiles=len(errors),
        quantile_error_max=max(errors, default=0.0),
        quantile_error_allowed=error_allowed,
    )


def _events(found: Mapping[Key, Row] | Mapping[Key, Exact], key: Key) -> int:
    one = found.get(key)
    return 0 if one is None else one.events


def _same_sums(truth: Exact, seen: Row) -> bool:
    return (len(truth.values), sum(truth.values), truth.tokens) == (seen.count, seen.total, seen.tokens)


def _errors(pairs: Iterable[tuple[Exact, Row]]) -> Iterator[float]:
    for truth, seen in pairs:
        for q, value in zip(LEVELS, seen.quantiles, strict=True):
            if truth.values:
                yield quantile_error(truth.values, q, value)


def quantile_error(values: Sequence[int], q: float, value: float | None) -> float:
    """How far a quantile of sorted values is outside the two ranks around q (n - 1), relative to the nearer one."""
    if value is None:
        return 1.0
    rank = q * (len(values) - 1)
    below, above = values[int(rank)], values[-int(-rank // 1)]
    return max(0.0, (below - value) / max(below, 1), (value - above) / max(above, 1))


def wrong_of_ours(sides: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Sides of ours that did not give the exact answer, or lost or doubled something after a kill."""
    return [name for name, side in sides.items() if name.startswith("fleetpulse") and not _is_right(side)]


def _is_right(side: Mapping[str, Any]) -> bool:
    killed = side.get("killed", {})
    return bool(side["equal"]) and not any(killed.get(name) for name in ("lost", "doubled", "wrong_sums"))


def table(sides: Mapping[str, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """One line for each side: what was measured, None where that was not run."""
    return [
        (
            name,
            side.get("cpu_s_per_million"),
            side.get("times_ours"),
            side.get("memory_peak_bytes", 0) / 2**20 or None,
            side.get("freshness", {}).get("p50_s"),
            side.get("freshness", {}).get("max_s"),
            side.get("equal"),
            side.get("killed", {}).get("lost"),
            side.get("killed", {}).get("doubled"),
            side.get("killed", {}).get("repeated"),
            side.get("killed", {}).get("resumed_s"),
        )
        for name, side in sides.items()
    ]


COLUMNS = (
    "side", "CPU s/1e6 events", "x ours", "memory peak MiB", "fresh p50 s", "max s", "equal", "kill -9: lost",
    "doubled", "rows twice", "resumed s",
)  # fmt: skip
