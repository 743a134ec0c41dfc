"""The compiled loops that choose exemplars: one pass over the events of a fold, one over the candidates at a commit.

Every group (window, engine, model) has ``SLOTS`` slots: the greatest by TTFT, by end-to-end time, and of those that
did not end well by whether they failed on our side and then by request id, each kept falling. ``tops`` holds what is
compared, ``refs`` the row it stands in: of this call, or ``OLD`` for one of an earlier fold (or none). An old row's id
is not at hand, so a new one of equal value passes: what passes are candidates, and the last pass compares them exactly.
An event below the least of full slots can never be among the greatest, since as many greater ones were seen.

Ids compare by their bytes. For failed requests the compared number is made of the first eight of them, below the bit
that tells whether they failed on our side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from schemas.codec.native_loads import load64, store64

UNKNOWN = np.iinfo(np.int64).min
OLD = -1
TTFT, E2E, FAILED, SLOTS = 0, 2, 4, 8
"""Where the slots of each metric begin, and where they end."""

_TTFT, _E2E, _FAILED, _SLOTS = np.int64(TTFT), np.int64(E2E), np.int64(FAILED), np.int64(SLOTS)
"""Of one type, so that ``_offer`` is compiled once and not for each constant."""
_BYTE = np.uint64(8)
_TWO = np.uint64(2)
_OURS = np.int64(1 << 62)


@njit(cache=True, nogil=True)
def _begin_of(ends: Any, row: int) -> Any:
    return ends[row - 1] if row else np.int64(0)


@njit(cache=True, nogil=True)
def _head(data: Any, ends: Any, row: int, is_ours: Any) -> Any:
    """The first eight bytes of a text as a number of the same order, less the last two bits; failures of ours above."""
    begin, end = _begin_of(ends, row), ends[row]
    head = np.uint64(0)
    for i in range(8):
        byte = np.uint64(data[begin + i]) if begin + i < end else np.uint64(0)
        head = (head << _BYTE) | byte
    place = np.int64(head >> _TWO)
    return place | _OURS if is_ours else place


@njit(cache=True, nogil=True)
def _above(data: Any, ends: Any, left: int, right: int) -> Any:
    """Whether the text of row ``left`` comes behind that of ``right`` in the order of bytes."""
    a, b = _begin_of(ends, left), _begin_of(ends, right)
    a_size, b_size = ends[left] - a, ends[right] - b
    for i in range(min(a_size, b_size)):
        if data[a + i] != data[b + i]:
            return data[a + i] > data[b + i]
    return a_size > b_size


@njit(cache=True, nogil=True)
def _offer(top: Any, ref: Any, low: int, high: int, value: Any, row: int, data: Any, ends: Any) -> Any:
    """Put a row among the slots ``[low, high)``, of which the last is not above it; False when it is below all."""
    if value == top[high - 1] and ref[high - 1] != OLD and not _above(data, ends, row, ref[high - 1]):
        return False
    slot = high - 1
    while slot > low and value >= top[slot - 1]:
        before = ref[slot - 1]
        if value == top[slot - 1] and before != OLD and not _above(data, ends, row, before):
            break
        top[slot], ref[slot] = top[slot - 1], before
        slot -= 1
    top[slot], ref[slot] = value, row
    return True


@njit(cache=True, nogil=True)
def choose(
    lines: Any, group_of: Any, statuses: Any, ok: Any, aborted: Any, kinds: Any, client: Any, ttft: Any, e2e: Any,
    data: Any, ends: Any, start: Any, stop: Any, tops: Any, refs: Any, is_touched: Any, touched: Any,
) -> int:  # fmt: skip
    """Offer rows ``[start, stop)``, of which ``lines`` has the line of sums; returns how many groups changed.

    Those are written to ``touched``, which has room for all.
    """
    count = 0
    for i in range(start, stop):
        line = lines[i - start]
        if line < 0:
            continue
        group = group_of[line]
        changed = False
        if ttft[i] >= tops[group, E2E - 1] and ttft[i] != UNKNOWN:
            changed |= _offer(tops[group], refs[group], _TTFT, _E2E, ttft[i], i, data, ends)
        if e2e[i] >= tops[group, FAILED - 1] and e2e[i] != UNKNOWN:
            changed |= _offer(tops[group], refs[group], _E2E, _FAILED, e2e[i], i, data, ends)
        if statuses[i] != ok:
            head = _head(data, ends, i, statuses[i] != aborted and kinds[i] != client)
            if head >= tops[group, SLOTS - 1]:
                changed |= _offer(tops[group], refs[group], _FAILED, _SLOTS, head, i, data, ends)
        if changed and not is_touched[group]:
            is_touched[group] = True
            touched[count] = group
            count += 1
    return count


@njit(cache=True, nogil=True)
def take(touched: Any, count: Any, refs: Any, is_touched: Any, rows: Any, slots: Any, groups: Any) -> int:
    """Write the rows of this fold that stand in a slot, and make them old; returns how many."""
    found = 0
    for t in range(count):
        group = touched[t]
        is_touched[group] = False
        for slot in range(SLOTS):
            if refs[group, slot] != OLD:
                rows[found], slots[found], groups[found] = refs[group, slot], slot, group
                refs[group, slot] = OLD
                found += 1
    return found


@njit(cache=True, nogil=True)
def settle(groups: Any, slots: Any, values: Any, is_ours: Any, data: Any, ends: Any, tops: Any, refs: Any) -> None:
    """Offer all candidates to empty slots: afterwards ``refs`` has the greatest of each group, falling."""
    for row in range(groups.shape[0]):
        top, ref, slot = tops[groups[row]], refs[groups[row]], slots[row]
        low, high, value = _TTFT, _E2E, values[row]
        if slot >= FAILED:
            low, high, value = _FAILED, _SLOTS, _head(data, ends, row, is_ours[row])
        elif slot >= E2E:
            low, high = _E2E, _FAILED
        if value >= top[high - 1]:
            _offer(top, ref, low, high, value, row, data, ends)


@njit(cache=True, nogil=True)
def copy_texts(data: Any, ends: Any, rows: Any, out: Any, out_ends: Any) -> None:
    """Copy the texts of some rows behind one another, eight bytes at a time and never beyond a text."""
    place = 0
    for i in range(rows.shape[0]):
        begin, end = _begin_of(ends, rows[i]), ends[rows[i]]
        while begin + 8 <= end:
            store64(out, place, load64(data, begin))
            begin, place = begin + 8, place + 8
        for k in range(begin, end):
            out[place] = data[k]
            place += 1
        out_ends[i] = place
