"""Records of derived and source topics as the sink's tests need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import NATIVE, Identity, encode_headers
from schemas.contract.record import Record
from schemas.ddl.stored import LANDED, RAW
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Field
from schemas.rows.tables import PARTIALS, Table
from sinks.landing import Insert

NOW_MS = 1_800_000_000_000
LOG_IDS = {"window.partials": "aaaa", "books": "bbbb", "rejected": "cccc", "llm.requests": "dddd", "costs": "eeee"}
LOG_IDS["alert.commands"] = "ffff"
Row = dict[str, Any]
_ZERO = {"Int64": 0, "UInt32": 0, "UInt64": 0, "String": "", "Map(Int16, UInt64)": {}}


def full(fields: Sequence[Field], row: Mapping[str, Any]) -> Row:
    """The row with 0, empty or null wherever it says nothing."""
    return {field.name: row.get(field.name, _ZERO.get(field.kind.value)) for field in fields}


def derived(table: Table, rows: Sequence[Mapping[str, Any]], topic: str, offset: int, **place: int) -> Record:
    """A record that a job writes."""
    headers = (
        ("schema", table.schema.encode()),
        ("source-topic", b"llm.requests"),
        ("source-partition", b"%d" % place.get("source_partition", 0)),
        ("offsets", b"%d-%d" % (offset, place.get("source_offset_to", offset + 1))),
    )
    block = block_from_rows(table.fields, [full(table.fields, row) for row in rows])
    value = native.encode(table.fields, block) if rows else b""
    return Record(topic, place.get("partition", 0), offset, NOW_MS, None, value, headers)


def partials(rows: Sequence[Mapping[str, Any]], offset: int, topic: str = "llm.requests", **place: int) -> Record:
    """Partial rows; grouping set and window are told by the rows."""
    return derived(PARTIALS[topic], rows, "window.partials", offset, **place)


def requests(at_ms: Sequence[int], offset: int, identity: Identity | None = None, partition: int = 0) -> Record:
    """A batch of requests that ended at these times."""
    event = BY_TOPIC["llm.requests"]
    rows = [
        {
            "host": "h",
            "model": "m",
            "status": "ok",
            "origin": "measured",
            "itl_bins": {},
            "request_id": f"r{at}",
            "at_ms": at,
        }
        for at in at_ms
    ]
    value = native.encode(event.fields, block_from_rows(event.fields, rows))
    headers: tuple[tuple[str, bytes], ...] = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()))
    if identity is not None:
        headers = encode_headers(event.schema, NATIVE, identity, len(rows))
    return Record("llm.requests", partition, offset, NOW_MS, None, value, headers)


def rows_landed(insert: Insert) -> list[Row]:
    """The rows that an insert carries."""
    tables = {table.name: table for table in (*LANDED.values(), *RAW.values())}
    fields = tables[insert.table].fields
    assert insert.columns == tuple(field.name for field in fields)
    rows = rows_of(fields, native.decode(b"".join(insert.pieces), fields))
    assert len(rows) == insert.rows
    return rows
