"""Usage of requests by brute force: plain Python with whole numbers of any size, one window after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.rows.tables import DEFINITION_VERSION
from schemas.rows.usage import USAGE_AMOUNTS, USAGE_KEY

Row = dict[str, Any]
Key = tuple[Any, ...]

WINDOW_US = 60_000_000
WINDOWS_MAX = 15
"""A request of 15 minutes; what is older falls into the oldest minute."""


def usage_rows(event: Row) -> list[Row]:
    """The rows of one request, oldest minute first, straight from ``docs/why/costs.md``."""
    begin, prefill_to, decode_from, end = _moments(event)
    last = (end - (end > begin)) // WINDOW_US
    oldest = max(end // WINDOW_US - WINDOWS_MAX, 0)
    first = min(max(begin // WINDOW_US, oldest), max(last, 0))
    asked, cached, answer = (event.get(name) for name in ("input_tokens", "cached_tokens", "output_tokens"))
    computed = None if asked is None else max(asked - (cached or 0), 0)
    timed = event.get("e2e_us") is not None

    def kept(moment: int) -> int | None:
        if asked is None or answer is None or not timed:
            return None
        held = asked * (min(max(moment, begin), end) - begin) // 1_000
        grown = min(max(moment, decode_from), end) - decode_from
        return held + answer * grown * grown // (2_000 * max(end - decode_from, 1))

    def by(moment: int) -> list[int | None]:
        spans = ((computed, begin, prefill_to), (cached, begin, prefill_to), (answer, decode_from, end))
        return [0, *(_evenly(total, since, until, moment) for total, since, until in spans), kept(moment)]

    rows, before = [], [0 if amount is not None else None for amount in by(end)]
    for window in range(first, max(last, 0) + 1):
        is_last = window == max(last, 0)
        now = [1, computed, cached, answer, kept(end)] if is_last else by((window + 1) * WINDOW_US)
        rows.append(_row(event, window, [None if x is None else x - y for x, y in zip(now, before, strict=True)]))
        before = now
    return rows


def _moments(event: Row) -> tuple[int, int, int, int]:
    end, e2e, queue = event["at_ms"] * 1_000, event.get("e2e_us"), event.get("queue_us") or 0
    start = end - (e2e or 0)
    begin = min(start + queue, end)
    told = [(event.get("ttft_us"), start), (event.get("prefill_us"), start + queue)]
    moments = [None if span is None else since + span for span, since in told]
    moments.insert(1, None if event.get("decode_us") is None else end - event["decode_us"])
    first = next((moment for moment in moments if moment is not None), None)
    if e2e is None or first is None:
        return begin, end, begin, end
    first = min(max(first, begin), end)
    return begin, first, first, end


def _evenly(total: int | None, since: int, until: int, moment: int) -> int | None:
    if total is None or since == until:
        return total if total is None or moment > since else 0
    return total * (min(max(moment, since), until) - since) // (until - since)


def _row(event: Row, window: int, amounts: list[int | None]) -> Row:
    own = dict(zip(USAGE_AMOUNTS, amounts, strict=True))
    labels = {name: event.get(name) for name in USAGE_KEY}
    return {"window_ms": window * 60_000, **own, "definition_version": DEFINITION_VERSION, **labels}


def merged_usage(rows: Iterable[Row]) -> dict[Key, list[int | None]]:
    """Amounts by (window, key): null and a number make the number."""
    sums: dict[Key, list[int | None]] = {}
    for row in rows:
        held = sums.setdefault((row["window_ms"], *(row[name] for name in USAGE_KEY)), [None] * len(USAGE_AMOUNTS))
        for place, name in enumerate(USAGE_AMOUNTS):
            if row[name] is not None:
                held[place] = row[name] + (held[place] or 0)
    return sums


def totals(events: Iterable[Row]) -> dict[Key, list[int | None]]:
    """What requests of each key used in all, without a thought of windows or moments."""
    sums: dict[Key, list[int | None]] = {}
    for event in events:
        asked, cached, answer = (event.get(name) for name in ("input_tokens", "cached_tokens", "output_tokens"))
        own = [1, None if asked is None else max(asked - (cached or 0), 0), cached, answer]
        held = sums.setdefault(tuple(event.get(name) for name in USAGE_KEY), [None] * len(own))
        for place, amount in enumerate(own):
            if amount is not None:
                held[place] = amount + (held[place] or 0)
    return sums


def over_windows(sums: dict[Key, list[int | None]]) -> dict[Key, list[int | None]]:
    """Requests and tokens by key, of all windows together."""
    found: dict[Key, list[int | None]] = {}
    for (_, *key), amounts in sums.items():
        held = found.setdefault(tuple(key), [None] * 4)
        for place, amount in enumerate(amounts[:4]):
            if amount is not None:
                held[place] = amount + (held[place] or 0)
    return found
