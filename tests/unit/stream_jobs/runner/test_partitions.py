"""What the partitions of a process tell about themselves: whether they are live, and how far behind they are.

Covers stream_jobs.runner.lag and stream_jobs.runner.limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.clock import SystemClock
from runtime.counters import Counters
from runtime.health import Readiness
from runtime.runbook import Cause
from schemas.contract.record import Record
from schemas.errors import UnavailableError
from stream_jobs.runner.job import Job
from stream_jobs.runner.limits import NOTED_S, SLOW_MS, SlowCommits, cpu_pressure, waited_ms
from stream_jobs.runner.partitions import Partitions, TopicPartition, slices, worker_readiness
from stream_jobs.runner.policy import DEFAULT_POLICY, CommitPolicy
from tests.simulator.counting import CountingStep

REVOKED = "partitions revoked; waiting for the next assignment"


class Owner:
    """Acquires when the test lets it, or fails."""

    gate: asyncio.Event
    error: Exception | None = None
    position, committed, number, output_bytes = 7, 5, 0, 0

    def __init__(self, step: Any, source: Any, *_: Any) -> None:
        self.source = source

    @property
    def done_to(self) -> int:
        return self.committed

    async def acquire(self) -> int:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return 7

    async def stop(self) -> None:
        """Nothing to free."""

    async def commit(self) -> bool:
        self.committed = self.position
        return True


class Taker(Owner):
    """Keeps what it is fed."""

    def __init__(self, step: Any, source: Any, *_: Any) -> None:
        super().__init__(step, source)
        self.fed: list[list[int]] = []

    async def feed(self, records: Sequence[Record]) -> None:
        self.fed.append([record.offset for record in records])

    def wants_commit(self) -> bool:
        return False


class Idle(Owner):
    """Seems idle, and counts how often it was to be committed as such."""

    def __init__(self, step: Any, source: Any, *_: Any) -> None:
        super().__init__(step, source)
        self.looked, self.enough = 0, asyncio.Event()

    def wants_commit(self) -> bool:
        return False

    def seems_idle(self) -> bool:
        return True

    async def commit_idle(self) -> bool:
        self.looked += 1
        if self.looked == 3:
            self.enough.set()
        return False


class Told(Counters):
    """Remembers every lag that was told, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: list[tuple[int, float]] = []

    def set(self, name: str, value: float, **labels: Any) -> None:
        super().set(name, value, **labels)
        if name == "job_lag_records":
            self.lags.append((labels["partition"], value))


def partitions_of(
    readiness: Readiness,
    *,
    error: Exception | None = None,
    opened: bool = True,
    counters: Counters | None = None,
    owner: type[Owner] = Owner,
    policy: CommitPolicy = DEFAULT_POLICY,
) -> Partitions:
    gate = asyncio.Event()
    if opened:
        gate.set()
    made = type("TestOwner", (owner,), {"gate": gate, "error": error})
    kind = type("TestPartitions", (Partitions,), {"Owner": made, "gate": gate})
    job = Job.of(CountingStep(), ["t"])
    return kind(job, None, job.names("d"), policy, SystemClock(), counters or Counters(), readiness)  # type: ignore[no-any-return]


def test_a_process_that_owns_nothing_yet_is_not_ready() -> None:
    """Before there are partitions at all; what another worker of this process does is another's."""
    other = worker_readiness()
    other.release("partitions")

    assert worker_readiness().why() == "the worker has not joined its group yet"


async def test_ready_is_who_owns_live_partitions_until_they_are_revoked() -> None:
    """Taking over, live, taken back, and live again with other partitions."""
    readiness = Readiness(partitions="not joined")
    partitions = partitions_of(readiness, opened=False)
    seen = [readiness.why()]

    acquiring = asyncio.create_task(partitions.assign([("t", 0), ("t", 1)]))
    await asyncio.sleep(0)
    seen.append(readiness.why())
    partitions.gate.set()  # type: ignore[attr-defined]
    assert await acquiring == {TopicPartition("t", 0): 7, TopicPartition("t", 1): 7}
    seen.append(readiness.why())
    partitions.install()
    seen.append(readiness.why())
    await partitions.revoke()
    seen.append(readiness.why())
    await partitions.assign([("t", 1)])
    partitions.install()
    seen.append(readiness.why())

    taking = "acquiring 2 assigned partitions"
    assert seen == ["not joined", taking, taking, None, REVOKED, None]


async def test_a_worker_that_is_given_nothing_is_ready() -> None:
    """One worker more than there are partitions: it waits for its turn, and nothing is wrong with it."""
    readiness = Readiness(partitions="not joined")
    partitions = partitions_of(readiness)

    await partitions.assign([])
    partitions.install()

    assert readiness.why() is None


async def test_the_topic_that_the_job_names_first_commits_first() -> None:
    """In whatever order the group hands partitions out: an event must not wait for the windows due beside it."""
    partitions = partitions_of(Readiness(partitions="not joined"))
    partitions._job = Job.of(CountingStep(), ["events", "windows"])

    await partitions.assign([("windows", 1), ("events", 1), ("windows", 0), ("events", 0)])
    partitions.install()

    assert list(partitions.live) == [("events", 1), ("events", 0), ("windows", 1), ("windows", 0)]


async def test_what_was_taken_back_while_it_was_taken_over_is_not_ready() -> None:
    """The group changed its mind in the middle."""
    readiness = Readiness(partitions="not joined")
    partitions = partitions_of(readiness, opened=False)
    acquiring = asyncio.create_task(partitions.assign([("t", 0)]))
    await asyncio.sleep(0)

    await partitions.revoke()

    assert await acquiring is None
    assert readiness.why() == REVOKED


async def test_after_a_fatal_error_a_process_is_not_ready() -> None:
    """Whatever is given back or installed after it."""
    readiness = Readiness(partitions="not joined")
    partitions = partitions_of(readiness, error=UnavailableError("no answer"))

    assert await partitions.assign([("t", 0)]) is None
    partitions.install()

    assert readiness.why() == "exiting after a fatal error: no answer"
    with pytest.raises(UnavailableError):
        partitions.fatal.result()


@pytest.mark.parametrize(
    ("waited_ms", "percent", "says", "cause"),
    [
        (499.0, 97.0, "Kafka slow: a commit took 2.5 s", Cause.SLOW),
        (500.0, 0.0, "a commit took 2.5 s; this job waited for a processor 0.5 s of it", None),
        (None, 59.9, "Kafka slow: a commit took 2.5 s", Cause.SLOW),
        (None, 60.0, "a commit took 2.5 s; tasks waited for a processor 60 % of the time", None),
    ],
    ids=[
        "others' work that steps back raises the pressure alone",
        "a broker that waits as long explains what is left",
        "the kernel counts no thread's waiting, and processors are free",
        "the kernel counts no thread's waiting, and processors are short",
    ],
)
def test_brokers_that_are_slow_are_noted_until_commits_stay_quick(
    caplog: pytest.LogCaptureFixture, waited_ms: float | None, percent: float, says: str, cause: Cause | None
) -> None:
    """Beside the verdict: nobody is taken out of service for it. Where processors are short they are not blamed."""
    readiness, noted = Readiness(), []
    before_ms = None if waited_ms is None else 100.0
    slow = SlowCommits(readiness, lambda: None if waited_ms is None else 100.0 + waited_ms, lambda: percent)

    for at_s, taken_ms in (
        (0.0, SLOW_MS),
        (1.0, SLOW_MS + 1_000),
        (1.1, 10.0),
        (0.9 + NOTED_S, 10.0),
        (1.0 + NOTED_S, 10.0),
    ):
        slow.took("t", taken_ms, before_ms, at_s)
        noted.append(readiness.noted())

    assert noted == [None, says, says, says, None]
    assert readiness.why() is None
    assert [line.__dict__.get("cause") for line in caplog.records] == [cause]
    assert [line.__dict__.get("cpu_wait_ms") for line in caplog.records] == [waited_ms]


def test_a_thread_waits_for_a_processor_as_the_kernel_counts_it(tmp_path: Path) -> None:
    """In ms since it began; a kernel that does not count it, or writes zeros in its place, has none."""
    counted, zeros = tmp_path / "counted", tmp_path / "zeros"
    counted.write_text("275919 6872167 5\n")
    zeros.write_text("0 0 0\n")

    assert [waited_ms(file) for file in (counted, zeros, tmp_path / "none")] == [6.872167, None, None]


def test_the_pressure_is_that_of_the_machine_or_of_the_container(tmp_path: Path) -> None:
    """The greater of both; a kernel that does not count it has none."""
    files = [tmp_path / name for name in ("machine", "container", "none")]
    files[0].write_text("some avg10=7.50 avg60=99.00 avg300=20.68 total=36492840234\nfull avg10=88.00 avg60=0.00\n")
    files[1].write_text("some avg10=12.25 avg60=99.00 avg300=20.68 total=3\n")

    assert [cpu_pressure(files), cpu_pressure(files[2:])] == [12.25, 0.0]


async def lags_of(ends: dict[int, int | None]) -> list[tuple[int, float]]:
    """What two partitions of which 7 records were committed tell at the last commit, and after it."""

    def end_known(topic: str, partition: int) -> int | None:
        return ends[partition]

    counters = Told()
    partitions = partitions_of(Readiness(), counters=counters)
    partitions.lag.end_known = end_known
    await partitions.assign([("t", 0), ("t", 1)])
    partitions.install()
    await partitions.shut_down()
    return counters.lags


async def test_a_commit_tells_how_far_it_is_behind_the_end_that_is_known() -> None:
    """Given back, a partition is no longer behind here: its next owner tells."""
    assert await lags_of({0: 17, 1: 7}) == [(0, 10), (1, 0), (0, 0), (1, 0)]


async def test_an_end_that_is_older_than_the_commit_is_no_negative_lag() -> None:
    """The last fetch told the end before the last records were appended."""
    assert await lags_of({0: 5, 1: 8}) == [(0, 0), (1, 1), (0, 0), (1, 0)]


async def test_what_nobody_knows_is_not_told() -> None:
    """Neither a partition of which nothing was fetched yet, nor one that the client knows no more."""
    assert await lags_of({0: None}) == []


async def test_what_a_partition_holds_is_told_by_its_next_owner_alone() -> None:
    """Its gauges end with the revocation, of a commit that was under way too; what was counted stays."""
    counters = Counters()
    partitions = partitions_of(Readiness(), counters=counters)
    await partitions.assign([("t", 0)])
    partitions.install()
    (owner,) = partitions.live.values()
    counters.set("job_series", 80, set="gpu", partition=0)
    counters.add("finals_gaps", 2, partition=0)

    async def stop() -> None:
        counters.set("job_watermark_ms", 5, topic="t", partition=0)

    owner.stop = stop  # type: ignore[method-assign]
    await partitions.revoke()

    assert {name for name, labels, _ in counters.readings() if "partition" in labels} == {"finals_gaps"}


async def test_a_partition_with_an_open_transaction_is_not_idle() -> None:
    """What was appended behind the transaction's first record is handed out only when it ends. A client that no longer
    knows the partition says nothing."""

    def known(topic: str, partition: int) -> bool:
        if partition == 2:
            raise AssertionError("Partition is not assigned")
        return partition == 0

    partitions = partitions_of(Readiness(), owner=Idle, policy=CommitPolicy(tick_ms=1))
    partitions.lag.in_transaction = known
    await partitions.assign([("t", 0), ("t", 1), ("t", 2)])
    partitions.install()
    partitions.start()
    owners: dict[int, Any] = {place.partition: owner for place, owner in partitions.live.items()}
    await asyncio.gather(owners[1].enough.wait(), owners[2].enough.wait())
    await partitions.shut_down()

    assert owners[0].looked == 0


async def test_behind_an_open_transaction_the_lag_is_told_without_a_commit() -> None:
    """There is none until the transaction ends, and what others append meanwhile waits."""
    counters, ends, enough = Told(), [7, 17], asyncio.Event()

    def end_known(_topic: str, _partition: int) -> int | None:
        if ends:
            return ends.pop(0)
        enough.set()
        return None

    partitions = partitions_of(Readiness(), owner=Idle, policy=CommitPolicy(tick_ms=1), counters=counters)
    partitions.lag.in_transaction, partitions.lag.end_known = lambda *_: True, end_known
    await partitions.assign([("t", 0)])
    partitions.install()
    partitions.start()
    await asyncio.wait_for(enough.wait(), 10)
    await partitions.shut_down()

    assert counters.lags[:2] == [(0, 2), (0, 12)]


async def test_an_assignment_of_before_a_rebalance_is_not_taken_up() -> None:
    """One that a partition out of quarantine asked for: its partitions are another's by now."""
    partitions = partitions_of(Readiness())
    await partitions.assign([("t", 0)])
    partitions.install()
    (owner,) = partitions.live.values()
    stopping, stopped = asyncio.Event(), asyncio.Event()

    async def stop() -> None:
        stopping.set()
        await stopped.wait()

    owner.stop = stop  # type: ignore[method-assign]
    again = asyncio.create_task(partitions.assign([("t", 0)]))
    await stopping.wait()
    await partitions.revoke()
    stopped.set()

    assert await again is None
    assert not partitions.acquiring


def records_of(*sizes: int | None) -> list[Record]:
    """Records with values of so many bytes; None: without a value."""
    values = [None if size is None else bytes(size) for size in sizes]
    return [Record("t", 0, offset, 0, None, value, ()) for offset, value in enumerate(values)]


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ((), []),
        ((5,), [[0]]),
        ((4, 4, 2), [[0, 1, 2]]),
        ((4, 4, 3), [[0, 1], [2]]),
        ((None, 0, 99, None, 1), [[0, 1], [2], [3, 4]]),
        ((11, 11), [[0], [1]]),
    ],
)
def test_slices_hold_no_more_than_they_may_or_one_record(sizes: tuple[int | None, ...], cut: list[list[int]]) -> None:
    """Of ten bytes; nothing is lost and nothing changes its place."""
    assert [[record.offset for record in one] for one in slices(records_of(*sizes), 10)] == cut


async def test_between_two_slices_of_a_large_fetch_others_have_their_turn() -> None:
    """What came meanwhile for another partition is folded in between."""
    policy = CommitPolicy(fold_bytes_max=10)
    partitions = partitions_of(Readiness(partitions="not joined"), owner=Taker, policy=policy)
    await partitions.assign([("t", 0), ("t", 1)])
    partitions.install()
    seen: list[tuple[int, list[int]]] = []
    for place, owner in partitions.live.items():
        owner.fed = _Noted(place.partition, seen)  # type: ignore[attr-defined]

    large = asyncio.create_task(partitions.feed("t", 0, partitions.generation, records_of(9, 9, 9)))
    urgent = asyncio.create_task(partitions.feed("t", 1, partitions.generation, records_of(1)))
    await asyncio.gather(large, urgent)

    assert seen == [(0, [0]), (1, [0]), (0, [1]), (0, [2])]


async def test_the_rest_of_a_fetch_is_dropped_once_its_partition_was_revoked() -> None:
    """Whoever owns it then reads it again: this process may be that one, at the offset that was committed."""
    partitions = partitions_of(Readiness(partitions="x"), owner=Taker, policy=CommitPolicy(fold_bytes_max=10))
    await partitions.assign([("t", 0)])
    partitions.install()
    (before,) = partitions.live.values()

    feeding = asyncio.create_task(partitions.feed("t", 0, partitions.generation, records_of(9, 9)))
    await asyncio.sleep(0)
    await partitions.assign([("t", 0)])
    partitions.install()
    await feeding

    (after,) = partitions.live.values()
    assert (before.fed, after.fed) == ([[0]], [])  # type: ignore[attr-defined]


class _Noted(list[list[int]]):
    """Tells a common list whose slice it was."""

    def __init__(self, partition: int, seen: list[tuple[int, list[int]]]) -> None:
        super().__init__()
        self._partition, self._seen = partition, seen

    def append(self, offsets: list[int]) -> None:
        self._seen.append((self._partition, offsets))


async def test_acquiring_is_limited_by_the_time_without_progress_not_by_the_whole() -> None:
    """A large snapshot takes as long as it takes while parts of it arrive; the watchdog hears of each."""
    seen: list[int] = []

    class Slow(Owner):
        parts = 30

        async def acquire(self) -> int:
            for _ in range(self.parts):
                await asyncio.sleep(0.02)
                self.progressed()  # type: ignore[attr-defined]
            await asyncio.sleep(0.5 if self.parts == 0 else 0)
            return 7

    policy = CommitPolicy(acquire_limit_ms=200)
    partitions = partitions_of(Readiness(), owner=Slow, policy=policy)
    partitions.progressed = lambda: seen.append(1)
    stuck = partitions_of(Readiness(), owner=type("Stuck", (Slow,), {"parts": 0}), policy=policy)

    assert await partitions.assign([("t", 0)]) == {TopicPartition("t", 0): 7}
    assert await stuck.assign([("t", 0)]) is None

    assert len(seen) == 31
    assert "made no progress for 200 ms" in str(stuck.fatal.exception())
