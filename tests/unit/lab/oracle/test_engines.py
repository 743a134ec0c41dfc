"""Counting readings of engines, and requests beside them."""

from __future__ import annotations

from dataclasses import replace

from lab.oracle.engines import EngineSample, at_once, beside_the_worst, by_batch, queues
from lab.oracle.machines import Sample
from lab.oracle.recount import Request
from lab.oracle.value import Value

ONE = EngineSample(20_000, "e", "m", 6, 2, 100, 1, 40, 10)
REQUEST = Request(21_000, "m", "t", "ok", "", 10, 4, 7, 1_000, tpot_us=50, engine_id="e")


def test_an_engine_has_its_longest_queue_and_the_sums_of_its_counters() -> None:
    """What is not known is not there."""
    found = queues([ONE, replace(ONE, waiting=5, kv_used_ppm=None), EngineSample(20_000, "f", "m")])

    assert {metric: value for (metric, of), value in found.items() if of == "engine=e"} == {
        "most_waiting": 5, "kv_most_ppm": 100, "preemptions": 2, "prefix_hit_pct": 25,
    }  # fmt: skip
    assert ("most_waiting", "engine=f") not in found


def test_a_batch_is_the_nearest_power_of_two_of_all_models_of_an_engine() -> None:
    """Means of a window add up; a window without a known batch is left out."""
    samples = [ONE, replace(ONE, at_ms=29_999, running=4), replace(ONE, model="n", running=8)]

    assert at_once([*samples, replace(ONE, at_ms=30_000, running=None)]) == {(20_000, "e"): 16}


def test_requests_stand_beside_the_batch_of_their_window() -> None:
    """All that ended count, and latencies are of those answered in full."""
    failed = replace(REQUEST, status="error", ttft_us=9_000)
    found = by_batch([REQUEST, failed, replace(REQUEST, at_ms=30_000)], [ONE])

    assert found["ended", "model_at_once=m 8"] == Value(2, 2)
    assert found["ttft_us_p95", "model_at_once=m 8"].most < 1_100


def test_the_most_throttled_gpu_stands_beside_the_requests_of_its_engine() -> None:
    """Others are not there, nor one that serves no engine."""
    worst = Sample(20_000, "g", "x", 1, 1, 1, 1, engine_id="e", interval_ms=1_000, throttled_us=500_000, clock_sm_mhz=9)
    idle = replace(worst, gpu_uuid="z", engine_id=None, throttled_us=900_000)
    found = beside_the_worst([REQUEST], [worst, replace(worst, gpu_uuid="h", throttled_us=1), idle])

    assert {metric: value.most for (metric, of), value in found.items() if metric != "beside_tpot_us_p95"} == {
        "beside_requests": 1, "beside_clock_mhz": 9, "beside_throttled_pct": 50,
    }  # fmt: skip
    assert {of for _, of in found} == {"g=20000"}
