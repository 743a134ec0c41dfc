"""Pauses between attempts: they double, they are bounded, they spread a fleet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import Backoff

POLICY = Backoff(0.2, 5.0)


@pytest.mark.parametrize(
    ("failures", "longest_s"), [(0, 0.0), (1, 0.2), (2, 0.4), (5, 3.2), (6, 5.0), (7, 5.0), (10_000, 5.0)]
)
def test_pauses_double_up_to_the_longest(failures: int, longest_s: float) -> None:
    """None after a success, however many failures came before it."""
    assert POLICY.pause_s(failures, 1.0) == pytest.approx(longest_s)


@pytest.mark.parametrize(
    ("jitter", "chance", "pause_s"), [(0.5, 0.0, 0.1), (0.5, 0.5, 0.15), (1.0, 0.0, 0.0), (0.0, 0.0, 0.2)]
)
def test_a_part_of_each_pause_is_left_to_chance(jitter: float, chance: float, pause_s: float) -> None:
    """Half of it where nothing else is set."""
    assert Backoff(0.2, 5.0, jitter).pause_s(1, chance) == pytest.approx(pause_s)


@given(st.floats(0.001, 100.0), st.floats(1.0, 1e6), st.floats(0.0, 1.0), st.integers(1, 100_000), st.floats(0.0, 1.0))
def test_no_pause_is_longer_than_the_longest(
    initial_s: float, times: float, jitter: float, failures: int, chance: float
) -> None:
    """Nor shorter than what chance may take off the first."""
    pause_s = Backoff(initial_s, initial_s * times, jitter).pause_s(failures, chance)

    assert initial_s * (1.0 - jitter) * 0.999 <= pause_s <= initial_s * times
