"""JSON text to Python values: orjson, and the standard library for what only it understands (NaN and Infinity)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from schemas.codec.values import is_deep, shown
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


def dumps(value: Mapping[Any, Any]) -> bytes:
    """The object as JSON; what JSON has not (NaN, numbers beyond 64 bits) as the standard library writes it, and a
    member that is nested too deep for either as ``shown`` has it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        writable = {name: shown(member) if is_deep(member) else member for name, member in value.items()}
        return json.dumps(writable).encode(errors="replace")
