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
``previous``          the number of the record before this one in this target partition; empty on the first that an
                      owner sends there
``watermark``         ms; on every part but the last 0 (nothing new): what it covers is not complete yet
``rows``              rows in the value; without rows the value is empty
``idle``              1 when the wall clock moved the watermark
====================  =================================================================================

A commit sends to a target partition what it has for it. Where it has nothing, it sends a record without rows only when
its watermark has passed the end of another window than the last that was announced there: readers act on ends of
windows alone; and never for a topic that nobody waits for. What was sent last is remembered by the owner, in no
snapshot: a new one announces everywhere once.
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
from schemas.limits import WINDOW_MS
from schemas.rows.gpu_shares import SHARES, SHARES_OF
from schemas.rows.tables import BOOKS, EXEMPLARS, REJECTED, Table
from schemas.rows.usage import USAGE
from stream_jobs.step import Commit
from stream_jobs.windows.books import Books, Rejection, missing_block, rejections_block
from stream_jobs.windows.changes import Changes, LastSent
from stream_jobs.windows.emit import blocks_of, part_of
from stream_jobs.windows.plan import Plan

MESSAGE_BYTES_MAX = 4 * 1024 * 1024

Piece = tuple[int, bytes]
"""Rows and their bytes."""
Part = Callable[[Block, int, int], Block]
Pieces = dict[int, list[tuple[Table, int, bytes]]]
"""Pieces of tables by target partition."""


def partials(
    plan: Plan,
    changes: Changes,
    commit: Commit,
    watermark_ms: int,
    last_sent: dict[int, LastSent],
    partitions: int,
    job: str,
) -> list[Output]:
    """The records for ``window.partials``, and notes them in ``last_sent`` by target partition. Exemplars, usage and
    shares go before partials, so that a reader of the watermark has read all."""
    pieces: Pieces = {target: [] for target in range(partitions)}
    for segment in changes.segments:
        for target, block in blocks_of(plan, segment, partitions):
            pieces[target] += [(plan.table, *piece) for piece in encoded(plan.table, block)]
        segment.remember_sizes()
    beside = _beside(changes, partitions)
    outputs: list[Output] = []
    for target in range(partitions):
        parts, last = beside[target] + pieces[target], last_sent.get(target)
        if not parts and is_waited_for(plan) and passes_another_window(watermark_ms, last):
            parts.append((plan.table, 0, b""))
        for index, (table, rows, value) in enumerate(parts, 1):
            number, announced_ms = commit.number + len(outputs), watermark_ms if index == len(parts) else 0
            headers = (
                *_opening(table, commit, job),
                ("part", b"%d/%d" % (index, len(parts))),
                ("number", b"%d" % number),
                ("previous", b"" if last is None else b"%d" % last.number),
                ("watermark", b"%d" % announced_ms),
                ("rows", b"%d" % rows),
                ("idle", b"%d" % commit.idle),
            )
            outputs.append(Output(WINDOW_PARTIALS, target, None, value, headers))
            last = last_sent[target] = LastSent(number, max(announced_ms, 0 if last is None else last.watermark_ms))
    return outputs


def is_waited_for(plan: Plan) -> bool:
    """Whether anybody waits for the watermark of the topic: finals for what they are made of, bills for shares, too."""
    return bool(plan.sets) or plan.event.topic == SHARES_OF


def passes_another_window(watermark_ms: int, last: LastSent | None) -> bool:
    """Whether a target partition that was sent ``last`` must hear of this watermark."""
    return watermark_ms // WINDOW_MS > (0 if last is None else last.watermark_ms // WINDOW_MS)


def _beside(changes: Changes, partitions: int) -> Pieces:
    """What travels with partials, by target: exemplars, then usage, then shares."""
    pieces: Pieces = {target: [] for target in range(partitions)}
    for table, parts in ((EXEMPLARS, changes.exemplars), (USAGE, changes.usage), (SHARES, changes.shares)):
        for part in parts:
            for target, block in part.blocks(partitions).items():
                pieces[target] += [(table, *piece) for piece in encoded(table, block, select_rows)]
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
