"""Engine, GPU and request meet with two commands and no configuration: an engine as vLLM is, an agent, a proxy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from producers.identity import host_file
from producers.identity.topic_reader import TopicEngines
from producers.publish.states import States
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka_clients import open_producer
from schemas.contract.engines import SCHEMA, Engine, encode
from tests.integration.spools import rows_beside, rows_in
from tests.integration.test_proxy_process import lines_of
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GPU = "GPU-5afe0000-0000-4000-8000-000000000000"
BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "x"}]}).encode()


@contextmanager
def started(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process of this Python; asked to end with the block, and waited for."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # Kafka is not there: do not wait for it
        process.communicate(timeout=60)


def until(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


def ask(port: int) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", BODY, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
        answer.read()  # who closes before the body came has aborted


def known_in(path: Path) -> list[Engine]:
    return list(host_file.read(path).engines) if path.exists() else []


def test_requests_gpus_and_the_engine_have_one_identity(tmp_path: Path) -> None:
    """All requests, the first ones included, name the engine that GPU and engine rows name, and its group; only those
    that came before the first response are cold."""
    engine_port, proxy_port = unused_ports(2)
    sock = tmp_path / "agent.sock"
    base = {"FLEETPULSE_DATA_DIR": str(tmp_path), "FLEETPULSE_KAFKA__BOOTSTRAP": "127.0.0.1:9"}
    agent_settings = {
        "FLEETPULSE_AGENT__ENGINE_PORTS": f"[{engine_port}]",
        "FLEETPULSE_AGENT__SLOW_PERIOD_MS": "1000",
        "FLEETPULSE_SOCKET": str(sock),
    }
    with ExitStack() as running:
        engine = running.enter_context(started("tests.integration.engine_like_vllm", str(engine_port)))
        until(lambda: _listens(engine_port), "the engine does not listen")
        words = ("agent", "--spool", str(tmp_path / "agent-spool"))
        agent = ("tests.integration.agent_on_stub", str(engine.pid), *words)
        running.enter_context(started(*agent, **base, **agent_settings))
        file = host_file.path_beside(sock)
        until(file.exists, "the agent writes no file")
        url = f"http://localhost:{engine_port}"
        words = ("proxy", "--upstream", url, "--port", str(proxy_port), "--spool", str(tmp_path / "proxy-spool"))
        proxy = running.enter_context(started("fleetpulse", *words, **base, FLEETPULSE_SOCKET=str(sock)))
        lines_of(proxy, "proxy is up")
        ask(proxy_port)
        until(lambda: any(each.gpu_uuids for each in known_in(file)), "the engine is matched to no GPU")
        until(lambda: any(each.warm_ms for each in known_in(file)), "the engine has served nobody")
        for _ in range(4):
            ask(proxy_port)
        until(lambda: _names_engine(tmp_path / "agent-spool"), "no sample of the GPU names the engine")
        proxy_rows = tmp_path / "proxy-spool"
        until(lambda: len(rows_beside(proxy_rows).get("llm.requests", [])) == 5, "not every request is on disk")

    requests = rows_in(proxy_rows)["llm.requests"]
    agents = rows_in(tmp_path / "agent-spool")
    (known,) = known_in(file)
    assert known.engine_id == f"{socket.gethostname()}:{engine_port}"
    assert (known.placement_group, known.gpu_uuids) == (known.engine_id, (GPU,))
    assert len(requests) == 5
    assert {(row["engine_id"], row["placement_group"]) for row in requests} == {(known.engine_id, known.engine_id)}
    assert [row["start"] for row in requests] == ["cold", *["warm"] * 4]
    last = [row for row in agents["gpu.samples"] if row["gpu_uuid"] == GPU][-1]
    assert (last["engine_id"], last["placement_group"], last["workload"]) == (known.engine_id,) * 2 + ("inference",)
    other = [row for row in agents["gpu.samples"] if row["gpu_uuid"] != GPU][-1]
    assert (other["engine_id"], other["workload"]) == (None, "idle")
    assert {row["engine_id"] for row in agents["engine.samples"] + agents["engine.events"]} == {known.engine_id}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _names_engine(spool: Path) -> bool:
    """Whether a sample of the GPU that is in this spool of a living agent names its engine."""
    return any(row["engine_id"] for row in rows_beside(spool).get("gpu.samples", []) if row["gpu_uuid"] == GPU)


async def test_a_gateway_on_another_host_knows_engines_by_the_topic(
    kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """What an agent announces is followed as it changes; the broker keeps the newest."""
    topic = topic_name("engines", 1, {"cleanup.policy": "compact,delete"})
    kafka = KafkaConfig(bootstrap=kafka_bootstrap)
    reader = TopicEngines(kafka, SystemClock().now_ms, topic)
    following = asyncio.create_task(reader.run())
    states = States({topic: 1}, 10.0)
    try:
        async with open_producer(kafka) as producer:
            for precision in ("bf16", "fp8"):
                engine = Engine(
                    "e", "h-9", "e", ("10.9.9.9:8000",), precision=precision, reported_ms=SystemClock().now_ms()
                )
                states.announce(topic, engine.key, encode(engine), SCHEMA)
                await states.publish(producer, 0.0)
                async with asyncio.timeout(30):
                    while reader.directory.at("10.9.9.9:8000") != engine:  # noqa: ASYNC110 -- it is filled elsewhere
                        await asyncio.sleep(0.05)
    finally:
        following.cancel()
        await asyncio.wait({following})
