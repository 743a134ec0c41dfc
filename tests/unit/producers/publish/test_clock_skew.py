"""A host's clock against the broker's: what acknowledgements prove, and what they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.publish.clock_skew import OFF_MS, ClockSkew
from runtime.counters import Counters
from tests.virtual_clock import VirtualClock

BEGIN_MS = 1_700_000_000_000


class World:
    """A host whose clock is ``skew_ms`` ahead of the broker's."""

    def __init__(self, skew_ms: int) -> None:
        self.clock = VirtualClock(BEGIN_MS)
        self.counters = Counters()
        self.skew = ClockSkew(self.clock, self.counters)
        self.skew_ms = skew_ms

    def batch(self, to_broker_ms: int, back_ms: int) -> None:
        """Send one and have it acknowledged; it takes so long there and back."""
        sent = self.skew.sent()
        self.clock.advance(to_broker_ms)
        appended_ms = self.clock.now_ms() - self.skew_ms
        self.clock.advance(back_ms)
        self.skew.acknowledged(sent, appended_ms)


WAY_MS = st.integers(0, 40_000)


@given(st.integers(-(10**7), 10**7), st.lists(st.tuples(WAY_MS, WAY_MS), min_size=1, max_size=20))
def test_what_is_measured_is_never_more_than_the_skew_and_at_most_a_way_less(
    skew_ms: int, ways: list[tuple[int, int]]
) -> None:
    """However long brokers take: a clock that is right is never called off, and the quickest batch decides."""
    world = World(skew_ms)
    for way in ways:
        world.batch(*way)

    assert world.skew.ms is not None
    assert world.skew.ms * skew_ms >= 0
    assert abs(world.skew.ms) <= abs(skew_ms)
    quickest_ms = min(sum(way) for way in ways[-8:])
    assert abs(skew_ms) - abs(world.skew.ms) <= quickest_ms + 2


def test_nothing_is_known_before_an_acknowledgement_and_without_append_times() -> None:
    """A topic that keeps the times of its producers says nothing of the broker's clock."""
    world = World(0)
    world.skew.acknowledged(world.skew.sent(), None)
    world.skew.acknowledged(world.skew.sent(), -1)

    assert world.skew.ms is None
    assert world.skew.headers == ()


def test_a_clock_that_is_set_right_is_right_after_eight_batches() -> None:
    """What was measured before it was set is forgotten."""
    world = World(600_000)
    world.batch(0, 1)
    assert world.skew.headers == (("clock-skew-ms", b"%d" % world.skew.ms),)
    assert world.counters.value("edge_clock_skew_ms") == world.skew.ms

    world.skew_ms = 0
    for _ in range(8):
        world.batch(5, 5)

    assert world.skew.ms == 0
    assert world.skew.headers == ()


def test_a_clock_that_is_off_is_logged_once_and_again_when_it_agrees(caplog: pytest.LogCaptureFixture) -> None:
    """One line however many batches there are."""
    caplog.set_level("INFO")
    world = World(-OFF_MS - 10)
    for _ in range(5):
        world.batch(1, 1)
    world.skew_ms = 0
    for _ in range(9):
        world.batch(1, 1)

    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", "clock differs from the one of the brokers"),
        ("INFO", "clock agrees with the one of the brokers again"),
    ]
