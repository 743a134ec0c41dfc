"""JSON text to Python values: orjson, and the standard library for what only it understands (NaN and Infinity)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from schemas.codec.values import DEPTH_MAX, is_deep, shown
from schemas.errors import RejectedError


def loads(data: bytes) -> Any:
    """The value. NaN and Infinity, which JSON has not but many writers emit, become floats.

    Raises ``RejectedError('syntax')``, for text that is no UTF-8 and for nesting beyond the parser's depth too.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in data and b"Infinity" not in data:
            raise RejectedError("syntax", f"not JSON: {error}") from None
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise RejectedError("syntax", f"not JSON: {str(error)[:200]}") from None


def object_of(text: bytes | memoryview) -> dict[str, Any] | None:
    """``objects_of`` for one text."""
    return objects_of((text,))[0]


def objects_of(texts: Sequence[bytes | memoryview]) -> list[dict[str, Any] | None]:
    """The JSON object of each text; None for text that is none, or is nested deeper than ``DEPTH_MAX``: orjson reads
    four times as deep as it writes, and ``repr`` of it can fail."""
    found: list[dict[str, Any] | None] = []
    objects = 0
    for text in texts:
        try:
            read = orjson.loads(text)
        except orjson.JSONDecodeError:
            read = None
        if type(read) is dict:
            objects += 1
            found.append(read)
        else:
            found.append(None)
    whole = b"".join(texts)
    if whole.count(b"[") + whole.count(b"{") <= objects + DEPTH_MAX:  # one each: too few are left for a deep one
        return found
    return [None if is_deep(each) else each for each in found]


def dumps(value: Mapping[Any, Any]) -> bytes:
    """The object as JSON; what JSON has not (NaN, numbers beyond 64 bits) as the standard library writes it, and a
    member that is nested too deep for either as ``shown`` has it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        writable = {name: shown(member) if is_deep(member) else member for name, member in value.items()}
        return json.dumps(writable).encode(errors="replace")
