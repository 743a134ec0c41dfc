"""Holes: offsets that a reset of a job's partition left out (``fleetpulse jobs reset``), as the job's books say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fleetpulse.sql.database import Database
from schemas.contract.verdicts import MISSING
from schemas.ddl.stored import RAW

WINDOWS_JOB = "windows"
OF_WINDOWS = f"NOT (verdict = {MISSING} AND job != '{WINDOWS_JOB}')"
"""Lines of books that cover offsets of a source topic: all but holes of other jobs that read it too."""
_HOLES = f"""
SELECT ifNull(toString(job), '') AS j, ifNull(toString(topic), '') AS t, partition, offset_from, offset_to
FROM books FINAL WHERE verdict = {MISSING} ORDER BY j, t, partition, offset_from
"""
_IN_HOLES = """
SELECT r.source, r.boot, count()
FROM (SELECT toString(source) AS source, toUInt64(boot) AS boot, toUInt64(seq) AS seq FROM %s FINAL WHERE %s) AS r
INNER JOIN lines AS l ON l.source = r.source AND l.boot = r.boot
WHERE r.seq < l.seq_to OR l.seq_to = 0
GROUP BY r.source, r.boot
"""


_KEPT = """
SELECT uniqExact(partition, offset) FROM
(
    SELECT toUInt32(partition) AS partition, toUInt64(offset) AS offset FROM %s WHERE %s
    UNION ALL
    SELECT toUInt32(partition), toUInt64(offset) FROM rejected WHERE topic = {topic:String} AND (%s)
)
"""


class Hole(NamedTuple):
    """Offsets ``[first, end)`` that a reset of a job's partition left out, as its books say."""

    job: str
    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.job}: topic {self.topic}, partition {self.partition}, offsets {self.first}-{self.end}"


def read_holes(database: Database) -> list[Hole]:
    """All of them, in order."""
    return [Hole(job, topic, *map(int, rest)) for job, topic, *rest in database.sql(_HOLES).rows]


def within(holes: Sequence[Hole], topic: str) -> str:
    """An expression of ``partition`` and ``offset``: whether the windows job left the row out."""
    found = [
        f"partition = {hole.partition} AND offset >= {hole.first} AND offset < {hole.end}"
        for hole in holes
        if (hole.job, hole.topic) == (WINDOWS_JOB, topic)
    ]
    return " OR ".join(f"({one})" for one in found) or "0"


def gone_offsets(database: Database, holes: Sequence[Hole], *, raw: bool) -> dict[str, int]:
    """By topic, how many offsets in holes have no row in any table: of those, nobody knows what they held."""
    found: dict[str, int] = {}
    for hole in holes:
        if hole.job == WINDOWS_JOB:
            found[hole.topic] = found.get(hole.topic, 0) + hole.end - hole.first
    for topic in found if raw else ():
        where = within(holes, topic)
        found[topic] -= int(database.sql(_KEPT % (RAW[topic].name, where, where), {"topic": topic}).rows[0][0])
    return found


def missing_events(
    database: Database, produced: Sequence[Mapping[str, Any]], holes: Sequence[Hole]
) -> dict[tuple[str, int, str], int]:
    """Events in holes that the producers' lines count, by sender."""
    found: dict[tuple[str, int, str], int] = {}
    for topic in sorted({hole.topic for hole in holes if hole.job == WINDOWS_JOB}):
        lines = [(line["source"], line["boot"], line["seq_to"]) for line in produced if line["topic"] == topic]
        if not lines:
            continue
        rows = database.beside(
            _IN_HOLES % (RAW[topic].name, within(holes, topic)),
            {},
            "lines",
            {"source": "String", "boot": "UInt64", "seq_to": "UInt64"},
            lines,
        ).rows
        found |= {(source, int(boot), topic): int(events) for source, boot, events in rows}
    return found
