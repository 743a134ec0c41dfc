"""A rerate on the database: stored windows in, what stood put aside, new bills in; then what has changed.

The bills that stand are copied to ``token_costs_replaced`` before new ones are written with a greater version. Killed
anywhere, it may be run again: a copy has the identity of what it is a copy of, and a bill that was replaced already is
replaced once more. Rollups are noted before and behind the bills, as a repair notes them, so that those of a rerate
that was killed are computed again by the next of either.

A bill that holds rows which are not stored any more is left as it is: what would take its place is a part of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fleetpulse.repair.notes import Notes
from fleetpulse.rerate.run import Key, Stored, complete, fields_of, keys_of, newer, rerated, total_nusd
from fleetpulse.sql.database import Database
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.contract.topics import COSTS_TOPIC
from schemas.ddl.stored import LANDED
from schemas.ddl.tables import REPLACED
from schemas.errors import ConfigError
from schemas.fields import Kind
from schemas.limits import DAY_MS, DEFAULT_LIMITS, MINUTE_MS, Limits
from schemas.rows.costs import COST_KEY, COSTS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS, Table
from schemas.rows.usage import USAGE
from sinks.database import SinkDatabase
from sinks.landing import Insert
from stream_jobs.costs.account import Pricing
from stream_jobs.costs.isolation import Failed
from stream_jobs.costs.minute_buffer import BufferLimits
from stream_jobs.prices.model import Prices, instant_text

CHUNK_MS = 10 * MINUTE_MS
GPU = PARTIALS["gpu.samples"]
_BOUNDS = "minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}"
NAMED_MAX = 20
"""Bills that are left for incomplete windows, of which each is named."""
ReportProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Change:
    """What a tenant's costs were and are."""

    tenant: str | None
    before_nusd: int | None
    after_nusd: int | None


@dataclass(frozen=True, slots=True)
class Rerated:
    """The difference. ``added`` bills did not stand before; ``left`` ones have no stored rows any more, or not all that
    they hold (``incomplete`` of them, the first named in ``incomplete_bills``), or could not be made, and stand as they
    were. ``written`` False: it was only computed. ``failed``: of what they could not be made, a defect of ours."""

    rerate: str
    from_ms: int
    to_ms: int
    prices_version: str
    written: bool
    bills: int
    added: int
    left: int
    before_nusd: int
    after_nusd: int
    tenants: tuple[Change, ...] = ()
    failed: tuple[Failed, ...] = ()
    incomplete: int = 0
    incomplete_bills: tuple[Key, ...] = ()

    @property
    def difference_nusd(self) -> int:
        """How much more it is now."""
        return self.after_nusd - self.before_nusd


def check_range(from_ms: int, to_ms: int, now_ms: int, limits: Limits) -> None:
    """Raise ``ConfigError`` for minutes that the cost job may still emit, and for those whose rows expire."""
    job = BufferLimits()
    newest_ms = now_ms - job.settle_ms - job.keep_ms - 2 * MINUTE_MS
    if to_ms > newest_ms:
        raise ConfigError("--to", to_ms, "must be half an hour ago or more: newer minutes are still the cost job's")
    if from_ms < now_ms - limits.partials_ttl_ms + DAY_MS:
        days = limits.partials_ttl_ms // DAY_MS - 1
        raise ConfigError("--from", from_ms, f"must be at most {days} days ago: windows are not kept longer")


def check_final(config: ClickHouseConfig, bounds: tuple[int, int], limits: Limits) -> None:
    """Raise ``ConfigError`` where bills stand that the cost job will publish once more, above ours."""
    with contextlib.closing(Database(config, consistent=True)) as reader:
        _check_final(reader, bounds, limits)


def _check_final(reader: Database, bounds: tuple[int, int], limits: Limits) -> None:
    """Raise as ``check_final``. Minutes of which the cost job has no records any more are left out: what is not final
    there, as after a loss, stays so until it is rated."""
    since_ms = SystemClock().now_ms() - limits.partials_retention_ms - DAY_MS
    sql = f"SELECT count(), min(minute_ms) FROM token_costs FINAL WHERE {_BOUNDS} AND final = 0"
    ((bills, first_ms),) = reader.sql(sql, {"from_ms": max(bounds[0], since_ms), "to_ms": bounds[1]}).rows
    if bills:
        raise ConfigError(
            "--to",
            bounds[1],
            f"must be {instant_text(first_ms)} or before for now: the cost job has yet to make {bills} bills from then"
            " on final; wait until its fleetpulse_cost_through_seconds is half an hour past --to",
        )


def rerate(
    config: ClickHouseConfig,
    bounds: tuple[int, int],
    prices: Prices,
    rerate_id: str,
    report_progress: ReportProgress = lambda done, total: None,
    *,
    dry_run: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Rerated:
    """Compute all bills of [from, to) again; write them unless ``dry_run``. ``config`` is the writer's. Raises
    ``ConfigError`` where the cost job is so far behind that bills of these minutes are not final."""
    from_ms, to_ms = bounds
    pricing = Pricing(prices)
    sums, failed, incomplete = _Sums(), list[Failed](), list[Key]()
    with (
        contextlib.closing(SinkDatabase(config, consistent=True)) as writer,
        contextlib.closing(Database(config, consistent=True)) as reader,
    ):
        for table in (GPU, USAGE, SHARES, COSTS):
            writer.sync(table.name)  # bills of what one replica lacks would be final
        _check_final(reader, bounds, limits)
        notes = Notes(writer)
        if not dry_run:
            notes.resume(notes.unfinished())
        for number, (first_ms, end_ms) in enumerate(_chunks(from_ms, to_ms)):
            stood = _standing(reader, first_ms, end_ms)
            block, unmade = rerated(
                [_stored(reader, table, first_ms, end_ms) for table in (GPU, USAGE, SHARES)], pricing, prices.version
            )
            failed += unmade
            if block is not None:
                block, short = complete(block, {key: one.revision for key, one in stood.items()})
                incomplete += short
            sums.add(block, {key: one.total_nusd for key, one in stood.items()})
            if stood and not dry_run:
                _put_aside(writer, first_ms, end_ms, rerate_id)
            if block is not None and not dry_run:
                buckets = [(COSTS_TOPIC, at_ms) for at_ms in range(first_ms, end_ms, MINUTE_MS)]
                notes.begin(buckets)
                versions = {key: one.version for key, one in stood.items()}
                writer.insert([_insert(newer(block, versions), rerate_id, number)])
                notes.finish(buckets)
            report_progress(end_ms - from_ms, to_ms - from_ms)
        changes = () if dry_run else _changes(reader, bounds, rerate_id)
    counts = sums.bills, sums.added, sums.left, sums.before_nusd, sums.after_nusd
    left = len(incomplete), tuple(incomplete[:NAMED_MAX])
    return Rerated(rerate_id, from_ms, to_ms, prices.version, not dry_run, *counts, changes, tuple(failed), *left)


@dataclass(slots=True)
class _Sums:
    """Counts of ``Rerated`` so far."""

    bills: int = 0
    added: int = 0
    left: int = 0
    before_nusd: int = 0
    after_nusd: int = 0

    def add(self, block: Block | None, stood_nusd: Mapping[Key, int]) -> None:
        """Bills of some minutes, and what those of the same minutes came to that stood."""
        keys = set() if block is None else set(keys_of(block))
        self.bills += len(keys)
        self.added += len(keys - stood_nusd.keys())
        self.left += len(stood_nusd.keys() - keys)
        self.before_nusd += sum(stood_nusd.values())
        self.after_nusd += sum(nusd for key, nusd in stood_nusd.items() if key not in keys)
        self.after_nusd += 0 if block is None else total_nusd(block)


def _chunks(from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    for first_ms in range(from_ms, to_ms, CHUNK_MS):
        yield first_ms, min(to_ms, first_ms + CHUNK_MS)


class _Stood(NamedTuple):
    """Of a bill that stands."""

    version: int
    total_nusd: int
    revision: int


def _standing(reader: Database, from_ms: int, to_ms: int) -> dict[Key, _Stood]:
    """Every bill that stands."""
    picked = f"{', '.join(COST_KEY)}, version, ifNull(total_nusd, 0), revision"
    rows = reader.sql(
        f"SELECT {picked} FROM token_costs FINAL WHERE {_BOUNDS}", {"from_ms": from_ms, "to_ms": to_ms}
    ).rows
    return {tuple(row[:4]): _Stood(*row[4:]) for row in rows}


def _stored(reader: Database, table: Table, from_ms: int, to_ms: int) -> Stored:
    """Rows of a table of windows, in the order of their offsets."""
    fields = fields_of(table)
    picked = ", ".join(
        f"CAST({field.name}, 'Nullable(String)')" if field.kind is Kind.LABEL else field.name for field in fields
    )
    where = "grouping = 'gpu' AND " if table is GPU else ""
    rows = reader.sql(
        f"SELECT {picked} FROM {table.name} FINAL WHERE {where}window_ms >= {{from_ms:Int64}}"
        " AND window_ms < {to_ms:Int64} ORDER BY log_partition, log_offset, log_row",
        {"from_ms": from_ms, "to_ms": to_ms},
    ).rows
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(fields)
    return Stored(table, {field.name: column for field, column in zip(fields, columns, strict=True)})


def _put_aside(writer: SinkDatabase, from_ms: int, to_ms: int, rerate_id: str) -> None:
    names = ", ".join(field.name for field in LANDED[COSTS.schema].fields)
    writer.command(
        f"INSERT INTO {REPLACED} ({names}, rerate) SELECT {names}, '{rerate_id}' FROM token_costs FINAL"
        f" WHERE minute_ms >= {int(from_ms)} AND minute_ms < {int(to_ms)}"
    )


def _insert(block: Block, rerate_id: str, number: int) -> Insert:
    rows = block.rows
    identity: dict[str, Column] = {
        "log_id": Labels(np.ones(rows, np.uint8), [None, f"rerate-{rerate_id}".encode()]),
        "log_partition": Numbers(np.zeros(rows, np.uint32)),
        "log_offset": Numbers(np.full(rows, number, np.uint64)),
        "log_row": Numbers(np.arange(rows, dtype=np.uint32)),
    }
    fields = LANDED[COSTS.schema].fields
    whole = Block(rows, {**block.columns, **identity})
    return Insert(COSTS.name, tuple(field.name for field in fields), native.pieces(fields, whole), rows)


def _changes(reader: Database, bounds: tuple[int, int], rerate_id: str) -> tuple[Change, ...]:
    parameters: dict[str, int | str] = {"from_ms": bounds[0], "to_ms": bounds[1], "rerate": rerate_id}
    rows = reader.named("cost_rerated", parameters).rows
    return tuple(Change(*row) for row in rows)
