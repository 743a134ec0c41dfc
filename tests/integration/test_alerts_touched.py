"""Whom a fault of a GPU touched and what that cost, asked of real tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fleetpulse.alerts.touched import touched
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from schemas.contract.alerts import encode
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC
from schemas.limits import DEFAULT_LIMITS
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from tests.integration.cost_rows import BEGIN_MS, land_fleet, log_ids
from tests.unit.schemas.contract.test_alerts import ALERT
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

FAULT_MS = BEGIN_MS + 90_000
FAULT = {
    **{"window_ms": FAULT_MS, "last_at_ms": FAULT_MS, "event_count": 1, "grouping": "gpu_event", "origin": "measured"},
    **{"host": "h", "gpu_uuid": "GPU-1", "engine_id": "e1", "kind": "xid", "severity": "critical"},
}
WHERE, WHAT = ("gpu_uuid", "kind", "engine"), ("requests", "failed", "tenants", "dollars")
ABOUT_ENGINE = replace(ALERT, labels={"engine_id": "e1", "host": "h"}, since_ms=FAULT_MS)


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[Database]:
    """Two minutes of a small fleet, and a fault in the second."""
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:

        def land(records: Sequence[Record]) -> None:
            sink.insert(land_derived(records, log_ids(), BEGIN_MS, DEFAULT_LIMITS).inserts)

        land_fleet(sink, land)
        land([partials([FAULT], 7, "gpu.events")])
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


def test_a_fault_is_shown_with_its_requests_and_the_bill_of_its_engine(database: Database, clickhouse: Any) -> None:
    """By the query of faults; with an alert of its engine, or of its host. Where there is no bill, or there are no
    tables of costs, dollars are unknown."""
    now_ms = FAULT_MS + 600_000
    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "seconds": 120.0}
    of_host = replace(ABOUT_ENGINE, labels={"host": "h"})
    later = replace(ABOUT_ENGINE, since_ms=now_ms)

    (of_fault,) = database.named("requests_of_gpu_fault", bounds).records()
    of_alerts = [touched(database, alert, now_ms) for alert in (ABOUT_ENGINE, of_host, later)]
    clickhouse.command("DROP VIEW costs")
    without = touched(database, ABOUT_ENGINE, now_ms)

    assert {name: of_fault[name] for name in (*WHERE, *WHAT)} == {
        **dict(zip(WHERE, ("GPU-1", "xid", "e1"), strict=True)),
        **dict(zip(WHAT, (3, 1, 2, 0.05), strict=True)),
    }
    told = [tuple(one[name] for name in WHAT) for one in (*of_alerts, without) if one is not None]
    assert told == [(3, 1, 2, 0.05), (3, 1, 2, 0.05), (0, 0, 0, None), (3, 1, 2, None)]


@pytest.mark.parametrize(
    ("labels", "over_ms", "expected"),
    [
        pytest.param({"engine_id": "e1", "host": "h"}, FAULT_MS, "both", id="an engine"),
        pytest.param({"host": "h"}, None, "both", id="a host, and it goes on"),
        pytest.param({"gpu_uuid": "GPU-1", "host": "h"}, FAULT_MS, "both", id="a GPU: its engine"),
        pytest.param({"tenant": "initech"}, FAULT_MS, "initech", id="a tenant"),
        pytest.param({"engine_id": "e2"}, FAULT_MS, "", id="another engine"),
        pytest.param({"region": "eu"}, FAULT_MS, "", id="nothing that bills know"),
    ],
)
def test_what_requests_cost_that_an_alert_hit(
    database: Database, clickhouse_config: ClickHouseConfig, labels: dict[str, str], over_ms: int | None, expected: str
) -> None:
    """By tenant, from the minute in which the alert began: money of their work alone, and of it for what failed."""
    opened = replace(ALERT, labels=labels, since_ms=BEGIN_MS + 30_000, opened_ms=BEGIN_MS + 40_000)
    state = replace(opened, at_ms=BEGIN_MS + 50_000, resolved_ms=over_ms)
    record = Record(ALERTS_TOPIC, 0, 0, BEGIN_MS, state.fingerprint.encode(), encode(state), ())
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        sink.insert(land_derived([record], {**log_ids(), ALERTS_TOPIC: "ffff"}, BEGIN_MS, DEFAULT_LIMITS).inserts)

    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "fingerprint": state.fingerprint}
    rows = database.named("request_cost_of_alert", bounds).records()

    columns = ("requests", "failed", "cost_nusd", "failed_nusd", "all_final")
    both = {"acme": (2, 0, 20_000_000, 0, 1), "initech": (1, 1, 4_000_000, 4_000_000, 1)}
    wanted = both if expected == "both" else {name: both[name] for name in (expected,) if name}
    assert {row["name"]: tuple(row[name] or 0 for name in columns) for row in rows} == wanted


def test_an_alert_that_nobody_knows_hit_no_requests(database: Database) -> None:
    """No rows, rather than zeros."""
    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "fingerprint": "0" * 16}

    assert database.named("request_cost_of_alert", bounds).records() == []
