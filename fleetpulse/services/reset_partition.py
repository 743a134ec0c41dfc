"""``fleetpulse jobs reset``: a quarantined partition of a job goes on from a place that somebody names.

What the reset costs is worked out first, and shown; then it is one transaction (``stream_jobs.runner.reset``). Where
the group's offset is lost, the books say where it was: those of the windows job, on Kafka and in ClickHouse. Of a topic
that was made anew the tables still have the books of the log before, whose offsets mean nothing: where Kafka has any,
the tables add only what was committed since.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from aiokafka import TopicPartition

from fleetpulse.doctor.examine import READS
from fleetpulse.services.jobs_and_sink import JOBS, NO_FILES, Files, partitions_of, setup_of
from fleetpulse.sql.database import Database
from runtime.bounded_fetch import bound_fetches
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.contract_record import check_deployment
from runtime.kafka_clients import open_consumer
from runtime.positions import read_whole
from schemas.contract.record import Record
from schemas.contract.topics import BOOKS_TOPIC
from schemas.errors import ConfigError, FleetpulseError
from stream_jobs.runner.job import Job, Source
from stream_jobs.runner.kafka_ports import KafkaBroker
from stream_jobs.runner.reset import Declare, Reset, Resetting, Span, describe
from stream_jobs.windows.messages import missing

_log = logging.getLogger(__name__)

_OFFSETS = re.compile(rb"[0-9]{1,19}-([0-9]{1,19})")
_COUNT = re.compile(rb"[0-9]{1,18}")
_BOOKED = """
SELECT max(offset_to) FROM books
WHERE job = 'windows' AND topic = {topic:String} AND partition = {partition:UInt32} AND committed_ms >= {since:Int64}
"""


@dataclass(frozen=True, slots=True)
class Unread:
    """What a reset leaves out and can still be read: records, their events, and when they were appended."""

    records: int
    events: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a reset does, and of what it leaves out the part that the log still holds."""

    job: str
    reset: Reset
    unread: Unread | None

    def lines(self) -> list[str]:
        found = describe(self.reset)
        if self.unread is not None:
            one = self.unread
            found.append(
                f"of them the log still holds {one.records:,} records with {one.events:,} events, appended within"
                f" {(one.last_ms - one.first_ms) / 1_000:,.0f} s: their windows stay without them"
            )
        return found


class Booked(NamedTuple):
    """The last record of books about a partition: the offset where they end, and when it was written."""

    end: int
    at_ms: int


def job_of(topic: str, named: str | None) -> str:
    """The job whose partition is meant. Raises ``ConfigError`` where several read the topic and none is named."""
    reading = [job for job in JOBS if topic in READS[job]]
    if named is None and len(reading) == 1:
        return reading[0]
    if named in reading:
        return str(named)
    raise ConfigError("--of", named, f"must be a job that reads {topic}: {', '.join(reading) or 'none does'}")


def place_of(text: str) -> tuple[str, int]:
    """``TOPIC:N`` or ``TOPIC/N``, as logs name it. Raises ``ConfigError``."""
    topic, _, number = text.replace("/", ":").rpartition(":")
    if not topic or not number.isdecimal():
        raise ConfigError("--partition", text, "must be TOPIC:N")
    return topic, int(number)


async def reset_partition(
    config: Config,
    job: str,
    place: tuple[str, int],
    to: str,
    confirmed: Callable[[Cost], bool],
    files: Files = NO_FILES,
    *,
    same_topic: bool = False,
) -> tuple[Cost, bool]:
    """What the reset costs, and whether it was carried out, which it is when ``confirmed`` says so. ``files`` are those
    that the job runs with: its state is loaded under them, and written. ``same_topic`` is that of ``Resetting.plan``.
    Raises ``FencedError`` or ``ContractError`` when an owner came between: then nothing was changed."""
    bound_fetches(config.limits)
    setup = setup_of(job, config, files)
    made = Job.of(setup.steps, (), setup.transactional)
    await check_deployment(config.kafka, made.topics)
    broker = KafkaBroker(config.kafka, setup.policy)
    await broker.start()
    owner: Resetting | None = None
    try:
        names, source = made.names(config.kafka.namespace), made.source(*place)
        step = made.steps[source.topic]
        owner = Resetting(step, source, broker, names, setup.policy, SystemClock())
        reset = await owner.plan(to, partial(_books_end, config, job, place), same_topic=same_topic)
        unread = None if reset.unread is None else await _measured(broker, source, reset.unread)
        cost = Cost(job, reset, unread)
        if not confirmed(cost):
            return cost, False
        await owner.carry_out(reset, _declare(config, job))
        return cost, True
    finally:
        if owner is not None:
            await owner.stop()
        await broker.stop()


def _declare(config: Config, job: str) -> Declare:
    partitions = partitions_of(config)[BOOKS_TOPIC]
    return lambda reset, commit: missing(commit, partitions, job) if reset.missing else []


async def _measured(broker: KafkaBroker, source: Source, span: Span) -> Unread:
    records = events = last_ms = 0
    first_ms: int | None = None
    reader = await broker.reader(source.topic, source.partition, span[0])
    try:
        position = span[0]
        while position < span[1]:
            batch = await reader.poll()
            for record in batch.records:
                if record.offset < span[1]:
                    records, events = records + 1, events + _events_of(record)
                    first_ms = record.timestamp_ms if first_ms is None else first_ms
                    last_ms = record.timestamp_ms
            position = batch.position
    finally:
        await reader.close()
    return Unread(records, events, first_ms or 0, last_ms)


def _events_of(record: Record) -> int:
    """What its header says, which anybody may have written; 0 for what is no number."""
    count = dict(record.headers).get("count") or b""
    return int(count) if _COUNT.fullmatch(count) else 0


async def _books_end(config: Config, job: str, place: tuple[str, int]) -> int | None:
    """Where the books of the job about this partition end; None where nobody knows. The windows job alone has any."""
    if job != "windows":
        return None
    last = await _last_on_kafka(config, *place)
    ends = [last.end if last else None, _end_in_tables(config, *place, last.at_ms if last else 0)]
    return max((end for end in ends if end is not None), default=None)


def _end_in_tables(config: Config, topic: str, partition: int, since_ms: int) -> int | None:
    """Where the books end that were committed since then [ms]."""
    try:
        with closing(Database(config.clickhouse, consistent=True)) as database:
            ((end,),) = database.sql(_BOOKED, {"topic": topic, "partition": partition, "since": since_ms}).rows
    except FleetpulseError as error:
        _log.warning("ClickHouse unavailable; where books end is read from Kafka alone", extra={"error": str(error)})
        return None
    return int(end) or None


async def _last_on_kafka(config: Config, topic: str, partition: int) -> Booked | None:
    """The newest of all partitions of ``books``: since that has grown they go to another one. Read to the very end: an
    open transaction may hide the last books, so this waits until none does."""
    places = [TopicPartition(BOOKS_TOPIC, number) for number in range(partitions_of(config)[BOOKS_TOPIC])]
    async with open_consumer(config.kafka, isolation_level="read_uncommitted") as consumer:
        ends = await consumer.end_offsets(places)
    mine = (b"windows", topic.encode(), b"%d" % partition)
    last: dict[int, Booked] = {}
    async with open_consumer(config.kafka, isolation_level="read_committed") as consumer:
        async for message in read_whole(consumer, places, ends):
            headers = dict(message.headers)
            found = _OFFSETS.fullmatch(headers.get("offsets") or b"")  # edges may write here, too
            by = (headers.get("job"), headers.get("source-topic"), headers.get("source-partition"))
            if by == mine and found is not None:
                last[message.partition] = Booked(int(found[1]), message.timestamp)
    return max(last.values(), key=lambda one: (one.at_ms, one.end), default=None)
