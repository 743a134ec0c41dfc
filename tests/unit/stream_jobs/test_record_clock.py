"""``stream_jobs.record_clock``: the time that is read off the records of a log."""

from __future__ import annotations

import pytest

from stream_jobs.record_clock import BEHIND_MS, RecordClock

BASE_MS = 1_800_000_000_000


def shown(*records: tuple[str, int]) -> list[int]:
    """What a clock shows after each record: its sender, and when it was made [ms after the base]."""
    clock, found = RecordClock(15_000), []
    for sender, at_ms in records:
        clock.hear(sender, BASE_MS + at_ms)
        found.append(clock.now_ms)
    return found


def test_it_goes_on_with_the_newest_record() -> None:
    """One that is older moves nothing, whoever sent it: it was sent again, or its sender's clock is a little behind."""
    records = [("a", 0), ("a", 10_000), ("b", 4_000), ("a", 9_000), ("b", 14_000), ("a", 20_000)]

    assert shown(*records) == [0, 10_000, 10_000, 10_000, 14_000, 20_000]


def test_a_pause_of_everybody_is_a_short_time_once() -> None:
    """Not again with each that comes back."""
    records = [("a", 0), ("b", 1_000), ("a", 86_400_000), ("b", 86_400_500)]

    assert shown(*records) == [0, 1_000, 16_000, 16_500]


@pytest.mark.parametrize("senders", ["aa", "ab"], ids=["set back", "another's"])
def test_a_clock_far_behind_counts_from_the_newest(senders: str) -> None:
    """Whether a sender's own was set back, or one that was ahead is heard of no more; it is not read off twice."""
    first, then = senders
    times = [-600_000, -590_000, -580_000, -590_000, -570_000]

    assert shown((first, 0), *((then, at_ms) for at_ms in times)) == [0, 0, 10_000, 20_000, 20_000, 30_000]


def test_senders_whose_clocks_are_apart_do_not_drive_it() -> None:
    """In turn, each ten minutes from the next: it shows the time of one of them."""
    records = [(sender, 10_000 * n + 600_000 * apart) for n in range(60) for apart, sender in enumerate("abc")]

    assert shown(*records)[-1] == 590_000 + 2 * 15_000


@pytest.mark.parametrize(("behind_ms", "moved_ms"), [(BEHIND_MS, 0), (BEHIND_MS + 1, 10_000)])
def test_what_a_transaction_may_last_is_no_other_clock(behind_ms: int, moved_ms: int) -> None:
    """A broker that was away for a minute gets what was made meanwhile of one sender after the other."""
    assert shown(("a", 0), ("b", -behind_ms), ("b", -behind_ms + 10_000))[-1] == moved_ms
