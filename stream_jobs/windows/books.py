"""Books of a commit: events by source, boot and verdict, and rows of the rejected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract.headers import Identity
from schemas.contract.verdicts import MISSING, Verdict
from schemas.rows.tables import BOOKS, REJECTED
from stream_jobs.step import Commit

Source = tuple[str | None, int]
"""Spool id and boot of the sender; (None, 0) for a record without identity."""

VERDICTS = len(Verdict)
NO_SOURCE: Source = (None, 0)
Line = tuple[str, int, int, int, int]
"""Source, boot, verdict, records, events; source "" is none."""

Counts = npt.NDArray[np.int64]


class Books:
    """Events and records by (source, boot) and verdict."""

    __slots__ = ("_events", "_places", "_records")

    def __init__(self) -> None:
        self._places: dict[Source, int] = {}
        self._events = np.zeros((16, VERDICTS), np.int64)
        self._records = np.zeros((16, VERDICTS), np.int64)

    def add(self, sources: Sequence[Source], events: Counts, records: Counts) -> None:
        """Book records: ``events[i, verdict]`` and ``records[i, verdict]`` of the i-th one, sent by ``sources[i]``."""
        places = self._places
        lines = np.fromiter((places.setdefault(source, len(places)) for source in sources), np.int64, len(sources))
        while len(places) > len(self._events):
            self._events = np.concatenate((self._events, np.zeros_like(self._events)))
            self._records = np.concatenate((self._records, np.zeros_like(self._records)))
        np.add.at(self._events, lines, events)
        np.add.at(self._records, lines, records)

    def add_one(self, source: Source, verdict: Verdict, events: int) -> None:
        """Book one record whose events all share a fate."""
        counts = np.zeros((2, 1, VERDICTS), np.int64)
        counts[0, 0, verdict], counts[1, 0, verdict] = events, 1
        self.add((source,), counts[0], counts[1])

    def totals(self) -> tuple[dict[Verdict, int], dict[Verdict, int]]:
        """Records and events of all sources by verdict."""
        records, events = (counts.sum(axis=0).tolist() for counts in (self._records, self._events))
        return dict(zip(Verdict, records, strict=True)), dict(zip(Verdict, events, strict=True))

    def lines(self) -> list[Line]:
        """All that is not zero, in rising order; "" is no source."""
        found = []
        for (source, boot), place in self._places.items():
            for verdict in np.flatnonzero(self._records[place]).tolist():
                records, events = int(self._records[place, verdict]), int(self._events[place, verdict])
                found.append((source or "", boot, verdict, records, events))
        return sorted(found)

    def block(self, job: str, commit: Commit) -> Block:
        """Rows of ``schemas.rows.tables.BOOKS``; one of zeros when nothing was booked."""
        return _block(job, commit, self.lines() or [("", 0, int(Verdict.ACCEPTED), 0, 0)])


def missing_block(job: str, commit: Commit) -> Block:
    """The row of ``schemas.rows.tables.BOOKS`` for offsets that a reset leaves out: how many, and no events."""
    return _block(job, commit, [("", 0, MISSING, commit.offset_to - commit.offset_from, 0)])


def _block(job: str, commit: Commit, lines: Sequence[Line]) -> Block:
    names = ("topic", "partition", "offset_from", "offset_to")
    of_commit = {"job": job, "committed_ms": commit.now_ms, **{name: getattr(commit, name) for name in names}}
    rows = [
        {**of_commit, "source": source or None, "boot": boot, "verdict": verdict, "records": records, "events": events}
        for source, boot, verdict, records, events in lines
    ]
    return block_from_rows(BOOKS.fields, rows)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row of ``schemas.rows.tables.REJECTED`` without the topic and partition."""

    appended_ms: int
    offset: int
    row: int | None
    events: int
    bytes_total: int
    identity: Identity | None
    reason: str
    schema: str | None
    content_type: str | None
    detail: str
    kept: bytes


def rejections_block(rejections: Sequence[Rejection], topic: str, partition: int) -> Block:
    """Rows of ``schemas.rows.tables.REJECTED``, in the order given."""
    of_record = {"topic": topic, "partition": partition}
    rows = []
    for one in rejections:
        row = {**of_record, **{name: getattr(one, name) for name in Rejection.__slots__}, "bytes": one.kept}
        if one.identity is not None:
            row |= {"source": one.identity.source, "boot": one.identity.boot, "seq": one.identity.seq}
        rows.append(row)
    return block_from_rows(REJECTED.fields, rows)
