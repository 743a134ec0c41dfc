"""Headers of a source record: what it is and who sent it, as text, so that any client can write them.

===============  =====================================  =========================================================
header           example                                meaning
===============  =====================================  =========================================================
schema           ``llm.requests/1``                     event type and version; required
content-type     ``application/x-ndjson``               one of the three formats; required
source           ``9f2c...`` (32 hex digits)            id of the sender's spool; absent from third parties
boot             ``3``                                  ordinal of the sender's start on that spool
seq              ``1041``                               number of the record within the boot, from 0, no gap
low              ``3.1040``                             oldest (boot.seq) not acknowledged when this was sent
count            ``40``                                 events in the batch; required with ``source``
traceparent      W3C                                    optional
===============  =====================================  =========================================================

A record with ``source`` has an identity (source, boot, seq): its re-sends are recognised and it stands inside the
guarantee. One without is accepted and counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import RejectedError
from schemas.record import Headers

NATIVE = "application/vnd.clickhouse.native"
NDJSON = "application/x-ndjson"
JSON_COLUMNS = "application/json; layout=columns"
CONTENT_TYPES = (NATIVE, NDJSON, JSON_COLUMNS)

_NAMES = frozenset(("schema", "content-type", "source", "boot", "seq", "low", "count"))
_HEX = frozenset(b"0123456789abcdef")
_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a record and which of its records it is. ``low`` is (boot, seq)."""

    source: str
    boot: int
    seq: int
    low: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """The parsed headers. ``count`` is None where a third party left it out."""

    schema: str
    content_type: str
    identity: Identity | None
    count: int | None


def encode_headers(schema: str, content_type: str, identity: Identity, count: int) -> Headers:
    """Headers of one of our own records, in the canonical order."""
    return (
        ("schema", schema.encode()),
        ("content-type", content_type.encode()),
        ("source", identity.source.encode()),
        ("boot", b"%d" % identity.boot),
        ("seq", b"%d" % identity.seq),
        ("low", b"%d.%d" % identity.low),
        ("count", b"%d" % count),
    )


def decode_headers(headers: Headers) -> RecordHeaders:
    """The headers, checked. Raises ``RejectedError('headers')``; unknown headers are ignored."""
    found: dict[str, bytes] = {}
    for name, value in headers:
        if name in found:
            raise RejectedError("headers", f"{name} is there twice")
        if value is None and name in _NAMES:  # Kafka allows it, and the client hands it over
            raise RejectedError("headers", f"{name} has no value")
        found[name] = value
    schema = _text(found, "schema")
    content_type = _text(found, "content-type")
    count = _number(found, "count") if "count" in found else None
    if "source" not in found:
        return RecordHeaders(schema, content_type, None, count)
    if count is None:
        raise RejectedError("headers", "count is missing (required with source)")
    return RecordHeaders(schema, content_type, _identity(found), count)


def _identity(found: dict[str, bytes]) -> Identity:
    source = found["source"]
    if len(source) != 32 or not _HEX.issuperset(source):
        raise RejectedError("headers", "source must be 32 lower-case hex digits")
    boot, seq = _number(found, "boot"), _number(found, "seq")
    low_boot, dot, low_seq = found.get("low", b"").partition(b".")
    if not dot:
        raise RejectedError("headers", "low must be BOOT.SEQ")
    low = (_digits("low", low_boot), _digits("low", low_seq))
    if low > (boot, seq):
        raise RejectedError("headers", "low lies above the record itself")
    return Identity(source.decode(), boot, seq, low)


def _text(found: dict[str, bytes], name: str) -> str:
    value = found.get(name)
    if value is None:
        raise RejectedError("headers", f"{name} is missing")
    if len(value) > 128 or not value.isascii():
        raise RejectedError("headers", f"{name} is longer than 128 bytes or not ASCII")
    return value.decode()


def _number(found: dict[str, bytes], name: str) -> int:
    value = found.get(name)
    if value is None:
        raise RejectedError("headers", f"{name} is missing")
    return _digits(name, value)


def _digits(name: str, value: bytes) -> int:
    if not value.isdigit() or len(value) > _DIGITS_MAX:
        raise RejectedError("headers", f"{name} must be 1 to {_DIGITS_MAX} digits")
    return int(value)
