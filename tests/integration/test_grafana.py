"""Every panel of every Grafana dashboard asks something that the real tables answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleetpulse.migrate.run import migrate
from grafana.boards import BOARDS
from grafana.render import annotation_sql, panel_sql
from grafana.sql import FILTERS, expanded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

HOSTILE = "x'; DROP TABLE llm_requests; --"


def test_every_panel_is_answered(stack: Any, clickhouse_config: Any, clickhouse: Any) -> None:
    """With its columns as it selects them: charts begin with a time; filters that hold SQL are values."""
    migrate(stack.kafka, clickhouse_config)
    now_ms = time.time_ns() // 1_000_000
    failed, starts, kinds = {}, {}, {}

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
