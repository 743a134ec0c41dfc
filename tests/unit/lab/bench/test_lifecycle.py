"""How a job's start is seen from outside: by one metric of its own."""

from __future__ import annotations

import urllib.request

import pytest

from lab.bench import lifecycle
from lab.bench.lifecycle import _metric
from runtime.metric_catalogue import METRICS


def test_a_process_that_does_not_answer_yet_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again."""

    def refused(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(urllib.request, "urlopen", refused)

    assert _metric(1, "job_records") == 0.0


def test_the_metrics_that_are_looked_for_are_told_by_jobs() -> None:
    """Under these names; each duration that is measured has its line."""
    assert {"job_records", "job_partitions"} <= {metric.name for metric in METRICS}
    assert set(lifecycle.MEASURED) == {"start_s", "stop_s", "again_s", "restart_s", "standby_s"}
