"""What a range should say, counted from single rows by plain loops: no SQL, no table of windows, no code of ours.

A range counts the requests and readings whose window of ten seconds begins in it. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from lab.oracle.bills import HOUR_MS, Bill, BillLine, Part, by_hour, money
from lab.oracle.engines import EngineSample, beside_the_worst, by_batch, queues
from lab.oracle.groups import grouped
from lab.oracle.inventory import MINUTE_MS, coverage, read
from lab.oracle.machines import WINDOW_MS, HostSample, Sample, hosts, readings
from lab.oracle.value import SKETCH_ERROR, Key, Value, exactly, merged, percentile, percentile_of_bins

GAP_MS = 5 * MINUTE_MS
"""Shorter gaps between windows with data count as covered."""
PERCENTS = (50, 95, 99)
SPREAD = (1, 25, 50, 75, 99, 99.9)
"""Percentiles of a whole distribution."""
SLIDING = 6
"""Windows with data of which a sliding percentile is."""
FAST_US = 500_000
KEPT_COUNTS = 64
RATES = ("requests", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Request:
    """One row of ``llm.requests`` that was accepted."""

    at_ms: int
    model: str
    tenant: str
    status: str
    error_kind: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    ttft_us: int | None
    slo_class: str = ""
    tpot_us: int | None = None
    e2e_us: int | None = None
    host: str = ""
    engine_id: str | None = None
    queue_us: int | None = None
    itl_bins: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raw:
    """What there is, each sorted by its time. ``windows``: starts of those in which anything reported; ``objectives``:
    of each service class the longest TTFT, TPOT and end to end [us], None for any."""

    requests: Sequence[Request] = ()
    parts: Sequence[Part] = ()
    bills: Sequence[Bill] = ()
    lines: Sequence[BillLine] = ()
    windows: Sequence[int] = ()
    objectives: Mapping[str, tuple[int | None, int | None, int | None]] = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    engines: Sequence[EngineSample] = ()
    hosts: Sequence[HostSample] = ()


def outcome(request: Request) -> str:
    """How it ended, in one of four words."""
    if request.status in ("ok", "aborted"):
        return request.status
    return "client_fault" if request.error_kind == "client" else "failed"


def verdict(request: Request, objectives: Mapping[str, tuple[int | None, ...]]) -> str | None:
    """Good, missed or failed; None: not judged, of no class, a client fault, or left before any miss."""
    if request.slo_class not in objectives or request.error_kind == "client":
        return None
    times = (request.ttft_us, request.tpot_us, request.e2e_us)
    missed = any(
        most is not None and time is not None and time > most
        for time, most in zip(times, objectives[request.slo_class], strict=True)
    )
    if request.status not in ("ok", "aborted"):
        return "failed"
    if missed:
        return "missed"
    return "good" if request.status == "ok" else None


def goodput(group: Sequence[Request], objectives: Mapping[str, tuple[int | None, ...]]) -> dict[str, float]:
    """Verdicts of the requests that are judged; nothing where none is."""
    verdicts = [(verdict(one, objectives), one) for one in group]
    good = [one for said, one in verdicts if said == "good"]
    judged = sum(said is not None for said, _ in verdicts)
    if not judged:
        return {}
    return {
        "judged": judged,
        "good": len(good),
        "judged_failed": sum(said == "failed" for said, _ in verdicts),
        "missed": sum(said == "missed" for said, _ in verdicts),
        "good_tokens": sum(one.input_tokens + one.output_tokens for one in good),
        "good_share": len(good) / judged,
    }


class Recount:
    """Every metric of ranges over these rows. Ranges that hold the same rows share what is counted of them."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._gpus = read(raw.samples)
        self._counted = lru_cache(KEPT_COUNTS)(self._count)

    def over(self, from_ms: int, to_ms: int) -> dict[Key, Value]:
        """By model, by tenant, by whatever has rows, and of all; what did not happen is not there. The slowest single
        request is of those that ended in the range."""
        raw, first, last = self._raw, *(-(-one // WINDOW_MS) * WINDOW_MS for one in (from_ms, to_ms))
        requests, samples, engines, machines = (
            (name, *_between(getattr(raw, name), "at_ms", first, last))
            for name in ("requests", "samples", "engines", "hosts")
        )
        bills, parts, lines = (
            (name, *_between(rows, "minute_ms", from_ms, to_ms))
            for name, rows in (("bills", raw.bills), ("parts", raw.parts), ("lines", raw.lines))
        )
        found: dict[Key, Value] = {}
        for count, *rows in ((self._of_requests, requests), (readings, samples), (queues, engines),
                             (hosts, machines), (by_batch, requests, engines), (beside_the_worst, requests, samples),
                             (money, bills, parts, lines)):  # fmt: skip
            found |= self._counted(count, *rows)
        if not from_ms % HOUR_MS and not to_ms % HOUR_MS:
            found |= self._counted(by_hour, parts, lines)
        found |= _values(coverage(self._gpus, raw.bills, from_ms, to_ms))
        ended = raw.requests[slice(*_between(raw.requests, "at_ms", from_ms, to_ms))]
        if waited := [one.ttft_us for one in ended if one.ttft_us is not None]:
            found["ttft_us_max", "all"] = exactly(max(waited))
        return found | self._rates(found, from_ms, to_ms)

    def _count(self, count: Callable[..., Mapping[Key, Any]], *held: tuple[str, int, int]) -> dict[Key, Value]:
        return _values(count(*(getattr(self._raw, name)[first:last] for name, first, last in held)))

    def _of_requests(self, requests: Sequence[Request]) -> dict[Key, Value]:
        return of_requests(requests, self._raw.objectives)

    def _rates(self, found: Mapping[Key, Value], from_ms: int, to_ms: int) -> dict[Key, Value]:
        """Of the time that has data; and when there first was any."""
        if not self._raw.windows:
            return {}
        covered_s = covered_ms(self._raw.windows, from_ms, to_ms) / 1_000
        rates = {("covered_s", "all"): exactly(covered_s), ("first_ms", "all"): exactly(self._raw.windows[0])}
        for _, of in [key for key in found if key[0] == "requests" and not key[1].endswith("=None")]:
            if covered_s:
                rates |= {(f"{name}_per_s", of): exactly(found[name, of].least / covered_s) for name in RATES}
        return rates


def _between(rows: Sequence[Any], name: str, from_ms: int, to_ms: int) -> tuple[int, int]:
    """Where the rows of the range begin and end."""
    first, last = (bisect_left(rows, one, key=lambda row: getattr(row, name)) for one in (from_ms, to_ms))
    return first, last


def _values(found: Mapping[Key, Any]) -> dict[Key, Value]:
    return {key: one if isinstance(one, Value) else exactly(one) for key, one in found.items()}


def of_requests(requests: Sequence[Request], objectives: Mapping[str, tuple[int | None, ...]]) -> dict[Key, Value]:
    """Ends, tokens, verdicts and latencies."""
    found: dict[Key, Value] = {}
    for name, group in grouped((name, one) for one in requests for name in _names_of(one)).items():
        counts = _counts(group) | goodput(group, objectives)
        found |= {(metric, name): exactly(value) for metric, value in counts.items()} | _latencies(name, group)
    return found | _sliding(requests)


def _names_of(one: Request) -> Sequence[str]:
    names = ["all", f"model={one.model}", f"tenant={one.tenant}", f"class={one.slo_class}", f"host={one.host}"]
    return names if one.engine_id is None else [*names, f"engine={one.engine_id}"]


def _latencies(name: str, group: Sequence[Request]) -> dict[Key, Value]:
    """Of time to first token in all groups; of others where somebody asks."""
    waits = sorted(one.ttft_us for one in group if one.ttft_us is not None)
    found = {("ttft_counted", name): exactly(len(waits))}
    if waits:
        found |= {(f"ttft_us_p{one}", name): percentile(waits, one / 100) for one in PERCENTS}
        found["fast_share", name] = fast_share(waits)
    if name.startswith(("engine=", "host=")):
        queued = sorted(one.queue_us for one in group if one.queue_us is not None)
        found |= {("queue_us_p99", name): percentile(queued, 0.99)} if queued else {}
    if not name.startswith(("model=", "tenant=")):
        return found
    if whole := sorted(one.e2e_us for one in group if one.e2e_us is not None):
        found |= {(f"e2e_us_p{one}", name): percentile(whole, one / 100) for one in SPREAD}
    if each := sorted(one.tpot_us for one in group if one.tpot_us is not None):
        found["tpot_us_p99", name] = percentile(each, 0.99)
    bins = merged(one.itl_bins for one in group)
    found["gaps", name] = exactly(sum(bins.values()))
    return found | ({(f"itl_us_p{one}", name): percentile_of_bins(bins, one / 100) for one in (50, 99)} if bins else {})


def _sliding(requests: Sequence[Request]) -> dict[Key, Value]:
    """The 99th percentile of time to first token of each window with requests and the five such before it."""
    windows: dict[int, list[int]] = {}
    for one in requests:
        waits = windows.setdefault(one.at_ms // WINDOW_MS * WINDOW_MS, [])
        waits += [] if one.ttft_us is None else [one.ttft_us]
    found, rising = dict[Key, Value](), sorted(windows)
    for place, window_ms in enumerate(rising, 1):
        if waits := sorted(us for one in rising[max(0, place - SLIDING) : place] for us in windows[one]):
            found["sliding_ttft_us_p99", f"window={window_ms}"] = percentile(waits, 0.99)
    return found


def covered_ms(windows: Sequence[int], from_ms: int, to_ms: int) -> int:
    """How much of the range has data: up to an hour by windows, else by minutes; beyond six hours an hour between two
    with data counts whole. Gaps of five minutes at most count."""
    inside = windows[bisect_left(windows, from_ms) : bisect_left(windows, to_ms)]
    pieces = {(one, WINDOW_MS) for one in inside}
    if to_ms - from_ms > HOUR_MS:
        pieces = {(minute, MINUTE_MS) if from_ms <= minute <= to_ms - MINUTE_MS else (one, WINDOW_MS)
                  for one in inside for minute in [one - one % MINUTE_MS]}  # fmt: skip
    if to_ms - from_ms > 6 * HOUR_MS:
        reported = windows[bisect_left(windows, from_ms - from_ms % HOUR_MS) : bisect_left(windows, to_ms + HOUR_MS)]
        hours = {one // HOUR_MS for one in reported if from_ms - HOUR_MS < one - one % HOUR_MS < to_ms}
        whole = {hour for hour in hours if {hour - 1, hour + 1} <= hours}
        pieces = {one for one in pieces if one[0] // HOUR_MS not in whole}
        pieces |= {(hour * HOUR_MS, HOUR_MS) for hour in whole}
    rising = sorted(pieces)
    gaps_ms = [after - start for (start, _), (after, _) in pairwise(rising)] + [math.inf]
    return sum(
        int(gap_ms) if gap_ms <= max(width, GAP_MS) else width
        for (_, width), gap_ms in zip(rising, gaps_ms, strict=False)
    )


def fast_share(rising: Sequence[int]) -> Value:
    """How many were at most ``FAST_US``; those that the sketch may take for the other side, a bin around, may count."""
    bounds = (FAST_US * (1 - 2 * SKETCH_ERROR), FAST_US * (1 + 2 * SKETCH_ERROR))
    return Value(*(bisect_right(rising, one) / len(rising) for one in bounds))


def _counts(group: Sequence[Request]) -> dict[str, float]:
    ends = Counter(map(outcome, group))
    valid = len(group) - ends["client_fault"]
    tokens = {
        name: sum(getattr(one, name) for one in group) for name in ("input_tokens", "cached_tokens", "output_tokens")
    }
    return {
        "requests": len(group),
        "tokens": tokens["input_tokens"] + tokens["output_tokens"],
        **{end: ends[end] for end in ("ok", "aborted", "client_fault", "failed")},
        **({"failed_share": ends["failed"] / valid} if valid else {}),
        **({"cache_hit_share": tokens["cached_tokens"] / all_of} if (all_of := tokens["input_tokens"]) else {}),
        "not_ok": len(group) - ends["ok"],
        **tokens,
    }
