"""Rejected records: the query that shows them and the way back for those that can be read now.

Sent again are whole records of which every byte was kept, as records without identity: they count, outside the
guarantee. Left alone are records cut at ``rejected_bytes_kept_max``, single events of readable records (their
neighbours count already), and records that say no schema or format. Events keep their time; those older than
``allowed_lateness_ms`` by now are booked as late. What was sent again is noted in the data folder, so that a second run
of the command does not count it twice; from a folder that has noted nothing, a reason that was replayed before is
refused. A replay that is rejected again is a new row of its own.
"""

from __future__ import annotations

import contextlib
import os
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetpulse.sql.database import Database
from runtime.config import Config
from runtime.contract_record import check_deployment
from runtime.file_lock import alone
from runtime.kafka_clients import open_producer
from schemas.contract.topics import BY_NAME
from schemas.contract.verdicts import REASONS
from schemas.errors import ConfigError, FleetpulseError

JOURNAL_NAME = "replayed"

SHOW = """
SELECT formatDateTime(fromUnixTimestamp64Milli(appended_ms, 'UTC'), '%Y-%m-%d %H:%i:%S') AS time, topic, partition,
    offset, row, reason, detail, source, events, appended_ms, schema, content_type, bytes_total,
    base64Encode(bytes) AS bytes
FROM rejected FINAL
WHERE {reason:String} = '' OR reason = {reason:String}
ORDER BY appended_ms DESC, topic, partition, offset DESC, row DESC
LIMIT {limit:UInt32}
"""

_POSITION = "concat(log_id, '/', toString(log_partition), '/', toString(log_offset), '/', toString(log_row))"
_IS_WHOLE = """row IS NULL AND bytes_total > 0 AND length(bytes) = bytes_total
    AND ifNull(schema, '') != '' AND ifNull(content_type, '') != ''"""

WHOLE = f"""
SELECT {_POSITION} AS position,
    topic, partition, schema, content_type,
    base64Encode(if(position IN (SELECT position FROM before), '', bytes)) AS value
FROM rejected FINAL
WHERE reason = {{reason:String}} AND {_IS_WHOLE}
ORDER BY appended_ms, topic, partition, offset
LIMIT {{limit:UInt64}}
"""
"""Table ``before``: positions of records that were sent again; their bytes stay where they are."""

COUNTS = f"""
SELECT countIf({_IS_WHOLE} AND {_POSITION} NOT IN (SELECT position FROM before)) AS whole,
    countIf(row IS NOT NULL) AS single, countIf(row IS NULL AND length(bytes) < bytes_total) AS cut,
    countIf(row IS NULL AND length(bytes) = bytes_total AND bytes_total > 0
        AND (ifNull(schema, '') = '' OR ifNull(content_type, '') = '')) AS unnamed,
    countIf(row IS NULL AND bytes_total = 0) AS empty
FROM rejected FINAL
WHERE reason = {{reason:String}}
"""
"""Of one reason: whole records that were not sent again yet (table ``before`` as above), and what is left alone."""


RUNS = """
SELECT count() AS runs, argMax(done_by, at_ms) AS who FROM actions FINAL
WHERE action = 'run' AND startsWith(about, {run:String})
"""
"""How often this was run, and who did it last."""


def check_reason(reason: str, key: str) -> str:
    """The reason; ``ConfigError`` when it is none of the closed set."""
    if reason not in REASONS:
        raise ConfigError(key, reason, f"must be one of {', '.join(REASONS)}")
    return reason


def check_memory(config: Config, reason: str) -> None:
    """Raise ``FleetpulseError`` where this reason was replayed before and this data folder has no journal, as that of a
    new container: all of its records would be sent once more."""
    path = config.data_dir / JOURNAL_NAME
    if path.exists():
        return
    with contextlib.closing(Database(config.reading)) as database:
        (found,) = database.sql(RUNS, {"run": f"rejected replay {reason} "}).records()
    if found["runs"]:
        raise FleetpulseError(
            f"{found['who']} replayed this reason before, and {config.data_dir} does not know what was sent: once more,"
            f" it counts twice. Run it with that run's data folder, or make an empty file {path} to send all of it"
        )


@dataclass(frozen=True, slots=True)
class Again:
    """A whole rejected record. ``position`` identifies its row in ``rejected``."""

    position: str
    topic: str
    partition: int
    schema: str
    content_type: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay sends and what it leaves alone, in records (``single``: events). ``remaining``: so many could be
    sent, too, beyond the limit."""

    reason: str
    records: tuple[Again, ...]
    remaining: int
    sent_before: int
    cut: int
    single: int
    unnamed: int
    empty: int

    def text(self, *, sent: bool) -> str:
        """One sentence for people."""
        count = len(self.records)
        said = (
            f"sent {count} whole records again, without identity (outside the guarantee)"
            if sent
            else f"{count} whole records were rejected as {self.reason} and can be sent again"
        )
        if self.remaining:
            said += f"; {self.remaining} more remain beyond --limit: run it again for those"
        left = [f"{number} {why}" for number, why in self._left_alone() if number]
        return said + (f"; left alone: {', '.join(left)}" if left else "")

    def as_dict(self, *, sent: bool) -> dict[str, Any]:
        """For JSON: counts only."""
        counts = {name: getattr(self, name) for name in ("sent_before", "cut", "single", "unnamed", "empty")}
        return {
            "reason": self.reason,
            "sent": sent,
            "records": len(self.records),
            "remaining": self.remaining,
            "left_alone": counts,
        }

    def _left_alone(self) -> tuple[tuple[int, str], ...]:
        return (
            (self.sent_before, "sent again before"),
            (self.cut, "of which not all bytes were kept (rejected_bytes_kept_max)"),
            (self.single, "single events of records whose other events count"),
            (self.unnamed, "without a readable schema or content-type"),
            (self.empty, "without any bytes"),
        )


class Journal:
    """The positions of rejected records that were sent again from this data folder, one a line, appended and synced."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def positions(self) -> frozenset[str]:
        """All that were noted; a line cut off by a crash matches nothing."""
        with contextlib.suppress(FileNotFoundError):
            return frozenset(self._path.read_text(encoding="ascii", errors="replace").split("\n"))
        return frozenset()

    def note(self, position: str) -> None:
        """Note one more; it is on disk when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(f"\n{position}\n".encode())  # what a crash cut off before stands on a line of its own
            file.flush()
            os.fsync(file.fileno())


def plan_of(
    reason: str, rows: Sequence[dict[str, Any]], counts: dict[str, Any], before: frozenset[str], limit: int
) -> Plan:
    """The first ``limit`` rows of ``WHOLE`` that were not sent before, with the row of ``COUNTS``; pure."""
    fresh = [row for row in rows if row["position"] not in before]
    records = tuple(
        Again(
            row["position"], row["topic"], row["partition"], row["schema"], row["content_type"], b64decode(row["value"])
        )
        for row in fresh[:limit]
    )
    remaining = max(0, int(counts["whole"]) - len(records))  # more may have been rejected between the two queries
    left_alone = {name: int(counts[name]) for name in ("cut", "single", "unnamed", "empty")}
    return Plan(reason, records, remaining, len(rows) - len(fresh), **left_alone)


async def replay(config: Config, reason: str, limit: int, *, dry_run: bool) -> Plan:
    """Send at most ``limit`` whole rejected records again, oldest first, without their old identity. Raises
    ``FleetpulseError`` where another replay sends from this data folder: both would send the same."""
    check_reason(reason, "REASON")
    path = config.data_dir / JOURNAL_NAME
    if dry_run:
        return _planned(config, reason, limit, Journal(path))
    with alone(path, "another replay is at work in this data folder; run it again when that has ended"):
        journal = Journal(path)
        plan = _planned(config, reason, limit, journal)
        if plan.records:
            await _send_all(config, plan, journal)
        return plan


def _planned(config: Config, reason: str, limit: int, journal: Journal) -> Plan:
    before = journal.positions()
    beside = "before", {"position": "String"}, [("",), *((position,) for position in before)]
    with contextlib.closing(Database(config.reading)) as database:
        rows = database.beside(WHOLE, {"reason": reason, "limit": limit + len(before)}, *beside).records()
        (counts,) = database.beside(COUNTS, {"reason": reason}, *beside).records()
    return plan_of(reason, rows, counts, before, limit)


async def _send_all(config: Config, plan: Plan, journal: Journal) -> None:
    await check_deployment(config.kafka)
    bytes_max = max(topic.record_bytes_max for topic in BY_NAME.values())
    failed = "does not accept records"
    async with open_producer(config.kafka, failed=failed, max_request_size=bytes_max) as producer:
        for record in plan.records:
            await _send(producer, record)
            journal.note(record.position)


async def _send(producer: Any, record: Again) -> None:
    headers = [("schema", record.schema.encode()), ("content-type", record.content_type.encode())]
    await producer.send_and_wait(record.topic, record.value, partition=record.partition, headers=headers)
