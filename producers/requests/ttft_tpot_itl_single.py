"""TTFT, TPOT, ITL and the other latencies of one request, by the rules of ``ttft_tpot_itl``.

For a request of usual length this costs less than a dozen array operations; a long one goes to
``ttft_tpot_itl.latencies_of``. Both give the same result for any input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, compress, pairwise
from operator import sub
from typing import NamedTuple

import numpy as np

from producers.requests.chunk import CONTENT, REASONING
from producers.requests.ttft_tpot_itl import UNKNOWN, Latencies, Times, latencies_of
from schemas.sketch import BOUNDS, ZERO_BIN

LONG_ENTRIES = 1_000
"""From here on arrays are cheaper."""
_BOUNDS = [0, *BOUNDS.tolist()]
"""Place 0 is the bin of zero. A search that ends at the last place gives the last bin to whatever is beyond."""
_BEYOND = len(_BOUNDS) - 1


class RequestLatencies(NamedTuple):
    """As ``ttft_tpot_itl.Latencies``, of one request: None is null."""

    ttft_us: int | None
    ttfo_us: int | None
    tpot_us: int | None
    e2e_us: int
    icl_max_us: int | None
    counted_tokens: int | None
    counted_reasoning: int | None
    usage_contradicts: bool
    clock_back: bool
    itl_bins: dict[int, int]


class Entries(NamedTuple):
    """Entries of one request, none of them empty. ``tokens`` 0 where not reported."""

    at_ns: Sequence[int]
    kinds: Sequence[int]
    tokens: Sequence[int]
    choices: Sequence[int]


def request_latencies(
    entries: Entries, received_ns: int, ended_ns: int, output_tokens: int | None, reasoning_tokens: int | None
) -> RequestLatencies:
    """The latencies of one request; ``output_tokens`` and ``reasoning_tokens`` as the engine reported them."""
    count = len(entries.at_ns)
    if count == 0:
        return _without_entries(received_ns, ended_ns)
    if count >= LONG_ENTRIES:
        return _of_arrays(entries, received_ns, ended_ns, output_tokens, reasoning_tokens)
    at_ns, back = _forward(entries.at_ns, received_ns, ended_ns)
    steps = list(map(sub, at_ns[1:], at_ns))
    by_choice = _by_choice(entries.choices)
    came = _came(entries, output_tokens, reasoning_tokens)
    tokens = _tokens(entries, came, max(len(by_choice), 1))
    gaps, sizes = steps, tokens[1:]
    if by_choice:
        pairs = [pair for places in by_choice for pair in pairwise(places)]
        gaps = [at_ns[here] - at_ns[before] for before, here in pairs]
        sizes = [tokens[here] for _, here in pairs]
    counted = sum(tokens)
    after_first = (counted if came is None else min(counted, came)) - max(len(by_choice), 1)
    reasoning = sum(compress(tokens, map(REASONING.__eq__, entries.kinds)))
    content = entries.kinds.index(CONTENT) if CONTENT in entries.kinds else None
    return RequestLatencies(
        ttft_us=(at_ns[0] - received_ns) // 1_000,
        ttfo_us=None if content is None else (at_ns[content] - received_ns) // 1_000,
        tpot_us=sum(gaps) // (1_000 * after_first) if after_first > 0 else None,
        e2e_us=(max(ended_ns, at_ns[-1]) - received_ns) // 1_000,
        icl_max_us=max(steps) // 1_000 if steps else None,
        counted_tokens=counted,
        counted_reasoning=reasoning or None,
        usage_contradicts=output_tokens == 0,
        clock_back=back,
        itl_bins=_bins(gaps, sizes),
    )


def _without_entries(received_ns: int, ended_ns: int) -> RequestLatencies:
    e2e_us = max(ended_ns - received_ns, 0) // 1_000
    return RequestLatencies(None, None, None, e2e_us, None, None, None, False, ended_ns < received_ns, {})


def _forward(at_ns: Sequence[int], received_ns: int, ended_ns: int) -> tuple[list[int], bool]:
    """Times that never go back, and whether any did."""
    times = [received_ns, *at_ns]
    forward = list(accumulate(times, max))
    return forward[1:], forward != times or ended_ns < forward[-1]


def _by_choice(choices: Sequence[int]) -> list[list[int]]:
    """Places of the entries of each choice, in order; nothing where all are of the first."""
    if not any(choices):
        return []
    found: dict[int, list[int]] = {}
    for place, choice in enumerate(choices):
        found.setdefault(choice, []).append(place)
    return list(found.values())


def _came(entries: Entries, output_tokens: int | None, reasoning_tokens: int | None) -> int | None:
    """Tokens that came, by the engine's count, less reasoning that it counted and did not send."""
    if not output_tokens:
        return None
    hidden = 0 if REASONING in entries.kinds else reasoning_tokens or 0
    return output_tokens - hidden if output_tokens > hidden else None


def _tokens(entries: Entries, came: int | None, choices: int) -> list[int]:
    count = len(entries.at_ns)
    if any(entries.tokens):
        return [max(size, 1) for size in entries.tokens]
    if came is None or came <= count + choices:
        return [1] * count
    return [b - a for a, b in pairwise(place * came // count for place in range(count + 1))]


def _bins(gaps_ns: list[int], sizes: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for gap_ns, tokens in zip(gaps_ns, sizes, strict=True):
        place = bisect_left(_BOUNDS, gap_ns // (1_000 * tokens), 0, _BEYOND)
        found[place] = found.get(place, 0) + tokens
    return {place + ZERO_BIN: found[place] for place in sorted(found)}


def _of_arrays(
    entries: Entries, received_ns: int, ended_ns: int, output_tokens: int | None, reasoning_tokens: int | None
) -> RequestLatencies:
    times = Times(
        offsets=np.array([0, len(entries.at_ns)], np.int64),
        at_ns=np.array(entries.at_ns, np.int64),
        kinds=np.array(entries.kinds, np.uint8),
        received_ns=np.array([received_ns], np.int64),
        ended_ns=np.array([ended_ns], np.int64),
        tokens=np.array(entries.tokens, np.int32),
        choices=np.array(entries.choices, np.uint16),
        output_tokens=np.array([UNKNOWN if output_tokens is None else output_tokens], np.int64),
        reasoning_tokens=np.array([UNKNOWN if reasoning_tokens is None else reasoning_tokens], np.int64),
    )
    return first_of(latencies_of(times))


def first_of(found: Latencies) -> RequestLatencies:
    """The first request of many."""
    end = int(found.itl.ends[0])
    names = ("ttft_us", "ttfo_us", "tpot_us", "icl_max_us", "counted_tokens", "counted_reasoning")
    values = {name: int(getattr(found, name)[0]) for name in names}
    return RequestLatencies(
        e2e_us=int(found.e2e_us[0]),
        usage_contradicts=bool(found.usage_contradicts[0]),
        clock_back=bool(found.clock_back[0]),
        itl_bins=dict(zip(found.itl.keys[:end].tolist(), found.itl.counts[:end].tolist(), strict=True)),
        **{name: None if value == UNKNOWN else value for name, value in values.items()},
    )
