"""``stream_jobs.alerts.incident_store``: what many signals cost, what finds no room, what is let go of.

Covers stream_jobs.alerts.incident_store.
"""

from __future__ import annotations

import sys
from typing import Any

from stream_jobs.alerts.life import Life
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.insight.frame import Window
from tests.unit.stream_jobs.alerts.cases import RULESET, Scene, at, finding, short


def engines(count: int, policy: AlertPolicy | None = None) -> Life:
    """A life that knows so many engines of one model, eight on a host."""
    life = Life(RULESET, policy=policy or AlertPolicy())
    for number in range(count):
        row = {"host": f"h-{number // 8}", "engine_id": f"e-{number}", "model": "m", "model_version": "v1"}
        life.topology.learn_row(row, at(0))
    life.topology.swept_ms = at(10_000)
    return life


def window(life: Life, number: int, count: int) -> int:
    """Judge a window in which so many engines have KV pressure; the calls of functions this takes."""
    found = [finding("engine_kv", number, since=0, engine_id=f"e-{engine}") for engine in range(count)]
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        life.window(Window(at(number), {}), found)
    finally:
        sys.setprofile(None)
    return calls


def test_what_an_engine_costs_does_not_grow_with_their_number() -> None:
    """Neither when they come nor while they go on; four times as many take about four times as long."""
    few, many = engines(50), engines(200)
    costs = [(window(few, number, 50), window(many, number, 200)) for number in range(2)]

    assert [len(life.store.incidents) for life in (few, many)] == [1, 1]
    assert all(most < 5 * least for least, most in costs)


def test_what_found_no_room_in_its_incident_costs_nothing_and_holds_nothing() -> None:
    """As many parts as may be, the same ones in every window; they end, room is made and the rest comes in."""
    life = engines(8, AlertPolicy(parts_max=5))

    def parts() -> list[str]:
        (incident,) = life.store.incidents.values()
        return sorted(part.signal.place for part in incident.parts.values() if part.until_ms is None)

    window(life, 0, 8)
    first = parts()
    window(life, 1, 8)
    second = parts()
    assert (len(first), second) == (5, first)
    over = [finding("engine_kv", 2, firing=False, since=0, engine_id=engine) for engine in first[1:3]]
    rest = [finding("engine_kv", 2, since=0, engine_id=f"e-{n}") for n in range(8) if f"e-{n}" not in first[1:3]]
    life.window(Window(at(2), {}), [*over, *rest])
    assert len(parts()) == 5
    assert not set(parts()) & set(first[1:3])


def test_a_part_that_comes_again_where_all_parts_are_likelier_spoils_nothing() -> None:
    """Its alert took its name from it, and it found no room there."""
    scene = Scene(AlertPolicy(parts_max=2))
    gpu = {"gpu_uuid": "g-20"}

    def causes() -> list[Any]:
        return [scene.fire("gpu_throttled", **gpu), scene.fire("gpu_leak", **gpu)]

    scene.see(scene.fire("engine_slow", engine_id="h-2/e-0"))
    scene.see(*causes(), scene.fire("engine_slow", engine_id="h-2/e-0"))
    scene.see(*causes(), scene.clear("engine_slow", engine_id="h-2/e-0"))
    for _ in range(100):
        scene.see(*causes())
    scene.see(*causes(), scene.fire("engine_slow", engine_id="h-2/e-0"))

    assert short(scene.told)[0] == ("opened", "engine_slow", "h-2/e-0")
    assert {alert.fingerprint for alert in scene.open()} == {scene.told[0].fingerprint}
    assert [len(incident.parts) for incident in scene.life.store.open()] == [2]


def gpu_event(number: int, kind: str = "xid", severity: str = "critical", **more: Any) -> dict[str, Any]:
    """Of a GPU and host of its own."""
    row = {"at_ms": at(0) + number, "gpu_uuid": f"x-{number}", "host": f"x-{number}", "kind": kind, "code": 79}
    return {**row, "severity": severity, **more}


def test_only_what_is_in_an_alert_counts_for_others() -> None:
    """Events that found no room are counted as refused and as nothing else."""
    life = Life(RULESET, policy=AlertPolicy(open_max=3))
    for number in range(20):
        life.gpu_events([gpu_event(number)])

    assert (life.store.refused, len(life.store.alike)) == (17, 3)


def test_what_was_trimmed_counts_no_more() -> None:
    """Moments of one GPU, each code a trouble of its own, in an alert of two parts."""
    life = Life(RULESET, policy=AlertPolicy(parts_max=2))
    for code in range(10):
        life.gpu_events([gpu_event(code, gpu_uuid="g", host="h", code=code)])

    assert [len(incident.parts) for incident in life.store.open()] == [2]
    assert len(life.store.alike) == 2
