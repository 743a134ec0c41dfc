"""A real vLLM that its plug-in alone reports, replaced by the next version of vLLM on the same port and GPU.

No proxy, no SDK: what the engine itself reports names engine, group and GPU, pays for the GPU and meets its faults; and
the rollout is found, named on charts, and the first requests after it are those of a cold engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fleetpulse.dashboard.view import mark_of
from fleetpulse.services.processes import Command, Processes
from lab.bench.stand import fresh_stand
from tests.engines import environments, vllm_server
from tests.engines import rig as rigs
from tests.engines.rig import REGISTERED_WITHIN_S, Rig

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3_600)]

REQUESTS = 6
XID = 79
BEFORE, AFTER = environments.VLLM_BEFORE, environments.VLLM
OF_ENGINE = "engine_id, placement_group"
COLD_STARTS = """
    SELECT DISTINCT JSONExtractString(part, 'labels', 'engine_id') AS engine_id
    FROM (SELECT arrayJoin(arrayPushFront(JSONExtractArrayRaw(record, 'members'), record)) AS part FROM alerts FINAL)
    WHERE JSONExtractString(part, 'rule') = 'cold_starts'
"""
"""Engines of which the rule told, by itself or in an incident."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """``seen``: what the clients got of each request, by engine version; ``events`` of the engine, the oldest first;
    what the fault hit."""

    rig: Rig
    seen: dict[str, dict[str, dict[str, Any]]]
    events: list[dict[str, Any]]
    faults: list[dict[str, Any]]


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rollout]:
    folder = tmp_path_factory.mktemp("rollout")
    added = rigs.with_plugin(folder)
    seen: dict[str, dict[str, dict[str, Any]]] = {}
    for version in (AFTER, BEFORE):
        environments.vllm(version)
    with contextlib.ExitStack() as running:
        stand = running.enter_context(fresh_stand(folder, lambda _text: None))
        processes = running.enter_context(Processes(folder / "processes"))
        processes.start(Command("jobs", ("jobs", "all"), stand.environment))
        processes.start(Command("sink", ("sink",), stand.environment))
        with vllm_server.serving(folder / "before.log", added=added, version=BEFORE) as engine:
            rig = Rig(folder, engine, stand, processes, proxy_port=0)
            running.enter_context(rigs.agent(folder, stand, engine))
            rig.eventually("SELECT count() FROM gpu_samples WHERE engine_id IS NOT NULL", bool, REGISTERED_WITHIN_S)
            rig.raise_xid(XID)
            seen[BEFORE] = rigs.direct(rig, tracked=False)
            rig.eventually("SELECT uniqExact(request_id) FROM llm_requests", lambda n: n == REQUESTS)
        rig.compute_with(0)
        with vllm_server.serving(folder / "after.log", added=added) as engine:
            rig = replace(rig, engine=engine)
            rig.compute_with(engine.worker_pid)
            rig.eventually("SELECT count() FROM engine_events WHERE kind = 'changed'", bool, REGISTERED_WITHIN_S)
            seen[AFTER] = rigs.direct(rig, tracked=False)
            rig.eventually("SELECT sum(event_count) FROM request_windows", lambda n: n == 2 * REQUESTS)
            rig.eventually("SELECT count() FROM gpu_event_windows WHERE severity != 'info'", bool)
            rig.eventually(
                "SELECT count() FROM token_costs WHERE use = 'engine' AND has(part_name, 'request')", lambda n: n >= 2
            )
            faults = rig.answered("query", "requests_of_gpu_fault")
            events = rig.rows("SELECT * FROM engine_events FINAL ORDER BY at_ms")
            yield Rollout(rig, seen, events, faults)


@pytest.mark.parametrize("version", [BEFORE, AFTER])
def test_the_plug_in_alone_names_engine_group_and_gpu(rollout: Rollout, version: str) -> None:
    """As the agent names them in its events and on its GPU."""
    engine = {name: rollout.events[-1][name] for name in OF_ENGINE.split(", ")}
    ids = ", ".join(f"'{each}'" for each in rollout.seen[version])
    rows = rollout.rig.rows(
        f"SELECT {OF_ENGINE}, reported_by, status FROM llm_requests FINAL WHERE request_id IN ({ids})"
    )

    assert rows == [{**engine, "reported_by": "plugin", "status": "ok"}] * REQUESTS
    assert rollout.rig.value(f"SELECT count() FROM gpu_samples FINAL WHERE engine_id = '{engine['engine_id']}'") > 0


def test_busy_minutes_are_paid_by_their_requests(rollout: Rollout) -> None:
    """Every part of a minute with requests is the requests' or is idle time by name; nothing lacks a price."""
    parts = rollout.rig.rows(
        "SELECT DISTINCT arrayJoin(part_name) AS name FROM token_costs FINAL WHERE use = 'engine' "
        "AND has(part_name, 'request')"
    )
    names = {row["name"] for row in parts}

    assert "request" in names
    assert "__unpriced__" not in names


def test_a_fault_meets_the_requests_of_its_engine(rollout: Rollout) -> None:
    """Those that were open until one was answered well: nothing was lost by it."""
    (event,) = rollout.rig.rows(f"SELECT DISTINCT at_ms FROM gpu_events FINAL WHERE kind = 'xid' AND code = {XID}")
    (fault,) = [row for row in rollout.faults if "xid" in row["kind"]]
    start = "at_ms - intDiv(ifNull(e2e_us, 0), 1000)"
    well_again = f"SELECT min(at_ms) FROM llm_requests FINAL WHERE {start} >= {event['at_ms']} AND status = 'ok'"
    hit = rollout.rig.value(
        f"SELECT count() FROM llm_requests FINAL WHERE at_ms >= {event['at_ms']} AND {start} < ({well_again})"
    )

    assert (fault["requests"], fault["failed"], fault["other_failed"]) == (hit, 0, 0)
    assert hit >= 1


def test_the_rollout_is_found(rollout: Rollout) -> None:
    """The same engine, changed once, from what to what; each start took some time."""
    changed = [each for each in rollout.events if each["kind"] == "changed"]

    assert [each["message"].partition("; ")[0] for each in changed] == [f"engine_version {BEFORE} -> {AFTER}"]
    assert {each["engine_id"] for each in rollout.events} == {changed[0]["engine_id"]}
    assert {each["engine_version"] for each in rollout.events if each["engine_version"]} == {BEFORE, AFTER}
    assert changed[0]["load_ms"] > 0


def test_charts_name_the_rollout(rollout: Rollout) -> None:
    """By the version that is new."""
    rows = rollout.rig.rows(
        "SELECT at_ms AS begun_ms, kind AS a_kind, message AS a_message, model_version FROM engine_events FINAL "
        "WHERE kind = 'changed'"
    )

    assert [name for _, name in map(mark_of, rows)] == [AFTER]


def test_the_first_requests_after_it_are_those_of_a_cold_engine(rollout: Rollout) -> None:
    """Of the new process, and none that a warm one answered."""
    cold = rollout.rig.rows("SELECT request_id FROM llm_requests FINAL WHERE start = 'cold'")

    assert {row["request_id"] for row in cold} & rollout.seen[AFTER].keys()


def test_the_shipped_rule_tells_of_the_cold_start(rollout: Rollout) -> None:
    """By the engine whose requests waited for the new process; a part of the incident that the XID opened."""
    rollout.rig.eventually(f"SELECT count() FROM ({COLD_STARTS})", bool)

    assert [row["engine_id"] for row in rollout.rig.rows(COLD_STARTS)] == [rollout.events[-1]["engine_id"]]
