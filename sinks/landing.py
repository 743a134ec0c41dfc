"""From records to inserts, pure: blocks of a table are merged into one and every row gets its identity.

Derived topics (partials, books, rejected) are ours: a record that cannot be read there is a defect and stops the sink.
Source topics are judged by the same admission as the windows job, so that both always agree on every event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas import native
from schemas.admission import Reject, admit, read_headers
from schemas.block import Block, Column, Labels, Numbers
from schemas.ddl import EDGE, LEVELS, POSITION, raw_table
from schemas.errors import ContractError
from schemas.events import BY_TOPIC
from schemas.fields import Field
from schemas.headers import RecordHeaders
from schemas.limits import Limits
from schemas.record import Record
from schemas.select import select
from schemas.tables import BY_TABLE_SCHEMA, PARTIALS, Table
from schemas.verdicts import Verdict

Bucket = tuple[str, str, int]
"""(level, source topic, start in ms) of a rollup bucket whose partial rows changed."""

_TOPIC_OF = {table.schema: topic for topic, table in PARTIALS.items()}


@dataclass(frozen=True, slots=True)
class Insert:
    """One insert: ``body`` is one Native block for the columns of ``fields``."""

    table: str
    columns: tuple[str, ...]
    body: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Landing:
    """What a batch of records becomes: inserts, and the rollup buckets they touch."""

    inserts: tuple[Insert, ...]
    dirty: frozenset[Bucket]


def land_derived(records: Sequence[Record], log_ids: Mapping[str, str]) -> Landing:
    """Inserts for records of derived topics. Raises ``ContractError`` for a record that is not ours."""
    blocks: dict[str, list[Block]] = {}
    dirty: set[Bucket] = set()
    for record in records:
        table = _table_of(record)
        if not record.value:
            continue  # progress without rows
        block = native.decode(record.value, table.fields)
        if table.schema in _TOPIC_OF:
            dirty |= _buckets(_TOPIC_OF[table.schema], block)
        blocks.setdefault(table.schema, []).append(_placed(block, record, log_ids))
    inserts = (
        _merged(BY_TABLE_SCHEMA[schema].name, _derived_fields(schema), found) for schema, found in blocks.items()
    )
    return Landing(tuple(inserts), frozenset(dirty))


def _derived_fields(schema: str) -> tuple[Field, ...]:
    return (*BY_TABLE_SCHEMA[schema].fields, *POSITION)


def _table_of(record: Record) -> Table:
    schema = dict(record.headers).get("schema", b"").decode("ascii", "replace")
    table = BY_TABLE_SCHEMA.get(schema)
    if table is None:
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        raise ContractError(f"{where} has schema {schema!r}, which no table of this version takes; upgrade the sink")
    return table


def _buckets(topic: str, block: Block) -> set[Bucket]:
    windows = block.columns["window_ms"]
    assert isinstance(windows, Numbers)
    return {
        (level, topic, bucket)
        for level, width in LEVELS.items()
        for bucket in np.unique(windows.values // width * width).tolist()
    }


def _placed(block: Block, record: Record, log_ids: Mapping[str, str]) -> Block:
    log_id = log_ids.get(record.topic)
    if log_id is None:
        raise ContractError(f"topic {record.topic} has no log id; run `fleetpulse migrate`")
    rows = block.rows
    position: dict[str, Column] = {
        "log_id": Labels(np.ones(rows, np.uint8), [None, log_id.encode()]),
        "log_partition": Numbers(np.full(rows, record.partition, np.uint32)),
        "log_offset": Numbers(np.full(rows, record.offset, np.uint64)),
        "log_row": Numbers(np.arange(rows, dtype=np.uint32)),
    }
    return Block(rows, {**block.columns, **position})


def _merged(table: str, fields: tuple[Field, ...], blocks: Sequence[Block]) -> Insert:
    block = blocks[0] if len(blocks) == 1 else native.concat(fields, blocks)
    return Insert(table, tuple(field.name for field in fields), native.encode(fields, block), block.rows)


def land_raw(topic: str, records: Sequence[Record], log_ids: Mapping[str, str], limits: Limits) -> Landing:
    """One insert of all events of one source topic that were not rejected."""
    event = BY_TOPIC[topic]
    pairs = [
        (record, head)
        for record, head in zip(records, read_headers(event, records, limits), strict=True)
        if not isinstance(head, Reject)
    ]
    kept = [record for record, _ in pairs]
    heads = [head for _, head in pairs]
    admitted = admit(event, kept, heads, limits)
    if admitted.block.rows == 0:
        return Landing((), frozenset())
    of = admitted.record_of
    identity: dict[str, Column] = {
        **_senders(kept, heads, log_ids.get(topic, topic), of),
        "row": Numbers(admitted.row_of.astype(np.uint32)),
        "verdict": Numbers(admitted.verdicts.astype(np.uint32)),
    }
    block = Block(admitted.block.rows, {**admitted.block.columns, **identity})
    block = select(block, admitted.verdicts != Verdict.REJECTED)
    if block.rows == 0:
        return Landing((), frozenset())
    return Landing((_merged(raw_table(event), (*event.fields, *EDGE), [block]),), frozenset())


def _senders(
    records: Sequence[Record], heads: Sequence[RecordHeaders], log_id: str, of: npt.NDArray[np.int32]
) -> dict[str, Column]:
    """Identity columns; a record without one is known by its place in the log."""
    words: dict[bytes | None, int] = {None: 0}
    codes, boots, seqs = [], [], []
    for record, head in zip(records, heads, strict=True):
        who = head.identity
        name = who.source if who else f"log-{log_id}"
        codes.append(words.setdefault(name.encode(), len(words)))
        boots.append(who.boot if who else record.partition)
        seqs.append(who.seq if who else record.offset)
    return {
        "source": Labels(np.array(codes, np.uint32)[of], list(words)),
        "boot": Numbers(np.array(boots, np.uint64)[of]),
        "seq": Numbers(np.array(seqs, np.uint64)[of]),
        "appended_ms": Numbers(np.array([record.timestamp_ms for record in records], np.int64)[of]),
    }
