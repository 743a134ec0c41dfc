"""Columns of ``llm.requests`` out of the raw chunk times of many finished requests: what an agent does with what
applications hand it. The same figures, request by request, as a ``Tracker`` gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from producers.requests.times import UNKNOWN, Ints, Times, figures, nullable
from schemas.block import Column, Labels

TOKENS_MAX = 100_000_000
_TOKENS_FROM: tuple[bytes | None, ...] = (None, b"engine", b"counted")


@dataclass(frozen=True, slots=True)
class Folded:
    """``columns`` by name; which requests had what counted of them (``reasons``)."""

    columns: dict[str, Column]
    clock_back: npt.NDArray[np.bool_]
    usage_contradicts: npt.NDArray[np.bool_]


def columns_of(times: Times) -> Folded:
    """ttft_us, ttfo_us, tpot_us, e2e_us, icl_max_us, chunks, output_tokens, reasoning_tokens, tokens_from, itl_bins of
    every request, in order. What is beyond an event's bounds is null. ``tokens_from`` speaks of output alone."""
    output, reasoning, wrong = _told(times)
    found = figures(replace(times, output_tokens=output, reasoning_tokens=reasoning))
    output = np.where(found.usage_contradicts, UNKNOWN, output)
    counted = (output == UNKNOWN) & (found.chunks > 0)
    told_reasoning = reasoning != UNKNOWN
    return Folded(
        columns={
            "ttft_us": nullable(found.ttft_us),
            "ttfo_us": nullable(found.ttfo_us),
            "tpot_us": nullable(found.tpot_us),
            "e2e_us": nullable(found.e2e_us),
            "icl_max_us": nullable(found.icl_max_us),
            "chunks": nullable(found.chunks, TOKENS_MAX),
            "output_tokens": nullable(np.where(counted, found.counted_tokens, output), TOKENS_MAX),
            "reasoning_tokens": nullable(
                np.where(counted & ~told_reasoning, found.counted_reasoning, reasoning), TOKENS_MAX
            ),
            "tokens_from": Labels(
                np.where(counted, 2, np.where(output != UNKNOWN, 1, 0)).astype(np.uint8), list(_TOKENS_FROM)
            ),
            "itl_bins": found.itl,
        },
        clock_back=found.clock_back,
        usage_contradicts=found.usage_contradicts | wrong,
    )


def _told(times: Times) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Output and reasoning as told, without what cannot be; which requests' usage was wrong."""
    nothing = np.full(times.requests, UNKNOWN, dtype=np.int64)
    output = nothing if times.output_tokens is None else times.output_tokens
    reasoning = nothing if times.reasoning_tokens is None else times.reasoning_tokens
    output = np.where((output < 0) | (output > TOKENS_MAX), UNKNOWN, output)
    reasoning = np.where((reasoning < 0) | (reasoning > TOKENS_MAX), UNKNOWN, reasoning)
    wrong = (output != UNKNOWN) & (reasoning > output)
    return output, np.where(wrong, UNKNOWN, reasoning), wrong
