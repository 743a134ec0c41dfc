"""How a job behaves on a real broker with real processes, whatever shell runs it."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from stream_jobs.runner.watchdog import EXIT_FATAL
from tests.integration.runner_rig import WITHIN_S, Rig, rig

KILLS = 4


class Behaviour:
    """The suite of one shell."""

    shell: ClassVar[str]

    @pytest.fixture
    async def job(self, kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[Rig]:
        async with rig(kafka_bootstrap, self.shell, tmp_path) as made:
            yield made

    async def test_every_record_counts_once_also_when_resent_or_poisoned(self, job: Rig) -> None:
        """Re-sends are duplicates, a record that makes fold raise is rejected alone, all others are added up."""
        await job.worker()
        await asyncio.gather(job.load(2_000, per_s=1_000, poison=True), job.workers[0].live())

        outputs = await job.settled()

        assert job.poisoned > 0
        assert job.resent > 0
        job.check(outputs)

    async def test_kill_9_at_any_moment_neither_loses_nor_doubles(self, job: Rig) -> None:
        """The next owner continues exactly where the last commit was."""
        draw = random.Random(7)
        for number in range(KILLS):
            load = asyncio.create_task(job.load(1_000, per_s=500, seed=number))
            worker = await job.worker(interval_ms=100)
            await worker.live()
            await asyncio.sleep(draw.uniform(0.0, 0.7))
            worker.send(signal.SIGKILL)
            await load
        await job.worker()

        outputs = await job.settled()

        job.check(outputs)

    async def test_two_workers_share_the_partitions_and_the_survivor_takes_over(self, job: Rig) -> None:
        """Rebalances under load, a killed worker among them, leave every sum exact."""
        async with job.loaded(per_s=400):
            first = await job.worker("w0")
            await first.live()
            second = await job.worker("w1")
            await second.live()
            await job.commits()
            first.send(signal.SIGKILL)
            await job.commits()

        outputs = await job.settled()

        job.check(outputs)

    @pytest.mark.parametrize("heir_name", ["w0", "w1"], ids=["same member", "another member"])
    async def test_a_thawed_zombie_changes_nothing(self, job: Rig, heir_name: str) -> None:
        """Of an owner frozen until another took over and its heir, the fence lets one go on and ends the other, always
        if they are the same member; whoever it is, every sum stays exact, and its exit code is a fatal error's."""
        async with job.loaded(per_s=400):
            zombie = await job.worker("w0", interval_ms=100)
            await zombie.live(job.partitions)
            await job.commits()
            zombie.send(signal.SIGSTOP)
            heir = await job.worker(heir_name, interval_ms=100)
            await heir.live(job.partitions)
            job.keep(heir, heir_name, interval_ms=100)
            await job.commits()
            zombie.send(signal.SIGCONT)
            if heir_name == "w0":
                async with asyncio.timeout(WITHIN_S):
                    while not job.ended():  # noqa: ASYNC110 -- of another process
                        await asyncio.sleep(0.1)
            await job.commits()

        outputs = await job.settled()

        job.check(outputs)
        assert set(job.ended()) == {EXIT_FATAL} if heir_name == "w0" else set(job.ended()) <= {EXIT_FATAL}

    async def test_sigterm_commits_what_was_folded_and_ends(self, job: Rig) -> None:
        """With a long interval each partition commits what it folds first, then nothing until the end; then everything
        is committed, and the exit code is 0."""
        worker = await job.worker(interval_ms=60_000)
        await worker.live()
        await job.load(100)
        async with asyncio.timeout(WITHIN_S):
            first = await job.outputs()
            while len({output["source"] for output in first}) < job.partitions:
                await asyncio.sleep(0.2)
                first = await job.outputs()
        await job.load(500)
        async with asyncio.timeout(WITHIN_S):
            while worker.folded() < job.sent + job.resent:  # noqa: ASYNC110 -- of another process
                await asyncio.sleep(0.1)
        before = await job.outputs()
        worker.send(signal.SIGTERM)
        code = await worker.ended()

        outputs = await job.outputs()

        assert code == 0, worker.tail()
        assert before == first
        job.check(outputs)

    async def test_a_lost_offset_is_quarantined_not_begun_anew(self, job: Rig) -> None:
        """A snapshot without a committed offset means lost offsets: nothing is folded, and the job says so."""
        worker = await job.worker()
        await worker.live()
        await job.load(200)
        outputs = await job.settled()
        worker.send(signal.SIGTERM)
        await worker.ended()
        await _forget_group(job)
        again = await job.worker("w1")

        async with asyncio.timeout(WITHIN_S):
            while again.tail().count("partition quarantined") < job.partitions:
                assert await job.outputs() == outputs
                await asyncio.sleep(0.2)
        await asyncio.sleep(2)

        assert again.process.returncode is None
        assert again.tail().count("partition quarantined") == job.partitions
        assert await job.outputs() == outputs

    async def test_a_quiet_partition_is_committed_as_idle(self, job: Rig) -> None:
        """Only an owner that has read to the end tells that time has passed; offsets stay where they are."""
        worker = await job.worker()
        await worker.live()
        await job.load(50)
        await job.settled()
        async with asyncio.timeout(WITHIN_S):
            outputs = await job.outputs()
            while not any(output["idle"] for output in outputs):
                await asyncio.sleep(0.2)
                outputs = await job.outputs()

        job.check(outputs)
        assert all(output["from"] == output["to"] for output in outputs if output["idle"])

    async def test_a_source_written_in_transactions_has_holes_but_no_gaps(self, job: Rig) -> None:
        """Aborted records and markers are passed over, also by the silent fold after a kill and by an idle commit."""
        for seed in (1, 2):
            worker = await job.worker(interval_ms=100, transactional=True)
            await worker.live()
            await job.load_transactions(60, seed=seed)
            worker.send(signal.SIGKILL)
        await job.worker(transactional=True)
        outputs = await job.settled()
        async with asyncio.timeout(WITHIN_S):
            while not any(output["idle"] for output in outputs):
                await asyncio.sleep(0.2)
                outputs = await job.outputs()

        job.check(outputs, holes=True)


async def _forget_group(job: Rig) -> None:
    """Delete the group, as ``offsets.retention.minutes`` would; possible once its last member is gone."""
    admin = AIOKafkaAdminClient(bootstrap_servers=job.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                answer = await admin._send_request(_delete_group(f"{job.name}-counting"), await _node(admin, job))
                if all(code in (0, 69) for _, code in answer.results):
                    return
                await asyncio.sleep(0.3)
    finally:
        await admin.close()


async def _node(admin: AIOKafkaAdminClient, job: Rig) -> int:
    return await admin.find_coordinator(f"{job.name}-counting")


def _delete_group(group: str) -> object:
    from aiokafka.protocol.admin import DeleteGroupsRequest

    return DeleteGroupsRequest([group])
