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
traceparent      ``00-4bf9...-00f0...-03``              W3C Trace Context, of records that are traced; optional
clock-skew-ms    ``-600000``                            the sender's clock minus the broker's, where it is off; optional
===============  =====================================  =========================================================

A record with ``source`` has an identity (source, boot, seq): its re-sends are recognised and it stands inside the
guarantee. One without is accepted and counted apart.

Of a sender's headers only ``seq`` and ``low`` move from record to record. ``decode_headers`` remembers the others by
their bytes, so that records in the canonical order cost one look-up and two numbers; any others are read with care.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.contract.record import Headers
from schemas.errors import RejectedError

NATIVE = "application/vnd.clickhouse.native"
NDJSON = "application/x-ndjson"
JSON_COLUMNS = "application/json; layout=columns"
CONTENT_TYPES = (NATIVE, NDJSON, JSON_COLUMNS)

TRACEPARENT = "traceparent"
"""Says that the record's way is followed. Decides nothing: it is neither checked nor part of what a record is."""
CLOCK_SKEW = "clock-skew-ms"
"""How far the sender's clock is ahead of the broker's, below 0 behind it. Verdicts and windows go by the events' own
times all the same; only watermarks allow for it."""

_ORDER = ("schema", "content-type", "source", "boot", "seq", "low", "count")
_NAMES = frozenset(_ORDER)
_HEX = frozenset(b"0123456789abcdef")
_DIGITS_MAX = 18
_SKEW_DIGITS_MAX = 15
"""Of ms: an event time less a skew stays far within 64 bits."""


class Identity(NamedTuple):
    """Who sent a record and which of its records it is. ``low`` is (boot, seq)."""

    source: str
    boot: int
    seq: int
    low: tuple[int, int]


class RecordHeaders(NamedTuple):
    """The parsed headers. ``count`` is None where a third party left it out."""

    schema: str
    content_type: str
    identity: Identity | None
    count: int | None  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


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


def clock_skew_ms(headers: Headers) -> int:
    """What the sender measured of its own clock, in ms ahead of the broker's; 0 where the header is missing or no whole
    number, since nothing is lost by that."""
    if len(headers) == len(_ORDER):
        return 0
    value = next((value for name, value in headers if name == CLOCK_SKEW), None)
    digits = (value or b"").removeprefix(b"-")
    return int(value) if value and digits.isdigit() and len(digits) <= _SKEW_DIGITS_MAX else 0


class _Sender(NamedTuple):
    """What a sender's headers say in every record of one kind and size."""

    schema: str
    content_type: str
    source: str
    boot: int
    events: int


_SENDERS_MAX = 65_536
_senders: dict[tuple[bytes, ...], _Sender] = {}
"""By the bytes of five headers what they say; only sound ones, so each is small. Forgotten as a whole when full."""


def decode_headers(headers: Headers) -> RecordHeaders:
    """The headers, checked. Raises ``RejectedError('headers')``; unknown headers are ignored."""
    if len(headers) != len(_ORDER):
        return decode_any(headers)
    (a, schema), (b, content_type), (c, source), (d, boot), (e, seq), (f, low), (g, count) = headers
    if (a, b, c, d, e, f, g) != _ORDER:
        return decode_any(headers)
    key = (schema, content_type, source, boot, count)
    known = _senders.get(key)
    if known is None or not low or not seq or len(seq) > _DIGITS_MAX or not seq.isdigit():
        return _remembered(key, decode_any(headers))
    low_boot, _, low_seq = low.partition(b".")
    number = int(seq)
    if low_boot != boot or not low_seq.isdigit() or len(low_seq) > _DIGITS_MAX or (oldest := int(low_seq)) > number:
        return decode_any(headers)
    ordinal = known.boot
    identity = Identity(known.source, ordinal, number, (ordinal, oldest))
    return RecordHeaders(known.schema, known.content_type, identity, known.events)


def _remembered(key: tuple[bytes, ...], headers: RecordHeaders) -> RecordHeaders:
    who = headers.identity
    assert who is not None
    assert headers.count is not None
    if len(_senders) >= _SENDERS_MAX:
        _senders.clear()
    _senders[key] = _Sender(headers.schema, headers.content_type, who.source, who.boot, headers.count)
    return headers


def decode_any(headers: Headers) -> RecordHeaders:
    """As ``decode_headers``, which answers the same, for headers in any order; nothing is remembered."""
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
