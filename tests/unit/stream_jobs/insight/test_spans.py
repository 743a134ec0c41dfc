"""``stream_jobs.insight.spans``: the running window of rules that are longer than the grain."""

from __future__ import annotations

import pytest

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.build import rows_of
from stream_jobs.insight.project import View, project
from stream_jobs.insight.spans import PARTS_MAX, Parts, Span
from tests.unit.stream_jobs.insight.cases import BASE_MS, GPU, GRAIN_MS, a_block, a_gpu

VIEW = View(GPU, "gpu", ("gpu_uuid",), columns=("event_count", "temperature_c_sum"))
LATER = View(GPU, "gpu", ("host",))
MINUTE_MS = 60_000


def a_part(**temperatures: int) -> Block:
    """Projected rows of one window."""
    return project(VIEW, a_block(GPU, [a_gpu(gpu, value) for gpu, value in temperatures.items()]))


def told(block: Block) -> dict[object, tuple[object, object]]:
    """(events, sum) by series."""
    rows = rows_of(VIEW.fields, block)
    return {row["gpu_uuid"]: (row["event_count"], row["temperature_c_sum"]) for row in rows}


def test_parts_become_their_sum_however_often_they_are_asked() -> None:
    """Rows of the same series add up; asking changes nothing, and more may come after it."""
    parts = Parts()
    parts.add(VIEW, a_part(a=1, b=10))
    parts.add(VIEW, a_part(a=2))

    first, second = told(parts.whole(VIEW)), told(parts.whole(VIEW))
    parts.add(VIEW, a_part(c=7, a=4))

    assert first == second == {"a": (2, 3), "b": (1, 10)}
    assert told(parts.whole(VIEW)) == {"a": (3, 7), "b": (1, 10), "c": (1, 7)}


def test_a_view_that_heard_nothing_has_no_rows() -> None:
    """With the columns of the view all the same."""
    whole = Parts().whole(VIEW)

    assert (whole.rows, list(whole.columns)) == (0, [field.name for field in VIEW.fields])
    assert native.encode(VIEW.fields, whole) == native.encode(VIEW.fields, native.concat(VIEW.fields, ()))


@pytest.mark.parametrize("count", [PARTS_MAX - 1, PARTS_MAX, 3 * PARTS_MAX + 1])
def test_a_long_window_keeps_few_parts(count: int) -> None:
    """Brought together early, and nothing of them is lost."""
    parts = Parts()
    kept = []
    for number in range(count):
        parts.add(VIEW, a_part(a=number))
        kept.append(len(parts.blocks))

    assert max(kept) < PARTS_MAX
    assert parts.heard == count
    assert told(parts.whole(VIEW)) == {"a": (count, sum(range(count)))}


@pytest.mark.parametrize(
    ("part", "from_start", "complete"),
    [(0, False, True), (2, False, False), (2, True, True), (6, False, True)],
    ids=["its first part", "in its middle", "nothing was missed", "the next one"],
)
def test_a_window_whose_beginning_was_not_heard_is_not_complete(part: int, from_start: bool, complete: bool) -> None:
    """A span begins at the multiple of its length that holds the part."""
    span = Span(MINUTE_MS, [VIEW])

    span.begin(BASE_MS + part * GRAIN_MS, from_start=from_start)

    assert (span.start_ms, span.complete, span.heard) == (BASE_MS + part // 6 * MINUTE_MS, complete, 0)


def test_one_incomplete_part_makes_the_window_incomplete() -> None:
    """For every view, until the next window begins."""
    span = Span(MINUTE_MS, [VIEW, VIEW])
    span.begin(BASE_MS, from_start=False)
    heard = []
    for complete in (True, False, True):
        span.add([(VIEW, a_part(a=1))], complete)
        heard.append(span.heard_all(VIEW))
    span.begin(BASE_MS + MINUTE_MS, from_start=True)
    span.add([(VIEW, a_part(a=5))], True)

    assert (span.views, heard) == ((VIEW,), [True, False, False])
    assert (span.heard_all(VIEW), told(span.parts[VIEW].whole(VIEW))) == (True, {"a": (1, 5)})


def test_a_view_that_came_in_the_middle_has_not_heard_all() -> None:
    """A rule that is new after a restart waits for the next window; the others do not."""
    span = Span(MINUTE_MS, [VIEW, LATER])
    span.begin(BASE_MS, from_start=True)
    span.add([(VIEW, a_part(a=1))], True)
    span.add([(VIEW, a_part(a=2)), (LATER, native.concat(LATER.fields, ()))], True)

    assert (span.heard_all(VIEW), span.heard_all(LATER)) == (True, False)
