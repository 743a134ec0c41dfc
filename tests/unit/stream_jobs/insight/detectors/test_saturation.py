"""More comes in than is served: found while the queue grows; a surge that is absorbed is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.detectors.saturation import Saturation
from tests.unit.stream_jobs.insight.detectors.cases import (
    beyond_count,
    day,
    first_beyond,
    judged,
    noise,
    resumed,
    rule,
    same,
)

SHIPPED = rule("saturation", "load")


def served(rate: np.ndarray, capacity: float, seed: int) -> dict[str, np.ndarray]:
    """Requests running and time to first token of an engine that serves ``capacity`` a second at most."""
    waiting, out = np.zeros(rate.shape[1]), np.empty_like(rate)
    for number, come in enumerate(rate):
        waiting = np.maximum(waiting + 10 * (come - capacity), 0)
        out[number] = waiting
    running = rate * 2 * np.exp(noise(seed, *rate.shape, 0.05))
    first_token = 2e5 * np.exp(noise(seed + 1, *rate.shape, 0.08)) * (1 + (rate / capacity).clip(0, 1) ** 4)
    return {"load": running + out, "value": first_token + out / capacity * 1e6}


def surge(windows: int, series: int, ramp: int, times: float) -> np.ndarray:
    rate = np.full((windows, series), 10.0)
    rate[200 : 200 + ramp] *= np.linspace(1, times, ramp)[:, None]
    rate[200 + ramp :] *= times
    return rate * np.exp(noise(1, windows, series, 0.03))


@pytest.mark.parametrize("times", [2.4, 3.0, 4.0])
def test_a_growing_queue_is_found_within_five_minutes(times: float) -> None:
    """20 % to 100 % more than is served: the queue grows without end."""
    found = np.array(first_beyond(Saturation(SHIPPED), served(surge(300, 20, 6, times), 20, 2)), np.float64)

    assert ((found >= 200) & (found < 230)).all()


@pytest.mark.parametrize("ramp", [1, 12, 60])
@pytest.mark.parametrize("times", [1.5, 1.8])
def test_a_surge_that_is_absorbed_is_none(ramp: int, times: float) -> None:
    """Up to 90 % of what can be served, at once or over ten minutes."""
    assert beyond_count(Saturation(SHIPPED), served(surge(320, 10, ramp, times), 20, 3)) == 0


def test_a_healthy_day_is_none() -> None:
    """The season of a day and noise, which a busy engine stands."""
    rate = 10 * day(480, 180_000) * np.exp(noise(4, 480, 50, 0.1))

    shipped = rule("saturation", "load", window_ms=180_000, over_s=5_400)
    assert beyond_count(Saturation(shipped), served(rate, 30, 5), window_ms=180_000) == 0


def test_it_ends_when_the_queue_is_gone() -> None:
    """Held while the queue stands, over when it has shrunk by half (on the logarithmic scale)."""
    rate = np.full((400, 1), 10.0)
    rate[200:240] = 30.0

    said = [said for _, said in judged(Saturation(SHIPPED), served(rate, 20, 6))]

    beyond = [number for number, one in enumerate(said) if one.beyond[0]]
    assert beyond[0] < 230
    assert beyond == list(range(beyond[0], beyond[-1] + 1))
    assert 240 < beyond[-1] < 285
    assert said[-1].within.tolist() == [True]


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0, -1.0, 1e300], ids=str)
@pytest.mark.parametrize("which", ["value", "load"])
def test_odd_input_is_no_alarm(odd: float, which: str) -> None:
    """Now and then, and all the time: no warning, no alarm."""
    values = served(np.full((80, 2), 10.0), 20, 7)
    values[which][::7, 0] = odd
    values[which][:, 1] = odd

    assert beyond_count(Saturation(SHIPPED), values) == 0


@settings(max_examples=2, deadline=None)
@given(st.integers(1, 99), st.integers(0, 1_000))
def test_a_restart_changes_nothing(cut: int, seed: int) -> None:
    """Dumped and loaded at any point it says the same as the one that went on."""
    rate = 10 + 0.2 * np.arange(100)[:, None] * np.exp(noise(seed, 100, 3, 0.1))
    values = served(rate, 18, seed)
    whole = Saturation(SHIPPED)
    list(judged(whole, {name: one[:cut] for name, one in values.items()}))
    again = resumed(whole, Saturation(SHIPPED))
    rest = {name: one[cut:] for name, one in values.items()}

    left = [said for _, said in judged(whole, rest, first=cut)]
    right = [said for _, said in judged(again, rest, first=cut)]

    assert all(same(one, other) for one, other in zip(left, right, strict=True))
    assert whole.bytes_per_slot() <= 512
