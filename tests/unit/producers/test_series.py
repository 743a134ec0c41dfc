"""What is remembered of series stays small, however long their names are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from producers.otlp.custom_points import CustomPoints
from producers.otlp.json_signals import CUMULATIVE, Point
from producers.otlp.points import Points
from producers.receiver.events import SeriesBound
from producers.series import digest_of

MANY, LONG = 16, 1024 * 1024


def test_a_digest_is_of_all_texts_in_their_order() -> None:
    """And of where each ends."""
    series = [("a", "bc"), ("ab", "c"), ("abc",), ("bc", "a"), ("a", "bc", ""), (), ("\ud800",)]

    assert len({digest_of(each) for each in series}) == len(series)
    assert digest_of(iter(["a", "bc"])) == digest_of(("a", "bc"))
    assert {len(digest_of(each)) for each in series} == {16}


def point(name: str) -> Point:
    resource = {"service.name": name}
    return Point("m", 1, 2, CUMULATIVE, 1, 1.0, {}, resource, kind="sum", monotonic=True)


def cumulative_points() -> Callable[[str], object]:
    points = Points({})
    return lambda name: points.increase(point(name), "sum", 1)


def custom_points() -> Callable[[str], object]:
    custom = CustomPoints({}, Points({}), MANY)
    return lambda name: custom.rows_of(point(name))


def metrics_of_applications() -> Callable[[str], object]:
    bound = SeriesBound(MANY)
    return lambda name: bound.takes({"metric": "m", "service": name})


@pytest.mark.parametrize("remember", [cumulative_points, custom_points, metrics_of_applications])
def test_long_names_of_series_are_not_kept(remember: Callable[[], Callable[[str], object]]) -> None:
    """A MiB each, of which next to nothing stays."""
    take = remember()
    tracemalloc.start()
    try:
        for number in range(MANY):
            take(f"{number}" * LONG)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < LONG
