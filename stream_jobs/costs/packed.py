"""The sums of a minute as bytes: equal bytes for equal sums, whatever codes their words have in this process.

Rows stay in the order in which their keys came, which decides whose line falls into ``__other__``. Words stand as
text, each column's in rising order, null first; behind the opening stand the columns, one after the other.
"""

from __future__ import annotations

import numpy as np
import orjson

from stream_jobs.costs.rows import Rows, Word, Words
from stream_jobs.costs.wide import Ints
from stream_jobs.parts import compress, decompress

NUMBERS = ("use", "window")
"""Keys that are numbers; all others are words."""
_SIZE = 4


def pack(rows: Rows, key: tuple[str, ...], groups: Words, words: Words) -> bytes:
    """Rows of a table with the keys ``group`` and ``key``."""
    texts: list[list[str | None]] = []
    columns: list[Ints] = []
    for name, codes in zip(("group", *key), rows.keys, strict=True):
        if name in NUMBERS:
            columns.append(codes)
            continue
        column, found = _told(codes, groups if name == "group" else words)
        columns.append(column)
        texts.append([None if word is None else word.decode("latin-1") for word in found])
    opening = orjson.dumps({"rows": len(rows), "words": texts})
    body = [column.astype("<i4").tobytes() for column in columns]
    body += [amount.astype("<i8").tobytes() for amount in rows.amounts]
    return compress(b"".join((len(opening).to_bytes(_SIZE, "little"), opening, *body)))


def _told(codes: Ints, words: Words) -> tuple[Ints, list[Word]]:
    """A column as places in its own words, and these in order."""
    used, place = np.unique(codes, return_inverse=True)
    named = [words.list[code] for code in used.tolist()]
    order = sorted(range(len(named)), key=lambda number: (named[number] is not None, named[number] or b""))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[place], [named[number] for number in order]


def unpack(data: bytes, key: tuple[str, ...], amounts: int, groups: Words, words: Words) -> Rows:
    """The rows, with the codes that their words have in ``groups`` and ``words``, which may get new ones. Raises
    ``ContractError`` where the bytes are damaged."""
    plain = decompress(data)
    begin = _SIZE + int.from_bytes(plain[:_SIZE], "little")
    opening = orjson.loads(plain[_SIZE:begin])
    rows, texts = opening["rows"], iter(opening["words"])
    names = ("group", *key)
    stop = begin + 4 * rows * len(names)
    narrow = np.frombuffer(plain[begin:stop], dtype="<i4").reshape(len(names), rows).astype(np.int64)
    wide = np.frombuffer(plain[stop:], dtype="<i8").reshape(amounts, rows).astype(np.int64)
    keys = [
        column if name in NUMBERS else _codes(column, next(texts), groups if name == "group" else words)
        for name, column in zip(names, narrow, strict=True)
    ]
    return Rows(tuple(keys), tuple(wide))


def _codes(column: Ints, texts: list[str | None], words: Words) -> Ints:
    codes = [words.code(None if text is None else text.encode("latin-1")) for text in texts]
    return np.array(codes, dtype=np.int64)[column]
