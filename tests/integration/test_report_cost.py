"""The report of money on a real ClickHouse: every query runs, and numbers are those made by hand.

Covers schemas.ddl.coverage_view.
"""

from __future__ import annotations

import contextlib
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.report.compose import page
from fleetpulse.report.gather import ReportQuery, cost_report, gather, report_query
from fleetpulse.report.goodput import slo_parameters
from fleetpulse.report.html import html
from fleetpulse.sql.database import Database
from lab.oracle.recount import Request, outcome
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.ddl import cost_rollups
from schemas.ddl.merging import LEVELS
from schemas.definitions import END
from schemas.errors import FleetpulseError
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, MINUTE_MS
from schemas.rows.usage import USAGE
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from sinks.rollup import Notebook, Rollups, RollupSettings
from stream_jobs.costs.goodput import VERDICTS, Served, goodput
from stream_jobs.costs.wide import Ints, ints
from stream_jobs.rules.model import SloClass
from stream_jobs.windows.step import WindowsStep
from tests.integration.cost_rows import (
    BEGIN_MS,
    ODD_ROWS,
    PART,
    ROWS,
    UG_PER_MJ,
    bill,
    costs_record,
    gpu_rows,
    land_fleet,
    land_requests,
    log_ids,
    request,
    usage_row,
)
from tests.integration.sink_rig import migrated
from tests.tables import KEPT
from tests.unit.sinks.landing_cases import derived
from tests.unit.sinks.landing_cases import partials as landed_partials
from tests.unit.stream_jobs.windows.cases import PARTITIONS, a_record, fold_all, partials

pytestmark = pytest.mark.integration

PRICES = Path(__file__).parents[2] / "fleetpulse" / "data" / "prices" / "example.yaml"
CLASSES = (SloClass("interactive", 0.99, ttft_us=800_000, tpot_us=60_000), SloClass("batch", 0.95, e2e_us=60_000_000))
END_MS = BEGIN_MS + 120_000


@pytest.fixture(scope="module")
def config(stack: Any) -> Iterator[ClickHouseConfig]:
    """The writer's login to a database of this module, with all tables: to make them takes longer than all tests."""
    name = f"fleetpulse_test_{secrets.token_hex(6)}"
    with contextlib.closing(connect(stack.clickhouse)) as client:
        client.command(f"CREATE DATABASE {name}")
        try:
            found = stack.clickhouse.model_copy(update={"database": name})
            with contextlib.closing(connect(found)) as inside:
                migrated(inside)
            yield found
        finally:
            client.command(f"DROP DATABASE {name} SYNC")


@pytest.fixture
def database(config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    """That database, empty."""
    with contextlib.closing(SinkDatabase(config)) as found:
        for table in (
            "token_costs",
            "usage",
            "gpu_samples_partials",
            "gpu_samples_rollup_1m",
            "llm_requests",
            "token_costs_rollup_1m",
        ):
            found.command(f"TRUNCATE TABLE {table}")
        yield found


def land(database: SinkDatabase, records: Any) -> None:
    database.insert(land_derived(records, log_ids(), BEGIN_MS, DEFAULT_LIMITS).inserts)


def question(**given: Any) -> ReportQuery:
    return replace(report_query((BEGIN_MS, END_MS), END_MS, PRICES), **given)


def test_numbers_of_a_small_fleet_are_those_made_by_hand(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """Bill, split, unit costs, goodput, emissions, power limits: each as counted on paper."""
    land_fleet(database, lambda records: land(database, records))

    found = cost_report(config, question(slo_classes=CLASSES))

    assert [(row["part"], row["what"], row["cost_nusd"]) for row in found["split"]] == [
        ("__idle__", "", 40_000_000),
        ("__wasted__", "", 25_000_000),
        ("request", "", 20_000_000),
        ("__overhead__", "not answered in full", 4_000_000),
        ("__overhead__", "start-up", 1_000_000),
        ("__unpriced__", "", None),
    ]
    assert found["bill"]["total_nusd"] == 90_000_000
    assert (found["bill"]["unpriced_gpu_ms"], found["bill"]["provisional_bills"]) == (60_000, 1)
    assert page(found).sections[0].tables[0].rows[-1][:2] == ("beside the bill: silent GPUs", "$0.00")
    for name in ("models", "tenants"):  # what is nobody's does not drop out of any list
        assert sum(row["cost_nusd"] or 0 for row in found[name]) == 90_000_000
        assert {row[name.removesuffix("s")]: row["cost_nusd"] for row in found[name] if row["nobody"]} == {
            "__idle__": 40_000_000, "__wasted__": 25_000_000, "__overhead__": 1_000_000, "__unpriced__": None,
        }  # fmt: skip
    model = found["models"][0]
    assert (model["requests"], model["prompt_tokens"], model["output_tokens"]) == (3, 1_600, 200)
    # 0.014 USD for 1,100 prompt tokens computed, 0.01 for 200 generated and the cache; the engine's whole bill is 0.05.
    assert (model["uncached_nusd"], model["output_nusd"], model["cost_nusd"], model["full_nusd"]) == (
        14_000_000, 10_000_000, 24_000_000, 50_000_000,
    )  # fmt: skip
    assert (model["usd_per_million_uncached"], model["usd_per_million_output"]) == pytest.approx((14_000 / 1_100, 50))
    assert model["busy"] == 0.4
    assert [(row["tenant"], row["cost_nusd"], row["usd_per_request"]) for row in found["tenants"][:2]] == [
        ("acme", 20_000_000, 0.01),
        ("initech", 4_000_000, 0.004),
    ]
    assert [(row["slo_class"], row["good"], row["missed"], row["failed"], row["usd_per_good_request"])
            for row in found["goodput"]] == [("interactive", 1, 1, 0, 0.02), ("batch", 0, 0, 1, None)]  # fmt: skip
    assert found["goodput"][0]["missed_usd"] == pytest.approx(0.01)
    # 44.4 J, a quarter more at the meter, 2 ug for each of its millijoules as billed.
    assert found["energy"] == [
        {"region": "eu", "gpu_ms": 240_000, "energy_mj": 44_400, "meter_mj": 55_500, "carbon_ug": 88_800}
    ]
    assert [(row["limit_w"], row["j_per_token"]) for row in found["power_caps"]] == [(500.0, 0.015), (700.0, 0.02)]
    assert [(row["host"], row["cost_nusd"]) for row in found["idle"]] == [("h", 40_000_000)]
    assert [(row["section"], row["text"]) for row in found["prices"]["used"]] == [
        ("GPU", "2.79 USD/GPU-hour"),
        ("PUE", "1.25"),
        ("energy", "0.09 USD/kWh"),
        ("grid", "400 gCO2e/kWh"),
        ("host", "1.20 USD/host-hour"),
    ]


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "limits_w"),
    [
        pytest.param(BEGIN_MS + 1, END_MS, [500.0], id="the first minute began before"),
        pytest.param(BEGIN_MS, END_MS - 1, [700.0], id="the last minute ends behind"),
        pytest.param(BEGIN_MS + 30_000, BEGIN_MS + 90_000, [], id="half of each"),
        pytest.param(BEGIN_MS - 59_999, END_MS + 59_999, [500.0, 700.0], id="more than both"),
    ],
)
def test_energy_of_a_part_of_a_minute_meets_no_tokens_of_all_of_it(
    database: SinkDatabase, config: ClickHouseConfig, begin_ms: int, end_ms: int, limits_w: list[float]
) -> None:
    """Power limits are compared by minutes that lie in the range as a whole."""
    land_fleet(database, lambda records: land(database, records))
    with contextlib.closing(Database(config)) as reader:
        found = reader.named("cost_power_cap", {"from_ms": begin_ms, "to_ms": end_ms}).records()

    assert [row["limit_w"] for row in found] == limits_w


def test_sums_of_every_query_are_the_bill(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """Parts, hours, days, engines with idle GPUs and types of GPU each add up to it."""
    land_fleet(database, lambda records: land(database, records))

    found = cost_report(config, question())

    total = found["bill"]["total_nusd"]
    idle = sum(row["cost_nusd"] for row in found["idle"])
    assert sum(row["carbon_ug"] for row in found["split"]) == found["bill"]["carbon_ug"] == 88_800
    assert sum(row["carbon_ug"] for row in found["gpu_models"]) == 88_800
    assert sum(row["cost_nusd"] or 0 for row in found["split"]) == total
    assert sum(row["cost_nusd"] or 0 for row in found["hours"]) == total
    assert sum(row["total_nusd"] for row in found["gpu_models"]) == total
    assert sum(row["total_nusd"] for row in found["engines"]) + idle == total
    assert sum(row["full_nusd"] or 0 for row in found["models"]) + idle == total


def test_what_failed_requests_cost_adds_up_with_many_of_them(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """Of sixty tenants with failures fifty stand by name, the others as one row behind them."""
    parts = [("__overhead__", "prefill", f"t{n:02}", "m", "batch", "error", 1, 1_000 + n, 10, 100) for n in range(60)]
    land(database, [costs_record([bill("engine", "e1", 0, [], parts)], 0)])

    found = cost_report(config, question())

    (split,) = found["split"]
    assert [(row["status"], row["tenant"]) for row in found["failed"][:2]] == [("error", "t59"), ("error", "t58")]
    assert [(row["status"], row["model"], row["tenant"]) for row in found["failed"][50:]] == [("others", None, None)]
    for name in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug"):
        assert sum(row[name] for row in found["failed"]) == split[name]


def test_the_page_is_made_of_what_the_database_says(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """The bill stands in the file, and nothing in it leaves the machine."""
    land_fleet(database, lambda records: land(database, records))

    text = html(page(cost_report(config, question(slo_classes=CLASSES))))

    assert "<dd>$0.09</dd>" in text
    assert "http" not in text
    assert "<script" not in text


def test_a_range_without_bills_is_told(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """Nothing is not a report of zeros."""
    with pytest.raises(FleetpulseError, match=r"no bill between 2026-11-22 00:00 .* does the cost job run\?"):
        cost_report(config, question())


def test_prices_times_tokens_are_the_cost_on_every_face(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """View, report and page have what comes out of the raw parts by fractions; energy and CO2e are with one PUE."""
    land_fleet(database, lambda records: land(database, records))
    database.command(cost_rollups.insert(LEVELS[0], [BEGIN_MS, BEGIN_MS + MINUTE_MS]))

    with contextlib.closing(Database(config)) as reader:
        rows = reader.sql("SELECT * FROM unit_costs").records()
        page_sql = dashboard.query("cost_models").at_levels(HOUR_MS)
        filters = dict.fromkeys(("region", "tenant", "model"), "")
        of_page = reader.sql(page_sql, {"from_ms": BEGIN_MS, "to_ms": END_MS} | filters).records()
    (of_report,) = (row for row in cost_report(config, question())["models"] if not row["nobody"])

    for side in SIDES:
        for row in (row for row in rows if row["unused"] is None):
            assert_priced(row, side, unit_costs(side, row["tenant"]))
        assert_priced(of_report, side, unit_costs(side))
    assert sum(unit_costs(side)[1] for side in SIDES) == of_report["cost_nusd"] == of_page[0]["cost"] == 24_000_000
    for page_name, name in {"tokens_in": "uncached_tokens", "tokens_out": "output_tokens",
                            "per_million_in": "usd_per_million_uncached", "per_million_out": "usd_per_million_output",
                            "kwh_per_million_out": "kwh_per_million_output"}.items():  # fmt: skip
        assert of_page[0][page_name] == of_report[name]
    for listed, money in ((rows, "cost_nusd"), (of_page, "cost")):
        assert sum(row[money] or 0 for row in listed) == 90_000_000
    assert sum(row["gpu_ms"] for row in rows) == 240_000


@pytest.mark.parametrize("rolled", [False, True], ids=["from bills", "from rollups"])
def test_a_price_is_of_requests_and_tokens_whose_bill_has_one(
    database: SinkDatabase, config: ClickHouseConfig, *, rolled: bool
) -> None:
    """Of four requests of acme one stood beside GPUs without price, meter or CO2e: it makes the others no cheaper."""
    land(database, [costs_record([*ROWS, *ODD_ROWS], 0)])
    if rolled:
        database.command(cost_rollups.insert(LEVELS[0], [BEGIN_MS, BEGIN_MS + MINUTE_MS]))

    found = cost_report(config, question())
    with contextlib.closing(Database(config)) as reader:
        hours = reader.sql("SELECT * FROM unit_costs WHERE tenant = 'acme' AND unused IS NULL").records()

    (tenant,) = (row for row in found["tenants"] if row["tenant"] == "acme")
    (hour,) = hours
    assert (tenant["requests"], tenant["priced_requests"], tenant["counted_requests"]) == (4, 3, 3)
    answered = {row["tenant"]: (row["priced_requests"], row["priced_answered"]) for row in found["tenants"]}
    assert (answered["acme"], answered["initech"]) == ((3, 3), (3, 0))
    for row in (tenant, hour):
        assert (row["requests"], row["cached_tokens"], row["cost_nusd"]) == (4, 510, 20_610_000)
        assert row["usd_per_request"] == pytest.approx(0.02061 / 3)
        assert row["g_per_request"] == pytest.approx(0.0409 / 3)
    (gpus,) = found["gpu_models"]
    assert [gpus[f"{name}_tokens"] for name in ("priced", "metered", "counted")] == [3_905] * 3
    assert gpus["prompt_tokens"] + gpus["decode_tokens"] == 3_905 + 460
    assert gpus["usd_per_million_tokens"] == pytest.approx(103.54 / 3_905 * 1_000)
    engines = {row["engine_id"]: row for row in found["engines"]}
    assert engines["e3"]["usd_per_million_tokens"] is None
    assert engines["e1"]["usd_per_million_tokens"] == pytest.approx(50 / 1_800 * 1_000)


SIDES = {"uncached": ("prefill",), "output": ("decode", "kv")}


def assert_priced(row: dict[str, Any], side: str, expected: tuple[int, int, int, int]) -> None:
    """Tokens and money to the last digit, prices as near as floats are; nothing where there were no tokens."""
    tokens, nusd, mj, ug = expected
    names = [f"{name}_per_million_{side}" for name in ("usd", "kwh", "g")]
    if not tokens:
        assert [row[f"{side}_tokens"], row[f"{side}_nusd"], *(row[name] for name in names)] == [None] * 5
        return
    assert (row[f"{side}_tokens"], row[f"{side}_nusd"]) == (tokens, nusd)
    prices = [Fraction(nusd, 10**9), Fraction(mj * 5, 4 * 3_600_000_000), Fraction(ug, 10**6)]
    assert [row[name] for name in names] == pytest.approx([float(one * 10**6 / tokens) for one in prices])


def unit_costs(side: str, tenant: str = "") -> tuple[int, int, int, int]:
    """Tokens of a side, and what they cost, took and emitted, from the parts of the bills as they were sent."""
    parts = [
        dict(zip(PART, values, strict=True))
        for row in ROWS
        for values in zip(*(row[f"part_{name}"] for name in PART), strict=True)
    ]
    mine = [part for part in parts if part["kind"] in SIDES[side] and tenant in ("", part["tenant"])]
    tokens = sum(part["amount"] for part in mine if part["kind"] != "kv")
    nusd, mj = (sum(part[name] for part in mine) for name in ("cost_nusd", "energy_mj"))
    return tokens, nusd, mj, UG_PER_MJ * mj


@pytest.mark.parametrize(
    ("bills", "nusd"),
    [
        pytest.param([("__idle__", "held", None, None, None, None, None, 0, 7_200, 60_000)], 0, id="free of charge"),
        pytest.param([], None, id="without a bill"),
    ],
)
def test_a_price_of_nothing_is_a_price(
    database: SinkDatabase, config: ClickHouseConfig, bills: list[tuple[Any, ...]], nusd: int | None
) -> None:
    """Silent time of GPUs that cost nothing costs nothing; of a type without any bill nobody knows."""
    first = 30 * 24 * 60  # of no hour that another test rolls up
    for part in bills:
        land(database, [costs_record([bill("idle", "h", first, [], [part])], 0)])
    names = ("window_ms", "grouping", "cluster", "region", "host", "gpu_uuid", "gpu_model", "version", "last_at_ms",
             "interval_ms_sum")  # fmt: skip
    read = [("GPU-1", 0), *(("GPU-2", minute) for minute in range(11))]
    at = [(uuid, BEGIN_MS + (first + minute) * MINUTE_MS) for uuid, minute in read]
    rows = [[ms, "gpu", "c", "eu", "h", uuid, GPU, 1, ms + 59_999, 59_999] for uuid, ms in at]
    database.insert_rows("gpu_samples_rollup_1m", names, rows)

    bounds = {"from_ms": BEGIN_MS + first * MINUTE_MS, "to_ms": BEGIN_MS + (first + 20) * MINUTE_MS}
    with contextlib.closing(Database(config)) as reader:
        sql = "SELECT * FROM gpu_coverage(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})"
        (found,) = reader.sql(sql, bounds).records()

    assert (found["silent_gpus"], found["silent_gpu_ms"]) == (1, 9 * MINUTE_MS)
    assert (found["nusd_per_gpu_hour"], found["unobserved_nusd"]) == (nusd, nusd)


@pytest.mark.parametrize(
    ("rolled", "lacks"),
    [
        pytest.param(0.0, 1, id="no hour is rolled up"),
        pytest.param(0.7, 1_000_000, id="those up to then are"),
        pytest.param(1.0, 1_000_000, id="all are"),
        pytest.param(0.7, 3, id="of those up to then every third is still to come"),
        pytest.param(1.0, 2, id="every second is still to come"),
    ],
)
def test_silent_gpus_are_counted_and_priced_as_minute_by_minute(
    database: SinkDatabase, config: ClickHouseConfig, rolled: float, lacks: int
) -> None:
    """Sixteen GPUs over three days, some gone for good, some well for most hours; hours of none, some or all of it are
    rolled up: against sets of minutes; bills and silence share none."""
    land(database, [costs_record(ROWS, 0)])
    random, first = np.random.default_rng(3), BEGIN_MS // MINUTE_MS
    read = {f"GPU-{n}": minutes_of(random, first) for n in range(12)}
    for n in range(12, 16):
        well = range(first - 1_700, first + int(random.integers(100, 2_000)))
        read[f"GPU-{n}"] = dict.fromkeys(well, 59_999) | {int(one): 20_000 for one in random.choice(well, 5)}
    newest, silent = max(map(max, read.values())), 0
    with contextlib.closing(connect(config)) as client:
        rows = [
            [minute * MINUTE_MS, "gpu", "c", "eu", "h", uuid, GPU, 1, minute * MINUTE_MS + until_ms, until_ms]
            for uuid in read
            for minute, until_ms in read[uuid].items()
        ]
        names = ["window_ms", "grouping", "cluster", "region", "host", "gpu_uuid", "gpu_model", "version", "last_at_ms",
                 "interval_ms_sum"]  # fmt: skip
        client.insert("gpu_samples_rollup_1m", rows, column_names=names)
        oldest = min(map(min, read.values())) // 60
        over_ms = (oldest + int(rolled * (newest // 60 - oldest))) * HOUR_MS
        if rolled:
            client.command(
                f"INSERT INTO gpu_samples_rollup_1h ({', '.join(names)}) "
                f"SELECT intDiv(window_ms, {HOUR_MS}) * {HOUR_MS} AS hour_ms, 'gpu', 'c', 'eu', 'h', gpu_uuid, "
                "any(gpu_model), 1, max(last_at_ms), sum(interval_ms_sum)"
                f" FROM gpu_samples_rollup_1m FINAL WHERE window_ms < {over_ms}"
                f" AND intDiv(window_ms, {HOUR_MS}) % {lacks} != 0 GROUP BY hour_ms, gpu_uuid"
            )

    for begin, end in ((first - 600, first + 2_000), (first + 61, first + 63), (first + 1_500, newest + 500)):
        bounds = {"from_ms": begin * MINUTE_MS, "to_ms": end * MINUTE_MS}
        with contextlib.closing(Database(config)) as reader:
            sql = "SELECT * FROM gpu_coverage(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})"
            found = {row["hour_ms"] // HOUR_MS: row for row in reader.sql(sql, bounds).records()}
        expected = coverage(read, begin, min(end, newest))
        assert {hour: (row["inventory_gpu_ms"], row["reporting_gpu_ms"], row["silent_gpu_ms"])
                for hour, row in found.items()} == expected  # fmt: skip
        for hour, (_, _, silent_ms) in expected.items():
            known = 0 <= hour - BEGIN_MS // HOUR_MS <= 24
            if known or not silent_ms:  # 1.8 USD an hour is what the bills of this type come to
                assert found[hour]["unobserved_nusd"] == silent_ms * 500
        silent += sum(silent_ms for _, _, silent_ms in expected.values())
    assert silent > 0


GPU = "NVIDIA H100 80GB HBM3"


def minutes_of(random: np.random.Generator, first: int) -> dict[int, int]:
    """Minutes in which a GPU was read: some stretches, with hours and more than a day between; each with how far into
    it the last reading came [ms]."""
    found, at = set[int](), first - int(random.integers(0, 1_500))
    for _ in range(int(random.integers(1, 6))):
        long = int(random.integers(1, 400))
        found |= set(range(at, at + long)) - set(random.integers(at, at + long, 20).tolist())
        at += long + int(random.choice([3, 70, 1_439, 1_440, 1_441, 1_700]))
    return {minute: int(random.choice([59_999, 59_000, 50_000, 49_999, 20_000])) for minute in sorted(found)}


def coverage(read: dict[str, dict[int, int]], begin: int, end: int) -> dict[int, tuple[int, int, int]]:
    """By hour: GPU milliseconds of the inventory, with a reading, and without."""
    inventory, reporting = Counter[int](), Counter[int]()
    for minutes in read.values():
        at = sorted(minutes)
        for minute in range(begin, end):
            earlier = bisect_right(at, minute)
            inventory[minute // 60] += earlier > 0 and at[earlier - 1] >= minute - 1_440
            until_ms = minutes.get(minute, 0)
            reporting[minute // 60] += MINUTE_MS if until_ms >= 50_000 else until_ms
    return {
        hour: (MINUTE_MS * n, reporting[hour], MINUTE_MS * n - reporting[hour]) for hour, n in inventory.items() if n
    }


def test_what_does_not_say_what_was_cached_was_not_cached(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """As on page Request: a hosted model bills all of such a prompt at the price of what is computed."""
    land_requests(database, [request(cached_tokens=None), request(cached_tokens=250), request(input_tokens=None)])

    with contextlib.closing(Database(config)) as reader:
        given = {"from_ms": BEGIN_MS, "to_ms": END_MS, "bounds": []}
        found = reader.named("cost_list_tokens", given).records()  # type: ignore[arg-type]

    names = ("requests", "unreported", "input_tokens", "cached_tokens", "output_tokens")
    assert [sum(row[name] for row in found) for name in names] == [3, 1, 1_500, 250, 300]


def test_gpus_that_do_not_say_how_busy_they_are_are_not_counted(
    database: SinkDatabase, config: ClickHouseConfig
) -> None:
    """Cut into MIG instances they do not; of a power limit that is not known there is no row."""
    silent = {f"{name}_{kind}": 0 for name in ("util_gpu_pct", "power_limit_mw") for kind in ("sum", "count")}
    land(database, [landed_partials([gpu_rows(700, 0, 24_000) | silent], 1, "gpu.samples")])
    land(database, [derived(USAGE, [usage_row(0, 1_000, 200)], WINDOW_PARTIALS, 2)])

    with contextlib.closing(Database(config)) as reader:
        bounds = {"from_ms": BEGIN_MS, "to_ms": END_MS}
        busy, caps = (reader.named(name, bounds).records() for name in ("cost_utilisation", "cost_power_cap"))

    assert [(row["owner"], row["busy"]) for row in busy] == [("e1", None)]
    assert caps == []


def test_only_the_last_revision_of_a_bill_counts(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """A row of a lower version that lands later changes nothing."""
    land_fleet(database, lambda records: land(database, records))
    older = {**ROWS[2], "version": 0, "part_cost_nusd": [99], "total_nusd": 99}
    land(database, [costs_record([older], 9)])

    assert cost_report(config, question())["bill"]["total_nusd"] == 90_000_000


def test_verdicts_of_the_database_are_those_of_the_definition(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """On 900 random requests, with every kind of end, class and unknown."""
    random = np.random.default_rng(7)
    rows = [random_request(random) for _ in range(900)]
    land_requests(database, rows)
    bounds = {"from_ms": BEGIN_MS, "to_ms": END_MS}
    reader = Database(config)

    found = {row["slo_class"]: row for row in reader.named("cost_goodput", bounds | slo_parameters(CLASSES)).records()}
    reader.close()

    names = [slo.name for slo in CLASSES]
    expected = goodput(served_of(rows, names), CLASSES)
    for slo, one in zip(CLASSES, expected, strict=True):
        got = found[slo.name]
        assert [got[name] for name in VERDICTS[:4]] == [getattr(one, name) for name in VERDICTS[:4]]
        assert [got[f"missed_{name}"] for name in ("ttft", "tpot", "e2e")] == [
            one.missed_ttft_us, one.missed_tpot_us, one.missed_e2e_us,
        ]  # fmt: skip
        assert (got["good_input_tokens"], got["good_output_tokens"]) == (
            one.good_input_tokens, one.good_output_tokens,
        )  # fmt: skip


def test_goodput_of_windows_is_that_of_single_requests(database: SinkDatabase, config: ClickHouseConfig) -> None:
    """Of 600 requests over three hours, folded and rolled up: by class for reports, over time for pages, in
    hours too, whatever the ends of the range. A report of more than six hours takes windows, a shorter one requests."""
    random = np.random.default_rng(8)
    times = [BEGIN_MS - int(ago_ms) for ago_ms in random.integers(1, 3 * HOUR_MS, 600)]
    rows = [random_request(random) | {"at_ms": at_ms} for at_ms in times]
    land_requests(database, rows)
    _roll_up(database, rows)
    from_ms, to_ms = BEGIN_MS - 170 * MINUTE_MS, BEGIN_MS - 7 * MINUTE_MS
    given = {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": 30 * MINUTE_MS} | slo_parameters(CLASSES)

    with contextlib.closing(Database(config)) as reader:
        bounds = {name: given[name] for name in ("from_ms", "to_ms")}
        exact = reader.named("cost_goodput", bounds | slo_parameters(CLASSES)).records()
        kept = reader.named("cost_goodput_windows", bounds).records()
        ends = reader.named("cost_by", bounds | {"dimension": "tenant"}).records()
    points = {
        (name, span_ms): _points(config, name, given, span_ms)
        for name in ("goodput_over_time", "goodput_of_requests")
        for span_ms in (HOUR_MS, 24 * HOUR_MS)
    }

    same = ("slo_class", "good", "missed", "failed", "left_out", "good_tokens")
    known = [row for row in exact if row["slo_class"] in ("batch", "interactive")]
    assert [[row[name] for name in same] for row in kept] == [[row[name] for name in same] for row in known]
    assert all(row["good"] and row["missed"] and row["failed"] and row["left_out"] for row in kept)
    assert ends_of(ends) == Counter((row["tenant"], outcome_of(row)) for row in rows if from_ms <= row["at_ms"] < to_ms)
    assert points["goodput_over_time", HOUR_MS] == points["goodput_of_requests", HOUR_MS] != []
    hours = [(at_ms, judged, good) for at_ms, judged, good in points["goodput_over_time", 24 * HOUR_MS]]
    assert {at_ms % HOUR_MS for at_ms, _, _ in hours} == {0}
    assert sum(judged for _, judged, _ in hours) == sum(row["all_judged"] for row in kept)
    assert sum(good for _, _, good in hours) == sum(row["good"] for row in kept)


def outcome_of(row: dict[str, Any]) -> str:
    """How a request ended, as the oracle names it."""
    return outcome(Request(0, "", "", row["status"], row.get("error_kind") or "", 0, 0, 0, None))


def ends_of(rows: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Counts of rows of ``cost_by`` tenant."""
    return Counter({(row["name"], end): row[end] for row in rows for end in END if row[end]})


def _points(config: ClickHouseConfig, name: str, given: dict[str, Any], span_ms: int) -> list[tuple[int, ...]]:
    """What a page is given for a range of this length."""
    found = dashboard.query(name)
    filters = dict.fromkeys(("cluster", "region", "model", "tenant"), "")
    with contextlib.closing(connect(config)) as client:
        answer = client.query(found.at_levels(span_ms), parameters=found.values(given | filters, span_ms))
    return [tuple(row) for row in answer.result_rows]


def _roll_up(database: SinkDatabase, rows: list[dict[str, Any]]) -> None:
    """The same requests as the windows job emits them, in windows, minutes and hours."""
    record = a_record("llm.requests", rows, 0, BEGIN_MS)
    step = WindowsStep(DEFAULT_LIMITS, PARTITIONS, classes=CLASSES)
    made = partials(step, *fold_all(step, [record], "llm.requests"))
    landing = land_derived([landed_partials(made, 0)], log_ids(), BEGIN_MS, DEFAULT_LIMITS)
    database.insert(landing.inserts)
    Notebook(database).note(LEVELS[0], landing.dirty)
    rollups = Rollups(database, RollupSettings(settle_ms=0, again_ms=0), KEPT)
    while rollups.run_pass():
        pass


def random_request(random: np.random.Generator) -> dict[str, Any]:
    """Anything that may come."""
    status = str(random.choice(["ok", "ok", "ok", "error", "aborted", "timeout", "rejected"]))
    kinds = [None] if status == "ok" else ["client", "server", None]

    def maybe(most: int) -> int | None:
        return None if random.random() < 0.1 else int(random.integers(0, most))

    return request(
        status=status,
        error_kind=kinds[int(random.integers(len(kinds)))],
        slo_class=[None, "interactive", "batch", "gold"][int(random.integers(4))],
        ttft_us=maybe(1_600_000),
        tpot_us=maybe(120_000),
        e2e_us=maybe(120_000_000),
        input_tokens=maybe(5_000),
        output_tokens=maybe(500),
    )


def served_of(rows: list[dict[str, Any]], names: list[str]) -> Served:
    """The same requests as columns."""

    def column(name: str) -> Ints:
        return ints([row[name] for row in rows])

    classes = [names.index(row["slo_class"]) if row["slo_class"] in names else -1 for row in rows]
    return Served(
        ints(classes),
        np.array([row["status"] == "ok" for row in rows]),
        np.array([row["status"] == "aborted" for row in rows]),
        np.array([row["error_kind"] == "client" for row in rows]),
        *(column(name) for name in ("ttft_us", "tpot_us", "e2e_us", "input_tokens", "output_tokens")),
    )


def test_no_query_of_costs_is_forgotten() -> None:
    """The report asks every one of them."""
    queried: list[str] = []

    def noting(name: str, parameters: Any) -> list[dict[str, Any]]:
        queried.append(name)
        return [{"total_nusd": 1, "prices_versions": [], "first_ms": 0}] if name == "cost_bill" else []

    example = PRICES.parents[1] / "budgets" / "example.yaml"
    asked = replace(report_query((BEGIN_MS, END_MS), END_MS, PRICES, None, example), slo_classes=CLASSES)
    gather(noting, asked)

    of_costs = {name for name in queries.names() if name.startswith("cost_")} - {"cost_rerated"}
    assert set(queried) == of_costs - {"cost_goodput_windows"} | {"joins"}
    gather(noting, replace(asked, from_ms=END_MS - 7 * HOUR_MS))
    assert set(queried) == of_costs | {"joins"}
