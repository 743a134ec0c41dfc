"""Whom a fault of a GPU hit and what that cost, asked of real tables.

Covers schemas.ddl.fault_view.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetpulse.alerts.touched import touched
from fleetpulse.sql.database import Database
from lab.evaluate.pipeline import records_of
from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet
from lab.simulator.plan import large_plan
from lab.simulator.truth import Part, Truth, part_of
from runtime.config import ClickHouseConfig
from schemas.contract.alerts import encode
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC
from schemas.ddl.fault_view import AFTER_MS
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.definitions import END
from schemas.events.event_types import BY_TOPIC, GPU_EVENTS, LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from tests.integration.cost_rows import BEGIN_MS, gpu_rows, land_events, land_fleet, land_requests, log_ids, request
from tests.integration.sink_rig import store_raw
from tests.unit.schemas.contract.test_alerts import ALERT
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

FAULT_MS = BEGIN_MS + 90_000
NOW_MS = FAULT_MS + 600_000
XID = {
    **{"at_ms": FAULT_MS, "origin": "measured", "host": "h", "gpu": 0, "gpu_uuid": "GPU-1", "kind": "xid"},
    **{"severity": "critical", "code": 79, "message": "fallen off the bus"},
}
LOST = {**XID, "at_ms": FAULT_MS + 2_000, "kind": "gpu_lost", "code": None}
REPEATED = {**XID, "at_ms": FAULT_MS + 61_900}
ABOUT_GPU = replace(ALERT, labels={"gpu_uuid": "GPU-1", "host": "h", "engine_id": "e1"}, since_ms=FAULT_MS + 2_000)


def ended(after_ms: int, e2e_ms: int | None = 2_000, **given: Any) -> dict[str, Any]:
    """A request of ``e1`` that ended so long after the fault."""
    return request(at_ms=FAULT_MS + after_ms, e2e_us=None if e2e_ms is None else 1_000 * e2e_ms, **given)


LOST_WITH_IT = {"status": "error", "error_kind": "engine_lost"}
BEFORE = (ended(-1), ended(-10, **LOST_WITH_IT))
HIT = (
    ended(500),
    ended(800, tenant="globex", **LOST_WITH_IT),
    ended(900, status="aborted"),
    ended(950, status="error", error_kind="client"),
    ended(1_000, status="error", error_kind="server"),
    ended(30_000, None, tenant="initech", status="error", error_kind="network"),
    ended(31_500, 1_600),  # it began before the last one was lost, so that it tells nothing
    ended(90_000, 1_000),  # the first that is well again
    ended(95_000, 6_500),
)
AFTER = (ended(91_500, 1_000), ended(92_000, 1_000, **LOST_WITH_IT), ended(100_000))
ELSEWHERE = (ended(3_000, engine_id="e2", **LOST_WITH_IT),)


def around(database: Database, from_ms: int = BEGIN_MS, to_ms: int = BEGIN_MS + 120_000) -> list[dict[str, Any]]:
    return database.sql(f"SELECT * FROM fault_impact(from_ms = {from_ms}, to_ms = {to_ms})").records()


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[Database]:
    """Two minutes of a small fleet, and requests around a fault in the second."""
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:

        def land(records: Sequence[Record]) -> None:
            sink.insert(land_derived(records, log_ids(), BEGIN_MS, DEFAULT_LIMITS).inserts)

        land_fleet(sink, land)
        land_requests(sink, [*BEFORE, *HIT, *AFTER, *ELSEWHERE])  # in the place of those of the fleet
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


@pytest.fixture
def faults(database: Database, clickhouse_config: ClickHouseConfig) -> Callable[..., None]:
    """Puts events of GPUs into the raw table."""

    def land(*rows: dict[str, Any]) -> None:
        with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
            land_events(sink, GPU_EVENTS, rows)

    return land


def test_a_fault_with_several_signs_counts_once_with_the_requests_that_were_open(
    database: Database, faults: Callable[..., None]
) -> None:
    """From the fault until the engine answered well again. What ended before is not among them, nor what began later;
    failures that a lost engine does not make are apart."""
    faults(XID, LOST, REPEATED)

    (fault,) = around(database)

    assert {name: fault[name] for name in ("fault_ms", "engine_id", "host", "events", "recovered_ms")} == {
        **{"fault_ms": FAULT_MS, "engine_id": "e1", "host": "h", "events": 3, "recovered_ms": FAULT_MS + 90_000},
    }
    assert (fault["gpu_uuids"], sorted(fault["kinds"]), fault["codes"]) == (["GPU-1"], ["gpu_lost", "xid"], [79])
    assert fault["requests"] == len(HIT)
    assert [fault[name] for name in ("failed", "other_failed", "aborted", "client_fault")] == [2, 1, 1, 1]
    assert (fault["tenants"], fault["most_of_them"][0]) == (3, "acme")
    assert (fault["input_tokens"], fault["output_tokens"]) == (750 * len(HIT), 100 * len(HIT))
    assert fault["until_ms"] == fault["recovered_ms"]
    lost = [(one["tenant"], one["error_kind"], one["began_ms"], one["at_ms"]) for one in fault["lost"]]
    assert sorted(lost) == [
        ("globex", "engine_lost", FAULT_MS - 1_200, FAULT_MS + 800),
        ("initech", "network", FAULT_MS + 30_000, FAULT_MS + 30_000),
    ]


def test_what_comes_later_is_another_fault_and_what_is_for_information_none(
    database: Database, faults: Callable[..., None]
) -> None:
    """A minute and more after the one before; each has its own range. GPUs of one engine have one."""
    later = {**XID, "at_ms": FAULT_MS + 60_002, "kind": "ecc"}
    other = {**XID, "gpu": 1, "gpu_uuid": "GPU-2", "engine_id": "e1", "at_ms": FAULT_MS + 1}
    nobodys = {**XID, "gpu": 2, "gpu_uuid": "GPU-3", "host": "h2"}
    faults(XID, {**XID, "at_ms": FAULT_MS - 5, "severity": "info"}, other, later, nobodys)

    found = around(database, to_ms=FAULT_MS + 100_000)
    first, second, unserved = sorted(found, key=lambda one: (one["engine_id"] is None, one["fault_ms"]))

    assert (first["gpu_uuids"], first["events"], second["fault_ms"]) == (["GPU-1", "GPU-2"], 2, FAULT_MS + 60_002)
    assert (unserved["gpu_uuids"], unserved["host"], unserved["requests"]) == (["GPU-3"], "h2", 0)
    assert unserved["recovered_ms"] is None
    assert [one["fault_ms"] for one in around(database, FAULT_MS + 1, FAULT_MS + 100_000)] == [FAULT_MS + 60_002]


def test_an_engine_that_never_answers_again_is_looked_at_for_a_while(
    database: Database, faults: Callable[..., None], clickhouse: Any
) -> None:
    """Its fault has no end, and all that came since are its requests."""
    clickhouse.command("DELETE FROM llm_requests WHERE status = 'ok'")
    faults(XID)

    (fault,) = around(database)

    assert (fault["recovered_ms"], fault["failed"], fault["requests"]) == (None, 3, 6)
    assert (fault["until_ms"], len(fault["lost"])) == (FAULT_MS + AFTER_MS, 3)


def test_a_fault_is_shown_with_its_requests_and_the_bill_of_its_engine(
    database: Database, faults: Callable[..., None], clickhouse: Any
) -> None:
    """By the query of faults and by an alert of its GPU: the same. An alert of an engine or a host has the requests
    that were open while it was. Where there is no bill, or there are no tables of costs, dollars are unknown."""
    faults(XID, LOST)
    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "seconds": 120.0}
    of_engine = replace(ABOUT_GPU, labels={"engine_id": "e1", "host": "h"}, resolved_ms=FAULT_MS + 90_000)
    of_host = replace(of_engine, labels={"host": "h"})
    later = replace(of_engine, since_ms=NOW_MS, resolved_ms=None)

    (of_fault,) = database.named("requests_of_gpu_fault", bounds).records()
    of_alerts = [touched(database, alert, NOW_MS) for alert in (ABOUT_GPU, of_engine, of_host, later)]
    whole = touched(database, replace(of_engine, since_ms=FAULT_MS), NOW_MS) or {}
    clickhouse.command("DROP VIEW costs")
    without = touched(database, ABOUT_GPU, NOW_MS)

    what = ("requests", "failed", "tenants", "dollars")
    assert [of_fault[name] for name in ("gpu_uuid", "kind", "engine", "recovered_after_s")] == [
        *("GPU-1", "xid, gpu_lost", "e1", 90.0),
    ]
    assert {name: whole[name] for name in END} == {"ok": 4, "aborted": 1, "client_fault": 1, "failed": 3}
    told = [tuple(one[name] for name in what) for one in (of_fault, *of_alerts, without) if one is not None]
    assert told[:2] == [(len(HIT), 2, 3, 0.025)] * 2
    assert told[2] == (4, 1, 2, 0.025)  # those of half a minute after it, and what ended after it
    assert told[3] == (5, 2, 2, 0.025)  # with the other engine of the host
    assert told[4:] == [(0, 0, 0, None), (len(HIT), 2, 3, None)]


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
    """By tenant, from the minute in which the alert began: money of their work alone, of it that for the unanswered."""
    opened = replace(ALERT, labels=labels, since_ms=BEGIN_MS + 30_000, opened_ms=BEGIN_MS + 40_000)
    state = replace(opened, at_ms=BEGIN_MS + 50_000, resolved_ms=over_ms)
    record = Record(ALERTS_TOPIC, 0, 0, BEGIN_MS, state.fingerprint.encode(), encode(state), ())
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        sink.insert(land_derived([record], {**log_ids(), ALERTS_TOPIC: "ffff"}, BEGIN_MS, DEFAULT_LIMITS).inserts)

    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "fingerprint": state.fingerprint}
    rows = database.named("request_cost_of_alert", bounds).records()

    columns = ("requests", "ok", "aborted", "unanswered", "cost_nusd", "unanswered_nusd", "all_final")
    both = {"acme": (2, 2, 0, 0, 20_000_000, 0, 1), "initech": (1, 0, 0, 1, 4_000_000, 4_000_000, 1)}
    wanted = both if expected == "both" else {name: both[name] for name in (expected,) if name}
    assert {row["name"]: tuple(row[name] or 0 for name in columns) for row in rows} == wanted


def test_what_an_alert_of_a_gpu_hit_is_known_by_its_minutes_once_rows_of_10_s_are_gone(
    database: Database, clickhouse_config: ClickHouseConfig, clickhouse: Any
) -> None:
    """By the engine that ran on it then; else the whole host would count, or nothing."""
    opened = replace(ALERT, labels={"gpu_uuid": "GPU-1"}, since_ms=BEGIN_MS + 30_000, opened_ms=BEGIN_MS + 40_000)
    opened = replace(opened, at_ms=BEGIN_MS + 50_000)
    record = Record(ALERTS_TOPIC, 0, 0, BEGIN_MS, opened.fingerprint.encode(), encode(opened), ())
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        sink.insert(land_derived([record], {**log_ids(), ALERTS_TOPIC: "ffff"}, BEGIN_MS, DEFAULT_LIMITS).inserts)
    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "fingerprint": opened.fingerprint}
    kept = database.named("request_cost_of_alert", bounds).records()

    clickhouse.command(rollup_insert(BY_TOPIC["gpu.samples"], LEVELS[0], (BEGIN_MS, BEGIN_MS + MINUTE_MS)))
    clickhouse.command("TRUNCATE TABLE gpu_samples_partials")

    assert [row["name"] for row in kept] == ["acme", "initech"]
    assert database.named("request_cost_of_alert", bounds).records() == kept


def test_an_alert_that_nobody_knows_hit_no_requests(database: Database) -> None:
    """No rows, rather than zeros."""
    bounds = {"from_ms": BEGIN_MS, "to_ms": BEGIN_MS + 120_000, "fingerprint": "0" * 16}

    assert database.named("request_cost_of_alert", bounds).records() == []


def ended_by_the_generator(parts: Sequence[Part]) -> list[tuple[str, int, int, str, str | None]]:
    """Requests as the simulation ended them: engine, when they began and ended [ms], status, kind of error."""
    table = Truth(parts)[LLM_REQUESTS.topic]
    (at_ms, _), (took_us, known) = table.values("at_ms"), table.values("e2e_us")
    labels = [table.labels(name) for name in ("engine_id", "status", "error_kind")]
    engines, statuses, kinds = ([words[code] for code in codes.tolist()] for codes, words in labels)
    began = (at_ms - np.where(known, took_us, 0) // 1_000).tolist()
    return list(zip(engines, began, at_ms.tolist(), statuses, kinds, strict=True))


def test_lost_gpus_of_the_simulated_fleet_hit_what_the_generator_says(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Two of them, of two engines: each counted once, with exactly its requests and failures, and their tokens."""
    faults = tuple(
        Fault("gpu_lost", "gpu", f"gpu-0000{host}:{slot}", BEGIN_MS + from_ms, BEGIN_MS + from_ms + 20_000)
        for host, slot, from_ms in ((0, 1, 30_000), (1, 6, 45_000))
    )
    fleet = Fleet(large_plan(2, 8.0, faults), 3)
    wides = [wide for step in fleet.steps(BEGIN_MS, BEGIN_MS + 150_000) for wide in step.wides]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        for event in (LLM_REQUESTS, GPU_EVENTS):
            values = records_of(event.topic, [wide for wide in wides if wide.topic == event.topic])
            place = (event.topic, 0)
            store_raw(
                sink,
                [
                    Record(*place, number, BEGIN_MS + 150_000, None, value, headers)
                    for number, (value, headers) in enumerate(values)
                ],
                BEGIN_MS + 150_000,
            )
        served = {
            (uuid, f"gpu-0000{index // 8}/{index % 8 // 4}"): f"gpu-0000{index // 8}"
            for index, uuid in enumerate(fleet.gpu_uuids)
        }
        windows = [
            {**gpu_rows(700, 0, 1), "gpu_uuid": uuid, "engine_id": engine, "host": host}
            for (uuid, engine), host in served.items()
        ]
        record = partials(windows, 1, "gpu.samples")
        sink.insert(land_derived([record], log_ids(), BEGIN_MS, DEFAULT_LIMITS).inserts)
    ended = ended_by_the_generator([part_of(wide, 1_000) for wide in wides])

    with contextlib.closing(Database(clickhouse_config)) as database:
        found = around(database, to_ms=BEGIN_MS + 150_000)

    assert sorted(one["fault_ms"] for one in found) == [fault.from_ms for fault in faults]
    for fault in found:
        mine = [one for one in ended if one[0] == fault["engine_id"]]
        lost = [one for one in mine if one[4] == "engine_lost"]
        over = min(at for _, began, at, status, _ in mine if status == "ok" and began >= max(one[2] for one in lost))
        hit = [one for one in mine if one[2] >= fault["fault_ms"] and one[1] < over]

        assert (fault["recovered_ms"], fault["requests"], fault["failed"]) == (over, len(hit), len(lost))
        assert (sorted(fault["kinds"]), fault["codes"], len(fault["gpu_uuids"])) == (["gpu_lost", "xid"], [79], 1)
        assert len(hit) > len(lost) > 0
