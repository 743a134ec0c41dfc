"""The messages of a commit: blocks with their headers, none larger than ``MESSAGE_BYTES_MAX``.

Headers of a partials record, beside ``schema`` and ``content-type``:

====================  =================================================================================
``job``               who wrote it
``source-topic``      and ``source-partition``: which partition's events these are
``offsets``           ``FROM-TO``: source offsets covered, ``[FROM, TO)``; the next commit's FROM is this TO
``part``              ``I/N``: the I-th of the N records this commit sends to this target partition; exemplars
                      (schema ``exemplars/1``) come first, then usage (``usage/1``) and shares
                      (``gpu_shares/1``), partials last
``number``            position among all records this job wrote about the source partition
``watermark``         ms; on every part but the last 0 (nothing new): what it covers is not complete yet
``rows``              rows in the value; without rows the value is empty
``idle``              1 when the wall clock moved the watermark
====================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.select import select
from schemas.contract.headers import NATIVE
from schemas.contract.record import Headers, Output
from schemas.contract.topics import BOOKS_TOPIC, REJECTED_TOPIC, WINDOW_PARTIALS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import BOOKS, EXEMPLARS, REJECTED, Table
from schemas.rows.usage import USAGE
from stream_jobs.step import Commit
from stream_jobs.windows.books import Books, Rejection, missing_block, rejections_block
from stream_jobs.windows.changes import Changes
from stream_jobs.windows.emit import blocks_of, part_of
from stream_jobs.windows.plan import Plan

MESSAGE_BYTES_MAX = 4 * 1024 * 1024

Piece = tuple[int, bytes]
"""Rows and their bytes."""
Part = Callable[[Block, int, int], Block]
Pieces = dict[int, list[Piece]]
"""Pieces by target partition."""


def partials(
    plan: Plan, changes: Changes, commit: Commit, watermark_ms: int, partitions: int, job: str
) -> list[Output]:
    """At least one record of partials for every target partition, also without rows, so that progress is seen
    everywhere; exemplars, usage and shares go before them, so that a reader of the watermark has read all."""
    pieces: Pieces = {target: [] for target in range(partitions)}
    for segment in changes.segments:
        for target, block in blocks_of(plan, segment, partitions):
            pieces[target] += encoded(plan.table, block)
        segment.remember_sizes()
    beside = _beside(changes, partitions)
    outputs: list[Output] = []
    for target in range(partitions):
        parts = beside[target] + [(plan.table, *piece) for piece in pieces[target] or [(0, b"")]]
        for index, (table, rows, value) in enumerate(parts, 1):
            headers = (
                *_opening(table, commit, job),
                ("part", b"%d/%d" % (index, len(parts))),
                ("number", b"%d" % (commit.number + len(outputs))),
                ("watermark", b"%d" % (watermark_ms if index == len(parts) else 0)),
                ("rows", b"%d" % rows),
                ("idle", b"%d" % commit.idle),
            )
            outputs.append(Output(WINDOW_PARTIALS, target, None, value, headers))
    return outputs


def _beside(changes: Changes, partitions: int) -> dict[int, list[tuple[Table, int, bytes]]]:
    """What travels with partials, by target: exemplars, then usage, then shares."""
    pieces: dict[int, list[tuple[Table, int, bytes]]] = {target: [] for target in range(partitions)}
    for table, parts in ((EXEMPLARS, changes.exemplars), (USAGE, changes.usage), (SHARES, changes.shares)):
        for part in parts:
            for target, block in part.blocks(partitions).items():
                pieces[target] += [(table, *piece) for piece in encoded(table, block)]
    return pieces


def books(found: Books, commit: Commit, partitions: int, job: str) -> list[Output]:
    """The books of the commit; nothing for one that covers no offsets."""
    if commit.offset_from == commit.offset_to:
        return []
    return cut_outputs(BOOKS_TOPIC, BOOKS, found.block(job, commit), commit, partitions, job)


def missing(commit: Commit, partitions: int, job: str) -> list[Output]:
    """The books of a reset that leaves the offsets of the commit out; nothing where it covers none."""
    if commit.offset_from == commit.offset_to:
        return []
    return cut_outputs(BOOKS_TOPIC, BOOKS, missing_block(job, commit), commit, partitions, job)


def rejected(rejections: Sequence[Rejection], commit: Commit, partitions: int, job: str) -> list[Output]:
    """The rejected records and events of the commit, cut between rows where they are many."""
    outputs: list[Output] = []
    for group in _groups(rejections, lambda rejection: len(rejection.kept) + len(rejection.detail) + 256):
        block = rejections_block(group, commit.topic, commit.partition)
        outputs += cut_outputs(REJECTED_TOPIC, REJECTED, block, commit, partitions, job)
    return outputs


def cut_outputs(topic: str, table: Table, block: Block, commit: Commit, partitions: int, job: str) -> list[Output]:
    """The rows as records without progress, in the partition of their source partition."""
    opening, target = _opening(table, commit, job), commit.partition % partitions
    pieces = encoded(table, block, select_rows, MESSAGE_BYTES_MAX)
    return [Output(topic, target, None, value, (*opening, ("rows", b"%d" % rows))) for rows, value in pieces]


def _opening(table: Table, commit: Commit, job: str) -> Headers:
    return (
        ("schema", table.schema.encode()),
        ("content-type", NATIVE.encode()),
        ("job", job.encode()),
        ("source-topic", commit.topic.encode()),
        ("source-partition", b"%d" % commit.partition),
        ("offsets", b"%d-%d" % (commit.offset_from, commit.offset_to)),
    )


def encoded(table: Table, block: Block, part: Part = part_of, bytes_max: int = MESSAGE_BYTES_MAX) -> list[Piece]:
    """The block as Native, in pieces of about equal rows that each fit; a single row is never cut."""
    value = native.encode(table.fields, block)
    pieces = min(-(-len(value) // bytes_max), block.rows)
    if pieces <= 1:
        return [(block.rows, value)]
    bounds = pairwise(block.rows * piece // pieces for piece in range(pieces + 1))
    return [one for start, stop in bounds for one in encoded(table, part(block, start, stop), part, bytes_max)]


def select_rows(block: Block, start: int, stop: int) -> Block:
    """Rows ``[start, stop)`` of a block of any table."""
    rows = np.arange(block.rows)
    return select(block, (rows >= start) & (rows < stop))


def _groups(rejections: Sequence[Rejection], size: Callable[[Rejection], int]) -> list[list[Rejection]]:
    groups: list[list[Rejection]] = []
    room = 0
    for rejection in rejections:
        needed = size(rejection)
        if needed > room:
            groups.append([])
            room = MESSAGE_BYTES_MAX
        groups[-1].append(rejection)
        room -= needed
    return groups


def topics(partitions: Mapping[str, int]) -> tuple[int, int, int]:
    """How many partitions the three output topics have; ``KeyError`` when one is missing."""
    return partitions[WINDOW_PARTIALS], partitions[BOOKS_TOPIC], partitions[REJECTED_TOPIC]
