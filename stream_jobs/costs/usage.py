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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.limits import MINUTE_MS, WINDOW_MS
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints, multiply_divide

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
class Usage:
    """Columns, a row for each window that a request touched, by request and then by window. ``UNKNOWN`` for null."""

    window_ms: Ints
    request: Ints
    """Index of the request."""
    prefill_tokens: Ints
    """Prompt tokens that were computed: cached ones are not among them."""
    cached_tokens: Ints
    decode_tokens: Ints
    kv_token_ms: Ints


@dataclass(frozen=True, slots=True)
class Doubts:
    """How many requests there were, and of how many something had to be assumed; see the table above."""

    requests: int
    untimed: int
    no_first_token: int
    cached_untold: int
    tokens_untold: int
    disordered: int
    clipped: int


@dataclass(frozen=True, slots=True)
class _Phases:
    """Moments in us of each request: [prefill_from, prefill_to], (decode_from, end]."""

    prefill_from: Ints
    prefill_to: Ints
    decode_from: Ints
    end: Ints
    timed: Flags
    first_known: Flags
    disordered: Flags


def usage_of(requests: Requests, window_ms: int = WINDOW_MS, span_ms: int = SPAN_MS) -> tuple[Usage, Doubts]:
    """Usage rows of all requests; every request has at least one. Sums over rows are the request's totals, exactly."""
    phases = _phases(requests)
    window_us = window_ms * _MS_US
    first, last, clipped = _windows(phases, window_us, span_ms // window_ms)
    counts = last - first + 1
    row = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    opens = np.cumsum(counts) - counts
    number = np.arange(len(row), dtype=np.int64) - opens[row] + first[row]
    bounds = _Bounds(row, number * window_us, (number + 1) * window_us, number == first[row], number == last[row])
    usage = Usage(number * window_ms, row, *_amounts(requests, phases, bounds))
    return usage, _doubts(requests, phases, clipped)


def _phases(requests: Requests) -> _Phases:
    end = requests.at_ms * _MS_US
    timed = requests.e2e_us >= 0
    start = end - np.where(timed, requests.e2e_us, 0)
    queued = start + np.maximum(requests.queue_us, 0)
    first, known = _first_token(requests, start, queued, end)
    prefill_from = np.minimum(queued, end)
    held = np.clip(first, prefill_from, end)
    return _Phases(
        prefill_from=prefill_from,
        prefill_to=np.where(known, held, end),
        decode_from=np.where(known, held, prefill_from),
        end=end,
        timed=timed,
        first_known=known,
        disordered=timed & ((queued > end) | (known & (held != first))),
    )


def _first_token(requests: Requests, start: Ints, queued: Ints, end: Ints) -> tuple[Ints, Flags]:
    """The moment of the first token and whether it is known: by the tracker, by the engine's decode, by its prefill."""
    told = [requests.ttft_us >= 0, requests.decode_us >= 0, requests.prefill_us >= 0]
    moments = [start + requests.ttft_us, end - requests.decode_us, queued + requests.prefill_us]
    return np.select(told, moments, end), np.any(told, axis=0) & (requests.e2e_us >= 0)


def _windows(phases: _Phases, window_us: int, windows_max: int) -> tuple[Ints, Ints, Flags]:
    """Numbers of the first and last window of each request, and which of them reached back too far."""
    lasting = phases.end > phases.prefill_from
    last = np.maximum((phases.end - lasting) // window_us, 0)
    first = phases.prefill_from // window_us
    oldest = np.maximum(phases.end // window_us - windows_max, 0)
    clipped = first < oldest
    return np.minimum(np.maximum(first, oldest), last), last, clipped


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of every row its request, its window [start, stop) in us, and whether it is the request's first or last."""

    request: Ints
    start: Ints
    stop: Ints
    first: Flags
    last: Flags

    def between(self, at_start: Ints, at_stop: Ints, total: Ints) -> Ints:
        """What happened in each row, from what had happened by its bounds: a request's first row has all before."""
        upper = np.where(self.last, total[self.request], at_stop)
        amount = upper - np.where(self.first, 0, at_start)
        return np.where(total[self.request] == UNKNOWN, UNKNOWN, amount)


def _amounts(requests: Requests, phases: _Phases, bounds: _Bounds) -> tuple[Ints, Ints, Ints, Ints]:
    tokens, cached = requests.input_tokens, requests.cached_tokens
    computed = np.where(tokens == UNKNOWN, UNKNOWN, np.maximum(tokens - np.maximum(cached, 0), 0))
    return (
        _evenly(computed, phases.prefill_from, phases.prefill_to, bounds),
        _evenly(cached, phases.prefill_from, phases.prefill_to, bounds),
        _evenly(requests.output_tokens, phases.decode_from, phases.end, bounds),
        _occupancy(requests, phases, bounds),
    )


def _evenly(totals: Ints, start: Ints, stop: Ints, bounds: _Bounds) -> Ints:
    """Rows of an amount that came about evenly in (start, stop]; of one without a span, all at once at its moment."""
    row = bounds.request
    total, length = np.maximum(totals, 0)[row], (stop - start)[row]

    def by(moment: Ints) -> Ints:
        passed = np.clip(moment - start[row], 0, length)
        at_once = np.where(moment > start[row], total, 0)
        return np.where(length > 0, multiply_divide(total, passed, np.maximum(length, 1))[0], at_once)

    return bounds.between(by(bounds.start), by(bounds.stop), totals)


def _occupancy(requests: Requests, phases: _Phases, bounds: _Bounds) -> Ints:
    """Token-milliseconds: prompt times time since prefill began, plus half of generated times time squared by span."""
    told = phases.timed & (requests.input_tokens != UNKNOWN) & (requests.output_tokens != UNKNOWN)
    prompt, answer = np.where(told, requests.input_tokens, 0), np.where(told, requests.output_tokens, 0)
    lasting, span = phases.end - phases.prefill_from, phases.end - phases.decode_from

    def by(moment: Ints, row: Ints) -> Ints:
        held = prompt[row] * np.clip(moment - phases.prefill_from[row], 0, lasting[row]) // _MS_US
        grown = np.clip(moment - phases.decode_from[row], 0, span[row])
        halves = 2 * _MS_US * np.maximum(span[row], 1)
        return held + multiply_divide(answer[row] * grown, grown, halves)[0]

    total = np.where(told, by(phases.end, np.arange(len(told))), UNKNOWN)
    return bounds.between(by(bounds.start, bounds.request), by(bounds.stop, bounds.request), total)


def _doubts(requests: Requests, phases: _Phases, clipped: Flags) -> Doubts:
    untold = (requests.input_tokens == UNKNOWN) | (requests.output_tokens == UNKNOWN)
    cached_untold = (requests.cached_tokens == UNKNOWN) & (requests.input_tokens != UNKNOWN)
    flags = (~phases.timed, phases.timed & ~phases.first_known, cached_untold, untold, phases.disordered, clipped)
    return Doubts(len(untold), *(int(np.count_nonzero(flag)) for flag in flags))
