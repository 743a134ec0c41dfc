"""GPUs that should report, minute by minute: those that did, and what the silence of the others costs. Plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.oracle.bills import HOUR_MS, Bill
from lab.oracle.machines import Sample
from lab.oracle.value import Key

MINUTE_MS, TAIL_MS = 60_000, 10_000
KEPT = 24 * 60
"""So many minutes after its last reading a GPU is of the inventory."""
HOUR = 60
Place = tuple[str, str, str]
"""Cluster, region and type."""


@dataclass(slots=True)
class Minute:
    """Readings of a GPU in a minute: how far into it the last one came, and the time that they cover [ms]."""

    last_ms: int = 0
    covered_ms: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """Minutes in which each GPU was read, and where it stands."""

    minutes: Mapping[str, Mapping[int, Minute]]
    places: Mapping[str, Place]


def read(samples: Sequence[Sample]) -> Read:
    """Of all readings that there are."""
    minutes: dict[str, dict[int, Minute]] = {}
    places: dict[str, Place] = {}
    for one in samples:
        minute = minutes.setdefault(one.gpu_uuid, {}).setdefault(one.at_ms // MINUTE_MS, Minute())
        minute.last_ms = max(minute.last_ms, one.at_ms % MINUTE_MS)
        minute.covered_ms += one.interval_ms or 0
        places[one.gpu_uuid] = (one.cluster, one.region, one.gpu_model)
    return Read(minutes, places)


def coverage(gpus: Read, bills: Sequence[Bill], from_ms: int, to_ms: int) -> dict[Key, float]:
    """Of whole minutes, before the newest of all GPUs; by type and of all."""
    begin, end = (-(-one // MINUTE_MS) for one in (from_ms, to_ms))
    near = [one for each in gpus.minutes.values() for one in each if begin - KEPT <= one <= end + KEPT]
    found: dict[Key, float] = {}
    if not near:
        return found
    stop = min(max(near), end)
    silent, rates = Counter[tuple[int, Place]](), _rates(bills, begin, end)

    def add(metric: str, model: str, amount: int) -> None:
        for of in ("all", f"gpu_model={model}"):
            found[metric, of] = found.get((metric, of), 0) + amount

    for gpu, minutes in gpus.minutes.items():
        place = gpus.places[gpu]
        for hour, kept, reported_ms in _hours(minutes, begin, stop):
            add("inventory_gpu_ms", place[2], kept * MINUTE_MS)
            add("reporting_gpu_ms", place[2], reported_ms)
            add("silent_gpu_ms", place[2], kept * MINUTE_MS - reported_ms)
            silent[hour, place] += kept * MINUTE_MS - reported_ms
    for bill in bills:
        if begin * MINUTE_MS <= bill.minute_ms < stop * MINUTE_MS:
            add("billed_gpu_ms", bill.gpu_model, bill.gpu_ms)
    for (hour, place), quiet_ms in silent.items():
        known = [rate for at, rate in rates.get(place[1:], ()) if at <= hour]
        add("unobserved_nusd", place[2], (quiet_ms * (known or [0])[-1] + HOUR_MS // 2) // HOUR_MS)
    return found


def _hours(minutes: Mapping[int, Minute], begin: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Hours of a GPU: how many minutes it is of the inventory, and for how long it reported [ms].

    Readings that cover all but ten seconds of what has passed of an hour leave nothing silent."""
    kept, reported = Counter[int](), Counter[int]()
    rising = sorted(one for one in minutes if begin - KEPT <= one < stop)
    for one, after in zip(rising, [*rising[1:], stop], strict=False):
        for minute in range(max(one, begin), min(after, one + KEPT + 1, stop)):
            kept[minute // HOUR] += 1
    for hour in kept:
        inside = [one for one in rising if one // HOUR == hour]
        over = min((hour + 1) * HOUR, stop)
        if sum(minutes[one].covered_ms for one in inside) >= (over - hour * HOUR) * MINUTE_MS - TAIL_MS:
            reported[hour] = kept[hour] * MINUTE_MS
        else:
            reported[hour] = sum(_reported_ms(minutes[one]) for one in inside if one >= begin)
        yield hour, kept[hour], reported[hour]


def _reported_ms(minute: Minute) -> int:
    if minute.last_ms >= MINUTE_MS - TAIL_MS:
        return MINUTE_MS
    return MINUTE_MS - min(MINUTE_MS - minute.last_ms, max(MINUTE_MS - minute.covered_ms, 0))


def _rates(bills: Sequence[Bill], begin: int, end: int) -> Mapping[tuple[str, str], Sequence[tuple[int, int]]]:
    """What an hour of a GPU was billed at, by region and type, in each hour: whole ones, and those of a day before."""
    spent: dict[tuple[tuple[str, str], int], list[int]] = {}
    for one in bills:
        near = (begin - KEPT - HOUR) * MINUTE_MS <= one.minute_ms < (end + HOUR) * MINUTE_MS
        if near and one.gpu_nusd is not None and not one.unpriced_gpu_ms:
            sums = spent.setdefault(((one.region, one.gpu_model), one.minute_ms // HOUR_MS), [0, 0])
            sums[0] += one.gpu_nusd + (one.host_nusd or 0)
            sums[1] += one.gpu_ms
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for (of, hour), (nusd, gpu_ms) in sorted(spent.items()):
        found.setdefault(of, []).append((hour, (nusd * HOUR_MS + gpu_ms // 2) // gpu_ms if gpu_ms else 0))
    return found
