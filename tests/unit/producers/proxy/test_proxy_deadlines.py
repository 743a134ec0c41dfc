"""Limits of time, each at its bound and just beyond."""

from __future__ import annotations

import pytest

from producers.proxy.deadlines import SWEEP_S, Arrival, Overdue, Phase, overdue
from runtime.proxy_config import ProxyConfig

LIMITS = ProxyConfig(header_s=1, body_quiet_s=2, idle_s=3, linger_s=4, write_quiet_s=5, upstream_quiet_s=6, total_s=100)
CASES = {
    "between requests": (Phase.IDLE, Overdue.IDLE, 3),
    "in a head": (Phase.HEAD, Overdue.HEADER, 1),
    "in a body": (Phase.BODY, Overdue.BODY, 2),
    "waiting for the upstream": (Phase.ANSWER, Overdue.UPSTREAM, 6),
    "throwing away": (Phase.LINGER, Overdue.LINGER, 4),
    "sending the last": (Phase.CLOSING, Overdue.WRITE, 5),
}


@pytest.mark.parametrize(("phase", "passed", "limit_s"), CASES.values(), ids=CASES)
def test_each_phase_has_its_limit(phase: Phase, passed: Overdue, limit_s: float) -> None:
    """The limit itself is still in time."""
    since_s = 1_000.0

    def at(now_s: float) -> Overdue | None:
        return overdue(phase, now_s, since_s=since_s, began_s=since_s, heard_s=since_s, stuck_s=None, limits=LIMITS)

    assert at(since_s + limit_s) is None
    assert at(since_s + limit_s + 0.001) is passed


@pytest.mark.parametrize("phase", [Phase.BODY, Phase.ANSWER])
def test_a_request_has_its_total(phase: Phase) -> None:
    """However lively it is."""
    passed = overdue(phase, 101.0, since_s=101, began_s=0.5, heard_s=101, stuck_s=None, limits=LIMITS)

    assert passed is Overdue.TOTAL


def test_an_answer_that_comes_whole_is_awaited_for_the_total() -> None:
    """Nothing of it comes before all of it is made."""

    def at(now_s: float) -> Overdue | None:
        return overdue(Phase.ANSWER, now_s, since_s=0, began_s=0, heard_s=0, stuck_s=None, whole=True, limits=LIMITS)

    assert (at(7.0), at(100.0), at(100.1)) == (None, None, Overdue.TOTAL)


def test_a_client_that_takes_nothing_is_not_the_upstreams_fault() -> None:
    """While bytes wait for the client the upstream is not read, so its silence says nothing."""

    def at(stuck_s: float) -> Overdue | None:
        return overdue(Phase.ANSWER, 20.0, since_s=0, began_s=0, heard_s=0, stuck_s=stuck_s, limits=LIMITS)

    assert (at(15.0), at(14.9)) == (None, Overdue.WRITE)


def test_a_body_is_slow_by_what_came_while_it_was_read() -> None:
    """Judged when a window ends; at the rate is in time; the next window begins anew."""
    limits, sweeps = ProxyConfig(body_quiet_s=2, body_bytes_per_s_min=100), int(2 / SWEEP_S)

    def windows(*sizes: int) -> list[bool]:
        arrival, found = Arrival(), []
        for size in sizes:
            arrival.bytes += size
            found += [arrival.is_slow(limits) for _ in range(sweeps)]
        return found

    quick = [False] * sweeps
    assert windows(200, 199, 10_000, 0) == [*quick, *quick[1:], True, *quick, *quick[1:], True]


def test_without_a_rate_no_body_is_slow() -> None:
    """0 asks for nothing."""
    arrival = Arrival()

    assert not any(arrival.is_slow(ProxyConfig(body_quiet_s=2, body_bytes_per_s_min=0)) for _ in range(100))
