"""What ``bench dashboard`` fills in, in real tables: nothing that the catalogue reads is left empty.

Covers lab.bench.dashboard_raw.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from fleetpulse.commands.progress import Progress
from fleetpulse.queries import dashboard as catalogue
from lab.bench.dashboard import _fill, found_nothing
from lab.bench.dashboard_fleet import TENANTS, Fleet
from lab.bench.dashboard_queries import examples_of, ranges_of, tables_of, values_of
from lab.bench.dashboard_raw import draw
from lab.bench.dashboard_windows import Span, _measure, windows
from runtime.config import ClickHouseConfig
from schemas.events.grouping import OTHER
from schemas.fields import Kind
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.rows.tables import PARTIALS
from sinks.database import SinkDatabase

pytestmark = [pytest.mark.integration, pytest.mark.tables]

FLEET = Fleet(3, 1, models=("m", "n"), tenants=(*TENANTS[:2], OTHER))


def test_every_query_of_the_catalogue_finds_something(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Over a day of three hosts no table that is read is empty, and every query finds a row over some range."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    to_ms = now_ms - now_ms % MINUTE_MS
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database, Progress() as progress:
        _fill(database, FLEET, Span(to_ms - DAY_MS, to_ms), progress)

    examples = examples_of(clickhouse, to_ms)
    answers, read = dict[str, dict[str, int]](), set[str]()
    for query in map(catalogue.query, catalogue.names()):
        for range_ms in ranges_of(query, DAY_MS):
            bound = values_of(query, to_ms - range_ms, to_ms, examples)
            found = clickhouse.query(query.at_levels(range_ms), parameters=bound).result_rows
            answers[f"{query.name}/{range_ms}"] = {"rows": len(found)}
            read |= tables_of(query, range_ms)

    assert {table for table in read if not clickhouse.command(f"SELECT count() FROM {table}")} == set()
    assert found_nothing(answers) == []


def test_measures_of_a_drawn_row_agree_with_one_another(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Least, mean and greatest stand in order, a sketch holds the row's events, what is not drawn is unknown; the same
    seed draws the same."""
    to_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // HOUR_MS * HOUR_MS
    span = Span(to_ms - HOUR_MS, to_ms)
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        rows = draw(database, windows(FLEET, span), lambda _what: None)
        first = clickhouse.query("SELECT * FROM gpu_samples_partials ORDER BY ALL LIMIT 100").result_rows
        assert draw(database, windows(FLEET, span), lambda _what: None) == rows
        again = clickhouse.query("SELECT * FROM gpu_samples_partials FINAL ORDER BY ALL LIMIT 100").result_rows

    wrong = clickhouse.command(
        """SELECT countIf(NOT (power_mw_min < power_mw_sum / power_mw_count AND power_mw_sum / power_mw_count
        < power_mw_max AND power_mw_count = event_count AND host LIKE 'host-000_'
        AND engine_id LIKE 'host-000_-engine-_' AND nvlink_tx_bytes_sum IS NULL)) FROM gpu_samples_rollup_1m"""
    )
    sketches = clickhouse.query(
        "SELECT DISTINCT length(ttft_us_bins), arraySum(mapValues(ttft_us_bins)) >= event_count, mapKeys(ttft_us_bins)"
        " = arraySort(mapKeys(ttft_us_bins)),"
        " abs(fp_quantile(0.5, ttft_us_bins) / (ttft_us_sum / event_count) - 1) < 0.3 FROM llm_requests_rollup_1h"
    ).result_rows
    assert first == again != []
    assert wrong == 0
    assert sketches == [(20, True, True, True)]


def test_the_least_and_the_greatest_draw_have_a_bin(clickhouse: Any) -> None:
    """Whatever the hash of a row is, of every measure with a sketch: one of a million is either."""
    fields = [field for table in PARTIALS.values() for field in table.fields if field.kind is Kind.BINS]
    drawn = [_measure(field, 1, range(1), 20) for field in fields]
    for draws in (0, 999_999, 1_000_000):
        said = ", ".join(re.sub(r"cityHash64\([^)]*\)", f"toUInt64({draws})", one) for one in drawn)
        (found,) = clickhouse.query(f"SELECT {said} FROM numbers(1)").result_rows
        assert any(len(bins) == 20 for bins in found if isinstance(bins, dict))


@pytest.mark.parametrize("wanted", [{}, {"tenant": "a"}, {"model": "n", "status": "timeout"}, {"host": "host-0001"}])
def test_the_slowest_of_hours_are_the_greatest_of_their_windows(
    clickhouse: Any, clickhouse_config: ClickHouseConfig, wanted: dict[str, str]
) -> None:
    """Of a range with broken ends: of its whole hours the slowest of each engine, model, tenant and status, and all of
    what lies around them; up to two hours all of it. The same sent again changes nothing."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    hour_ms = now_ms // HOUR_MS * HOUR_MS - 6 * HOUR_MS
    for again in range(2):
        clickhouse.command(f"""INSERT INTO exemplars (window_ms, value_us, metric, host, engine_id, model, tenant,
            status, request_id, log_id, log_offset, log_row)
            SELECT {hour_ms} + 10000 * (number % 1800), cityHash64(number) % 1000000,
            ['ttft', 'e2e'][1 + number % 2], concat('host-000', toString(number % 3)),
            concat('e', toString(number % 5)), ['m', 'n'][1 + intDiv(number, 7) % 2],
            ['a', 'b', 'c'][1 + intDiv(number, 11) % 3], ['ok', 'timeout'][1 + intDiv(number, 13) % 2],
            concat('r', toString(number)), 'l', {again}, number FROM numbers(20000)""")
    key = "intDiv(window_ms, 3600000), host, engine_id, model, tenant, status"

    def both(from_ms: int, to_ms: int, whole: str) -> tuple[list[Any], list[Any]]:
        query = catalogue.query("slowest_of_windows")
        bound = values_of(query, from_ms, to_ms) | {"top": 100, **wanted}
        kept = " AND ".join(["metric = 'ttft'", *(f"{name} = '{value}'" for name, value in wanted.items())])
        expected = clickhouse.query(f"""SELECT window_ms, request_id, value_us FROM
            (SELECT *, if({whole}, row_number() OVER (PARTITION BY {key} ORDER BY value_us DESC), 1) AS nth
            FROM exemplars FINAL WHERE {kept} AND window_ms >= {from_ms} AND window_ms < {to_ms} AND log_offset = 0)
            WHERE nth = 1 ORDER BY value_us DESC, request_id LIMIT 100""").result_rows
        found = clickhouse.query(query.sql, parameters=bound).named_results()
        return [(row["at_ms"], row["request_id"], row["ttft_us"]) for row in found], expected

    short, long = hour_ms + 20 * MINUTE_MS, 170 * MINUTE_MS
    found, expected = both(short, short + 100 * MINUTE_MS, "false")
    assert found == expected != []
    whole = f"window_ms >= {hour_ms + HOUR_MS} AND window_ms < {(short + long) // HOUR_MS * HOUR_MS}"
    found, expected = both(short, short + long, whole)
    assert found == expected != []


@pytest.mark.parametrize("length_ms", [HOUR_MS, 3 * HOUR_MS], ids=["windows", "hours"])
def test_rows_that_are_not_merged_yet_take_no_places_of_other_requests(clickhouse: Any, length_ms: int) -> None:
    """Of one key there are more rows than are cut first: copies of a window, greater and greater values of an hour."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    hour_ms = now_ms // HOUR_MS * HOUR_MS - 6 * HOUR_MS
    columns = ["window_ms", "value_us", "metric", "engine_id", "model", "status", "request_id", "log_offset"]
    for again in range(9):
        value_us, offset = (100 + again, again) if length_ms > HOUR_MS else (100, 0)
        row = [hour_ms, value_us, "ttft", "hot", "m", "ok", f"r{offset}", offset]
        clickhouse.insert("exemplars", [row], column_names=columns)
    clickhouse.insert("exemplars", [[hour_ms, 7, "ttft", "cool", "m", "ok", "s", 99]], column_names=columns)
    query = catalogue.query("slowest_of_windows")

    bound = values_of(query, hour_ms, hour_ms + length_ms) | {"top": 2}
    found = [row["request_id"] for row in clickhouse.query(query.sql, parameters=bound).named_results()]

    assert found == ["r8" if length_ms > HOUR_MS else "r0", "s"]


def test_one_request_of_several_engines_takes_one_place(clickhouse: Any) -> None:
    """Of whole hours it is the slowest of each engine that it was at."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    hour_ms = now_ms // HOUR_MS * HOUR_MS - 6 * HOUR_MS
    columns = ["window_ms", "value_us", "metric", "engine_id", "model", "status", "request_id", "log_offset"]
    at = [("e1", 100, "r"), ("e2", 100, "r"), ("e3", 7, "s")]
    rows = [
        [hour_ms, us, "ttft", engine, "m", "ok", request, offset] for offset, (engine, us, request) in enumerate(at)
    ]
    clickhouse.insert("exemplars", rows, column_names=columns)
    query = catalogue.query("slowest_of_windows")

    bound = values_of(query, hour_ms, hour_ms + 3 * HOUR_MS) | {"top": 2}
    found = [row["request_id"] for row in clickhouse.query(query.sql, parameters=bound).named_results()]

    assert found == ["r", "s"]
