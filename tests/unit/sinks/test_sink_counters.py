from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, KafkaConnectionError

from runtime.counters import Counters
from schemas.contract.record import Record
from schemas.errors import UnavailableError
from sinks.landing import Insert, Landing
from sinks.sink_counters import count_landed, count_planned, count_read, insert_counted, lag_followed, set_lag

TOTALS = ("sink_inserts", "sink_rows", "sink_bytes", "sink_insert_ms", "sink_waiting_rows")
FIRST, SECOND = Insert("a", (), (b"123", memoryview(b"45")), 3), Insert("b", (), (b"1",), 1)


def of_tables(counters: Counters) -> dict[str, list[float]]:
    return {table: [counters.value(name, table=table) for name in TOTALS] for table in ("a", "b")}


class Clock:
    """Each look takes a quarter of a second."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.25
        return self.now_s


class Consumer:
    """Two partitions; of the second nothing was fetched yet."""

    def __init__(self, topic: str = "t") -> None:
        self.first, self.second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        self.assigned = {self.first, self.second}
        self.end: int | None = 10

    def assignment(self) -> set[TopicPartition]:
        return self.assigned

    def highwater(self, place: TopicPartition) -> int | None:
        return self.end if place == self.first else None

    async def position(self, place: TopicPartition) -> int:
        assert place == self.first, "the position of the second would have to be asked for"
        return 7


def test_records_are_counted_by_topic() -> None:
    """None is none."""
    counters = Counters()
    count_read((), counters)
    count_read([Record(topic, 0, 0, 0, None, b"", ()) for topic in "aba"], counters)

    assert [counters.value("sink_records", topic=topic) for topic in "abc"] == [2, 1, 0]


def test_an_insert_is_counted_with_what_it_took() -> None:
    """Rows wait from the plan to the acknowledgement."""
    counters = Counters()
    count_planned(Landing((FIRST, SECOND)), counters)
    planned = of_tables(counters)
    insert_counted(lambda _: None, (FIRST, SECOND), counters, Clock())

    assert planned == {"a": [0, 0, 0, 0, 3], "b": [0, 0, 0, 0, 1]}
    assert of_tables(counters) == {"a": [1, 3, 5, 250, 0], "b": [1, 1, 1, 250, 0]}


def test_what_is_not_acknowledged_waits_and_is_counted_as_tried() -> None:
    """The table before it is counted, the cause is named."""
    counters = Counters()
    count_planned(Landing((FIRST, SECOND)), counters)

    def away(inserts: Sequence[Insert]) -> None:
        if inserts[0] is SECOND:
            raise UnavailableError("away") from ConnectionRefusedError()

    with pytest.raises(UnavailableError):
        insert_counted(away, (FIRST, SECOND), counters, Clock())

    assert of_tables(counters) == {"a": [1, 3, 5, 250, 0], "b": [0, 0, 0, 0, 1]}
    assert counters.value("sink_retries", table="b", error="ConnectionRefusedError") == 1


def test_rows_past_their_time_are_counted() -> None:
    """By table."""
    counters = Counters()
    count_landed(Landing((), frozenset(), {"a": 4}), counters)

    assert counters.value("sink_rows_expired", table="a") == 4


def test_records_that_are_left_out_are_counted_and_the_first_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """With the section of the runbook; without any nothing is said."""
    counters = Counters()
    count_landed(Landing(), counters)
    count_landed(Landing(unreadable=3, first_unreadable="books[0] offset 7 is of a day to come"), counters)

    (said,) = caplog.records
    assert counters.value("errors", where="sink", error="rejected") == 3
    assert said.levelname == "ERROR"
    assert {name: vars(said)[name] for name in ("records", "first", "cause")} == {
        "records": 3,
        "first": "books[0] offset 7 is of a day to come",
        "cause": "Records rejected",
    }


async def test_the_lag_is_told_where_it_is_known_and_taken_back_where_it_is_lost() -> None:
    """A partition of which nothing was fetched is not told; one that went away lags no more, and is told once."""
    counters, consumer, told = Counters(), Consumer(), set[TopicPartition]()
    await set_lag(consumer, told, counters)
    before = counters.value("sink_lag_records", topic="t", partition=0), set(told)
    consumer.assigned = set()
    await set_lag(consumer, told, counters)

    assert before == (3, {consumer.first})
    assert (counters.value("sink_lag_records", topic="t", partition=0), told) == (0, set())
    assert b'partition="1"' not in counters.render()


async def test_a_position_beyond_the_end_known_is_no_lag() -> None:
    """The end is that of the last fetch, the position may be newer."""
    counters, consumer = Counters(), Consumer()
    consumer.end = 5
    await set_lag(consumer, set(), counters)

    assert counters.value("sink_lag_records", topic="t", partition=0) == 0


@pytest.mark.parametrize("lost", [None, IllegalStateError("not assigned")], ids=["looked up for long", "taken away"])
async def test_a_position_that_is_not_to_be_had_holds_nothing_up(lost: Exception | None) -> None:
    """The sink goes on; the lag stays as it was told."""

    class Without(Consumer):
        async def position(self, place: TopicPartition) -> int:
            if lost is not None:
                raise lost
            await asyncio.Event().wait()
            return 0

    counters, told = Counters(), set[TopicPartition]()
    await set_lag(Consumer(), told, counters)
    await set_lag(Without(), told, counters, within_s=0.01)

    assert counters.value("sink_lag_records", topic="t", partition=0) == 3
    assert told == {TopicPartition("t", 0)}


async def test_a_partition_without_leader_hides_the_lag_of_no_other() -> None:
    """Its position is not known until it has one."""

    class Leaderless(Consumer):
        def highwater(self, place: TopicPartition) -> int:
            return 10

        async def position(self, place: TopicPartition) -> int:
            if place == self.first:
                await asyncio.Event().wait()
            return 7

    counters = Counters()
    await set_lag(Leaderless(), set(), counters, within_s=0.01)

    assert counters.value("sink_lag_records", topic="t", partition=1) == 3
    assert b'partition="0"' not in counters.render()


async def test_the_lag_grows_while_nothing_is_fetched() -> None:
    """By ends that are asked for; while nobody answers it stays as it was told."""
    counters, told, enough = Counters(), set[TopicPartition](), asyncio.Event()
    seen: list[float] = []

    class Growing(Consumer):
        async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            assert list(places) == [self.first]
            seen.append(counters.value("sink_lag_records", topic="t", partition=0))
            if len(seen) == 5:
                enough.set()
            if len(seen) % 2:
                raise KafkaConnectionError("nobody answers")
            return {self.first: 100 * len(seen)}

    consumer = Growing()
    consumer.assigned = {consumer.first}
    await set_lag(consumer, told, counters)

    async with lag_followed(consumer, told, counters, every_s=0.001):
        await enough.wait()
    asked = len(seen)
    await asyncio.sleep(0.01)

    assert seen[:5] == [3, 3, 193, 193, 393]
    assert len(seen) == asked, "nobody follows it any more"
