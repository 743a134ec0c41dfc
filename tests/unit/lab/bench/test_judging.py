"""``lab.bench.judging``: the log that the alert job is given, and numbers beside their bounds."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from lab.bench import judging
from schemas.codec.block import Block
from schemas.limits import WINDOW_MS
from schemas.rows.finals import FinalsHeaders, decode


@cache
def blocks() -> dict[str, Block]:
    return judging.a_slice(1)


def test_a_slice_has_a_row_of_every_gpu() -> None:
    """And rows of its requests, as the jobs make them."""
    found = blocks()["gpu_samples_finals/1"].labels("grouping")
    gpus = found.words.index(b"gpu")

    assert int((found.codes == gpus).sum()) == judging.SLICE_HOSTS * judging.GPUS_PER_HOST
    assert blocks()["llm_requests_finals/1"].rows > judging.SLICE_HOSTS


def test_the_first_upstream_comes_a_window_after_the_others() -> None:
    """With all of its rows; offsets go on, and every slice has machines of its own."""
    log = judging.Log(blocks(), 3, 2)
    windows = [log.window(number, missing=False) for number in range(3)]
    heads = [[decode(record.headers, "log") for record in records] for records in windows]
    seen = [
        [(one.upstream, one.window_ms) for one in each if isinstance(one, FinalsHeaders) and one.rows] for each in heads
    ]

    first = judging.FROM_MS
    assert [set(each) for each in seen] == [
        {(1, first)},
        {(0, first), (1, first + WINDOW_MS)},
        {(0, first + WINDOW_MS), (1, first + 2 * WINDOW_MS)},
    ]
    assert [record.offset for records in windows for record in records] == list(range(sum(map(len, windows))))
    assert Counter(len(each) for each in seen) == {3: 1, 9: 2}


def a_result(**changed: Any) -> dict[str, Any]:
    found = {"windows": 6, "judged": 6, "incomplete": 0, "cpu_s_per_window": 10.0, "delay_p99_s": 2.0}
    return {**found, **changed}


@pytest.mark.parametrize(
    ("changed", "beyond"),
    [
        ({}, []),
        ({"judged": 5}, ["windows that were judged"]),
        ({"incomplete": 1}, ["incomplete windows"]),
        ({"cpu_s_per_window": 10.1}, ["processor time of a window"]),
        ({"delay_p99_s": 2.1}, ["delay of alerts"]),
        ({"delay_p99_s": None}, ["delay of alerts"]),
    ],
    ids=str,
)
def test_what_is_beyond_its_bound_is_named(changed: dict[str, Any], beyond: list[str]) -> None:
    """On it is not beyond."""
    assert judging.outside(a_result(**changed)) == beyond


def test_a_small_run_judges_every_window_and_emits_alerts() -> None:
    """Of a fleet of two slices, whose second is gone for some windows."""
    result = judging.measure(2_000, 2, 6, 1, lambda text: None)

    assert (result["judged"], result["incomplete"], result["gpus"]) == (6, 0, 2_000)
    assert result["alerts"] > 0
    assert {name for name, _, _ in judging.rows(result)} == set(result)
