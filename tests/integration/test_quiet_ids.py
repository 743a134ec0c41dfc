"""A broker forgets transactional ids that are quiet; here after seconds, as others do after a week."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from fleetpulse.stack import daemons, java, kafka, kafka_jars
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.local_stack import Ports, StackState
from schemas.contract.topics import state_topic
from schemas.errors import UnavailableError
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.kafka_ports import KafkaBroker
from stream_jobs.runner.policy import CommitPolicy
from tests.simulator.counting import QuietStep
from tests.unused_ports import unused_ports

pytestmark = pytest.mark.integration

EXPIRES_MS = 6_000
KEEP_ALIVE_MS = 400
"""An owner may stall for seconds and still come in time."""
HASTY = {
    "transactional.id.expiration.ms": f"{EXPIRES_MS}",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": f"{EXPIRES_MS}",
    "producer.id.expiration.check.interval.ms": "500",
}
"""https://kafka.apache.org/documentation/#brokerconfigs (4.1)"""
QUIET_S = 2 * EXPIRES_MS / 1_000
SOURCE = "quiet"


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """A broker of its own."""
    found = unused_ports(4)
    state = StackState(tmp_path / "servers", "cXVpZXQtYnJva2VyLTAwMQ", Ports(*found), "w", "r")
    (state.data_dir / "log").mkdir(parents=True)
    kafka.prepare(state)
    with (state.data_dir / kafka.NAME / "server.properties").open("a") as properties:
        properties.writelines(f"{key}={value}\n" for key, value in HASTY.items())
    jars = kafka_jars.jars(kafka_jars.cache_dir(os.environ, state.data_dir), print)
    line = kafka.command(state, java.find_java(os.environ), jars)
    process = daemons.spawn(line, state.data_dir / "log" / "kafka.log")
    try:
        assert daemons.wait_until(lambda: kafka.is_ready(state.ports.kafka), 60.0)
        yield f"127.0.0.1:{state.ports.kafka}"
    finally:
        daemons.stop(process, 20.0)


@contextlib.asynccontextmanager
async def _topics(bootstrap: str) -> AsyncIterator[None]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        compacted = {"cleanup.policy": "compact"}
        state = state_topic(QuietStep.name, SOURCE)
        await admin.create_topics([NewTopic(SOURCE, 2, 1), NewTopic(state, 2, 1, topic_configs=compacted)])
        yield
    finally:
        await admin.close()


async def _owned(bootstrap: str, partition: int, keep_alive_ms: int) -> None:
    """An owner of a partition without records is idle for long; then it commits a snapshot."""
    policy = CommitPolicy(keep_alive_ms=keep_alive_ms, idle_after_ms=100, idle_interval_ms=100)
    broker = KafkaBroker(KafkaConfig(bootstrap=bootstrap, deployment="quiet"), policy)
    await broker.start()
    owner = PartitionOwner(
        QuietStep("out"), Source(SOURCE, partition), broker, Names("quiet", QuietStep.name), policy, SystemClock()
    )
    try:
        await owner.acquire()
        await owner._commit(0, idle=True, whole=True)
        until_s = time.monotonic() + QUIET_S
        while time.monotonic() < until_s:
            await asyncio.sleep(0.2)
            if owner.seems_idle():
                await owner.commit_idle()
        await owner._commit(0, idle=True, whole=True)
    finally:
        await owner.stop()
        await broker.stop()


async def test_an_idle_partition_keeps_its_transactional_id_by_a_commit_now_and_then(bootstrap: str) -> None:
    """Without it the next transaction fails, and the process would end; with it nothing is noticed."""
    async with _topics(bootstrap):
        async with asyncio.timeout(60):
            kept, forgotten = await asyncio.gather(
                _owned(bootstrap, 0, keep_alive_ms=KEEP_ALIVE_MS),
                _owned(bootstrap, 1, keep_alive_ms=3_600_000),
                return_exceptions=True,
            )

    assert kept is None
    assert isinstance(forgotten, UnavailableError)
