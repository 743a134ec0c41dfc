from __future__ import annotations

import asyncio

from producers.agent.process import run_agent
from producers.agent.sources import Missing, Setting, Source
from producers.batch import Batch
from producers.collector import Collected
from runtime.edge_config import AgentConfig, ReceiverConfig
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.events.event_types import BY_TOPIC, GPU_SAMPLES, HOST_SAMPLES
from schemas.fields import Event
from tests.nvml_stub import NvmlStub, gpus, installed
from tests.unit.producers.agent.collectors import Plain


class RecordingPublisher:
    """Sets ``enough`` when the named topics have come."""

    def __init__(self, *wanted: str) -> None:
        self.batches: list[Batch] = []
        self.shed_events = 0
        self.wanted = set(wanted)
        self.enough = asyncio.Event()

    def put_at_once(self, batch: Batch) -> bool:
        self.batches.append(batch)
        if {each.topic for each in self.batches} >= self.wanted:
            self.enough.set()
        return True

    def shed(self, topic: str, events: int) -> None:
        self.shed_events += events


async def test_a_host_with_gpus_publishes_both() -> None:
    """One record of the host and one of its GPUs a tick, and what collecting cost."""
    publisher = RecordingPublisher("host.samples", "gpu.samples")
    config = AgentConfig(host="host-1", period_ms=100)

    with installed(NvmlStub(gpus(8))):
        async with asyncio.timeout(20):
            await run_agent(publisher, publisher.enough, config)  # type: ignore[arg-type]

    by_topic = {batch.topic: batch for batch in publisher.batches}
    assert by_topic["gpu.samples"].count == 8
    assert by_topic["host.samples"].count == 1
    for topic, batch in by_topic.items():
        assert batch.key == b"host-1"
        assert {
            row["host"] for row in rows_of(BY_TOPIC[topic].fields, decode(batch.value, BY_TOPIC[topic].fields))
        } == {"host-1"}


async def test_a_gpu_driver_that_comes_up_is_collected_and_stops_nothing() -> None:
    """The host was found before, and goes on with the same collector."""
    publisher, made, driver_is_up = RecordingPublisher("host.samples", "gpu.samples"), list[str](), list[bool]()

    def probe(_setting: Setting) -> str:
        if not driver_is_up:
            raise Missing("no driver")
        return "a driver"

    class Measured(Plain):
        period_ms = 100

        def __init__(self, event: Event, **row: str) -> None:
            super().__init__()
            made.append(event.topic)
            self.event, self.row = event, row

        def collect(self, at_ms: int) -> list[Collected]:
            driver_is_up.append(True)
            return [Collected(self.event, [{"at_ms": at_ms, "host": "h", "origin": "measured", **self.row}])]

    sources = [
        Source("host", "", lambda _setting: "this host", lambda _setting: {"host": lambda: Measured(HOST_SAMPLES)}),
        Source("nvml", "", probe, lambda _setting: {"nvml": lambda: Measured(GPU_SAMPLES, gpu_uuid="GPU-1")}),
    ]
    config = AgentConfig(host="h", probe_period_ms=100, receiver=ReceiverConfig(enabled=False))
    async with asyncio.timeout(20):
        await run_agent(publisher, publisher.enough, config, sources=sources)  # type: ignore[arg-type]

    assert made == ["host.samples", "gpu.samples"]
