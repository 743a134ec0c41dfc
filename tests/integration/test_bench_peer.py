"""The yardstick on the real servers: ClickHouse's Kafka engine takes today's field tables and aggregates our events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lab.bench.peer import DATABASE, Options, Peer, group_table, raw_table
from runtime.config import ClickHouseConfig, Config, KafkaConfig
from schemas.events.grouping import sets_of
from tests.integration.sink_rig import send, until
from tests.unit.stream_jobs.windows.cases import a_record, a_request, a_sample

pytestmark = [pytest.mark.integration, pytest.mark.tables]

LLM_REQUESTS, GPU_SAMPLES = TOPICS = ("llm.requests", "gpu.samples")
RECORDS = [
    a_record(LLM_REQUESTS, [a_request(request_id=f"r{one}", ttft_us=1000 + one) for one in range(3)]),
    a_record(GPU_SAMPLES, [a_sample(gpu_uuid=f"GPU-{one}", pcie_width=8 * one, pcie_width_max=16) for one in (1, 2)]),
]
EVENTS = {LLM_REQUESTS: 3, GPU_SAMPLES: 2}


@pytest.fixture
def peer(own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig) -> Iterator[Peer]:
    made = Peer(Config(kafka=own_kafka, clickhouse=clickhouse_config), 0, TOPICS)
    try:
        yield made
    finally:
        made.stop_reading()
        made.close()


def test_every_event_arrives_in_the_raw_table_and_in_each_grouping_set(peer: Peer, own_kafka: KafkaConfig) -> None:
    """A gauge that is named as another one's extreme would be keeps its own value."""
    options = Options(work="same", raw=True)
    group = peer.prepare(options)
    asyncio.run(send(own_kafka, RECORDS))
    peer.start_reading(options, group)

    wanted = {f"{topic} raw": events for topic, events in EVENTS.items()}
    wanted |= {grouping.name: EVENTS[topic] for topic in TOPICS for grouping in sets_of(topic)}
    asyncio.run(until(lambda: peer.landed() == wanted))
    gpu = next(one for one in sets_of(GPU_SAMPLES) if "gpu_uuid" in one.dimensions)
    widths = f"SELECT gpu_uuid, max(pcie_width_max), max(pcie_width_max_max) FROM {DATABASE}.{group_table(gpu)}"
    assert peer.query(f"{widths} GROUP BY gpu_uuid ORDER BY gpu_uuid") == [("GPU-1", 8, 16), ("GPU-2", 16, 16)]
    assert peer.query(f"SELECT sum(pcie_width) FROM {DATABASE}.{raw_table(GPU_SAMPLES)}") == [(24,)]
