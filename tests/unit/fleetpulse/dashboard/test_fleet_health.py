"""What is said of a GPU: fine, hot, throttled, not reporting."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.dashboard.fleet_health import HOT_C, MISSING_MS, THROTTLED_SHARE, health_of

TO_MS = 1_000_000


def a_gpu(uuid: str = "g", **readings: Any) -> dict[str, Any]:
    usual = {"host": "h", "gpu_uuid": uuid, "part_of_gpu": None, "value": 50.0, "temperature_max_c": 60}
    usual |= {"throttled_us": 0, "throttled_fault_us": 0, "covered_ms": 60_000, "heard_ms": TO_MS, "gpus_known": 1}
    return usual | readings


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        pytest.param({}, "fine", id="all is well"),
        pytest.param({"heard_ms": TO_MS - MISSING_MS}, "missing", id="silent for so long"),
        pytest.param({"heard_ms": TO_MS - MISSING_MS + 1}, "fine", id="silent for a moment less"),
        pytest.param(
            {"throttled_fault_us": 60_000_000 * THROTTLED_SHARE + 1},
            "throttled",
            id="throttled a moment more than allowed",
        ),
        pytest.param({"throttled_fault_us": 60_000_000 * THROTTLED_SHARE}, "fine", id="throttled as long as allowed"),
        pytest.param({"throttled_us": 60_000_000}, "fine", id="at its power limit all the time"),
        pytest.param(
            {"throttled_us": 60_000_000, "throttled_fault_us": None, "covered_ms": 0},
            "fine",
            id="throttled by what is unknown",
        ),
        pytest.param({"temperature_max_c": HOT_C}, "hot", id="hot"),
        pytest.param(
            {"temperature_max_c": None, "throttled_fault_us": None}, "fine", id="what is not reported is not judged"
        ),
        pytest.param({"covered_ms": None, "throttled_fault_us": 10}, "fine", id="no time to compare with"),
    ],
)
def test_the_verdict_follows_the_readings(readings: dict[str, Any], verdict: str) -> None:
    """Beside another GPU that reports now."""
    rows = [a_gpu("other"), a_gpu(**readings)]

    assert [one["verdict"] for one in health_of(rows, rows, TO_MS, 1).gpus] == ["fine", verdict]


def test_gpus_that_no_row_came_of_are_counted() -> None:
    """A query has room for so many; every row says how many there are."""
    rows = [a_gpu("a", gpus_known=23_456), a_gpu("b", gpus_known=23_456)]

    assert health_of(rows, rows, TO_MS, 1).cut == "the first 2 of 23,456 by host: filter"
    assert health_of([a_gpu()], [], TO_MS, 1).cut == health_of([], [], TO_MS, 1).cut == ""


def test_a_late_pipeline_makes_no_gpu_missing() -> None:
    """Silence is judged by the newest reading of all, and the delay is reported apart."""
    rows = [a_gpu("a", heard_ms=TO_MS - 300_000), a_gpu("b", heard_ms=TO_MS - 310_000)]

    health = health_of(rows, rows, TO_MS, 1)

    assert (health.missing, health.reporting, health.behind_ms) == (0, 2, 300_000)


def test_a_gpu_that_fell_silent_before_the_shown_stretch_is_missing_and_has_no_value() -> None:
    """It is known from the range alone."""
    health = health_of([a_gpu("a"), a_gpu("b", heard_ms=TO_MS - 60_000)], [a_gpu("a")], TO_MS, 0.01)

    assert [(one["value"], one["verdict"], one["heard_ago_ms"]) for one in health.gpus] == [
        (0.5, "fine", 0),
        (None, "missing", 60_000),
    ]


def test_a_gpu_counts_once_with_its_mig_devices() -> None:
    """It is missing once all of them are; one that is no more is a record of its own."""
    rows = [
        a_gpu("a", throttled_fault_us=30_000_000),
        a_gpu("MIG-1", part_of_gpu="a", throttled_fault_us=30_000_000),
        a_gpu("MIG-2", part_of_gpu="a", heard_ms=0),
        a_gpu("MIG-3", part_of_gpu="b", heard_ms=0),
        a_gpu("MIG-4", part_of_gpu="b", heard_ms=0),
    ]

    health = health_of(rows, rows, TO_MS, 1)

    assert (health.whole, health.devices, health.reporting, health.missing, health.throttled) == (2, 4, 1, 1, 1)
    assert len(health.worst(9)) == 5


def test_the_worst_come_first() -> None:
    """Missing, then throttled (by more than the power limit, the longest first), then hot; those that are fine not at
    all."""
    rows = [
        a_gpu("fine"),
        a_gpu("hot", temperature_max_c=99),
        a_gpu("throttled", throttled_us=60_000_000, throttled_fault_us=30_000_000),
        a_gpu("worse", throttled_us=50_000_000, throttled_fault_us=50_000_000),
        a_gpu("gone", heard_ms=0),
    ]

    health = health_of(rows, rows, TO_MS, 1)

    assert [one["gpu_uuid"] for one in health.worst(9)] == ["gone", "worse", "throttled", "hot"]
    assert [one["gpu_uuid"] for one in health.worst(1)] == ["gone"]
    assert health.throttled == 2


def test_an_empty_fleet_is_healthy() -> None:
    """And not behind."""
    health = health_of([], [], TO_MS, 1)

    assert (health.gpus, health.missing, health.behind_ms) == ((), 0, 0)
