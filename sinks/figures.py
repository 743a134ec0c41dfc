"""The sink's figures: what was read, what waits, what was inserted and how long that took, by topic and table."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from runtime.counters import COUNTERS, Counters
from schemas.contract.record import Record
from schemas.errors import UnavailableError
from sinks.landing import Insert, Landing

_POSITIONS_WITHIN_S = 0.2


def count_read(records: Iterable[Record], counters: Counters = COUNTERS) -> None:
    """Records that came."""
    for topic, number in Counter(record.topic for record in records).items():
        counters.add("sink_records", number, topic=topic)


def count_planned(landing: Landing, counters: Counters = COUNTERS) -> None:
    """Rows that wait for their insert from now on."""
    for one in landing.inserts:
        counters.set("sink_waiting_rows", one.rows, table=one.table)


def count_landed(landing: Landing, counters: Counters = COUNTERS) -> None:
    """All is stored but for rows past their time to live."""
    for table, rows in landing.expired.items():
        counters.add("sink_rows_expired", rows, table=table)


def insert_counted(
    insert: Callable[[Sequence[Insert]], None],
    inserts: Iterable[Insert],
    counters: Counters = COUNTERS,
    now_s: Callable[[], float] = time.monotonic,
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
        counters.add("sink_rows", one.rows, table=one.table)
        counters.add("sink_bytes", one.size, table=one.table)
        counters.set("sink_waiting_rows", 0, table=one.table)


async def tell_lag(
    consumer: Any, told: set[TopicPartition], counters: Counters = COUNTERS, within_s: float = _POSITIONS_WITHIN_S
) -> None:
    """Records between the consumer's positions and the ends that the last fetches named. ``told`` are the partitions
    told before, changed in place: those that went to another sink are told as 0 once more.

    A position that is being looked up (the log was cut below it) is waited for no longer than ``within_s`` in all.
    """
    for gone in told - consumer.assignment():
        counters.set("sink_lag_records", 0, topic=gone.topic, partition=gone.partition)
        told.discard(gone)
    with contextlib.suppress(TimeoutError, IllegalStateError):  # the latter: taken away meanwhile
        async with asyncio.timeout(within_s):
            for place in sorted(consumer.assignment()):
                end = consumer.highwater(place)
                if end is None:  # nothing was fetched yet: unknown
                    continue
                lag = max(0, end - await consumer.position(place))
                counters.set("sink_lag_records", lag, topic=place.topic, partition=place.partition)
                told.add(place)
