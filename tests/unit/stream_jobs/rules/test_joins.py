"""The shipped rules on what must meet: requests with engines, GPUs at work with the engine they work for."""

from __future__ import annotations

import pytest

from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.rules.load import load
from tests.unit.stream_jobs.insight.cases import BASE_MS, GPU, GRAIN_MS, REQUESTS, Row, a_block, a_row

NAMES = (
    "requests_without_engine",
    "gpus_without_engine",
    "engine_without_gpus",
    "requests_without_engine_anywhere",
)
HERE = {"cluster": "c", "region": "r", "host": "h", "origin": "measured"}
MINUTES = 8


def requests(count: int, engine_id: str | None, group: str | None = None, cluster: str | None = "c") -> Row:
    labels = {"engine_id": engine_id, "placement_group": group or engine_id, "model": "m"}
    return a_row(REQUESTS, "engine", event_count=count, status="ok", **labels, **HERE | {"cluster": cluster})


def served(count: int) -> Row:
    """The same requests in the rows of services, which know no engine."""
    place = {name: value for name, value in HERE.items() if name != "host"}
    return a_row(REQUESTS, "service", event_count=count, status="ok", model="m", **place)


def gpu(workload: str | None, util_pct: int, group: str = "h") -> Row:
    measures = {"util_gpu_pct_count": 10, "util_gpu_pct_sum": 10 * util_pct, "util_gpu_pct_max": util_pct}
    return a_row(GPU, "gpu", event_count=10, gpu_uuid="g", workload=workload, placement_group=group, **measures, **HERE)


def fired(rows: list[Row], gpus: list[Row]) -> set[str]:
    """Rules that fire when these rows come in every window of some minutes."""
    detector = FleetDetector([rule for rule in load() if rule.name in NAMES])
    tables = {REQUESTS: a_block(REQUESTS, [*rows, served(20)]), GPU: a_block(GPU, gpus)}
    windows = [Window(BASE_MS + number * GRAIN_MS, tables) for number in range(6 * MINUTES)]
    return {finding.rule for window in windows for finding in detector.detect(window) if finding.firing}


@pytest.mark.parametrize(
    ("rows", "gpus", "rules"),
    [
        ([requests(20, "e")], [gpu("inference", 60)], set()),
        ([requests(20, "e")], [gpu("idle", 0), gpu("inference", 60)], set()),
        ([requests(20, None)], [gpu(None, 60)], {NAMES[0], NAMES[1], NAMES[3]}),
        ([requests(20, None, cluster="edge")], [gpu("inference", 60)], {NAMES[3]}),
        ([requests(20, None, cluster=None)], [gpu("inference", 60)], {NAMES[3]}),
        ([requests(20, "e", cluster="edge")], [gpu("inference", 60)], set()),
        ([requests(20, None)], [], set()),
        ([requests(20, "h:1", "h")], [gpu("idle", 60, "h"), gpu("inference", 60, "e")], {NAMES[2]}),
        ([requests(20, "h:1", "h")], [gpu(None, 60, "h"), gpu("inference", 60, "e")], {NAMES[2]}),
        ([requests(20, "h:1", "h")], [gpu("idle", 0, "h"), gpu("inference", 60, "e")], set()),
        ([requests(20, "e", "e+f")], [gpu("inference", 60, "e+f"), gpu("idle", 60, "h")], set()),
        ([requests(20, "h:1", "h")], [gpu("training", 60, "h"), gpu("inference", 60, "e")], set()),
        ([requests(20, None)], [gpu("inference", 60)], {NAMES[0], NAMES[3]}),
        ([requests(17, "e"), requests(3, None)], [gpu("inference", 60)], set()),
        ([requests(20, "e")], [gpu("idle", 60)], {NAMES[1]}),
        ([requests(20, None)], [gpu("training", 90)], {NAMES[0], NAMES[3]}),
        ([requests(20, "e")], [gpu("idle", 0)], set()),
    ],
    ids=[
        "all meet",
        "an idle GPU beside one that serves",
        "a bill that is all idle",
        "a gateway with a cluster of its own that knows no engine",
        "a gateway without a cluster that knows no engine",
        "a gateway with a cluster of its own that knows its engines",
        "no GPU reports anywhere",
        "an engine matched with no GPU where the driver shows no process, beside one that is",
        "an engine matched with no GPU beside one that is",
        "an engine without a GPU beside idle ones",
        "engines that share a GPU, beside one that works for nobody who is asked there",
        "an engine without a GPU beside ones that train",
        "an engine that the requests do not know",
        "a few requests without one",
        "a GPU that works for nobody",
        "GPUs that train are not counted",
        "no GPU works at all: the requests' engine stands elsewhere",
    ],
)
def test_requests_and_gpus_at_work_must_meet(rows: list[Row], gpus: list[Row], rules: set[str]) -> None:
    """Each for itself; silent where they do."""
    assert fired(rows, gpus) == rules
