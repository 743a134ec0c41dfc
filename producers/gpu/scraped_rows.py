"""Rows of ``gpu.samples`` from scraped values (dcgm-exporter, nvidia-smi), by a table of sources per field. Pure.

As in ``producers.gpu.rows``: gauges as they are, counters as their growth since the last known value, split where the
interval crosses the edge of a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from producers.differences import INTERVAL_MS_MAX, RowValues, since, split
from producers.gpu.rows import CUT_TO_INTERVAL

Nature = Literal["gauge", "counter", "rate"]


@dataclass(frozen=True, slots=True)
class SampleField:
    """``name`` as in ``gpu.samples``; the sum of ``sources``, which ``partial`` may be known in part.

    ``otherwise`` is taken where ``sources`` are missing. A ``rate`` is per second and becomes the amount of the
    interval. A counter that grows by more than ``most_per_s`` was misread (0: anything goes).
    """

    name: str
    nature: Nature
    sources: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    partial: bool = False
    most_per_s: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of one GPU by source, in our units. ``monotonic_ms`` counts from the start of the machine."""

    at_ms: int
    monotonic_ms: int
    values: Mapping[str, int]


def sample_rows(fields: Sequence[SampleField], before: Reading | None, now: Reading) -> list[RowValues]:
    """Rows in order of time, at least one; each with its ``at_ms``. ``before``: as ``counters`` gave it."""
    levels: RowValues = {field.name: _level(field, now) for field in fields if field.nature == "gauge"}
    interval_ms = now.monotonic_ms - before.monotonic_ms if before is not None else 0
    if before is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return [{"at_ms": now.at_ms, **levels}]
    grown = {field.name: _growth(field, before, now, interval_ms) for field in fields if field.nature != "gauge"}
    rows = split(now.at_ms, interval_ms, grown)
    return [*rows[:-1], {**levels, **rows[-1]}]


def counters(before: Reading | None, now: Reading) -> Reading:
    """What to compare the next reading with: the newest known value of everything."""
    return replace(now, values={**before.values, **now.values} if before is not None else now.values)


def _level(field: SampleField, now: Reading) -> int | None:
    for sources in (field.sources, field.otherwise):
        known = [now.values[source] for source in sources if source in now.values]
        if known and len(known) == len(sources):
            return sum(known)
    return None


def _growth(field: SampleField, before: Reading, now: Reading, interval_ms: int) -> int | None:
    if field.nature == "rate":
        per_s = _level(field, now)
        return None if per_s is None else round(per_s * interval_ms / 1_000)
    grown = _known(since(before.values.get(source), now.values.get(source)) for source in field.sources)
    if not grown or (len(grown) < len(field.sources) and not field.partial):
        return None
    total = sum(grown)
    if field.most_per_s and total > field.most_per_s * max(interval_ms, 1_000) // 1_000:
        return None
    return min(total, interval_ms * 1_000) if field.name in CUT_TO_INTERVAL else total


def _known(amounts: Iterable[int | None]) -> list[int]:
    return [amount for amount in amounts if amount is not None]
