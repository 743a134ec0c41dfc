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


def outliers(count: int, **limits: float) -> Choice:
    weights = [(str(number), 1) for number in range(count)]
    return Choice(weights, failures_max=2, down_s=5.0, **{"breaks_max": 2, "silent_s": 60.0, **limits})  # type: ignore[arg-type]


def test_silence_is_judged_while_requests_wait() -> None:
    """From the first of them, or the last byte of any answer; at the limit is in time; once, until it is tried."""
    choosing = outliers(2)
    first = choosing.upstreams[0]

    found = [choosing.take_out_silent(1_000.0)]
    choosing.sent(first, 1_000.0)
    choosing.sent(first, 1_030.0)
    found += [choosing.take_out_silent(1_060.0)]
    first.heard_s = 1_061.0
    found += [choosing.take_out_silent(1_121.0), choosing.take_out_silent(1_121.1), choosing.take_out_silent(9_999.0)]

    assert found == [[], [], [], [first], []]
    assert choosing.is_out(first)


def test_an_upstream_without_waiting_requests_is_never_silent() -> None:
    """Those that had their first byte, or ended, wait for nothing."""
    choosing = outliers(2)
    first = choosing.upstreams[0]

    choosing.sent(first, 0.0)
    choosing.settled(first)

    assert choosing.take_out_silent(1_000.0) == []


def test_one_that_is_out_comes_back_by_a_probe_and_one_request() -> None:
    """Nothing during the pause; no request before a good probe; then one, whose first byte brings it back."""
    choosing = outliers(2)
    first = choosing.upstreams[0]
    choosing.sent(first, 0.0)
    choosing.take_out_silent(60.5)
    choosing.settled(first)

    during = [choosing.begin_probes(65.4), taken(choosing, 65.4), taken(choosing, 65.4)]
    begun = [choosing.begin_probes(65.5), choosing.begin_probes(65.5), taken(choosing, 65.5)]
    choosing.probe_ended(first, 66.0, good=True)
    tried = [taken(choosing, 66.0), taken(choosing, 66.0)]
    choosing.connected(first)
    still = taken(choosing, 66.0)
    back = [choosing.answered(first), choosing.answered(first), choosing.is_out(first), taken(choosing, 66.0)]

    assert during == [[], 1, 1]
    assert begun == [[first], [], 1]
    assert (tried, still) == ([0, 1], 1)
    assert back == [True, False, False, 0]


def test_a_trial_that_is_never_sent_whole_lets_the_next_try() -> None:
    """Its client left within its body, on a connection that was idle: the upstream is not left out for ever."""
    choosing = outliers(2, breaks_max=1)
    first, second = choosing.upstreams
    assert taken(choosing) == 0
    assert choosing.broke(first, 0.0)
    choosing.release(first)
    (probed,) = choosing.begin_probes(5.0)
    choosing.probe_ended(probed, 5.0, good=True)
    assert choosing.take(6.0, (1,)) is first
    choosing.reused(first)
    assert choosing.take(6.0) is second

    choosing.release(first)

    assert choosing.take(7.0) is first
    assert choosing.is_out(first)


def test_each_time_the_pause_is_twice_as_long_up_to_a_minute() -> None:
    """A bad probe and a silent trial count alike."""
    choosing = outliers(2)
    first = choosing.upstreams[0]
    choosing.sent(first, 0.0)
    choosing.take_out_silent(61.0)

    pauses, now_s = [first.down_until_s - 61.0], 61.0
    for _ in range(5):
        now_s = first.down_until_s
        choosing.begin_probes(now_s)
        choosing.probe_ended(first, now_s, good=False)
        pauses.append(first.down_until_s - now_s)

    assert pauses == [5, 10, 20, 40, 60, 60]


def test_a_trial_in_silence_takes_it_out_again() -> None:
    """Only when its own time has passed."""
    choosing = outliers(2)
    first = choosing.upstreams[0]
    choosing.sent(first, 0.0)
    choosing.take_out_silent(61.0)
    choosing.settled(first)
    choosing.begin_probes(66.0)
    choosing.probe_ended(first, 66.0, good=True)
    choosing.take(66.0)
    choosing.sent(first, 66.0)

    assert [choosing.take_out_silent(126.0), choosing.take_out_silent(126.5), first.outs] == [[], [first], 2]


def test_answers_that_never_come_take_it_out_in_a_row() -> None:
    """An answer between two begins anew; one on trial goes out at once."""
    choosing = outliers(2)
    first = choosing.upstreams[0]

    found = [choosing.broke(first, 0.0)]
    choosing.answered(first)
    found += [choosing.broke(first, 0.0), choosing.broke(first, 0.0), choosing.broke(first, 0.0)]
    choosing.begin_probes(5.0)
    choosing.probe_ended(first, 5.0, good=True)
    choosing.take(5.0)
    found += [choosing.broke(first, 6.0)]

    assert found == [False, False, True, False, True]
    assert first.outs == 2


def test_with_all_out_they_share_requests_as_if_none_were() -> None:
    """And one that can be connected to comes before one that cannot."""
    choosing = outliers(3)
    for upstream in choosing.upstreams[:2]:
        choosing.sent(upstream, 0.0)
    for _ in range(2):
        choosing.failed(choosing.upstreams[2], 61.0)
    choosing.take_out_silent(61.0)

    assert [taken(choosing, 61.0) for _ in range(4)] == [0, 1, 0, 1]
    assert not choosing.none_to_try(61.0)


def test_limits_of_0_take_nothing_out() -> None:
    """Neither silence nor requests without an answer."""
    choosing = outliers(2, breaks_max=0, silent_s=0)
    first = choosing.upstreams[0]
    choosing.sent(first, 0.0)

    assert not any(choosing.broke(first, 0.0) for _ in range(100))
    assert choosing.take_out_silent(1e6) == []
