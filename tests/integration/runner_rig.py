"""Everything a runner's test needs around it on a real broker: topics, load with a known truth, workers as processes,
and a reader that compares what was committed with the truth."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from schemas.contract.topics import state_topic
from tests.simulator.counting import POISON, CountingStep, encode

WORKER = Path(__file__).with_name("runner_worker.py")
WITHIN_S = 120.0
"""For whatever is waited for, on a machine that has other work."""


@dataclass(slots=True)
class Worker:
    """A worker process; ``lines`` are what it said."""

    process: asyncio.subprocess.Process
    began_s: float
    lines: list[str] = field(default_factory=list)
    log: Path | None = None

    async def live(self, partitions: int = 1, within_s: float = WITHIN_S) -> float:
        """Wait until it owns at least so many partitions; seconds since it was started."""
        assert self.process.stdout is not None
        async with asyncio.timeout(within_s):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, f"the worker ended: {self.tail()}"
                self.lines.append(line)
                if line.startswith("live ") and int(line.split()[1]) >= partitions:
                    return time.monotonic() - self.began_s

    def send(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def ended(self, within_s: float = WITHIN_S) -> int:
        async with asyncio.timeout(within_s):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    def folded(self) -> int:
        """How many records it has folded, those that it folded again too."""
        text = self.log.read_text() if self.log else ""
        return sum(int(line.rpartition(" ")[2]) for line in text.splitlines() if " folded " in line)

    def tail(self) -> str:
        return "\n".join(self.log.read_text().splitlines()[-30:]) if self.log else ""


async def started(command: Sequence[str], log: Path, folder: Path) -> Worker:
    """A worker process that was started now; what it says on standard error goes to ``log``."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, cwd=folder
        )
    return Worker(process, time.monotonic(), log=log)


async def ended_all(workers: Sequence[Worker]) -> None:
    """Kill what still runs, stopped ones too, and wait for the end of each."""
    for worker in workers:
        if worker.process.returncode is None:
            worker.send(signal.SIGCONT)
            worker.process.kill()
        with contextlib.suppress(Exception):
            await worker.process.communicate()


@dataclass
class Rig:
    """One job with topics of its own."""

    bootstrap: str
    shell: str
    folder: Path
    name: str
    partitions: int = 2
    truth: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    poisoned: int = 0
    resent: int = 0
    workers: list[Worker] = field(default_factory=list)
    kept: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"{self.name}.source"

    @property
    def out(self) -> str:
        return f"{self.name}.out"

    @property
    def topics(self) -> list[str]:
        return [self.source, self.out, state_topic(CountingStep.name, self.source)]

    async def worker(self, name: str = "w0", interval_ms: int = 300, *, transactional: bool = False) -> Worker:
        log = self.folder / f"{name}-{len(self.workers)}.log"
        command = [sys.executable, str(WORKER), "--shell", self.shell, "--bootstrap", self.bootstrap]
        command += ["--deployment", self.name, "--source", self.source, "--out", self.out]
        command += ["--worker", name, "--interval-ms", str(interval_ms)]
        command += ["--transactional"] if transactional else []
        self.workers.append(await started(command, log, self.folder))
        return self.workers[-1]

    def keep(self, worker: Worker, name: str, interval_ms: int = 300) -> None:
        """From now on, start the worker again after a second whenever it ends, as a supervisor would."""

        async def again(current: Worker) -> None:
            while True:
                await current.process.wait()
                await asyncio.sleep(1)
                current = await self.worker(name, interval_ms)

        self.kept.append(asyncio.create_task(again(worker)))

    @contextlib.asynccontextmanager
    async def loaded(self, per_s: float) -> AsyncIterator[None]:
        """Records come all the time, until the end of the block."""
        enough = asyncio.Event()
        load = asyncio.create_task(self.load(None, per_s, enough=enough))
        try:
            yield
        finally:
            enough.set()
            await load

    async def load(
        self,
        records: int | None,
        per_s: float = 0.0,
        *,
        seed: int = 1,
        poison: bool = False,
        enough: asyncio.Event | None = None,
    ) -> None:
        """Send records of five keys from two edges, re-send some of them, poison some if told to. ``records`` None:
        until there are ``enough``."""
        draw = random.Random(seed)
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True, linger_ms=5)
        await producer.start()
        try:
            for number in itertools.count() if records is None else range(records):
                if enough is not None and enough.is_set():
                    break
                edge, seq = f"edge-{self.sent % 2}", self.sent // 2
                key, amount = f"k{draw.randrange(5)}", draw.randrange(1, 100)
                value, headers = encode(key, amount, edge, 0, seq, (0, max(0, seq - 50)))
                if poison and draw.random() < 0.01:
                    value, self.poisoned = POISON, self.poisoned + 1
                else:
                    self.truth[key] += amount
                self.sent += 1
                partition = draw.randrange(self.partitions)
                times = 2 if draw.random() < 0.05 else 1
                self.resent += times - 1
                for _ in range(times):
                    await producer.send(self.source, value, partition=partition, headers=list(headers))
                if per_s and number % 20 == 19:
                    await asyncio.sleep(20 / per_s)
        finally:
            await producer.stop()

    async def load_transactions(self, transactions: int, *, seed: int = 1) -> None:
        """Send records in transactions, of which some are aborted: the source's offsets get holes."""
        draw = random.Random(seed)
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=f"{self.name}-upstream")
        await producer.start()
        try:
            for _ in range(transactions):
                aborted = draw.random() < 0.3
                await producer.begin_transaction()
                for _ in range(draw.randrange(1, 5)):
                    key, amount = f"k{draw.randrange(5)}", draw.randrange(1, 100)
                    value, headers = encode(key, amount, "up", 0, self.sent, (0, 0))
                    partition = draw.randrange(self.partitions)
                    await producer.send(self.source, value, partition=partition, headers=list(headers))
                    if not aborted:
                        self.truth[key] += amount
                        self.sent += 1
                await (producer.abort_transaction() if aborted else producer.commit_transaction())
        finally:
            await producer.stop()

    async def outputs(self) -> list[dict[str, Any]]:
        """What was committed so far."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        await consumer.start()
        try:
            at = TopicPartition(self.out, 0)
            consumer.assign([at])
            await consumer.seek_to_beginning(at)
            end = (await consumer.end_offsets([at]))[at]
            found = []
            while await consumer.position(at) < end:
                for messages in (await consumer.getmany(at, timeout_ms=200)).values():
                    found += [json.loads(message.value) for message in messages]
            return found
        finally:
            await consumer.stop()

    async def commits(self, within_s: float = WITHIN_S) -> None:
        """Wait until of every partition records were committed that were not when this was called."""
        seen = len(await self.outputs())
        async with asyncio.timeout(within_s):
            while True:
                told = (await self.outputs())[seen:]
                if len({one["source"] for one in told if one["accepted"]}) == self.partitions:
                    return
                await asyncio.sleep(0.1)

    async def settled(self, within_s: float = WITHIN_S) -> list[dict[str, Any]]:
        """The outputs, once they cover every record sent."""
        async with asyncio.timeout(within_s):
            while True:
                outputs = await self.outputs()
                told = sum(o["accepted"] + o["duplicates"] + o["rejected"] for o in outputs)
                if told >= self.sent + self.resent:
                    return outputs
                await asyncio.sleep(0.2)

    def ended(self) -> list[int]:
        """Exit codes of workers that have ended."""
        return [one.process.returncode for one in self.workers if one.process.returncode is not None]

    def check(self, outputs: list[dict[str, Any]], *, holes: bool = False) -> None:
        """Every event once, every offset in exactly one commit, numbers without a gap. ``holes``: offsets count more
        than records."""
        sums: Counter[str] = Counter()
        next_offset: dict[str, int] = {}
        next_number: dict[str, int] = {}
        total: Counter[str] = Counter()
        for output in outputs:
            source = output["source"]
            assert output["from"] == next_offset.get(source, 0), f"offsets of {source} are not contiguous: {output}"
            assert output["number"] == next_number.get(source, 0), f"numbers of {source} have a gap: {output}"
            told = output["accepted"] + output["duplicates"] + output["rejected"]
            offsets = output["to"] - output["from"]
            assert told <= offsets if holes else told == offsets, f"books do not balance: {output}"
            next_offset[source], next_number[source] = output["to"], output["number"] + 1
            sums.update(output["sums"])
            total[source] += sum(output["sums"].values())
            assert output["total"] == total[source], f"the running total went wrong: {output}"
        assert sums == self.truth
        assert sum(o["rejected"] for o in outputs) == self.poisoned
        assert sum(o["duplicates"] for o in outputs) == self.resent

    async def end(self) -> None:
        for task in self.kept:
            task.cancel()
        await asyncio.gather(*self.kept, return_exceptions=True)
        await ended_all(self.workers)


@contextlib.asynccontextmanager
async def rig(bootstrap: str, shell: str, folder: Path, partitions: int = 2) -> AsyncIterator[Rig]:
    """A rig with fresh topics, which are removed at the end together with every process it started."""
    made = Rig(bootstrap, shell, folder, f"h{os.urandom(5).hex()}", partitions)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics(
            [
                NewTopic(made.topics[0], partitions, 1, topic_configs={"message.timestamp.type": "LogAppendTime"}),
                NewTopic(made.topics[1], 1, 1),
                NewTopic(made.topics[2], partitions, 1, topic_configs={"cleanup.policy": "compact"}),
            ]
        )
        assert all(error[1] == 0 for error in answer.topic_errors), answer
        async with asyncio.timeout(WITHIN_S):  # what the controller has made a busy broker learns of a little later
            known = await admin.list_topics()
            while not set(made.topics) <= set(known):
                await asyncio.sleep(0.05)
                known = await admin.list_topics()
        yield made
    finally:
        await made.end()
        await admin.delete_topics(made.topics)
        await admin.close()
