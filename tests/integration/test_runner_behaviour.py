"""One behaviour suite for both shells of the runner, on a real broker with real processes."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from stream_jobs.runner.watchdog import EXIT_FATAL
from tests.integration.runner_rig import WITHIN_S, Rig, rig

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KILLS = 4


@pytest.fixture(params=["bare", "faust"], ids=["on a bare loop", "in a Faust worker"])
async def job(request: pytest.FixtureRequest, kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(kafka_bootstrap, request.param, tmp_path) as made:
        yield made


async def test_every_record_counts_once_also_when_resent_or_poisoned(job: Rig) -> None:
    """Re-sends are duplicates, a record that makes fold raise is rejected alone, all others are added up."""
    await job.worker()
    await asyncio.gather(job.load(2_000, per_s=1_000, poison=True), job.workers[0].live())

    outputs = await job.settled()

    assert job.poisoned > 0
    assert job.resent > 0
    job.check(outputs)


async def test_kill_9_at_any_moment_neither_loses_nor_doubles(job: Rig) -> None:
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


async def test_two_workers_share_the_partitions_and_the_survivor_takes_over(job: Rig) -> None:
    """Rebalances under load, a killed worker among them, leave every sum exact."""
    load = asyncio.create_task(job.load(4_000, per_s=400))
    first = await job.worker("w0")
    await first.live()
    second = await job.worker("w1")
    await second.live()
    await asyncio.sleep(1)
    first.send(signal.SIGKILL)
    await load

    outputs = await job.settled()

    job.check(outputs)


@pytest.mark.parametrize("heir_name", ["w0", "w1"], ids=["same member", "another member"])
async def test_a_thawed_zombie_changes_nothing(job: Rig, heir_name: str) -> None:
    """Of an owner frozen until another took over and its heir, the fence lets one go on and ends the other; whoever it
    is, every sum stays exact, and a process that ended has the exit code of a fatal error."""
    load = asyncio.create_task(job.load(4_000, per_s=400))
    zombie = await job.worker("w0", interval_ms=100)
    await zombie.live()
    await asyncio.sleep(1)
    zombie.send(signal.SIGSTOP)
    heir = await job.worker(heir_name, interval_ms=100)
    await heir.live()
    job.keep(heir, heir_name, interval_ms=100)
    await asyncio.sleep(1)
    zombie.send(signal.SIGCONT)
    await load

    outputs = await job.settled()

    job.check(outputs)
    ended = [worker.process.returncode for worker in job.workers if worker.process.returncode is not None]
    assert set(ended) <= {EXIT_FATAL}


async def test_sigterm_commits_what_was_folded_and_ends_within_two_seconds(job: Rig) -> None:
    """With a long interval each partition commits what it folds first, then nothing until the end; then everything is
    committed, and the exit code is 0."""
    worker = await job.worker(interval_ms=60_000)
    await worker.live()
    await job.load(100)
    async with asyncio.timeout(WITHIN_S):
        first = await job.outputs()
        while len({output["source"] for output in first}) < job.partitions:
            await asyncio.sleep(0.2)
            first = await job.outputs()
    await job.load(500)
    await asyncio.sleep(1)
    before = await job.outputs()
    began_s = time.monotonic()
    worker.send(signal.SIGTERM)
    code = await worker.ended()
    took_s = time.monotonic() - began_s

    outputs = await job.outputs()

    assert code == 0, worker.tail()
    assert took_s <= 2
    assert before == first
    job.check(outputs)


async def test_a_lost_offset_is_quarantined_not_begun_anew(job: Rig) -> None:
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


async def test_a_quiet_partition_is_committed_as_idle(job: Rig) -> None:
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


async def test_a_source_written_in_transactions_has_holes_but_no_gaps(job: Rig) -> None:
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
