"""Rejected records: the query that shows them and the way back for those that can be read now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer

from fleetpulse.database import Database
from runtime.config import Config
from schemas.errors import ConfigError
from schemas.verdicts import REASONS

SHOW = """
SELECT fromUnixTimestamp64Milli(appended_ms, 'UTC') AS appended, topic, partition, offset, row, reason, source, events,
    bytes_total, detail, substring(bytes, 1, 80) AS begins
FROM rejected FINAL
WHERE {reason:String} = '' OR reason = {reason:String}
ORDER BY appended_ms DESC, topic, partition, offset, row
LIMIT {limit:UInt32}
"""

WHOLE = """
SELECT topic, partition, offset, schema, content_type, base64Encode(bytes) AS value
FROM rejected FINAL
WHERE reason = {reason:String} AND row IS NULL AND length(bytes) = bytes_total AND schema IS NOT NULL
ORDER BY appended_ms, topic, partition, offset
LIMIT {limit:UInt32}
"""


async def replay(config: Config, reason: str, limit: int, *, dry_run: bool) -> str:
    """Send whole rejected records again without their old identity; returns a sentence about what was done.

    Records that were cut at the limit for kept bytes, and single events of readable records, are left alone: their
    neighbours have been counted already.
    """
    if reason not in REASONS:
        raise ConfigError("REASON", reason, f"must be one of {', '.join(REASONS)}")
    rows = Database(config.reading).sql(WHOLE, {"reason": reason, "limit": limit}).records()
    if dry_run or not rows:
        return f"{len(rows)} whole records were rejected as {reason} and can be sent again"
    await _send(config, rows)
    return f"sent {len(rows)} records again; they stand outside the guarantee (no identity)"


async def _send(config: Config, rows: Sequence[dict[str, Any]]) -> None:
    from base64 import b64decode

    producer = AIOKafkaProducer(**config.kafka.client_settings(), acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for row in rows:
            headers = [("schema", row["schema"].encode()), ("content-type", row["content_type"].encode())]
            await producer.send_and_wait(row["topic"], b64decode(row["value"]), partition=row["partition"], headers=headers)
    finally:
        await producer.stop()
