"""What single requests cost, asked of real tables: bills that the cost job made of the very requests."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC
from schemas.limits import DEFAULT_LIMITS
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from stream_jobs.prices.amounts import half_even
from tests.integration.sink_rig import store_raw
from tests.integration.test_costs import WINDOWS, events, partials
from tests.unit.stream_jobs.costs.cases import a_step
from tests.unit.stream_jobs.windows.cases import BASE_MS, WINDOW_MS, a_commit, a_record, a_request

pytestmark = [pytest.mark.integration, pytest.mark.tables]

END_MS = BASE_MS + WINDOWS * WINDOW_MS
PAID_FOR = {"prefill": "prefill_nusd", "decode": "decode_nusd", "kv": "kv_nusd"}
OF_REQUESTS = ("cost_nusd", "share_energy_mj", "share_carbon_ug", "share_gpu_ms")
BILLED = """
    SELECT {group}, sum(toInt128(cost_nusd)) AS nusd, sum(toInt128(energy_mj)) AS mj, sum(toInt128(carbon_ug)) AS ug,
        sum(toInt128(gpu_ms)) AS ms
    FROM cost_parts
    WHERE use = 'engine' AND part != '__unpriced__' AND kind IN ('prefill', 'decode', 'kv')
    GROUP BY ALL
"""
NOWHERE = {"engine_id": None, "placement_group": None, "host": "h-9"}


@cache
def bills() -> list[Record]:
    """What the cost job makes of the events."""
    step = a_step()
    state, changes = step.new("window.partials", 0), step.changes()
    step.fold(state, partials(), changes)
    made = step.rows(state, changes, a_commit("window.partials"))
    return [Record(COSTS_TOPIC, 0, place, END_MS, None, one.value, one.headers) for place, one in enumerate(made)]


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[Database]:
    """Eighteen minutes of an engine: its bills and raw requests, and requests that no bill holds."""
    draw = random.Random(7)
    rows = [row for window in range(WINDOWS) for row in events(window, draw)["llm.requests"]]
    end = a_request(END_MS - 1, request_id="unknown tokens", engine_id="e-1", placement_group="g-1", host="h-1")
    idle = {**end, "request_id": "no work", "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0}
    rows += [end, idle, a_request(END_MS - 1, request_id="no engine", input_tokens=9, output_tokens=9, **NOWHERE)]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        sink.insert(land_derived(bills(), {COSTS_TOPIC: "log"}, BASE_MS, DEFAULT_LIMITS).inserts)
        store_raw(sink, [a_record("llm.requests", rows, appended_ms=END_MS)], END_MS)
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


def costs(database: Database, request_id: str = "") -> list[dict[str, Any]]:
    bounds = {"request_id": request_id, "from_ms": BASE_MS, "to_ms": END_MS}
    return database.named("request_cost", bounds).records()


def test_the_shares_of_all_requests_are_what_their_bills_give_to_requests(database: Database) -> None:
    """By kind, and by tenant and status in money, energy and carbon: off by less than one for each request and part."""
    rows = costs(database)

    for kind, column in PAID_FOR.items():
        (billed,) = (one["nusd"] for one in database.sql(BILLED.format(group="kind")).records() if one["kind"] == kind)
        assert 0 <= billed - sum(row[column] or 0 for row in rows) < sum(row["minutes"] for row in rows)
    wholes = database.sql(BILLED.format(group="tenant, status")).records()
    assert len(wholes) == 6
    for whole in wholes:
        own = [row for row in rows if (row["tenant"], row["status"]) == (whole["tenant"], whole["status"])]
        for billed, column in zip((whole["nusd"], whole["mj"], whole["ug"], whole["ms"]), OF_REQUESTS, strict=True):
            assert billed > (10**5 if column == "share_gpu_ms" else 10**6)
            assert 0 <= billed - sum(row[column] or 0 for row in own) < 3 * sum(row["minutes"] for row in own)


def test_gpu_time_and_energy_of_tenants_are_those_of_the_gpus(database: Database) -> None:
    """To the millijoule: the samples' own energy, with what is nobody's; and what single requests have of it."""
    draw = random.Random(7)
    made = [events(window, draw) for window in range(WINDOWS)]

    rows = database.named("request_cost_gpu", {"from_ms": BASE_MS, "to_ms": END_MS}).records()

    assert {row["tenant"] for row in rows} == {"a", "b", "c", None}
    assert sum(row["energy_mj"] for row in rows) == sum(
        one["energy_mj"] for each in made for one in each["gpu.samples"]
    )
    (bills,) = database.sql("SELECT sum(gpu_ms) AS ms FROM costs").records()
    assert sum(row["gpu_ms"] for row in rows) == bills["ms"]
    single = costs(database)
    for row in rows:
        own = [one for one in single if one["tenant"] == row["tenant"]]
        if row["tenant"] is not None:
            assert row["energy_mj_per_request"] == pytest.approx(row["energy_mj"] / row["requests"])
            shares = sum(one["share_energy_mj"] or 0 for one in own), sum(one["share_gpu_ms"] or 0 for one in own)
            pieces = 3 * sum(one["minutes"] for one in own)
            assert 0 <= row["work_energy_mj"] - shares[0] < pieces
            assert 0 <= row["work_gpu_ms"] - shares[1] < pieces


def test_a_request_has_the_same_cost_alone_as_among_all(database: Database) -> None:
    """By its id; what was billed provisionally, or in part without a price, says so."""
    rows = {row["request_id"]: row for row in costs(database)}
    long = max(rows.values(), key=lambda row: row["cost_nusd"] or 0)

    assert costs(database, long["request_id"]) == [long]
    assert long["cost_nusd"] == sum(long[column] for column in PAID_FOR.values())
    assert {row["all_final"] for row in rows.values() if row["cost_nusd"] is not None} == {0, 1}
    assert {row["unpriced_minutes"] > 0 for row in rows.values() if row["engine"] is not None} == {False, True}
    assert any(row["minutes"] == 11 for row in rows.values())


def test_what_has_no_engine_or_no_tokens_has_no_cost(database: Database) -> None:
    """Null, never 0."""
    for request_id in ("no engine", "unknown tokens"):
        (row,) = costs(database, request_id)
        assert [row[name] for name in (*PAID_FOR.values(), *OF_REQUESTS)] == [None] * 7


def test_a_request_that_computed_nothing_costs_nothing(database: Database) -> None:
    """No prompt, no answer, an engine: known, and 0."""
    (row,) = costs(database, "no work")

    assert [row[name] for name in OF_REQUESTS] == [0, 0, 0, 0]


def test_minutes_without_any_bill_have_no_cost(database: Database, clickhouse: Any) -> None:
    """The engine is known, its bills are not there."""
    clickhouse.command("TRUNCATE TABLE token_costs")

    assert {row["cost_nusd"] for row in costs(database) if row["request_id"] != "no work"} == {None}


def test_list_prices_of_requests_are_exact(database: Database) -> None:
    """Against whole numbers, half to even; unknown without tokens and where it failed."""
    prices = {"input_nusd": 2_500_000_000, "cached_nusd": 333_333_333, "output_nusd": 10_000_000_001}
    bounds = {"request_id": "", "from_ms": BASE_MS, "to_ms": END_MS, **prices}
    rows = database.named("request_list_cost", bounds).records()

    def expected(row: dict[str, Any]) -> int | None:
        if row["status"] not in ("ok", "aborted") or row["tokens_in"] is None or row["tokens_out"] is None:
            return None
        cached = row["tokens_cached"]
        amounts = (row["tokens_in"] - cached, cached, row["tokens_out"])
        return half_even(sum(n * p for n, p in zip(amounts, prices.values(), strict=True)), 1_000_000)

    assert len(rows) > 100
    assert {row["status"] for row in rows} > {"ok"}
    assert [row["list_nusd"] for row in rows] == [expected(row) for row in rows]
    assert any(row["list_nusd"] for row in rows)
    assert {row["request_id"] for row in rows if row["tokens_in"] is None} >= {"unknown tokens"}
