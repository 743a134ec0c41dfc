"""Maps a JSON log line to a row of ``llm.requests``, by a table in the configuration. Pure.

| text | means |
|---|---|
| ``timing.ttft`` | what the line holds under that path; a number in a path is an index; ``a\\.b`` is one name |
| ``timing.ttft s`` | a duration in ``s``, ``ms``, ``us`` or ``ns`` (without a unit: in the field's own) |
| ``ts iso`` | a time: ``iso`` (the default), ``s``, ``ms``, ``us``, ``ns`` since 1970, or a strptime format |
| ``=llama-3`` | always this text |

A time without a zone is UTC. A status may be one of ours, an HTTP status or a usual word; without one it follows from
``http_status``, ``error_kind`` and ``finish_reason``. Where none of them says how a request ended, it is well unless
its line has a status, or HTTP status, that nobody knows. A line without an id gets one made from its log, offset
and text: read again, it is the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from producers.collector import Row
from producers.differences import bounds, within
from producers.requests.endings import WHOLE, Verdict, finish_reason_of, kind_of_error, verdict
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Field, Kind, Role

AGENT_FIELDS = frozenset({"host", "cluster", "region", "origin", "reported_by", "itl_bins", "user_hash"})
"""Fields that only the agent sets."""
USER = "user"
"""What a client named its user: no field, the agent makes ``user_hash`` of it."""
NEEDED = ("at_ms", "model")
NUMBER_MAX = 10**24
"""More than any field holds, in any unit; NaN and infinities are beyond it, too."""
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""

STATUS_OF: Mapping[str, str] = MappingProxyType(
    {
        "success": "ok",
        "succeeded": "ok",
        "successful": "ok",
        "complete": "ok",
        "completed": "ok",
        "done": "ok",
        "finished": "ok",
        "true": "ok",
        "false": "error",
        "fail": "error",
        "failed": "error",
        "failure": "error",
        "cancelled": "aborted",
        "canceled": "aborted",
        "timed_out": "timeout",
        "throttled": "rejected",
    }
)
_UNKNOWN = Verdict("error", "other")
"""What was logged of the end is no word for success."""
_MICRO = "1e-6"
_NS: Mapping[str, int] = MappingProxyType({"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000})
_TEXT_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
_BOUNDS = bounds(LLM_REQUESTS)

Get = Callable[[Any], Any]
Read = Callable[[Any], Any]
"""A found value as the field's; None where it is none. Raises ``ValueError`` where it may not say that."""


class BrokenLineError(Exception):
    """The line gives no row; ``reason`` in a word or two."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mapped:
    """One field: where its value is found and how it is read."""

    name: str
    get: Get
    read: Read


FieldMap = tuple[Mapped, ...]


def field_map(fields: Mapping[str, str], key: str = "fields") -> FieldMap:
    """Raises ``ConfigError`` (below ``key``) for what cannot be meant."""
    for name in NEEDED:
        if name not in fields:
            raise ConfigError(key, sorted(fields), f"must say where {name} is found")
    known = {each.name: each for each in LLM_REQUESTS.fields if each.name not in AGENT_FIELDS}
    return mapped_by(known | {USER: LLM_REQUESTS.field("user_hash")}, fields, key, "llm.requests")


def mapped_by(known: Mapping[str, Field], fields: Mapping[str, str], key: str, topic: str) -> FieldMap:
    """The same for fields of any event, of those that are ``known`` here by name."""
    return tuple(_mapped(known.get(name), name, text, f"{key}.{name}", topic) for name, text in fields.items())


def rows_of(
    mapped: FieldMap, lines: Iterable[Line], labels: Mapping[str, str | None], log: str
) -> tuple[list[Row], Mapping[str, int]]:
    """A row for each line that gives one, and what was left out, by reason or field. ``log``: the path of the log."""
    rows: list[Row] = []
    left_out = Counter[str]()
    for line in lines:
        try:
            rows.append(_row(mapped, line, labels, log, left_out))
        except BrokenLineError as error:
            left_out[error.reason] += 1
    return rows, left_out


def _row(mapped: FieldMap, line: Line, labels: Mapping[str, str | None], log: str, left_out: Counter[str]) -> Row:
    document = document_of(line.text)
    row: Row = {"origin": "measured", "reported_by": "log"} | dict(labels)
    unread: list[str] = []
    for field in mapped:
        try:
            row[field.name] = field.read(field.get(document))
        except ValueError:
            unread.append(field.name)
    row, wrong = within(_BOUNDS, row)
    unread += wrong
    left_out.update(unread)
    if row.get("request_id") is None:
        row["request_id"] = made_id(line, labels.get("host"), log)
    if row.get("status") is None:
        found = _ending(row, unread)
        row["status"], row["error_kind"] = found.status, row.get("error_kind") or found.error_kind
    for name in NEEDED:
        if row.get(name) is None:
            raise BrokenLineError(f"no {name}")
    return row


def _ending(row: Row, unread: Sequence[str]) -> Verdict:
    """``unread``: fields whose values mean nothing here."""
    http_status, error_kind, finish_reason = (row.get(name) for name in ("http_status", "error_kind", "finish_reason"))
    decides = http_status is not None or error_kind is not None or finish_reason not in (None, "other")
    if not decides and ("status" in unread or "http_status" in unread):
        return _UNKNOWN
    return verdict(WHOLE, http_status, error_kind, finish_reason)


def document_of(text: bytes) -> dict[str, Any]:
    """The JSON object that a line is. Raises ``BrokenLineError``."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BrokenLineError("no JSON") from None
    if not isinstance(document, dict):
        raise BrokenLineError("no object")
    return document


def made_id(line: Line, host: str | None, log: str) -> str:
    """The same id for the same line at the same offset of the same log (its path, whatever a rotated file is called),
    on the same host."""
    place = f"{host or ''}\0{log}\0{line.offset}\0".encode("utf-8", "surrogateescape")
    return f"log-{hashlib.blake2b(place + line.text, digest_size=16).hexdigest()}"


# Where a value is found


def _mapped(field: Field | None, name: str, text: str, key: str, topic: str) -> Mapped:
    if field is None:
        raise ConfigError(key, text, f"is not a field of {topic} that a log line may set")
    if text.startswith("="):
        constant, read = text[1:], _read_of(field, "", key)
        try:
            value = read(constant)
        except ValueError:
            value = None
        if value is None:
            raise ConfigError(key, text, "cannot be the field's value")
        return Mapped(name, lambda _: None, lambda _: value)
    path, _, how = text.strip().partition(" ")
    if not path:
        raise ConfigError(key, text, "must be a path, or =constant")
    return Mapped(name, _getter(path), _read_of(field, how.strip(), key))


def _getter(path: str) -> Get:
    names = [name.replace("\\.", ".") for name in re.split(r"(?<!\\)\.", path)]

    def get(document: Any) -> Any:
        for name in names:
            if isinstance(document, dict):
                document = document.get(name)
            elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
                document = document[int(name)]
            else:
                return None
        return document

    return get


# How a value is read


def _read_of(field: Field, how: str, key: str) -> Read:
    if field.role is Role.TIME:
        return _time(how or "iso", key)
    if field.name in _WORDS and not how:
        return _WORDS[field.name]
    if field.kind in (Kind.LABEL, Kind.TEXT, Kind.OPTIONAL_TEXT) and not how:
        return _word(field)
    if field.unit == _MICRO and not how:
        return lambda value: _whole(value, 1_000_000, 1)
    if field.kind.numpy and not how:
        return lambda value: _whole(value, 1, 1)
    if field.unit in _NS and how in _NS:
        return lambda value: _whole(value, _NS[how], _NS[field.unit])
    raise ConfigError(key, how, "must be one of s, ms, us, ns, and only for a duration")


def _whole(value: Any, times: int, per: int) -> int | None:
    """``value * times / per`` as a whole number. Numbers in quotes count."""
    if isinstance(value, str) and _TEXT_NUMBER.fullmatch(value):
        value = int(value) if value.lstrip("+-").isdigit() else float(value)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < NUMBER_MAX:
        raise ValueError
    return (value * times + per // 2) // per if isinstance(value, int) else round(value * times / per)


def _time(how: str, key: str) -> Read:
    if how in _NS:
        return lambda value: _possible(_whole(value, _NS[how], _NS["ms"]))
    if how == "iso":
        return lambda value: None if value is None else _possible(_at_ms(datetime.fromisoformat(_text(value))))
    if "%" in how:
        return lambda value: None if value is None else _possible(_at_ms(datetime.strptime(_text(value), how)))
    raise ConfigError(key, how, "must be iso, s, ms, us, ns or a strptime format")


def _possible(at_ms: int | None) -> int | None:
    if at_ms is not None and not 0 <= at_ms <= TIME_MS_MAX:
        raise ValueError
    return at_ms


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _at_ms(at: datetime) -> int:
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _word(field: Field) -> Read:
    def read(value: Any) -> str | None:
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError
        word = str(value)
        if field.allowed and word not in field.allowed:
            if "other" not in field.allowed:
                raise ValueError
            return "other"
        return word

    return read


def _status(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str | int):
        raise ValueError
    word = str(value).lower()
    if word.isdecimal():
        code = int(word[:4])
        if code and not 100 <= code <= 599:  # 0 is gRPC's, and a program's, for success
            raise ValueError
        return verdict(WHOLE, code, None, None).status
    status = STATUS_OF.get(word, word)
    if status not in LLM_REQUESTS.field("status").allowed:
        raise ValueError
    return status


def _error_kind(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return value if value in LLM_REQUESTS.field("error_kind").allowed else kind_of_error(value, None)


def _finish_reason(value: Any) -> str | None:
    return finish_reason_of(value) if isinstance(value, str) and value else None


_WORDS: Mapping[str, Read] = MappingProxyType(
    {"status": _status, "error_kind": _error_kind, "finish_reason": _finish_reason}
)


class Line(NamedTuple):
    """``text`` without its newline (and carriage return), from ``offset`` of the file."""

    offset: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """``next_offset``: where to read on. ``skipping``: inside a line that is too long. ``too_long`` began here."""

    lines: tuple[Line, ...]
    next_offset: int
    skipping: bool
    too_long: int


def cut(data: bytes, offset: int, skipping: bool, line_bytes_max: int) -> Cut:
    """The whole lines of ``data``, which begins at ``offset``; blank ones are passed over."""
    lines: list[Line] = []
    at, too_long = 0, 0
    while (end := data.find(b"\n", at)) >= 0:
        text = data[at:end]
        if skipping:
            skipping = False
        elif len(text) > line_bytes_max:
            too_long += 1
        elif text := text.removesuffix(b"\r"):
            lines.append(Line(offset + at, text))
        at = end + 1
    rest = len(data) - at
    if not skipping and rest > line_bytes_max:
        skipping, too_long = True, too_long + 1
    return Cut(tuple(lines), offset + (len(data) if skipping else at), skipping, too_long)
