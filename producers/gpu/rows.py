"""Rows of ``gpu.samples`` from two readings of a GPU. Pure.

Gauges are those of the later reading. Counters are emitted as their growth since the reading in which they were known
last, so the next reading makes up for a value that could not be read once. A row covers the time since the reading
before; where that crosses the edge of a window (after a gap) there is a row for each window: all but the last hold
differences only.

Counters that are read once a window (``WINDOW_KEYS``) are null in all rows but that of its last reading, which has the
growth of the whole window. Where that reading was left out, the growth is shared over the windows that it was made in,
by the time their rows cover: the window that went without gets a row of its own, which covers no further time. Rows of
any range of whole windows so add up to what the counter moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from producers.differences import INTERVAL_MS_MAX, RowValues, apportioned, since, spans, split
from producers.gpu.fields import BY_NAME, COUNTER_KEYS, GROWTH_KEYS, WINDOW_KEYS
from schemas.limits import WINDOW_MS

Parts = Mapping[str, tuple[str, ...]]

CUT_TO_INTERVAL = ("throttled_us", "throttled_fault_us", "throttled_power_us", "throttled_thermal_us")
"""Time that is counted once for each of several causes at the same moment."""
WINDOWS_MAX = 12
"""How many windows a counter that could not be read is made up for; growth of more goes to the oldest of them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of one GPU by key. ``monotonic_ms`` counts from the start of the machine.

    Of what is remembered between readings: ``read_ms``, when counters that are read once a window were read, by key;
    ``windows``, the start of each window that has rows since then, and when its rows end. Both monotonic.
    """

    at_ms: int
    monotonic_ms: int
    values: Mapping[str, int]
    read_ms: Mapping[str, int] = field(default_factory=dict)
    windows: tuple[tuple[int, int], ...] = ()


def counters(before: Reading | None, now: Reading) -> Reading:
    """What to compare the next reading with: the newest known value of every counter."""
    kept = {key: value for key, value in now.values.items() if key in COUNTER_KEYS}
    read_ms = {key: now.monotonic_ms for key in kept if key in WINDOW_KEYS}
    if before is None:
        return Reading(now.at_ms, now.monotonic_ms, kept, read_ms)
    read_ms = {**before.read_ms, **read_ms}
    since_ms = min(read_ms.values(), default=now.monotonic_ms)
    windows = tuple(each for each in _windows(before, now) if each[1] > since_ms)[-WINDOWS_MAX:]
    return Reading(now.at_ms, now.monotonic_ms, {**before.values, **kept}, read_ms, windows)


def _windows(before: Reading, now: Reading) -> list[tuple[int, int]]:
    """Those of the rows before, and of the rows since; each once, as long as the clock is not set."""
    found, interval_ms = list(before.windows), now.monotonic_ms - before.monotonic_ms
    end_ms = before.monotonic_ms
    for piece in spans(now.at_ms - interval_ms, now.at_ms) if 0 < interval_ms <= INTERVAL_MS_MAX else ():
        window_ms, end_ms = piece.at_ms // WINDOW_MS * WINDOW_MS, end_ms + piece.interval_ms
        if found and found[-1][0] == window_ms:
            found.pop()
        found.append((window_ms, end_ms))
    return found


@dataclass(frozen=True, slots=True)
class Shape:
    """What the fields of a plan are made of, ready to be walked eight times a second.

    ``plain``: name and key of gauges that are one value as it is. ``levels``, those that are sums or have a marker for
    unknown: name, keys, that marker. ``counts``: name, keys, the most it may grow in a second, and whether it is cut to
    the time it covers; ``window_counts``: likewise, those read once a window.
    ``growths``, those that are read as growth: name, key, the most it may be in a second.
    """

    plain: tuple[tuple[str, str], ...]
    levels: tuple[tuple[str, tuple[str, ...], int | None], ...]
    counts: tuple[tuple[str, tuple[str, ...], int, bool], ...]
    window_counts: tuple[tuple[str, tuple[str, ...], int, bool], ...]
    growths: tuple[tuple[str, str, int], ...]


def shape_of(parts: Parts) -> Shape:
    """From the keys that add up to each field."""
    fields = [(BY_NAME[name], keys) for name, keys in parts.items()]
    gauges = [(field, keys) for field, keys in fields if field.nature == "gauge"]
    plain = [(field.name, keys[0]) for field, keys in gauges if len(keys) == 1 and field.unknown is None]
    known = dict(plain)
    counters = [(field, keys) for field, keys in fields if field.nature == "counter"]
    growths = [(field.name, keys[0], field.most_per_s) for field, keys in counters if GROWTH_KEYS.issuperset(keys)]
    counts = [
        (field.name, keys, field.most_per_s, field.name in CUT_TO_INTERVAL)
        for field, keys in counters
        if not GROWTH_KEYS.issuperset(keys)
    ]
    return Shape(
        plain=tuple(plain),
        levels=tuple((field.name, keys, field.unknown) for field, keys in gauges if field.name not in known),
        counts=tuple(each for each in counts if BY_NAME[each[0]].pace == "every"),
        window_counts=tuple(each for each in counts if BY_NAME[each[0]].pace == "window"),
        growths=tuple(growths),
    )


def sample_rows(shape: Shape, before: Reading | None, now: Reading) -> list[RowValues]:
    """Rows in order of time, at least one; each with its ``at_ms``. ``before``: as ``counters`` gave it."""
    levels = _levels(shape, now.values)
    interval_ms = now.monotonic_ms - before.monotonic_ms if before is not None else 0
    if before is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return [{"at_ms": now.at_ms, **levels}]
    rows = split(now.at_ms, interval_ms, _grown(shape, before.values, now.values, interval_ms))
    rows = _with_window_counts(shape, rows, before, now)
    return [*rows[:-1], {**levels, **rows[-1]}]


def _with_window_counts(shape: Shape, rows: list[RowValues], before: Reading, now: Reading) -> list[RowValues]:
    """The rows with what was read once a window, and rows before them for windows that went without."""
    names = dict.fromkeys((name for name, *_ in shape.window_counts), None)
    rows = [row | names for row in rows]
    earlier: dict[int, RowValues] = {}
    by_window = {(row["at_ms"] or 0) // WINDOW_MS * WINDOW_MS: row for row in rows}
    for name, keys, most_per_s, cut in shape.window_counts:
        known = [key for key in keys if key in before.values and key in now.values]
        since_ms = min((before.read_ms.get(key, before.monotonic_ms) for key in known), default=0)
        covered_ms = now.monotonic_ms - since_ms
        grown = sum(since(before.values[key], now.values[key]) or 0 for key in known)
        amount = _possible(grown, most_per_s, covered_ms) if known and covered_ms <= INTERVAL_MS_MAX else None
        if amount is None:
            continue
        amount = min(amount, covered_ms * 1_000) if cut else amount
        for window_ms, share in _shared(amount, since_ms, before, now):
            row = by_window.get(window_ms)
            if row is None:
                at_ms = window_ms + WINDOW_MS - 1
                row = earlier.setdefault(window_ms, {"at_ms": at_ms, "interval_ms": 0, **names})
            row[name] = share
    return [earlier[window_ms] for window_ms in sorted(earlier)] + rows


def _shared(amount: int, since_ms: int, before: Reading, now: Reading) -> list[tuple[int, int]]:
    """Start and share of each window, by the time its rows cover since then."""
    windows = _windows(before, now)[-WINDOWS_MAX:]
    begins = [since_ms, *(end_ms for _, end_ms in windows[:-1])]
    weights = [max(0, end_ms - max(begin_ms, since_ms)) for begin_ms, (_, end_ms) in zip(begins, windows, strict=True)]
    shares = apportioned(amount, weights)
    return [(start_ms, share) for (start_ms, _), share, weight in zip(windows, shares, weights, strict=True) if weight]


def _levels(shape: Shape, values: Mapping[str, int]) -> RowValues:
    """Each the sum of its parts; None when any is not known."""
    levels: RowValues = {name: values.get(key) for name, key in shape.plain}
    for name, keys, unknown in shape.levels:
        total: int | None = 0
        for key in keys:
            value = values.get(key)
            total = None if total is None or value is None or value == unknown else total + value
        levels[name] = total
    return levels


def _grown(shape: Shape, before: Mapping[str, int], now: Mapping[str, int], interval_ms: int) -> RowValues:
    """Each the sum over the parts known in both readings; None when there is none, or when it grew impossibly fast."""
    grown: RowValues = {}
    for name, keys, most_per_s, cut in shape.counts:
        total: int | None = None
        for key in keys:
            part = since(before.get(key), now.get(key))
            if part is not None:
                total = part + (total or 0)
        total = _possible(total, most_per_s, interval_ms)
        grown[name] = min(total, interval_ms * 1_000) if cut and total else total
    for name, key, most_per_s in shape.growths:
        grown[name] = _possible(now.get(key), most_per_s, interval_ms)
    return grown


def _possible(amount: int | None, most_per_s: int, interval_ms: int) -> int | None:
    return None if amount and amount * 1_000 > most_per_s * max(interval_ms, 1_000) else amount
