"""Minute buffers, bills and records of ``window.partials`` that the tests of the cost job share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, WINDOW_MS
from schemas.rows.costs import COSTS, USES
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS, Table
from schemas.rows.usage import USAGE
from stream_jobs.costs.account import Prices, cost_block
from stream_jobs.costs.minute_buffer import TABLES, BufferLimits, EmittedMinute, MinuteBuffer
from stream_jobs.costs.rows import Rows
from stream_jobs.costs.step import CostStep
from stream_jobs.costs.wide import ints

Row = tuple[str, tuple[Any, ...], tuple[int | None, ...]]
"""Table, key (``use`` as a word) and amounts of a row of the buffer."""
Bill = dict[str, Any]
LIST = {"H100": 3_600_000_000, "L4": 720_000_000}
BASE_MS = 1_699_999_980_000
SOURCES = {"gpu.samples": 1, "llm.requests": 1}
SETTLED_MS = MINUTE_MS + 15 * MINUTE_MS + 2_000
KEPT_MS = SETTLED_MS + 10 * MINUTE_MS
PART_FIELDS = tuple(field.name for field in COSTS.fields if field.name.startswith("part_"))
LINE_FIELDS = tuple(field.name for field in COSTS.fields if field.name.startswith("line_"))


def price_of(gpu_model: str | None, region: str | None, minute_ms: int) -> Prices:
    """No price for a type that is not listed; energy and host are free of charge in region ``north``."""
    priced = 0 if region == "north" else 100_000_000
    return Prices(LIST.get(gpu_model or ""), priced, priced, 1_200_000, 300_000_000)


def gpu_row(
    owner: str, gpu: str, *, use: str = "engine", window: int = 1, ms: int | None = 10_000, starting: int = 0, **of: Any
) -> Row:
    found = {"model": "H100", "region": "north", "host": "host-1", "parent": None, "profile": None, **of}
    energy_mj = None if ms is None else 700 * ms
    return "gpu", (use, owner, gpu, *found.values(), window), (ms, energy_mj, starting)


def share_row(
    owner: str, gpu: str, memory: int | None, sm: int | None = None, *, use: str = "engine", readings: int = 1
) -> Row:
    """What an engine held of a GPU, all of it told or none."""
    told = [(0 if amount is None else readings, amount) for amount in (memory, sm)]
    return "share", (use, owner, gpu), (readings, *told[0], *told[1])


def usage_row(owner: str, tenant: str | None, decode: int | None, status: str = "ok") -> Row:
    return "usage", ("engine", owner, tenant, "m", None, status), (1, 0, 0, decode, 0)


def add(buffer: MinuteBuffer, offset: int, row: Row, group: str = "group", minute_ms: int = 0) -> bool:
    """Add a row as the step does; whether it was taken."""
    table, key, amounts = row
    names = TABLES[table][0]
    codes = [
        USES.index(word) if name == "use" else word if name == "window" else buffer.words.code(_bytes(word))
        for name, word in zip(names, key, strict=True)
    ]
    group_code = buffer.groups.code(group.encode())
    offsets, minutes, groups = ints([offset]), ints([minute_ms]), ints([group_code])
    rows = Rows((groups, *(ints([code]) for code in codes)), tuple(ints([amount]) for amount in amounts))
    buffer.open(offsets, minutes, groups)
    return buffer.add(table, offsets, minutes, rows) == 0


def _bytes(word: str | None) -> bytes | None:
    return None if word is None else word.encode()


def filled(rows: Iterable[Row], limits: BufferLimits | None = None) -> MinuteBuffer:
    buffer = MinuteBuffer(limits or BufferLimits())
    for offset, row in enumerate(rows):
        assert add(buffer, offset, row)
    return buffer


def facts(told: Sequence[EmittedMinute]) -> list[tuple[str, int, int, bool]]:
    """Group, minute, revision, final of what was told."""
    return [
        ((one.group_words.list[group] or b"").decode(), one.minute_ms, revision, bool(final))
        for one in told
        for group, revision, final in zip(one.groups.tolist(), one.revision.tolist(), one.final.tolist(), strict=True)
    ]


def bills(told: Sequence[EmittedMinute]) -> list[Bill]:
    block = cost_block(told, price_of, "p1")
    return [] if block is None else bills_of(block)


def bills_of(block: Block) -> list[Bill]:
    """Rows with ``parts`` and ``lines`` as tuples."""
    found = []
    for row in rows_of(COSTS.fields, block):
        parts = list(zip(*(row.pop(name) for name in PART_FIELDS), strict=True))
        lines = list(zip(*(row.pop(name) for name in LINE_FIELDS), strict=True))
        found.append(row | {"parts": parts, "lines": lines})
    return found


def told_bills(rows: Iterable[Row]) -> list[Bill]:
    return bills(filled(rows).pass_to(MINUTE_MS))


def a_step(limits: BufferLimits | None = None, **more: Any) -> CostStep:
    return CostStep(DEFAULT_LIMITS, SOURCES, price_of, "p1", buffer_limits=limits, **more)


class Log:
    """Writes a partition of ``window.partials`` as the windows job does; ``records`` is what stands there."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._read: dict[str, int] = {}

    def gpu(self, window: int, rows: Sequence[Mapping[str, Any]] = (), *, through: int | None = None) -> None:
        """GPU rows of a window (counted from ``BASE_MS``); ``through`` windows have passed then."""
        self._commit("gpu.samples", PARTIALS["gpu.samples"], window, rows, through)

    def usage(self, window: int, rows: Sequence[Mapping[str, Any]] = (), *, through: int | None = None) -> None:
        """Usage rows of a window."""
        self._commit("llm.requests", USAGE, window, rows, through)

    def shares(self, window: int, rows: Sequence[Mapping[str, Any]] = (), *, through: int | None = None) -> None:
        """Share rows of a window."""
        self._commit("gpu.processes", SHARES, window, rows, through)

    def _commit(
        self, topic: str, table: Table, window: int, rows: Sequence[Mapping[str, Any]], through: int | None
    ) -> None:
        read = self._read[topic] = self._read.get(topic, 0) + 1
        watermark_ms = 0 if through is None else BASE_MS + through * WINDOW_MS
        headers = (
            ("schema", table.schema.encode()),
            ("source-topic", topic.encode()),
            ("source-partition", b"0"),
            ("offsets", b"%d-%d" % (read, read + 1)),
            ("number", b"%d" % read),
            ("previous", b"%d" % (read - 1) if read > 1 else b""),
            ("watermark", b"%d" % watermark_ms),
        )
        at = {"window_ms": BASE_MS + window * WINDOW_MS, "definition_version": 1}
        whole = [_zeros(table) | at | dict(row) for row in rows]
        value = native.encode(table.fields, block_from_rows(table.fields, whole)) if rows else b""
        offset = 2 * len(self.records)  # markers of transactions make holes
        self.records.append(Record(WINDOW_PARTIALS, 0, offset, at["window_ms"] + WINDOW_MS, None, value, headers))


def _zeros(table: Table) -> dict[str, Any]:
    return {field.name: 0 for field in table.fields if field.kind.numpy and not field.kind.optional}


def a_gpu(gpu: str, engine: str | None = "e", group: str | None = "g", ms: int | None = 10_000, **of: Any) -> Bill:
    base = {"grouping": "gpu", "gpu_uuid": gpu, "engine_id": engine, "placement_group": group, "host": "h-1"}
    kind = {"gpu_model": "H100", "region": "north"}
    return {**base, **kind, "interval_ms_sum": ms, "energy_mj_sum": None if ms is None else 700 * ms, **of}


def a_line(tenant: str | None, engine: str | None = "e", group: str | None = "g", **of: Any) -> Bill:
    base = {"tenant": tenant, "engine_id": engine, "placement_group": group, "model": "m", "status": "ok"}
    amounts = {"requests": 1, "prefill_tokens": 100, "cached_tokens": 0, "decode_tokens": 10, "kv_token_ms": 1_000}
    return {**base, **amounts, **of}


def a_share(gpu: str, engine: str = "e", group: str | None = "g", memory: int | None = 10, **of: Any) -> Bill:
    told = 0 if memory is None else 1
    figures = {"readings": 1, "memory_readings": told, "memory_bytes": memory, "sm_readings": 0}
    return {"gpu_uuid": gpu, "engine_id": engine, "placement_group": group, "host": "h-1", **figures, **of}


def emitted_rows(outputs: Sequence[Output]) -> list[Bill]:
    """Bills in the records of commits."""
    return [bill for one in outputs for bill in bills_of(native.decode(one.value or b"", COSTS.fields))]


def newest(rows: Iterable[Bill]) -> dict[tuple[Any, ...], Bill]:
    """Of every bill the row that counts."""
    found: dict[tuple[Any, ...], Bill] = {}
    for row in rows:
        key = tuple(row[name] for name in ("use", "owner", "placement_group", "minute_ms"))
        if key not in found or row["version"] >= found[key]["version"]:
            found[key] = row
    return found


def added(column: Iterable[int | None]) -> int | None:
    """Sum of what is known; None where nothing is."""
    known = [value for value in column if value is not None]
    return int(np.sum(known, dtype=np.int64)) if known else None
