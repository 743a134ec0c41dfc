"""Spend as it changes: bills of ``costs``, of which each newer version replaces the one before, become differences.

What is kept are the bills that may be revised: those of the last ``KEEP_MS`` before the newest of the same upstream
partition. The cost job revises a minute for 25 minutes of event time; whether an older bill was counted before is no
longer known, so it is left out and counted as such. Differences are exact whole numbers, and each
stands on ``window.finals`` once: it is sent with the offset in ``costs`` in one transaction. A minute stays packed for
snapshots until it changes, because others wait while one is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson
import zstandard

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_FINALS
from schemas.limits import DAY_MS, MINUTE_MS
from schemas.rows.finals import PassedOnHeaders
from schemas.rows.spend import SPEND
from stream_jobs import parts as parts_of
from stream_jobs.finals.bills import Bill, Name, Payer, bills_of, source_of
from stream_jobs.step import Commit, Stat, Step

KEEP_MS = 30 * MINUTE_MS
ROWS_MAX = 20_000
"""Of a record."""
VERSION = 1
_LEVEL = 1
_MAGIC = b"FPS1"


@dataclass(frozen=True, slots=True)
class Counted:
    """The version of a bill that counts, and its amounts."""

    version: int
    spend: dict[Payer, int]


@dataclass(slots=True)
class Minute:
    """Bills by name, and what a snapshot holds of them since they changed last."""

    bills: dict[Name, Counted] = field(default_factory=dict)
    packed: bytes | None = field(default=None, compare=False, repr=False)


Minutes = dict[int, Minute]
"""By their start in ms."""


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


class SpendStep(Step[Spending, Differences]):
    """Passes on by how much the bills of ``costs`` changed."""

    name = "finals"

    def __init__(self, target: str = WINDOW_FINALS) -> None:
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
                    _count(minutes.setdefault(bill.minute_ms, Minute()), bill, changes)
            changes.at_ms = max(changes.at_ms, record.timestamp_ms)
            _forget(minutes)

    def reject(self, state: Spending, record: Record, detail: str, changes: Differences) -> None:
        changes.left_out += 1

    def rows(self, state: Spending, changes: Differences, commit: Commit) -> list[Output]:
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

    def stats(self, state: Spending, changes: Differences) -> Iterable[Stat]:
        return (Stat("spend_left_out", changes.left_out, {"partition": state.partition}),)

    def dump(self, state: Spending) -> list[bytes]:
        minutes = [
            (source, minute_ms, _packed(minute))
            for source, found in sorted(state.minutes.items())
            for minute_ms, minute in sorted(found.items())
        ]
        index = [[source, minute_ms, len(packed)] for source, minute_ms, packed in minutes]
        head = {"version": VERSION, "topic": state.topic, "partition": state.partition, "minutes": index}
        return parts_of.cut(_MAGIC, orjson.dumps(head), (packed for _, _, packed in minutes))

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Spending:
        opening, data = parts_of.joined(_MAGIC, parts)
        head = orjson.loads(opening)
        parts_of.check_head(head, VERSION, topic=topic, partition=partition)
        state = Spending(topic, partition)
        pieces = parts_of.pieces_of(data, (length for _, _, length in head["minutes"]))
        for (source, minute_ms, _), packed in zip(head["minutes"], pieces, strict=True):
            state.minutes.setdefault(source, {})[minute_ms] = _unpacked(packed)
        return state


def _packed(minute: Minute) -> bytes:
    if minute.packed is None:
        order = sorted(minute.bills.items(), key=lambda item: _order(item[0]))
        rows = [[*name, one.version, _listed(one.spend)] for name, one in order]
        minute.packed = zstandard.ZstdCompressor(level=_LEVEL).compress(orjson.dumps(rows))
    return minute.packed


def _unpacked(packed: bytes) -> Minute:
    bills: dict[Name, Counted] = {}
    for use, owner, group, version, spend in orjson.loads(zstandard.ZstdDecompressor().decompress(packed)):
        counted = Counted(version, {(tenant, model): amount for tenant, model, amount in spend})
        bills[use, owner, group] = counted
    return Minute(bills, packed)


def _count(minute: Minute, bill: Bill, changes: Differences) -> None:
    """Let the bill take the place of an older version of it."""
    before = minute.bills.get(bill.name)
    if before is not None and before.version >= bill.version:
        return
    day_ms = bill.minute_ms - bill.minute_ms % DAY_MS
    if before is not None:
        changes.add(day_ms, before.spend, -1)
    changes.add(day_ms, bill.spend, 1)
    minute.bills[bill.name], minute.packed = Counted(bill.version, bill.spend), None


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
