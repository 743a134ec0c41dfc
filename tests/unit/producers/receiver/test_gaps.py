"""Sequences of clients: received, lost, missing, duplicates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.receiver.gaps import WINDOW, Arrival, Gaps

A, B = (1, 10), (2, 20)


def counts(gaps: Gaps) -> tuple[int, int, int, int]:
    return gaps.received, gaps.lost, gaps.missing, gaps.duplicates


def arrivals(*seqs: int, lost: int = 0, client: tuple[int, int] = A) -> list[Arrival]:
    return [Arrival(client, seq, lost, 0) for seq in seqs]


def test_a_whole_sequence_is_missing_nothing() -> None:
    """In order, nothing dropped."""
    gaps = Gaps()

    assert gaps.take(arrivals(0, 1, 2)) == [True, True, True]
    assert counts(gaps) == (3, 0, 0, 0)


def test_what_the_client_dropped_is_lost_and_not_missing() -> None:
    """Numbers 1 and 2 were dropped, and number 3 says so."""
    gaps = Gaps()

    gaps.take([Arrival(A, 0, 0, 0), Arrival(A, 3, 2, 2)])

    assert counts(gaps) == (2, 2, 0, 0)


def test_the_next_datagram_reports_a_count_that_was_lost_on_its_way() -> None:
    """Number 2, which reported one dropped, never came: 4 reports both, and 2 itself is missing."""
    gaps = Gaps()

    gaps.take([Arrival(A, 0, 0, 0), Arrival(A, 4, 2, 1)])

    assert counts(gaps) == (2, 2, 1, 0)


def test_a_gap_without_a_word_is_missing_until_it_is_filled() -> None:
    """Number 1 comes after 2."""
    gaps = Gaps()

    assert gaps.take(arrivals(0, 2)) == [True, True]
    assert counts(gaps) == (2, 0, 1, 0)
    assert gaps.take(arrivals(1)) == [True]
    assert counts(gaps) == (3, 0, 0, 0)


@pytest.mark.parametrize("behind", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1])
def test_a_number_twice_is_a_duplicate(behind: int) -> None:
    """The second of a pair is dropped, however far behind it comes."""
    gaps = Gaps()
    gaps.take(arrivals(*range(WINDOW + 10)))

    assert gaps.take(arrivals(WINDOW + 9 - behind)) == [False]
    assert counts(gaps) == (WINDOW + 10, 0, 0, 1)


@pytest.mark.parametrize(("behind", "kept"), [(WINDOW - 1, True), (WINDOW, False)])
def test_a_late_one_fills_its_gap_only_inside_the_window(behind: int, kept: bool) -> None:
    """On the edge of the window, and one beyond."""
    gaps = Gaps()
    gaps.take(arrivals(0, behind + 1))

    assert gaps.take(arrivals(1)) == [kept]
    assert gaps.missing == behind - (1 if kept else 0)


def test_a_client_first_seen_in_the_middle_is_believed_its_last_run() -> None:
    """A restarted agent does not count again what its predecessor declared."""
    gaps = Gaps()

    gaps.take([Arrival(A, 100, 30, 4)])

    assert counts(gaps) == (1, 4, 0, 0)


def test_a_client_that_never_got_through_before_tells_all() -> None:
    """The agent came up after the client had dropped 30."""
    gaps = Gaps()

    gaps.take([Arrival(A, 30, 30, 25)])

    assert counts(gaps) == (1, 30, 0, 0)


def test_a_farewell_tells_what_was_dropped_at_the_end() -> None:
    """Numbers 1 to 4 ended, 3 of them were dropped: one is missing. Then the client is forgotten."""
    gaps = Gaps()

    assert gaps.take([Arrival(A, 0, 0, 0), Arrival(A, 5, 3, 3, last=True)]) == [True, False]
    assert counts(gaps) == (1, 3, 1, 0)
    assert gaps.clients == 0


def test_a_farewell_of_a_stranger_tells_its_losses() -> None:
    """Nothing of it ever got through."""
    gaps = Gaps()

    assert gaps.take([Arrival(A, 7, 7, 7, last=True)]) == [False]
    assert counts(gaps) == (0, 7, 0, 0)
    assert gaps.clients == 0


def test_pid_and_start_identify_a_client() -> None:
    """The same pid with another start time is another client."""
    gaps = Gaps()

    gaps.take([*arrivals(5), *arrivals(0, client=(A[0], A[1] + 1)), *arrivals(6)])

    assert counts(gaps) == (3, 0, 0, 0)
    assert gaps.clients == 2


def test_the_client_silent_longest_is_forgotten_and_its_gap_stays() -> None:
    """Room for two; A spoke after B."""
    gaps = Gaps(clients_max=2)
    gaps.take([*arrivals(0, 2, client=B), *arrivals(0)])

    gaps.take(arrivals(0, client=(3, 30)))

    assert (gaps.forgotten, gaps.clients, gaps.missing) == (1, 2, 1)
    assert gaps.take(arrivals(0)) == [False]
    assert gaps.take(arrivals(1, client=B)) == [True]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Arrival], int, int]:
    """What one client did (sent, dropped, sent but lost on the way), as it arrived; how many were dropped and how
    many lost up to the last that arrived."""
    fates = draw(st.lists(st.sampled_from("sssdx"), min_size=1, max_size=150))
    arrived: list[tuple[Arrival, int, int]] = []
    lost = run = gone = 0
    for seq, fate in enumerate(["s", *fates]):
        if fate == "d":
            lost, run = lost + 1, run + 1
            continue
        gone += fate == "x"
        if fate == "s":
            arrived.append((Arrival(A, seq, lost, run), lost, gone))
        run = 0
    return [each for each, _, _ in arrived], arrived[-1][1], arrived[-1][2]


@settings(deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_books_of_a_client_balance(history: tuple[list[Arrival], int, int], chance: object) -> None:
    """Received, lost and missing are what happened, and repetitions within the window change nothing."""
    arrivals, lost, gone = history
    gaps = Gaps()
    again: list[Arrival] = []
    for index, arrival in enumerate(arrivals):
        again.append(arrival)
        if index % 3 == 2:
            again.append(arrivals[index - 1])

    gaps.take(again)

    assert (gaps.received, gaps.lost, gaps.missing) == (len(arrivals), lost, gone)
    assert gaps.duplicates == len(again) - len(arrivals)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([A, B]), st.integers(0, 200), st.integers(0, 3), st.integers(0, 90)), max_size=20
    )
)
def test_runs_are_taken_as_one_by_one(parts: Sequence[tuple[tuple[int, int], int, int, int]]) -> None:
    """A run is a shorter way to say the same; state afterwards included."""
    runs = [(Arrival(client, seq, lost, 0), more) for client, seq, lost, more in parts]
    singly = [first._replace(seq=first.seq + i) for first, more in runs for i in range(more + 1)]
    together, apart = Gaps(), Gaps()

    assert together.take_runs(runs) == apart.take(singly)
    assert counts(together) == counts(apart)
    assert together._clients == apart._clients
