"""How a job's start is seen from outside: by one metric of its own."""

from __future__ import annotations

import io
import urllib.request

import pytest

from lab.bench import lifecycle
from lab.bench.lifecycle import _metric
from runtime.metric_catalogue import METRICS

PAGE = b"""# HELP fleetpulse_job_records_total records
fleetpulse_job_records_total{topic="a",partition="0"} 3.0
fleetpulse_job_records_total{topic="b",partition="1"} 4.0
fleetpulse_job_records_rejected_total{topic="a"} 90.0
fleetpulse_job_partitions{topic="a"} 8.0
"""


@pytest.mark.parametrize(("name", "value"), [("job_records", 7.0), ("job_partitions", 8.0), ("job_errors", 0.0)])
def test_a_metric_is_the_sum_over_its_labels(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither comments nor metrics whose names begin alike count; one that is not there is 0."""
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(PAGE))

    assert _metric(1, name) == value


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
