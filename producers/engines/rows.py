"""Rows of ``engine.samples`` from two readings of one engine, a row per model it serves. Pure.

Counters become what was counted since the reading before. The rules:

- A series that is new in a process that was read before began at 0 (clients make a labelled series when it is first
  counted), unless that earlier scrape had unreadable lines: then it begins with this reading.
- A process that restarted counts from 0. A restart is a new start time or, where none is reported, a counter that fell:
  of the model whose counter it is, since an engine may load one of several anew. What was counted between the last
  reading and the restart is lost; it is not made up.
- A series that is unreadable now makes its field unknown now; the next reading covers the time it was missing.
- Readings further apart than ``INTERVAL_MS_MAX`` have gauges only.
- A row covers the time since the reading before; where that crosses the edge of a window (after a gap) there is a
  row for each window, and all but the last hold differences only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from producers.differences import INTERVAL_MS_MAX, since, split
from producers.engines.mappings import BY_KIND
from producers.engines.reading import Identity, Reading, Series
from schemas.events.event_types import ENGINE_SAMPLES
from schemas.fields import Role

COUNTED = frozenset(field.name for field in ENGINE_SAMPLES.of(Role.DIFFERENCE)) - {"interval_ms"}

_SERVED = ("finished_requests", "generation_tokens")
SERIES_MAX = 10_000
"""Series that are followed; beyond it those that vanished are forgotten."""

Row = dict[str, Any]
SeriesName = tuple[Identity, str, str]


@dataclass(frozen=True, slots=True)
class Known:
    """What is kept between two readings: the last value of every counter, by row, field and series (None: it was
    there, but never readable). ``whole``: a series that is not in ``totals`` did not exist."""

    moment_ms: int
    kind: str
    started_at_s: float | None
    totals: Mapping[SeriesName, int | None]
    whole: bool

    @property
    def has_served(self) -> bool:
        """Whether the process has finished a request or generated a token; True where it reports neither."""
        counted = [value for (_, name, _), value in self.totals.items() if name in _SERVED and value is not None]
        return any(counted) or not counted


def engine_rows(before: Known | None, now: Reading, at_ms: int, moment_ms: int) -> tuple[list[Row], Known]:
    """Rows with ``at_ms``, ``model``, ``model_version``, ``engine_kind`` and fields, each model's in order of time;
    and what to keep. ``at_ms`` is wall time, ``moment_ms`` monotonic. Bounds are not judged."""
    begun = _begun(before, now) if before is not None else frozenset[Identity]()
    interval_ms = moment_ms - before.moment_ms if before is not None else 0
    rows: list[Row] = []
    for identity, fields in now.fields.items():
        named: Row = {"model": identity[0], "model_version": identity[1], "engine_kind": now.kind}
        parts: list[Row] = [{"at_ms": at_ms}]
        if before is not None and 0 < interval_ms <= INTERVAL_MS_MAX:
            parts = [*split(at_ms, interval_ms, _grown(before, identity, fields, identity in begun))]
        rows += [named | part for part in parts[:-1]] + [named | parts[-1] | _levels(now.kind, fields)]
    return rows, _known(_kept(before, now, begun) if before else None, now, moment_ms)


def restart(before: Known, now: Reading) -> bool:
    """True when the process is another one than before, or one of its models was loaded anew."""
    return _another(before, now) or bool(_fell(before, now))


def _another(before: Known, now: Reading) -> bool:
    starts = before.started_at_s, now.started_at_s
    return before.kind != now.kind or (None not in starts and starts[0] != starts[1])


def _fell(before: Known, now: Reading) -> frozenset[Identity]:
    """Models of which a counter fell; none where start times tell."""
    if before.started_at_s is not None and now.started_at_s is not None:
        return frozenset()
    fresh = _totals(now).items()
    return frozenset(name[0] for name, value in fresh if value is not None and value < (before.totals.get(name) or 0))


def _begun(before: Known, now: Reading) -> frozenset[Identity]:
    """Models that count from 0 again."""
    return frozenset(now.fields) if _another(before, now) else _fell(before, now)


def _kept(before: Known, now: Reading, begun: Collection[Identity]) -> Known | None:
    """What is known from before, of those that go on."""
    if _another(before, now):
        return None
    if not begun:
        return before
    return replace(before, totals={name: value for name, value in before.totals.items() if name[0] not in begun})


def _levels(kind: str, fields: Mapping[str, Series]) -> dict[str, int | None]:
    means = {mapping.name for mapping in BY_KIND[kind].fields if mapping.across == "mean"}
    return {
        name: _mean(series) if name in means else _sum(series) for name, series in fields.items() if name not in COUNTED
    }


def _sum(series: Series) -> int | None:
    values = [value for value in series.values() if value is not None]
    return sum(values) if len(values) == len(series) else None


def _mean(series: Series) -> int | None:
    total = _sum(series)
    return None if total is None else round(total / len(series))


def _grown(before: Known, identity: Identity, fields: Mapping[str, Series], restarted: bool) -> dict[str, int | None]:
    grown: dict[str, int | None] = {}
    for name, series in fields.items():
        if name in COUNTED:
            parts = [_part(before, (identity, name, key), value, restarted) for key, value in series.items()]
            known = [part for part in parts if part is not None]
            grown[name] = sum(known) if len(known) == len(parts) else None
    return grown


def _part(before: Known, name: SeriesName, value: int | None, restarted: bool) -> int | None:
    if restarted:
        return value
    return since(before.totals.get(name, 0 if before.whole else None), value)


def _known(before: Known | None, now: Reading, moment_ms: int) -> Known:
    """Series that are missing or unreadable now are kept from before, for when they come back."""
    totals, fresh = dict(before.totals) if before else {}, _totals(now)
    totals |= {name: totals.get(name) if value is None else value for name, value in fresh.items()}
    fits = len(totals) <= SERIES_MAX
    started_at_s = before.started_at_s if before and now.started_at_s is None else now.started_at_s
    return Known(moment_ms, now.kind, started_at_s, totals if fits else fresh, now.whole and fits)


def _totals(now: Reading) -> dict[SeriesName, int | None]:
    return {
        (identity, name, key): value
        for identity, fields in now.fields.items()
        for name, series in fields.items()
        if name in COUNTED
        for key, value in series.items()
    }
