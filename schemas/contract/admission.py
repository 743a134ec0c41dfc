"""Admission: which events of a record count, and what becomes of the others. The same judgement for every reader.

Two phases, because headers alone identify duplicates: ``read_headers`` first, then ``admit`` for the records
that are not duplicates. Verdicts are functions of the record (bytes, append time, headers) and the limits.

``read_headers`` refuses only records whose headers themselves cannot be read: those have no identity. Whatever else is
wrong (schema, format, size, tombstone, contents) is found by ``admit``, after the caller's check for duplicates, so
that a re-sent bad record is a duplicate like any other and counts under its source.

Inside ``admit`` every record becomes a canonical Native block first. Most are; a compiled walk translates JSON lines
(``schemas.codec.ndjson_walk``); tolerant readers translate what is unusual (of JSON lines those alone that are),
keeping note of what could not be. Then one compiled walk takes and judges all of them together
(``schemas.codec.native_walk``). Only rows at fault are looked at again, to say why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemas.codec import native_fill, native_walk, native_words, ndjson, ndjson_walk, wire
from schemas.codec.block import Block, Numbers, Texts
from schemas.codec.faults import fault_of, word_fault
from schemas.codec.native import concat, decode, encode
from schemas.codec.parsed import Parsed, Problem
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, RecordHeaders, decode_headers
from schemas.contract.record import Record
from schemas.errors import RejectedError, rejection
from schemas.fields import Event, Field
from schemas.limits import Limits


@dataclass(frozen=True, slots=True)
class Reject:
    """Something refused. ``record`` indexes the records given; ``row`` is None when the whole record is refused.

    ``events`` is 1 for a row; for a record its count header, or 1 where there is none that can be trusted.
    ``kept`` holds the value (whole record) or the event as JSON, cut at ``rejected_bytes_kept_max``; ``bytes_total``
    is its size before the cut.
    """

    record: int
    row: int | None
    events: int
    reason: str
    detail: str
    kept: bytes
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The events of many records in one block, in the order of the records and of the rows within them.

    ``block`` holds the rows of every readable record, refused rows included (their ``verdicts`` say so), with all
    fields of the event. ``record_of`` and ``row_of`` (int32) say where a row came from; ``verdicts`` (uint8) hold
    ``schemas.contract.verdicts.Verdict``. Records refused as a whole have no rows, only an entry in ``rejects``.
    """

    block: Block
    record_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int32]
    verdicts: npt.NDArray[np.uint8]
    rejects: list[Reject]


def read_headers(event: Event, records: Sequence[Record], limits: Limits) -> list[RecordHeaders | Reject]:
    """The headers of each record, or why they cannot be read (reason ``headers``)."""
    count_max = limits.batch_events_max
    read: list[RecordHeaders | Reject] = []
    for index, record in enumerate(records):
        try:
            headers = decode_headers(record.headers)
            if headers.count is not None and headers.count > count_max:
                raise RejectedError("headers", f"count = {headers.count}: at most {count_max}")
            read.append(headers)
        except RejectedError as error:
            read.append(_whole(index, record, 1, error, limits))
    return read


def admit(
    event: Event, records: Sequence[Record], headers: Sequence[RecordHeaders], limits: Limits, *, texts: bool = True
) -> Admitted:
    """Decode and judge records of one source topic. Without ``texts`` the text columns are checked but left out.

    ``headers`` are those of the records, one each. Never raises for what is in a record.
    """
    intake = _Intake(event, records, headers, limits)
    intake.translate()
    measured = intake.measure()
    if not (measured.rows > 0).any():
        return intake.nothing(texts)
    dictionaries = _dictionaries(event.fields, limits.label_bytes_max)
    filled = native_walk.fill(measured, dictionaries, limits.text_bytes_max, texts=texts)
    return intake.judge(filled)


@lru_cache(maxsize=32)
def _dictionaries(fields: tuple[Field, ...], label_bytes_max: int) -> native_words.Dictionaries:
    return native_words.Dictionaries(fields, lambda field, word: word_fault(field, word, label_bytes_max) is None)


def _whole(index: int, record: Record, events: int, error: RejectedError, limits: Limits) -> Reject:
    value = record.value or b""
    kept = value[: limits.rejected_bytes_kept_max]
    return Reject(index, None, events, error.reason, error.detail, kept, len(value))


class _Intake:
    """The records of one call on their way to one block."""

    def __init__(
        self, event: Event, records: Sequence[Record], headers: Sequence[RecordHeaders], limits: Limits
    ) -> None:
        assert len(records) == len(headers)
        self.event = event
        self.records = records
        self.headers = headers
        self.limits = limits
        self.values: list[bytes] = []
        """Canonical blocks as far as it is known yet; empty for records refused as a whole."""
        self.problems: dict[int, list[Problem]] = {}
        """What tolerant readers could not take, by record."""
        self.parsed: dict[int, Parsed] = {}
        """Records as tolerant readers show them, filled where one is asked for."""
        self.rejects: list[Reject] = []
        self.refused: set[int] = set()
        """Records refused as a whole."""

    def refuse(self, index: int, reason: str, detail: str) -> None:
        self.refused.add(index)
        count = self.headers[index].count
        events = 1 if count is None else count
        self.rejects.append(_whole(index, self.records[index], events, RejectedError(reason, detail), self.limits))

    def translate(self) -> None:
        """Fill ``values``: Native blocks as they are, JSON as Native, refused records as nothing."""
        schema, size_max = self.event.schema, self.limits.record_bytes_max
        lines: list[int] = []
        for index, (record, header) in enumerate(zip(self.records, self.headers, strict=True)):
            value, kind = record.value, wire.format_of(header.content_type)
            if value is None:
                self.refuse(index, "no_value", "the record has no value")
            elif len(value) > size_max:
                self.refuse(index, "too_large", f"{len(value)} bytes; at most {size_max}")
            elif header.schema != schema:
                self.refuse(index, "unknown_schema", f"schema {header.schema!r}: this topic takes {schema}")
            elif kind is None:
                self.refuse(index, "unknown_format", f"content-type {header.content_type!r} is not known")
            else:
                if kind == NDJSON:
                    lines.append(index)
                self.values.append(self.canonical(index, kind) if kind == JSON_COLUMNS else value)
                continue
            self.values.append(b"")
        sent = [self.values[index] for index in lines]
        blocks = ndjson_walk.translate(self.event.fields, sent, self.limits.batch_events_max)
        for index, block in zip(lines, blocks, strict=True):
            self.values[index] = block or self.canonical(index, NDJSON)

    def canonical(self, index: int, kind: str) -> bytes:
        """The record as a canonical block, by the tolerant readers; empty when it is refused."""
        try:
            value, fields, rows_max = self.records[index].value or b"", self.event.fields, self.limits.batch_events_max
            if kind == NDJSON:
                translated, self.problems[index] = ndjson_walk.translate_lines(fields, value, rows_max)
                return translated
            parsed = wire.parse(kind, value, fields, rows_max)
            translated = encode(fields, parsed.block)
        except MemoryError:
            raise  # says nothing about the record
        except Exception as error:  # a defect of ours must not stop a partition: it costs this record
            refused = rejection(error)
            self.refuse(index, refused.reason, refused.detail)
            return b""
        self.parsed[index], self.problems[index] = parsed, parsed.problems
        return translated

    def measure(self) -> native_walk.Measured:
        """The structure of all records; rows are 0 for those refused, some of them only now."""
        measured = native_walk.measure(self.event.fields, self.values)
        strange = [index for index in np.flatnonzero(measured.rows < 0).tolist() if index not in self.refused]
        if strange:
            for index in strange:
                self.values[index] = self.canonical(index, NATIVE)
            measured = native_walk.measure(self.event.fields, self.values)
        self.count(measured.rows)
        return measured

    def count(self, rows: npt.NDArray[np.int64]) -> None:
        """Refuse records with no, too many or another number of rows than announced, by setting ``rows`` to 0."""
        rows_max = self.limits.batch_events_max
        for index, (count, header) in enumerate(zip(rows.tolist(), self.headers, strict=True)):
            if (count == header.count or header.count is None) and 0 < count <= rows_max:
                continue
            rows[index] = 0
            if index in self.refused:
                continue
            if count == 0:
                self.refuse(index, "empty", "the batch holds no event")
            elif count > rows_max:
                self.refuse(index, "too_many", f"{count} events; at most {rows_max} in one batch")
            elif count < 0:
                self.refuse(index, "internal", "a translated block is not canonical")
            else:
                self.refuse(index, "count", f"the count header says {header.count}, the batch holds {count}")

    def nothing(self, texts: bool) -> Admitted:
        """The answer when no record has rows."""
        columns = concat(self.event.fields, []).columns
        kept = {name: column for name, column in columns.items() if texts or not isinstance(column, Texts)}
        rows = np.empty(0, dtype=np.int32)
        return Admitted(Block(0, kept), rows, rows, np.empty(0, dtype=np.uint8), self.in_order())

    def judge(self, filled: native_walk.Filled) -> Admitted:
        """Verdicts of all rows, and the reasons of those refused."""
        fault, record_of, row_of = filled.fault, filled.record_of, filled.row_of
        problems = self.problems_of(filled) if self.problems else {}
        for row, problem in problems.items():
            fault[row] = max(problem.field, 0)
        at_ms = filled.block.columns[self.event.fields[0].name]
        assert isinstance(at_ms, Numbers)
        appended = np.fromiter((record.timestamp_ms for record in self.records), np.int64, len(self.records))
        verdicts = np.empty(filled.block.rows, dtype=np.uint8)
        late_ms, future_ms = self.limits.allowed_lateness_ms, self.limits.future_skew_ms
        native_fill.judge_times(at_ms.values, record_of, appended, fault, late_ms, future_ms, verdicts)
        for row in np.flatnonzero(fault >= 0).tolist():
            self.refuse_row(int(record_of[row]), int(row_of[row]), int(fault[row]), problems.get(row))
        return Admitted(filled.block, record_of, row_of, verdicts, self.in_order())

    def problems_of(self, filled: native_walk.Filled) -> dict[int, Problem]:
        """By row of the block: what the tolerant readers could not take, where no earlier field is at fault."""
        first_row = np.searchsorted(filled.record_of, np.arange(len(self.records)), side="left").tolist()
        found: dict[int, Problem] = {}
        for index, problems in self.problems.items():
            for problem in problems if index not in self.refused else ():
                row = first_row[index] + problem.row
                known = found.get(row)
                if known is None or problem.field < known.field:
                    found[row] = problem
        fault = filled.fault
        return {row: problem for row, problem in found.items() if not 0 <= fault[row] < problem.field}

    def refuse_row(self, index: int, row: int, column: int, problem: Problem | None) -> None:
        """Note why a row is refused, from the event as it was sent."""
        if index not in self.parsed:
            self.parsed[index] = self.shown(index)
        parsed = self.parsed[index]
        if problem is not None:
            reason, detail = problem.reason, problem.detail
        else:
            reason, detail = fault_of(self.event.fields[column], parsed.block, row, self.limits)
        text = parsed.event_json(row)
        kept = text[: self.limits.rejected_bytes_kept_max]
        self.rejects.append(Reject(index, row, 1, reason, detail, kept, len(text)))

    def shown(self, index: int) -> Parsed:
        """A record that no tolerant reader saw as a whole, with its rows as they were sent."""
        value, fields = self.records[index].value or b"", self.event.fields
        if wire.format_of(self.headers[index].content_type) == NDJSON:
            return Parsed(decode(self.values[index], fields), [], ndjson.lines_of(value).__getitem__)
        return wire.parse(NATIVE, value, fields)

    def in_order(self) -> list[Reject]:
        return sorted(self.rejects, key=lambda reject: (reject.record, -1 if reject.row is None else reject.row))
