"""``stream_jobs.alerts.gather``: when a window is judged, and with what."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.finals import FinalsHeaders
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from stream_jobs.alerts.gather import Gather, Piece, Ready
from tests.unit.stream_jobs.alerts_cases import at


def tell(
    gather: Gather, upstream: int, window: int, through: int = 0, *, rows: int = 1, complete: bool = True
) -> list[Ready]:
    """A record of one upstream, and what is ready after it."""
    headers = FinalsHeaders("x/1", upstream, at(window), 0, complete, at(through) if through else 0, rows)
    gather.add(headers, b"%d:%d" % (upstream, window))
    return list(gather.ready())


def piece(upstream: int, window: int) -> Piece:
    return Piece(upstream, "x/1", b"%d:%d" % (upstream, window))


def test_a_window_is_ready_once_with_all_that_came_for_it() -> None:
    """When the last upstream is through; one that says it is incomplete makes the window so."""
    gather = Gather([0, 0])

    first = [tell(gather, 0, 0), tell(gather, 0, 1, 2), tell(gather, 1, 0, 1, complete=False)]
    second = tell(gather, 1, 0, 2, rows=0)

    assert first == [[], [], [Ready(at(0), False, (piece(0, 0), piece(1, 0)))]]
    assert second == [Ready(at(1), True, (piece(0, 1),))]


def test_time_begins_with_the_first_window_that_anything_came_for() -> None:
    """Progress alone begins nothing."""
    gather = Gather([0])

    before = tell(gather, 0, 0, 50, rows=0)
    ready = tell(gather, 0, 60, 62)

    assert before == []
    assert [one.window_ms for one in ready] == [at(60), at(61)]


@pytest.mark.parametrize(("through", "judged"), [(6, []), (7, [0]), (9, [0, 1, 2])])
def test_a_silent_upstream_is_waited_for_a_minute(through: int, judged: list[int]) -> None:
    """Of event time, counted from the end of the window; then it counts as incomplete."""
    gather = Gather([0, 0])
    tell(gather, 1, 0)

    ready = tell(gather, 0, 0, through)

    assert [(one.window_ms, one.complete) for one in ready] == [(at(window), False) for window in judged]
    assert gather.wait_ms == MINUTE_MS == 6 * WINDOW_MS


def test_what_comes_too_late_or_from_nobody_is_counted_alone() -> None:
    """For a judged window, for one that its upstream was through with, and from an upstream there is not."""
    gather = Gather([0, 0])
    tell(gather, 0, 3, 4)
    tell(gather, 1, 3, 4)

    ready = [tell(gather, 0, 3), tell(gather, 1, 2), tell(gather, 0, 4, 6), tell(gather, 0, 5)]
    ready += [tell(gather, 2, 4), tell(gather, -1, 4)]

    assert ready == [[]] * 6
    assert (gather.late, gather.strange) == (3, 2)
    assert tell(gather, 1, 0, 5, rows=0) == [Ready(at(4), True, (piece(0, 4),))]


def test_progress_never_goes_back() -> None:
    """An older record after a newer one takes nothing back."""
    gather = Gather([0])
    tell(gather, 0, 0, 3)

    assert tell(gather, 0, 0, 1, rows=0) == []
    assert gather.through_ms == [at(3)]


def test_of_a_long_gap_the_beginning_is_judged() -> None:
    """An hour of silence is news; then the next window that something came for."""
    gather = Gather([0])
    tell(gather, 0, 0, 1)
    silent = HOUR_MS // WINDOW_MS

    ready = tell(gather, 0, 5_000, 5_001)

    assert [one.window_ms for one in ready] == [*(at(window) for window in range(1, silent + 1)), at(5_000)]
    assert ready[-1].pieces == (piece(0, 5_000),)


RECORDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=40)


@given(RECORDS, st.integers(0, 40))
def test_every_window_comes_once_in_order_wherever_the_state_is_taken_over(
    records: list[tuple[int, int, int]], cut: int
) -> None:
    """No window twice or out of order, none left out but in a long gap; a dump changes nothing."""
    whole, other = Gather([0, 0, 0]), Gather([0, 0, 0])
    found: list[list[Ready]] = [[], []]
    for number, (upstream, window, further) in enumerate(records):
        if number == cut:
            again = Gather([0, 0, 0])
            again.load(other.head(), b"".join(other.values()))
            other = again
        for which, gather in enumerate((whole, other)):
            found[which] += tell(gather, upstream, window, window + further)

    windows = [one.window_ms for one in found[0]]
    assert windows == [windows[0] + number * WINDOW_MS for number in range(len(windows))] if windows else True
    assert found[0] == found[1]
    assert (whole.late, whole.strange, whole.through_ms) == (other.late, other.strange, other.through_ms)


def test_the_order_of_upstreams_changes_no_window() -> None:
    """Each tells its windows in order, none a minute ahead; how they mix is chance."""
    stories = [[(upstream, window) for window in range(6)] for upstream in range(3)]
    seen = []
    for seed in range(20):
        chance, left, gather = random.Random(seed), [list(story) for story in stories], Gather([0, 0, 0])
        ready = []
        while any(left):
            upstream, window = chance.choice([story for story in left if story]).pop(0)
            ready += tell(gather, upstream, window, window + 1)
        seen.append([(one.window_ms, one.complete, set(one.pieces)) for one in ready])

    assert (
        seen == [[(at(window), True, {piece(upstream, window) for upstream in range(3)}) for window in range(6)]] * 20
    )
