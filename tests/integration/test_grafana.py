"""Every panel of every Grafana dashboard asks something that the real tables answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleetpulse.migrate.run import migrate
from grafana.boards import BOARDS
from grafana.render import annotation_sql, panel_sql
from grafana.sql import FILTERS, expanded, grafana_sql
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from tests.integration.request_rows import fill, fill_bills, requests

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

HOSTILE = "x\\' OR 1 = 1; DROP TABLE llm_requests; -- \\"
"""Where only quotes are doubled, a backslash before one ends the literal; so does one at the end."""


@pytest.mark.tables
def test_rates_are_of_what_a_point_counts(clickhouse: Any) -> None:
    """Also at the ends of the range, over which they add up to all that there is; money an hour to the bill."""
    until_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    rows = requests(until_ms)
    fill(clickhouse, rows)
    fill_bills(clickhouse, [until_ms - 10 * HOUR_MS])
    from_ms, to_ms = until_ms - 27 * HOUR_MS + 70_003, until_ms - 3 * MINUTE_MS + 4_001
    panels = {panel.title: (board, panel) for board in BOARDS for panel in board.panels}
    asked = ("Requests a second, by outcome", "What money goes to, an hour")
    ended, spent = (panel_sql(*panels[title]) for title in asked)

    def rows_of(sql: str) -> list[dict[str, Any]]:
        sql = expanded(sql, from_ms, to_ms, 1_800, dict.fromkeys(FILTERS, ""))
        return list(clickhouse.query(sql).named_results())

    points = rows_of(ended.replace("SELECT fromUnix", "SELECT counted_s, fromUnix", 1))
    bills = rows_of(spent.replace("SELECT fromUnix", "SELECT counted_s, fromUnix", 1))
    first, last = -(-from_ms // WINDOW_MS) * WINDOW_MS, -(-to_ms // WINDOW_MS) * WINDOW_MS
    wanted = sum(first <= row["at_ms"] < last for row in rows)
    total = clickhouse.query("SELECT sum(total_nusd) / 1e9 FROM token_costs FINAL").result_rows[0][0]

    ends = ("ok", "aborted", "client_fault", "failed")
    assert round(sum(one["counted_s"] * one[end] for one in points for end in ends), 6) == wanted
    assert {one["counted_s"] for one in points[1:-1]} == {3_600}
    assert (points[0]["counted_s"], points[-1]["counted_s"]) == (3_600 - 80, 3_600 - 170)
    assert sum(one["counted_s"] * (one["usd_an_hour"] or 0) / 3_600 for one in bills) == pytest.approx(total, rel=1e-9)


@pytest.mark.tables
def test_a_filter_is_a_value_whatever_it_holds(clickhouse: Any) -> None:
    """What a box holds is what names are compared with."""
    for value in (HOSTILE, "o'b\\n%41 +é"):
        sql = expanded(grafana_sql("cost_total", {}), 0, 1, 30, {**dict.fromkeys(FILTERS, ""), "region": value})
        read = expanded("SELECT decodeURLComponent('${region:percentencode}')", 0, 1, 30, {"region": value})

        clickhouse.query(sql)
        assert clickhouse.query(read).result_rows == [(value,)]


def test_every_panel_is_answered(stack: Any, clickhouse_config: Any, clickhouse: Any) -> None:
    """With its columns as it selects them: charts begin with a time; filters that hold SQL are values."""
    migrate(stack.kafka, clickhouse_config)
    now_ms = time.time_ns() // 1_000_000
    failed, starts, kinds = {}, {}, {}

    for board in BOARDS:
        for panel in board.panels:
            sql = panel_sql(board, panel)
            hostile = expanded(sql, now_ms - board.span_ms, now_ms, 30, dict.fromkeys(FILTERS, HOSTILE))
            try:
                for span_ms in (board.span_ms, 40 * DAY_MS):
                    clickhouse.query(expanded(sql, now_ms - span_ms, now_ms, 30, dict.fromkeys(FILTERS, "")))
                first = clickhouse.query(f"DESCRIBE TABLE ({hostile})").result_rows[0]
            except Exception as error:
                failed[board.name, panel.title] = str(error)[:300]
                continue
            if panel.kind == "timeseries":
                starts[board.name, panel.title] = (first[0], first[1].partition("(")[0])

    for board in BOARDS:
        for one in board.annotations:
            sql = expanded(
                annotation_sql(board, one), now_ms - board.span_ms, now_ms, 30, dict.fromkeys(FILTERS, HOSTILE)
            )
            found = clickhouse.query(f"DESCRIBE TABLE ({sql})").result_rows
            kinds[board.name, one.name] = {name: kind.partition("(")[0] for name, kind, *_ in found}

    assert failed == {}
    assert all(one["time"] == "DateTime64" and {"text", "tags"} < one.keys() for one in kinds.values())
    assert len(kinds) == 10
    assert set(starts.values()) == {("time", "DateTime64")}
    assert clickhouse.command("EXISTS TABLE llm_requests") == 1
