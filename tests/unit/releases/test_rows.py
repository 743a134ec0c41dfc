"""Rows as the sink of 0.1.0 inserts them are the rows that today's inserts of the same records."""

from __future__ import annotations

import hashlib
from typing import Any

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.topics import ALERTS_TOPIC, COSTS_TOPIC, DERIVED_TOPICS
from schemas.ddl.stored import LANDED, RAW
from schemas.limits import DEFAULT_LIMITS
from sinks.landing import Insert, land_derived, land_raw
from tests.unit.releases.frozen import SOURCES, lines, records

TABLES = {table.name: table for table in (*RAW.values(), *LANDED.values())}


def inserted_today() -> list[Insert]:
    """What the sink makes of all topics, as the generator had 0.1.0's make it."""
    log, now_ms = records(), max(one.timestamp_ms for one in records())
    ids = {one.topic: hashlib.sha256(one.topic.encode()).hexdigest()[:32] for one in log}
    derived = {*(one.name for one in DERIVED_TOPICS), COSTS_TOPIC, ALERTS_TOPIC}
    landings = [
        land_raw(topic, [one for one in log if one.topic == topic], ids, now_ms, DEFAULT_LIMITS) for topic in SOURCES
    ]
    landings.append(land_derived([one for one in log if one.topic in derived], ids, now_ms, DEFAULT_LIMITS))
    return [one for landing in landings for one in landing.inserts]


def test_the_same_rows_are_inserted() -> None:
    """Table by table, in every column that 0.1.0 had: a batch that both insert, one after the other, counts once."""
    written: list[dict[str, Any]] = lines("inserts.jsonl.xz")
    found = inserted_today()

    for ours, theirs in zip(found, written, strict=True):
        assert (ours.table, ours.rows) == (theirs["table"], theirs["rows"])
        fields = [field for field in TABLES[ours.table].fields if field.name in theirs["columns"]]
        rows, expected = (
            rows_of(fields, native.decode(block, fields))
            for block in (b"".join(ours.pieces), bytes.fromhex(theirs["native"]))
        )
        assert rows == expected, ours.table
    assert len(found) > 20


def test_rows_of_0_1_0_are_read_as_rows_of_todays_tables() -> None:
    """Column by column: none that is stored has another name or type."""
    for one in lines("inserts.jsonl.xz"):
        fields = TABLES[one["table"]].fields
        assert native.decode(bytes.fromhex(one["native"]), fields).rows == one["rows"] > 0
        assert one["columns"] == [field.name for field in fields if field.name in one["columns"]]
