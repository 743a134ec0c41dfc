"""A JSON object read entry by entry, so that each has its line, with numbers kept as their text says. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

_BLANK = re.compile(r"[ \t\r\n]*")


class MapTextError(Exception):
    """The text is no JSON object. ``line`` is where."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)


def entries_of(data: bytes) -> Iterator[tuple[str, Any, int]]:
    """Key, value and line of each entry; numbers are int or Decimal. Raises ``MapTextError``."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MapTextError(data[: error.start].count(b"\n") + 1, "this is no UTF-8; save it as UTF-8") from None
    at, line, counted = 0, 1, 0
    try:
        at = _expected(text, 0, "{")
        if text.startswith("}", at):
            return
        while True:
            line, counted = line + text.count("\n", counted, at), at
            key, at = _value(text, at)
            if not isinstance(key, str):
                raise ValueError("a key must be a text")
            value, at = _value(text, _expected(text, at, ":"))
            yield key, value, line
            if text.startswith("}", _blank(text, at)):
                return
            at = _expected(text, at, ",")
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", at)
        said = getattr(error, "msg", None) or str(error) or "it cannot be read"
        raise MapTextError(text.count("\n", 0, at) + 1, f"this is no JSON object of models: {said}") from None


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _expected(text: str, at: int, mark: str) -> int:
    at = _blank(text, at)
    if not text.startswith(mark, at):
        raise json.JSONDecodeError(f"{mark!r} is missing", text, at)
    return _blank(text, at + 1)


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins there; a text that ends is told as an error, not as an exception of iteration."""
    try:
        return _DECODER.raw_decode(text, at)
    except StopIteration:
        raise json.JSONDecodeError("a value is missing", text, at) from None
