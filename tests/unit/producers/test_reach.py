from __future__ import annotations

import asyncio
from typing import Any

import pytest

from producers.reach import AWAY_PAUSE_S_MAX, TELL_EVERY_FAILURES, Away, demand_listener
from schemas.limits import DEFAULT_LIMITS


def away(failures: int, since_s: float = 1_000.0) -> Away:
    told = Away()
    for _ in range(failures):
        told.failed(OSError(), since_s)
    return told


@pytest.mark.parametrize(
    ("failures", "away_s", "pause_s"),
    [
        (0, 0.0, 0.0),
        (1, 0.0, 0.2),
        (4, 3.0, 1.6),
        (5, 6.0, 3.0),
        (10, 29.9, 3.0),
        (11, 40.0, 4.0),
        (60, 199.0, 19.9),
        (90, 100_000.0, AWAY_PAUSE_S_MAX),
    ],
)
def test_pauses_grow_with_the_failures_and_then_with_the_time(failures: int, away_s: float, pause_s: float) -> None:
    """Doubled up to three seconds; from half a minute on a tenth of the time, up to a third of one."""
    assert away(failures).pause_s(1_000.0 + away_s, 0.0) == pytest.approx(pause_s)


@pytest.mark.parametrize(("failures", "away_s", "pause_s"), [(1, 0.0, 0.7), (60, 400.0, 25.0)])
def test_chance_spreads_a_fleet(failures: int, away_s: float, pause_s: float) -> None:
    """By half a second, and by a quarter of long pauses."""
    assert away(failures).pause_s(1_000.0 + away_s, 1.0) == pytest.approx(pause_s)


def test_a_source_is_back_before_windows_that_wait_for_it_are_incomplete() -> None:
    """However long Kafka was away, and whatever chance adds."""
    assert away(90).pause_s(100_000.0, 1.0) < DEFAULT_LIMITS.final_wait_ms / 1_000


def test_an_answer_ends_the_row() -> None:
    """The next failure is the first of another."""
    told = away(40)
    told.answered()
    between_s = told.pause_s(2_000.0, 1.0)
    told.failed(OSError(), 2_000.0)

    assert (between_s, told.failures, told.pause_s(2_000.0, 0.0)) == (0.0, 1, 0.2)


def test_of_a_row_of_failures_some_are_told() -> None:
    """The first of each kind, then one of twenty."""
    told, kinds = Away(), [OSError] * 3 + [ValueError] * 2 + [OSError] * TELL_EVERY_FAILURES
    numbers = []
    for number, kind in enumerate(kinds, 1):
        told.failed(kind(), 0.0)
        if told.is_to_be_told:
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
    """And the connection is let go at once; where none listens, the reason is told."""
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
