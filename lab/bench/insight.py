"""What baselines and rules cost: series-windows per second of one core, memory per series, size of a snapshot.

A series-window is one window of one series under one rule. Windows come as finals (columns of partials), so that the
rates of whole windows hold projection, measures, slots, detectors and m of n; projection alone stands beside them.
Everything is the processor time of this process, on one core.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Numbers
from schemas.fields import Field, Kind
from schemas.limits import HOUR_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.detectors.against_baseline import AgainstBaseline
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.insight.project import project
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

RATE_MIN = 200_000
BYTES_PER_SERIES_MAX = 1_024
SNAPSHOT_BYTES_MAX = 100_000_000
SNAPSHOT_S_MAX = 2.0
SNAPSHOT_SERIES = 100_000

_BASE_MS = 500_000 * HOUR_MS
_BINS = 12
_GPU, _REQUESTS = "gpu.samples", "llm.requests"


@dataclass(frozen=True, slots=True)
class _Case:
    """A topic's rows, one per series, and the rules that judge them."""

    topic: str
    grouping: str
    by: tuple[str, ...]
    rules: tuple[Rule, ...]


def measure(series: int, windows: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All numbers, each beside its bound."""
    result: dict[str, Any] = {"series": series, "windows": windows, "by_rule": {}}
    for case in _cases():
        for rule in case.rules:
            say(f"{rule.name}: {series:,} series, {windows} windows")
            result["by_rule"][rule.name] = _rate(case, [rule], series, windows, seed)
    say("all rules together")
    together = [_rate(case, case.rules, series, windows, seed) for case in _cases()]
    result["together"] = {
        "series_windows": sum(one["series_windows"] for one in together),
        "per_s": sum(one["series_windows"] for one in together) / sum(one["cpu_s"] for one in together),
    }
    say("projection alone")
    result["projection"] = {case.topic: _projection(case, series, seed) for case in _cases()}
    say("memory")
    result["memory"] = {rule.name: _memory(case, rule, series, seed) for case in _cases() for rule in case.rules}
    say("snapshot")
    result["snapshot"] = {season: _snapshot(season == "with season", seed) for season in ("plain", "with season")}
    return result


def outside(result: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    slow = [name for name, one in result["by_rule"].items() if one["per_s"] < RATE_MIN]
    slow += ["together"] if result["together"]["per_s"] < RATE_MIN else []
    grown = {name: one["bytes_after_an_hour"] for name, one in result["memory"].items()}
    fat = [f"memory of {name}" for name, each in grown.items() if each > BYTES_PER_SERIES_MAX]
    kept = [
        f"snapshot {name}"
        for name, one in result["snapshot"].items()
        if one["bytes"] > SNAPSHOT_BYTES_MAX or max(one["dump_s"], one["load_s"]) > SNAPSHOT_S_MAX
    ]
    return slow + fat + kept


def rows(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    """For the table: metric, value, bound. ``/s`` are series-windows, or rows of a projection."""
    rate = f">= {RATE_MIN:,}"
    found: list[tuple[Any, ...]] = [(f"{name}, /s", int(one["per_s"]), rate) for name, one in result["by_rule"].items()]
    found.append(("all together, /s", int(result["together"]["per_s"]), rate))
    found += [(f"rows of {name}, /s", int(one), "") for name, one in result["projection"].items()]
    for name, one in result["memory"].items():
        found.append((f"{name}, bytes", int(one["bytes_after_an_hour"]), f"<= {BYTES_PER_SERIES_MAX:,}"))
    for name, one in result["snapshot"].items():
        found.append((f"snapshot {name}, bytes", one["bytes"], f"<= {SNAPSHOT_BYTES_MAX:,}"))
        found.append((f"snapshot {name}, dump s", one["dump_s"], f"<= {SNAPSHOT_S_MAX}"))
        found.append((f"snapshot {name}, load s", one["load_s"], f"<= {SNAPSHOT_S_MAX}"))
    return found


def _a_rule(kind: str, name: str, measure: Measure, by: Sequence[str], **options: Any) -> Rule:
    given = {**{option.name: option.default for option in KINDS[kind].options}, "warm_up_windows": 3, **options}
    return Rule(name, kind, (measure,), tuple(by), "warning", "", m=2, n=3, options=given)


def _cases() -> tuple[_Case, ...]:
    gpu, request = ("host", "gpu_uuid"), ("model", "engine_id")
    heat = Measure("value", _GPU, Function.MEAN, "temperature_c", text="mean(temperature_c)")
    power = Measure("value", _GPU, Function.MEAN, "power_mw", text="mean(power_mw)")
    ttft = Measure("value", _REQUESTS, Function.PERCENTILE, "ttft_us", q=0.95, text="p95(ttft_us)")
    return (
        _Case(
            _GPU,
            "gpu",
            gpu,
            (
                _a_rule("threshold", "threshold", heat, gpu, above=1e9),
                _a_rule("no_data", "no_data", heat, gpu),
                _a_rule("rate_of_change", "rate_of_change", heat, gpu, above=1_000.0),
                _a_rule("moving_average", "moving_average", power, gpu),
                _a_rule("deviation", "deviation", power, gpu, season=False),
                _a_rule("deviation", "deviation with season", power, gpu),
            ),
        ),
        _Case(_REQUESTS, "engine", request, (_a_rule("deviation", "deviation of a percentile", ttft, request),)),
    )


class _Finals:
    """Windows of finals with one row per series; levels differ by series and vary by some percent."""

    def __init__(self, case: _Case, series: int, seed: int) -> None:
        self._case, self._series = case, series
        self._random = np.random.default_rng(seed)
        self._level = self._random.integers(1_000, 100_000, series)
        words: list[bytes | None] = [None, *(f"series-{number:08d}".encode() for number in range(series))]
        self._labels = {name: Labels(np.arange(1, series + 1, dtype=np.int32), words) for name in case.by}
        self._labels["grouping"] = Labels(np.ones(series, np.int32), [None, case.grouping.encode()])

    def window(self, at_ms: int) -> Window:
        """One window; its rows stand in another order each time."""
        noise = self._random.normal(1.0, 0.02, self._series)
        values = (self._level * noise).astype(np.int64)
        block = Block(self._series, {f.name: self._column(f, values) for f in PARTIALS[self._case.topic].fields})
        return Window(at_ms, {self._case.topic: block})

    def _column(self, field: Field, values: npt.NDArray[np.int64]) -> Column:
        if field.kind is Kind.LABEL:
            return self._labels.get(field.name, Labels(np.zeros(self._series, np.int32), [None]))
        if field.kind is Kind.BINS:
            return self._bins()
        if field.name.endswith("_count"):
            return Numbers(np.full(self._series, 10, np.uint64))
        return Numbers(10 * values if field.name.endswith("_sum") else values)

    def _bins(self) -> Bins:
        ends = np.arange(1, self._series + 1, dtype=np.int64) * _BINS
        first = self._random.integers(400, 420, self._series)
        keys = (first[:, None] + np.arange(_BINS)).astype(np.int16).ravel()
        return Bins(ends, keys, np.ones(len(keys), np.uint64))


def _rate(case: _Case, rules: Sequence[Rule], series: int, windows: int, seed: int) -> dict[str, Any]:
    """The first windows are left out: they compile, and give every series its slot."""
    detector, finals, spent, begin = FleetDetector(rules, max(series, 1)), _Finals(case, series, seed), 0.0, 4
    for number in range(begin + windows):
        window = finals.window(_BASE_MS + number * WINDOW_MS)
        before = time.process_time()
        detector.detect(window)
        spent += time.process_time() - before if number >= begin else 0.0
    done = series * windows * len(rules)
    return {"series_windows": done, "cpu_s": spent, "per_s": done / spent}


def _projection(case: _Case, series: int, seed: int, times: int = 5) -> float:
    """Rows per second through all views of the case."""
    detector, finals = FleetDetector(case.rules, series), _Finals(case, series, seed)
    views = {query.view for one in detector.detectors.values() for query in one.needed}
    block = finals.window(_BASE_MS).tables[case.topic]
    before = time.process_time()
    for _ in range(times):
        for view in views:
            project(view, block)
    return times * len(views) * series / (time.process_time() - before)


def _memory(case: _Case, rule: Rule, series: int, seed: int) -> dict[str, float]:
    """What is allocated when all series are known and an hour has passed (a season begins then), per series."""
    finals = _Finals(case, series, seed)
    tracemalloc.start()
    detector = FleetDetector([rule], series)
    before = tracemalloc.get_traced_memory()[0]
    for number in range(2):
        detector.detect(finals.window(_BASE_MS + number * WINDOW_MS))
    early = tracemalloc.get_traced_memory()[0]
    detector.detect(finals.window(_BASE_MS + HOUR_MS))
    late = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"bytes": (early - before) / series, "bytes_after_an_hour": (late - before) / series}


def _snapshot(season: bool, seed: int) -> dict[str, float]:
    """With a season: all hours of all series known, as different as chance makes them (compression finds nothing)."""
    case = _cases()[0]
    rule = case.rules[-1 if season else -2]
    detector, finals = FleetDetector([rule], SNAPSHOT_SERIES), _Finals(case, SNAPSHOT_SERIES, seed)
    for number in range(3):
        detector.detect(finals.window(_BASE_MS + number * HOUR_MS))
    deviation = detector.detectors[rule.name].detector
    if season and isinstance(deviation, AgainstBaseline):
        places = deviation.pool.places
        places[:] = np.random.default_rng(seed).integers(-1_000, 1_000, places.shape)
    started = time.process_time()
    parts = detector.dump()
    dumped = time.process_time()
    FleetDetector([rule], SNAPSHOT_SERIES).load(parts)
    loaded = time.process_time()
    return {"bytes": sum(map(len, parts)), "dump_s": dumped - started, "load_s": loaded - dumped}
