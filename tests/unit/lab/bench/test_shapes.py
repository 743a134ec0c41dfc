"""``lab.bench.shapes``: what is drawn holds its faults, what is counted is right, and what the detector sees."""

from __future__ import annotations

import numpy as np
import pytest

from lab.bench import shapes
from lab.bench.shapes import DAY, DAYS, DAYS_OTHERS, SHAPES, Drawn, Seen


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_drawn_from_its_seed(name: str) -> None:
    """The same again, with every fault after a week and inside the series; some of its values differ from the rest."""
    points = DAYS.get(name, DAYS_OTHERS) * DAY
    first, again = (SHAPES[name](np.random.default_rng(3), 4, points) for _ in range(2))

    assert first.values.shape == (4, points)
    assert np.array_equal(first.values, again.values, equal_nan=True)
    assert (first.begins >= 9 * DAY).all()
    if name != "duty_cycle":
        assert (first.ends <= points).all()
        assert first.faulty().sum() == (first.ends - first.begins).sum() > 0


def test_a_detector_that_sees_nothing_and_one_that_sees_all() -> None:
    """Found and false are counted apart; the day after a fault counts neither way, and so does the first."""
    values = np.full((2, 8 * DAY), 100.0) + np.random.default_rng(1).normal(0, 1, (2, 8 * DAY))
    values[0, 3 * DAY : 3 * DAY + 6] = 1_000.0
    values[1, 4 * DAY : 4 * DAY + 6] = 1_000.0
    drawn = Drawn(values, np.array([3 * DAY, 6 * DAY]), np.array([3 * DAY + 6, 6 * DAY + 6]))

    found = shapes.seen("moving_average", drawn, {"direction": "both", "percent": 50})

    assert (found.faults, found.delays, found.false_alarms) == (2, (0,), 1)
    assert found.days == pytest.approx(2 * 7 - 2 - 12 / DAY)
    assert found.as_dict()["recall"] == 0.5


def test_what_is_beyond_a_bound_is_named() -> None:
    """Too little found, or too much; a shape without faults has only the second."""
    rows = {
        "a": Seen(10, 20, (0,) * 19, 1, 100.0, 1.0, 1).as_dict(),
        "b": Seen(10, 20, (0,) * 18, 0, 100.0, 1.0, 1).as_dict(),
        "c": Seen(10, 0, (), 2, 100.0, 1.0, 1).as_dict(),
    }

    assert shapes.outside({"shapes": rows}) == ["b", "c"]
    assert [row[0] for row in shapes.rows({"shapes": rows})] == ["a", "b", "c"]


def test_novelty_keeps_within_the_bounds_on_a_few_series() -> None:
    """Counts that are mostly zero, of which a ratio says nothing."""
    said: list[str] = []

    result = shapes.measure("novelty", 12, 1, ("zeros",), said.append)

    assert said == ["zeros: 12 series"]
    assert result["shapes"]["zeros"]["recall"] == 1.0
