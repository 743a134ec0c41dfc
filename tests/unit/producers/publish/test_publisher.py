"""What a publisher has kept when it is killed. Sending itself is tested against Kafka (tests/integration)."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError

from producers.batch import Batch
from producers.publish import publisher as publisher_module
from producers.publish import sender as sender_module
from producers.publish.publisher import Publisher, PublisherSettings
from producers.publish.reconnect import Outage
from producers.publish.sender import LaneError
from producers.spool import segment_log
from producers.spool.slots import Slots
from producers.spool.spool import Spool
from runtime.config import KafkaConfig
from runtime.counters import Counters
from schemas.codec import native
from schemas.rows.tables import PRODUCER_BOOKS
from tests.virtual_clock import VirtualClock

NOW_MS = 1_800_000_000_000
ONE = Batch("llm.requests", "s/1", "t", b"h", 1, b"value")
RARELY = PublisherSettings(save_every_s=5.0)


def publisher_on(folder: Path, settings: PublisherSettings = RARELY) -> Publisher:
    spool = Spool.open(folder)
    return Publisher(spool, KafkaConfig(), host="h", settings=settings, counters=Counters())


async def spooled(publisher: Publisher, records: int) -> int:
    """Spool so many, and let Kafka acknowledge all that the spool hands out; how many these were."""
    for _ in range(records):
        await publisher.put("llm.requests", b"h", ONE)
    publisher.spool.sync()
    taken = publisher.spool.take()
    if taken:
        publisher._delivered(taken)
    return len(taken)


async def lived(publisher: Publisher, seconds: float) -> None:
    """Its saves in so many seconds; then it is killed."""
    at_s = publisher._save_pause_s()
    while at_s <= seconds:
        await publisher._keep()
        at_s += publisher._save_pause_s()
    publisher.spool.abandon()


async def test_who_is_killed_again_and_again_sends_nothing_twice(tmp_path: Path) -> None:
    """Each life ends before the usual interval of saves; without the early one the fifth would send 50 records."""
    sent = []
    for _ in range(5):
        publisher = publisher_on(tmp_path)
        sent.append(await spooled(publisher, 10))
        await lived(publisher, 2.0)

    assert sent == [10] * 5


async def test_a_kill_before_the_first_save_sends_again(tmp_path: Path) -> None:
    """Nothing is lost by it; afterwards it is made up for."""
    sent = []
    for seconds in (0.5, 0.5, 1.0, 0.5):
        publisher = publisher_on(tmp_path)
        sent.append(await spooled(publisher, 10))
        await lived(publisher, seconds)

    assert sent == [10, 20, 30, 10]


async def test_saves_are_rare_once_one_knows_the_first_acknowledgements(tmp_path: Path) -> None:
    """Not before: neither without acknowledgements nor while older boots' records are left."""
    publisher = publisher_on(tmp_path)
    await spooled(publisher, 0)
    await publisher._keep()
    paces = [publisher._save_pause_s()]
    await spooled(publisher, 3)
    paces.append(publisher._save_pause_s())
    await publisher._keep()
    paces.append(publisher._save_pause_s())
    publisher.spool.abandon()

    assert paces == [1.0, 1.0, 5.0]


async def test_while_older_boots_have_records_left_saves_are_frequent(tmp_path: Path) -> None:
    """They would all be sent again."""
    first = publisher_on(tmp_path)
    for _ in range(2):
        await first.put("llm.requests", b"h", ONE)
    first.spool.sync()
    first.spool.abandon()
    again = publisher_on(tmp_path)
    (one, *others) = again.spool.take()
    again._delivered([one])
    await again._keep()
    pace = again._save_pause_s()
    again.spool.abandon()

    assert (len(others), pace) == (1, 1.0)


async def test_a_publisher_that_saves_often_keeps_its_pace(tmp_path: Path) -> None:
    """The early saves are never later than the usual ones."""
    publisher = publisher_on(tmp_path, PublisherSettings(save_every_s=0.25))
    pace = publisher._save_pause_s()
    publisher.spool.abandon()

    assert pace == 0.25


async def test_a_save_waits_for_the_first_acknowledgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or for the usual interval; once one is saved, for nothing but the interval."""
    monkeypatch.setattr(publisher_module, "until_beat_s", lambda _now_ms, _pause_s: 0)
    publisher = publisher_on(tmp_path)
    try:
        waiting = asyncio.create_task(publisher._until_a_save())
        for _ in range(10):
            await asyncio.sleep(0)
        before = waiting.done()
        await spooled(publisher, 1)
        async with asyncio.timeout(20):
            await waiting
        await publisher._keep()
        async with asyncio.timeout(20):
            await publisher._until_a_save()
    finally:
        publisher.spool.abandon()

    assert not before


async def test_a_disk_that_takes_no_save_is_tried_soon_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a save that was written counts."""
    publisher = publisher_on(tmp_path)
    await spooled(publisher, 1)

    def full(self: Slots, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Slots, "write", full)
        await publisher._keep()
    failed = publisher._save_pause_s()
    await publisher._keep()
    written = publisher._save_pause_s()
    publisher.spool.abandon()

    assert (failed, written) == (1.0, 5.0)


async def test_without_an_acknowledgement_the_disk_is_left_alone(tmp_path: Path) -> None:
    """While Kafka is away; at the usual interval what was spooled is synced all the same."""
    clock = VirtualClock()
    publisher = Publisher(
        Spool.open(tmp_path), KafkaConfig(), host="h", settings=RARELY, counters=Counters(), clock=clock
    )
    try:
        await publisher.put("llm.requests", b"h", ONE)
        clock.advance(4_999)
        before = publisher._is_to_keep()
        clock.advance(1)
        at_the_interval = publisher._is_to_keep()
        await publisher._keep()
        after = publisher._is_to_keep()
        await spooled(publisher, 1)

        assert (before, at_the_interval, after, publisher._is_to_keep()) == (False, True, False, True)
    finally:
        publisher.spool.abandon()


async def test_while_nobody_listens_no_producer_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure it is looked first whether anybody does; here at the third look."""
    looks, made = list[str](), list[int]()
    second = asyncio.Event()

    class Refused:
        def __init__(self) -> None:
            made.append(len(looks))

        async def start(self) -> None:
            if len(made) == 2:
                second.set()
                await asyncio.Event().wait()
            raise KafkaConnectionError("Unable to bootstrap")

    async def look(bootstrap: str) -> None:
        looks.append(bootstrap)
        if len(looks) < 3:
            raise ConnectionRefusedError

    async def nothing(*_arguments: object) -> None:
        return None

    monkeypatch.setattr(sender_module, "make_producer", lambda *_, **_options: Refused())
    monkeypatch.setattr(publisher_module, "demand_listener", look)
    monkeypatch.setattr(sender_module, "abandon", nothing)
    monkeypatch.setattr(publisher_module, "log_rejection", nothing)
    monkeypatch.setattr(Outage, "pause_s", lambda _self, _now_s, _chance: 0.0)
    publisher = publisher_on(tmp_path)
    await publisher.start()
    async with asyncio.timeout(20):
        await second.wait()
    await publisher.close(0.0)

    assert (made, looks) == ([0, 3], [KafkaConfig().bootstrap] * 3)


async def test_an_authority_that_is_gone_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate's file is removed while Kafka is away: records go on to the spool, and sending is tried again."""
    pauses = asyncio.Event()

    def pause_s(self: Outage, _now_s: float, _chance: float) -> float:
        if self.failures >= 3:
            pauses.set()
        return 0.0

    async def listens(_bootstrap: str) -> None:
        return None

    monkeypatch.setattr(Outage, "pause_s", pause_s)
    monkeypatch.setattr(publisher_module, "demand_listener", listens)
    kafka = KafkaConfig(security_protocol="SSL", ssl_cafile=tmp_path / "ca.pem")
    counters = Counters()
    publisher = await Publisher(Spool.open(tmp_path / "s"), kafka, host="h", counters=counters).start()
    async with asyncio.timeout(20):
        await pauses.wait()
    spooled_now = await publisher.put("llm.requests", b"h", ONE)
    failure = publisher.failure
    await publisher.close(0.0)

    assert (spooled_now, failure) == (True, None)
    assert counters.value("edge_send_errors", topic="", error="ConfigError") >= 3


async def test_a_disk_that_cannot_sync_ends_the_publisher_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Abandoned, its folder is free at once: what was spooled is there for the next."""
    error = OSError(errno.EIO, "Input/output error")

    def fail(_descriptor: int) -> None:
        raise error

    def away(*_settings: object, **_options: object) -> None:
        raise ConnectionRefusedError

    async def nobody(_bootstrap: str) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(sender_module, "make_producer", away)
    monkeypatch.setattr(publisher_module, "demand_listener", nobody)
    publisher = publisher_on(tmp_path, PublisherSettings(save_every_s=0.01))
    await publisher.put("llm.requests", b"h", ONE)
    with monkeypatch.context() as broken:
        broken.setattr(segment_log, "sync_data", fail)
        await publisher.start()
        async with asyncio.timeout(20):
            while publisher.failure is None:  # noqa: ASYNC110 (no event says so)
                await asyncio.sleep(0.01)
        failure = publisher.failure
        await publisher.abandon()
    again = publisher_on(tmp_path)
    left = again.spool.unacknowledged_records
    again.spool.abandon()

    assert (failure, left) == (error, 1)


async def test_without_any_kafka_events_stay_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, with what to set; no address is tried."""
    monkeypatch.setattr(sender_module, "make_producer", lambda *_: pytest.fail("no client is made"))
    kafka = KafkaConfig()
    kafka._unset = "is not set"
    publisher = await Publisher(Spool.open(tmp_path), kafka, host="h", settings=RARELY, counters=Counters()).start()

    await publisher.put("llm.requests", b"h", ONE)
    await publisher.put("llm.requests", b"h", ONE)

    assert not await publisher.flush(0.01)
    assert publisher.spool.unacknowledged_records == 2
    assert not await publisher.close(0.01)
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.message, vars(record).get("why")) for record in records] == [
        ("no Kafka is configured; events stay in the spool", "kafka.bootstrap is not set")
    ]


async def test_readiness_says_that_events_are_shed_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes no record: each is declared; the first that is taken ends it."""
    publisher = publisher_on(tmp_path)

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("producers.spool.segment.os.write", full)
        await publisher.put("llm.requests", b"h", ONE)
    why = publisher.why
    await publisher.put("llm.requests", b"h", ONE)
    tally = publisher.spool.books[1, "llm.requests"]
    publisher.spool.abandon()

    assert why == (
        "Spool full: new events are shed, or wait where they can: "
        "the disk takes no more ([Errno 28] No space left on device)"
    )
    assert (publisher.why, tally.events, tally.shed_events) == (None, 1, 1)


async def test_a_record_that_is_too_large_is_the_last_that_is_sent_alone(tmp_path: Path) -> None:
    """Once it is kept apart, the others of its lane share requests again."""
    publisher = publisher_on(tmp_path)
    for _ in range(2):
        await publisher.put("llm.requests", b"h", ONE)
    publisher.spool.sync()
    taken = publisher.spool.take()
    lane, alone = (taken[0].topic, taken[0].partition), []
    for records in (taken, taken[:1]):
        publisher._lane_failed(LaneError(lane, MessageSizeTooLargeError(), records))
        alone.append(set(publisher._lanes.alone))
    publisher.spool.abandon()

    assert alone == [{lane}, set()]


async def test_at_the_end_all_waiting_for_kafka_has_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No producer is waited for when sending has taken the time; each wait once had all of it."""
    loop = asyncio.get_running_loop()
    now_s, passed_s = loop.time, [0.0]
    left_s: list[float] = []

    async def flush(_self: Publisher, _within_s: float | None, *, undeliverable: bool) -> bool:
        passed_s[0] += 15.0
        return undeliverable

    async def until_made(_made: object, within_s: float) -> None:
        left_s.append(within_s)

    async def nobody(_bootstrap: str) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(publisher_module, "check_edge", nobody)
    monkeypatch.setattr(publisher_module, "until_made", until_made)
    monkeypatch.setattr(Publisher, "flush", flush)
    publisher = await publisher_on(tmp_path).start()
    with monkeypatch.context() as time:
        time.setattr(loop, "time", lambda: now_s() + passed_s[0])
        drained = await publisher.close(15.0)

    assert not drained
    assert [each <= 0.0 for each in left_s] == [True]


async def test_books_have_the_time_of_the_brokers(tmp_path: Path) -> None:
    """By it rows expire: of a host whose clock is a month behind they would be gone. They wait for the acknowledgement
    that tells it, and for none of records that nobody takes."""
    clock, behind_ms = VirtualClock(NOW_MS), 30 * 86_400_000
    published: list[Any] = []

    class Producer:
        async def send(self, topic: str, value: bytes, **_: object) -> asyncio.Future[None]:
            columns: Any = native.decode(value, PRODUCER_BOOKS.fields).columns
            published.extend(zip(columns["at_ms"].values, columns["clock_skew_ms"].values, strict=True))
            sent = asyncio.get_running_loop().create_future()
            sent.set_result(None)
            return sent

    publisher = Publisher(Spool.open(tmp_path), KafkaConfig(), host="h", counters=Counters(), clock=clock)
    producer: Any = Producer()
    publisher._producer = producer
    await publisher.put("llm.requests", b"h", ONE)
    publisher.spool.sync()
    await publisher._keep()
    assert published == []

    publisher._skew.acknowledged(publisher._skew.sent(), NOW_MS + behind_ms)
    publisher._delivered(publisher.spool.take())
    clock.advance(2_000)
    await publisher._keep()

    publisher.spool.abandon()
    assert published == [(NOW_MS + 2_000 + behind_ms - 2, 2 - behind_ms)]
