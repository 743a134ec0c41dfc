"""Opening what was gathered of a window: pieces joined by table, without those that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from schemas.codec import native, native_walk, native_words
from schemas.codec.block import Block
from schemas.errors import RejectedError
from schemas.rows import finals
from schemas.rows.tables import EXEMPLARS
from stream_jobs.alerts.gather import Ready
from stream_jobs.insight.frame import Window
from stream_jobs.insight.lexicon import Lexicons

_TEXT_BYTES_ANY = int(np.iinfo(np.int64).max)


def window_of(ready: Ready, lexicons: Lexicons) -> tuple[Window, int]:
    """The window of what was gathered, and how many of its pieces could not be read: without them it is incomplete.

    Pieces of a table are opened together, by the compiled walk; dictionaries and the codes of ``lexicons`` are
    remembered, because a fleet sends the same words in every window."""
    values: dict[str, list[bytes]] = {}
    for piece in ready.pieces:
        values.setdefault(piece.schema, []).append(piece.value)
    opened = {schema: _opened(schema, found) for schema, found in values.items()}
    unread = sum(failed for _, failed in opened.values())
    whole = {schema: block for schema, (block, _) in opened.items() if block is not None}
    exemplars = whole.pop(EXEMPLARS.schema, None)
    tables = {finals.TOPIC_BY_SCHEMA[schema]: block for schema, block in whole.items()}
    tables = lexicons.shared(tables)
    return Window(ready.window_ms, tables, exemplars, ready.complete and not unread, ready.series_whole), unread


def _opened(schema: str, values: Sequence[bytes]) -> tuple[Block | None, int]:
    """The rows of all values that can be read (None: of none can they), and how many cannot."""
    fields = finals.TABLE_BY_SCHEMA[schema].fields
    measured = native_walk.measure(fields, values)
    if (measured.rows >= 0).all() and measured.rows.any():
        return native_walk.fill(measured, _dictionaries(schema), _TEXT_BYTES_ANY).block, 0
    blocks = []
    for value in values:
        try:
            blocks.append(native.decode(value, fields))
        except RejectedError:
            continue
    return native.concat(fields, blocks) if blocks else None, len(values) - len(blocks)


@lru_cache(maxsize=len(finals.TABLE_BY_SCHEMA))
def _dictionaries(schema: str) -> native_words.Dictionaries:
    return native_words.Dictionaries(finals.TABLE_BY_SCHEMA[schema].fields, native_words.any_word)
