"""Show a topic's events as JSON lines, whatever format they travel in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from runtime.config import KafkaConfig
from schemas.errors import ConfigError, FleetpulseError, RejectedError
from schemas.events import BY_SCHEMA
from schemas.fields import Field
from schemas.tables import BY_TABLE_SCHEMA

_QUIET_MS = 1_500


async def tail_topic(kafka: KafkaConfig, topic: str, records: int | None) -> None:
    """Print events from the beginning; ``records`` bounds the records read, None follows until Ctrl-C."""
    consumer = AIOKafkaConsumer(
        **kafka.client_settings(),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        await _assign(consumer, topic)
        await _print(consumer, records)
    finally:
        await consumer.stop()


async def _assign(consumer: Any, topic: str) -> None:
    if topic not in await consumer.topics():
        raise ConfigError("TOPIC", topic, "must be a topic of this cluster; `fleetpulse migrate` makes the contract's")
    await consumer._client.force_metadata_update()
    partitions = consumer.partitions_for_topic(topic) or {0}
    consumer.assign([TopicPartition(topic, partition) for partition in sorted(partitions)])
    await consumer.seek_to_beginning()


async def _print(consumer: Any, records: int | None) -> None:
    seen = 0
    while records is None or seen < records:
        fetched = await consumer.getmany(timeout_ms=_QUIET_MS, max_records=records - seen if records else None)
        if not fetched and records is not None:
            return
        for batch in fetched.values():
            for record in batch:
                seen += 1
                for line in lines_of(record):
                    sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def lines_of(record: ConsumerRecord) -> Iterator[bytes]:
    """The events of a record as JSON lines; a record nobody can read gives one line that says why."""
    headers = dict(record.headers)
    place = {"_partition": record.partition, "_offset": record.offset}
    try:
        rows = _rows(headers, record.value or b"")
    except FleetpulseError as error:
        yield orjson.dumps(place | {"_unreadable": str(error), "_bytes": len(record.value or b"")})
        return
    for row in rows or [{"_headers": {name: value.decode("utf-8", "replace") for name, value in record.headers}}]:
        yield orjson.dumps(place | row, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _rows(headers: dict[str, bytes], value: bytes) -> Sequence[dict[str, Any]]:
    from schemas.wire import decode

    from schemas.build import rows_of

    if not value:
        return []
    schema = headers.get("schema", b"").decode("ascii", "replace")
    fields = fields_of(schema)
    return rows_of(fields, decode(headers.get("content-type", b"").decode("ascii", "replace"), value, fields))


def fields_of(schema: str) -> tuple[Field, ...]:
    """The field table behind a schema header; ``RejectedError`` for one nobody knows."""
    known = BY_SCHEMA.get(schema) or BY_TABLE_SCHEMA.get(schema)
    if known is None:
        raise RejectedError("unknown_schema", f"schema {schema!r} is not in the contract")
    return known.fields
