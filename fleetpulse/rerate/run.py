"""Costs computed again from stored windows, with other prices, and with rows that came too late for the cost job.

Rows of GPU readings and of usage go through the cost job's own buffer and account, minute by minute; the result is what
the job would have emitted had all of them come in time and had it known these prices. Pure but for what it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block, Labels, Numbers
from schemas.codec.select import select
from schemas.codec.values import column_of
from schemas.fields import Field, Kind, Role
from schemas.limits import DAY_MS
from schemas.rows.costs import COSTS
from schemas.rows.tables import PARTIALS, Table
from stream_jobs.costs.account import PriceOf, cost_block
from stream_jobs.costs.intake import taken
from stream_jobs.costs.isolation import Failed, made
from stream_jobs.costs.minute_buffer import BufferLimits, MinuteBuffer
from stream_jobs.costs.wide import Ints
from stream_jobs.finals.decode import Decoded

GPU_NAMES = ("window_ms", "engine_id", "host", "workload", "placement_group", "gpu_uuid", "gpu_model", "region",
             "parent_uuid", "mig_profile", "interval_ms_sum", "energy_mj_sum")  # fmt: skip
OFFSET = Field("log_offset", Kind.UINT64, Role.ATTRIBUTE, "", "offset in window.partials")
Key = tuple[str, str, str, int]
"""Use, owner, placement group and minute of a bill."""


def fields_of(table: Table) -> tuple[Field, ...]:
    """The columns that bills are made of, the offset behind them."""
    names = GPU_NAMES if table is PARTIALS["gpu.samples"] else [field.name for field in table.fields]
    known = {field.name: field for field in table.fields}
    return (*(known[name] for name in names), OFFSET)


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of a table in the order of their offsets, as columns named like ``fields_of``."""

    table: Table
    columns: Mapping[str, Sequence[Any]]


def rerated(stored: Sequence[Stored], price_of: PriceOf, prices_version: str) -> tuple[Block | None, list[Failed]]:
    """Bills of all minutes of these rows, all of them final, None where there are none; and the groups and minutes of
    which they cannot be made."""
    buffer = MinuteBuffer(BufferLimits(settle_ms=0, keep_ms=DAY_MS, minutes_max=2**31))
    for one in stored:
        if len(one.columns["window_ms"]):
            _add(buffer, one)
    last_ms = max(buffer.minutes, default=0)
    emitted = buffer.pass_to(last_ms + 2 * buffer.limits.every_ms)
    blocks, failed = made(emitted, lambda some: cost_block(some, price_of, prices_version))
    return native.concat(COSTS.fields, blocks) if blocks else None, failed


def _add(buffer: MinuteBuffer, stored: Stored) -> None:
    fields = fields_of(stored.table)
    columns = {field.name: column_of(field, number, list(stored.columns[field.name]))[0]
               for number, field in enumerate(fields)}  # fmt: skip
    block = Block(rows := len(stored.columns["window_ms"]), columns)
    windows = block.numbers("window_ms").values
    decoded = Decoded(stored.table, block, np.arange(rows, dtype=np.int64), windows)
    found, at = taken(decoded, buffer), block.numbers(OFFSET.name).values.astype(np.int64)
    buffer.open(at, found.minutes, found.rows.keys[0])
    late = buffer.add(found.table, at, found.minutes, found.rows)
    assert not late, late


def complete(block: Block, revisions: Mapping[Key, int]) -> tuple[Block | None, list[Key]]:
    """The bills that hold every row which the bills that stand hold, None where there are none, and keys of the others:
    a bill whose revision is below the standing one's lacks at least the row of that revision, which is not stored any
    more, or never was."""
    keys, computed = keys_of(block), block.numbers("revision").values.tolist()
    keep = np.array([own >= revisions.get(key, 0) for key, own in zip(keys, computed, strict=True)], dtype=np.bool_)
    found = select(block, keep)
    return found if found.rows else None, [key for key, kept in zip(keys, keep.tolist(), strict=True) if not kept]


def newer(block: Block, versions: Mapping[Key, int]) -> Block:
    """The same bills, each with a version above the one that stands, and even: those of the cost job's final bills are
    odd, so that none of these equals one of them."""
    numbers = block.numbers("version")
    stood = np.array([versions.get(key, -1) for key in keys_of(block)], dtype=np.int64)
    above = np.maximum(numbers.values.astype(np.int64), stood) | 1
    column = Numbers((above + 1).astype(np.uint64))
    return Block(block.rows, {**block.columns, "version": column})


def keys_of(block: Block) -> list[Key]:
    """What each bill is of."""
    minutes = block.numbers("minute_ms")
    words = [_words(block.labels(name)) for name in ("use", "owner", "placement_group")]
    return list(zip(*words, minutes.values.tolist(), strict=True))


def _words(column: Labels) -> list[str]:
    words = [(word or b"").decode() for word in column.words]
    return [words[code] for code in column.codes.tolist()]


def total_nusd(block: Block) -> int:
    """The sum of all bills, what has no price left out."""
    column = block.numbers("total_nusd")
    values: Ints = column.values if column.known is None else column.values[column.known]
    return int(values.sum())
