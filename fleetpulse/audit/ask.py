"""Ask a database the audit's questions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from fleetpulse.audit import checks
from fleetpulse.audit.checks import LISTED_MAX, Check
from fleetpulse.audit.report import Audit, Late
from fleetpulse.reconcile.holes import read_holes
from fleetpulse.report.amounts import instant
from fleetpulse.report.gather import span
from fleetpulse.sql.database import Database, Reader
from runtime.clock import SystemClock
from runtime.config import load
from schemas.errors import ConfigError
from schemas.limits import DERIVED_SETTLE_MS, MINUTE_MS
from stream_jobs.costs.account import Pricing
from stream_jobs.prices.load import load as load_prices
from stream_jobs.prices.model import Prices

Run = tuple[str | int | None, ...]
"""GPU, region, [from, until) in ms, then prices: GPU-hour, host for a GPU-hour, kWh, PUE, grid."""
_SETTINGS = " SETTINGS join_use_nulls = 0"
_TOO_YOUNG = "bills of younger minutes may still come"
VERSIONS = """
SELECT groupUniqArray(10)(ifNull(toString(prices_version), '')) FROM costs
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
"""


def live(last_ms: int, from_: str | None, to: str | None, prices: Path, with_prices: bool = True) -> Audit:
    """The tables that the configuration names, up to two minutes ago, or the range that is given. Without prices the
    audit is exact though bills were not priced again.

    Bills and what they are made of land by different ways: what is younger is left alone, also where it is in the
    range that is given. Raises ``ConfigError`` where all of that is."""
    now_ms, config = SystemClock().now_ms(), load()
    settled_ms = (now_ms - DERIVED_SETTLE_MS) // MINUTE_MS * MINUTE_MS
    from_ms, to_ms = span(last_ms, from_, to, settled_ms)
    if from_ms >= settled_ms:
        raise ConfigError("--from", from_ or instant(from_ms), f"must lie before {instant(settled_ms)}: {_TOO_YOUNG}")
    bounds = from_ms, min(to_ms, settled_ms)
    known = load_prices(prices)
    with contextlib.closing(Database(config.reading, consistent=True)) as database:
        holes = [str(hole) for hole in read_holes(database)]
        found = audit(database, *bounds, known, config.limits.kept_from_ms(now_ms))
        return replace(found, holes=holes, with_prices=with_prices, asked_to_ms=to_ms)


def audit(database: Reader, from_ms: int, to_ms: int, prices: Prices, kept_ms: int = 0) -> Audit:
    """All checks of the bills of [from_ms, to_ms), whole minutes. Readings and usage before ``kept_ms`` have expired:
    bills of those minutes are checked in themselves alone."""
    bounds = {"from_ms": from_ms, "to_ms": to_ms}
    kept = {**bounds, "from_ms": min(max(from_ms, -(-kept_ms // MINUTE_MS) * MINUTE_MS), to_ms)}
    found = [
        _check(database, "parts", checks.PARTS, bounds),
        _check(database, "measured GPU time and energy", checks.MEASURED_GPU, kept),
        _check(database, "measured requests and tokens", checks.MEASURED_USAGE, kept),
        _check(database, "start-up of engines", checks.STARTED, kept),
        _check(database, "shared GPUs by memory held", checks.SHARED, kept),
    ]
    unpriced = _why_not(database, bounds, prices)
    if not unpriced:
        priced = {**kept, "prices": runs(database, kept, prices)}
        again = _check(database, "priced again", checks.PRICED, priced)
        found += [again, _check(database, "emissions again", checks.EMITTED, priced)]
        if found[0].compared and not again.compared:
            unpriced = "of no bill in this range all readings are kept, measured and sized"
    for level, bucket_ms in checks.BUCKETS_MS.items():
        found.append(_check(database, f"rollup by {level}", checks.rollups(level), _whole(bounds, bucket_ms)))
    ((*counts, listed),) = database.sql(checks.LATE + _SETTINGS, kept).rows
    late = [Late(int(row[0]), row[1], *(int(n) for n in row[2:])) for row in listed]
    gpu_rows, usage_rows, share_rows, minutes, no_bill = map(int, counts)
    return Audit(
        from_ms,
        to_ms,
        found,
        gpu_rows,
        usage_rows,
        share_rows,
        minutes,
        late,
        unpriced,
        kept_ms=kept["from_ms"],
        no_bill_minutes=no_bill,
    )


def _whole(bounds: Mapping[str, int], bucket_ms: int) -> dict[str, int]:
    """The range with the rest of its first and last bucket."""
    from_ms, to_ms = bounds["from_ms"], bounds["to_ms"]
    return {"from_ms": from_ms // bucket_ms * bucket_ms, "to_ms": -(-to_ms // bucket_ms) * bucket_ms}


def _check(database: Reader, name: str, sql: str, parameters: Mapping[str, Any]) -> Check:
    ((compared, differing, difference, examples),) = database.sql(sql + _SETTINGS, parameters).rows
    if not compared:  # sums over nothing are null
        return Check(name, 0, 0, 0, [])
    return Check(name, int(compared), int(differing), int(difference), _said(examples, int(differing)))


def _said(examples: Sequence[Sequence[Any]], differing: int) -> list[str]:
    said = [f"{use} {owner}, {instant(at_ms)}: off by {off:,}" for use, owner, at_ms, off in examples]
    return said if differing <= LISTED_MAX else [*said, f"and {differing - LISTED_MAX:,} more"]


def _why_not(database: Reader, bounds: Mapping[str, int], prices: Prices) -> str:
    ((versions,),) = database.sql(VERSIONS, bounds).rows
    others = sorted(version for version in versions if version != prices.version)
    if not others:
        return ""
    named = ", ".join(version or "(none)" for version in others)
    return f"bills were rated with prices {named}, the file given is {prices.version}; give that one with --prices"


def runs(database: Reader, bounds: Mapping[str, int], prices: Prices) -> list[Run]:
    """Prices of every place and type of GPU in the range, in runs of minutes in which they stay the same."""
    pricing = Pricing(prices)
    places = sorted(tuple(row) for row in database.sql(checks.PLACES + _SETTINGS, bounds).rows)
    return [run for gpu, region in places for run in _runs(gpu, region, bounds, pricing)]


def _runs(gpu: str, region: str, bounds: Mapping[str, int], pricing: Pricing) -> Iterator[Run]:
    first_ms, held = bounds["from_ms"], pricing(gpu or None, region or None, bounds["from_ms"])
    for minute_ms in range(first_ms + MINUTE_MS, bounds["to_ms"], MINUTE_MS):
        now = pricing(gpu or None, region or None, minute_ms)
        if now != held:
            yield (gpu, region, first_ms, minute_ms, *astuple(held))
            first_ms, held = minute_ms, now
    yield (gpu, region, first_ms, bounds["to_ms"], *astuple(held))
