"""The way of an event in legs: each is the time between two moments, and only whole ways count."""

from __future__ import annotations

from lab.bench.alerting import LEGS, Trail
from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.events.event_types import ENGINE_EVENTS, GPU_EVENTS
from schemas.rows.finals import PassedOnHeaders

AT_MS = 1_000_000_003_000


def passed_on(trail: Trail, uuid: str, at_ms: int) -> None:
    """Appended 0.1 s after it happened, sent on 0.2 s later, to be read 0.3 s after that."""
    row = {"at_ms": at_ms, "host": "h", "gpu_uuid": uuid, "kind": "xid", "severity": "critical", "origin": "simulated"}
    value = native.encode(GPU_EVENTS.fields, block_from_rows(GPU_EVENTS.fields, [row]))
    trail.pass_on(PassedOnHeaders(GPU_EVENTS.schema, at_ms + 100, 1), value, at_ms + 300, at_ms + 600, "bench-")


def test_legs_add_up_to_the_way() -> None:
    """What was told again changes nothing; without an alert, or of a GPU of the fleet's own, there is no way."""
    trail = Trail()
    for uuid in ("bench-1", "bench-1", "bench-2", "GPU-1"):
        passed_on(trail, uuid, AT_MS)
        passed_on(trail, uuid, AT_MS + 5)
    trail.pass_on(PassedOnHeaders(ENGINE_EVENTS.schema, 1, 1), b"", 1, 1, "bench-")
    for uuid in ("bench-1", "bench-1", "bench-3"):
        trail.alerted(uuid, AT_MS + 1_000, AT_MS + 1_500)

    legs = trail.legs_s()

    assert legs == dict(zip(LEGS, ([0.1], [0.2], [0.3], [0.4], [0.5]), strict=True))


def test_the_slowest_are_told_with_the_second_of_their_window() -> None:
    """The slowest first, no more than asked for."""
    trail = Trail()
    for number, late_ms in enumerate((0, 400, 200)):
        passed_on(trail, f"bench-{number}", AT_MS + number)
        trail.alerted(f"bench-{number}", AT_MS + number + 1_000, AT_MS + number + 1_500 + late_ms)

    found = trail.slowest(2)

    assert [(one["alerts_commit"], one["of_window"]) for one in found] == [(0.9, 3.001), (0.7, 3.002)]


def test_a_run_without_events_has_no_legs() -> None:
    """And none that was slow."""
    assert Trail().legs_s() == {leg: [] for leg in LEGS}
    assert Trail().slowest(5) == []
