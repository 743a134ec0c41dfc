"""When a request's work was done: its tokens and cache occupancy, spread over the windows in which they happened.

A request that ends at ``at_ms`` began ``e2e_us`` before. Its prompt is computed in [start + queue, start + TTFT], its
tokens are generated in (first token, end], evenly: token k of n at the k-th n-th of that span, so that a window gets
every token whose moment is in it, a moment on the bound between two windows counts for the earlier one, and the rows of
a request add up to its tokens. Its context is in the KV cache from the beginning of prefill to the end: the whole
prompt from the first moment (engines reserve it), generated tokens growing along a straight line. Occupancy is the
integral of that, in token-milliseconds, at every bound of a window rounded down, prompt and generated part apart: rows
add up to the request's total and each is off its exact integral by less than two token-milliseconds.

What is not known:

================================  =====================================================================================
end to end time                   everything in the window of the end, no occupancy (``untimed``)
queue                             prefill begins with the request
time to first token               the engine's decode or prefill time; else prompt and answer both spread evenly from
                                  the beginning of prefill to the end (``no_first_token``): not streamed, or failed
cached tokens                     the whole prompt counts as computed, cached stays null (``cached_unknown``)
prompt or generated tokens        stay null, and so does occupancy (``tokens_unknown``)
times that contradict each other  queue <= TTFT <= end to end is forced, the later one moves (``disordered``)
================================  =====================================================================================

A request reaches back at most ``SPAN_MS``, and never before the epoch: what is older falls into the oldest window that
is left (``clipped``), so nothing is lost. Times in us: below 2**40; tokens: up to 100 million, as the schema holds.
Columns are whole numbers of 64 bits, contiguous and writable: the compiled loop (``usage_kernels``) knows no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.limits import MINUTE_MS
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


@dataclass(frozen=True, slots=True)
class Assumptions:
    """How many requests there were, and of how many something had to be assumed, in the order of the compiled loop."""

    requests: int
    untimed: int
    no_first_token: int
    cached_unknown: int
    tokens_unknown: int
    disordered: int
    clipped: int

    def plus(self, other: Assumptions) -> Assumptions:
        """Those of both."""
        return Assumptions(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


NO_ASSUMPTIONS = Assumptions(0, 0, 0, 0, 0, 0, 0)


class UsageSums:
    """Usage of requests added up by key and window; a request has at least one row. Rows stand as they began.

    The columns of ``cells`` are those of ``usage.USAGE_AMOUNTS``, ``UNKNOWN`` for null: requests that ended in
    the last of the windows they touched, prompt tokens that were computed (cached ones are not among them), cached
    tokens, generated tokens, token-milliseconds. Row ``i`` belongs to ``windows[i]`` (start, in ms) and ``keys[i]``.
    Over the rows of a key each is the sum of its requests' totals, exactly.
    """

    __slots__ = ("_cells", "_counts", "_heads", "_keys", "_nexts", "_used", "_window_us", "_windows", "_windows_max")

    def __init__(self, room: int, window_ms: int = MINUTE_MS) -> None:
        """With room for so many rows, at least one, before it grows."""
        self._window_us, self._windows_max = window_ms * _MS_US, SPAN_MS // window_ms
        self._used, self._counts = np.zeros(1, np.int64), np.zeros(kernels.COUNTS, np.int64)
        self._heads = np.empty(0, np.int64)
        self._cells = np.empty((room, kernels.AMOUNTS), np.int64)
        self._nexts, self._windows, self._keys = (np.empty(room, np.int64) for _ in range(3))

    @property
    def rows(self) -> int:
        return int(self._used[0])

    @property
    def cells(self) -> Ints:
        return self._cells[: self.rows]

    @property
    def windows(self) -> Ints:
        return self._windows[: self.rows]

    @property
    def keys(self) -> Ints:
        return self._keys[: self.rows]

    @property
    def assumptions(self) -> Assumptions:
        return Assumptions(*self._counts.tolist())

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(array.nbytes for array in (self._heads, self._cells, self._nexts, self._windows, self._keys))

    def add(self, requests: Requests, key_of: Ints, keys: int, start: int, stop: int) -> None:
        """Add requests ``[start, stop)``; ``key_of`` is the key of each, below ``keys``, or -1: leave it out."""
        columns = [getattr(requests, name) for name in Requests.__slots__]
        if len(self._heads) < keys:
            self._heads = longer(self._heads, keys)
        while True:
            start = kernels.add_usage(
                *columns, key_of, start, stop, self._window_us, self._windows_max,
                self._cells, self._heads, self._nexts, self._windows, self._keys, self._used, self._counts,
            )  # fmt: skip
            if start >= stop:
                return
            self.grow()

    def grow(self) -> None:
        """Make room for twice the rows; changes nothing else."""
        room = 2 * len(self._nexts)
        self._cells = np.concatenate((self._cells, np.empty_like(self._cells)))
        self._nexts, self._windows, self._keys = (
            longer(array, room) for array in (self._nexts, self._windows, self._keys)
        )


def longer(array: Ints, length: int) -> Ints:
    """The same with room behind it, which reads ``EMPTY``."""
    found = np.full(length, kernels.EMPTY, np.int64)
    found[: len(array)] = array
    return found
