"""Cumulative totals: what a difference is taken to, of processes side by side and one after another."""

from __future__ import annotations

import pytest

from producers.otlp.totals import Total, Totals

NAME = b"tokens"


def taken(totals: Totals, start_ns: int, at_ns: int, amount: int, identity: bytes = NAME) -> int | None:
    """The increase, as whoever takes a point sees it."""
    before = totals.take(identity, start_ns, Total(at_ns, amount))
    return None if before is None else amount - before.amount


def test_processes_side_by_side_are_series_of_their_own() -> None:
    """What each had counted when it was seen first may have been taken before."""
    totals = Totals(10)

    found = [
        taken(totals, *point) for point in ((100, 160, 1_000), (101, 161, 500), (100, 220, 1_010), (101, 221, 505))
    ]

    assert found == [None, None, 10, 5]


def test_a_process_that_began_after_another_was_seen_counts_from_nothing() -> None:
    """A restart, or one more."""
    totals = Totals(10)

    assert [taken(totals, 100, 160, 1_000), taken(totals, 170, 220, 7)] == [None, 7]


def test_what_is_sent_again_or_was_overtaken_is_no_increase() -> None:
    """Nor does it change what the next is compared with."""
    totals = Totals(10)

    found = [taken(totals, 1, at_ns, amount) for at_ns, amount in ((10, 5), (20, 8), (20, 8), (15, 6), (30, 9))]

    assert found == [None, 3, None, None, 1]


def test_the_series_not_seen_for_longest_is_forgotten() -> None:
    """For a new one."""
    totals = Totals(2)
    for identity in (b"a", b"b", b"c"):
        taken(totals, 1, 10, 5, identity)

    assert [taken(totals, 1, 20, 7, identity) for identity in (b"c", b"b", b"a")] == [2, 2, None]


def test_an_error_leaves_everything_as_it_was() -> None:
    """Also what was forgotten for something new: the same points count when they are sent again."""
    totals = Totals(2)
    taken(totals, 1, 10, 5, b"a")
    taken(totals, 1, 10, 5, b"b")

    def handed_over() -> None:
        with totals.all_or_nothing():
            for name, amount in ((b"a", 7), (b"c", 1), (b"b", 9)):
                taken(totals, 1, 20, amount, name)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        handed_over()

    with totals.all_or_nothing():
        found = [taken(totals, 1, 20, amount, name) for name, amount in ((b"a", 7), (b"b", 9), (b"c", 1))]
    assert found == [2, 4, None]
