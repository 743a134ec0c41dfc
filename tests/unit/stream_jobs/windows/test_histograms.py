"""Histograms of a segment: what came in pieces stands there whole, to the greatest count, whatever room there was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec.block import Bins
from schemas.codec.native_fill import BIN_COUNT_MAX
from stream_jobs.windows.histograms import Histograms
from stream_jobs.windows.plan import plan_of
from stream_jobs.windows.series import Room

EVENT = st.dictionaries(st.integers(-1, 1_016), st.integers(1, BIN_COUNT_MAX), max_size=5)
PLAN = plan_of("llm.requests")


def columns(events: list[dict[int, int]]) -> Any:
    """Of the columns of a fold those that histograms read; the value bins of event ``i`` are ``i``, ``i + 1``, ..."""
    pairs = [sorted(event.items()) for event in events]
    ends = np.cumsum([len(event) for event in pairs], dtype=np.int64)
    keys = np.array([key for event in pairs for key, _ in event], np.int16)
    counts = np.array([count for event in pairs for _, count in event], np.uint64)
    lines = np.arange(len(PLAN.sketches))[:, None] + np.arange(len(events))
    return SimpleNamespace(ready_bins=[Bins(ends, keys, counts)], value_bins=lines.astype(np.int16))


@given(st.lists(EVENT, min_size=1, max_size=12), st.data(), st.integers(1, 8), st.integers(1, 8))
def test_pieces_stand_behind_one_another(events: list[dict[int, int]], data: Any, room: int, pairs: int) -> None:
    """Rows are taken in runs, from several folds, into too little room; the rows between the runs are left out."""
    found, wanted, values = Histograms(PLAN, Room(room, pairs)), [], []
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(events) - 1))
        stop = data.draw(st.integers(start + 1, len(events)))
        found.add(columns(events), start, stop)
        wanted += events[start:stop]
        values += range(start, stop)

    (ready,) = found.ready
    ends = ready.ends[: found.events].tolist()
    told = [
        dict(zip(ready.keys[first:last].tolist(), (ready.less_one[first:last].astype(int) + 1).tolist(), strict=True))
        for first, last in zip([0, *ends], ends, strict=False)
    ]
    assert told == wanted
    assert [line.tolist() for line in found.values()] == [[i + n for i in values] for n in range(len(PLAN.sketches))]


def test_the_next_segment_begins_with_the_room_of_this_one() -> None:
    """With some to spare; never with less than a new one has."""
    found = Histograms(PLAN, Room(4, 4))
    found.add(columns([{1: 1, 2: 2}] * 8_000), 0, 8_000)
    assert found.room == Room(9_000, 18_000)

    assert Histograms(PLAN, found.room).room == Room()
    assert Histograms(PLAN, found.room).bytes > Histograms(PLAN, Room()).bytes
