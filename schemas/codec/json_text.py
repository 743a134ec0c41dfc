"""JSON text to Python values: orjson, and the standard library for what only it understands (NaN and Infinity)."""

from __future__ import annotations

import json
from typing import Any

import orjson

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


def dumps(value: Any) -> bytes:
    """The value as JSON; what JSON has not (NaN, numbers beyond 64 bits) as the standard library writes it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return json.dumps(value).encode(errors="replace")
