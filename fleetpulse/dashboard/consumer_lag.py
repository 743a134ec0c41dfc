"""Consumer lag of every group of the pipeline, by topic, as Kafka itself reports it.

The tables do not show it: a job that stands still writes no rows about itself. Equal queries within a few seconds share
one answer, so that a page in live mode costs one query however many people watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from fleetpulse.doctor.examine import READS
from fleetpulse.doctor.facts import AGED_MS
from fleetpulse.doctor.judge_kafka import MARKERS_MAX, behind, consumer_lag
from fleetpulse.doctor.look_kafka import aged_offsets, learn_leaders, look_at_groups, plain
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_admin, make_consumer, no_right, started
from runtime.runbook import Cause
from schemas.errors import FleetpulseError, UnavailableError

KEPT_S = 5.0
WITHIN_S = 4.0
EVERY = {"isolation_level": "read_uncommitted"}
"""Behind a transaction that is left open no committed record can be read, and all of them wait."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Records of ``topic`` that group ``job`` has not committed; None where it never ran. ``members``: processes in the
    group. No partitions: there is no such topic."""

    job: str
    topic: str
    records: int | None
    partitions: int
    members: int = 0
    late: int = 0
    """Of these records those that wait for longer than ``AGED_MS``."""
    lacking: bool = False
    """A topic is missing, perhaps one that the job writes: it ends until that is there."""

    @property
    def wrong(self) -> str:
        """The cause by the runbook's name, empty where nothing is wrong."""
        if not self.partitions:
            return Cause.TOPIC
        waits = (self.records or 0) > MARKERS_MAX * self.partitions
        if waits and not self.members:
            return Cause.TOPIC if self.lacking else Cause.PROCESS
        late = Cause.DELIVERY if self.job == "deliver" else Cause.LAG
        return late if self.late and self.members else ""


def lags(
    committed: Mapping[str, Mapping[TopicPartition, int]],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    members: Mapping[str, int],
    aged: Mapping[TopicPartition, int],
    reads: Mapping[str, Sequence[str]] = READS,
) -> list[Lag]:
    """One row for each job and topic of ``reads``, in their order."""
    rows = []
    lacking = not {topic for topics in reads.values() for topic in topics} <= {place[0] for place in ends}
    for job, topics in reads.items():
        offsets = committed.get(job, {})
        for topic in topics:
            partitions = sum(place[0] == topic for place in ends)
            records = consumer_lag(topic, offsets, begins, ends) if offsets and partitions else None
            late = sum(behind(job, topic, offsets, begins, aged).values())
            rows.append(Lag(job, topic, records, partitions, members.get(job, 0), late, lacking))
    return rows


class LagOfGroups:
    """Asks Kafka. Belongs to the event loop it is used in."""

    def __init__(self, kafka: KafkaConfig, reads: Mapping[str, Sequence[str]] = READS) -> None:
        self._reads = reads
        bounded = {"request_timeout_ms": int(WITHIN_S * 1_000)}
        self._kafka = kafka.model_copy(update=bounded)
        self._queried_s = float("-inf")
        self._asking: asyncio.Future[list[Lag]] | None = None

    async def ask(self) -> list[Lag]:
        """The lag of all groups; ``UnavailableError`` when Kafka does not answer in time."""
        if self._asking is None or time.monotonic() - self._queried_s > KEPT_S:
            self._queried_s = time.monotonic()
            self._asking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._asking)

    async def _look(self) -> list[Lag]:
        try:
            return await asyncio.wait_for(self._found(), WITHIN_S)
        except TimeoutError as error:  # a machine without processors is late, too
            raise UnavailableError(f"Kafka did not answer within {WITHIN_S:.0f} s; see `fleetpulse doctor`") from error
        except (KafkaError, OSError, FleetpulseError) as error:
            raise UnavailableError("Kafka unavailable; see `fleetpulse doctor`") from error

    async def _found(self) -> list[Lag]:
        async with started(make_admin(self._kafka)) as admin, started(make_consumer(self._kafka, **EVERY)) as consumer:
            names = {job: f"{self._kafka.namespace}-{job}" for job in self._reads}
            groups = await look_at_groups(admin, list(names.values()), WITHIN_S / 2)
            places = await _places(admin, self._reads)
            await learn_leaders(consumer, places)
            begins, ends = await asyncio.gather(consumer.beginning_offsets(places), consumer.end_offsets(places))
            aged = await aged_offsets(consumer, plain(ends), SystemClock().now_ms() - AGED_MS)
        seen = {job: group for job, name in names.items() if (group := groups[name]) is not None}
        if len(seen) < len(names):
            raise no_right(self._kafka, f"Describe on groups {self._kafka.namespace}-*")
        if not any(group.answered for group in seen.values()):
            raise TimeoutError
        offsets = {job: group.committed for job, group in seen.items()}
        members = {job: group.members for job, group in seen.items()}
        return lags(offsets, plain(begins), plain(ends), members, aged, self._reads)


async def _places(admin: Any, reads: Mapping[str, Sequence[str]]) -> list[TopicPartition]:
    """All partitions of what is read and is there."""
    there = await admin.describe_topics(sorted({topic for topics in reads.values() for topic in topics}))
    return [
        TopicPartition(topic["topic"], one["partition"])
        for topic in there
        if topic["error_code"] == 0
        for one in topic["partitions"]
    ]
