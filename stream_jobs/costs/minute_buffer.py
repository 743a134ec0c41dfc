"""What is known of each minute so far: sums that rows may reach in any order, and which minutes must be emitted again.

A *group* is what must be billed together: the engines that share any GPU, else a host. Of every (group, minute) the
buffer keeps sums in three tables, each added to by key; null plus a number is the number, so any order of rows gives
the same sums. A minute is emitted when its own end has passed (provisional), again when it changed, but not more often
than every ``every_ms`` of event time, and as final when the longest request that can still touch it must have ended,
``settle_ms`` after its end. Rows that come later still change it for ``keep_ms``, and it is emitted again, final as
before, with a greater revision: the source offset of the last change. Then its sums are forgotten. What comes after
that would make a bill of a part of the minute: it is not taken, but counted (``late_rows``), for a rerate to mend.

All of it follows from the rows and from the event time that the caller says has passed: no clock. What is emitted
between depends on how often the caller asks; the last row emitted of a minute does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schemas.events.grouping import OTHER
from schemas.limits import MINUTE_MS
from schemas.rows.gpu_shares import SHARES_AMOUNTS
from stream_jobs.costs.packed import NUMBERS, pack, unpack
from stream_jobs.costs.rows import Pile, Rows, Words, added_up, moved, none
from stream_jobs.costs.usage import SPAN_MS
from stream_jobs.costs.wide import Flags, Ints

ENGINE, IDLE, TRAINING = range(3)
"""Codes of ``use``, as ``schemas.rows.costs.USES`` has them."""
GPU_KEY = ("use", "owner", "gpu_uuid", "gpu_model", "region", "host", "parent_uuid", "mig_profile", "window")
USAGE_KEY = ("use", "owner", "tenant", "model", "slo_class", "status")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gpu": (GPU_KEY, ("gpu_ms", "energy_mj", "startup_ms")),
    "share": (("use", "owner", "gpu_uuid"), SHARES_AMOUNTS),
    "usage": (USAGE_KEY, ("requests", "prefill_tokens", "cached_tokens", "decode_tokens", "kv_token_ms")),
}
"""Key, behind the group, and amounts by table. ``share`` rows exist for GPUs that engines hold side by side alone;
``startup_ms`` is the part of ``gpu_ms`` in which the engine was starting.
``use`` and ``window`` (which ten seconds of the minute) are numbers, all else are words."""
_OTHER_KEYS = ("tenant", "model", "slo_class")
"""What of a usage key beyond the limit falls into ``__other__``."""
_OTHER_CODE = 1
_NEVER = np.iinfo(np.int64).max
_MERGE_ROWS_MIN = 4_096


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """``lines_max`` usage lines of a group and minute keep their names, later ones are added to ``__other__``;
    ``minutes_max`` (group, minute)s are held, and rows that would begin one more are counted as late.

    More than ``label_cardinality_max`` words, and twice what was in use before: those not in use are forgotten.
    """

    settle_ms: int = SPAN_MS + 2_000
    keep_ms: int = 10 * MINUTE_MS
    every_ms: int = 30_000
    lines_max: int = 2_000
    minutes_max: int = 500_000
    label_cardinality_max: int = 200_000


@dataclass(slots=True)
class Marks:
    """Columns by code of the group. ``revision`` -1: the group has no such minute; ``emitted_ms`` -1: not emitted yet.
    ``since`` is the offset of its first row."""

    since: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    revision: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    emitted_ms: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    dirty: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    final: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def room(self, groups: int) -> None:
        """Have room for so many groups."""
        more = groups - len(self.revision)
        if more > 0:
            for name in Marks.__slots__:
                column = getattr(self, name)
                empty = False if column.dtype == np.bool_ else -1
                setattr(self, name, np.append(column, np.full(more, empty, column.dtype)))

    @property
    def there(self) -> Flags:
        """Which groups have this minute."""
        return self.revision >= 0

    def remapped(self, codes: Ints, groups: int) -> Marks:
        """The same where a group's code is another: ``codes`` by the old one, -1 for groups that are no more."""
        found = Marks()
        found.room(groups)
        old = np.flatnonzero(codes[: len(self.revision)] >= 0)
        for name in Marks.__slots__:
            getattr(found, name)[codes[old]] = getattr(self, name)[old]
        return found


@dataclass(slots=True)
class Minute:
    """A minute of all groups. ``first_offset`` is where its first rows stand."""

    first_offset: int
    marks: Marks = field(default_factory=Marks)
    piles: dict[str, Pile] = field(default_factory=lambda: {name: Pile(_nothing(name)) for name in TABLES})
    packed: dict[str, bytes] = field(default_factory=dict)
    """Of tables that did not change since they were dumped."""

    def add(self, table: str, rows: Rows, lines_max: int) -> None:
        """Keep rows of groups that are there."""
        pile = self.piles[table]
        pile.add(rows)
        self.packed.pop(table, None)
        if pile.waiting >= max(_MERGE_ROWS_MIN, len(pile.base)):
            self.rows(table, lines_max)

    def rows(self, table: str, lines_max: int) -> Rows:
        """All rows of a table, added up by key."""
        pile = self.piles[table]
        if pile.parts and table == "usage":
            pile.base = _limited(pile.all(), lines_max)
        return pile.all()


@dataclass(frozen=True, slots=True)
class EmittedMinute:
    """Groups of a minute that are to be emitted now, with the rows that their bills are made of. Columns by row:
    ``groups`` (codes, rising), ``revision``, ``final``."""

    minute_ms: int
    groups: Ints
    revision: Ints
    final: Flags
    tables: Mapping[str, Rows]
    group_words: Words
    words: Words

    @property
    def version(self) -> Ints:
        """Grows with every row emitted of a bill: with the revision, and once more when it becomes final."""
        found: Ints = 2 * self.revision + self.final
        return found


def _nothing(table: str) -> Rows:
    key, amounts = TABLES[table]
    return none(1 + len(key), len(amounts))


def _limited(rows: Rows, lines_max: int) -> Rows:
    """Rows (in the order in which their keys came) where keys of a group beyond the limit are ``__other__``."""
    if len(rows) <= lines_max or np.bincount(rows.keys[0]).max() <= lines_max:
        return rows
    order = np.argsort(rows.keys[0], kind="stable")
    group = rows.keys[0][order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.searchsorted(group, group)
    beyond = rank >= lines_max
    named = zip(("group", *USAGE_KEY), rows.keys, strict=True)
    keys = tuple(np.where(beyond, _OTHER_CODE, key) if name in _OTHER_KEYS else key for name, key in named)
    return added_up(Rows(keys, rows.amounts))


def _words_with_other() -> Words:
    found = Words()
    assert found.code(OTHER.encode()) == _OTHER_CODE
    return found


@dataclass(slots=True)
class MinuteBuffer:
    """The state of one partition. ``passed_ms`` is the greatest event time said to have passed; ``held`` counts
    (group, minute)s."""

    limits: BufferLimits = field(default_factory=BufferLimits)
    minutes: dict[int, Minute] = field(default_factory=dict)
    groups: Words = field(default_factory=Words)
    words: Words = field(default_factory=_words_with_other)
    passed_ms: int = -1
    held: int = 0
    words_kept: int = 0
    lost_to_ms: int = 0
    """Minutes before it lost rows: no bill of them is made from the rest."""

    def lose(self, beyond_ms: int, to_ms: int) -> None:
        """Rows of every minute so far, of those up to ``beyond_ms`` later, and of those to ``to_ms`` may be gone. These
        minutes are forgotten: their bills stay as they were emitted, rows that still come for them are late."""
        newest_ms = max(*self.minutes, 0, self.passed_ms - self.passed_ms % MINUTE_MS)
        if newest_ms or to_ms:
            self.lost_to_ms = max(self.lost_to_ms, MINUTE_MS + max(newest_ms + beyond_ms, to_ms - to_ms % MINUTE_MS))
        self.minutes.clear()
        self.held = 0

    def add(self, table: str, offsets: Ints, minutes: Ints, rows: Rows) -> int:
        """Add rows, in the order of their offsets; how many came too late and were not taken. ``open`` goes before."""
        late = 0
        for minute_ms in np.unique(minutes).tolist():
            minute, which = self.minutes.get(minute_ms), np.flatnonzero(minutes == minute_ms)
            if minute is None:
                late += len(which)
                continue
            there = minute.marks.there[rows.keys[0][which]]
            late += int(np.count_nonzero(~there))
            self._take(minute, table, offsets[which[there]], rows.of(which[there]))
        return late

    def _take(self, minute: Minute, table: str, offsets: Ints, rows: Rows) -> None:
        if not len(rows):
            return
        groups = rows.keys[0]
        np.maximum.at(minute.marks.revision, groups, offsets)
        minute.marks.dirty[groups] = True
        minute.add(table, rows, self.limits.lines_max)

    def restore(self, table: str, offsets: Ints, minutes: Ints, rows: Rows) -> None:
        """Add rows that were taken before this state was dumped: marks, which were dumped with it, stay as they are."""
        for minute_ms in np.unique(minutes).tolist():
            minute = self.minutes.get(minute_ms)
            if minute is None:
                continue
            minute.marks.room(len(self.groups))
            which = np.flatnonzero(minutes == minute_ms)
            groups = rows.keys[0][which]
            kept = which[minute.marks.there[groups] & (offsets[which] >= minute.marks.since[groups])]
            if len(kept):
                minute.add(table, rows.of(kept), self.limits.lines_max)

    def open(self, offsets: Ints, minutes: Ints, groups: Ints) -> None:
        """Begin the (group, minute)s of these rows that are not there yet, first come, while the limit allows."""
        new = self._new_pairs(offsets, minutes, groups)
        for offset, minute_ms, _, group in new[: max(0, self.limits.minutes_max - self.held)]:
            minute = self.minutes.get(minute_ms)
            if minute is None:
                minute = self.minutes[minute_ms] = Minute(offset)
                minute.marks.room(len(self.groups))
            minute.marks.since[group] = minute.marks.revision[group] = offset
            self.held += 1

    def _new_pairs(self, offsets: Ints, minutes: Ints, groups: Ints) -> list[tuple[int, int, bytes, int]]:
        """(offset, minute, name, code) of each pair that is to be begun, in the order in which they came."""
        found: list[tuple[int, int, bytes, int]] = []
        for minute_ms in np.unique(minutes).tolist():
            which = np.flatnonzero(minutes == minute_ms)
            minute = self.minutes.get(minute_ms)
            if minute is not None:
                minute.marks.room(len(self.groups))
                which = which[~minute.marks.there[groups[which]]]
            elif self._forgotten(minute_ms):
                continue
            first = np.full(len(self.groups), _NEVER)
            np.minimum.at(first, groups[which], offsets[which])
            new = np.flatnonzero(first < _NEVER).tolist()
            found += [(int(first[group]), minute_ms, self.groups.list[group] or b"", group) for group in new]
        return sorted(found)

    def _forgotten(self, minute_ms: int) -> bool:
        return (
            minute_ms < self.lost_to_ms
            or self.passed_ms >= minute_ms + MINUTE_MS + self.limits.settle_ms + self.limits.keep_ms
        )

    def _settled(self, minute_ms: int) -> bool:
        return self.passed_ms >= minute_ms + MINUTE_MS + self.limits.settle_ms

    def pass_to(self, passed_ms: int) -> list[EmittedMinute]:
        """Event time has passed to here: what is to be emitted, oldest first, then forget what is old enough.

        Everything is emitted before it is forgotten, and never with a revision that was emitted already unless it
        became final by this."""
        self.passed_ms = max(self.passed_ms, passed_ms)
        emitted = [one for minute_ms in sorted(self.minutes) if (one := self._emit(minute_ms)) is not None]
        for minute_ms in [one for one in self.minutes if self._forgotten(one)]:
            self.held -= int(np.count_nonzero(self.minutes.pop(minute_ms).marks.there))
        return emitted

    def _emit(self, minute_ms: int) -> EmittedMinute | None:
        if self.passed_ms < minute_ms + MINUTE_MS:
            return None
        minute = self.minutes[minute_ms]
        marks, due = minute.marks, self._due(minute_ms)
        groups = np.flatnonzero(due)
        if not len(groups):
            return None
        marks.dirty[groups], marks.emitted_ms[groups] = False, self.passed_ms
        marks.final[groups] = self._settled(minute_ms)
        kept = {name: pile.of(due) for name, pile in minute.piles.items()}
        kept["usage"] = _limited(kept["usage"], self.limits.lines_max)
        return EmittedMinute(
            minute_ms, groups, marks.revision[groups], marks.final[groups], kept, self.groups, self.words
        )

    def _due(self, minute_ms: int) -> Flags:
        marks = self.minutes[minute_ms].marks
        waited = (marks.emitted_ms < 0) | (self.passed_ms >= marks.emitted_ms + self.limits.every_ms)
        due = (marks.dirty | (marks.emitted_ms < 0)) & (waited | self._forgotten(minute_ms))
        if self._settled(minute_ms):
            due = due | ~marks.final
        found: Flags = due & marks.there
        return found

    def forget_words(self) -> None:
        """Forget words that stand in no row any more, when there are many. All others get new codes: call it while
        nobody keeps any."""
        if len(self.words) + len(self.groups) <= max(self.limits.label_cardinality_max, 2 * self.words_kept):
            return
        words, groups, codes_of = _words_with_other(), Words(), _Codes(self)
        word_codes, group_codes = codes_of.words(words), codes_of.groups(groups)
        for minute in self.minutes.values():
            minute.marks = minute.marks.remapped(group_codes, len(groups))
            for table, pile in minute.piles.items():
                pile.base = _recoded(table, minute.rows(table, self.limits.lines_max), word_codes, group_codes)
        self.words, self.groups, self.words_kept = words, groups, len(words) + len(groups)

    def dump_sums(self) -> Iterator[tuple[int, str, bytes]]:
        """(minute, table, bytes) of all sums, equal for equal states."""
        for minute_ms, minute in sorted(self.minutes.items()):
            for table, (key, _) in TABLES.items():
                data = minute.packed.get(table)
                if data is None:
                    rows = minute.rows(table, self.limits.lines_max)
                    data = minute.packed[table] = pack(rows, key, self.groups, self.words)
                yield minute_ms, table, data

    def load_sums(self, minute_ms: int, table: str, data: bytes) -> None:
        """Take the sums that were dumped of a minute that is there."""
        key, amounts = TABLES[table]
        minute = self.minutes[minute_ms]
        minute.piles[table] = Pile(unpack(data, key, len(amounts), self.groups, self.words))
        minute.packed[table] = data
        minute.marks.room(len(self.groups))

    def dump(self) -> dict[str, Any]:
        """The marks as plain values, equal for equal states; without the sums."""
        names = sorted({self.groups.list[group] or b"" for minute in self.minutes.values() for group in _codes(minute)})
        places = {name: place for place, name in enumerate(names)}
        minutes = []
        for minute_ms in sorted(self.minutes):
            minute = self.minutes[minute_ms]
            marks, codes = minute.marks, _codes(minute)
            codes.sort(key=lambda group: self.groups.list[group] or b"")
            flags = (marks.dirty + 2 * marks.final)[codes].tolist()
            columns = [getattr(marks, name)[codes].tolist() for name in ("since", "revision", "emitted_ms")]
            of = [places[self.groups.list[group] or b""] for group in codes]
            minutes.append([minute_ms, minute.first_offset, of, *columns, flags])
        found = {"passed_ms": self.passed_ms, "groups": [name.decode("latin-1") for name in names], "minutes": minutes}
        return found | ({"lost_to_ms": self.lost_to_ms} if self.lost_to_ms else {})

    @classmethod
    def load(cls, found: Mapping[str, Any], limits: BufferLimits) -> MinuteBuffer:
        """The buffer that was dumped, without its sums."""
        buffer = cls(limits, passed_ms=found["passed_ms"], lost_to_ms=found.get("lost_to_ms", 0))
        codes = np.array([buffer.groups.code(name.encode("latin-1")) for name in found["groups"]], dtype=np.int64)
        for minute_ms, first_offset, of, since, revision, emitted_ms, flags in found["minutes"]:
            minute = buffer.minutes[minute_ms] = Minute(first_offset)
            marks, groups, bits = minute.marks, codes[of], np.array(flags, dtype=np.int64)
            marks.room(len(buffer.groups))
            marks.since[groups], marks.revision[groups], marks.emitted_ms[groups] = since, revision, emitted_ms
            marks.dirty[groups], marks.final[groups] = bits & 1 > 0, bits & 2 > 0
            buffer.held += len(groups)
        return buffer

    @property
    def first_offset(self) -> int | None:
        """Where the first rows stand of all that are held; None: nothing is held."""
        return min((minute.first_offset for minute in self.minutes.values()), default=None)


def _codes(minute: Minute) -> list[int]:
    found: list[int] = np.flatnonzero(minute.marks.there).tolist()
    return found


class _Codes:
    """What of a buffer's words is in use."""

    def __init__(self, buffer: MinuteBuffer) -> None:
        self._buffer = buffer

    def words(self, to: Words) -> Ints:
        """New codes by old ones; those in use are added to ``to``."""
        buffer = self._buffer
        used = [
            np.unique(key)
            for minute in buffer.minutes.values()
            for table, (names, _) in TABLES.items()
            for name, key in zip(names, minute.rows(table, buffer.limits.lines_max).keys[1:], strict=True)
            if name not in NUMBERS
        ]
        return moved(buffer.words, to, used)

    def groups(self, to: Words) -> Ints:
        """The same of groups."""
        return moved(self._buffer.groups, to, [np.array(_codes(one)) for one in self._buffer.minutes.values()])


def _recoded(table: str, rows: Rows, words: Ints, groups: Ints) -> Rows:
    names = TABLES[table][0]
    keys = [key if name in NUMBERS else words[key] for name, key in zip(names, rows.keys[1:], strict=True)]
    return Rows((groups[rows.keys[0]], *keys), rows.amounts)
