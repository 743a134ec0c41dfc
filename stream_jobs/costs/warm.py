"""Compiling ahead of time: see ``stream_jobs.warm_rows``."""

from __future__ import annotations

from schemas.contract.topics import WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS
from schemas.rows.usage import USAGE
from stream_jobs.costs.account import Prices
from stream_jobs.costs.step import CostStep
from stream_jobs.step import Commit
from stream_jobs.warm_rows import partials_record

_AT_MS = 1_699_999_980_000


def warm() -> None:
    """Run everything the job runs once on tiny input; compiles what is not in the cache."""
    step = CostStep(DEFAULT_LIMITS, {"gpu.samples": 1}, lambda *_: Prices(1, 1, 1, 1_000_000, 1), "")
    state, changes = step.new(WINDOW_PARTIALS, 0), step.changes()
    given = {"window_ms": _AT_MS, "parent_uuid": None, "mig_profile": None}
    records = [
        partials_record(table, "gpu.samples", n, _AT_MS + MINUTE_MS, _AT_MS + n * MINUTE_MS, **given)
        for n, table in enumerate((USAGE, SHARES, PARTIALS["gpu.samples"]))
    ]
    step.fold(state, records, changes)
    step.rows(state, changes, Commit(WINDOW_PARTIALS, 0, 0, 3, 0, _AT_MS, idle=False))
    step.load(WINDOW_PARTIALS, 0, step.dump(state))
