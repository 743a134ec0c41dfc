"""Rows of ``window.partials`` as rows of the buffer: time and energy by GPU and holder, usage by engine and line, what
engines hold of GPUs that they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.codec.block import Block
from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.gpu_shares import SHARES, SHARES_AMOUNTS
from schemas.rows.tables import PARTIALS, Table
from schemas.rows.usage import USAGE, USAGE_AMOUNTS
from stream_jobs.costs.minute_buffer import ENGINE, IDLE, TRAINING, MinuteBuffer
from stream_jobs.costs.rows import Rows, Words
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints
from stream_jobs.finals.decode import Decoded
from stream_jobs.windows.columns import whole_of

GPU = PARTIALS["gpu.samples"]
TABLES: dict[str, Table] = {table.schema: table for table in (GPU, USAGE, SHARES)}
"""What costs are made of, by schema."""
_TRAINING = (b"training", b"fine_tuning")
_STARTING = (b"startup",)


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows for a table of the buffer, with the record and the minute of each; records rise."""

    table: str
    record: Ints
    minutes: Ints
    rows: Rows

    def of(self, first: int, stop: int) -> Taken:
        """The rows of records ``[first, stop)``."""
        start, end = np.searchsorted(self.record, [first, stop]).tolist()
        which = slice(start, end)
        return Taken(self.table, self.record[which], self.minutes[which], self.rows.of(which))


def taken(decoded: Decoded, buffer: MinuteBuffer) -> Taken:
    """The rows of a table with the buffer's codes for their words."""
    table, rows = _TAKEN[decoded.table.schema]
    minutes = decoded.windows - decoded.windows % MINUTE_MS
    return Taken(table, decoded.record_of, minutes, rows(decoded, buffer))


def _gpu(decoded: Decoded, buffer: MinuteBuffer) -> Rows:
    block, words = decoded.block, buffer.words
    engine, host = words.codes(block.labels("engine_id")), words.codes(block.labels("host"))
    keys = (
        _groups(block, buffer.groups),
        np.where(engine > 0, ENGINE, np.where(_works(block, _TRAINING), TRAINING, IDLE)),
        np.where(engine > 0, engine, host),
        *(words.codes(block.labels(name)) for name in ("gpu_uuid", "gpu_model", "region")),
        host,
        *(words.codes(block.labels(name)) for name in ("parent_uuid", "mig_profile")),
        decoded.windows % MINUTE_MS // WINDOW_MS,
    )
    gpu_ms = whole_of(block, "interval_ms_sum")
    starting = (engine > 0) & _works(block, _STARTING) & (gpu_ms != UNKNOWN)
    return Rows(keys, (gpu_ms, whole_of(block, "energy_mj_sum"), np.where(starting, gpu_ms, 0)))


def _usage(decoded: Decoded, buffer: MinuteBuffer) -> Rows:
    block, words = decoded.block, buffer.words
    engine = words.codes(block.labels("engine_id"))
    keys = (
        _groups(block, buffer.groups),
        np.full(block.rows, ENGINE, dtype=np.int64),
        np.where(engine > 0, engine, words.code(b"")),
        *(words.codes(block.labels(name)) for name in ("tenant", "model", "slo_class", "status")),
    )
    return Rows(keys, tuple(whole_of(block, name) for name in USAGE_AMOUNTS))


def _shares(decoded: Decoded, buffer: MinuteBuffer) -> Rows:
    block, words = decoded.block, buffer.words
    keys = (
        _groups(block, buffer.groups),
        np.full(block.rows, ENGINE, dtype=np.int64),
        *(words.codes(block.labels(name)) for name in ("engine_id", "gpu_uuid")),
    )
    return Rows(keys, tuple(whole_of(block, name) for name in SHARES_AMOUNTS))


_TAKEN = {GPU.schema: ("gpu", _gpu), USAGE.schema: ("usage", _usage), SHARES.schema: ("share", _shares)}
"""The buffer's table and how its rows are made, by schema."""


def _groups(block: Block, groups: Words) -> Ints:
    """The placement group, else the host, else the empty name."""
    group, host = groups.codes(block.labels("placement_group")), groups.codes(block.labels("host"))
    found = np.where(group > 0, group, host)
    return np.where(found > 0, found, groups.code(b""))


def _works(block: Block, workloads: tuple[bytes, ...]) -> Flags:
    """Which rows are of one of these workloads."""
    column = block.labels("workload")
    return np.array([word in workloads for word in column.words], dtype=np.bool_)[column.codes]
