"""Two partitions on a real broker, one with a damaged log: the other goes on, and the damaged one comes back by a reset
that says in the books what is missing. In both shells."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from schemas.contract.topics import state_topic
from stream_jobs.runner.job import Job
from stream_jobs.runner.kafka_ports import KafkaBroker
from stream_jobs.runner.policy import DEFAULT_POLICY
from stream_jobs.runner.reset import Reset, Resetting
from tests.integration.runner_rig import WITHIN_S, Rig, rig
from tests.simulator.counting import CountingStep, encode
from tests.simulator.damaged_world import declare

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(params=["bare", "faust"], ids=["on a bare loop", "in a Faust worker"])
async def job(request: pytest.FixtureRequest, kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(kafka_bootstrap, request.param, tmp_path) as made:
        yield made


async def send(job: Rig, partition: int, first_seq: int, records: int, amount: int = 1) -> None:
    """Records of one edge per partition, each with its identity."""
    async with AIOKafkaProducer(bootstrap_servers=job.bootstrap) as producer:
        for seq in range(first_seq, first_seq + records):
            value, headers = encode("k", amount, f"edge-{partition}", 0, seq, (0, 0))
            await producer.send(job.source, value, partition=partition, headers=list(headers))


async def cut(job: Rig, partition: int, begin: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=job.bootstrap)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(job.source, partition): RecordsToDelete(begin)})
    finally:
        await admin.close()


async def recreate(job: Rig) -> None:
    """Delete the source topic and make it again under its name."""
    admin = AIOKafkaAdminClient(bootstrap_servers=job.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([job.source])
        async with asyncio.timeout(WITHIN_S):
            while True:  # it goes in its own time
                settings = {"message.timestamp.type": "LogAppendTime"}
                answer = await admin.create_topics([NewTopic(job.source, job.partitions, 1, topic_configs=settings)])
                if not answer.topic_errors[0][1]:
                    return
                await asyncio.sleep(0.2)
    finally:
        await admin.close()


async def told(job: Rig, partition: int) -> list[dict[str, Any]]:
    return [each for each in await job.outputs() if each["source"] == f"{job.source}/{partition}"]


async def counted(job: Rig, partition: int, records: int) -> list[dict[str, Any]]:
    """What was committed about the partition, once it covers so many records."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await told(job, partition)
            if sum(each.get("accepted", 0) + each.get("duplicates", 0) for each in found) >= records:
                return found
            await asyncio.sleep(0.2)


async def dumped(job: Rig, partition: int, position: int) -> None:
    """A snapshot of the state at this position is committed, to its last piece."""
    at = TopicPartition(state_topic(CountingStep.name, job.source), partition)
    async with (
        asyncio.timeout(WITHIN_S),
        AIOKafkaConsumer(bootstrap_servers=job.bootstrap, isolation_level="read_committed") as consumer,
    ):
        consumer.assign([at])
        await consumer.seek_to_beginning(at)
        async for record in consumer:
            headers = dict(record.headers)
            number, _, pieces = headers["piece"].partition(b"/")
            if (int(headers["position"]), int(number) + 1) == (position, int(pieces)):
                return


async def logged(job: Rig, what: str) -> None:
    """The last worker has logged this."""
    async with asyncio.timeout(WITHIN_S):
        while what not in job.workers[-1].tail():  # noqa: ASYNC110  a file of another process
            await asyncio.sleep(0.2)


async def reset(job: Rig, partition: int, to: str) -> Reset:
    """As the command does it."""
    made = Job.of(CountingStep(job.out, part_bytes=2_000), [job.source])
    kafka = KafkaConfig(bootstrap=job.bootstrap, deployment=job.name)
    broker = KafkaBroker(kafka, DEFAULT_POLICY)
    await broker.start()
    source, step = made.source(job.source, partition), made.steps[job.source]
    owner = Resetting(step, source, broker, made.names(kafka.namespace), DEFAULT_POLICY, SystemClock())
    try:
        plan = await owner.plan(to)
        await owner.carry_out(plan, lambda reset, commit: [o._replace(topic=job.out) for o in declare(reset, commit)])
        return plan
    finally:
        await owner.stop()
        await broker.stop()


def check(found: list[dict[str, Any]]) -> tuple[int, list[tuple[int, int]]]:
    """The sum over all commits, and the holes; offsets follow one another."""
    total, offset, holes = 0, 0, []
    for each in found:
        start, stop = each["reset"] if "reset" in each else (each["from"], each["to"])
        assert start == offset, f"{each} follows {offset}"
        offset = stop
        if "reset" in each:
            holes.append((start, stop))
        else:
            total += sum(each["sums"].values())
            assert each["total"] == total
    return total, holes


async def test_a_log_cut_beyond_what_was_read_stops_one_partition(job: Rig) -> None:
    """While nobody ran, retention took 50 records unread. The other partition's records count at once; after the reset
    the rest counts without a restart, a record sent again is a duplicate, and the books name the hole."""
    worker = await job.worker()
    await worker.live()
    await send(job, 0, 0, 200)
    await send(job, 1, 0, 200)
    await counted(job, 1, 200)
    await dumped(job, 1, 200)  # idle: a snapshot where the log ends
    worker.send(signal.SIGKILL)
    await worker.ended()
    await send(job, 1, 200, 100, amount=1_000)
    await cut(job, 1, 250)
    again = await job.worker()

    await again.live()
    await send(job, 0, 200, 100)
    await counted(job, 0, 300)
    await logged(job, "partition quarantined")
    assert sum(each["accepted"] for each in await told(job, 1)) == 200

    done = await reset(job, 1, "earliest")
    await send(job, 1, 0, 1)
    found = await counted(job, 1, 251)

    assert (done.cause, done.missing, done.forgotten) == ("log_cut", (200, 250), None)
    assert check(found) == (200 + 50 * 1_000, [(200, 250)])
    assert sum(each.get("duplicates", 0) for each in found) == 1
    assert check(await counted(job, 0, 300)) == (300, [])
    assert again.process.returncode is None


async def test_a_log_cut_under_a_living_owner_stops_one_partition(job: Rig) -> None:
    """What it had folded is committed with its state; after the reset nothing but the hole is missing."""
    worker = await job.worker()
    await worker.live()
    job.keep(worker, "w0")
    await send(job, 1, 0, 100)
    await counted(job, 1, 100)
    worker.send(signal.SIGSTOP)
    await asyncio.sleep(1)  # the fetch that waits at the broker comes back with nothing
    await send(job, 1, 100, 60)
    await cut(job, 1, 130)
    worker.send(signal.SIGCONT)

    await logged(job, "partition quarantined")
    await send(job, 0, 0, 50)
    await counted(job, 0, 50)
    done = await reset(job, 1, "earliest")
    found = await counted(job, 1, 130)

    assert done.missing is not None
    assert (done.missing[1], done.forgotten) == (130, None)
    assert check(found) == (done.missing[0] + 30, [done.missing])


async def test_a_topic_that_was_recreated_is_known_though_it_holds_more_than_was_counted(job: Rig) -> None:
    """While nobody ran. The brokers have forgotten its offsets, and the snapshot knows that its id was another: every
    record of it counts once, from the first."""
    worker = await job.worker()
    await worker.live()
    await send(job, 1, 0, 50)
    await counted(job, 1, 50)
    await dumped(job, 1, 50)
    worker.send(signal.SIGKILL)
    await worker.ended()
    await recreate(job)
    await send(job, 1, 50, 80, amount=1_000)
    again = await job.worker()

    await logged(job, "partition quarantined")
    done = await reset(job, 1, "earliest")
    found = await counted(job, 1, 130)

    assert (done.cause, done.to, done.missing, done.same_topic) == ("log_recreated", 0, None, False)
    assert found[-1]["total"] == 50 + 80 * 1_000
    assert again.process.returncode is None
