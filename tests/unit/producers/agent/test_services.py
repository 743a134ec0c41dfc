from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

import fleetpulse_track as track
from producers.agent.process import numbered, run_agent, services_of, tail_settings
from producers.agent.search import setting_of
from producers.batch import Batch
from runtime.counters import COUNTERS
from runtime.edge_config import AgentConfig, CollectorSwitches, LogTailConfig, OtlpConfig, ReceiverConfig
from schemas.codec.block import Block
from schemas.errors import ConfigError

OFF = CollectorSwitches.model_validate(dict.fromkeys(CollectorSwitches.model_fields, "off"))


@pytest.mark.parametrize(
    ("receiver", "otlp", "names"),
    [(True, False, ["receiver"]), (False, True, ["otlp"]), (True, True, ["receiver", "otlp"]), (False, False, [])],
)
def test_services_are_those_the_configuration_asks_for(receiver: bool, otlp: bool, names: list[str]) -> None:
    """Nothing of them is imported before they begin."""
    config = AgentConfig(receiver=ReceiverConfig(enabled=receiver), otlp=OtlpConfig(enabled=otlp))
    nothing: Any = None

    assert [service.name for service in services_of(setting_of(config), nothing, nothing)] == [*names, "engine news"]


def test_every_log_is_a_service_with_a_position_of_its_own(tmp_path: Path) -> None:
    """Named after the log: the order of the configuration does not matter."""
    logs = [LogTailConfig(path=Path(f"/var/log/{name}.jsonl"), fields={"model": "m"}) for name in "ab"]
    config = AgentConfig(host="h", receiver=ReceiverConfig(enabled=False), log_tails=tuple(logs))
    setting = setting_of(config, tmp_path)
    nothing: Any = None

    names = [service.name for service in services_of(setting, nothing, nothing)]
    first, second = (tail_settings(log, setting) for log in logs)

    assert names == ["engine news", "log /var/log/a.jsonl", "log /var/log/b.jsonl"]
    assert (first.path, first.fields, first.from_start) == (logs[0].path, {"model": "m"}, False)
    assert first.labels == {"host": "h", "cluster": None, "region": None}
    assert first.position.parent == second.position.parent == tmp_path
    assert first.position != second.position
    with pytest.raises(ConfigError):
        tail_settings(logs[0], setting_of(config))


def test_logs_of_one_path_have_a_position_each(tmp_path: Path) -> None:
    """Whatever formats beside it; the first of requests has the one that 0.1.0 gave to each."""
    path = Path("/var/log/a.jsonl")
    steps = LogTailConfig(path=path, format="training", fields={"job": "job"})
    requests = [LogTailConfig(path=path, fields={"model": model}) for model in "mno"]
    setting = setting_of(AgentConfig(host="h"), tmp_path)

    found = [tail_settings(log, setting, number).position for log, number in numbered([*requests, steps])]
    moved = [tail_settings(log, setting, number).position for log, number in numbered([steps, *requests])]

    assert len(set(found)) == 4
    assert moved == [found[3], *found[:3]]
    assert found[0].name == f"log-{hashlib.sha256(b'/var/log/a.jsonl').hexdigest()[:32]}.position"


async def test_logs_of_one_path_are_kept_apart_by_the_agent(tmp_path: Path) -> None:
    """Each service has its own position."""
    path = tmp_path / "a.jsonl"
    logs = [LogTailConfig(path=path, fields={"at_ms": "t ms", "model": model}) for model in "mn"]
    config = AgentConfig(host="h", receiver=ReceiverConfig(enabled=False), log_tails=tuple(logs))
    stop = asyncio.Event()
    stop.set()
    nothing: Any = None
    for service in services_of(setting_of(config, tmp_path / "state"), nothing, nothing)[1:]:
        await service.serve(stop)

    assert len(list((tmp_path / "state").glob("log-*.position*"))) == 2


class RecordingPublisher:
    def __init__(self) -> None:
        self.rows = 0
        self.came = asyncio.Event()

    async def put(self, topic: str, key: bytes, batch: Batch | Block) -> bool:
        self.rows += batch.count if isinstance(batch, Batch) else batch.rows
        self.came.set()
        return True

    def shed(self, topic: str, events: int) -> None:
        raise AssertionError("nothing was dropped")


async def test_requests_of_this_host_are_taken_to_the_last(tmp_path: Path) -> None:
    """What the socket had accepted when the agent was stopped is spooled before it ends; it is counted."""
    before = COUNTERS.value("receiver_datagrams", outcome="taken")
    publisher, stop = RecordingPublisher(), asyncio.Event()
    socket = tmp_path / "agent.sock"
    config = AgentConfig(host="h", collectors=OFF, receiver=ReceiverConfig(socket=socket, linger_ms=1))
    running = asyncio.create_task(run_agent(publisher, stop, config))  # type: ignore[arg-type]
    client = track.Client(str(socket))

    async with asyncio.timeout(20):
        while not socket.exists():  # noqa: ASYNC110 - no signal says that the socket is there
            await asyncio.sleep(0)
        track.report(client=client, model="m", request_id="1")
        await publisher.came.wait()
        track.report(client=client, model="m", request_id="2")
        stop.set()
        await running
    client.close()

    assert publisher.rows == 2
    assert COUNTERS.value("receiver_datagrams", outcome="taken") == before + 2
