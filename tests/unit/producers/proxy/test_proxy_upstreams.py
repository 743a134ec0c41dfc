"""The choice among upstreams: open requests by weight, health learnt from connecting."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.upstreams import Choice


def choice(*weights: int) -> Choice:
    return Choice([(str(number), weight) for number, weight in enumerate(weights)], failures_max=2, down_s=5.0)


def taken(choosing: Choice, now_s: float = 0.0, without: tuple[int, ...] = ()) -> int | None:
    found = choosing.take(now_s, without)
    return None if found is None else found.index


def test_equals_take_turns() -> None:
    """Among equals it is the one whose turn is longest ago, also when requests end at once."""
    choosing = choice(1, 1, 1)

    order = []
    for _ in range(6):
        upstream = choosing.take(0.0)
        assert upstream is not None
        order.append(upstream.index)
        choosing.release(upstream)

    assert order == [0, 1, 2, 0, 1, 2]


def test_one_that_was_tried_is_not_tried_again() -> None:
    """None when all were."""
    choosing = choice(1, 1)

    assert (taken(choosing, without=(0,)), taken(choosing, without=(0, 1))) == (1, None)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 4))
def test_open_requests_follow_weights(weights: list[int], times: int) -> None:
    """After a whole multiple of the sum of weights each has exactly its share."""
    choosing = choice(*weights)

    counted = Counter(taken(choosing) for _ in range(sum(weights) * times))

    assert counted == {number: weight * times for number, weight in enumerate(weights)}


def test_one_that_fails_is_left_alone_for_a_while() -> None:
    """Down at the second failure in a row; one trial when the pause is over; back by a success."""
    choosing = choice(1, 1)
    first = choosing.upstreams[0]

    results = [choosing.failed(first, 0.0), choosing.failed(first, 1.0), choosing.failed(first, 1.0)]
    during = [taken(choosing, 5.9), taken(choosing, 5.9)]
    after = [taken(choosing, 6.0), taken(choosing, 6.0)]

    assert results == [False, True, False]
    assert during == [1, 1]
    assert after == [0, 1]
    assert (choosing.connected(first), choosing.connected(first)) == (True, False)


def test_a_trial_without_result_lets_the_next_try() -> None:
    """Its client went away, or an idle connection was used."""
    choosing = choice(1, 1)
    first = choosing.upstreams[0]
    for _ in range(2):
        choosing.failed(first, 0.0)

    trial = taken(choosing, 5.0)
    choosing.gave_up(first)

    assert (trial, taken(choosing, 5.0, without=(1,))) == (0, 0)


def test_with_all_down_the_one_down_longest_is_tried() -> None:
    """Rather than none."""
    choosing = choice(1, 1)
    for index, at_s in ((1, 0.0), (0, 1.0)):
        for _ in range(2):
            choosing.failed(choosing.upstreams[index], at_s)

    assert taken(choosing, 1.5) == 1


def test_none_to_try_only_while_every_pause_lasts() -> None:
    """When one ends a request may find out, so one is to be had: else nothing would ever find an upstream back."""
    choosing = choice(1, 1)
    first, second = choosing.upstreams

    results = []
    for upstream, at_s in ((first, 0.0), (first, 0.0), (second, 1.0), (second, 1.0)):
        choosing.failed(upstream, at_s)
        results.append(choosing.none_to_try(1.0))

    assert results == [False, False, False, True]
    assert (choosing.none_to_try(4.9), choosing.none_to_try(5.0)) == (True, False)
    choosing.failed(first, 5.0)
    assert (choosing.none_to_try(5.9), choosing.none_to_try(6.0)) == (True, False)
