"""A real vLLM without its plug-in, measured by the SDK alone, by OTLP alone, and by a gateway on another host.

Each way by itself names the engine, its group and its GPU, pays for the GPU and meets its faults; ``doctor`` finds
nothing, and names the piece once one is wrong.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fleetpulse.doctor.judge_joins import LOOK_BACK_MS
from fleetpulse.services.processes import Command, Processes
from lab.bench.counterparts import child
from lab.bench.stand import free_port, fresh_stand, until
from producers.identity import host_file
from schemas.errors import FleetpulseError
from tests.engines import environments, network, vllm_server
from tests.engines import rig as rigs
from tests.engines.rig import REGISTERED_WITHIN_S, Rig

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3_600)]

WAYS = {"sdk": "tracked", "otlp": "by-otlp", "gateway": None}
"""The tenant that each way's requests name."""
REQUESTS = 6
XID = 79
"""The GPU reports it before the first request; its impact is counted over the five minutes after it."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The engine as the agent named it; what the clients got, by way; what the fault hit; tenants and parts of the
    bills; the doctor on the sound set-up, and its findings with a piece wrong."""

    rig: Rig
    engine: dict[str, Any]
    seen: dict[str, list[dict[str, Any]]]
    faults: list[dict[str, Any]]
    paid: dict[str, set[str]]
    sound: subprocess.CompletedProcess[str]
    wrong: dict[str, list[str]]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("ways")
    with contextlib.ExitStack() as running:
        there = running.enter_context(network.second_host())
        stand = running.enter_context(fresh_stand(folder, lambda _text: None))
        engine = running.enter_context(vllm_server.serving(folder / "vllm.log", host="0.0.0.0"))
        processes = running.enter_context(Processes(folder / "processes"))
        processes.start(Command("jobs", ("jobs", "all"), stand.environment))
        processes.start(Command("sink", ("sink",), stand.environment))
        broker = int(stand.config.kafka.bootstrap.rpartition(":")[2])
        running.enter_context(network.reachable(broker, folder / "broker-there.log"))
        otlp_port, proxy_port = free_port(), free_port()
        settings = {
            "FLEETPULSE_AGENT__OTLP__ENABLED": "true",
            "FLEETPULSE_AGENT__OTLP__HTTP_PORT": str(otlp_port),
        }
        rig = Rig(folder, engine, stand, processes, proxy_port)
        with contextlib.ExitStack() as edges:
            edges.enter_context(rigs.agent(folder, stand, engine, settings))
            url = f"http://{network.HERE}:{engine.port}"
            command = [
                *there,
                sys.executable,
                "-m",
                "fleetpulse",
                "proxy",
                "--upstream",
                url,
                "--port",
                str(proxy_port),
            ]
            elsewhere = {**stand.environment, "FLEETPULSE_SOCKET": str(folder / "nobody.sock")}
            edges.enter_context(child(command, folder / "proxy-there.log", elsewhere))
            rig.eventually("SELECT count() FROM gpu_samples WHERE engine_id IS NOT NULL", bool, REGISTERED_WITHIN_S)
            rig.raise_xid(XID)
            seen = {way: _requested(rig, way, there, otlp_port) for way in WAYS}
            rig.eventually("SELECT uniqExact(request_id) FROM llm_requests", lambda n: n >= REQUESTS * len(WAYS))
            rig.eventually("SELECT sum(event_count) FROM request_windows", lambda n: n and n >= REQUESTS * len(WAYS))
            rig.eventually("SELECT count() FROM gpu_event_windows WHERE severity != 'info'", bool)
            faults = rig.answered("query", "requests_of_gpu_fault")
            (named,) = rig.rows(
                "SELECT engine_id, placement_group FROM engine_events FINAL ORDER BY at_ms DESC LIMIT 1"
            )
            sound = _settled(rig)
            paid = _paid(rig)
        process = _found_wrong(rig, settings, 1, "join.gpu_engine")
        host_file.path_beside(folder / "agent.sock").unlink()  # an agent that has never seen the engine
        wrong = {
            "process": process,
            "port": _found_wrong(rig, {**settings, "FLEETPULSE_AGENT__ENGINE_PORTS": "[9]"}, None, "join.engine"),
        }
        yield Ways(rig, named, seen, faults, paid, sound, wrong)


def _requested(rig: Rig, way: str, there: tuple[str, ...], otlp_port: int) -> list[dict[str, Any]]:
    """Requests by one way; what its client got of each."""
    if way == "sdk":
        return list(rigs.direct(rig, tracked=True).values())
    if way == "otlp":
        command = [environments.otlp_client().program("python"), str(rigs.HERE / "otlp_client.py")]
        text = rigs.client(rig, way, [*command, rig.engine.url, f"http://127.0.0.1:{otlp_port}"])
    else:
        command = [*there, environments.clients().program("python"), str(rigs.HERE / "direct_client.py")]
        added = {"PYTHONPATH": str(environments.ROOT / "sdk")}
        text = rigs.client(rig, way, [*command, rig.url, "plain"], added)
    return [json.loads(line) for line in text.splitlines()]


def _settled(rig: Rig) -> subprocess.CompletedProcess[str]:
    """The doctor once what it looks back on is of a set-up that stands."""
    time.sleep(LOOK_BACK_MS / 1_000)
    return rig.fleetpulse("doctor")


def _paid(rig: Rig) -> dict[str, set[str]]:
    """Tenants and parts of the engine's bills."""
    bills = "token_costs FINAL WHERE use = 'engine'"
    rig.eventually(f"SELECT count() FROM {bills} AND has(line_tenant, 'by-otlp')", bool)
    lists = {"tenants": "line_tenant", "parts": "part_name"}
    return {
        name: {row["one"] for row in rig.rows(f"SELECT DISTINCT arrayJoin({column}) AS one FROM {bills}")}
        for name, column in lists.items()
    }


def _found_wrong(rig: Rig, settings: dict[str, str], pid: int | None, check: str) -> list[str]:
    """The checks that the doctor finds wrong with an agent like this while requests come, once ``check`` is one."""
    found: list[str] = []

    def named() -> bool:
        rigs.direct(rig, tracked=True)
        done = rig.fleetpulse("doctor", "--json")
        found[:] = [each["check"] for each in json.loads(done.stdout)["findings"] if each["state"] == "wrong"]
        return check in found

    with rigs.agent(rig.folder, rig.stand, rig.engine, settings, pid), contextlib.suppress(FleetpulseError):
        until(named, 3 * LOOK_BACK_MS / 1_000, lambda: f"the doctor finds {found}", every_s=10.0)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_every_request_names_engine_group_and_gpu(ways: Ways, way: str) -> None:
    """As the agent named them in its events and on its GPU."""
    reported = {"gateway": "proxy"}.get(way, way)
    of_way = f"llm_requests FINAL WHERE reported_by = '{reported}' ORDER BY at_ms LIMIT {REQUESTS}"
    rows = ways.rig.rows(f"SELECT engine_id, placement_group, status FROM {of_way}")

    assert len(ways.seen[way]) == REQUESTS
    assert rows == [{**ways.engine, "status": "ok"}] * REQUESTS
    assert ways.rig.value(f"SELECT count() FROM gpu_samples FINAL WHERE engine_id = '{ways.engine['engine_id']}'") > 0


def test_the_gpu_is_paid_by_the_requests_of_its_minutes(ways: Ways) -> None:
    """Minutes with requests are billed to them and to their tenants, and nothing lacks a price."""
    assert ways.paid["tenants"] >= {"tracked", "by-otlp"}
    assert "request" in ways.paid["parts"]
    assert "__unpriced__" not in ways.paid["parts"]


def test_a_fault_meets_the_requests_of_its_engine(ways: Ways) -> None:
    """Those until one was answered well, and none of them failed."""
    (fault,) = [row for row in ways.faults if "xid" in row["kind"]]

    assert fault["engine"] == ways.engine["engine_id"]
    assert 1 <= fault["requests"] <= REQUESTS * len(WAYS)
    assert (fault["failed"], fault["other_failed"]) == (0, 0)


def test_the_doctor_finds_nothing(ways: Ways) -> None:
    """All ways, one engine, one GPU: every check is good."""
    assert ways.sound.returncode == 0, ways.sound.stdout + ways.sound.stderr


@pytest.mark.parametrize(
    ("piece", "check"),
    [
        pytest.param("process", "join.gpu_engine", id="the GPU's process list names another process"),
        pytest.param("port", "join.engine", id="the agent looks for engines at another port"),
    ],
)
def test_the_doctor_names_what_does_not_meet(ways: Ways, piece: str, check: str) -> None:
    """The check, whose mend says where to look."""
    assert check in ways.wrong[piece]
