"""Views of a range: where the time of single requests went, and who explains a change between two ranges.

Covers schemas.ddl.range_views.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.sql.database import Database
from fleetpulse.sql.lookups import with_examples
from runtime.config import ClickHouseConfig
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.sketch import RELATIVE_ERROR_MAX
from tests.integration.cost_rows import ROWS, bill
from tests.integration.request_rows import fill, fill_bills

pytestmark = [pytest.mark.integration, pytest.mark.tables]

NOW_MS = time.time_ns() // 10**6 // HOUR_MS * HOUR_MS
"""Tables let go of what is older than their time to live."""
HALF_MS = 150 * MINUTE_MS
FROM_MS = NOW_MS - HALF_MS + 20_000
BEFORE_MS = FROM_MS - HALF_MS
"""Neither begins with an hour, so that both hours and windows are read of each."""
BOUNDS = {"from_ms": FROM_MS, "to_ms": NOW_MS + 20_000, "before_from_ms": BEFORE_MS, "before_to_ms": FROM_MS}
OF_RANGES = ", ".join(f"{name} = {value}" for name, value in BOUNDS.items())


def a_request(at_ms: int, tenant: str | None, ttft_us: int, **more: Any) -> dict[str, Any]:
    found = {"model": "m", "host": "h", "engine_id": "h/0", "status": "ok", "error_kind": None, "queue_us": 100}
    tokens = {"input_tokens": 10, "cached_tokens": 2, "output_tokens": 5}
    return {**found, **tokens, "at_ms": at_ms, "tenant": tenant, "ttft_us": ttft_us, "e2e_us": 2 * ttft_us, **more}


def traffic() -> list[dict[str, Any]]:
    """Two tenants that ask alike, all the time; of the second range one waits long, of nobody a few more fail."""
    found = []
    for number in range(300):
        before_ms, now_ms = (start + number * MINUTE_MS // 2 for start in (BEFORE_MS, FROM_MS))
        for tenant in ("a", "b"):
            found.append(a_request(before_ms, tenant, 10_000))
            found.append(a_request(now_ms, tenant, 400_000 if tenant == "b" and number % 10 == 0 else 10_000))
        if number % 100 == 0:
            found.append(a_request(now_ms, None, 10_000, status="error", error_kind="server", engine_id="h/1"))
    return found


@pytest.fixture
def filled(clickhouse: Any) -> Any:
    """A client of a database that holds the traffic."""
    fill(clickhouse, traffic())
    return clickhouse


def changes(client: Any, metric: str) -> dict[tuple[str, str | None], Any]:
    sql = f"SELECT * FROM who_changed({OF_RANGES}) WHERE metric = '{metric}'"
    return {(row["dimension"], row["name"]): row for row in client.query(sql).named_results()}


def test_a_change_of_a_sum_is_explained_by_parts_that_add_up(filled: Any) -> None:
    """Exact numbers of both ranges; shares of a dimension make the whole; null is nobody in particular."""
    requests, failed = changes(filled, "requests"), changes(filled, "failed")

    seen = {key: (row["before"], row["now"]) for key, row in requests.items()}
    assert seen["tenant", "a"] == seen["tenant", "b"] == (300, 300)
    assert seen["tenant", None] == (0, 3)
    assert seen["engine_id", "h/0"] == (600, 600)
    assert requests["model", "m"]["all_now"] == 603
    assert {key: row["explains"] for key, row in failed.items() if row["explains"]} == {
        ("tenant", None): 1,
        ("model", "m"): 1,
        ("model_version", None): 1,
        ("host", "h"): 1,
        ("engine_id", "h/1"): 1,
    }


def test_a_spike_of_a_percentile_is_explained_by_who_made_it(filled: Any) -> None:
    """Without what the tenant did now, and with what it did before, there is no spike."""
    found = changes(filled, "ttft_p99_us")

    assert found["tenant", "b"]["now"] == pytest.approx(400_000, rel=RELATIVE_ERROR_MAX)
    assert found["tenant", "b"]["all_before"] == pytest.approx(10_000, rel=RELATIVE_ERROR_MAX)
    assert found["tenant", "b"]["explains"] == 1
    assert found["tenant", "a"]["explains"] == 0


def test_the_query_names_the_tenant_first(filled: Any) -> None:
    """As ``fleetpulse ask tenant behind a p99 spike`` asks it, in milliseconds."""
    answer = filled.query(queries.text("who_changed"), {**BOUNDS, "metric": "ttft_p99_us"}).named_results()
    tenants = [row for row in answer if row["dimension"] == "tenant"]

    assert (tenants[0]["name"], tenants[0]["unit"], tenants[0]["explains_pct"]) == ("b", "ms", 100)
    assert tenants[0]["now"] == pytest.approx(400, rel=RELATIVE_ERROR_MAX)


def test_slow_requests_say_where_their_time_went(filled: Any) -> None:
    """All of the range, each with what the engine said of it; what it did not say is unknown."""
    sql = f"SELECT * FROM slow_requests(from_ms = {FROM_MS}, to_ms = {NOW_MS}) ORDER BY ttft_us DESC, at_ms LIMIT 1"
    (slowest,) = filled.query(sql).named_results()
    (count,) = filled.query(f"SELECT count() FROM slow_requests(from_ms = {BEFORE_MS}, to_ms = {FROM_MS})").first_row

    assert (slowest["tenant"], slowest["at_ms"], slowest["ttft_us"]) == ("b", FROM_MS, 400_000)
    assert (slowest["queue_us"], slowest["prefill_us"], slowest["other_us"]) == (100, None, None)
    assert (slowest["generation_us"], slowest["gpu_uuids"]) == (400_000, [])
    assert count == 600


def test_idle_gpus_cost_what_they_cost_in_a_month_at_this_rate(clickhouse: Any) -> None:
    """Without a model and with one apart, and together; two minutes are billed of all the range. A GPU that gave no
    reading for six minutes stands beside them, at what its type was billed. How many of all bills may still change is
    said, and what of them is estimated."""
    fill_bills(clickhouse, [NOW_MS - 10 * MINUTE_MS], [*ROWS[:-1], {**ROWS[-1], "estimated_gpu_ms": 9_000}])
    read = [(uuid, minute) for uuid, last in (("GPU-1", 3), ("GPU-2", 10)) for minute in range(last, 20)]
    columns = ("window_ms", "grouping", "region", "gpu_uuid", "gpu_model", "version", "last_at_ms", "interval_ms_sum")
    clickhouse.insert(
        "gpu_samples_rollup_1m",
        [[at, "gpu", "eu", uuid, "NVIDIA H100 80GB HBM3", 1, at + 59_999, 60_000]
         for uuid, minute in read for at in (NOW_MS - minute * MINUTE_MS,)],
        column_names=columns,
    )  # fmt: skip
    bounds = {"from_ms": NOW_MS - 24 * HOUR_MS, "to_ms": NOW_MS}

    rows = list(clickhouse.query(queries.text("idle_gpus"), parameters=bounds).named_results())

    assert [(row["why"], row["cost_nusd"], row["gpu_ms"]) for row in rows] == [
        ("all in bills", 65_000_000, 120_000),
        ("no model loaded", 40_000_000, 60_000),
        ("a model loaded, no tokens", 25_000_000, 60_000),
        ("no reading: __unobserved__", 180_000_000, 360_000),
    ]
    assert (rows[0]["billed_ms"], rows[0]["cost_of_30_days_nusd"]) == (2 * MINUTE_MS, 65_000_000 * 43_200 / 2)
    assert {(row["provisional_bills"], row["estimated_gpu_ms"]) for row in rows} == {(1, 9_000)}


def test_a_minute_at_an_end_of_billed_time_counts_by_its_gpu_time(clickhouse: Any) -> None:
    """A fleet starts at 45 s and stops at 30 s of a minute; another is billed for one minute alone, which counts whole.
    Idle GPUs cost in a month what they cost in that time; pages, which read rollups, say the same."""
    begin_ms = NOW_MS - 40 * MINUTE_MS
    time_ms = {0: 15_000, 1: 60_000, 2: 60_000, 3: 30_000, 7: 5_000}
    bills = [
        bill("idle", host, minute, [], [("__idle__", "held", *[None] * 5, 1_000 * gpu_ms, 1, gpu_ms)])
        for minute, gpu_ms in time_ms.items()
        for host in ("a", "b")
    ]
    fill_bills(clickhouse, [begin_ms], bills)
    bounds = {"from_ms": NOW_MS - 24 * HOUR_MS, "to_ms": NOW_MS}

    (idle,) = [row for row in clickhouse.query(queries.text("idle_gpus"), parameters=bounds).named_results()
               if row["why"] == "all in bills"]  # fmt: skip
    (whole,) = clickhouse.query(queries.text("cost_bill"), parameters=bounds).named_results()
    page = dashboard.query("cost_total")
    sql, values = page.at_levels(24 * HOUR_MS), page.values({**bounds, "region": ""}, 24 * HOUR_MS)
    (shown,) = clickhouse.query(sql, parameters=values).named_results()
    inside = bounds | {"to_ms": begin_ms + MINUTE_MS}
    (first,) = clickhouse.query(queries.text("cost_bill"), parameters=inside).named_results()

    billed_ms = 225_000
    assert (idle["billed_ms"], whole["billed_ms"], shown["billed_ms"]) == (billed_ms,) * 3
    assert idle["cost_of_30_days_nusd"] == pytest.approx(2 * 1_000 * sum(time_ms.values()) * 30 * DAY_MS / billed_ms)
    assert first["billed_ms"] == MINUTE_MS


def test_who_asks_for_money_is_told_of_example_prices(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """However long ago the last bill of the range is; not by those of other ranges, or of prices of one's own."""
    fill_bills(clickhouse, [NOW_MS - 5 * HOUR_MS], [{**row, "prices_version": "example-1"} for row in ROWS])
    fill_bills(clickhouse, [NOW_MS - 90 * MINUTE_MS])
    with contextlib.closing(Database(clickhouse_config)) as database:
        spans = {hours: (NOW_MS - 24 * HOUR_MS, NOW_MS - hours * HOUR_MS) for hours in (0, 2, 6)}
        found = {hours: with_examples(database, span) for hours, span in spans.items()}

    assert found == {0: False, 2: True, 6: False}


def test_bills_that_were_rated_again_are_of_the_new_prices(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Also while parts still hold what a rerate replaced."""
    clickhouse.command("SYSTEM STOP MERGES token_costs")
    for version, prices in ((1, "example-1"), (2, "ours-1")):
        fill_bills(
            clickhouse, [NOW_MS - 90 * MINUTE_MS],
            [{**row, "prices_version": prices, "version": version} for row in ROWS],
        )  # fmt: skip

    with contextlib.closing(Database(clickhouse_config)) as database:
        found = with_examples(database, (NOW_MS - 24 * HOUR_MS, NOW_MS))
    clickhouse.command("SYSTEM START MERGES token_costs")

    assert not found


def test_who_changed_reads_edges_whose_windows_are_gone_from_minutes(clickhouse: Any) -> None:
    """Of a range more than 30 days ago with ends that are no whole hours; and of today what its windows hold."""
    then_ms, length_ms = NOW_MS - 31 * DAY_MS - 20 * MINUTE_MS, 40 * MINUTE_MS
    starts = (then_ms, then_ms + 31 * DAY_MS)
    fill(clickhouse, [a_request(at + one * MINUTE_MS, "a", 10_000) for at in starts for one in range(40)])
    clickhouse.command(f"DELETE FROM llm_requests_partials WHERE window_ms < {NOW_MS - 30 * DAY_MS}")
    clickhouse.command(f"DELETE FROM llm_requests_rollup_1m WHERE window_ms > {NOW_MS - 30 * DAY_MS}")
    ranges = {"from_ms": starts[1], "to_ms": starts[1] + length_ms}
    ranges |= {"before_from_ms": then_ms, "before_to_ms": then_ms + length_ms}
    given = ", ".join(f"{name} = {value}" for name, value in ranges.items())

    found = clickhouse.query(
        f"SELECT before, now FROM who_changed({given}) WHERE metric = 'requests' AND dimension = 'tenant'"
    )

    assert found.result_rows == [(40, 40)]


@pytest.mark.parametrize(
    ("hour_ms", "note", "gone"),
    [
        pytest.param(NOW_MS - 3 * HOUR_MS, None, "partials", id="from its rollup"),
        pytest.param(NOW_MS - 3 * HOUR_MS, ("1h", 0), "rollup_1h", id="that is still to be computed"),
        pytest.param(NOW_MS - 3 * HOUR_MS, ("1m", 7 * MINUTE_MS), "rollup_1h", id="of which a minute is"),
        pytest.param(NOW_MS + 3 * HOUR_MS, None, "rollup_1h", id="that has not ended, whatever the clock is"),
    ],
)
def test_who_changed_reads_an_hour_from_its_rollup_once_that_is_computed(
    clickhouse: Any, hour_ms: int, note: tuple[str, int] | None, gone: str
) -> None:
    """Before, it has no rollup, or one that lacks rows: its windows are read."""
    fill(clickhouse, [a_request(hour_ms + one * MINUTE_MS, "a", 10_000) for one in range(40)])
    clickhouse.command(f"DELETE FROM llm_requests_{gone} WHERE window_ms >= {hour_ms}")
    if note is not None:
        level, into_ms = note
        clickhouse.command(
            "INSERT INTO dirty_windows (level, topic, window_ms, writer, noted, done)"
            f" VALUES ('{level}', 'llm.requests', {hour_ms + into_ms}, 'w', 2, 1)"
        )
    given = f"from_ms = {hour_ms}, to_ms = {hour_ms + HOUR_MS}"
    given += f", before_from_ms = {hour_ms - HOUR_MS}, before_to_ms = {hour_ms}"

    found = clickhouse.query(
        f"SELECT before, now FROM who_changed({given}) WHERE metric = 'requests' AND dimension = 'tenant'"
    )

    assert found.result_rows == [(0, 40)]


def test_rates_and_totals_of_long_ago_are_of_minutes(clickhouse: Any) -> None:
    """A short range whose windows are gone has its requests, and the time that they are divided by."""
    then_ms = NOW_MS - 31 * DAY_MS
    fill(clickhouse, [a_request(then_ms + one * MINUTE_MS, "a", 10_000) for one in range(10)])
    clickhouse.command("TRUNCATE TABLE llm_requests_partials")
    bounds = {"from_ms": then_ms, "to_ms": then_ms + 10 * MINUTE_MS}

    (model,) = clickhouse.query(queries.text("throughput_by_model"), parameters=bounds).named_results()
    slow = clickhouse.query(queries.text("who_slowed_model"), parameters={
        "from_ms": then_ms + 5 * MINUTE_MS, "to_ms": then_ms + 10 * MINUTE_MS,
        "before_from_ms": then_ms, "before_to_ms": then_ms + 5 * MINUTE_MS,
        "model": "", "quantile": 0.5, "bins": "ttft_us_bins",
    }).named_results()  # fmt: skip

    assert (model["requests"], model["covered_s"]) == (10, 600)
    assert [(row["requests_before"], row["requests_now"]) for row in slow] == [(5, 5)]
