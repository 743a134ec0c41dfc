"""Spend as it changes: bills of ``costs``, of which each newer version replaces the one before, become differences.

What is kept are the bills that may be told again: those of the last ``KEEP_MS`` before the newest of the same upstream
partition. The cost job tells a minute again for 25 minutes of event time; a bill that is older than what is kept cannot
be told from one that was counted, so it is left out and counted as such. Differences are exact whole numbers, and each
stands on ``window.finals`` once: it is sent with the offset in ``costs`` in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson
import zstandard

from schemas import native
from schemas.build import block_from_rows
from schemas.errors import ContractError
from schemas.finals import PassedOnHeaders
from schemas.limits import DAY_MS, MINUTE_MS
from schemas.record import Output, Record
from schemas.spend import SPEND
from schemas.topics import WINDOW_FINALS
from stream_jobs.finals.bills import Bill, Name, Payer, bills_of, source_of
from stream_jobs.step import Commit

KEEP_MS = 40 * MINUTE_MS
ROWS_MAX = 20_000
"""Of a record."""
VERSION = 1
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Counted:
    """Of a bill that was told: the version that counts, and what it says."""

    version: int
    spend: dict[Payer, int]


Minutes = dict[int, dict[Name, Counted]]
"""Bills by minute and name."""


@dataclass(slots=True)
class Spending:
    """The state of a partition of ``costs``: bills by upstream partition."""

    topic: str
    partition: int
    minutes: dict[int, Minutes] = field(default_factory=dict)


@dataclass(slots=True)
class Differences:
    """Since the last commit: by day and payer what is to be added. ``left_out`` counts bills and records."""

    spend: dict[tuple[int, Payer], int] = field(default_factory=dict)
    at_ms: int = 0
    left_out: int = 0

    def add(self, day_ms: int, spend: dict[Payer, int], sign: int) -> None:
        """Count a bill in (1) or out (-1)."""
        for payer, amount in spend.items():
            key = day_ms, payer
            self.spend[key] = self.spend.get(key, 0) + sign * amount


def _nobody(partition: int, left_out: int) -> None:
    """Figures that nobody wants."""


class SpendStep:
    """Passes on by how much the bills of ``costs`` changed. ``observe`` gets partition and bills left out, at every
    commit."""

    name = "finals"

    def __init__(self, observe: Callable[[int, int], None] = _nobody, target: str = WINDOW_FINALS) -> None:
        self._observe = observe
        self._target = target

    def new(self, topic: str, partition: int) -> Spending:
        return Spending(topic, partition)

    def changes(self) -> Differences:
        return Differences()

    def fold(self, state: Spending, records: Sequence[Record], changes: Differences) -> None:
        for record in records:
            minutes = state.minutes.setdefault(source_of(record), {})
            newest_ms = max(minutes, default=0)
            for bill in bills_of(record):
                if bill.minute_ms <= newest_ms - KEEP_MS:
                    changes.left_out += 1
                else:
                    _count(minutes.setdefault(bill.minute_ms, {}), bill, changes)
            changes.at_ms = max(changes.at_ms, record.timestamp_ms)
            _forget(minutes)

    def reject(self, state: Spending, record: Record, detail: str, changes: Differences) -> None:
        changes.left_out += 1

    def due(self, state: Spending, changes: Differences) -> bool:
        return False

    def rows(self, state: Spending, changes: Differences, commit: Commit) -> list[Output]:
        self._observe(state.partition, changes.left_out)
        return [
            Output(
                self._target,
                0,
                None,
                native.encode(SPEND.fields, block_from_rows(SPEND.fields, rows)),
                PassedOnHeaders(SPEND.schema, changes.at_ms, len(rows)).encode(),
            )
            for rows in _pieces(list(_rows(changes)))
        ]

    def dump(self, state: Spending) -> list[bytes]:
        bills = [
            [source, minute_ms, *name, one.version, _listed(one.spend)]
            for source, minutes in sorted(state.minutes.items())
            for minute_ms, named in sorted(minutes.items())
            for name, one in sorted(named.items(), key=lambda item: _order(item[0]))
        ]
        found = {"version": VERSION, "topic": state.topic, "partition": state.partition, "bills": bills}
        return [zstandard.ZstdCompressor(level=_LEVEL).compress(orjson.dumps(found))]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Spending:
        found = orjson.loads(zstandard.ZstdDecompressor().decompress(b"".join(parts)))
        if (found["version"], found["topic"], found["partition"]) != (VERSION, topic, partition):
            raise ContractError(f"snapshot of {found['topic']}/{found['partition']} is not ours")
        state = Spending(topic, partition)
        for source, minute_ms, use, owner, group, version, spend in found["bills"]:
            counted = Counted(version, {(tenant, model): amount for tenant, model, amount in spend})
            state.minutes.setdefault(source, {}).setdefault(minute_ms, {})[use, owner, group] = counted
        return state


def _count(named: dict[Name, Counted], bill: Bill, changes: Differences) -> None:
    """Let the bill take the place of an older version of it."""
    before = named.get(bill.name)
    if before is not None and before.version >= bill.version:
        return
    day_ms = bill.minute_ms - bill.minute_ms % DAY_MS
    if before is not None:
        changes.add(day_ms, before.spend, -1)
    changes.add(day_ms, bill.spend, 1)
    named[bill.name] = Counted(bill.version, bill.spend)


def _forget(minutes: Minutes) -> None:
    old_ms = max(minutes, default=0) - KEEP_MS
    for minute_ms in [one for one in minutes if one <= old_ms]:
        del minutes[minute_ms]


def _rows(changes: Differences) -> Iterator[dict[str, object]]:
    for day_ms, payer in sorted(changes.spend, key=lambda key: (key[0], _order(key[1]))):
        amount, (tenant, model) = changes.spend[day_ms, payer], payer
        if amount:
            yield {"day_ms": day_ms, "cost_nusd": amount, "tenant": tenant, "model": model}


def _pieces(rows: list[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    for start in range(0, len(rows), ROWS_MAX):
        yield rows[start : start + ROWS_MAX]


def _listed(spend: dict[Payer, int]) -> list[list[object]]:
    return [[*payer, amount] for payer, amount in sorted(spend.items(), key=lambda item: _order(item[0]))]


def _order(words: Sequence[str | None]) -> list[tuple[bool, str]]:
    """Null first."""
    return [(word is not None, word or "") for word in words]
