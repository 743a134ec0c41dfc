"""When a request's work was done: its tokens and cache occupancy, spread over the windows in which they happened.

A request that ends at ``at_ms`` began ``e2e_us`` before. Its prompt is computed in [start + queue, start + TTFT], its
tokens are generated in (first token, end], evenly: token k of n at the k-th n-th of that span, so that a window gets
every token whose moment is in it, a moment on the bound between two windows counts for the earlier one, and the rows of
a request add up to its tokens. Its context lies in the KV cache from the beginning of prefill to the end: the whole
prompt from the first moment (engines reserve it), generated tokens growing along a straight line. Occupancy is the
integral of that, in token-milliseconds, at every bound of a window rounded down, prompt and generated part apart: rows
add up to the request's total and each is off its exact integral by less than two token-milliseconds.

What is not known:

================================  =====================================================================================
end to end time                   everything in the window of the end, no occupancy (``untimed``)
queue                             prefill begins with the request
time to first token               the engine's decode or prefill time; else prompt and answer both spread evenly from
                                  the beginning of prefill to the end (``no_first_token``): not streamed, or failed
cached tokens                     the whole prompt counts as computed, cached stays null (``cached_untold``)
prompt or generated tokens        stay null, and so does occupancy (``tokens_untold``)
times that contradict each other  queue <= TTFT <= end to end is forced, the later one moves (``disordered``)
================================  =====================================================================================

A request reaches back at most ``SPAN_MS``, and never before the epoch: what is older falls into the oldest window that
is left (``clipped``), so nothing is lost. Times in us: below 2**40; tokens: up to 100 million, as the schema holds.
Columns are whole numbers of 64 bits, contiguous and writable: the compiled loops (``usage_kernels``) know no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.limits import MINUTE_MS, WINDOW_MS
from stream_jobs.costs import usage_kernels as kernels
from stream_jobs.costs.wide import Ints

SPAN_MS = 15 * MINUTE_MS
_MS_US = 1_000


@dataclass(frozen=True, slots=True)
class Requests:
    """Columns of ``llm.requests`` events, of one length; ``UNKNOWN`` for null. Names and units as in the schema."""

    at_ms: Ints
    e2e_us: Ints
    queue_us: Ints
    ttft_us: Ints
    prefill_us: Ints
    decode_us: Ints
    input_tokens: Ints
    cached_tokens: Ints
    output_tokens: Ints

    def part(self, start: int, stop: int) -> Requests:
        """Requests ``[start, stop)``."""
        return Requests(*(getattr(self, name)[start:stop] for name in self.__slots__))

    def of(self, rows: Ints) -> Requests:
        """Some of them, in this order."""
        return Requests(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Usage:
    """Columns, a row for each window that a request touched, by request and then by window. ``UNKNOWN`` for null.

    The lines of ``amounts`` are those of ``schemas.usage.USAGE_AMOUNTS``: 1 in the last row of a request, prompt tokens
    that were computed (cached ones are not among them), cached tokens, generated tokens, token-milliseconds.
    """

    window_ms: Ints
    request: Ints
    """Index of the request."""
    amounts: Ints


@dataclass(frozen=True, slots=True)
class Doubts:
    """How many requests there were, and of how many something had to be assumed; see the table above.

    Behind the first in the order of the compiled loops.
    """

    requests: int
    untimed: int
    no_first_token: int
    cached_untold: int
    tokens_untold: int
    disordered: int
    clipped: int

    def plus(self, other: Doubts) -> Doubts:
        """Those of both."""
        return Doubts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


NO_DOUBTS = Doubts(0, 0, 0, 0, 0, 0, 0)


def usage_of(requests: Requests, window_ms: int = WINDOW_MS, span_ms: int = SPAN_MS) -> tuple[Usage, Doubts]:
    """Usage rows of all requests; every request has at least one. Sums over rows are the request's totals, exactly."""
    columns = [getattr(requests, name) for name in Requests.__slots__]
    window_us, windows_max = window_ms * _MS_US, span_ms // window_ms
    rows = kernels.rows_of(*columns[:3], window_us, windows_max)
    windows, request = np.empty(rows, np.int64), np.empty(rows, np.int64)
    amounts, doubts = np.empty((kernels.AMOUNTS, rows), np.int64), np.zeros(kernels.DOUBTS, np.int64)
    kernels.spread(*columns, window_us, windows_max, windows, request, amounts, doubts)
    return Usage(windows, request, amounts), Doubts(len(requests.at_ms), *doubts.tolist())
