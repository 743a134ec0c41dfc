"""The alert job's state as parts: a JSON head, compressed, and named sections of bytes (``stream_jobs.parts``).

Every commit that emits alerts writes one; so sections are made of what is packed already. Equal states give equal
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from stream_jobs import parts as frame
from stream_jobs.parts import compress, decompress

VERSION = 3
_MAGIC = b"FPA1"


def dump(head: Mapping[str, Any], sections: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    """Head and sections as parts."""
    lengths = {name: [len(piece) for piece in pieces] for name, pieces in sections.items()}
    text = orjson.dumps({"version": VERSION, "head": head, "sections": lengths})
    opening = compress(text)
    return frame.cut(_MAGIC, opening, (piece for pieces in sections.values() for piece in pieces))


def load(parts: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Head and sections. Raises ``ContractError`` when the parts are not those of one snapshot of this version."""
    opening, data = frame.joined(_MAGIC, parts)
    found = orjson.loads(decompress(opening))
    frame.check_head(found, VERSION)
    lengths: dict[str, list[int]] = found["sections"]
    pieces = iter(frame.pieces_of(data, (length for each in lengths.values() for length in each)))
    return found["head"], {name: [next(pieces) for _ in each] for name, each in lengths.items()}
