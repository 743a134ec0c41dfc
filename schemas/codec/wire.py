"""The three wire formats behind one door, chosen by the ``content-type`` header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from schemas.codec import json_columns, native, native_reader, ndjson
from schemas.codec.block import Block
from schemas.codec.parsed import Parsed
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON
from schemas.errors import RejectedError
from schemas.fields import Field

Parse = Callable[[bytes, Sequence[Field], int | None], Parsed]

_ENCODERS = {NATIVE: native.encode, NDJSON: ndjson.encode, JSON_COLUMNS: json_columns.encode}
_PARSERS: dict[str, Parse] = {NATIVE: native_reader.parse, NDJSON: ndjson.parse, JSON_COLUMNS: json_columns.parse}


@lru_cache(maxsize=1_024)
def format_of(content_type: str) -> str | None:
    """Which of ``CONTENT_TYPES`` is meant: case, spaces and a charset parameter make no difference; None for others."""
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    kept = [parameter for parameter in parameters if parameter and not parameter.startswith("charset=")]
    canonical = "; ".join((media, *kept))
    return canonical if canonical in _PARSERS else None


def encode(content_type: str, fields: Sequence[Field], block: Block) -> bytes:
    """The block in one of ``CONTENT_TYPES``."""
    return _ENCODERS[content_type](fields, block)


def parse(content_type: str, data: bytes, fields: Sequence[Field], rows_max: int | None = None) -> Parsed:
    """The block and what is wrong with it. Raises ``RejectedError``; ``unknown_format`` where nothing is meant."""
    known = format_of(content_type)
    if known is None:
        raise RejectedError("unknown_format", f"content-type {content_type!r} is none of {', '.join(_PARSERS)}")
    return _PARSERS[known](data, fields, rows_max)


def decode(content_type: str, data: bytes, fields: Sequence[Field]) -> Block:
    """The block. Raises ``RejectedError`` with the first thing that is wrong."""
    return parse(content_type, data, fields).sound()
