"""Compiling ahead of time: see ``stream_jobs.windows.warm``."""

from __future__ import annotations

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.fields import Field, Kind, Table
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS
from schemas.rows.usage import USAGE
from stream_jobs.costs.account import Prices
from stream_jobs.costs.step import CostStep
from stream_jobs.step import Commit

_AT_MS = 1_699_999_980_000


def warm() -> None:
    """Run everything the job runs once on tiny input; compiles what is not in the cache."""
    step = CostStep(DEFAULT_LIMITS, {"gpu.samples": 1}, lambda *_: Prices(1, 1, 1, 1_000_000), "")
    state, changes = step.new(WINDOW_PARTIALS, 0), step.changes()
    step.fold(state, [_a_record(table, n) for n, table in enumerate((USAGE, SHARES, PARTIALS["gpu.samples"]))], changes)
    step.rows(state, changes, Commit(WINDOW_PARTIALS, 0, 0, 3, 0, _AT_MS, idle=False))
    step.load(WINDOW_PARTIALS, 0, step.dump(state))


def _a_record(table: Table, number: int) -> Record:
    row = {field.name: _a_value(field) for field in table.fields} | {"window_ms": _AT_MS}
    headers = (
        ("schema", table.schema.encode()),
        ("source-topic", b"gpu.samples"),
        ("source-partition", b"0"),
        ("offsets", b"%d-%d" % (number, number + 1)),
        ("number", b"%d" % number),
        ("watermark", b"%d" % (_AT_MS + number * MINUTE_MS)),
    )
    value = native.encode(table.fields, block_from_rows(table.fields, [row]))
    return Record(WINDOW_PARTIALS, 0, number, _AT_MS + MINUTE_MS, None, value, headers)


def _a_value(field: Field) -> object:
    if field.kind is Kind.LABEL:
        return None if field.name in ("parent_uuid", "mig_profile") else (field.allowed or ("warm",))[0]
    return {0: 1} if field.kind is Kind.BINS else min(100, 100 if field.high is None else field.high)
