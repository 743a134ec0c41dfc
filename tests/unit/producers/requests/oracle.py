"""Latencies and counts of a request, token by token: slow, and independent of the code under test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from producers.requests.ttft_tpot_itl import Times

EMPTY, CONTENT, REASONING = 0, 1, 2


@dataclass(frozen=True)
class Entry:
    at_ns: int
    kind: int
    tokens: int = 0
    choice: int = 0


@dataclass(frozen=True)
class Request:
    received_ns: int
    entries: list[Entry]
    ended_ns: int
    output: int | None = None
    reasoning: int | None = None


ENTRY = st.builds(
    Entry,
    st.integers(-2_000_000, 400_000_000),
    st.sampled_from([EMPTY, CONTENT, CONTENT, CONTENT, REASONING]),
    st.sampled_from([0, 0, 0, 1, 2, 5]),
    st.sampled_from([0, 0, 0, 1, 3]),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Requests whose clock may step back, whose engine may report tokens, rightly or wrongly."""
    drawn = draw(st.lists(ENTRY, max_size=12))
    reported, several = draw(st.booleans()), draw(st.booleans())
    received = draw(st.integers(0, 10**12))
    at, entries = received, []
    for entry in drawn:
        at += entry.at_ns
        entries.append(Entry(at, entry.kind, entry.tokens if reported else 0, entry.choice if several else 0))
    ended = at + draw(st.integers(-5_000_000, 10**9))
    amounts = st.none() | st.integers(0, 40)
    return Request(received, entries, ended, draw(amounts), draw(st.none() | st.integers(0, 15)))


def times_of(requests: list[Request]) -> Times:
    """The same as arrays."""
    entries = [entry for request in requests for entry in request.entries]
    return Times(
        offsets=np.cumsum([0, *(len(request.entries) for request in requests)]),
        at_ns=np.array([entry.at_ns for entry in entries], np.int64),
        kinds=np.array([entry.kind for entry in entries], np.uint8),
        received_ns=np.array([request.received_ns for request in requests], np.int64),
        ended_ns=np.array([request.ended_ns for request in requests], np.int64),
        tokens=np.array([entry.tokens for entry in entries], np.int32),
        choices=np.array([entry.choice for entry in entries], np.uint16),
        output_tokens=np.array([-1 if r.output is None else r.output for r in requests], np.int64),
        reasoning_tokens=np.array([-1 if r.reasoning is None else r.reasoning for r in requests], np.int64),
    )


@cache
def bin_of(value_us: int) -> int:
    """The grid's own definition, in whole numbers: the smallest k with value <= 2^(k / 32); zero has bin -1."""
    if value_us == 0:
        return -1
    k = 32 * (value_us.bit_length() - 1)  # 2^(k / 32) is at most the value
    while value_us**32 > 2**k and k < 1_016:
        k += 1
    return min(k, 1_016)


def answer(request: Request) -> dict[str, Any]:
    """Every value by docs/reference/definitions.md."""
    now, came = request.received_ns, []
    back = False
    for entry in request.entries:
        if entry.kind == EMPTY:
            continue
        back |= entry.at_ns < now
        now = max(now, entry.at_ns)
        came.append(Entry(now, entry.kind, entry.tokens, entry.choice))
    back |= request.ended_ns < now
    sizes, visible = _sizes(request, came)
    gaps: Counter[int] = Counter()
    span_ns, lasts = 0, dict[int, int]()
    for entry, size in zip(came, sizes, strict=True):
        if entry.choice in lasts:
            gap_ns = entry.at_ns - lasts[entry.choice]
            span_ns += gap_ns
            gaps[bin_of(gap_ns // (1_000 * size))] += size
        lasts[entry.choice] = entry.at_ns
    after_first = min(sum(sizes), visible or sum(sizes)) - len(lasts)
    firsts = [entry.at_ns for entry in came if entry.kind == CONTENT]
    steps = [later.at_ns - entry.at_ns for entry, later in pairwise(came)]
    thinking = sum(size for entry, size in zip(came, sizes, strict=True) if entry.kind == REASONING)
    return {
        "ttft_us": (came[0].at_ns - request.received_ns) // 1_000 if came else None,
        "ttfo_us": (firsts[0] - request.received_ns) // 1_000 if firsts else None,
        "tpot_us": span_ns // (1_000 * after_first) if after_first > 0 else None,
        "e2e_us": (max(now, request.ended_ns) - request.received_ns) // 1_000,
        "icl_max_us": max(steps) // 1_000 if steps else None,
        "counted_tokens": sum(sizes) or None,
        "counted_reasoning": thinking or None,
        "usage_contradicts": bool(came) and request.output == 0,
        "clock_back": back,
        "itl_bins": dict(sorted(gaps.items())),
    }


def _sizes(request: Request, came: list[Entry]) -> tuple[list[int], int | None]:
    """Tokens of each entry, and how many came by the engine's count (None where it did not, or could not be)."""
    visible = None
    if request.output:
        hidden = 0 if any(entry.kind == REASONING for entry in came) else request.reasoning or 0
        visible = request.output - hidden if request.output > hidden else None
    if any(entry.tokens for entry in came):
        return [max(entry.tokens, 1) for entry in came], visible
    choices = len({entry.choice for entry in came})
    if not came or visible is None or visible <= len(came) + choices:
        return [1] * len(came), visible
    made = [visible * place // len(came) for place in range(len(came) + 1)]
    return [made[place + 1] - made[place] for place in range(len(came))], visible
