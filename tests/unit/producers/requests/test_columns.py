from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests.chunk import Chunk, Part, Usage
from producers.requests.columns import Folded, columns_of
from producers.requests.tracker import Asked, Tracker
from schemas.values import values_of
from tests.unit.producers.requests.oracle import CONTENT, EMPTY, Entry, Request, requests, times_of

MS = 1_000_000


def rows(folded: Folded) -> list[dict[str, Any]]:
    values = {name: values_of(column) for name, column in folded.columns.items()}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def tracked(request: Request) -> dict[str, Any]:
    tracker = Tracker(Asked("r"), request.received_ns)
    for entry in request.entries:
        parts = (Part(entry.choice, entry.kind, entry.tokens),) if entry.kind != EMPTY else ()
        tracker.chunk(entry.at_ns, Chunk(parts=parts))
    tracker.chunk(request.ended_ns, Chunk(usage=Usage(output=request.output, reasoning=request.reasoning), done=True))
    row = tracker.end(request.ended_ns, 7)
    assert row is not None
    return row


@given(st.lists(requests(), min_size=1, max_size=4))
def test_columns_are_the_rows_of_trackers(given_requests: list[Request]) -> None:
    """An agent that folds thousands at once says what a tracker says of each."""
    found = rows(columns_of(times_of(given_requests)))

    expected = [tracked(request) for request in given_requests]
    assert found == [{name: row[name] for name in found[0]} for row in expected]


@pytest.mark.parametrize(
    ("output", "reasoning", "expected", "wrong"),
    [
        pytest.param(9, 3, (9, 3, "engine"), False, id="as told"),
        pytest.param(None, None, (2, None, "counted"), False, id="counted"),
        pytest.param(0, None, (2, None, "counted"), True, id="none told though some came"),
        pytest.param(9, 10, (9, None, "engine"), True, id="reasoning above output"),
        pytest.param(100_000_000, 5, (100_000_000, 5, "engine"), False, id="on the bound"),
        pytest.param(100_000_001, 5, (2, 5, "counted"), False, id="beyond the bound"),
        pytest.param(-9, -9, (2, None, "counted"), False, id="negative"),
    ],
)
def test_tokens_and_who_counted_them(
    output: int | None, reasoning: int | None, expected: tuple[int | None, int | None, str], wrong: bool
) -> None:
    """The engine's count where it can be; else the chunks that came."""
    request = Request(0, [Entry(10 * MS, CONTENT), Entry(20 * MS, CONTENT)], 30 * MS, output, reasoning)

    folded = columns_of(times_of([request]))

    row = rows(folded)[0]
    assert (row["output_tokens"], row["reasoning_tokens"], row["tokens_from"]) == expected
    assert folded.usage_contradicts.tolist() == [wrong]


def test_what_lasted_above_an_hour_is_unknown() -> None:
    """One hour is known; a microsecond more is not, and the rest of the row stands."""
    hour_ns = 3_600 * 1_000 * MS
    found = rows(columns_of(times_of([Request(0, [], hour_ns), Request(0, [Entry(0, CONTENT)], hour_ns + 1_000)])))

    assert [(row["e2e_us"], row["chunks"], row["tokens_from"]) for row in found] == [
        (3_600_000_000, None, None),
        (None, 1, "counted"),
    ]


def test_times_of_a_forger_overflow_nothing() -> None:
    """The ends of 64 bits give null, not a wrapped number."""
    low, high = -(2**63), 2**63 - 1
    forged = [
        Request(low, [Entry(high, CONTENT), Entry(low, CONTENT)], high),
        Request(high, [Entry(low, CONTENT), Entry(high, CONTENT)], low),
    ]

    found = rows(columns_of(times_of(forged)))

    figures = ("ttft_us", "e2e_us", "tpot_us", "icl_max_us", "itl_bins")
    assert [[row[name] for name in figures] for row in found] == [[None, None, 0, 0, {-1: 1}], [0, 0, 0, 0, {-1: 1}]]
