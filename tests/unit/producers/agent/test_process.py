from __future__ import annotations

import asyncio

from fleetpulse.bench.nvml_stub import NvmlStub, gpus, installed
from producers.agent.process import run_agent
from producers.batch import Batch
from runtime.edge_config import AgentConfig
from schemas.build import rows_of
from schemas.events import BY_TOPIC
from schemas.native import decode


class RecordingPublisher:
    """Sets ``enough`` when the named topics have come."""

    def __init__(self, *wanted: str) -> None:
        self.batches: list[Batch] = []
        self.shed_events = 0
        self.wanted = set(wanted)
        self.enough = asyncio.Event()

    async def put(self, topic: str, key: bytes, batch: Batch) -> bool:
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
