"""What rows of a window say of the topology: which labels stand together, by grouping set, each combination once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block
from schemas.events.grouping import OTHER
from stream_jobs.insight.lexicon import Lexicon

Word = str | None
_ROOM_MAX = 2**62


@dataclass(frozen=True, slots=True)
class Reading:
    """Which combinations of labels of a topic's rows are learned, of one grouping set."""

    topic: str
    grouping: str
    names: tuple[str, ...]


READINGS = (
    Reading("gpu.samples", "gpu", ("gpu_uuid", "host", "engine_id", "placement_group", "cluster", "region")),
    Reading(
        "engine.samples",
        "engine_sample",
        ("engine_id", "host", "placement_group", "cluster", "region", "model", "model_version"),
    ),
    Reading(
        "llm.requests",
        "engine",
        ("engine_id", "host", "placement_group", "cluster", "region", "model", "model_version"),
    ),
    Reading("host.samples", "host", ("host", "cluster", "region")),
    Reading("llm.requests", "service", ("tenant", "model")),
)


def combinations(block: Block, reading: Reading) -> Iterator[tuple[Word, ...]]:
    """The distinct combinations of labels in the rows of one grouping set, without those of ``__other__``, in the order
    in which they stand."""
    grouping = block.labels("grouping")
    wanted = reading.grouping.encode()
    if wanted not in grouping.words:
        return
    rows = np.flatnonzero(grouping.codes == grouping.words.index(wanted))
    columns = [block.labels(name) for name in reading.names]
    codes = [column.codes[rows] for column in columns]
    first = _first_of_each(codes, [len(column.words) for column in columns])
    texts = [_texts(column.words, code[first]) for column, code in zip(columns, codes, strict=True)]
    for found in zip(*texts, strict=True):
        if found[0] != OTHER:
            yield found


def _texts(words: Sequence[bytes | None], codes: npt.NDArray[Any]) -> list[Word]:
    """The word of each code, as text."""
    if isinstance(words, Lexicon):
        known: list[Word] = words.texts()[codes].tolist()
        return known
    used = np.unique(codes).tolist()
    found = np.empty(len(words), np.object_)
    found[used] = [None if (word := words[code]) is None else word.decode() for code in used]
    texts: list[Word] = found[codes].tolist()
    return texts


def _first_of_each(codes: Sequence[npt.NDArray[Any]], sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """The first row of each distinct combination of codes, in order: one whole number each while they fit 62 bits."""
    key, room = np.zeros(len(codes[0]), np.int64), 1
    for code, size in zip(codes, sizes, strict=True):
        if room * size >= _ROOM_MAX:
            distinct, key = np.unique(key, return_inverse=True)
            room = len(distinct)
        key, room = key * size + code, room * size
    return np.sort(np.unique(key, return_index=True)[1])
