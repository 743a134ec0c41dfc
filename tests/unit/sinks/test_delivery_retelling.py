"""Telling again around alerts that a target does not take: who is found, what it costs, when it ends early."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.backlog import Transition
from sinks.delivery.retelling import FAILED_MAX, Retelling
from sinks.delivery.schedule import Answer
from tests.unit.sinks.delivery_cases import an_alert, at

GOOD, NO, BROKEN, AWAY = Answer(200), Answer(413), Answer(500), Answer(401)
Batch = tuple[Transition, ...]


def alerts(count: int) -> list[Transition]:
    return [at(n, an_alert(str(n))) for n in range(count)]


def numbers(batch: Batch) -> list[int]:
    return [one.offset for one in batch]


def run(retelling: Retelling, answer: Callable[[set[int]], Answer]) -> tuple[list[int], int]:
    """What was taken and how many requests it took."""
    taken: list[int] = []
    requests = 0
    while (batch := retelling.next()) is not None:
        said = answer(set(numbers(batch)))
        taken += numbers(batch) if said is GOOD else []
        retelling.answered(said)
        requests += 1
    return taken, requests


def found(retelling: Retelling) -> list[int]:
    return [one.offset for one, _ in retelling.culprits]


@given(st.integers(0, 60), st.sets(st.integers(0, 59), max_size=5), st.integers(1, 30))
def test_all_but_the_culprits_are_told_once_in_order(count: int, bad: set[int], batch_max: int) -> None:
    """However many there are and wherever they stand."""
    retelling = Retelling(alerts(count), batch_max)

    taken, _ = run(retelling, lambda batch: NO if batch & bad else GOOD)

    assert taken == [n for n in range(count) if n not in bad]
    assert found(retelling) == sorted(n for n in bad if n < count)
    assert retelling.outcome == GOOD


def test_one_culprit_among_hundred_costs_some_requests_more() -> None:
    """Two for each halving."""
    assert run(Retelling(alerts(250)), lambda batch: NO if 0 in batch else GOOD)[1] == 3 + 2 * 6


def test_trouble_of_the_target_ends_the_round_at_once() -> None:
    """And is nobody's fault."""
    retelling = Retelling(alerts(250))

    taken, requests = run(retelling, lambda batch: AWAY if 100 in batch else GOOD)

    assert (len(taken), requests, retelling.outcome, retelling.culprits) == (100, 2, AWAY, [])


def test_a_target_that_fails_at_everything_is_not_asked_for_long() -> None:
    """Nobody is left out for that; one alert alone that fails is the target's failure too."""
    retelling, alone = Retelling(alerts(250)), Retelling(alerts(1))

    assert (run(retelling, lambda _: BROKEN), retelling.outcome, retelling.culprits) == (([], 16), BROKEN, [])
    assert (run(alone, lambda _: BROKEN), alone.outcome, alone.culprits) == (([], 1), BROKEN, [])


def test_an_alert_that_a_target_chokes_on_is_found_where_others_are_taken() -> None:
    """500 for its batches alone."""
    retelling = Retelling(alerts(100))

    taken, _ = run(retelling, lambda batch: BROKEN if 3 in batch else GOOD)

    assert (len(taken), found(retelling), retelling.outcome) == (99, [3], GOOD)


def test_many_culprits_are_found_over_several_rounds() -> None:
    """A round has a bounded number of requests that fail, and finds some of them."""
    retelling = Retelling(alerts(250))

    _, requests = run(retelling, lambda _: NO)

    assert (requests, retelling.outcome, len(retelling.culprits) > 40) == (FAILED_MAX, NO, True)


def test_nothing_open_is_nothing_to_tell() -> None:
    """No request."""
    assert Retelling([]).next() is None
