"""Admission: which events of a record count, and what becomes of the others. The same judgement for every reader.

Two phases, because duplicates are told by their headers alone: ``read_headers`` first, then ``admit`` for the records
that are not duplicates. Verdicts are functions of the record (bytes, append time, headers) and the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.block import Block
from schemas.fields import Event
from schemas.headers import RecordHeaders
from schemas.limits import Limits
from schemas.record import Record


@dataclass(frozen=True, slots=True)
class Reject:
    """Something refused. ``record`` indexes the records given; ``row`` is None when the whole record is refused.

    ``events`` is 1 for a row; for a record its count header, or 1 where there is none that can be trusted.
    ``kept`` holds the value (whole record) or the event as JSON, cut at ``rejected_bytes_kept_max``.
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
    fields of the event. ``record_of`` and ``row_of`` (int32) tell where a row came from; ``verdicts`` (uint8) hold
    ``schemas.verdicts.Verdict``. Records refused as a whole have no rows, only an entry in ``rejects``.
    """

    block: Block
    record_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int32]
    verdicts: npt.NDArray[np.uint8]
    rejects: list[Reject]


def read_headers(event: Event, records: Sequence[Record], limits: Limits) -> list[RecordHeaders | Reject]:
    """The headers of each record, or why the record is refused already (headers, schema, format, size, tombstone)."""
    raise NotImplementedError


def admit(
    event: Event, records: Sequence[Record], headers: Sequence[RecordHeaders], limits: Limits, *, texts: bool = True
) -> Admitted:
    """Decode and judge records of one source topic. Without ``texts`` the text columns are checked but left out."""
    raise NotImplementedError
