"""Books of a commit: events by source, boot and verdict, and rows of the rejected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block, Labels, Numbers, Texts
from schemas.contract.headers import Identity
from schemas.contract.verdicts import MISSING, Verdict
from schemas.fields import Kind
from schemas.rows.tables import BOOKS, REJECTED
from stream_jobs.step import Commit

Source = tuple[str | None, int]
"""Spool id and boot of the sender; (None, 0) for a record without identity."""

VERDICTS = len(Verdict)
NO_SOURCE: Source = (None, 0)

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

    def lines(self) -> list[tuple[str, int, int, int, int]]:
        """(source, boot, verdict, records, events) of all that is not zero, in rising order; "" is no source."""
        found = []
        for (source, boot), place in self._places.items():
            for verdict in np.flatnonzero(self._records[place]).tolist():
                records, events = int(self._records[place, verdict]), int(self._events[place, verdict])
                found.append((source or "", boot, verdict, records, events))
        return sorted(found)

    def block(self, job: str, commit: Commit) -> Block:
        """Rows of ``schemas.rows.tables.BOOKS``; one of zeros when nothing was booked."""
        lines = self.lines() or [("", 0, int(Verdict.ACCEPTED), 0, 0)]
        rows = len(lines)
        sources, boots, verdicts, records, events = zip(*lines, strict=True)
        return Block(
            rows,
            {
                "committed_ms": Numbers(np.full(rows, commit.now_ms, np.int64)),
                "partition": _same(commit.partition, rows),
                "offset_from": _same(commit.offset_from, rows),
                "offset_to": _same(commit.offset_to, rows),
                "boot": _whole(boots),
                "verdict": _whole(verdicts),
                "records": _whole(records),
                "events": _whole(events),
                "job": labels([job] * rows),
                "topic": labels([commit.topic] * rows),
                "source": labels([source or None for source in sources]),
            },
        )


def missing_block(job: str, commit: Commit) -> Block:
    """The row of ``schemas.rows.tables.BOOKS`` for offsets that a reset leaves out: how many, and no events."""
    block = Books().block(job, commit)
    missing = _whole([commit.offset_to - commit.offset_from])
    return Block(block.rows, {**block.columns, "verdict": _whole([MISSING]), "records": missing})


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
    rows = len(rejections)
    known = np.array([r.row is not None for r in rejections], np.bool_)
    row_numbers = np.array([r.row or 0 for r in rejections], np.uint32)
    return Block(
        rows,
        {
            "appended_ms": Numbers(np.array([r.appended_ms for r in rejections], np.int64)),
            "partition": _same(partition, rows),
            "offset": _whole([r.offset for r in rejections]),
            "row": Numbers(row_numbers, known),
            "events": _whole([r.events for r in rejections]),
            "bytes_total": _whole([r.bytes_total for r in rejections]),
            "boot": _optional([r.identity and r.identity.boot for r in rejections]),
            "seq": _optional([r.identity and r.identity.seq for r in rejections]),
            "topic": labels([topic] * rows),
            "source": labels([r.identity and r.identity.source for r in rejections]),
            "reason": labels([r.reason for r in rejections]),
            "schema": labels([r.schema for r in rejections]),
            "content_type": labels([r.content_type for r in rejections]),
            "detail": _texts([r.detail.encode() for r in rejections]),
            "bytes": _texts([r.kept for r in rejections]),
        },
    )


def labels(texts: Sequence[str | None]) -> Labels:
    """A label column of these texts."""
    codes: dict[str | None, int] = {None: 0}
    column = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), np.int32, len(texts))
    return Labels(column, [None if word is None else word.encode() for word in codes])


def _texts(texts: Sequence[bytes]) -> Texts:
    return Texts(b"".join(texts), np.cumsum([len(text) for text in texts], dtype=np.int64))


def _whole(numbers: Sequence[int]) -> Numbers:
    return Numbers(np.array(numbers, dtype=np.uint64))


def _optional(numbers: Sequence[int | None]) -> Numbers:
    known = np.array([number is not None for number in numbers], np.bool_)
    return Numbers(np.array([number or 0 for number in numbers], dtype=np.uint64), known)


def _same(number: int, rows: int) -> Numbers:
    return Numbers(np.fromiter(repeat(number, rows), np.uint64, rows))


assert {f.name for f in BOOKS.fields if f.kind is Kind.LABEL} == {"job", "topic", "source"}
assert {f.name for f in REJECTED.fields if f.kind is Kind.TEXT} == {"detail", "bytes"}
