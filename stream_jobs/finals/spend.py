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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from schemas.codec import native
from schemas.codec.block import Block, Labels, Lists, Numbers
from schemas.codec.build import block_from_rows
from schemas.contract.record import Output, Record, unknown_schema
from schemas.contract.topics import WINDOW_FINALS
from schemas.errors import ContractError, RejectedError
from schemas.limits import DAY_MS, MINUTE_MS
from schemas.rows.costs import COSTS
from schemas.rows.finals import PassedOnHeaders
from schemas.rows.spend import SPEND
from stream_jobs import parts as parts_of
from stream_jobs.parts import compress, decompress
from stream_jobs.step import Commit, Stat, Step

Payer = tuple[str | None, str | None]
"""Tenant and model; null: no tenant in particular, no model."""
Name = tuple[str | None, ...]
"""Use, owner and placement group."""
Ints = npt.NDArray[np.int64]


class Bill(NamedTuple):
    """``spend`` in nano-dollars, parts without a price left out; no amount is 0."""

    minute_ms: int
    name: Name
    version: int
    spend: dict[Payer, int]


def source_of(record: Record) -> int:
    """The partition of ``window.partials`` that the bills of a record come from. Raises ``ContractError``."""
    found = dict(record.headers)
    try:
        schema = found["schema"].decode("ascii", "replace")
        if schema != COSTS.schema:
            raise unknown_schema(record.where, schema, [COSTS.schema])
        return int(found["source-partition"])
    except (KeyError, ValueError) as error:
        raise ContractError(f"{record.where}: a header is missing or no number: {error}; who wrote it?") from error


def bills_of(record: Record) -> Iterator[Bill]:
    """The bills of a record, in their order. Raises ``ContractError`` for a value that holds none."""
    try:
        block = native.decode(record.value or b"", COSTS.fields)
    except RejectedError as error:
        raise ContractError(f"{record.where} cannot be read as {COSTS.schema}: {error}") from error
    spends = _spends(block)
    minutes, versions = (block.numbers(name).values.tolist() for name in ("minute_ms", "version"))
    names = zip(*(_labels(block, name) for name in ("use", "owner", "placement_group")), strict=True)
    for row, (minute_ms, version, name) in enumerate(zip(minutes, versions, names, strict=True)):
        yield Bill(minute_ms, name, version, spends[row])


def _spends(block: Block) -> list[dict[Payer, int]]:
    """Of each row what every payer pays: sums of whole numbers."""
    tenants, models, costs = (block.columns[f"part_{name}"] for name in ("tenant", "model", "cost_nusd"))
    assert isinstance(tenants, Lists)
    assert isinstance(models, Lists)
    assert isinstance(costs, Lists)
    assert isinstance(tenants.items, Labels)
    assert isinstance(models.items, Labels)
    assert isinstance(costs.items, Numbers)
    found: list[dict[Payer, int]] = [{} for _ in range(block.rows)]
    row = np.repeat(np.arange(block.rows, dtype=np.int64), np.diff(costs.ends, prepend=0))
    width, height = len(models.items.words), len(tenants.items.words)
    key = (row * height + tenants.items.codes) * width + models.items.codes
    priced = costs.items.values != 0
    if costs.items.known is not None:
        priced &= costs.items.known
    keys, sums = _added(key[priced], costs.items.values[priced])
    tenant_words, model_words = _texts(tenants.items.words), _texts(models.items.words)
    for one, amount in zip(keys.tolist(), sums.tolist(), strict=True):
        payer = tenant_words[one // width % height], model_words[one % width]
        if amount:
            found[one // width // height][payer] = amount
    return found


def _added(keys: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Each key once, rising, with the sum of its amounts."""
    if not len(keys):
        return keys, amounts
    order = np.argsort(keys, kind="stable")
    rising = keys[order]
    first = np.flatnonzero(np.diff(rising, prepend=rising[0] - 1))
    return rising[first], np.add.reduceat(amounts[order], first)


def _labels(block: Block, name: str) -> list[str | None]:
    column = block.labels(name)
    words = _texts(column.words)
    return [words[code] for code in column.codes.tolist()]


def _texts(words: list[bytes | None]) -> list[str | None]:
    return [None if word is None else word.decode() for word in words]


KEEP_MS = 30 * MINUTE_MS
ROWS_MAX = 20_000
"""Of a record."""
VERSION = 1
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
        minute.packed = compress(orjson.dumps(rows))
    return minute.packed


def _unpacked(packed: bytes) -> Minute:
    bills: dict[Name, Counted] = {}
    for use, owner, group, version, spend in orjson.loads(decompress(packed)):
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
