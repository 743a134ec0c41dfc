"""The records of a commit of the cost job: blocks of ``COSTS``, none larger than ``RECORD_BYTES_MAX``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.select import select
from schemas.contract.headers import NATIVE
from schemas.contract.record import Output
from schemas.contract.topics import COSTS_TOPIC
from schemas.rows.costs import COSTS
from stream_jobs.step import Commit

RECORD_BYTES_MAX = 4 * 1024 * 1024
"""Larger blocks are cut between rows (a single row is never cut)."""


def outputs(block: Block, commit: Commit, partitions: int, topic: str = COSTS_TOPIC) -> list[Output]:
    """The rows as records, in the partition of their source partition."""
    headers = (
        ("schema", COSTS.schema.encode()),
        ("content-type", NATIVE.encode()),
        ("job", b"costs"),
        ("source-topic", commit.topic.encode()),
        ("source-partition", b"%d" % commit.partition),
        ("offsets", b"%d-%d" % (commit.offset_from, commit.offset_to)),
    )
    return [
        Output(topic, commit.partition % partitions, None, value, (*headers, ("rows", b"%d" % rows)))
        for rows, value in _cut(block)
    ]


def _cut(block: Block) -> Iterator[tuple[int, bytes]]:
    value = native.encode(COSTS.fields, block)
    if len(value) <= RECORD_BYTES_MAX or block.rows == 1:
        yield block.rows, value
        return
    first = np.arange(block.rows) < block.rows // 2
    yield from _cut(select(block, first))
    yield from _cut(select(block, ~first))
