"""The compiled loop that spreads requests over windows and adds them up; ``usage`` says what it computes and why.

Moments are in us, numbers whole and signed; null is ``UNKNOWN``. A request that touches one window, which most do,
costs no division but those that find the window. numba keeps what it compiled by this file alone, so whatever the
loop uses stands here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min
EMPTY = -1
SEEN, UNTIMED, NO_FIRST_TOKEN, CACHED_UNKNOWN, TOKENS_UNKNOWN, DISORDERED, CLIPPED, COUNTS = range(8)
"""Where requests and each assumption are counted, and how many counts there are."""
REQUESTS, PREFILL, CACHED, DECODE, KV, AMOUNTS = range(6)
"""Lines of the amounts, and how many there are."""

_MS_US = 1_000


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_divide(a: Any, b: Any, divisor: Any) -> Any:
    """``a * b // divisor``, exactly, also where the product leaves 64 bits: the quotient is guessed and mended.

    ``a``, ``b`` >= 0, 0 < ``divisor`` < 2**51, quotient below 2**57. A guess is off by at most 2**-50 of itself, so the
    remainder, which is exact modulo 2**64, is below 2**59. (Faster than one division of whole numbers.)
    """
    quotient = np.int64(np.float64(a) * np.float64(b) / np.float64(divisor))
    remainder = np.int64(np.uint64(a) * np.uint64(b) - np.uint64(quotient) * np.uint64(divisor))
    if 0 <= remainder < divisor:
        return quotient
    return quotient + remainder // divisor


@njit(cache=True, nogil=True)
def _begin_of(at: Any, e2e: Any, queue: Any) -> Any:
    """The moment when prefill begins."""
    start = at * _MS_US - max(e2e, np.int64(0))
    return min(start + max(queue, np.int64(0)), at * _MS_US)


@njit(cache=True, nogil=True)
def _phases(at: Any, e2e: Any, queue: Any, ttft: Any, prefill: Any, decode: Any) -> Any:
    """When prefill stops, when decode starts, is the first token's moment known, do the times contradict each other."""
    end, begin = at * _MS_US, _begin_of(at, e2e, queue)
    start = end - max(e2e, np.int64(0))
    queued = start + max(queue, np.int64(0))
    first = end
    if ttft >= 0:
        first = start + ttft
    elif decode >= 0:
        first = end - decode
    elif prefill >= 0:
        first = queued + prefill
    known = e2e >= 0 and (ttft >= 0 or decode >= 0 or prefill >= 0)
    held = min(max(first, begin), end)
    disordered = e2e >= 0 and (queued > end or (known and held != first))
    return held if known else end, held if known else begin, known, disordered


@njit(cache=True, nogil=True)
def _windows_of(begin: Any, end: Any, number: Any, window_us: Any, windows_max: Any) -> Any:
    """First and last window of a request that ends in window ``number``, and the oldest it may reach.

    There are as many steps as the request has rows.
    """
    oldest = max(number - windows_max, 0)
    last = max(number - np.int64(end > begin and end == number * window_us), 0)
    first = last
    while first > oldest and begin < first * window_us:
        first -= 1
    return first, last, oldest


@njit(cache=True, nogil=True)
def _evenly(total: Any, start: Any, stop: Any, moment: Any) -> Any:
    """How much of an amount that comes about evenly in (start, stop] has come by a moment."""
    if moment <= start:
        return np.int64(0)
    if moment >= stop:
        return total
    return _multiply_divide(total, moment - start, stop - start)


@njit(cache=True, nogil=True)
def _occupancy(prompt: Any, answer: Any, begin: Any, decode_from: Any, end: Any, moment: Any) -> Any:
    """Token-milliseconds by a moment: prompt and generated part each rounded down."""
    if moment >= end:
        return prompt * (end - begin) // _MS_US + answer * (end - decode_from) // (2 * _MS_US)
    held = prompt * max(moment - begin, np.int64(0)) // _MS_US
    grown = moment - decode_from
    if grown <= 0:
        return held
    return held + _multiply_divide(answer * grown, grown, 2 * _MS_US * (end - decode_from))


@njit(cache=True, nogil=True)
def _plus(held: Any, amount: Any) -> Any:
    """Unknown and a number make the number."""
    return amount if held == UNKNOWN else held + amount


@njit(cache=True, nogil=True)
def add_usage(
    at: Any, e2e: Any, queue: Any, ttft: Any, prefill: Any, decode: Any, prompts: Any, cached: Any, answered: Any,
    key_of: Any, start: Any, stop: Any, window_us: Any, windows_max: Any,
    cells: Any, heads: Any, nexts: Any, windows: Any, keys: Any, used: Any, assumptions: Any,
) -> int:  # fmt: skip
    """Add requests ``[start, stop)`` but those without a key to the rows of their windows; returns the one reached.

    Rows of a key are chained, the newest first. Counts the assumptions. Stops when the next one might need more rows
    than there are. One function, because handing arrays on to another costs more than all it does.
    """
    window_ms, number = window_us // _MS_US, np.int64(0)
    for i in range(start, stop):
        key = key_of[i]
        if key == EMPTY:
            continue
        begin, end = _begin_of(at[i], e2e[i], queue[i]), at[i] * _MS_US
        if not number * window_us <= end < (number + 1) * window_us:  # else as the one before
            number = end // window_us
        first, last, oldest = _windows_of(begin, end, number, window_us, windows_max)
        if used[0] + last - first >= cells.shape[0]:
            return i
        prefill_to, decode_from, known, disordered = _phases(at[i], e2e[i], queue[i], ttft[i], prefill[i], decode[i])
        prompt_known, cached_known, answered_known = prompts[i] != UNKNOWN, cached[i] != UNKNOWN, answered[i] != UNKNOWN
        prompt, answer = prompts[i] if prompt_known else np.int64(0), answered[i] if answered_known else np.int64(0)
        found = cached[i] if cached_known else np.int64(0)
        computed = max(prompt - found, np.int64(0))
        kept_known = e2e[i] >= 0 and prompt_known and answered_known
        assumptions[SEEN] += 1
        if not (known and prompt_known and cached_known and answered_known) or disordered or begin < oldest * window_us:
            assumptions[UNTIMED] += e2e[i] < 0
            assumptions[NO_FIRST_TOKEN] += e2e[i] >= 0 and not known
            assumptions[CACHED_UNKNOWN] += prompt_known and not cached_known
            assumptions[TOKENS_UNKNOWN] += not (prompt_known and answered_known)
            assumptions[DISORDERED] += disordered
            assumptions[CLIPPED] += begin < oldest * window_us
        done, seen, output, kept = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for window in range(first, last + 1):
            is_last = window == last
            moment = (window + 1) * window_us
            by_done = computed if is_last else _evenly(computed, begin, prefill_to, moment)
            by_seen = found if is_last else _evenly(found, begin, prefill_to, moment)
            by_output = answer if is_last else _evenly(answer, decode_from, end, moment)
            by_kept = _occupancy(prompt, answer, begin, decode_from, end, end if is_last else moment)
            row = heads[key]
            while row != EMPTY and windows[row] != window * window_ms:
                row = nexts[row]
            if row == EMPTY:
                row = used[0]
                used[0] += 1
                nexts[row], heads[key] = heads[key], row
                windows[row], keys[row] = window * window_ms, key
                cells[row, REQUESTS] = 0
                for amount in range(PREFILL, AMOUNTS):
                    cells[row, amount] = UNKNOWN
            cells[row, REQUESTS] += is_last
            if prompt_known:
                cells[row, PREFILL] = _plus(cells[row, PREFILL], by_done - done)
            if cached_known:
                cells[row, CACHED] = _plus(cells[row, CACHED], by_seen - seen)
            if answered_known:
                cells[row, DECODE] = _plus(cells[row, DECODE], by_output - output)
            if kept_known:
                cells[row, KV] = _plus(cells[row, KV], by_kept - kept)
            done, seen, output, kept = by_done, by_seen, by_output, by_kept
    return stop
