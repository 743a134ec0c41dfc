"""What a test of one job of one partition needs on a real broker: topics of its own, its worker as a process that may
be killed, and what was committed so far."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from schemas.contract.record import Record
from schemas.contract.topics import state_topic
from stream_jobs.runner.kafka_ports import record_of
from tests.integration.runner_rig import WITHIN_S, Worker, ended_all, started

KILLS = int(os.environ.get("FLEETPULSE_KILLS", "3"))
"""How often a job is killed; more with ``FLEETPULSE_KILLS=50``."""


@dataclass
class JobRig:
    """One job (its name is that of its worker's file, ``<name>_worker.py``), its topics, its processes."""

    job: str
    bootstrap: str
    folder: Path
    name: str = field(default_factory=lambda: f"j{os.urandom(5).hex()}")
    workers: list[Worker] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"{self.name}.source"

    @property
    def out(self) -> str:
        return f"{self.name}.out"

    @property
    def state(self) -> str:
        return state_topic(self.job, self.source)

    async def worker(self) -> Worker:
        """Start the job's process."""
        command = [sys.executable, str(Path(__file__).with_name(f"{self.job}_worker.py"))]
        command += ["--bootstrap", self.bootstrap, "--deployment", self.name, "--source", self.source]
        command += ["--out", self.out]
        log = self.folder / f"{self.job}-{len(self.workers)}.log"
        self.workers.append(await started(command, log, self.folder))
        return self.workers[-1]

    async def send(self, records: Sequence[Record]) -> None:
        """Put records on the source, with the times they carry."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True) as producer:
            for one in records:
                await producer.send(
                    self.source, one.value, partition=0, headers=list(one.headers), timestamp_ms=one.timestamp_ms
                )

    async def told(self, topic: str = "") -> list[Record]:
        """The records of ``out`` (or another topic), committed ones alone."""
        async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed") as consumer:
            place = TopicPartition(topic or self.out, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = (await consumer.end_offsets([place]))[place]
            found: list[Record] = []
            while await consumer.position(place) < end:
                found += map(record_of, (await consumer.getmany(place, timeout_ms=200)).get(place, ()))
            return found

    async def settled(self, enough: Callable[[Sequence[Record]], bool], within_s: float = WITHIN_S) -> list[Record]:
        """The records of ``out``, once there are enough of them."""
        async with asyncio.timeout(within_s):
            while True:
                told = await self.told()
                if enough(told):
                    return told
                await asyncio.sleep(0.2)

    async def send_while_killed(self, records: Sequence[Record], draw: random.Random, kills: int = KILLS) -> Worker:
        """Send all records; SIGKILL a worker ``kills`` times in between. Returns the last worker, which lives."""
        cuts = [len(records) * n // (kills + 1) for n in range(kills + 2)]
        for start, stop in pairwise(cuts[:-1]):
            worker = await self.worker()
            sending = asyncio.create_task(self.send(records[start:stop]))
            await worker.live()
            await asyncio.sleep(draw.uniform(0.0, 0.5))
            worker.send(signal.SIGKILL)
            await sending
        last = await self.worker()
        await self.send(records[cuts[-2] :])
        await last.live()
        return last


@contextlib.asynccontextmanager
async def job_rig(job: str, bootstrap: str, folder: Path, source: Mapping[str, str]) -> AsyncIterator[JobRig]:
    """A rig with fresh topics (``source``: settings of the source), removed at the end with every process."""
    made = JobRig(job, bootstrap, folder)
    new = [
        NewTopic(made.source, 1, 1, topic_configs=dict(source)),
        NewTopic(made.out, 1, 1),
        NewTopic(made.state, 1, 1, topic_configs={"cleanup.policy": "compact"}),
    ]
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics(new)
        assert all(error[1] == 0 for error in answer.topic_errors), answer
        yield made
    finally:
        await ended_all(made.workers)
        await admin.delete_topics([one.name for one in new])
        await admin.close()
