"""Ranges of the oracle, and what counts as a difference."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Barrier
from typing import Any

import pytest

from fleetpulse.reconcile.tables import OPEN_BUCKETS
from lab.oracle.faces import FACES
from lab.oracle.recount import Raw, Request
from lab.oracle.run import ZONES, Comparison, Line, Range, compare, oracle, ranges_over
from lab.oracle.said import Ask, Said
from lab.oracle.value import Key, Value
from schemas.errors import FleetpulseError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

FIRST_MS = 20_000 * DAY_MS
OVER = Range(0, 1, "any")


def test_ranges_have_ends_of_every_kind_and_lie_before_across_and_after() -> None:
    """The same seed gives the same; days are those of a calendar, with 23 and 25 hours where clocks change."""
    found = list(ranges_over(FIRST_MS, FIRST_MS + HOUR_MS, 400, 1))

    assert found == list(ranges_over(FIRST_MS, FIRST_MS + HOUR_MS, 400, 1))
    assert {one.ends for one in found} == {"any", "window", "minute", "hour", *(f"days of {zone}" for zone in ZONES)}
    assert all(MINUTE_MS <= one.to_ms - one.from_ms <= 32 * DAY_MS for one in found)
    assert any(one.to_ms <= FIRST_MS for one in found)
    assert any(one.from_ms < FIRST_MS and one.to_ms > FIRST_MS + HOUR_MS for one in found)
    kathmandu = [one for one in found if one.ends == "days of Asia/Kathmandu"]
    assert {one.from_ms % HOUR_MS for one in kathmandu} == {15 * MINUTE_MS}


def test_what_a_face_leaves_out_differs_and_what_it_has_no_column_for_does_not() -> None:
    """An answer for something that did not happen must be nothing."""
    found = Comparison(1, 1)

    found.take("f", {("a", "model=m"): 1}, {("a", "model=n"): Value(2, 2), ("a", "all"): Value(3, 3)}, OVER)

    assert found.lines["f", "a"].compared == 2
    assert found.lines["f", "a"].different == 2
    assert not found.exact


def test_what_is_compared_with_nothing_is_told_apart() -> None:
    """No mistake could be noticed there."""
    found = Comparison(1, 1)

    found.take("f", {("a", "all"): 0, ("b", "all"): 2}, {("b", "all"): Value(2, 2)}, OVER)

    assert (found.lines["f", "a"].compared, found.lines["f", "a"].of_something) == (1, 0)
    assert (found.lines["f", "b"].compared, found.lines["f", "b"].of_something) == (1, 1)


def taken(face: str, *said: tuple[dict[Key, float], Range], bills: bool = True) -> dict[str, int]:
    """How much differs by metric, of a face that said this of ranges over the same rows."""
    found = Comparison(len(said), 1)
    rows = {("requests", "model=m"): Value(2, 2), ("failed", "all"): Value(0, 0)}
    for answers, over in said:
        found.take(face, answers, rows | ({("billed_ms", "all"): Value(9, 9)} if bills else {}), over)
    found.finished()
    return {metric: line.different for (_, metric), line in found.lines.items()}


def test_a_face_that_says_nothing_of_a_range_differs_where_it_says_something_of_others() -> None:
    """Not where it answers for whole hours alone, and not for what it never says or what is nothing anyway."""
    answer: dict[Key, float] = {("requests", "model=m"): 2}
    minutes, hours = Range(0, MINUTE_MS, "minute"), Range(0, HOUR_MS, "hour")

    assert taken("f", (answer, minutes), ({}, hours)) == {"requests": 1}
    assert taken("f", ({}, hours), (answer, minutes)) == {"requests": 1}
    assert taken("f", ({}, minutes), (answer, hours)) == {"requests": 0}
    assert taken("f", ({}, minutes), ({}, hours)) == {}


def test_a_report_says_nothing_without_a_bill_alone() -> None:
    """Where there is one it has to say what else there is."""
    answer: dict[Key, float] = {("requests", "model=m"): 2, ("billed_ms", "all"): 9}
    first, second = Range(0, MINUTE_MS, "minute"), Range(MINUTE_MS, 2 * MINUTE_MS, "minute")

    assert taken("report", (answer, first), ({}, second)) == {"requests": 1, "billed_ms": 1}
    assert taken("report", ({}, second), bills=False) == {}


def test_nothing_compared_is_not_exact() -> None:
    """An empty database proves nothing."""
    assert not Comparison(0, 0).exact


@pytest.mark.parametrize(
    ("mute", "bills", "over", "silent"),
    [
        pytest.param(None, True, OVER, [], id="all speak"),
        pytest.param("grafana", True, OVER, ["grafana"], id="one says nothing"),
        pytest.param("report", True, OVER, ["report"], id="no report of bills"),
        pytest.param("report", False, OVER, [], id="no bills"),
        pytest.param("rollups", True, Range(0, MINUTE_MS, "minute"), ["rollups"], id="no rollups of a whole minute"),
        pytest.param("rollups", True, OVER, [], id="no whole minute"),
    ],
)
def test_a_face_that_says_nothing_over_every_range_is_not_exact(
    mute: str | None, bills: bool, over: Range, silent: list[str]
) -> None:
    """It makes no line that could differ; but without any bill a report has nothing to say, nor rollups without a whole
    minute."""
    found, key = Comparison(1, 1), ("requests", "all")
    expected = {key: Value(2, 2)} | ({("billed_ms", "all"): Value(9, 9)} if bills else {})
    for face in FACES:
        found.take(face, {} if face == mute else {key: 2}, expected, over)
    found.finished()

    assert (found.silent, found.as_dict()["silent"]) == (silent, silent)
    assert found.exact == (not silent)


def test_nothing_is_compared_while_rollups_lack_what_rows_say() -> None:
    """It would differ by what the sink has still to compute; the sentence says what to do."""
    asked: list[str] = []

    def ask(sql: str, _bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked.append(sql)
        return [{"topic": "costs", "level": "1m", "window_ms": 0}] * 2 if sql == OPEN_BUCKETS else []

    with pytest.raises(FleetpulseError, match=r"2 buckets of rollups .* run `fleetpulse sink` for half a minute"):
        oracle([ask], 1, 1, FIRST_MS, {})

    assert asked == [OPEN_BUCKETS]


MINUTES = [Range(number * MINUTE_MS, (number + 1) * MINUTE_MS, "minute") for number in range(8)]
REQUESTS = [
    Request(over.from_ms + each, "m", "t", "ok", "", 1, 0, 1, None)
    for number, over in enumerate(MINUTES)
    for each in range(number + 1)
]
"""In each minute one more than in that before."""


class StandIn:
    """Says how many requests a minute has, once as many are asked as meet; of one it has an error."""

    def __init__(self, meeting: Barrier, failing: Range | None = None) -> None:
        self.asked: list[int] = []
        self._meeting = meeting
        self._failing_ms = failing and failing.from_ms

    def __call__(self, _sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.asked.append(bound["from_ms"])
        self._meeting.wait(timeout=60)
        if bound["from_ms"] == self._failing_ms:
            raise FleetpulseError("the server is gone")
        return [{"requests": bound["from_ms"] // MINUTE_MS + 1}]


@pytest.fixture
def _one_face(monkeypatch: pytest.MonkeyPatch) -> None:
    def requests(ask: Ask, from_ms: int, _to_ms: int) -> Said:
        (row,) = ask("SELECT 1", {"from_ms": from_ms})
        return {("requests", "all"): row["requests"]}

    monkeypatch.setattr("lab.oracle.run.FACES", {"f": requests})


@pytest.mark.usefixtures("_one_face")
def test_ranges_are_asked_about_side_by_side_each_once_and_compared_with_its_own_rows() -> None:
    """An answer that came to another range would differ. Each of those that ask is asked one thing at a time."""
    meeting, done = Barrier(2), list[tuple[int, int]]()
    asks = (StandIn(meeting), StandIn(meeting))

    found = compare(asks, Raw(REQUESTS), MINUTES, lambda number, total: done.append((number, total)))

    assert sorted(asks[0].asked + asks[1].asked) == [one.from_ms for one in MINUTES]
    assert len(asks[0].asked) == len(asks[1].asked) == 4
    assert found.lines == {("f", "requests"): Line(compared=8, of_something=8)}
    assert done == [(number, 8) for number in range(8)]


@pytest.mark.usefixtures("_one_face")
def test_an_error_of_one_that_is_asked_ends_the_comparison() -> None:
    """It comes out as it is; ranges before it were compared."""
    done: list[int] = []
    asks = [StandIn(Barrier(1), MINUTES[5]) for _ in range(2)]

    with pytest.raises(FleetpulseError, match="the server is gone"):
        compare(asks, Raw(REQUESTS), MINUTES, lambda number, _total: done.append(number))

    assert done == [0, 1, 2, 3, 4]
