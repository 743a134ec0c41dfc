"""Many records of JSON lines into canonical Native blocks, by a compiled walk: no per-line cost in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from schemas.codec import native, ndjson, ndjson_kernels
from schemas.codec.native_layout import layout_of
from schemas.codec.parsed import Problem
from schemas.fields import Field

_PAIR_BYTES_MIN = 6
"""Of a pair of a sketch in a line: ``"1":1,``."""


def translate(fields: tuple[Field, ...], values: Sequence[bytes], rows_max: int) -> list[bytes]:
    """The canonical block of each record of JSON lines, in which every value fits its field's kind.

    Empty where the compiled walk does not read a record: without lines or with more than ``rows_max``, and wherever a
    line is wrong or unusual (a name twice, a sketch out of order). Those are for ``translate_lines``; of all others
    ``schemas.codec.ndjson.parse`` gives the same block.
    """
    if not values:
        return []
    data = np.frombuffer(bytearray(b"\n").join((*values, bytes(8))), np.uint8)
    sizes = list(map(len, values))
    ends = np.fromiter(accumulate(size + 1 for size in sizes), np.int64, len(values)) - 1
    rows = min(rows_max, max(sizes) // 2 + 1)
    pairs = max(sizes) // _PAIR_BYTES_MIN + 1
    scratch = ndjson_kernels.Scratch(
        cells=np.empty((rows, len(fields), 2), np.int64),
        keys=np.empty(pairs, np.int64),
        counts=np.empty(pairs, np.uint64),
        words=np.empty((rows + 1, 2), np.int64),
        codes=np.empty(rows, np.int64),
        table=np.empty(4 * rows, np.int64),
    )
    out_ends = np.empty(len(values), np.int64)
    out = ndjson_kernels.translate(data, ends, layout_of(fields).shapes, _ranges(fields), scratch, out_ends)
    written, bounds = out.data, [0, *out_ends.tolist()]
    return [bytes(written[begin:end]) for begin, end in pairwise(bounds)]


def translate_lines(fields: tuple[Field, ...], value: bytes, rows_max: int) -> tuple[bytes, list[Problem]]:
    """The canonical block of a record that ``translate`` left out, and what is wrong with single lines of it.

    Only the lines that are wrong or unusual go through the careful reader; they are written again as it understood
    them, null or 0 for what it could not take. Raises ``RejectedError('too_many')``.
    """
    lines = ndjson.lines_of(value, rows_max)
    left = [row for row, block in enumerate(translate(fields, lines, 1)) if not block]
    parsed = ndjson.parse(b"\n".join(lines[row] for row in left), fields)
    for row, line in zip(left, ndjson.encode(fields, parsed.block).splitlines(), strict=True):
        lines[row] = line
    problems = [replace(problem, row=left[problem.row]) for problem in parsed.problems]
    together = b"\n".join(lines)
    (block,) = translate(fields, [together], rows_max)
    return block or native.encode(fields, ndjson.parse(together, fields).sound()), problems


@lru_cache(maxsize=256)
def _ranges(fields: tuple[Field, ...]) -> ndjson_kernels.Ranges:
    found = [np.iinfo(np.dtype(field.kind.numpy or "<u8")) for field in fields]
    most = np.array([int(one.max) for one in found], np.uint64)
    return ndjson_kernels.Ranges(most, np.array([-int(one.min) for one in found], np.uint64))
