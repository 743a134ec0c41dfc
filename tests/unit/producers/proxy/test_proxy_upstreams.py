"""The choice among upstreams: open requests by weight, health learnt from connecting."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines.registry import placement_groups
from producers.engines.target import sought, target_of
from producers.proxy.upstreams import Choice, engine_of
from runtime.edge_config import EngineConfig, UpstreamConfig


def choice(*weights: int) -> Choice:
    return Choice([(str(number), weight) for number, weight in enumerate(weights)], failures_max=2, down_s=5.0)


def taken(choosing: Choice, now_s: float = 0.0, without: tuple[int, ...] = ()) -> int | None:
    found = choosing.take(now_s, without)
    return None if found is None else found.index


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://127.0.0.2:8000",
        "http://localhost:8000",
        "http://[::1]:8000",
        "http://0.0.0.0:8000",
        "http://engine-7:8000",
        "https://10.0.0.7",
    ],
)
def test_proxy_and_agent_name_an_engine_alike(url: str) -> None:
    """The address that both are given, the proxy's with the base path of clients; and the group of an engine that has
    its GPUs for itself."""
    target = target_of(EngineConfig(url=f"{url}/metrics"), "h-1")

    engine_id, group = engine_of(UpstreamConfig(url=f"{url}/v1"), "h-1")

    assert engine_id == target.engine_id
    assert {engine_id: group} == placement_groups({target.engine_id: ("G0",)}, "h-1")


def test_an_engine_that_the_agent_finds_by_its_port_has_the_name_that_the_proxy_gives() -> None:
    """Without a line of configuration on either side."""
    (target,) = sought([8000], "h-1")

    assert engine_of(UpstreamConfig(url="http://localhost:8000/v1"), "h-1") == (target.engine_id, target.engine_id)


def test_what_is_configured_comes_first() -> None:
    """An id is the group as well; a group leaves the id."""
    named = UpstreamConfig(url="http://127.0.0.1:8000", engine_id="e")
    grouped = UpstreamConfig(url="http://127.0.0.1:8000", placement_group="a+b")

    assert engine_of(named, "h-1") == ("e", "e")
    assert engine_of(grouped, "h-1") == ("h-1:8000", "a+b")


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
