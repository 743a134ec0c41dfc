"""Warming: after it nothing that the rules need has to be compiled."""

from __future__ import annotations

from dataclasses import replace

from schemas.codec import native
from schemas.codec.block import Block
from schemas.events.grouping import sets_of
from schemas.rows.tables import PARTIALS
from stream_jobs.insight import group_kernels
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.insight.warm import warm
from stream_jobs.rules.load import load
from stream_jobs.rules.model import Function, Where
from stream_jobs.windows import bin_kernels
from tests.unit.stream_jobs.insight.cases import (
    BASE_MS,
    GPU,
    GRAIN_MS,
    MEAN,
    REQUESTS,
    Row,
    a_block,
    a_gpu,
    a_row,
    a_rule,
)

SAMPLES = "engine.samples"
DEFAULTS = load()
PERCENTILES = [rule.name for rule in DEFAULTS if rule.value.function is Function.PERCENTILE]


def compiled() -> dict[str, int]:
    """For how many forms of input each loop was compiled."""
    found = {**vars(group_kernels), **vars(bin_kernels)}
    return {name: len(loop.signatures) for name, loop in found.items() if hasattr(loop, "signatures")}


def from_the_log(topic: str, rows: list[Row]) -> Block:
    fields = PARTIALS[topic].fields
    return native.decode(native.encode(fields, a_block(topic, rows)), fields)


def window(number: int) -> Window:
    """GPUs, an engine and its requests."""
    place = {"host": "h1", "engine_id": "e", "model": "m", "origin": "simulated"}
    request = {**place, "status": "ok", "start": "warm", "tenant": "t", "model_version": "1"}
    sketches: Row = {}
    for name in ("ttft_us", "tpot_us", "e2e_us"):
        sketches |= {f"{name}_bins": {100: 60, 101: 40}, f"{name}_count": 100}
    sketches["itl_bins"] = {90: 600, 91: 400}
    groupings = [one.name for one in sets_of(REQUESTS)]
    rows = {
        GPU: [a_gpu(f"g{n}", 50 + n, engine_id="e") for n in range(3)],
        REQUESTS: [a_row(REQUESTS, one, event_count=100, **request, **sketches) for one in groupings],
        SAMPLES: [a_row(SAMPLES, "engine_sample", event_count=5, waiting_count=5, waiting_sum=9, **place)],
    }
    return Window(BASE_MS + number * GRAIN_MS, {topic: from_the_log(topic, found) for topic, found in rows.items()})


def test_nothing_is_compiled_after_warming() -> None:
    """By the shipped rules, over a minute and a restart: the first alert does not wait for the compiler."""
    warm(DEFAULTS)
    before = compiled()
    detector = FleetDetector(DEFAULTS)
    for number in range(12):
        detector.detect(window(number))
    again = FleetDetector(DEFAULTS)
    again.load(detector.dump())
    again.detect(window(12))

    assert compiled() == before
    assert {detector.detectors[name].stats.below_count for name in PERCENTILES} == {0}
    used = ("group_rows", "enter_lines", "find_lines", "add_up", "least", "spread", "quantiles", "merge_ready")
    assert min(before[name] for name in used) > 0


def test_warming_takes_rules_of_any_condition() -> None:
    """Null among the values, the opposite of some, and no rule at all: what they need is compiled before they judge."""
    conditions = (Where("host", (None, "h1")), Where("workload", ("training",), negated=True))
    for rules in ([a_rule(measures=(replace(MEAN, where=conditions),))], []):
        warm(rules)
        before = compiled()

        FleetDetector(rules).detect(window(0))

        assert compiled() == before
