"""A transition of an alert, read from a record of topic ``alerts``. Malformed records are rejected here."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.contract.alerts import Alert, decode_valid
from schemas.contract.record import Record
from schemas.errors import RejectedError

RECORD_BYTES_MAX = 1_048_576
"""Far above what the alert job writes; what is beyond was written by somebody else."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A record of topic ``alerts``: the alert in it, its bytes, its offset, when it was appended."""

    alert: Alert
    record: bytes
    partition: int
    offset: int
    appended_ms: int

    @property
    def resolved(self) -> bool:
        return self.alert.transition == "resolved"


def transition_of(record: Record) -> Transition:
    """The transition. Raises ``RejectedError`` for a value that is too long or no valid alert."""
    value = record.value or b""
    if len(value) > RECORD_BYTES_MAX:
        raise RejectedError("too_long", f"{len(value)} bytes, at most {RECORD_BYTES_MAX}")
    return Transition(decode_valid(value), value, record.partition, record.offset, record.timestamp_ms)


def deleted_fingerprint(record: Record) -> str | None:
    """The fingerprint that a tombstone deletes from the topic; None for any other record."""
    return None if record.value or record.key is None else record.key.decode("utf-8", "replace")
