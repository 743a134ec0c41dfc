"""``stream_jobs.insight.frames``: which series of a window a detector sees, with which values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schemas.codec.block import Block
from stream_jobs.insight.frame import Mask
from stream_jobs.insight.frames import Made, Needed, make, plan
from stream_jobs.insight.project import View, project
from stream_jobs.insight.series import Registry
from stream_jobs.rules.model import Function, Measure
from tests.unit.stream_jobs.insight.cases import (
    BASE_MS,
    GPU,
    GRAIN_MS,
    MEAN,
    Row,
    a_block,
    a_gpu,
    a_row,
    a_rule,
)

HOSTS = "host.samples"
EVENTS = Measure("value", GPU, Function.COUNT)
BUSY = Measure("busy", HOSTS, Function.MAX, "cpu_busy_ppm")


class Frames:
    """One rule's frames, window after window. ``firing`` are the slots that fire before a window."""

    def __init__(self, *measures: Measure, by: tuple[str, ...] = ("gpu_uuid",), series_max: int = 100) -> None:
        self.needed: tuple[Needed, ...] = plan([a_rule(measures=measures, by=by)])["threshold"]
        self.registry = Registry(by, series_max)
        self.firing: Mask = np.zeros(0, np.bool_)

    def make(self, tables: Mapping[str, Sequence[Row]], min_count: int = 1, *, fill: bool = True) -> Made:
        blocks = {topic: a_block(topic, rows) for topic, rows in tables.items()}

        def rows_of(view: View) -> Block:
            return project(view, blocks.get(view.topic, a_block(view.topic, [])))

        return make(self.needed, rows_of, self.registry, self._grow, (BASE_MS, GRAIN_MS), min_count, fill=fill)

    def fire(self, *slots: int) -> None:
        self.firing[list(slots)] = True

    def _grow(self, slots: int) -> Mask:
        self.firing = np.concatenate([self.firing, np.zeros(slots - len(self.firing), np.bool_)])
        return self.firing


def shown(made: Made) -> list[tuple[Any, ...]]:
    """(slot, every value, events, fires) per series; an unknown value as text."""
    frame = made.frame
    values = [[str(v) if np.isnan(v) else v for v in column.tolist()] for column in frame.values.values()]
    return list(zip(frame.slots.tolist(), *values, frame.counts.tolist(), frame.firing.tolist(), strict=True))


def test_a_frame_has_a_row_per_series_in_the_order_of_slots() -> None:
    """Whatever the order of rows; slots stay, and which were given out anew is told."""
    frames = Frames(MEAN)

    first = frames.make({GPU: [a_gpu("b", 20, count=2), a_gpu("a", 10)]})
    frames.fire(1)
    second = frames.make({GPU: [a_gpu("c", 30), a_gpu("b", 21), a_gpu("a", None)]}, min_count=0)

    assert (shown(first), first.taken.tolist()) == ([(0, 10.0, 1, False), (1, 20.0, 2, False)], [0, 1])
    assert (shown(second), second.taken.tolist()) == (
        [(0, "nan", 0, False), (1, 21.0, 1, True), (2, 30.0, 1, False)],
        [2],
    )
    assert (second.frame.window_ms, second.frame.length_ms) == (BASE_MS, GRAIN_MS)


def test_rows_of_too_few_events_and_of_no_place_are_counted_apart() -> None:
    """Neither stands in the frame; a row that has no place is not also one of too few."""
    frames = Frames(MEAN, series_max=2)

    made = frames.make({GPU: [a_gpu("a", 1, count=3), a_gpu("b", 2, count=2), a_gpu("c", 3, count=1)]}, min_count=3)

    assert (shown(made), made.below_count, made.beyond_limit) == ([(0, 1.0, 3, False)], 1, 1)


@pytest.mark.parametrize(
    ("measure", "min_count", "fill", "slots"),
    [
        (EVENTS, 0, True, [0, 1, 2]),
        (EVENTS, 1, True, [0, 1]),
        (EVENTS, 0, False, [0]),
        (MEAN, 0, True, [0]),
    ],
    ids=["a count with no least number", "a count: those that fire", "absence is judged itself", "a mean"],
)
def test_no_row_of_a_count_is_none(measure: Measure, min_count: int, fill: bool, slots: list[int]) -> None:
    """Where no row means no event, series without one are seen with 0; of what else nothing is known."""
    frames = Frames(measure)
    frames.make({GPU: [a_gpu("a", 1), a_gpu("b", 1), a_gpu("c", 1)]})
    frames.fire(1)

    made = frames.make({GPU: [a_gpu("a", 1)]}, min_count, fill=fill)

    assert shown(made) == [(0, 1.0, 1, False), (1, 0.0, 0, True), (2, 0.0, 0, False)][: len(slots)]


def test_a_measure_of_another_topic_is_joined_and_never_invented() -> None:
    """By the labels that its topic knows, for series that are filled in, too; NaN where it has no row."""
    frames = Frames(EVENTS, BUSY, by=("host", "gpu_uuid"))
    gpus = [a_gpu("a", 1, host="h1"), a_gpu("b", 1, host="h2"), a_gpu("c", 1, host="h1")]
    hosts = [a_row(HOSTS, "host", host=host, cpu_busy_ppm_max=busy) for host, busy in (("h1", 7), ("h3", 9))]

    first = frames.make({GPU: gpus, HOSTS: hosts})
    second = frames.make({GPU: gpus[:1], HOSTS: hosts}, min_count=0)

    gpu_of = [dict(labels)["gpu_uuid"] for labels in frames.registry.labels_of(first.frame.slots)]
    by_gpu = dict(zip(gpu_of, shown(first), strict=True))
    assert {gpu: line[1:] for gpu, line in by_gpu.items()} == {
        "a": (1.0, 7.0, 1, False),
        "b": (1.0, "nan", 1, False),
        "c": (1.0, 7.0, 1, False),
    }
    assert {gpu_of[line[0]]: line[1:] for line in shown(second)} == {
        "a": (1.0, 7.0, 1, False),
        "b": (0.0, "nan", 0, False),
        "c": (0.0, 7.0, 0, False),
    }


def test_a_measure_of_the_view_that_has_no_row_is_unknown() -> None:
    """No event came, so its temperature is not known."""
    frames = Frames(EVENTS, replace(MEAN, name="heat"))
    frames.make({GPU: [a_gpu("a", 50), a_gpu("b", 60)]})

    made = frames.make({GPU: [a_gpu("a", 50)]}, min_count=0)

    assert shown(made) == [(0, 1.0, 50.0, 1, False), (1, 0.0, "nan", 0, False)]


def test_an_empty_window_is_a_frame_of_nothing() -> None:
    """With every measure in it."""
    made = Frames(MEAN, BUSY, by=("host", "gpu_uuid")).make({})

    assert shown(made) == []
    assert {name: (column.dtype.str, len(column)) for name, column in made.frame.values.items()} == {
        "value": ("<f8", 0),
        "busy": ("<f8", 0),
    }
