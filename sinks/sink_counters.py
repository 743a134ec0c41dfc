"""The sink's counters: what was read, what waits, what was inserted and how long that took, by topic and table."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from runtime.clock import SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.positions import WITHIN_S, known_positions
from runtime.runbook import Cause
from schemas.contract.record import Record
from schemas.errors import UnavailableError
from sinks.landing import Insert, Landing

_FOLLOW_EVERY_S, _ENDS_WITHIN_S = 5.0, 5.0
_CLOCK = SystemClock()
_log = logging.getLogger(__name__)


def count_read(records: Iterable[Record], counters: Counters = COUNTERS) -> None:
    """Records that came."""
    for topic, number in Counter(record.topic for record in records).items():
        counters.add("sink_records", number, topic=topic)


def count_planned(landing: Landing, counters: Counters = COUNTERS) -> None:
    """Rows that wait for their insert from now on."""
    for one in landing.inserts:
        counters.set("sink_waiting_rows", one.rows, table=one.table)


def count_landed(landing: Landing, counters: Counters = COUNTERS) -> None:
    """All is stored but for rows past their time to live, and records that cannot be read."""
    for table, rows in landing.expired.items():
        counters.add("sink_rows_expired", rows, table=table)
    if landing.unreadable:
        counters.add("errors", landing.unreadable, where="sink", error="rejected")
        facts = {"records": landing.unreadable, "first": landing.first_unreadable, "cause": Cause.REJECTED}
        _log.error("records of topics books, alerts and alert.commands rejected; not inserted", extra=facts)


def insert_counted(
    insert: Callable[[Sequence[Insert]], None],
    inserts: Iterable[Insert],
    counters: Counters = COUNTERS,
    now_s: Callable[[], float] = time.monotonic,
    now_ms: Callable[[], int] = _CLOCK.now_ms,
) -> None:
    """Insert them one by one and count each as soon as it is acknowledged. Raises what ``insert`` raises."""
    for one in inserts:
        begun_s = now_s()
        try:
            insert((one,))
        except UnavailableError as error:
            counters.add("sink_retries", table=one.table, error=type(error.__cause__ or error).__name__)
            raise
        counters.add("sink_insert_ms", (now_s() - begun_s) * 1_000, table=one.table)
        counters.add("sink_inserts", table=one.table)
        counters.set("sink_inserted_ms", now_ms(), table=one.table)
        counters.add("sink_rows", one.rows, table=one.table)
        counters.add("sink_bytes", one.size, table=one.table)
        counters.set("sink_waiting_rows", 0, table=one.table)


async def set_lag(
    consumer: Any,
    known: set[TopicPartition],
    counters: Counters = COUNTERS,
    within_s: float = WITHIN_S,
    ends: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Consumer lag: records between the consumer's positions and ``ends``; None: those that the last fetches named.
    ``known`` are the partitions whose lag was set before, changed in place: those revoked since are set to 0 once.

    A position that is being looked up (the log was cut below it) is waited for no longer than ``within_s`` in all.
    """
    for gone in known - consumer.assignment():
        counters.set("sink_lag_records", 0, topic=gone.topic, partition=gone.partition)
        known.discard(gone)
    assigned = sorted(consumer.assignment())
    fetched = {tp: consumer.highwater(tp) for tp in assigned} if ends is None else ends
    waiting = [tp for tp in assigned if fetched.get(tp) is not None]  # of others nothing was fetched yet: unknown
    for tp, position in (await known_positions(consumer, waiting, within_s)).items():
        counters.set("sink_lag_records", max(0, fetched[tp] - position), topic=tp.topic, partition=tp.partition)
        known.add(tp)


@contextlib.asynccontextmanager
async def lag_followed(
    consumer: Any, known: set[TopicPartition], counters: Counters = COUNTERS, every_s: float = _FOLLOW_EVERY_S
) -> AsyncIterator[None]:
    """While inside, where nothing is fetched, keep the consumer lag up to date by ends that the brokers are asked for.
    While they do not answer it stays as it is."""
    following = asyncio.create_task(_follow_lag(consumer, known, counters, every_s))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _follow_lag(consumer: Any, known: set[TopicPartition], counters: Counters, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN_S):
                ends = await consumer.end_offsets(sorted(consumer.assignment()))
            await set_lag(consumer, known, counters, ends=ends)
