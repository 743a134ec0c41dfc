"""The audit of money on a real ClickHouse: a simulated stretch is exact, what is wrong is found, a rerate mends.

Covers lab.audit.path.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.audit.ask import audit
from fleetpulse.audit.report import Audit
from fleetpulse.rerate.store import check_range, rerate
from fleetpulse.sql.database import Database
from lab.audit.day import Day, day_of
from lab.audit.delays import DELAYS, Lateness
from lab.audit.simulated import SimulatedAudit, audit_day, own_database
from runtime.config import ClickHouseConfig
from schemas.contract.topics import COSTS_TOPIC
from schemas.ddl.cost_rollups import table_of
from schemas.ddl.merging import LEVELS
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS, MINUTE_MS
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from stream_jobs.prices.load import load, parse_prices
from stream_jobs.prices.model import Prices

pytestmark = pytest.mark.integration

SHARES = (300, 200, 100, 400)
EXAMPLE = Path(__file__).parents[2] / "fleetpulse" / "data" / "prices" / "example.yaml"
MINUTES = 32
LATENESS = Lateness(0.05, tuple(replace(one, per_mille=share) for one, share in zip(DELAYS, SHARES, strict=True)))
"""Much comes late, and much of that after its minute was forgotten, whatever hour of the day is simulated."""


@pytest.fixture(scope="module")
def simulated(stack: Any) -> Iterator[tuple[ClickHouseConfig, Day, SimulatedAudit]]:
    """Half an hour of the fleet with much late data, in a database of its own, and what the audit says of them."""
    begin_ms = (int(time.time() * 1_000) - 3 * HOUR_MS) // HOUR_MS * HOUR_MS
    day = day_of(3, begin_ms, MINUTES / 60, requests_per_s=0.5)
    with own_database(stack.clickhouse) as config:
        yield config, day, audit_day(config, day, load(EXAMPLE), lateness=LATENESS)


@contextlib.contextmanager
def reading(config: ClickHouseConfig) -> Iterator[Database]:
    database = Database(config)
    try:
        yield database
    finally:
        database.close()


@contextlib.contextmanager
def put_back(writer: SinkDatabase, *tables: str) -> Iterator[None]:
    """Rows of these tables may be changed inside; afterwards they are what they were."""
    for table in tables:
        writer.command(f"CREATE TABLE kept_{table} AS {table}")
        writer.command(f"INSERT INTO kept_{table} SELECT * FROM {table} FINAL")
    try:
        yield
    finally:
        for table in tables:
            writer.command(f"TRUNCATE TABLE {table}")
            writer.command(f"INSERT INTO {table} SELECT * FROM kept_{table}")
            writer.command(f"DROP TABLE kept_{table} SYNC")


def inside(day: Day) -> str:
    """The minutes of the day: its last reading is of the minute behind it."""
    return f"minute_ms >= {day.begin_ms} AND minute_ms < {day.end_ms}"


def asked(config: ClickHouseConfig, day: Day, prices: Prices, kept_ms: int = 0) -> Audit:
    with reading(config) as database:
        return audit(database, day.begin_ms, day.end_ms, prices, kept_ms)


def test_where_nothing_was_billed_nothing_differs(simulated: tuple[ClickHouseConfig, Day, SimulatedAudit]) -> None:
    """Hours before the day: every check but the sum of the whole day says that it compared nothing."""
    config, day, _ = simulated
    with reading(config) as database:
        found = audit(database, day.begin_ms - 3 * HOUR_MS, day.begin_ms - 2 * HOUR_MS, load(EXAMPLE))

    compared = {check.name for check in found.checks if check.compared}
    assert {(check.differing, check.difference) for check in found.checks} == {(0, 0)}
    assert compared <= {"rollup by day"}
    assert len(found.checks) >= 6


def test_a_simulated_stretch_is_exact(simulated: tuple[ClickHouseConfig, Day, SimulatedAudit]) -> None:
    """Not a nano-dollar differs: killed jobs, late data, groups over hosts, MIG, GPUs taken in turns."""
    _, _, found = simulated

    assert [(check.name, check.differing, check.difference) for check in found.checks] == [
        ("parts", 0, 0),
        ("measured GPU time and energy", 0, 0),
        ("measured requests and tokens", 0, 0),
        ("start-up of engines", 0, 0),
        ("shared GPUs by memory held", 0, 0),
        ("priced again", 0, 0),
        ("emissions again", 0, 0),
        ("rollup by hour", 0, 0),
        ("rollup by day", 0, 0),
    ]
    assert all(check.compared > 0 for check in found.checks)
    assert found.simulated["commits_unlike_undisturbed"] == 0
    assert found.simulated["late_rows"] == found.late_rows > 0
    assert found.exact
    assert found.bills > 12 * MINUTES


def test_every_way_of_holding_a_gpu_is_in_it(simulated: tuple[ClickHouseConfig, Day, SimulatedAudit]) -> None:
    """A group on two hosts, MIG devices with slices that nobody holds, engines that share a group, and a GPU."""
    config, _, _ = simulated
    with reading(config) as database:
        hosts = database.sql("SELECT countIf(host IS NULL), uniqExact(owner) FROM costs WHERE use = 'engine'").rows[0]
        groups = database.sql("SELECT uniqExact(owner) FROM costs GROUP BY placement_group ORDER BY 1 DESC").rows
        devices = database.sql("SELECT uniqExact(gpu_uuid) FROM gpu_samples_partials WHERE mig_profile != ''").rows

        shared = database.sql("SELECT groupUniqArray(engine_id), uniqExact(window_ms) FROM gpu_shares FINAL").rows[0]

    assert hosts[0] > 0
    assert (sorted(shared[0]), shared[1] >= MINUTES) == (["h-1/3", "h-1/4"], True)
    assert groups[0][0] == 3
    assert devices[0][0] == 3


def test_bills_whose_readings_have_expired_are_not_compared_with_them(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """Readings of the first half are gone, as after 30 days: its bills do not differ, they are not compared."""
    config, day, _ = simulated
    expired = ("gpu_samples_partials", "usage", "gpu_shares")
    middle_ms = (day.begin_ms + day.end_ms) // 2 // MINUTE_MS * MINUTE_MS
    with contextlib.closing(SinkDatabase(config)) as writer, put_back(writer, *expired):
        for table in expired:
            writer.command(f"ALTER TABLE {table} DELETE WHERE window_ms < {middle_ms}", {"mutations_sync": 2})
        differing = {one.name for one in asked(config, day, load(EXAMPLE)).checks if one.differing}
        half, none = (asked(config, day, load(EXAMPLE), kept_ms) for kept_ms in (middle_ms, day.end_ms + DAY_MS))

    measured = {"measured GPU time and energy", "measured requests and tokens"}
    assert measured <= differing
    assert (half.kept_ms, {(one.differing, one.compared > 0) for one in half.checks}) == (middle_ms, {(0, True)})
    assert {one.name for one in none.checks if one.compared} == {"parts", "rollup by hour", "rollup by day"}
    assert (none.differing, none.exact, none.priced) == (False, False, False)


def off_by_one(column: str) -> str:
    """One more in the first element of a list."""
    return f"{column} = arrayMap((n, i) -> n + (i = 1), {column}, arrayEnumerate({column}))"


WRONG = {
    "parts": off_by_one("part_cost_nusd"),
    "measured GPU time and energy": f"gpu_ms = gpu_ms + 1, {off_by_one('part_gpu_ms')}",
    "measured requests and tokens": off_by_one("line_requests"),
    "priced again": f"total_nusd = total_nusd + 1, gpu_nusd = gpu_nusd + 1, {off_by_one('part_cost_nusd')}",
    "start-up of engines": "part_gpu_ms = arrayMap((n, i) -> n + (i = 1) - (i = 2), part_gpu_ms,"
    " arrayEnumerate(part_gpu_ms))",
}
"""By the check that must find it, how a bill is made wrong by one nano-dollar, millisecond or request."""
ALONE = "(owner, minute_ms) IN (SELECT owner, minute_ms FROM costs GROUP BY owner, minute_ms HAVING count() = 1)"
"""An owner whose GPUs changed their group within a minute has a bill for each."""
PICK = (
    "SELECT owner, minute_ms FROM costs WHERE use = 'engine' AND length(line_requests) > 1 AND estimated_gpu_ms = 0"
    f" AND total_nusd IS NOT NULL AND part_kind[1] != 'startup' AND {ALONE} AND minute_ms >= {{}}"
    " ORDER BY minute_ms, owner LIMIT 1 BY minute_ms LIMIT 4"
)
PICK_STARTED = (
    "SELECT owner, minute_ms FROM costs WHERE use = 'engine' AND part_kind[1] = 'startup' AND length(part_kind) > 1"
    f" AND {ALONE} AND minute_ms >= {{}} LIMIT 1"
)


def test_bills_that_are_off_by_one_are_found(simulated: tuple[ClickHouseConfig, Day, SimulatedAudit]) -> None:
    """Each check names the one bill that is wrong in its way, and the audit is not exact."""
    config, day, _ = simulated
    with contextlib.closing(SinkDatabase(config)) as writer:
        bills = [*writer.rows(PICK.format(day.begin_ms)), *writer.rows(PICK_STARTED.format(day.begin_ms))]
        with put_back(writer, "token_costs"):
            for (owner, minute_ms), change in zip(bills, WRONG.values(), strict=True):
                where = f"owner = '{owner}' AND minute_ms = {minute_ms}"
                writer.command(f"ALTER TABLE token_costs UPDATE {change} WHERE {where}", {"mutations_sync": 2})
            found = asked(config, day, load(EXAMPLE))

    differing = {one.name: (one.differing, one.difference) for one in found.checks if one.name in WRONG}
    assert differing == dict.fromkeys(WRONG, (1, 1))
    assert not found.exact


def test_a_rollup_that_reports_read_and_is_off_by_one_is_found(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """It is a table of its own: the views by hour and day are sums of the bills themselves."""
    config, day, _ = simulated
    minutes = range(day.begin_ms, day.end_ms + MINUTE_MS, MINUTE_MS)  # a reading is of the minute behind the day
    tables = [table_of(level.name) for level in LEVELS]
    with contextlib.closing(SinkDatabase(config)) as writer:
        try:
            Notebook(writer).note(LEVELS[0], ((COSTS_TOPIC, minute_ms) for minute_ms in minutes))
            rollups = Rollups(writer, RollupSettings(settle_ms=0, again_ms=0))
            while rollups.run_pass():
                pass
            before = asked(config, day, load(EXAMPLE))
            change = f"UPDATE {off_by_one('bill_total_nusd')} WHERE window_ms = {day.begin_ms}"
            writer.command(f"ALTER TABLE {table_of('1h')} {change}", {"mutations_sync": 2})
            after = asked(config, day, load(EXAMPLE))
        finally:
            for table in tables:
                writer.command(f"TRUNCATE TABLE {table}")

    assert {one.differing for one in before.checks} == {0}
    found = {one.name: (one.differing, one.difference) for one in after.checks if one.differing}
    assert found == {"rollup by hour": (1, 1), "rollup by day": (1, 1)}


def test_minutes_whose_bills_are_gone_are_not_exact(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """Their rows are in no bill, and no bill is wrong."""
    config, day, before = simulated
    minute_ms = (day.begin_ms + day.end_ms) // 2 // MINUTE_MS * MINUTE_MS
    with contextlib.closing(SinkDatabase(config)) as writer, put_back(writer, "token_costs"):
        groups = writer.rows(f"SELECT uniqExact(placement_group) FROM costs WHERE minute_ms = {minute_ms}")[0][0]
        writer.command(f"ALTER TABLE token_costs DELETE WHERE minute_ms = {minute_ms}", {"mutations_sync": 2})
        found = asked(config, day, load(EXAMPLE))

    assert (found.agree, found.exact) == (True, False)
    assert found.no_bill_minutes == before.no_bill_minutes + groups > 0


def test_a_rerate_takes_other_prices_and_what_came_late(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """After it no row is late any more, bills follow the new prices exactly, and the old ones can still be seen."""
    config, day, before = simulated
    dearer = parse_prices(EXAMPLE.read_bytes().replace(b"2.79 USD", b"5.58 USD"), "dearer.yaml")
    bounds = (day.begin_ms, day.end_ms)
    with reading(config) as database:
        ((stood,),) = database.sql(f"SELECT sum(total_nusd) FROM costs WHERE {inside(day)}").rows

    planned = rerate(config, bounds, dearer, "aa", dry_run=True)
    done = rerate(config, bounds, dearer, "aa")
    after = asked(config, day, dearer)

    assert replace(planned, written=True, tenants=done.tenants) == done
    assert done.before_nusd == stood
    assert done.bills >= before.bills
    assert (after.exact, after.late_rows, after.unpriced) == (True, 0, "")
    assert sum(one.before_nusd or 0 for one in done.tenants) == done.before_nusd
    assert sum(one.after_nusd or 0 for one in done.tenants) == done.after_nusd > done.before_nusd
    with reading(config) as database:
        ((kept, rows),) = database.sql("SELECT sum(total_nusd), count() FROM token_costs_replaced FINAL").rows
        ((versions,),) = database.sql(f"SELECT groupUniqArray(prices_version) FROM costs WHERE {inside(day)}").rows
    assert (kept, rows) == (stood, before.bills)
    assert versions == [dearer.version]


def test_a_rerate_with_the_same_prices_changes_late_minutes_alone(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """Computed from stored windows a second time, bills come out as they are."""
    config, day, _ = simulated
    dearer = parse_prices(EXAMPLE.read_bytes().replace(b"2.79 USD", b"5.58 USD"), "dearer.yaml")

    found = rerate(config, (day.begin_ms, day.end_ms), dearer, "bb", dry_run=True)

    assert (found.difference_nusd, found.added, found.left) == (0, 0, 0)


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "key"),
    [(0, 10 * DAY_MS, "--from"), (98 * DAY_MS, 100 * DAY_MS - 26 * 60_000, "--to")],
    ids=["windows are gone", "still the job's"],
)
def test_minutes_that_cannot_be_rated_again_are_refused(from_ms: int, to_ms: int, key: str) -> None:
    """Too old: their windows have expired. Too young: the cost job may still tell them."""
    with pytest.raises(ConfigError, match=key):
        check_range(from_ms, to_ms, 100 * DAY_MS, DEFAULT_LIMITS)


def test_prices_that_bills_were_not_rated_with_are_told(
    simulated: tuple[ClickHouseConfig, Day, SimulatedAudit],
) -> None:
    """Then bills are not priced again, and it is said with which file they would be."""
    config, day, _ = simulated

    found = asked(config, day, parse_prices(b"pue: []", "other.yaml"))

    assert {"priced again", "emissions again"}.isdisjoint(check.name for check in found.checks)
    assert "give that one with --prices" in found.unpriced
    assert (found.exact, replace(found, with_prices=False).exact) == (False, True)
