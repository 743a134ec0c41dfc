"""TTFT, TPOT, ITL and the other latencies of many requests, computed from the raw times of their chunks.

An *entry* is a piece of one choice that came at one moment: with content, with reasoning alone, or with neither (an
empty entry, such as the role that opens a stream; it is left out). Entries of a request stand in order of arrival.
Rules, all in whole numbers (rounded down):

- a time before the one that preceded it (in the request, beginning with its arrival) is moved up to it: that gap is 0;
- ttft = first entry - received; ttfo = first entry with content - received; e2e = ended - received;
- tokens of an entry: as the engine reported; where it reported only the total, and the total is above the entries by
  more than one end-of-sequence token per choice, the total is spread evenly (entry i of c gets
  ``(i + 1) n // c - i n // c`` of n; one into which entries were merged gets what they would); else one;
- itl of an entry = gap to the entry before it of the same choice / its tokens, counted once per token; the first entry
  of each choice has none;
- tpot = sum over choices of (last - first entry) / (tokens that came - choices), null where that is nothing;
- icl_max = longest gap between entries, of whatever choice; null below two.

Reasoning that the engine counts but did not send is not among the tokens that came. Costs about 2 us a request and
15 ns an entry; memory 100 bytes an entry and 8 KiB a request of one slice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.requests.chunk import CONTENT, REASONING
from schemas.codec.block import Bins, Numbers
from schemas.events.event_types import HOUR_US
from schemas.sketch import ZERO_BIN, bin_of

Ints = npt.NDArray[np.int64]

EMPTY = 0
"""Kind of an entry that carries nothing; the others are ``chunk.CONTENT`` and ``chunk.REASONING``."""
UNKNOWN = -1
"""Stands for null in the arrays of this module."""
TIME_MAX_NS = 2**61
"""Times outside [-this, this] are moved to its ends, so that no gap overflows: what they measure is 0 or above an hour,
hence null in an event."""
_SLICE_ENTRIES = 32_768
_SLICE_REQUESTS = 256
_NO_BIN = 32_767
_DIRECT_US = 1 << 17
"""Gaps below this find their bin in a table; above it, by search."""


@dataclass(frozen=True, slots=True)
class Times:
    """``requests`` requests, entries of the i-th at ``[offsets[i], offsets[i + 1])``. Times on one monotonic clock."""

    offsets: Ints
    at_ns: Ints
    kinds: npt.NDArray[np.uint8]
    received_ns: Ints
    ended_ns: Ints
    tokens: npt.NDArray[np.int32] | None = None
    """Of each entry, 0 where not reported; None where none of any entry were."""
    choices: npt.NDArray[np.uint16] | None = None
    """Of each entry; None where every request has one choice."""
    output_tokens: Ints | None = None
    """As the engine reported, per request; ``UNKNOWN`` where it did not; None where it did for no request."""
    reasoning_tokens: Ints | None = None
    """As ``output_tokens``."""
    counted: npt.NDArray[np.bool_] | None = None
    """Requests whose ``tokens`` are how many entries were merged into each, not what an engine reported; None: none."""

    @property
    def requests(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Latencies:
    """Per request; ``UNKNOWN`` is null. ``itl`` has one row per request."""

    ttft_us: Ints
    ttfo_us: Ints
    tpot_us: Ints
    e2e_us: Ints
    icl_max_us: Ints
    chunks: Ints
    counted_tokens: Ints
    """Tokens that came, by the entries; null where none came."""
    counted_reasoning: Ints
    """Of these, in entries of reasoning alone; null where none came."""
    usage_contradicts: npt.NDArray[np.bool_]
    """The engine reported no output though entries came: its count is not used."""
    clock_back: npt.NDArray[np.bool_]
    itl: Bins


def nullable(values: Ints, high: int = HOUR_US) -> Numbers:
    """A column of an event: unknown where the value is ``UNKNOWN`` or above ``high``."""
    known = (values >= 0) & (values <= high)
    return Numbers(np.where(known, values, 0).astype("<u4"), None if known.all() else known)


def latencies_of(times: Times) -> Latencies:
    """The latencies of every request, in order. Offsets must rise from 0 to the number of entries."""
    times = _without_empty(_bounded(times))
    at_ns, ended_ns, clock_back = _forward(times)
    times = replace(times, at_ns=at_ns, ended_ns=ended_ns)
    starts, ends = times.offsets[:-1], times.offsets[1:]
    came = ends > starts
    tokens, reported, contradicts = _tokens(times)
    gaps, first_of_choice, choices = _gaps(times)
    counted = ends - starts if tokens is None else _sums(tokens, starts, came)
    return Latencies(
        ttft_us=_since_received(times, starts, came),
        ttfo_us=_first_content(times),
        tpot_us=_tpot(gaps, starts, came, np.where(reported >= 0, np.minimum(counted, reported), counted) - choices),
        e2e_us=(ended_ns - times.received_ns) // 1_000,
        icl_max_us=_longest(times, starts, ends),
        chunks=np.where(came, ends - starts, UNKNOWN),
        counted_tokens=np.where(came, counted, UNKNOWN),
        counted_reasoning=_counted_reasoning(times, tokens, starts, came),
        usage_contradicts=contradicts,
        clock_back=clock_back,
        itl=_itl(gaps, tokens, first_of_choice, times.offsets),
    )


def _bounded(times: Times) -> Times:
    names = ("at_ns", "received_ns", "ended_ns")
    return replace(times, **{name: np.clip(getattr(times, name), -TIME_MAX_NS, TIME_MAX_NS) for name in names})


def _without_empty(times: Times) -> Times:
    keep = times.kinds != EMPTY
    if keep.all():
        return times
    before = np.concatenate(([0], np.cumsum(keep)))
    return replace(
        times,
        offsets=before[times.offsets],
        at_ns=times.at_ns[keep],
        kinds=times.kinds[keep],
        tokens=None if times.tokens is None else times.tokens[keep],
        choices=None if times.choices is None else times.choices[keep],
    )


def _forward(times: Times) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Times that never go back, ends of requests likewise, and the requests that needed it."""
    starts, ends = times.offsets[:-1], times.offsets[1:]
    came = ends > starts
    before = np.empty_like(times.at_ns)
    before[1:] = times.at_ns[:-1]
    before[starts[came]] = times.received_ns[came]
    back = np.zeros(len(starts), dtype=bool)
    falls = np.flatnonzero(times.at_ns < before)
    back[np.searchsorted(ends, falls, side="right")] = True
    at_ns = times.at_ns.copy() if len(falls) else times.at_ns
    for request in np.flatnonzero(back):
        part = at_ns[starts[request] : ends[request]]
        np.maximum.accumulate(np.maximum(part, times.received_ns[request]), out=part)
    last = times.received_ns.copy()
    last[came] = at_ns[ends[came] - 1]
    return at_ns, np.maximum(times.ended_ns, last), back | (times.ended_ns < last)


def _since_received(times: Times, entries: Ints, known: npt.NDArray[np.bool_]) -> Ints:
    out = np.full(times.requests, UNKNOWN, dtype=np.int64)
    out[known] = (times.at_ns[entries[known]] - times.received_ns[known]) // 1_000
    return out


def _first_content(times: Times) -> Ints:
    if not (times.kinds == REASONING).any():
        return _since_received(times, times.offsets[:-1], times.offsets[1:] > times.offsets[:-1])
    places = np.append(np.flatnonzero(times.kinds == CONTENT), len(times.kinds))
    first = places[np.searchsorted(places, times.offsets[:-1])]
    return _since_received(times, first, first < times.offsets[1:])


def _sums(values: Ints, starts: Ints, came: npt.NDArray[np.bool_]) -> Ints:
    """Sum of each request's entries; 0 where there are none."""
    out = np.zeros(len(starts), dtype=np.int64)
    if came.any():
        out[came] = np.add.reduceat(values, starts[came])
    return out


def _each(values: npt.NDArray[Any], times: Times) -> npt.NDArray[Any]:
    """A value of each request, once for each of its entries."""
    return np.repeat(values, np.diff(times.offsets))


def _tokens(times: Times) -> tuple[Ints | None, Ints, npt.NDArray[np.bool_]]:
    """Tokens of each entry, None where all have one; of each request, the tokens that came by the engine's count; which
    requests' usage is wrong."""
    starts, ends = times.offsets[:-1], times.offsets[1:]
    came, entries = ends > starts, ends - starts
    reported = np.full(len(starts), UNKNOWN) if times.output_tokens is None else times.output_tokens
    contradicts = came & (reported == 0)
    visible = np.where(contradicts, UNKNOWN, reported - _hidden(times, came))
    visible = np.where((reported > 0) & (visible <= 0), UNKNOWN, visible)
    tokens: Ints | None = None
    if times.tokens is not None and times.tokens.any():
        tokens = np.maximum(times.tokens, 1).astype(np.int64)
        even = _sums((times.tokens > 0).astype(np.int64), starts, came) == 0
        if times.counted is not None:
            even, entries = even | times.counted, np.where(times.counted, _sums(tokens, starts, came), entries)
    else:
        even = np.ones(len(starts), np.bool_)
    spreads = came & even & (visible > entries + _choices_of(times))
    if spreads.any():
        upto = np.arange(1, len(times.at_ns) + 1) if tokens is None else np.cumsum(tokens)
        each = 1 if tokens is None else tokens
        place = upto - each - _each((upto - each)[np.minimum(starts, len(upto) - 1)], times)
        total, count = _each(visible, times), _each(entries, times)
        spread = (place + each) * total // count - place * total // count
        tokens = np.where(_each(spreads, times), spread, 1 if tokens is None else tokens)
    return tokens, visible, contradicts


def _hidden(times: Times, came: npt.NDArray[np.bool_]) -> Ints:
    """Reasoning tokens that were counted but not sent."""
    if times.reasoning_tokens is None:
        return np.zeros(times.requests, dtype=np.int64)
    sent = _sums((times.kinds == REASONING).astype(np.int64), times.offsets[:-1], came) > 0
    return np.where(sent | (times.reasoning_tokens < 0), 0, times.reasoning_tokens)


def _order(times: Times) -> Ints | None:
    """Entries by request and choice, in order of time within; None where that is their order already."""
    if times.choices is None or not times.choices.any():
        return None
    return np.lexsort((times.choices, _each(np.arange(times.requests), times)))


def _firsts(times: Times, order: Ints | None) -> npt.NDArray[np.bool_]:
    """Whether an entry is the first of its request and choice, in the order of ``order``."""
    first = np.zeros(len(times.at_ns), dtype=bool)
    starts = times.offsets[:-1]
    first[starts[times.offsets[1:] > starts]] = True
    if order is not None and times.choices is not None:
        choices = times.choices[order]
        first[1:] |= choices[1:] != choices[:-1]
    return first


def _choices_of(times: Times) -> Ints:
    """Choices of each request that anything came of."""
    if times.choices is None:
        return (times.offsets[1:] > times.offsets[:-1]).astype(np.int64)
    starts = times.offsets[:-1]
    return _sums(_firsts(times, _order(times)).astype(np.int64), starts, times.offsets[1:] > starts)


def _gaps(times: Times) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
    """Nanoseconds since the entry before of the same choice (0 for the first); which are firsts; choices seen."""
    order = _order(times)
    first = _firsts(times, order)
    at_ns = times.at_ns if order is None else times.at_ns[order]
    gaps = np.diff(at_ns, prepend=0)
    gaps[first] = 0
    if order is None:
        starts = times.offsets[:-1]
        return gaps, first, (times.offsets[1:] > starts).astype(np.int64)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return gaps[back], first[back], _choices_of(times)


def _tpot(gaps: Ints, starts: Ints, came: npt.NDArray[np.bool_], after_first: Ints) -> Ints:
    span_ns = _sums(gaps, starts, came)
    return np.where(came & (after_first > 0), span_ns // (1_000 * np.maximum(after_first, 1)), UNKNOWN)


def _longest(times: Times, starts: Ints, ends: Ints) -> Ints:
    out = np.full(len(starts), UNKNOWN, dtype=np.int64)
    came = ends > starts
    if not came.any():
        return out
    gaps = np.diff(times.at_ns, prepend=0)
    gaps[starts[came]] = 0
    out[came] = np.maximum.reduceat(gaps, starts[came]) // 1_000
    out[ends - starts < 2] = UNKNOWN
    return out


def _counted_reasoning(times: Times, tokens: Ints | None, starts: Ints, came: npt.NDArray[np.bool_]) -> Ints:
    reasoning = times.kinds == REASONING
    if not reasoning.any():
        return np.full(times.requests, UNKNOWN, dtype=np.int64)
    found = _sums(np.where(reasoning, 1 if tokens is None else tokens, 0).astype(np.int64), starts, came)
    return np.where(found > 0, found, UNKNOWN)


@cache
def _table() -> npt.NDArray[np.int16]:
    return bin_of(np.arange(_DIRECT_US, dtype=np.int64)) - np.int16(ZERO_BIN)


def _bins(gaps_us: Ints) -> npt.NDArray[np.int16]:
    """Bin of each gap above ``ZERO_BIN``, so that they begin at 0."""
    bins = _table()[np.minimum(gaps_us, _DIRECT_US - 1)]
    large = np.flatnonzero(gaps_us >= _DIRECT_US)
    if len(large):
        bins[large] = bin_of(gaps_us[large]) - np.int16(ZERO_BIN)
    return bins


def _itl(gaps_ns: Ints, tokens: Ints | None, first: npt.NDArray[np.bool_], offsets: Ints) -> Bins:
    """Sketches of the gaps per token, request by request; slices keep what is in hand small."""
    parts: list[tuple[Ints, Ints, Ints]] = []
    start, requests = 0, len(offsets) - 1
    while start < requests:
        reach = int(np.searchsorted(offsets, offsets[start] + _SLICE_ENTRIES, side="right")) - 1
        end = min(max(reach, start + 1), start + _SLICE_REQUESTS)
        here = slice(int(offsets[start]), int(offsets[end]))
        weights = None if tokens is None else tokens[here]
        entries = np.diff(offsets[start : end + 1])
        parts.append(_sketches(gaps_ns[here], weights, np.flatnonzero(first[here]), entries))
        start = end
    if not parts:
        return Bins(np.zeros(0, np.int64), np.zeros(0, np.int16), np.zeros(0, np.uint64))
    sizes, keys, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Bins(np.cumsum(sizes), keys.astype(np.int16), counts.astype(np.uint64))


def _sketches(gaps_ns: Ints, tokens: Ints | None, firsts: Ints, entries: Ints) -> tuple[Ints, Ints, Ints]:
    """Bins of each request (how many), their keys and counts. Firsts have no gap: they ride in the lowest bin there is
    and are taken off again, which costs less than to leave them out."""
    bins = _bins(gaps_ns // (1_000 if tokens is None else 1_000 * tokens))
    bins[firsts] = _NO_BIN
    lowest = int(bins.min()) if len(bins) else _NO_BIN
    if lowest == _NO_BIN:
        return np.zeros(len(entries), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    bins[firsts] = lowest
    width = int(bins.max()) - lowest + 1
    cells = bins + np.repeat(np.arange(len(entries)) * width - lowest, entries)
    # Sums of whole numbers below 2^53 are exact in floats.
    counts = np.bincount(cells, weights=tokens, minlength=len(entries) * width)
    np.subtract.at(counts, cells[firsts], 1 if tokens is None else tokens[firsts])
    places = np.flatnonzero(counts)
    rows, columns = np.divmod(places, width)
    sizes = np.bincount(rows, minlength=len(entries))
    return sizes, columns + (lowest + ZERO_BIN), counts[places].astype(np.int64)
