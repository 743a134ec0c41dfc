"""While a trouble passes, and after it, its worst window is emitted; while it lasts, the newest."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from schemas.contract.alerts import Alert
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.parts import WindowValues, excess, to_emit, values_of, with_values
from stream_jobs.alerts.signals import Level, Rank, Signal
from tests.unit.stream_jobs.alerts.cases import RULESET, Scene

CALM = Signal("r", "threshold", (), {}, Level.FLEET, Rank.FLEET, 0, "warning", 0, 0, True, value=0.0, high=0.8)


def seen(value: float | None) -> Signal:
    return replace(CALM, value=value, summary=f"it is {value}")


@pytest.mark.parametrize(
    ("value", "baseline", "low", "high", "expected"),
    [
        pytest.param(None, 1.0, 0.0, 2.0, -inf, id="an unknown value is nowhere"),
        pytest.param(5.0, None, None, None, -inf, id="nothing was expected"),
        pytest.param(5.0, 7.0, None, None, 2.0, id="no range: from the baseline"),
        pytest.param(5.0, 1.0, None, 2.0, 3.0, id="above"),
        pytest.param(5.0, 9.0, 6.0, None, 1.0, id="below"),
        pytest.param(5.0, 5.0, 2.0, 6.0, -1.0, id="inside, to the nearer edge"),
        pytest.param(6.0, 5.0, 2.0, 6.0, 0.0, id="on the edge"),
    ],
)
def test_how_far_beyond(
    value: float | None, baseline: float | None, low: float | None, high: float | None, expected: float
) -> None:
    """Of a range the nearer edge counts."""
    assert excess(WindowValues(value, baseline, low, high, 1, "")) == expected


def test_the_newest_while_it_is_beyond_the_worst_once_it_is_not() -> None:
    """Rises, falls a little, falls back: 1, 2, 1.5 and then 2 again; a new worst takes its place."""
    shown, worse = to_emit(seen(2.0), seen(1.0), None)
    assert (shown, worse) == (seen(2.0), None)

    shown, worse = to_emit(seen(1.5), shown, worse)
    assert (shown, worse) == (seen(1.5), values_of(seen(2.0)))

    assert to_emit(seen(3.0), shown, worse) == (seen(3.0), None)
    assert to_emit(seen(0.1), shown, worse) == (seen(2.0), None)
    assert to_emit(seen(None), shown, worse) == (seen(2.0), None)


def test_what_has_no_value_is_emitted_as_it_comes() -> None:
    """Events have none: the newest stands."""
    assert to_emit(replace(seen(None), count=2), seen(None), None) == (replace(seen(None), count=2), None)


def test_values_are_all_of_one_window() -> None:
    """Times and labels stay those of the newest."""
    newest = replace(seen(0.1), at_ms=9, since_ms=3)

    assert with_values(newest, values_of(seen(2.0))) == replace(seen(2.0), at_ms=9, since_ms=3)


def a_passing_trouble(*, restarted: bool) -> Alert:
    """The last record of a trouble that rose to 7, fell to 3 and then was calm; ``restarted`` between each window."""
    scene = Scene()
    for value in (1.0, 7.0, 3.0, 0.0):
        scene.see(replace(scene.fire("gpu_throttled", gpu_uuid="g-10"), value=value))
        if restarted:
            dumped, graph = scene.life.dump(), scene.life.topology.dump()
            scene.life = Life(RULESET, lambda alert: {})
            scene.life.load(dumped)
            scene.life.topology.load(graph)
    scene.see(replace(scene.clear("gpu_throttled", gpu_uuid="g-10"), value=0.0))
    scene.pass_windows(20)
    return scene.told[-1]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_resolved_alert_tells_its_worst(restarted: bool) -> None:
    """Value and summary of the worst window, also when every window was judged by another process."""
    alert = a_passing_trouble(restarted=restarted)

    assert (alert.transition, alert.value, alert.high) == ("resolved", 7.0, 0.8)
    assert alert.summary.endswith(": 7")


def test_it_ends_while_it_is_beyond() -> None:
    """Cut off at 3 after 7 (nothing came any more): 7 is told."""
    scene = Scene()
    for value in (7.0, 3.0):
        scene.see(replace(scene.fire("gpu_throttled", gpu_uuid="g-10"), value=value))
    scene.see(scene.clear("gpu_throttled", gpu_uuid="g-10"))

    scene.pass_windows(20)

    assert (scene.told[-1].transition, scene.told[-1].value) == ("resolved", 7.0)
