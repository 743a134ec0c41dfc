"""``stream_jobs.alerts.waiting``: as many alerts are open as may be; who waits, who makes room.

Covers stream_jobs.alerts.waiting.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from schemas.contract.alerts import Alert
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.insight.frame import Window
from tests.unit.stream_jobs.alerts.cases import RULESET, WINDOW, Scene, at

POLICY = AlertPolicy(open_max=2, waiting_max=3, hold_ms=WINDOW)


class Full:
    """Two alerts are open, the rest waits; window by window."""

    def __init__(self, first: str = "critical") -> None:
        self.life, self.window = Life(RULESET, policy=POLICY), 0
        self.event(0, severity=first)
        self.event(1, severity=first)

    def event(self, number: int, kind: str = "gpu_lost", severity: str = "critical", after_ms: int = 0) -> list[Alert]:
        row = {"at_ms": at(self.window) + number + after_ms, "gpu_uuid": f"x-{number}", "host": f"x-{number}"}
        return self.life.gpu_events([{**row, "kind": kind, "severity": severity}])

    def engine(self, name: str, kind: str) -> list[Alert]:
        return self.life.engine_events([{"at_ms": at(self.window), "engine_id": name, "host": name, "kind": kind}])

    def see(self, windows: int = 1) -> list[Alert]:
        told = []
        for _ in range(windows):
            told += self.life.window(Window(at(self.window), {}), [])
            self.window += 1
        return told


def of_gpus(told: list[Alert]) -> list[tuple[str, str]]:
    return [(alert.transition, alert.labels["gpu_uuid"]) for alert in told]


def test_an_event_that_found_no_room_is_told_when_there_is() -> None:
    """At the end of the window in which an alert is resolved; it opened when it happened."""
    full = Full()
    waited = full.event(2)
    full.see()
    full.event(0, "gpu_found", "info")
    told = full.see(3)

    assert (waited, full.life.store.refused, len(full.life.store.waiting)) == ([], 1, 0)
    assert of_gpus(told) == [("resolved", "x-0"), ("opened", "x-2")]
    assert told[1].opened_ms == at(0) + 2


def test_the_most_severe_is_told_first() -> None:
    """Although it came last."""
    full = Full()
    full.event(2, severity="warning")
    full.event(3)
    full.event(0, "gpu_found", "info", after_ms=9)

    assert of_gpus(full.see(3)) == [("resolved", "x-0"), ("opened", "x-3")]
    assert [one.severity for one in full.life.store.waiting.in_order()] == ["warning"]


def test_as_many_wait_as_may_be() -> None:
    """The least severe go, then the oldest; each counts as refused once."""
    full = Full()
    for number, severity in enumerate(("warning", "critical", "critical", "warning", "critical"), 2):
        full.event(number, severity=severity)
    full.see(5)

    assert [one.labels["gpu_uuid"] for one in full.life.store.waiting.in_order()] == ["x-3", "x-4", "x-6"]
    assert full.life.store.refused == 5


def test_what_is_over_need_not_wait() -> None:
    """A found GPU, an engine that is back, a moment that passed."""
    full = Full()
    full.event(2)
    full.engine("e", "lost")
    full.event(3, "xid")
    assert len(full.life.store.waiting) == 3
    full.event(2, "gpu_found", "info", after_ms=5)
    full.engine("e", "found")
    assert len(full.life.store.waiting) == 1
    assert full.see(31) == []
    assert len(full.life.store.waiting) == 0


def test_an_event_that_comes_again_while_it_waits_is_counted() -> None:
    """Once in the queue."""
    full = Full()
    full.event(2)
    full.event(2, after_ms=50)
    (one,) = full.life.store.waiting.in_order()

    assert (one.count, one.since_ms, one.at_ms) == (2, at(0) + 2, at(0) + 52)


def test_a_resolved_alert_that_is_only_kept_makes_room_at_once() -> None:
    """Nobody waits for the end of what might have come back."""
    full = Full()
    full.event(0, "gpu_found", "info", after_ms=1)
    assert of_gpus(full.see(2)) == [("resolved", "x-0")]

    assert of_gpus(full.event(2)) == [("opened", "x-2")]
    assert len(full.life.store.incidents) == 2


def test_what_is_less_severe_makes_room_and_is_told_as_resolved() -> None:
    """The one that has been open longest; it stays closed while it goes on, and is forgotten."""
    full = Full("warning")

    told = full.event(2, after_ms=10)
    same = full.event(3, severity="warning")

    assert of_gpus(told) == [("resolved", "x-0"), ("opened", "x-2")]
    assert (told[0].note, told[0].resolved_ms) == ("closed to make room for what is more severe", at(0) + 12)
    assert same == []
    assert of_gpus([incident.alert("updated", 0, 0) for incident in full.life.store.open()]) == [
        ("updated", "x-1"),
        ("updated", "x-2"),
    ]
    full.see()
    assert len(full.life.store.incidents) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_a_finding_of_no_weight_makes_room_and_does_not_take_it_back(order: int) -> None:
    """In the same window, in whatever order they are told, and in those that follow."""
    scene = Scene(POLICY)

    def see(*more: Any) -> None:
        full = [scene.fire("gpu_full", gpu_uuid=gpu) for gpu in ("g-10", "g-20")]
        scene.see(*[*full, *more][::order])

    see()
    see(scene.fire("engine_kv", engine_id="h-3/e-0"))
    see(scene.fire("engine_kv", engine_id="h-3/e-0"))
    see(scene.fire("engine_kv", engine_id="h-3/e-0"))

    assert [(alert.transition, alert.rule) for alert in scene.told] == [
        ("opened", "gpu_full"),
        ("opened", "gpu_full"),
        ("resolved", "gpu_full"),
        ("opened", "engine_kv"),
    ]


def test_who_waits_and_who_was_closed_outlive_a_restart() -> None:
    """The same state, the same records."""
    full, again = Full("warning"), Life(RULESET, policy=POLICY)
    full.event(2)
    full.event(3, severity="warning")
    again.load(orjson.loads(orjson.dumps(full.life.dump())))
    again.topology.load(full.life.topology.dump())

    assert orjson.dumps(again.dump()) == orjson.dumps(full.life.dump())
    assert again.window(Window(at(0), {}), []) == full.life.window(Window(at(0), {}), [])
    assert orjson.dumps(again.dump()) == orjson.dumps(full.life.dump())
