"""Every panel of every Grafana dashboard asks something that the real tables answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleetpulse.migrate.run import migrate
from grafana.boards import BOARDS
from grafana.render import panel_sql
from grafana.sql import FILTERS, expanded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

HOSTILE = "x'; DROP TABLE llm_requests; --"


def test_every_panel_is_answered(stack: Any, clickhouse_config: Any, clickhouse: Any) -> None:
    """With its columns as it selects them: charts begin with a time; filters that hold SQL are values."""
    migrate(stack.kafka, clickhouse_config)
    now_ms = time.time_ns() // 1_000_000
    failed, starts = {}, {}

    for board in BOARDS:
        for panel in board.panels:
            sql = panel_sql(board, panel)
            plain, hostile = (
                expanded(sql, now_ms - board.span_ms, now_ms, 30, dict.fromkeys(FILTERS, value))
                for value in ("", HOSTILE)
            )
            try:
                clickhouse.query(plain)
                first = clickhouse.query(f"DESCRIBE TABLE ({hostile})").result_rows[0]
            except Exception as error:
                failed[board.name, panel.title] = str(error)[:300]
                continue
            if panel.kind == "timeseries":
                starts[board.name, panel.title] = (first[0], first[1].partition("(")[0])

    assert failed == {}
    assert set(starts.values()) == {("time", "DateTime64")}
    assert clickhouse.command("EXISTS TABLE llm_requests") == 1
