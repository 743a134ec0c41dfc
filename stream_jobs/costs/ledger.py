"""What is known of each minute so far: sums that rows may reach in any order, and which minutes must be told again.

A *group* is what must be billed together: the engines that share any GPU, else a host. Of every (group, minute) the
ledger keeps four tables of sums, each added to by key; null plus a number is the number, so any order of rows gives
the same sums. A minute is told when its own end has passed (provisional), again when it changed, but not more often
than every ``every_ms`` of event time, and as final when the longest request that can still touch it must have ended,
``settle_ms`` after its end. Rows that come later still change it for ``keep_ms``, and it is told again, final as
before, with a greater revision: the source offset of the last change. Then its sums are forgotten. What comes after
that would make a bill of a part of the minute: it is not taken, but listed (``late``), for a rerate to mend.

All of it follows from the rows and from the event time that the caller says has passed: no clock. What is told between
depends on how often the caller asks; the last row told of a minute does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from schemas.grouping import OTHER
from schemas.limits import MINUTE_MS
from stream_jobs.costs.usage import SPAN_MS

Key: TypeAlias = tuple[str | None, ...]
Amounts: TypeAlias = tuple[int | None, ...]
Owner: TypeAlias = tuple[str, str]
"""``(use, name)``: ``("engine", engine id)``, or ``("idle" or "training", host)`` for GPUs without an engine."""

GPU_KEY = ("use", "owner", "gpu_uuid", "gpu_model", "region", "host")
USAGE_KEY = ("use", "owner", "tenant", "model", "slo_class", "status")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gpu": (GPU_KEY, ("gpu_ms", "energy_mj")),
    "share": (("use", "owner", "gpu_uuid"), ("weight",)),
    "startup": (("use", "owner"), ("startup_ms",)),
    "usage": (USAGE_KEY, ("requests", "prefill_tokens", "cached_tokens", "decode_tokens", "kv_token_ms")),
}
"""Key and amounts by table. ``share`` rows exist for GPUs with several holders alone: slices, memory or SM time."""

_OTHER_FROM = 2
"""Of a usage key beyond the limit all but the owner falls into ``__other__``."""


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """``lines_max`` usage lines of a group and minute keep their names, later ones are added to ``__other__``;
    ``minutes_max`` (group, minute)s are held, and a row that would begin one more is listed as late."""

    settle_ms: int = SPAN_MS + 2_000
    keep_ms: int = 10 * MINUTE_MS
    every_ms: int = 30_000
    lines_max: int = 2_000
    minutes_max: int = 500_000


@dataclass(slots=True)
class Minute:
    """Sums of a (group, minute): by table, by key. ``told_ms``: event time when it was told last; None: not yet."""

    tables: dict[str, dict[Key, list[int | None]]] = field(default_factory=lambda: {name: {} for name in TABLES})
    revision: int = -1
    dirty: bool = True
    final: bool = False
    told_ms: int | None = None

    def add(self, table: str, key: Key, amounts: Amounts, lines_max: int) -> None:
        """Add to the key's sums; null adds nothing and stays null while nothing was known."""
        sums = self.tables[table]
        held = sums.get(key)
        if held is None and table == "usage" and len(sums) >= lines_max:
            key = (*key[:_OTHER_FROM], *(OTHER for _ in key[_OTHER_FROM:-1]), key[-1])
            held = sums.get(key)
        if held is None:
            sums[key] = list(amounts)
            return
        for i, amount in enumerate(amounts):
            if amount is not None:
                held[i] = amount + (held[i] or 0)


@dataclass(frozen=True, slots=True)
class Told:
    """A (group, minute) that is to be told now; ``minute`` is the ledger's own: read it before more rows are added."""

    group: str
    minute_ms: int
    revision: int
    final: bool
    minute: Minute

    @property
    def version(self) -> int:
        """Grows with every row told of this minute: with the revision, and once more when it becomes final."""
        return 2 * self.revision + self.final


@dataclass(slots=True)
class Ledger:
    """The state of one partition. ``passed_ms`` is the greatest event time said to have passed."""

    limits: LedgerLimits = field(default_factory=LedgerLimits)
    minutes: dict[int, dict[str, Minute]] = field(default_factory=dict)
    waiting: set[tuple[int, str]] = field(default_factory=set)
    """Minutes and groups that are not final yet, or have changed since they were told."""
    passed_ms: int = -1
    held: int = 0
    late_rows: int = 0

    def add(self, offset: int, table: str, group: str, minute_ms: int, key: Key, amounts: Amounts) -> bool:
        """Add a row of the record at ``offset``; False when it came too late and was not taken: list it."""
        assert minute_ms % MINUTE_MS == 0
        minute = self._minute(group, minute_ms)
        if minute is None:
            self.late_rows += 1
            return False
        minute.add(table, key, amounts, self.limits.lines_max)
        if offset > minute.revision:
            minute.revision = offset
        if not minute.dirty or minute.final:
            minute.dirty = True
            self.waiting.add((minute_ms, group))
        return True

    def _minute(self, group: str, minute_ms: int) -> Minute | None:
        groups = self.minutes.get(minute_ms)
        found = None if groups is None else groups.get(group)
        if found is None and not self._forgotten(minute_ms) and self.held < self.limits.minutes_max:
            found = self.minutes.setdefault(minute_ms, {})[group] = Minute()
            self.held += 1
            self.waiting.add((minute_ms, group))
        return found

    def _forgotten(self, minute_ms: int) -> bool:
        return self.passed_ms >= minute_ms + MINUTE_MS + self.limits.settle_ms + self.limits.keep_ms

    def pass_to(self, passed_ms: int) -> list[Told]:
        """Event time has passed to here: the minutes to be told, oldest first, then forget those that are old enough.

        Everything is told before it is forgotten, and never with a revision that was told already unless it became
        final by this.
        """
        self.passed_ms = max(self.passed_ms, passed_ms)
        told = [self._tell(*one) for one in sorted(self.waiting) if self._due(*one)]
        self.waiting -= {(one.minute_ms, one.group) for one in told if one.final}
        for minute_ms in [one for one in self.minutes if self._forgotten(one)]:
            self.held -= len(self.minutes.pop(minute_ms))
        return told

    def _due(self, minute_ms: int, group: str) -> bool:
        if self.passed_ms < minute_ms + MINUTE_MS:
            return False
        minute = self.minutes[minute_ms][group]
        if self._settled(minute_ms) and not minute.final:
            return True
        waited = minute.told_ms is None or self.passed_ms >= minute.told_ms + self.limits.every_ms
        return minute.dirty and (waited or self._forgotten(minute_ms))

    def _settled(self, minute_ms: int) -> bool:
        return self.passed_ms >= minute_ms + MINUTE_MS + self.limits.settle_ms

    def _tell(self, minute_ms: int, group: str) -> Told:
        minute = self.minutes[minute_ms][group]
        minute.dirty, minute.told_ms, minute.final = False, self.passed_ms, self._settled(minute_ms)
        return Told(group, minute_ms, minute.revision, minute.final, minute)

    def dump(self) -> bytes:
        """The state; equal bytes for equal states, whatever the order in which rows came."""
        minutes = [
            [minute_ms, group, _dumped(self.minutes[minute_ms][group])]
            for minute_ms in sorted(self.minutes)
            for group in sorted(self.minutes[minute_ms])
        ]
        return orjson.dumps([1, self.passed_ms, self.late_rows, minutes])


def load(data: bytes, limits: LedgerLimits | None = None) -> Ledger:
    """The ledger that was dumped."""
    version, passed_ms, late_rows, minutes = orjson.loads(data)
    assert version == 1, version
    ledger = Ledger(limits or LedgerLimits(), passed_ms=passed_ms, late_rows=late_rows, held=len(minutes))
    for minute_ms, group, dumped in minutes:
        minute = ledger.minutes.setdefault(minute_ms, {})[group] = _loaded(dumped)
        if minute.dirty or not minute.final:
            ledger.waiting.add((minute_ms, group))
    return ledger


def in_order(table: dict[Key, list[int | None]]) -> list[tuple[Key, list[int | None]]]:
    """Rows of a table sorted by key, null before any text."""
    return sorted(table.items(), key=lambda row: [(word is not None, word or "") for word in row[0]])


def _dumped(minute: Minute) -> list[Any]:
    tables = [in_order(minute.tables[name]) for name in TABLES]
    return [minute.revision, minute.dirty, minute.final, minute.told_ms, tables]


def _loaded(dumped: list[Any]) -> Minute:
    revision, dirty, final, told_ms, tables = dumped
    named = zip(TABLES, tables, strict=True)
    return Minute({name: {tuple(k): v for k, v in rows} for name, rows in named}, revision, dirty, final, told_ms)
