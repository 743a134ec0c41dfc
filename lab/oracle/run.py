"""Random ranges over the data that there is, every face's answer beside the recount, and a table of differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any
from zoneinfo import ZoneInfo

from fleetpulse.reconcile.tables import OPEN_BUCKETS
from lab.oracle.bills import Bill, BillLine, part_of
from lab.oracle.engines import EngineSample
from lab.oracle.faces import FACES, ONLY_WITH, WHOLE_MS
from lab.oracle.machines import HostSample, Sample
from lab.oracle.recount import Raw, Recount, Request
from lab.oracle.said import Ask, Said
from lab.oracle.value import Key, Value
from schemas.errors import FleetpulseError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS

RAW = """SELECT at_ms, ifNull(model, 'None') AS model, ifNull(tenant, 'None') AS tenant, status,
ifNull(error_kind, '') AS error_kind, ifNull(input_tokens, 0) AS input_tokens,
ifNull(cached_tokens, 0) AS cached_tokens, ifNull(output_tokens, 0) AS output_tokens, ttft_us,
ifNull(slo_class, '') AS slo_class, tpot_us, e2e_us, ifNull(host, '') AS host, engine_id, queue_us, itl_bins
FROM llm_requests FINAL WHERE verdict = 'accepted' AND at_ms < {before_ms:Int64} ORDER BY at_ms"""
RAW_BILLS = """SELECT minute_ms, use, owner, gpu_ms, ifNull(region, '') AS region, ifNull(gpu_model, '') AS gpu_model,
total_nusd, gpu_nusd, host_nusd, energy_mj, meter_mj, carbon_ug, unpriced_gpu_ms, estimated_gpu_ms, t.final AS final
FROM token_costs AS t FINAL WHERE minute_ms < {before_ms:Int64} ORDER BY minute_ms"""
RAW_PARTS = """SELECT minute_ms, part_name AS part, ifNull(part_model, 'None') AS model,
ifNull(part_tenant, 'None') AS tenant, part_status AS status, part_cost_nusd AS cost_nusd, part_energy_mj AS energy_mj,
part_kind AS kind, part_amount AS amount, use, owner, ifNull(t.gpu_model, '') AS gpu_model, carbon_ug AS carbon_ug,
t.energy_mj AS bill_energy_mj, t.meter_mj AS bill_meter_mj, part_gpu_ms AS gpu_ms
FROM token_costs AS t FINAL ARRAY JOIN part_name, part_model, part_tenant, part_status, part_cost_nusd, part_energy_mj,
part_kind, part_amount, part_gpu_ms, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS carbon_ug
WHERE minute_ms < {before_ms:Int64} ORDER BY minute_ms"""
RAW_LINES = """SELECT minute_ms, ifNull(line_model, 'None') AS model, ifNull(line_tenant, 'None') AS tenant,
ifNull(t.gpu_model, '') AS gpu_model, toInt64(line_requests) AS requests, line_prefill_tokens AS prefill_tokens,
line_cached_tokens AS cached_tokens, line_decode_tokens AS decode_tokens, line_status AS status,
arrayFilter(one -> one != '', [if(total_nusd IS NULL, '', 'usd'), if(t.meter_mj IS NULL, '', 'kwh'),
if(t.carbon_ug IS NULL, '', 'g')]) AS has
FROM token_costs AS t FINAL ARRAY JOIN line_model, line_tenant, line_requests, line_prefill_tokens, line_cached_tokens,
line_decode_tokens, line_status WHERE minute_ms < {before_ms:Int64} ORDER BY minute_ms"""
RAW_SAMPLES = """SELECT at_ms, gpu_uuid, ifNull(gpu_model, 'None') AS gpu_model, util_gpu_pct, temperature_c, power_mw,
energy_mj, engine_id, ifNull(cluster, '') AS cluster, ifNull(region, '') AS region, interval_ms, throttled_us,
throttled_fault_us, clock_sm_mhz, parent_uuid
FROM gpu_samples FINAL WHERE verdict = 'accepted' AND at_ms < {before_ms:Int64} ORDER BY at_ms"""
RAW_ENGINES = """SELECT at_ms, engine_id, ifNull(model, 'None') AS model, running, waiting, kv_used_ppm, preemptions,
prompt_tokens, prefix_hit_tokens
FROM engine_samples FINAL WHERE verdict = 'accepted' AND at_ms < {before_ms:Int64} ORDER BY at_ms"""
RAW_HOSTS = """SELECT at_ms, host, cpu_busy_ppm, cpu_core_busy_max_ppm, memory_used_bytes, memory_total_bytes,
network_tx_bytes, network_rx_bytes, network_errors, interval_ms, tcp_retransmits, tcp_segments_out
FROM host_samples FINAL WHERE verdict = 'accepted' AND at_ms < {before_ms:Int64} ORDER BY at_ms"""
RAW_WINDOWS = " UNION DISTINCT ".join(
    f"SELECT DISTINCT intDiv(at_ms, {WINDOW_MS}) * {WINDOW_MS} AS window_ms FROM {table}"
    " WHERE verdict = 'accepted' AND at_ms < {before_ms:Int64}"
    for table in ("llm_requests", "gpu_samples", "host_samples", "engine_samples")
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe")
"""Whole, half and quarter hours; three have days of 23, 23.5 and 25 hours."""
SHORTEST_MS, LONGEST_MS = MINUTE_MS, 30 * DAY_MS
EXAMPLES = 3
_GRAINS_MS = (HOUR_MS, MINUTE_MS, WINDOW_MS, 1)
Dimension = tuple[str, str]
"""A metric and what it is by: ``model``, ``tenant``, ``all``."""
Objectives = Mapping[str, tuple[int | None, int | None, int | None]]
"""Of each service class the longest TTFT, TPOT and end to end [us]."""


OnProgress = Callable[[int, int], None]
"""How many ranges are done, of how many."""


@dataclass(frozen=True, slots=True)
class Range:
    """[from, to) and how its ends were chosen."""

    from_ms: int
    to_ms: int
    ends: str

    @property
    def grain_ms(self) -> int:
        """The widest of the usual widths that both ends are whole in."""
        return next(one for one in _GRAINS_MS if not self.from_ms % one and not self.to_ms % one)


@dataclass(slots=True)
class Line:
    """One metric of one face: how many answers were compared, of them those about something (of the others nothing was
    to be said), how many differed, the first that did."""

    compared: int = 0
    of_something: int = 0
    different: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """All lines, by face and metric."""

    ranges: int
    requests: int
    lines: dict[tuple[str, str], Line] = field(default_factory=dict)
    _has: dict[tuple[str, int], set[Dimension]] = field(default_factory=dict, repr=False)
    """What a face has said of any range, by their grain."""
    _unsaid: dict[tuple[str, Dimension, Range], tuple[Key, Value]] = field(default_factory=dict, repr=False)
    """What it had nothing to say about, though there was something; one example each."""
    _met: set[str] = field(default_factory=set, repr=False)
    """Faces whose condition (``ONLY_WITH``, ``WHOLE_MS``) some range met."""

    @property
    def silent(self) -> list[str]:
        """Faces that said nothing over any range, though their condition was met where they have one."""
        excused = (ONLY_WITH.keys() | WHOLE_MS.keys()) - self._met
        return sorted(FACES.keys() - {face for face, _ in self.lines} - excused)

    @property
    def exact(self) -> bool:
        """Whether something of every face was compared, and nothing differed."""
        return bool(self.lines) and not self.silent and not any(line.different for line in self.lines.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        lines = [
            {
                "face": face,
                "metric": metric,
                "compared": one.compared,
                "of_something": one.of_something,
                "different": one.different,
                "examples": one.examples,
            }
            for (face, metric), one in sorted(self.lines.items())
        ]
        return {"ranges": self.ranges, "requests": self.requests, "silent": self.silent, "lines": lines}

    def take(self, face: str, said: Mapping[Key, Any], expected: Mapping[Key, Value], over: Range) -> None:
        """Compare a face's answers. Something that only the recount has differs, unless the face has no such metric:
        none in this range, or, once all are ``finished``, in any."""
        dimensions = {_dimension(key) for key in said}
        wanted = {key: value for key, value in expected.items() if _dimension(key) in dimensions}
        for key in sorted({*said, *wanted}):
            self._compare(face, key, said.get(key), wanted.get(key, Value(0, 0)), over)
        self._has.setdefault((face, over.grain_ms), set()).update(dimensions)
        needed = ONLY_WITH.get(face)
        if (needed is not None and needed not in expected) or over.grain_ms < WHOLE_MS.get(face, 0):
            return
        self._met.add(face)
        for key, right in expected.items():
            if _dimension(key) not in dimensions and not right.holds(None):
                self._unsaid.setdefault((face, _dimension(key), over), (key, right))

    def finished(self) -> None:
        """Of what a face says of some ranges it says something of all that are whole in the same width."""
        for (face, dimension, over), (key, right) in self._unsaid.items():
            grains = [grain_ms for (of, grain_ms), has in self._has.items() if of == face and dimension in has]
            if any(not over.grain_ms % grain_ms for grain_ms in grains):
                self._compare(face, key, None, right, over)
        self._unsaid.clear()

    def _compare(self, face: str, key: Key, got: Any, right: Value, over: Range) -> None:
        line = self.lines.setdefault((face, key[0]), Line())
        line.compared += 1
        line.of_something += not right.holds(None)
        if right.holds(got):
            return
        line.different += 1
        if len(line.examples) < EXAMPLES:
            line.examples.append(f"{key[1]} over [{over.from_ms}, {over.to_ms}), {over.ends}: {got}, not {right}")


def _dimension(key: Key) -> Dimension:
    return key[0], key[1].partition("=")[0]


def ranges_over(first_ms: int, last_ms: int, count: int, seed: int) -> Iterator[Range]:
    """Ranges of a minute to thirty days with ends of any kind, before, across and after [first, last]."""
    chance = random.Random(seed)
    for number in range(count):
        length_ms = round(SHORTEST_MS * (LONGEST_MS / SHORTEST_MS) ** chance.random())
        near_ms = chance.randint(first_ms - length_ms, last_ms)
        kind = ("any", "window", "minute", "hour", *ZONES)[number % (4 + len(ZONES))]
        if kind in ZONES:
            yield _local_days(near_ms, kind, 1 + length_ms // DAY_MS)
            continue
        grain_ms = {"any": 1, "window": WINDOW_MS, "minute": MINUTE_MS, "hour": HOUR_MS}[kind]
        from_ms = near_ms // grain_ms * grain_ms
        yield Range(from_ms, from_ms + max(grain_ms, length_ms // grain_ms * grain_ms), kind)


def _local_days(near_ms: int, zone: str, days: int) -> Range:
    """So many days of somebody's calendar, from the midnight before a moment."""
    start = datetime.fromtimestamp(near_ms / 1_000, ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    end = (start.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=start.tzinfo)
    return Range(round(start.timestamp() * 1_000), round(end.timestamp() * 1_000), f"days of {zone}")


def compare(asks: Sequence[Ask], raw: Raw, ranges: Sequence[Range], on_progress: OnProgress) -> Comparison:
    """Every face over every range, as many ranges at one time as there are ``asks``: a server spends most of a small
    query reading it, in one thread."""
    found, recount = Comparison(len(ranges), len(raw.requests)), Recount(raw)
    free = SimpleQueue[Ask]()
    for one in asks:
        free.put(one)

    def answers(over: Range) -> list[tuple[str, Said]]:
        ask = free.get()
        try:
            return [(face, said(ask, over.from_ms, over.to_ms)) for face, said in FACES.items()]
        finally:
            free.put(ask)

    with ThreadPoolExecutor(len(asks)) as pool:
        try:
            for done, (over, said) in enumerate(zip(ranges, pool.map(answers, ranges), strict=True)):
                on_progress(done, len(ranges))
                expected = recount.over(over.from_ms, over.to_ms)
                for face, answer in said:
                    found.take(face, answer, expected, over)
        finally:
            pool.shutdown(cancel_futures=True)
    found.finished()
    return found


def oracle(
    asks: Sequence[Ask],
    count: int,
    seed: int,
    before_ms: int,
    objectives: Objectives,
    on_progress: OnProgress = lambda done, total: None,
) -> Comparison:
    """Over the accepted requests that ended before a moment: later ones may not be in every table yet. Each of ``asks``
    is used by one thread at a time. Raises ``FleetpulseError`` while rollups lack rows that are there."""
    ask = asks[0]
    if waiting := len(ask(OPEN_BUCKETS, {})):
        raise FleetpulseError(
            f"{waiting} buckets of rollups have changed and are not computed yet: pages would differ from single rows."
            " Stop what produces, and run `fleetpulse sink` for half a minute, until this command compares"
        )
    raw = stored(ask, before_ms, objectives)
    if not raw.requests:
        return Comparison(0, 0)
    first_ms, last_ms = raw.requests[0].at_ms, raw.requests[-1].at_ms
    return compare(asks, raw, list(ranges_over(first_ms, last_ms, count, seed)), on_progress)


def stored(ask: Ask, before_ms: int, objectives: Objectives) -> Raw:
    """Raw rows before a moment."""

    def rows(sql: str) -> list[dict[str, Any]]:
        return ask(sql, {"before_ms": before_ms})

    return Raw(
        requests=[Request(**row) for row in rows(RAW)],
        bills=[Bill(**row) for row in rows(RAW_BILLS)],
        parts=[part_of(row) for row in rows(RAW_PARTS)],
        lines=[BillLine(**row) for row in rows(RAW_LINES)],
        windows=sorted(row["window_ms"] for row in rows(RAW_WINDOWS)),
        objectives=objectives,
        samples=[Sample(**row) for row in rows(RAW_SAMPLES)],
        engines=[EngineSample(**row) for row in rows(RAW_ENGINES)],
        hosts=[HostSample(**row) for row in rows(RAW_HOSTS)],
    )
