"""The books and bills that ``bench dashboard`` draws, in real tables."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from fleetpulse.queries.dashboard import query
from lab.bench.dashboard_fleet import Fleet
from lab.bench.dashboard_raw import draw
from lab.bench.dashboard_sums import BOOKED, sums
from lab.bench.dashboard_windows import Span
from runtime.config import ClickHouseConfig
from schemas.limits import HOUR_MS, MINUTE_MS
from sinks.database import SinkDatabase

pytestmark = [pytest.mark.integration, pytest.mark.tables]

FLEET = Fleet(3, 1, models=("m", "n"), tenants=("a", "b", "c"))


def test_every_query_of_books_and_bills_has_something_to_read(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Two hours of three hosts: lines of each commit, bills of six engines a minute, parts of all tenants."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    to_ms = now_ms // HOUR_MS * HOUR_MS
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        draw(database, sums(FLEET, Span(to_ms - 2 * HOUR_MS, to_ms)), lambda _what: None)

    def answer(name: str) -> list[dict[str, Any]]:
        given = {"from_ms": to_ms - 2 * HOUR_MS, "to_ms": to_ms, "bucket_ms": MINUTE_MS}
        found = query(name)
        bound = found.values({**dict.fromkeys(("region", "tenant", "model"), ""), **given}, 2 * HOUR_MS)
        return list(clickhouse.query(found.at_levels(2 * HOUR_MS), bound).named_results())

    assert clickhouse.command("SELECT count() FROM books FINAL") == 60 * 12 * 3 * len(BOOKED)
    assert answer("cost_total")[0]["bills"] == 6 * 120
    assert {row["tenant"] for row in answer("cost_tenants")} == {"a", "b", "c", "__wasted__"}
    assert {row["model"] for row in answer("cost_models")} == {"m", "n", "__wasted__"}
    assert len(answer("cost_idle_hosts")) == 6
    assert {row["what"] for row in answer("cost_over_time")} == {"request", "not answered in full", "__wasted__"}
    assert {row["topic"] for row in answer("pipeline_topics")} == set(BOOKED)
    assert len(answer("pipeline_over_time")) == 120 * len(BOOKED)
