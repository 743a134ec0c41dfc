"""Tables as they stand in ClickHouse: the columns of a wire table and the identity that the sink adds.

A row of a derived topic is known by where it stood in its log: (log id, partition, offset, row). A raw event is known
by its sender's own identity (source, boot, seq, row); without one, by its place in the log, written in the same four
columns: ``log-<log id>``, partition, offset, row. Of several copies of a raw event the first in the log stands.
"""

from __future__ import annotations

from schemas.events.event_types import EVENTS
from schemas.fields import Event, Field, Kind, Role
from schemas.limits import Limits
from schemas.rows.tables import PARTIALS, PRODUCER_BOOKS, TABLES, Table


def _number(name: str, kind: Kind, meaning: str, unit: str = "") -> Field:
    return Field(name, kind, Role.ATTRIBUTE, unit, meaning)


LOG_IDENTITY = (
    Field("log_id", Kind.LABEL, Role.ATTRIBUTE, "", "id of the topic's log, made with the topic", required=True),
    _number("log_partition", Kind.UINT32, "partition of the derived topic"),
    _number("log_offset", Kind.UINT64, "offset in the derived topic"),
    _number("log_row", Kind.UINT32, "row within the record's block"),
)
"""Identity of a row that came over one of our own topics."""

SOURCE = (
    _number("source_partition", Kind.UINT32, "partition of the source topic the events came from"),
    Field(
        "source_offset_to",
        Kind.UINT64,
        Role.ATTRIBUTE,
        "",
        "first source offset after the commit that made the row; 0 where 0.1.0 inserted it",
        may_be_absent=True,
    ),
)
"""Where the events of a partial row came from."""

RAW_IDENTITY = (
    Field(
        "source", Kind.LABEL, Role.ATTRIBUTE, "", "spool id of the sender; log-<log id> without identity", required=True
    ),
    _number("boot", Kind.UINT64, "boot of the sender; the partition without identity"),
    _number("seq", Kind.UINT64, "number of the record within the boot; the offset without identity"),
    _number("row", Kind.UINT32, "row within the record"),
    _number("appended_ms", Kind.INT64, "append time of the record", "ms"),
    _number("partition", Kind.UINT32, "partition of the source topic"),
    _number("offset", Kind.UINT64, "offset in the source topic"),
    Field("verdict", Kind.LABEL, Role.ATTRIBUTE, "", "accepted, late or future", required=True),
)
"""Identity of a raw event, then when and where it was appended and what became of it."""

LOG_PREFIX = "log-"
"""Begins the ``source`` of raw events that came without an identity."""


_PARTIALS = frozenset(table.name for table in PARTIALS.values())
VERDICT_WORDS = ("accepted", "late", "future")
"""What a raw row's ``verdict`` may read, by ``schemas.contract.verdicts.Verdict``."""


def raw_table(event: Event) -> Table:
    """The table of an event type's raw events, named after its topic (``gpu.samples`` -> ``gpu_samples``)."""
    name = event.topic.replace(".", "_")
    return Table(name, event.schema, f"raw: {event.meaning}", (*event.fields, *RAW_IDENTITY))


def landed(table: Table) -> Table:
    """A table of a derived topic with the identity columns behind its own; partials know their source.

    Producers' books have an identity of their own (source, boot, topic) and keep the greatest of every number.
    """
    if table is PRODUCER_BOOKS:
        return table
    extra = (*SOURCE, *LOG_IDENTITY) if table.name in _PARTIALS else LOG_IDENTITY
    return Table(table.name, table.schema, table.meaning, (*table.fields, *extra))


RAW = {event.topic: raw_table(event) for event in EVENTS}
"""Raw table by source topic."""

LANDED = {table.schema: landed(table) for table in TABLES}
"""Table of a derived record by its ``schema`` header."""


def kept_of(table: str, limits: Limits) -> tuple[str, int]:
    """The time column of a table and how long (ms) its rows are kept after it."""
    if table in _PARTIALS:
        return "window_ms", limits.partials_ttl_ms
    return {
        "books": ("committed_ms", limits.partials_ttl_ms),
        "rejected": ("appended_ms", limits.partials_ttl_ms),
        "producer_books": ("at_ms", limits.rollup_ttl_ms),
        "exemplars": ("window_ms", limits.raw_ttl_ms),
        "alerts": ("at_ms", limits.rollup_ttl_ms),
        "actions": ("at_ms", limits.rollup_ttl_ms),
        "token_costs": ("minute_ms", limits.costs_ttl_ms),
        "usage": ("window_ms", limits.partials_ttl_ms),
        "gpu_shares": ("window_ms", limits.partials_ttl_ms),
    }.get(table, ("appended_ms", limits.raw_ttl_ms))
