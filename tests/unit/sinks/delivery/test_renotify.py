"""Sending open alerts again around those that a target rejects: which are found, what it costs, when it ends early."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.renotify import FAILED_MAX, Round
from sinks.delivery.schedule import Response
from sinks.delivery.transition import Transition
from tests.unit.sinks.delivery.delivery_cases import an_alert, at

GOOD, NO, BROKEN, AWAY = Response(200), Response(413), Response(500), Response(401)
Batch = tuple[Transition, ...]


def alerts(count: int) -> list[Transition]:
    return [at(n, an_alert(str(n))) for n in range(count)]


def numbers(batch: Batch) -> list[int]:
    return [one.offset for one in batch]


def run(batches: Round, respond: Callable[[set[int]], Response]) -> tuple[list[int], int]:
    """What was delivered and how many requests it took."""
    taken: list[int] = []
    requests = 0
    while (batch := batches.next()) is not None:
        response = respond(set(numbers(batch)))
        taken += numbers(batch) if response is GOOD else []
        batches.responded(response)
        requests += 1
    return taken, requests


def found(batches: Round) -> list[int]:
    return [one.offset for one, _ in batches.failing]


@given(st.integers(0, 60), st.sets(st.integers(0, 59), max_size=5), st.integers(1, 30))
def test_all_but_the_failing_are_sent_once_in_order(count: int, bad: set[int], batch_max: int) -> None:
    """However many there are and wherever they stand."""
    batches = Round(alerts(count), batch_max)

    taken, _ = run(batches, lambda batch: NO if batch & bad else GOOD)

    assert taken == [n for n in range(count) if n not in bad]
    assert found(batches) == sorted(n for n in bad if n < count)
    assert batches.outcome == GOOD


def test_one_failing_alert_among_hundred_costs_some_requests_more() -> None:
    """Two for each halving."""
    assert run(Round(alerts(250)), lambda batch: NO if 0 in batch else GOOD)[1] == 3 + 2 * 6


def test_a_failure_of_the_target_ends_the_round_at_once() -> None:
    """And counts for no alert."""
    batches = Round(alerts(250))

    taken, requests = run(batches, lambda batch: AWAY if 100 in batch else GOOD)

    assert (len(taken), requests, batches.outcome, batches.failing) == (100, 2, AWAY, [])


def test_a_target_that_fails_at_everything_gets_few_requests() -> None:
    """No alert is excluded for that; one alert alone that fails is the target's failure too."""
    batches, alone = Round(alerts(250)), Round(alerts(1))

    assert (run(batches, lambda _: BROKEN), batches.outcome, batches.failing) == (([], 16), BROKEN, [])
    assert (run(alone, lambda _: BROKEN), alone.outcome, alone.failing) == (([], 1), BROKEN, [])


def test_an_alert_that_a_target_fails_on_is_found_where_others_are_delivered() -> None:
    """500 for its batches alone."""
    batches = Round(alerts(100))

    taken, _ = run(batches, lambda batch: BROKEN if 3 in batch else GOOD)

    assert (len(taken), found(batches), batches.outcome) == (99, [3], GOOD)


def test_many_failing_alerts_are_found_over_several_rounds() -> None:
    """A round has a bounded number of requests that fail, and finds some of them."""
    batches = Round(alerts(250))

    _, requests = run(batches, lambda _: NO)

    assert (requests, batches.outcome, len(batches.failing) > 40) == (FAILED_MAX, NO, True)


def test_nothing_open_is_nothing_to_send() -> None:
    """No request."""
    assert Round([]).next() is None
