"""From records to inserts, pure: blocks of a table are merged into one and every row gets its identity.

Each derived topic has tables of its own, whatever a record's header says: who may write to one writes no rows of
another's. Topics that jobs alone write (partials, rejected, costs) are ours: a record that cannot be read there is a
defect, or of a newer release, and stops the sink. What cannot be read of topics that others may write (``books``, which
every edge does, ``alerts``, ``alert.commands``) is counted and left out, lest one record stops the sink of all.
Source topics are judged by the same admission as the windows job, so that both always agree on every event.
Rows whose time to live is over are counted, not inserted: the database would drop them unseen. ``now_ms`` is therefore
the time by its clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct

import numpy as np
import numpy.typing as npt

from schemas.codec import native, native_walk, native_words
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.codec.select import select
from schemas.contract.admission import Reject, admit, read_headers
from schemas.contract.headers import RecordHeaders
from schemas.contract.record import Record, unknown_schema
from schemas.contract.rights import EDGE_WRITES
from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    COSTS_TOPIC,
    REJECTED_TOPIC,
    WINDOW_PARTIALS,
)
from schemas.contract.verdicts import Verdict
from schemas.ddl.merging import LEVELS
from schemas.ddl.stored import LANDED, LOG_PREFIX, RAW, VERDICT_WORDS, kept_of
from schemas.errors import ContractError, rejection
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Event, Field
from schemas.limits import DAY_MS, MINUTE_MS, Limits
from schemas.rows.costs import COSTS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import (
    ACTIONS,
    ALERT_HISTORY,
    BOOKS,
    BY_TABLE_SCHEMA,
    EXEMPLARS,
    PARTIALS,
    PRODUCER_BOOKS,
    REJECTED,
    Table,
)
from schemas.rows.usage import USAGE
from sinks.alert_rows import block_of

Bucket = tuple[str, int]
"""(topic, start in ms) of a bucket of the finest rollup level whose rows changed: a source topic, books or costs."""

_ROLLED = {
    **{table.schema: (topic, "window_ms") for topic, table in PARTIALS.items()},
    BOOKS.schema: (BOOKS_TOPIC, "committed_ms"),
    COSTS.schema: (COSTS_TOPIC, "minute_ms"),
}
"""By schema what has rollups: the topic that names them, and the column of the time."""
JSON_TABLES = {ALERTS_TOPIC: ALERT_HISTORY, ALERT_COMMANDS: ACTIONS}
"""Tables of topics whose records are JSON, a row each."""
TABLES_OF: Mapping[str, Mapping[str, Table]] = {
    topic: {table.schema: table for table in tables}
    for topic, tables in {
        WINDOW_PARTIALS: (*PARTIALS.values(), EXEMPLARS, USAGE, SHARES),
        BOOKS_TOPIC: (BOOKS, PRODUCER_BOOKS),
        REJECTED_TOPIC: (REJECTED,),
        COSTS_TOPIC: (COSTS,),
        **{topic: (table,) for topic, table in JSON_TABLES.items()},
    }.items()
}
"""By derived topic the tables that its records may go to, by schema."""
EDGE_TOPICS = frozenset(EDGE_WRITES) & frozenset(TABLES_OF)
"""Derived topics that an edge may write, too."""
AHEAD_MS_MAX = DAY_MS
"""Books of later than this after now, and after their record, are rejected: each day has a partition, of which an
insert may have so many."""
BEHIND_MS_MAX = 30 * DAY_MS
"""So far the database's clock is taken to be behind where a record is later than now. Its time is what its sender says:
brokers before Kafka 4 take one of the year 9999."""
_OF_PARTIALS = frozenset(table.schema for table in PARTIALS.values())
_TEXT_BYTES_ANY = int(np.iinfo(np.int64).max)
Indexes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Insert:
    """One insert: ``pieces`` together are one Native block of these columns."""

    table: str
    columns: tuple[str, ...]
    pieces: Sequence[native.Piece]
    rows: int

    @property
    def size(self) -> int:
        """Bytes of the block."""
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class Landing:
    """What a batch of records becomes: inserts, the buckets they touch, how many rows came past their time, and how
    many records of topics that others may write cannot be read; of the first of these where it stands, and why."""

    inserts: tuple[Insert, ...] = ()
    dirty: frozenset[Bucket] = frozenset()
    expired: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0
    first_unreadable: str = field(default="", compare=False)


def together(parts: Sequence[Landing]) -> Landing:
    """All of these as one; each is of other tables."""
    expired = {table: rows for part in parts for table, rows in part.expired.items()}
    dirty = frozenset(bucket for part in parts for bucket in part.dirty)
    inserts = tuple(insert for part in parts for insert in part.inserts)
    first = next((part.first_unreadable for part in parts if part.first_unreadable), "")
    return Landing(inserts, dirty, expired, sum(part.unreadable for part in parts), first)


def land_derived(records: Sequence[Record], log_ids: Mapping[str, str], now_ms: int, limits: Limits) -> Landing:
    """Inserts for records of derived topics. Raises ``ContractError`` for a record that is not ours in a topic that
    jobs alone write."""
    groups: dict[str, list[Record]] = {}
    strange: list[str] = []
    for record in records:
        try:
            table = JSON_TABLES.get(record.topic) or _table_of(record)
        except ContractError as error:
            strange.append(_else_raised(record, error))
            continue
        if record.value:  # else progress without rows, or a tombstone
            groups.setdefault(table.schema, []).append(record)
    lands = [_land(BY_TABLE_SCHEMA[schema], found, log_ids, now_ms, limits) for schema, found in groups.items()]
    return together([_left_out(strange), *lands])


def _else_raised(record: Record, error: ContractError) -> str:
    """Why the record is left out. Raises the error where only jobs write the topic."""
    if record.topic not in EDGE_TOPICS:
        raise error
    return str(error)


def _land(table: Table, records: Sequence[Record], log_ids: Mapping[str, str], now_ms: int, limits: Limits) -> Landing:
    block, record_of, row_of, strange = _decoded(table, records)
    if table is BOOKS and block.rows:
        appended_ms = np.array([record.timestamp_ms for record in records], np.int64)[record_of]
        ahead = _times(block, "committed_ms") > np.clip(appended_ms, now_ms, now_ms + BEHIND_MS_MAX) + AHEAD_MS_MAX
        strange += [f"{records[n].where} is of a day to come" for n in np.unique(record_of[ahead]).tolist()]
        block, record_of, row_of = select(block, ~ahead), record_of[~ahead], row_of[~ahead]
    if block.rows == 0:
        return _left_out(strange)
    stored = LANDED[table.schema]
    if table is not PRODUCER_BOOKS:
        block = Block(block.rows, {**block.columns, **_places(table, records, log_ids, record_of, row_of)})
    block, expired = _unexpired(table.name, block, now_ms, limits)
    rolled = _ROLLED.get(table.schema)
    dirty = _buckets(*rolled, block) if rolled is not None else frozenset()
    return together([_landing(stored.name, stored.fields, block, dirty, expired), _left_out(strange)])


def _left_out(strange: Sequence[str]) -> Landing:
    """Nothing but the count of records that are left out for these reasons."""
    return Landing(unreadable=len(strange), first_unreadable=next(iter(strange), ""))


def _decoded(table: Table, records: Sequence[Record]) -> tuple[Block, Indexes, Indexes, list[str]]:
    """All rows of these records, which record and row each came from, and of each record that is left out why."""
    if table in JSON_TABLES.values():
        block, kept = block_of(table, records)
        each, known = np.array(kept, np.int32), set(kept)
        strange = [f"{one.where} cannot be read as {table.schema}" for n, one in enumerate(records) if n not in known]
        return block, each, np.zeros_like(each), strange
    if any(field.kind.item for field in table.fields):
        return (*_read_each(table, records), [])
    values, strange = [record.value or b"" for record in records], list[str]()
    measured = native_walk.measure(table.fields, values)
    if (measured.rows < 0).any():
        for place in np.flatnonzero(measured.rows < 0).tolist():
            try:
                values[place] = _canonical(table, records[place])
            except ContractError as error:
                strange.append(_else_raised(records[place], error))
                values[place] = b""  # no block, and no rows
        measured = native_walk.measure(table.fields, values)
    if not (measured.rows > 0).any():
        none = np.empty(0, np.int32)
        return Block(0, {}), none, none, strange
    filled = native_walk.fill(measured, _dictionaries(table.schema), _TEXT_BYTES_ANY)
    return filled.block, filled.record_of, filled.row_of, strange


def _read_each(table: Table, records: Sequence[Record]) -> tuple[Block, Indexes, Indexes]:
    """Rows of records that hold lists: few and large, so they are read one by one."""
    blocks = [_read(table, record) for record in records]
    counts = [block.rows for block in blocks]
    record_of = np.repeat(np.arange(len(blocks), dtype=np.int32), counts)
    row_of = np.concatenate([np.arange(rows, dtype=np.int32) for rows in counts])
    return native.concat(table.fields, blocks), record_of, row_of


def _canonical(table: Table, record: Record) -> bytes:
    """The record's rows as we would write them: columns may come in another order or be more than we know."""
    return native.encode(table.fields, _read(table, record))


def _read(table: Table, record: Record) -> Block:
    try:
        return native.decode(record.value or b"", table.fields)
    except MemoryError:
        raise  # says nothing about the record
    except Exception as error:  # a defect of ours costs what one in the record would
        raise ContractError(f"{record.where} cannot be read as {table.schema}: {rejection(error)}") from error


@lru_cache(maxsize=64)
def _dictionaries(schema: str) -> native_words.Dictionaries:
    return native_words.Dictionaries(BY_TABLE_SCHEMA[schema].fields, native_words.any_word)


def _table_of(record: Record) -> Table:
    schema = (dict(record.headers).get("schema") or b"").decode("ascii", "replace")  # a header's value may be null
    tables = TABLES_OF[record.topic]
    table = tables.get(schema)
    if table is None and schema in BY_TABLE_SCHEMA:
        raise ContractError(f"{record.where} has schema {schema!r}, which is none of this topic; who wrote it?")
    if table is None:
        raise unknown_schema(record.where, schema, tables)
    return table


def _buckets(topic: str, time: str, block: Block) -> frozenset[Bucket]:
    if block.rows == 0:
        return frozenset()
    finest = LEVELS[0]
    return frozenset((topic, finest.bucket_of(window)) for window in np.unique(_times(block, time)).tolist())


def _places(
    table: Table, records: Sequence[Record], log_ids: Mapping[str, str], record_of: Indexes, row_of: Indexes
) -> dict[str, Column]:
    topics = sorted({record.topic for record in records})
    if missing := [topic for topic in topics if topic not in log_ids]:
        raise ContractError(f"topic {missing[0]} has no log id; run `fleetpulse migrate`")
    ids = np.array([1 + topics.index(record.topic) for record in records], np.uint8)
    places: dict[str, Column] = {
        "log_id": Labels(ids[record_of], [None, *(log_ids[topic].encode() for topic in topics)]),
        "log_partition": _each([record.partition for record in records], "<u4", record_of),
        "log_offset": _each([record.offset for record in records], "<u8", record_of),
        "log_row": Numbers(row_of.astype("<u4")),
    }
    if table.schema in _OF_PARTIALS:
        partitions, ends = zip(*map(_commit, records), strict=True)
        places["source_partition"] = _each(partitions, "<u4", record_of)
        places["source_offset_to"] = _each(ends, "<u8", record_of)
    return places


def _commit(record: Record) -> tuple[int, int]:
    """The source partition of the record's rows, and the first offset after the commit that made them."""
    headers = dict(record.headers)
    try:
        return int(headers["source-partition"]), int(headers["offsets"].partition(b"-")[2])
    except (KeyError, ValueError) as error:
        raise ContractError(f"{record.where} has no headers source-partition and offsets; who wrote it?") from error


def _each(numbers: Sequence[int], dtype: str, record_of: Indexes) -> Numbers:
    """A column with a record's number on each of its rows."""
    return Numbers(np.array(numbers, dtype)[record_of])


def _times(block: Block, column: str) -> npt.NDArray[np.int64]:
    times = block.columns[column]
    assert isinstance(times, Numbers)
    return times.values


def _unexpired(table: str, block: Block, now_ms: int, limits: Limits) -> tuple[Block, int]:
    """The rows that the database would keep, and the number of the others."""
    column, kept_ms = kept_of(table, limits)
    kept = select(block, _times(block, column) > now_ms - kept_ms)
    return kept, block.rows - kept.rows


def _landing(table: str, fields: tuple[Field, ...], block: Block, dirty: frozenset[Bucket], expired: int) -> Landing:
    counted = {table: expired} if expired else {}
    if block.rows == 0:
        return Landing((), dirty, counted)
    insert = Insert(table, tuple(one.name for one in fields), native.pieces(fields, block), block.rows)
    return Landing((insert,), dirty, counted)


def land_raw(topic: str, records: Sequence[Record], log_ids: Mapping[str, str], now_ms: int, limits: Limits) -> Landing:
    """One insert of all events of one source topic that were not rejected."""
    event, table = BY_TOPIC[topic], RAW[topic]
    heads = read_headers(event, records, limits)
    senders = _in_table_order(event, records, heads, f"{LOG_PREFIX}{log_ids.get(topic, topic)}")
    kept = [records[place] for *_, place in senders]
    readable = [head for *_, place in senders if not isinstance(head := heads[place], Reject)]
    admitted = admit(event, kept, readable, limits)
    if admitted.block.rows == 0:
        return Landing()
    identity: dict[str, Column] = {
        **_identities(kept, senders, admitted.record_of),
        "row": Numbers(admitted.row_of.astype("<u4")),
        "verdict": Labels(np.minimum(admitted.verdicts + 1, len(VERDICT_WORDS)), _VERDICTS),
    }
    block = Block(admitted.block.rows, {**admitted.block.columns, **identity})
    block = select(block, admitted.verdicts != Verdict.REJECTED)
    block, expired = _unexpired(table.name, block, now_ms, limits)
    return _landing(table.name, table.fields, block, frozenset(), expired)


_VERDICTS: list[bytes | None] = [None, *(word.encode() for word in VERDICT_WORDS)]


_Sender = tuple[int, str, int, int, int]
"""A record by what its table is sorted by (minute, source, boot, seq), and its place among the records given."""
_FIRST_MS = Struct("<q").unpack_from


def _in_table_order(
    event: Event, records: Sequence[Record], heads: Sequence[RecordHeaders | Reject], log_source: str
) -> list[_Sender]:
    """Readable records, sorted as their table is: rows that come in order the server need not sort, a quarter of what
    an insert costs it. One without an identity is known by its place in the log."""
    before = 1 + len(native.column_prefix(event.fields[0]))
    found: list[_Sender] = []
    for place, (record, head) in enumerate(zip(records, heads, strict=True)):
        if isinstance(head, Reject):
            continue
        minute, who = _minute(record.value or b"", before), head.identity
        if who is not None:
            found.append((minute, who.source, who.boot, who.seq, place))
        else:
            found.append((minute, log_source, record.partition, record.offset, place))
    found.sort()
    return found


def _minute(value: bytes, before: int) -> int:
    """The minute of the first event of a canonical block, which stands ``before`` bytes and the number of rows behind
    its start; of any other value a number that means nothing, and costs no more than sorting."""
    at = before + (1 if value[1:2] < b"\x80" else 2)
    return int(_FIRST_MS(value, at)[0]) // MINUTE_MS if len(value) >= at + 8 else 0


def _identities(records: Sequence[Record], senders: Sequence[_Sender], of: Indexes) -> dict[str, Column]:
    """Who sent each row, and where it stood in the log."""
    words: dict[str, int] = {}
    codes = [words.setdefault(source, len(words)) for _, source, _, _, _ in senders]
    return {
        "source": Labels(np.array(codes, np.uint32)[of] + np.uint32(1), [None, *(word.encode() for word in words)]),
        "boot": _each([boot for _, _, boot, _, _ in senders], "<u8", of),
        "seq": _each([seq for _, _, _, seq, _ in senders], "<u8", of),
        "appended_ms": _each([record.timestamp_ms for record in records], "<i8", of),
        "partition": _each([record.partition for record in records], "<u4", of),
        "offset": _each([record.offset for record in records], "<u8", of),
    }
