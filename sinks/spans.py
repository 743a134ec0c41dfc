"""The last span of a trace: a sampled record from its appending to the database's word that its rows are stored.

It goes on in the trace that the record's headers carry: that of the edge's batch for raw events, that of a job's commit
for what jobs emitted. Position in the log, and for a batch of the edge its identity, are what its rows are found by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runtime.trace_context import LINKS_MAX, Attribute, Span, TraceContext, context_of, span_within
from runtime.tracing import Tracer
from schemas.contract.record import Record
from schemas.ddl.stored import RAW
from sinks.landing import JSON_TABLES, TABLES_OF, Landing


class Followed(NamedTuple):
    """A sampled record, the span that sent it, and the table its rows go to."""

    record: Record
    sent_by: TraceContext
    table: str


def followed(records: Sequence[Record]) -> list[Followed]:
    """The sampled among these records that have rows of their own."""
    found = ((record, context_of(record.headers)) for record in records)
    return [
        Followed(record, context, table)
        for record, context in found
        if context is not None and (table := _table_of(record)) is not None
    ]


def _table_of(record: Record) -> str | None:
    """None for a record without rows: one that only carries progress, or is no topic of the sink's."""
    if record.value is None or not record.value:
        return None
    if record.topic in RAW:
        return RAW[record.topic].name
    header = dict(record.headers).get("schema") or b""
    table = JSON_TABLES.get(record.topic) or TABLES_OF.get(record.topic, {}).get(header.decode("ascii", "replace"))
    return None if table is None else table.name


def end_landed(tracer: Tracer, group: str, records: Sequence[Record], landing: Landing, now_ms: int) -> None:
    """All of ``landing``, which ``records`` became, is stored. ``LINKS_MAX`` records a table have a span; records
    beyond are counted. Those whose table got no row have none."""
    rows = {insert.table: insert.rows for insert in landing.inserts}
    links: Counter[str] = Counter()
    for one in followed(records):
        if one.table not in rows:
            continue
        links[one.table] += 1
        if links[one.table] <= LINKS_MAX:
            tracer.end(_span(one, group, rows[one.table], now_ms))
    tracer.drop(sum(max(0, number - LINKS_MAX) for number in links.values()))


def _span(one: Followed, group: str, rows: int, now_ms: int) -> Span:
    record = one.record
    context = span_within(one.sent_by.trace_id, "land", group, record.topic, record.partition, record.offset)
    attributes: dict[str, Attribute] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "land",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
        "messaging.consumer.group.name": group,
        "db.system.name": "clickhouse",
        "db.operation.name": "INSERT",
        "db.collection.name": one.table,
        "db.operation.batch.size": rows,
        **_identity(dict(record.headers)),
    }
    name = f"land {one.table}"
    return Span(name, "consumer", context, one.sent_by, record.timestamp_ms, now_ms, (one.sent_by,), attributes)


def _identity(headers: Mapping[str, bytes | None]) -> dict[str, Attribute]:
    """Who sent the record, as text: what a third party wrote there need be no number."""
    found = {name: headers.get(name) or b"" for name in ("source", "boot", "seq")}
    return {f"fleetpulse.{name}": value.decode("ascii", "replace") for name, value in found.items() if value}
