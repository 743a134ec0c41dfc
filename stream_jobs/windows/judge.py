"""The first, pure half of a fold: headers, decoding, verdicts. Changes nothing, so whatever raises leaves no trace.

Duplicates are decoded with the rest and found afterwards: they are rare, and a record that cannot be decoded must
not have moved the state of its source before that shows. A record whose headers cannot be read has no identity: it
counts as one event without a source, each time it comes, whatever its headers claim. Every other rejected record (too
large, unknown schema) counts for its source, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.contract.admission import Admitted, Reject, admit, read_headers
from schemas.contract.headers import RecordHeaders
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.fields import Event
from schemas.limits import Limits
from schemas.rows.tables import EXEMPLARS_OF
from stream_jobs.windows.books import NO_SOURCE, VERDICTS, Books, Counts, Rejection, Source
from stream_jobs.windows.dedup import Dedup

Fresh = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Judged:
    """Records and their events. ``record_of`` and ``rejects`` index ``records``; no headers where unreadable."""

    records: Sequence[Record]
    headers: Sequence[RecordHeaders | None]
    admitted: Admitted
    record_of: npt.NDArray[np.int64]
    rejects: Sequence[Reject]


def judge(event: Event, records: Sequence[Record], limits: Limits) -> Judged:
    """The records, read and judged; raises only for a defect of ours."""
    heads = read_headers(event, records, limits)
    texts = event.topic == EXEMPLARS_OF
    good = [head for head in heads if isinstance(head, RecordHeaders)]
    if len(good) == len(records):
        admitted = admit(event, records, good, limits, texts=texts)
        return Judged(records, good, admitted, admitted.record_of.astype(np.int64), admitted.rejects)
    origin = [number for number, head in enumerate(heads) if isinstance(head, RecordHeaders)]
    admitted = admit(event, [records[number] for number in origin], good, limits, texts=texts)
    rejects = [_moved(reject, origin[reject.record]) for reject in admitted.rejects]
    rejects += [_moved(head, number) for number, head in enumerate(heads) if isinstance(head, Reject)]
    headers = [head if isinstance(head, RecordHeaders) else None for head in heads]
    record_of = np.array(origin, np.int64)[admitted.record_of]
    return Judged(records, headers, admitted, record_of, sorted(rejects, key=lambda r: r.record))


def _moved(reject: Reject, record: int) -> Reject:
    return Reject(record, reject.row, reject.events, reject.reason, reject.detail, reject.kept, reject.bytes_total)


def take_new(dedup: Dedup, judged: Judged) -> Fresh | None:
    """Which records were not taken before, None when all were new; they all are taken from now on."""
    fresh = [
        head is None or head.identity is None or dedup.take(head.identity, record.timestamp_ms)
        for record, head in zip(judged.records, judged.headers, strict=True)
    ]
    return None if all(fresh) else np.array(fresh, np.bool_)


def book(judged: Judged, fresh: Fresh | None, books: Books) -> None:
    """Count every event once: by its verdict, or with its whole record as rejected or duplicate."""
    count = len(judged.records)
    lines = judged.record_of * VERDICTS + judged.admitted.verdicts
    events = np.bincount(lines, minlength=count * VERDICTS).reshape(count, VERDICTS)
    records = np.minimum(events, 1)
    for reject in judged.rejects:
        if reject.row is None:
            events[reject.record, Verdict.REJECTED] = reject.events
            records[reject.record, Verdict.REJECTED] = 1
    if fresh is not None:
        _book_duplicates(judged.headers, np.flatnonzero(~fresh).tolist(), events, records)
    books.add([source_of(head) for head in judged.headers], events, records)


def _book_duplicates(
    headers: Sequence[RecordHeaders | None], repeated: list[int], events: Counts, records: Counts
) -> None:
    for number in repeated:
        head = headers[number]
        events[number] = 0
        records[number] = 0
        events[number, Verdict.DUPLICATE] = events_in(head)
        records[number, Verdict.DUPLICATE] = 1


def source_of(head: RecordHeaders | None) -> Source:
    """Whom the books name for a record with these headers."""
    return NO_SOURCE if head is None or head.identity is None else (head.identity.source, head.identity.boot)


def events_in(head: RecordHeaders | None) -> int:
    """Events of a record that was not decoded: its count header, else 1."""
    return 1 if head is None or head.count is None else head.count


def rejections(judged: Judged, fresh: Fresh | None) -> list[Rejection]:
    """The rows for ``rejected``, in the order of the log; none for records that were taken before."""
    return [
        _rejection(judged.records[reject.record], judged.headers[reject.record], reject)
        for reject in judged.rejects
        if fresh is None or fresh[reject.record]
    ]


def _rejection(record: Record, head: RecordHeaders | None, reject: Reject) -> Rejection:
    return Rejection(
        appended_ms=record.timestamp_ms,
        offset=record.offset,
        row=reject.row,
        events=reject.events,
        bytes_total=reject.bytes_total,
        identity=head.identity if head else None,
        reason=reject.reason,
        schema=head.schema if head else _sent(record, "schema"),
        content_type=head.content_type if head else _sent(record, "content-type"),
        detail=reject.detail,
        kept=reject.kept,
    )


def _sent(record: Record, name: str) -> str | None:
    """A header as it was sent; null when it is missing, twice, too long or no text."""
    values = [value for key, value in record.headers if key == name]
    if len(values) != 1 or values[0] is None or len(values[0]) > 128 or not values[0].isascii():
        return None
    return values[0].decode()


def internal(event: Event, record: Record, detail: str, limits: Limits) -> tuple[RecordHeaders | None, Rejection]:
    """A record that made the fold raise: its headers where they are readable, and its row for ``rejected``."""
    value = record.value or b""
    (read,) = read_headers(event, [record], limits)
    head = read if isinstance(read, RecordHeaders) else None
    kept = value[: limits.rejected_bytes_kept_max]
    return head, _rejection(record, head, Reject(0, None, events_in(head), "internal", detail, kept, len(value)))
