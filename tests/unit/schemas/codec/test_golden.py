"""Golden bytes: what a schema version's records look like never changes, in any format."""

from __future__ import annotations

import itertools
import json
from typing import Any

from schemas.codec import native_walk, wire
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import NATIVE
from tests.golden.make import FOLDER, LAYOUTS, SUFFIXES, stem


def rows(schema: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{stem(schema)}.rows.json").read_text())
    return found


def golden(schema: str, content_type: str) -> bytes:
    return (FOLDER / f"{stem(schema)}.{SUFFIXES[content_type]}").read_bytes()


def block(schema: str) -> Block:
    return block_from_rows(LAYOUTS[schema], rows(schema))


def test_rows_are_written_as_they_always_were() -> None:
    """A layout that changes is a new version (``python -m tests.golden.make`` writes its files)."""
    for schema, content_type in itertools.product(LAYOUTS, SUFFIXES):
        encoded = wire.encode(content_type, LAYOUTS[schema], block(schema))
        assert encoded == golden(schema, content_type), (schema, content_type)


def test_what_was_written_once_is_read_for_ever() -> None:
    """Bytes of every version and format give their rows."""
    for schema, content_type in itertools.product(LAYOUTS, SUFFIXES):
        fields = LAYOUTS[schema]

        decoded = wire.decode(content_type, golden(schema, content_type), fields)

        assert rows_of(fields, decoded) == rows_of(fields, block(schema)), (schema, content_type)


def test_the_walk_reads_what_was_written_once() -> None:
    """Golden blocks are canonical."""
    for schema in (name for name, fields in LAYOUTS.items() if not any(f.kind.item for f in fields)):
        fields = LAYOUTS[schema]

        measured = native_walk.measure(fields, [golden(schema, NATIVE)])

        assert measured.rows.tolist() == [len(rows(schema))], schema
