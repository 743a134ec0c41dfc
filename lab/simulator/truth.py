"""The ground truth of what a fleet emitted: raw values by column, and exact aggregates of them in plain numpy.

Nothing here uses the codecs, the fold or the sketch that it is there to judge; only the field, grouping and window
tables. Memory is that of the raw values: some 150 bytes an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.simulator.wide import Of, Wide
from schemas.codec.block import Bins, Labels, Numbers
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import derived_of
from schemas.fields import Role
from schemas.limits import WINDOW_MS

Ints = npt.NDArray[np.int64]
_BIN_SPACE = 4_096
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one step and topic. ``record`` numbers the record of the step that each event went into."""

    topic: str
    record: Ints
    numbers: dict[str, tuple[npt.NDArray[Any], Mask | None]]
    labels: dict[str, tuple[npt.NDArray[np.uint16], list[bytes | None]]]
    bins: dict[str, Bins]


def part_of(wide: Wide, rows_max: int) -> Part:
    """What is kept of a wide batch that is sent in records of at most ``rows_max`` events. Texts are left out."""
    columns = wide.columns
    return Part(
        wide.topic,
        _record_of(wide.ends, rows_max),
        {name: (column.values, column.known) for name, column in columns.items() if isinstance(column, Numbers)},
        {name: wide.fleet_labels(name) for name, column in columns.items() if isinstance(column, Labels | Of)},
        {name: column for name, column in columns.items() if isinstance(column, Bins)},
    )


def _record_of(ends: Ints, rows_max: int) -> Ints:
    sizes = np.diff(ends, prepend=0)
    records = -(-sizes // rows_max)
    first = np.repeat(np.cumsum(records) - records, sizes)
    inside = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)
    return np.asarray(first + inside // rows_max)


@dataclass(frozen=True, slots=True)
class Measure:
    """Of the known values of one field in one group; least and greatest are None where none is known."""

    count: int
    total: int
    least: int | None
    greatest: int | None


Key = tuple[Any, ...]
"""``(window_ms, label, ...)`` with labels as text or None."""


class TruthTable:
    """All events of one topic."""

    def __init__(self, topic: str, parts: Sequence[Part]) -> None:
        self.topic = topic
        self.event = BY_TOPIC[topic]
        self._parts = parts

    @cached_property
    def rows(self) -> int:
        """Events."""
        return sum(len(part.record) for part in self._parts)

    def values(self, name: str) -> tuple[Ints, Mask]:
        """Values of a number field and which are known."""
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_)
        pairs = [part.numbers[name] for part in self._parts]
        known = [np.ones(len(values), np.bool_) if mask is None else mask for values, mask in pairs]
        return np.concatenate([values for values, _ in pairs]).astype(np.int64), np.concatenate(known)

    def labels(self, name: str) -> tuple[Ints, list[str | None]]:
        """Codes of a dimension, derived ones included, and what they mean."""
        for derived in derived_of(self.topic):
            if derived.name == name:
                values, known = self.values(derived.field)
                bucket = 1 + np.searchsorted(np.array(derived.bounds), values, "left")
                return np.where(known, bucket, 0), [None, *derived.words]
        words: dict[bytes | None, int] = {None: 0}
        codes: list[Ints] = []
        for part in self._parts:
            local, local_words = part.labels[name]
            codes.append(np.array([words.setdefault(word, len(words)) for word in local_words], np.int64)[local])
        texts = [None if word is None else word.decode() for word in words]
        return np.concatenate(codes) if codes else np.zeros(0, np.int64), texts

    def groups(self, dimensions: Sequence[str], window_ms: int = WINDOW_MS) -> Groups:
        """The events by window of event time and dimensions."""
        at_ms, _ = self.values("at_ms")
        window = at_ms // window_ms * window_ms
        columns = [self.labels(name) for name in dimensions]
        order = np.lexsort([codes for codes, _ in reversed(columns)] + [window])
        changed = np.zeros(self.rows, np.bool_)
        changed[:1] = True
        for codes in (window, *(codes for codes, _ in columns)):
            changed[1:] |= np.diff(codes[order]) != 0
        begins = np.flatnonzero(changed)
        heads = order[begins]
        keys = [(int(window[row]), *(words[codes[row]] for codes, words in columns)) for row in heads.tolist()]
        return Groups(self, order, begins, keys)

    def percentile(self, name: str, q: float, dimensions: Mapping[str, str | None] | None = None) -> float | None:
        """The exact quantile of all known values with these labels, as numpy has it by default."""
        values, chosen = self.values(name)
        for dimension, word in (dimensions or {}).items():
            codes, words = self.labels(dimension)
            chosen = chosen & (codes == words.index(word) if word in words else False)
        if not chosen.any():
            return None
        return float(np.quantile(values[chosen], q))


@dataclass(frozen=True, slots=True)
class Groups:
    """Events sorted by group: group ``g`` owns ``order[begins[g]:begins[g+1]]`` and has ``keys[g]``."""

    table: TruthTable
    order: Ints
    begins: Ints
    keys: list[Key]

    def events(self) -> dict[Key, int]:
        """Events per group."""
        sizes = np.diff(self.begins, append=len(self.order))
        return dict(zip(self.keys, sizes.tolist(), strict=True))

    def measure(self, name: str) -> dict[Key, Measure]:
        """Count, sum, least and greatest of a field's known values per group."""
        if not self.keys:
            return {}
        values, known = self.table.values(name)
        values, known = values[self.order], known[self.order]
        big = np.iinfo(np.int64)
        counts = np.add.reduceat(known.astype(np.int64), self.begins)
        sums = np.add.reduceat(np.where(known, values, 0), self.begins)
        least = np.minimum.reduceat(np.where(known, values, big.max), self.begins)
        most = np.maximum.reduceat(np.where(known, values, big.min), self.begins)
        rows = zip(counts.tolist(), sums.tolist(), least.tolist(), most.tolist(), strict=True)
        made = [Measure(n, s, low if n else None, high if n else None) for n, s, low, high in rows]
        return dict(zip(self.keys, made, strict=True))

    def percentiles(self, name: str, q: float) -> dict[Key, float | None]:
        """The exact quantile per group, as numpy has it by default."""
        values, known = self.table.values(name)
        group = np.repeat(np.arange(len(self.keys)), np.diff(self.begins, append=len(self.order)))
        known_rows = self.order[known[self.order]]
        group = group[known[self.order]]
        ranked = values[known_rows][np.lexsort([values[known_rows], group])]
        counts = np.bincount(group, minlength=len(self.keys))
        starts = np.cumsum(counts) - counts
        position = q * np.maximum(counts - 1, 0)
        rank = position.astype(np.int64)
        last = len(ranked) - 1
        below, above = (ranked[np.minimum(starts + each, last)] for each in (rank, np.minimum(rank + 1, counts - 1)))
        found = below + (position - rank) * (above - below)
        known = (counts > 0).tolist()
        return {key: value if any_ else None for key, value, any_ in zip(self.keys, found.tolist(), known, strict=True)}

    def bins(self, name: str) -> dict[Key, dict[int, int]]:
        """Ready-made sketches added up per group."""
        group_of = np.empty(len(self.order), np.int64)
        group_of[self.order] = np.repeat(np.arange(len(self.keys)), np.diff(self.begins, append=len(self.order)))
        total: dict[Key, dict[int, int]] = {key: {} for key in self.keys}
        first = 0
        for part in self.table._parts:
            column = part.bins[name]
            owner = np.repeat(group_of[first : first + len(column.ends)], np.diff(column.ends, prepend=0))
            first += len(column.ends)
            pairs, where = np.unique(owner * _BIN_SPACE + column.keys + 1, return_inverse=True)
            sums = np.bincount(where, weights=column.counts).astype(np.int64)
            for pair, count in zip(pairs.tolist(), sums.tolist(), strict=True):
                sketch = total[self.keys[pair // _BIN_SPACE]]
                bin_ = pair % _BIN_SPACE - 1
                sketch[bin_] = sketch.get(bin_, 0) + count
        return total


class Truth:
    """What was emitted, by topic. ``parts`` in the order of sending."""

    def __init__(self, parts: Iterable[Part]) -> None:
        by_topic: dict[str, list[Part]] = {topic: [] for topic in BY_TOPIC}
        for part in parts:
            by_topic[part.topic].append(part)
        self.tables = {topic: TruthTable(topic, mine) for topic, mine in by_topic.items()}

    def __getitem__(self, topic: str) -> TruthTable:
        return self.tables[topic]

    def events(self) -> dict[str, int]:
        """Events per topic that has any."""
        return {topic: table.rows for topic, table in self.tables.items() if table.rows}


def measured_fields(topic: str) -> tuple[str, ...]:
    """Number fields of a topic that are aggregated."""
    event = BY_TOPIC[topic]
    return tuple(field.name for field in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE))


def first_records(part: Part, records: int) -> Part:
    """The part without its records from number ``records`` on."""
    if not len(part.record) or part.record[-1] < records:
        return part
    rows = int(np.searchsorted(part.record, records, "left"))
    return Part(
        part.topic,
        part.record[:rows],
        {name: (v[:rows], None if k is None else k[:rows]) for name, (v, k) in part.numbers.items()},
        {name: (codes[:rows], words) for name, (codes, words) in part.labels.items()},
        {name: _first_bins(column, rows) for name, column in part.bins.items()},
    )


def _first_bins(column: Bins, rows: int) -> Bins:
    end = int(column.ends[rows - 1]) if rows else 0
    return Bins(column.ends[:rows], column.keys[:end], column.counts[:end])
