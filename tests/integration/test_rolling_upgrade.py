"""Workers of 0.1.0 and of today in one group, under load: an upgrade and the way back, books exact.

Both run the commands that production runs, on a stack of their own that today's ``migrate`` has made.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError

from fleetpulse import stack as local
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import reconcile
from fleetpulse.services.jobs_and_sink import partitions_of
from fleetpulse.services.processes import Command, Processes
from runtime.config import Config
from runtime.kafka_clients import make_consumer, open_admin
from schemas.contract.topics import WINDOW_PARTIALS
from tests.integration import frozen_release
from tests.integration.installation import tended
from tests.unit.releases.frozen import SOURCES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

WITHIN_S = 240.0
"""For each step, on a machine that has other work; the session of a worker that is gone alone lasts 6 s."""
OLD, NEW = "old", "new"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    """A stack of its own: books are compared over all that its topics hold."""
    data_dir = tmp_path_factory.mktemp("rolling") / "data"
    try:
        yield bring_up(data_dir, lambda _: None)
    finally:
        local.down(data_dir)


class Group:
    """The group of the windows job, for the source topics of 0.1.0: who owns what, and how far it is."""

    def __init__(self, config: Config, admin: Any, consumer: AIOKafkaConsumer) -> None:
        self._name = f"{config.kafka.deployment}-windows"
        self._admin = admin
        self._consumer = consumer
        counts = partitions_of(config)
        self.all = [TopicPartition(name, n) for name in SOURCES for n in range(counts[name])]
        self._sink = f"{config.kafka.deployment}-sink"
        self._partials = [TopicPartition(WINDOW_PARTIALS, n) for n in range(counts[WINDOW_PARTIALS])]
        consumer.assign(self.all)

    async def owned(self) -> dict[str, set[TopicPartition]]:
        """Partitions by worker; none while the group is not settled or not all of them are owned."""
        try:
            (answer,) = await self._admin.describe_consumer_groups([self._name])
        except KafkaError:  # it has no coordinator yet
            return {}
        if answer.groups[0][2] != "Stable":
            return {}
        given = {one[0][:3]: ConsumerProtocolMemberAssignment.decode(one[-1]).assignment for one in answer.groups[0][5]}
        found = {
            worker: {TopicPartition(topic, n) for topic, ns in one if topic in SOURCES for n in ns}
            for worker, one in given.items()
        }
        return found if sorted(at for each in found.values() for at in each) == sorted(self.all) else {}

    async def ends(self) -> dict[TopicPartition, int]:
        """Where every source partition ends."""
        return dict(await self._consumer.end_offsets(self.all))

    async def ends_of_partials(self) -> dict[TopicPartition, int]:
        """Where every partition of the windows job's output ends."""
        return dict(await self._consumer.end_offsets(self._partials))

    async def committed(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether the job has committed all before these ends."""
        return await self._has_passed(self._name, ends)

    async def landed(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether the sink has."""
        return await self._has_passed(self._sink, ends)

    async def _has_passed(self, group: str, ends: dict[TopicPartition, int]) -> bool:
        offsets = await self._admin.list_consumer_group_offsets(group)
        return all(at in offsets and offsets[at].offset >= end for at, end in ends.items() if end)


@pytest.fixture
async def group(config: Config) -> AsyncIterator[Group]:
    """Looked at from outside."""
    async with open_admin(config.kafka) as admin, make_consumer(config.kafka) as consumer:
        yield Group(config, admin, consumer)


class Rolling:
    """Workers and sinks of both releases."""

    def __init__(self, config: Config, processes: Processes, group: Group) -> None:
        self._processes = processes
        self._group = group
        mine = {"FLEETPULSE_DATA_DIR": str(config.data_dir)}
        self._environment = {OLD: {**mine, **frozen_release.installed()}, NEW: mine}

    def start(self, part: str, release: str) -> None:
        words = {"windows": ("jobs", "windows", "--name", release), "sink": ("sink",)}[part]
        self._processes.start(Command(f"{part}-{release}", words, self._environment[release]))

    def stop(self, part: str, release: str) -> None:
        self._processes.stop(f"{part}-{release}")

    def replace_sink(self, release: str, by: str) -> None:
        self.stop("sink", release)
        self.start("sink", by)

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for a condition; who ends is started again, as a supervisor does."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not await holds():
                    self._processes.tend()
                    await asyncio.sleep(0.2)
        except TimeoutError:
            tails = [f"{name}:\n{self._processes.tail(name)}" for name in self._processes.names()]
            pytest.fail("\n".join((f"not within {WITHIN_S:g} s: {what}", *tails)))

    async def carried_by(self, *releases: str) -> None:
        """Wait until these workers share all partitions, and have committed what came to each after that."""
        owned: dict[str, set[TopicPartition]] = {}

        async def is_shared() -> bool:
            owned.clear()
            owned.update({worker: each for worker, each in (await self._group.owned()).items() if each})
            return {*owned} == {*releases}

        await self.until(is_shared, f"all partitions are owned by {releases}")
        before = await self._group.ends()
        ends = dict(before)

        async def has_come() -> bool:
            ends.update(await self._group.ends())
            return all(any(ends[at] > before[at] for at in each) for each in owned.values())

        await self.until(has_come, f"records came to partitions of {releases}")
        await self.until(lambda: self._group.committed(ends), f"what came is committed by {releases}")

    async def landed(self) -> None:
        """Wait until the sink has landed what the windows job has written by now: a sink of 0.1.0 ends at a record of a
        topic that it does not know."""
        ends = await self._group.ends_of_partials()
        await self.until(lambda: self._group.landed(ends), "what the windows job wrote is landed")


async def test_an_upgrade_and_a_rollback_under_load_leave_the_books_exact(
    config: Config, group: Group, tmp_path: Path
) -> None:
    """0.1.0 alone; both; today's alone; both again; 0.1.0 alone, after today's was killed; today's for what it alone
    reads."""
    with Processes(tmp_path / "log") as processes:
        rolling = Rolling(config, processes, group)
        rolling.start("windows", OLD)
        rolling.start("sink", OLD)
        words = ("simulate", "--load", "bulk", "--rate", "5", "--gpus", "64", "--spool", str(tmp_path / "spool"))
        processes.start(Command("load", words, {"FLEETPULSE_DATA_DIR": str(config.data_dir)}))
        await rolling.carried_by(OLD)

        rolling.replace_sink(OLD, NEW)
        rolling.start("windows", NEW)
        await rolling.carried_by(OLD, NEW)
        rolling.stop("windows", OLD)
        await rolling.carried_by(NEW)

        rolling.start("windows", OLD)
        await rolling.carried_by(OLD, NEW)
        processes.strike_off(f"windows-{NEW}")
        await rolling.carried_by(OLD)
        await rolling.landed()
        rolling.replace_sink(NEW, OLD)
        await rolling.landed()

        rolling.replace_sink(OLD, NEW)
        rolling.start("windows", NEW)
        await rolling.carried_by(OLD, NEW)
        processes.stop("load", within_s=60)
        compare = partial(reconcile, config.kafka, config.clickhouse, wait_s=WITHIN_S, limits=config.limits)
        report = await asyncio.to_thread(tended, processes, compare)

    assert report.exact, report.text()
    assert report.produced > 0


def test_the_older_workers_are_those_of_0_1_0(tmp_path: Path) -> None:
    """Their modules come from the wheel, whatever folder they run in."""
    code = (
        "import fleetpulse.services, stream_jobs.host.owner as owner;"
        "print(fleetpulse.services.__file__, owner.__file__, sep=chr(10))"
    )
    environment = {**os.environ, **frozen_release.installed()}

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=frozen_release.ROOT, env=environment, capture_output=True, check=True
    )

    places = done.stdout.decode().splitlines()
    assert len(places) == 2
    assert all(str(frozen_release.KEPT) in place for place in places)
