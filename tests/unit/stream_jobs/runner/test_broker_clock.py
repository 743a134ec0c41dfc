"""A worker's wall clock is bounded by what the brokers stamped on what it fetched."""

from __future__ import annotations

from typing import Any

from runtime.counters import Counters
from runtime.health import Readiness
from schemas.contract.record import Record
from stream_jobs.runner.broker_clock import BrokerClock
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.policy import DEFAULT_POLICY
from tests.simulator.counting import CountingStep
from tests.unit.stream_jobs.runner.memory_broker import BEGAN_MS, Clock

DAY_MS = 86_400_000


class Ahead(Clock):
    """A day ahead of the brokers, whose time it is ``BEGAN_MS`` when this begins."""

    def now_ms(self) -> int:
        return super().now_ms() + DAY_MS


def test_a_clock_that_is_ahead_follows_the_brokers() -> None:
    """From the first record on, by the time that passes; a record that was long under way moves nothing back."""
    inner = Ahead(100.0)
    clock = BrokerClock(inner)
    unknown = clock.now_ms()
    clock.seen(BEGAN_MS)
    first = clock.now_ms()
    inner.now_s += 30
    later = clock.now_ms()
    clock.seen(BEGAN_MS - 3_600_000)
    delayed = clock.now_ms()
    clock.seen(BEGAN_MS + 30_500)

    assert unknown == BEGAN_MS + 100_000 + DAY_MS
    assert (first, later, delayed) == (BEGAN_MS, BEGAN_MS + 30_000, BEGAN_MS + 30_000)
    assert clock.now_ms() == BEGAN_MS + 30_500


def test_a_clock_that_is_right_or_behind_stays_as_it_is() -> None:
    """The bound is one from above alone."""
    clock = BrokerClock(Clock(10.0))
    clock.seen(BEGAN_MS + 60_000)

    assert clock.now_ms() == BEGAN_MS + 10_000


class Keeper:
    """An owner that keeps its clock."""

    position = committed = number = output_bytes = 0

    def __init__(self, step: Any, source: Any, *rest: Any) -> None:
        self.source, self.clock = source, rest[3]

    async def acquire(self) -> int:
        return 0

    async def feed(self, records: Any) -> None: ...

    async def stop(self) -> None: ...

    def wants_commit(self) -> bool:
        return False


async def test_an_idle_partition_takes_the_time_of_records_of_others() -> None:
    """What one partition of a worker fetches bounds the clock of all; topics that jobs write have their writers' time,
    and bound nothing."""
    kind: Any = type("TestPartitions", (Partitions,), {"Owner": Keeper})
    job = Job.of(CountingStep(), ["source", "derived"], ["derived"])
    partitions = kind(job, None, job.names("d"), DEFAULT_POLICY, Ahead(), Counters(), Readiness())
    await partitions.assign([("source", 0), ("source", 1), ("derived", 0)])
    partitions.install()

    async def feed(topic: str) -> int:
        record = Record(topic, 0, 0, BEGAN_MS + 5, None, b"", ())
        await partitions.feed(topic, 0, partitions.generation, [record])
        return int(partitions.live["source", 1].clock.now_ms())

    assert [await feed("derived"), await feed("source")] == [BEGAN_MS + DAY_MS, BEGAN_MS + 5]
