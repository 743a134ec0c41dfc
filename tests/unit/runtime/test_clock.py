import time

import pytest

from runtime.clock import SystemClock
from tests.virtual_clock import VirtualClock


def test_a_virtual_clock_moves_only_when_told() -> None:
    """Wall time and monotonic time advance by exactly the given amount."""
    clock = VirtualClock(now_ms=1_000)

    clock.advance(1_500)

    assert (clock.now_ms(), clock.monotonic_s()) == (2_500, 1.5)


def test_setting_the_wall_clock_does_not_move_monotonic_time() -> None:
    """An administrator's correction of the wall clock is no duration."""
    clock = VirtualClock(now_ms=10_000)
    clock.advance(1_000)

    clock.set(3)

    assert (clock.now_ms(), clock.monotonic_s()) == (3, 1.0)


def test_a_virtual_clock_refuses_to_go_back() -> None:
    """Negative durations do not exist."""
    with pytest.raises(ValueError, match="by_ms = -1"):
        VirtualClock().advance(-1)


def test_the_system_clock_tells_milliseconds_of_this_century() -> None:
    """The unit is milliseconds: after 2020 and before 2100."""
    assert 1_577_836_800_000 < SystemClock().now_ms() < 4_102_444_800_000


def test_the_system_clock_tells_seconds_since_a_start() -> None:
    """That of the system's monotonic clock, which never goes back, whatever the date is set to."""
    clock = SystemClock()

    before_s, found_s, after_s = time.monotonic(), clock.monotonic_s(), time.monotonic()

    assert before_s <= found_s <= after_s
