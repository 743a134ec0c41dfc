"""Stages of the windows job: every figure is measured, of the events that were made."""

from __future__ import annotations

from lab.bench import stages
from lab.bench.feed import FORMATS
from lab.bench.workload import Profile

SMALL = Profile("small", hosts=16, requests_per_record=10, gpus_per_host=8, seconds=1)


def test_every_stage_has_a_figure() -> None:
    """By topic, admission for each format; all events of one partition are folded, one series a GPU."""
    found = stages.measure(SMALL, 3, 1, lambda _text: None)["by_topic"]

    records = stages.records_of(SMALL, "gpu.samples", 3, 1, FORMATS["native"])
    assert list(found) == ["llm.requests", "gpu.samples"]
    assert found["gpu.samples"]["events"] == 8 * len(records)
    assert found["gpu.samples"]["series"] == 8 * len(records) // 3
    timed = [name for name in found["llm.requests"] if name.endswith("_us")]
    assert {"headers_us", "fold_us", "commit_us", "orjson_us", *(f"admission_{name}_us" for name in FORMATS)} <= {
        *timed
    }
    assert all(figures[name] > 0 for figures in found.values() for name in timed)
