"""``stream_jobs.alerts.gather``: when a window is judged, and with what."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.finals import PROGRESS_SCHEMA, FinalsHeaders
from stream_jobs.alerts.gather import EARLY_MS, PAUSE_MS, Gather, Piece, Ready, Waiting
from tests.unit.stream_jobs.alerts.cases import at


def tell(
    gather: Gather,
    upstream: int,
    window: int,
    through: int = 0,
    *,
    rows: int = 1,
    complete: bool = True,
    at_ms: int | None = None,
) -> list[Ready]:
    """A record of one upstream, appended at ``at_ms``, and what is ready after it."""
    headers = FinalsHeaders("x/1", upstream, at(window), 0, complete, at(through) if through else 0, rows)
    gather.add(headers, b"%d:%d" % (upstream, window), at_ms)
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


def test_a_backlog_is_waited_for_while_it_is_worked_off() -> None:
    """After an outage one upstream tells its hour before the other, within seconds: every window is whole."""
    gather, ready = Gather([0, 0]), []
    for upstream in (0, 1):
        for window in range(360):
            at_ms = at(400) + 1_000 * upstream + window
            ready += tell(gather, upstream, window, window + 1, at_ms=at_ms)

    assert [(one.window_ms, one.complete) for one in ready] == [(at(window), True) for window in range(360)]
    assert gather.late == 0


def looks(gather: Gather, *records: tuple[int, int, int, int]) -> list[list[Ready]]:
    """What is to be looked at early after each record: upstream, window, what it is through with, time of appending."""
    found = []
    for upstream, window, through, at_ms in records:
        assert tell(gather, upstream, window, through, at_ms=at_ms) == []
        found.append(list(gather.early()))
    return found


def test_a_window_that_somebody_delays_is_looked_at_once_with_what_is_whole() -> None:
    """Some seconds of appending after the first upstream was through with it; and it is judged all the same."""
    gather, begin = Gather([0, 0, 0]), at(1)
    early = Ready(at(0), False, (piece(0, 0), piece(1, 0)), series_whole=True)

    found = looks(
        gather,
        (0, 0, 1, begin),
        (2, 0, 0, begin + 1_000),  # not through with it: what came of it may be a part
        (1, 0, 1, begin + 3_000),
        (0, 1, 0, begin + EARLY_MS - 1),
        (1, 1, 0, begin + EARLY_MS),
        (0, 1, 0, begin + EARLY_MS + 1),
    )

    assert found == [[], [], [], [], [early], []]
    assert tell(gather, 2, 0, 1, rows=0) == [Ready(at(0), True, (piece(0, 0), piece(2, 0), piece(1, 0)))]


def test_a_window_that_is_incomplete_is_not_looked_at_early() -> None:
    """Where an upstream itself lacks a source its series may be parts. Nor without times, nor once judged."""
    gather, untimed, quick = Gather([0, 0]), Gather([0, 0]), Gather([0, 0])

    tell(gather, 0, 0, 1, complete=False, at_ms=at(1))
    tell(untimed, 0, 0, 1)
    tell(quick, 0, 0, 1, at_ms=at(1))
    judged = [(one.window_ms, one.complete) for one in tell(quick, 1, 0, 1, at_ms=at(2))]
    for one, at_ms in ((gather, at(3)), (untimed, None), (quick, at(3))):
        tell(one, 0, 1, at_ms=at_ms)

    assert judged == [(at(0), True)]
    assert [list(one.early()) for one in (gather, untimed, quick)] == [[], [], []]


@pytest.mark.parametrize("cut", range(5))
def test_when_a_window_is_looked_at_follows_from_the_log_over_a_restart(cut: int) -> None:
    """No owner looks again at what one before looked at, nor gives it its time anew."""
    records = [(0, 0, 1, at(1)), (0, 1, 2, at(2)), (0, 2, 0, at(3) - 1), (0, 2, 3, at(3)), (0, 3, 4, at(4))]
    gather, other = Gather([0, 0]), Gather([0, 0])

    found = looks(gather, *records[:cut])
    other.load(gather.head(), b"".join(gather.values()))
    found += looks(other, *records[cut:])

    assert [[one.window_ms for one in each] for each in found] == [[], [at(0)], [at(1)], [], [at(2)]]


def test_what_waits_is_bounded_in_windows() -> None:
    """A backlog too long to keep is judged without those that have not told theirs; also after a restart."""
    gather, ready = Gather([0, 0], windows_max=5), []
    for window in range(5):
        ready += tell(gather, 0, window, window + 1, at_ms=at(400) + window)
    again = Gather([0, 0], windows_max=5)
    again.load(gather.head(), b"".join(gather.values()))

    assert ready == []
    for one in (gather, again):
        assert tell(one, 0, 5, 6, at_ms=at(400) + 5) == [Ready(at(0), False, (piece(0, 0),), series_whole=True)]


def test_however_large_a_fleet_is_windows_are_complete_with_an_upstream_a_window_late() -> None:
    """100,000 GPUs have more than 100 MiB of finals in a window, and two of them wait."""
    value, gather, ready = bytes(2 << 20), Gather([0] * 64), []
    for window in range(3):
        for upstream in range(64):
            own = window - (upstream == 0)
            rows = 0 if own < 0 else 1
            through_ms = at(own + 1) if rows else 0
            headers = FinalsHeaders("x/1", upstream, at(max(own, 0)), 0, True, through_ms, rows)
            gather.add(headers, value, at(window + 1) + upstream, 64 * window + upstream)
            ready += [(one.window_ms, one.complete, len(one.pieces)) for one in gather.ready()]

    assert ready == [(at(0), True, 64), (at(1), True, 64)]
    assert gather.late == 0


def test_values_that_find_no_room_in_memory_wait_in_a_file_per_window() -> None:
    """It is opened for the first of them and closed when its window is judged; the window is the same."""
    opened: list[io.BytesIO] = []

    def open_file() -> io.BytesIO:
        opened.append(io.BytesIO())
        return opened[-1]

    gather = Gather([0, 0], memory_bytes_max=6, open_file=open_file)
    for window in range(4):
        tell(gather, 0, window, window + 1, at_ms=at(400))
    written = [one.getvalue() for one in opened]
    ready = tell(gather, 1, 3, 4, at_ms=at(400))

    assert written == [b"0:2", b"0:3"]
    assert [one.pieces for one in ready] == [(piece(0, 0),), (piece(0, 1),), (piece(0, 2),), (piece(0, 3), piece(1, 3))]
    assert [one.closed for one in opened] == [True, True]
    assert gather.memory_bytes == 0


class _Full(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(28, "no space left on device")


class _Filling(io.BytesIO):
    def write(self, data: Any) -> int:
        return super().write(data[:1])


class _Cut(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        return b""


@pytest.mark.parametrize("disk", [_Full, _Filling])
def test_what_a_full_disk_does_not_take_stays_in_memory(
    disk: type[io.BytesIO], caplog: pytest.LogCaptureFixture
) -> None:
    """No window is lost by it, also where a part of a value found room; the log says so once a window."""
    gather = Gather([0, 0], memory_bytes_max=0, open_file=disk)

    assert tell(gather, 0, 0, 1) == []
    assert tell(gather, 1, 0, 1) == [Ready(at(0), True, (piece(0, 0), piece(1, 0)))]
    assert gather.memory_bytes == 0
    assert [one.message for one in caplog.records] == [
        "finals that wait cannot be written to disk; they stay in memory"
    ]


def test_a_file_that_was_cut_ends_the_process() -> None:
    """It is no record's fault: none is rejected, and the next owner reads the values from the log."""
    gather = Gather([0, 0], memory_bytes_max=0, open_file=_Cut)
    tell(gather, 0, 0, 1)

    with pytest.raises(MemoryError, match="cut short"):
        tell(gather, 1, 0, 1)


def dumped(gather: Gather) -> tuple[dict[str, Any], bytes]:
    return gather.head(), b"".join(gather.values())


def a_record(upstream: int, window: int, through: int) -> tuple[FinalsHeaders, bytes]:
    return FinalsHeaders("x/1", upstream, at(window), 0, True, at(through), 1), bytes(100_000)


def test_a_dump_names_what_waits_and_holds_none_of_it() -> None:
    """An owner that loads it reads those records again, and takes nothing else of them or of others."""
    log = [a_record(0, 0, 1), a_record(1, 0, 1), a_record(0, 1, 2), a_record(0, 2, 3)]
    gather = Gather([0, 0])
    for offset, (headers, value) in enumerate(log):
        gather.add(headers, value, at(3), offset)
        assert len(list(gather.ready())) == (offset == 1)
    again = Gather([0, 0])
    again.load(*dumped(gather))
    before = again.head()
    for offset, (headers, value) in enumerate(log):
        again.add_again(offset, headers, value)

    assert gather.first_offset() == 2
    assert len(str(gather.head())) < 300
    assert (gather.values(), before) == ([], gather.head())
    assert dumped(again) == dumped(gather)
    assert (again.waiting, again.memory_bytes) == (gather.waiting, 200_000)
    assert list(again.ready()) == []


def test_windows_that_lack_what_retention_deleted_are_incomplete() -> None:
    """Those after them are whole."""
    gather = Gather([0, 0])
    for window in range(3):
        gather.add(*a_record(0, window, window + 1), at(3), window)
    again = Gather([0, 0])
    again.load(*dumped(gather))
    again.pass_over(1)
    for window in (1, 2):
        again.add_again(window, *a_record(0, window, window + 1))

    ready = tell(again, 1, 2, 3, rows=0, at_ms=at(3))

    assert again.first_offset() is None
    assert [(one.complete, len(one.pieces)) for one in ready] == [(False, 0), (True, 1), (True, 1)]


@pytest.mark.parametrize("restarted", [False, True], ids=["one owner", "a restart"])
def test_windows_that_an_upstream_lost_lack_it_whatever_it_is_through_with(restarted: bool) -> None:
    """As if it were silent: nothing of its machines is there, and that is no silence of theirs. Others are whole."""
    gather, at_ms = Gather([0, 0]), at(5)
    ready = [*tell(gather, 0, 0, 1, at_ms=at_ms), *tell(gather, 1, 0, 1, at_ms=at_ms)]
    for window in (1, 2, 3, 4):
        ready += tell(gather, 0, window, window + 1, at_ms=at_ms)

    gather.add(FinalsHeaders(PROGRESS_SCHEMA, 1, at(3), 0, False, 0, 0), b"", at_ms)
    if restarted:
        again = Gather([0, 0])
        again.load(*dumped(gather))
        gather = again
    ready += tell(gather, 1, 2, at_ms=at_ms)
    ready += tell(gather, 1, 4, 5, at_ms=at_ms)

    assert [(one.window_ms, one.complete, one.series_whole, len(one.pieces)) for one in ready] == [
        (at(0), True, False, 2),
        (at(1), False, True, 1),
        (at(2), False, True, 1),
        (at(3), True, False, 1),
        (at(4), True, False, 2),
    ]
    assert (gather.late, gather.lost) == (1, {})


def test_what_was_not_read_again_makes_its_window_incomplete() -> None:
    """Whatever kept it from being read."""
    gather = Gather([0, 0])
    gather.add(*a_record(0, 0, 1), at(3), 0)
    again = Gather([0, 0])
    again.load(*dumped(gather))

    assert tell(again, 1, 0, 1, rows=0, at_ms=at(3)) == [Ready(at(0), False, ())]


def test_what_has_no_offset_is_carried_by_dumps_compressed() -> None:
    """As dumps of the release before hold all that waits; the same after it was loaded."""
    gather = Gather([0, 0])
    gather.add(*a_record(0, 0, 1), at(1))
    again = Gather([0, 0])
    again.load(*dumped(gather))

    assert len(b"".join(gather.values())) < 1_000
    assert dumped(again) == dumped(gather)
    assert again.waiting == gather.waiting
    assert again.memory_bytes == gather.memory_bytes == 100_000


@pytest.mark.parametrize(("upstreams", "judged"), [(2, 13), (3, 13)])
def test_an_upstream_that_is_silent_for_a_minute_of_appending_is_left_behind(upstreams: int, judged: int) -> None:
    """While others go on as usual: the window is judged when they are a minute ahead of it."""
    gather, ready = Gather([0] * upstreams), []
    for window in range(20):
        for upstream in range(upstreams - 1):
            at_ms = at(window + 1) + 2_000 + 100 * upstream
            ready += tell(gather, upstream, window, window + 1, at_ms=at_ms)

    assert [(one.window_ms, one.complete) for one in ready] == [(at(window), False) for window in range(judged + 1)]


@pytest.mark.parametrize("restarted", [False, True], ids=["one owner", "a restart"])
def test_a_clock_that_was_ahead_keeps_nobody_waiting(restarted: bool) -> None:
    """The worker of an upstream bears times ten minutes ahead, and dies: it is silent after a minute like any other."""
    gather, ready, ahead_ms = Gather([0, 0, 0]), [], 10 * MINUTE_MS
    for window in range(20):
        for upstream in range(3 if window < 5 else 2):
            at_ms = at(window + 1) + 2_000 + 100 * upstream + (ahead_ms if upstream == 2 else 0)
            ready += tell(gather, upstream, window, window + 1, at_ms=at_ms)
        if restarted:
            again = Gather([0, 0, 0])
            again.load(gather.head(), b"".join(gather.values()))
            gather = again

    assert [(one.window_ms, one.complete) for one in ready] == [(at(window), window < 5) for window in range(14)]


def test_a_silence_of_everybody_makes_nobody_silent() -> None:
    """A pause of a day counts as some seconds."""
    gather = Gather([0, 0])
    for upstream in (0, 1):
        tell(gather, upstream, 0, 1, at_ms=at(1))

    ahead = [tell(gather, 0, window, window + 1, at_ms=at(8_640) + window) for window in range(1, 60)]

    assert ahead == [[]] * 59
    assert gather.clock_ms == PAUSE_MS + 58
    assert len(tell(gather, 1, 59, 60, at_ms=at(8_641))) == 59


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


def test_a_gap_is_never_skipped_backwards() -> None:
    """Whatever waits: windows that were judged are not judged again."""
    gather = Gather([0], gap_ms=2 * WINDOW_MS)
    tell(gather, 0, 0, 1)
    tell(gather, 0, 1, 4, rows=0)
    gather.waiting[at(1)] = Waiting()

    ready = tell(gather, 0, 0, 9, rows=0)

    assert ready == []
    assert gather.next_ms == at(9)


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
