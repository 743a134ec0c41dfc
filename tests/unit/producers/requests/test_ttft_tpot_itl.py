from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests.chunk import CONTENT, REASONING
from producers.requests.ttft_tpot_itl import EMPTY, UNKNOWN, Times, latencies_of, nullable
from producers.requests.ttft_tpot_itl_single import first_of
from schemas.sketch import VALUE_MAX, bin_of
from tests.unit.producers.requests.oracle import Entry, Request, answer, requests, times_of

MS = 1_000_000


def of(*requests: Request) -> list[dict[str, object]]:
    """The latencies of all requests, in the shape of the oracle's."""
    found = latencies_of(times_of(list(requests)))
    ends = [0, *found.itl.ends.tolist()]
    return [
        {
            **{
                name: None if (value := int(getattr(found, name)[i])) == UNKNOWN else value
                for name in ("ttft_us", "ttfo_us", "tpot_us", "e2e_us", "icl_max_us")
            },
            "counted_tokens": None if found.counted_tokens[i] == UNKNOWN else int(found.counted_tokens[i]),
            "counted_reasoning": None if found.counted_reasoning[i] == UNKNOWN else int(found.counted_reasoning[i]),
            "usage_contradicts": bool(found.usage_contradicts[i]),
            "clock_back": bool(found.clock_back[i]),
            "itl_bins": dict(
                zip(
                    found.itl.keys[ends[i] : ends[i + 1]].tolist(),
                    found.itl.counts[ends[i] : ends[i + 1]].tolist(),
                    strict=True,
                )
            ),
        }
        for i in range(len(requests))
    ]


@given(st.lists(requests(), max_size=6))
def test_figures_are_those_of_the_definitions(given_requests: list[Request]) -> None:
    """Whatever the clock, the choices and the engine's counts: each request as if it were alone."""
    assert of(*given_requests) == [answer(request) for request in given_requests]


@given(st.lists(requests(), max_size=5))
def test_columns_that_nobody_told_may_be_left_out(given_requests: list[Request]) -> None:
    """No tokens, no choices, no usage: the same as tokens of 0, choices of 0 and unknown usage."""
    plain = [
        replace(r, entries=[Entry(e.at_ns, e.kind) for e in r.entries], output=None, reasoning=None)
        for r in given_requests
    ]
    times = replace(times_of(plain), tokens=None, choices=None, output_tokens=None, reasoning_tokens=None)

    found = latencies_of(times)

    assert [int(e) for e in found.e2e_us] == [answer(request)["e2e_us"] for request in plain]
    if plain:
        assert first_of(found)._asdict() == answer(plain[0])


def every(gap_ms: int, count: int, kind: int = CONTENT) -> list[Entry]:
    return [Entry((100 + gap_ms * i) * MS, kind) for i in range(count)]


@pytest.mark.parametrize(
    ("output", "reasoning", "tpot_us", "gaps"),
    [
        pytest.param(None, None, 30_000, {30_000: 10}, id="nothing reported: one token a chunk"),
        pytest.param(11, None, 30_000, {30_000: 10}, id="as many tokens as chunks"),
        pytest.param(12, None, 30_000, {30_000: 10}, id="one more: the end-of-sequence token has no chunk"),
        pytest.param(22, None, 300_000 // 21, {15_000: 20}, id="two tokens a chunk"),
        pytest.param(33, 11, 300_000 // 21, {15_000: 20}, id="hidden reasoning did not come"),
        pytest.param(6, None, 60_000, {30_000: 10}, id="fewer tokens than chunks"),
        pytest.param(0, None, 30_000, {30_000: 10}, id="none at all: not to be believed"),
    ],
)
def test_tokens_of_chunks(output: int | None, reasoning: int | None, tpot_us: int, gaps: dict[int, int]) -> None:
    """Eleven chunks, 30 ms apart, and what the engine said of them."""
    found = of(Request(0, every(30, 11), 500 * MS, output, reasoning))[0]

    assert found["tpot_us"] == tpot_us
    assert found["itl_bins"] == {int(bin_of(np.array([gap]))[0]): count for gap, count in gaps.items()}


def test_each_choice_has_its_own_gaps() -> None:
    """Two choices in step are two sequences of 20 ms, not one of 0 and 20."""
    entries = [Entry((100 + 20 * i) * MS, CONTENT, 0, choice) for i in range(4) for choice in (0, 1)]

    found = of(Request(0, entries, 200 * MS))[0]

    assert (found["tpot_us"], found["icl_max_us"]) == (20_000, 20_000)
    assert found["itl_bins"] == {int(bin_of(np.array([20_000]))[0]): 6}


@pytest.mark.parametrize("gap_us", [0, 1, 2, 131_071, 131_072, 131_073, VALUE_MAX - 1, VALUE_MAX, VALUE_MAX + 5])
def test_bins_are_those_of_the_sketch(gap_us: int) -> None:
    """Around the edge of the table, and at both ends of the grid."""
    found = of(Request(0, [Entry(0, CONTENT), Entry(gap_us * 1_000 + 999, CONTENT)], 10**13))[0]

    assert found["itl_bins"] == {int(bin_of(np.array([gap_us]))[0]): 1}


def test_many_and_long_requests_cross_slices() -> None:
    """Slices of requests and of entries change nothing."""
    few = [Request(0, every(1 + i % 40, i % 4), 10**9, i % 9) for i in range(700)]
    long = [
        Request(0, every(2, 40_000), 10**11),
        Request(5, [], 9_000),
        Request(0, every(3, 40_000, REASONING), 10**12),
    ]

    assert of(*few, *long, *few[:3]) == [answer(request) for request in [*few, *long, *few[:3]]]


def test_nothing_gives_nothing() -> None:
    """No requests, and requests of empty entries alone."""
    assert of() == []
    assert of(Request(5, [Entry(7, EMPTY)], 3_005)) == [answer(Request(5, [], 3_005))]


def test_null_is_what_is_unknown_or_beyond() -> None:
    """On the bound it is known; one above, it is not."""
    column = nullable(np.array([UNKNOWN, 0, 7, 8]), high=7)

    assert column.values.tolist() == [0, 0, 7, 0]
    assert column.known is not None
    assert column.known.tolist() == [False, True, True, False]
    assert nullable(np.array([3])).known is None


def test_requests_are_counted_by_their_offsets() -> None:
    """One more offset than requests."""
    empty = np.zeros(0, np.int64)

    assert Times(np.zeros(3, np.int64), empty, empty.astype(np.uint8), empty, empty).requests == 2
