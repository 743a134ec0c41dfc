"""A new version against the one before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.detectors.regression import Regression
from stream_jobs.insight.frame import Labels
from tests.unit.stream_jobs.insight.detectors.cases import judged, noise, resumed, rule, same

SHIPPED = rule("regression")


def names(*versions: str) -> list[Labels]:
    return [(("model", version.split("-")[0]), ("model_version", version)) for version in versions]


def regression(*versions: str) -> Regression:
    detector = Regression(SHIPPED)
    detector.named(np.arange(len(versions)), names(*versions))
    return detector


def rollout(windows: int, at: int, times: float, side_by_side: bool, seed: int = 1) -> np.ndarray:
    values = 2e5 * np.exp(noise(seed, windows, 2, 0.03))
    values[:, 1] *= times
    values[:at, 1] = np.nan
    if not side_by_side:
        values[at:, 0] = np.nan
    return values


@pytest.mark.parametrize("side_by_side", [True, False], ids=["side by side", "replaced"])
@pytest.mark.parametrize("seed", range(2))
def test_a_slower_version_is_found_within_eight_windows(side_by_side: bool, seed: int) -> None:
    """20 % slower from its first request on."""
    values = rollout(260, 200, 1.2, side_by_side, seed)

    said = [said for _, said in judged(regression("m-v1", "m-v2"), {"value": values})]

    beyond = [number for number, one in enumerate(said) if one.beyond.any()]
    assert 200 <= beyond[0] < 208
    assert said[beyond[0]].slots.tolist() == [1]
    assert said[-1].baseline[0] == pytest.approx(2e5, rel=0.05)


@pytest.mark.parametrize("times", [1.0, 0.5, 1.03], ids=["alike", "faster", "3 % slower"])
@pytest.mark.parametrize("side_by_side", [True, False], ids=["side by side", "replaced"])
def test_a_version_that_is_no_slower_is_none(times: float, side_by_side: bool) -> None:
    """Nothing for 25 minutes after the roll-out, for three models."""
    detector = regression(*(f"{model}-v{version}" for model in "abc" for version in (1, 2)))
    values = np.hstack([rollout(350, 200, times, side_by_side, seed) for seed in range(3)])

    assert sum(int(one.beyond.sum()) for _, one in judged(detector, {"value": values})) == 0


def test_versions_without_a_predecessor_are_not_judged() -> None:
    """All that run at the beginning, other models, and series without a version."""
    detector = Regression(SHIPPED)
    detector.named([0, 1, 2, 3], [*names("m-v1", "m-v2", "n-v1"), (("model", "m"),)])
    values = np.tile([1e5, 3e5, 9e5, 9e5], (300, 1))
    values[:200, 2:] = np.nan

    assert {int(slot) for _, said in judged(detector, {"value": values}) for slot in said.slots} == set()


def test_says_which_version_on_how_many_hosts() -> None:
    """The note names the version, and hosts where they are measured."""
    values = rollout(230, 200, 1.5, True)

    *_, (_, without) = judged(regression("m-v1", "m-v2"), {"value": values})
    *_, (_, hosts) = judged(regression("m-v1", "m-v2"), {"value": values, "hosts": np.full((230, 2), 12.0)})

    assert without.note is not None
    assert hosts.note is not None
    assert without.notes[without.note[0]] == "since version m-v2"
    assert hosts.notes[hosts.note[0]] == "since version m-v2 on 12 hosts"


def test_few_requests_say_nothing() -> None:
    """Below 200 requests of the new version it is not compared."""
    values = rollout(260, 200, 2.0, True)
    counts = np.full(values.shape, 10)

    said = [said for _, said in judged(regression("m-v1", "m-v2"), {"value": values}, counts)]

    assert next(number for number, one in enumerate(said) if one.beyond.any()) == 219


def test_it_ends_with_a_rollback_or_when_it_is_the_normal_one() -> None:
    """A minute after the version was last seen; two hours after it replaced the other one."""
    rolled_back = rollout(300, 200, 1.5, True)
    rolled_back[250:, 1] = np.nan
    replaced = rollout(200 + 740, 200, 1.5, False)

    back = [one.within.tolist() for _, one in judged(regression("m-v1", "m-v2"), {"value": rolled_back})][250:]
    normal = [one.within.tolist() for _, one in judged(regression("m-v1", "m-v2"), {"value": replaced})][200:]

    assert back.index([True]) == 5
    assert normal.index([True]) == 721


def test_it_can_be_met_however_long_a_rule_wants_it() -> None:
    """Eight hours in a row, where the old version is gone and a new one is the normal one after two hours."""
    hour_ms = 3_600_000
    long = replace(rule("regression", window_ms=hour_ms, relearn_after_s=7_200), m=8, n=8)
    detector = Regression(long)
    detector.named(np.arange(2), names("m-v1", "m-v2"))

    said = [one for _, one in judged(detector, {"value": rollout(60, 40, 1.5, False)}, window_ms=hour_ms)]

    assert [number for number, one in enumerate(said) if one.beyond.any()] == [*range(41, 50)]


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0, -1.0], ids=str)
def test_odd_input_is_no_alarm(odd: float) -> None:
    """Constant or odd series: no warning, no alarm."""
    values = np.full((100, 2), 5.0)
    values[:60, 1] = np.nan
    values[::3] = odd

    assert not any(said.beyond.any() for _, said in judged(regression("m-v1", "m-v2"), {"value": values}))


@settings(max_examples=2, deadline=None)
@given(st.integers(1, 119), st.integers(0, 1_000))
def test_a_restart_changes_nothing(cut: int, seed: int) -> None:
    """Dumped and loaded at any point it says the same as the one that went on."""
    values = rollout(120, 60, 1.4, seed % 2 == 0, seed)
    whole = regression("m-v1", "m-v2")
    list(judged(whole, {"value": values[:cut]}))
    again = resumed(whole, Regression(SHIPPED), names("m-v1", "m-v2"))

    left = [said for _, said in judged(whole, {"value": values[cut:]}, first=cut)]
    right = [said for _, said in judged(again, {"value": values[cut:]}, first=cut)]

    assert all(same(one, other) for one, other in zip(left, right, strict=True))


def test_a_forgotten_slot_has_no_name() -> None:
    """A new version in an old slot starts without history."""
    detector = regression("m-v1", "m-v2")
    list(judged(detector, {"value": rollout(260, 200, 1.5, True)}))

    detector.forget(np.array([1]))

    assert detector.dump()["requests"].tolist()[1] == 0
    assert [said.slots.tolist() for _, said in judged(detector, {"value": np.full((1, 2), np.nan)}, first=300)] == [[]]
