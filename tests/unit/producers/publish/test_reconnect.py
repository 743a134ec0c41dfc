from __future__ import annotations

import asyncio
from typing import Any

import pytest

from producers.publish.reconnect import (
    ALONE_RECORDS,
    LOG_EVERY_FAILURES,
    OUTAGE_PAUSE_S_MAX,
    Lanes,
    Outage,
    demand_listener,
)
from schemas.limits import DEFAULT_LIMITS


def outage(failures: int, since_s: float = 1_000.0) -> Outage:
    found = Outage()
    for _ in range(failures):
        found.failed(OSError(), since_s)
    return found


@pytest.mark.parametrize(
    ("failures", "away_s", "pause_s"),
    [
        (0, 0.0, 0.0),
        (1, 0.0, 0.5),
        (3, 3.0, 2.0),
        (4, 6.0, 3.5),
        (10, 28.0, 3.5),
        (11, 40.0, 5.0),
        (60, 199.0, 24.875),
        (90, 100_000.0, OUTAGE_PAUSE_S_MAX),
    ],
)
def test_pauses_grow_with_the_failures_and_then_with_the_time(failures: int, away_s: float, pause_s: float) -> None:
    """Doubled up to 3.5 s; from half a minute on an eighth of the time, up to 25 s."""
    assert outage(failures).pause_s(1_000.0 + away_s, 1.0) == pytest.approx(pause_s)


@pytest.mark.parametrize(("failures", "away_s", "pause_s"), [(1, 0.0, 0.25), (60, 400.0, 12.5)])
def test_chance_spreads_a_fleet(failures: int, away_s: float, pause_s: float) -> None:
    """By half of each pause."""
    assert outage(failures).pause_s(1_000.0 + away_s, 0.0) == pytest.approx(pause_s)


def test_a_source_is_back_before_windows_that_wait_for_it_are_incomplete() -> None:
    """However long Kafka was away, and whatever chance adds."""
    assert outage(90).pause_s(100_000.0, 1.0) < DEFAULT_LIMITS.final_wait_ms / 1_000


def test_an_acknowledgement_ends_the_outage() -> None:
    """The next failure is the first of another."""
    found = outage(40)
    found.answered()
    between_s = found.pause_s(2_000.0, 1.0)
    found.failed(OSError(), 2_000.0)

    assert (between_s, found.failures, found.pause_s(2_000.0, 1.0)) == (0.0, 1, 0.5)


def test_of_a_row_of_failures_some_are_logged() -> None:
    """The first of each kind, then one of twenty."""
    found, kinds = Outage(), [OSError] * 3 + [ValueError] * 2 + [OSError] * LOG_EVERY_FAILURES
    numbers = []
    for number, kind in enumerate(kinds, 1):
        found.failed(kind(), 0.0)
        if found.should_log:
            numbers.append(number)

    assert numbers == [1, 4, 6, 21]


class Transport:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize(("listening", "reached"), [({1}, True), ({2}, True), ({1, 2}, True), (set(), False)])
async def test_one_address_that_listens_is_enough(
    listening: set[int], reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the connection is let go at once; where none listens, the reason is raised."""
    made: list[Transport] = []

    async def connect(_protocol: Any, _host: str, port: int) -> tuple[Transport, Any]:
        if port not in listening:
            raise ConnectionRefusedError(f"nobody at {port}")
        made.append(Transport())
        return made[-1], None

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect)
    if reached:
        await demand_listener("a:1,b:2")
    else:
        with pytest.raises(ConnectionRefusedError, match="nobody at"):
            await demand_listener("a:1,b:2")

    assert [each.aborted for each in made] == [True] * reached


def test_a_lane_sends_batches_again_after_some_records() -> None:
    """Those of another lane do not count, nor those that it sent before its batch was too large."""
    lanes, one, other = Lanes(), ("t", 1), ("t", 2)
    lanes.delivered(one)
    lanes.alone |= {one, other}
    for _ in range(ALONE_RECORDS - 1):
        lanes.delivered(one)
    before = set(lanes.alone)
    lanes.delivered(one)

    assert (before, lanes.alone) == ({one, other}, {other})
