"""Covers producers.publish.disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from producers.publish.clock_skew import ClockSkew
from producers.publish.disk import Disk
from producers.publish.publisher import Publisher
from producers.publish.reconnect import Lanes
from producers.publish.sender import LaneError, Sender
from producers.publish.undeliverable import RETRY, STRIKES_MAX, Retry, UndeliverableTopics, is_of_topic
from producers.spool.frame import Spooled
from producers.spool.segment import Segment
from producers.spool.spool import Spool
from runtime.config import KafkaConfig
from runtime.counters import Counters
from runtime.runbook import Cause
from tests.virtual_clock import VirtualClock

TOPIC, OTHER = "llm.requests", "gpu.samples"
LANE = (TOPIC, 1)
PATIENCE_S = 30.0


def record(topic: str = TOPIC, size: int = 10) -> Spooled:
    return Spooled(0, 0, 5, topic, 1, f"{topic}/1", "application/x-ndjson", b"host", 10, b"v" * size)


class Setting:
    """A spool whose records are on their way, and what is known of undeliverable topics."""

    def __init__(self, folder: Path, sizes: tuple[int, ...] = (10, 10)) -> None:
        self.spool, self.counters = Spool.open(folder), Counters()
        self.disk = Disk(self.spool)
        for size in sizes:
            self.spool.append(record(size=size))
        self.spool.sync()
        self.taken = self.spool.take()
        self.topics = UndeliverableTopics(self.spool, self.counters, chance=lambda: 1.0)

    async def failed(self, error: Exception, now_s: float = 100.0, records: int = 2) -> bool:
        """Whether a failure of the lane keeps something apart, which is moved at once."""
        kept = self.topics.failed(LaneError(LANE, error, self.taken[:records]), now_s)
        await self.disk.hold()
        return kept

    async def tried(self, producer: Broker, now_s: float) -> Exception | None:
        """What a try ends with."""
        retry = Retry(self.spool, self.disk, lambda: nullcontext(producer), producer.sender(self.spool), producer.lanes)
        error = await retry.send(TOPIC)
        self.topics.tried(TOPIC, error, now_s)
        return error


class Broker:
    """Takes records up to ``bytes_max``, if it takes any."""

    def __init__(self, error: Exception | None = None, bytes_max: int = 1_000) -> None:
        self.error, self.bytes_max = error, bytes_max
        self.lanes = Lanes()
        self.landed: list[bytes] = []
        self.requests: list[list[int]] = []

    def sender(self, spool: Spool) -> Callable[[Any], Sender]:
        about = (spool.identity.source_of, spool.low_of, lambda its: [spool.acknowledge(its)])
        skew = ClockSkew(VirtualClock(), Counters())
        return lambda it: Sender(it, *about, skew, alone=self.lanes.alone)

    async def partitions_for(self, _topic: str) -> set[int]:
        return {0, 1}

    def create_batch(self) -> Batch:
        return Batch()

    async def send_batch(self, batch: Batch, _topic: str, *, partition: int) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append([len(value) for value in batch.values])
        too_large = sum(map(len, batch.values)) > self.bytes_max
        if (error := MessageSizeTooLargeError() if too_large else self.error) is not None:
            answer.set_exception(error)
        else:
            self.landed += batch.values
            answer.set_result(None)
        return answer


class Batch:
    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, *, value: bytes, **_others: Any) -> object:
        self.values.append(value)
        return object()

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(TopicAuthorizationFailedError(TOPIC), True, id="no right to write"),
        pytest.param(UnknownTopicOrPartitionError(), True, id="no such topic"),
        pytest.param(MessageSizeTooLargeError(), False, id="a record's size is the record's"),
        pytest.param(NotLeaderForPartitionError(), False, id="an election"),
        pytest.param(ClusterAuthorizationFailedError(), False, id="a right that all topics lack"),
        pytest.param(KafkaTimeoutError(), False, id="no answer"),
        pytest.param(RequestTimedOutError(), False, id="no answer on the topic's partitions"),
    ],
)
def test_a_topic_is_undeliverable_when_somebody_must_change_something(error: Exception, expected: bool) -> None:
    """Whatever passes by itself, or concerns all, is no reason to keep one topic apart."""
    assert is_of_topic(error) is expected


async def test_a_rejected_topic_is_named_until_its_records_are_delivered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In readiness and gauges while it lasts, in the log once; tried again with back-off, then as any other."""
    caplog.set_level(logging.INFO)
    setting = Setting(tmp_path)
    kept = await setting.failed(TopicAuthorizationFailedError("no"))
    why, due = setting.topics.why, [setting.topics.due(100.0 + after_s) for after_s in (0.9, 1.0)]
    await setting.tried(Broker(TopicAuthorizationFailedError("no")), 101.0)
    due += [setting.topics.due(101.0 + after_s) for after_s in (1.9, 2.0)]
    setting.topics.count()
    counted = setting.counters.value("edge_undeliverable_records", topic=TOPIC)
    broker = Broker()
    await setting.tried(broker, 103.0)

    assert (kept, due, counted) == (True, [[], [TOPIC], [], [TOPIC]], 2)
    assert why is not None
    assert TOPIC in why
    assert "TopicAuthorizationFailedError" in why
    assert len(broker.landed) == 2
    assert (setting.topics.why, setting.topics.some.is_set(), setting.spool.unacknowledged_records) == (None, False, 0)
    assert setting.counters.value("edge_undeliverable_records", topic=TOPIC) == 0
    about = [each for each in caplog.records if each.__dict__.get("topic") == TOPIC]
    assert [each.levelname for each in about] == ["ERROR", "INFO"]
    setting.spool.abandon()


async def test_a_topic_that_is_not_there_has_the_runbooks_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the line, in readiness and in the gauge of causes, until somebody made it."""
    setting = Setting(tmp_path)
    await setting.failed(UnknownTopicOrPartitionError())
    setting.topics.count()
    why, counted = setting.topics.why, setting.counters.value("cause", cause=Cause.TOPIC)
    await setting.tried(Broker(), 103.0)

    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert line.__dict__["cause"] is Cause.TOPIC
    assert why is not None
    assert f"{TOPIC} (Topic missing: " in why
    assert (counted, setting.counters.value("cause", cause=Cause.TOPIC)) == (1, 0)
    setting.spool.abandon()


def test_pauses_stay_below_what_a_window_waits() -> None:
    """Who gives the right back finds the records in time."""
    assert RETRY.pause_s(1_000, 1.0) <= 15.0


async def test_a_record_that_is_too_large_is_kept_apart_alone(tmp_path: Path) -> None:
    """The others of its topic are none of its business; it goes when the broker takes it."""
    setting = Setting(tmp_path, (5_000, 10))
    kept = await setting.failed(MessageSizeTooLargeError(), records=1)
    setting.spool.acknowledge(setting.taken[1:])
    first = await setting.tried(Broker(), 101.0)
    low = (setting.spool.low, setting.spool.low_of(TOPIC))
    again = await setting.tried(Broker(bytes_max=6_000), 103.0)

    assert kept
    assert isinstance(first, MessageSizeTooLargeError)
    assert low == ((1, 2), (1, 0))
    assert (again, setting.topics.why, setting.spool.unacknowledged_records) == (None, None, 0)
    setting.spool.abandon()


async def test_one_that_is_too_large_holds_up_no_queue(tmp_path: Path) -> None:
    """A topic that gets its right back is delivered but for that record."""
    setting = Setting(tmp_path, (10, 5_000, 20, 30))
    await setting.failed(TopicAuthorizationFailedError("no"))
    broker = Broker()
    error = await setting.tried(broker, 101.0)

    assert isinstance(error, MessageSizeTooLargeError)
    assert sorted(map(len, broker.landed)) == [10, 20, 30]
    assert setting.spool.unacknowledged_records == 1
    setting.spool.abandon()


async def test_without_the_one_that_is_too_large_records_share_requests_again(tmp_path: Path) -> None:
    """It is found by sending one at a time; those behind it need not be sent so."""
    setting = Setting(tmp_path, (10, 5_000, 20, 30))
    await setting.failed(TopicAuthorizationFailedError("no"))
    broker = Broker()
    await setting.tried(broker, 101.0)

    assert broker.requests == [[10, 5_000, 20, 30], [10], [5_000], [20, 30], [5_000]]
    setting.spool.abandon()


async def test_a_pause_of_its_lane_holds_up_no_retry(tmp_path: Path) -> None:
    """A topic that is retried pauses as a topic: it would else be read again and again until the lane may go on."""
    setting, broker = Setting(tmp_path), Broker()
    await setting.failed(TopicAuthorizationFailedError("no"))
    publisher = Publisher(setting.spool, KafkaConfig(), host="h", counters=setting.counters, clock=VirtualClock())
    publisher._lanes.rejected(LANE, 0.0, 1.0)
    retry = Retry(setting.spool, setting.disk, lambda: nullcontext(broker), publisher._sender, publisher._lanes)
    pauses = publisher._backing_off()
    async with asyncio.timeout(PATIENCE_S):
        error = await retry.send(TOPIC)

    assert (pauses, error, len(broker.landed)) == ({LANE}, None, 2)
    setting.spool.abandon()


async def test_a_lane_that_fails_while_others_deliver_is_kept_apart(tmp_path: Path) -> None:
    """A partition without a leader: after some failures, and only if others delivered in between."""
    setting = Setting(tmp_path)
    while_all_fail = [await setting.failed(KafkaTimeoutError()) for _ in range(STRIKES_MAX + 2)]
    while_others_deliver = []
    for _ in range(STRIKES_MAX - 1):
        setting.topics.delivered((OTHER, 0))
        while_others_deliver.append(await setting.failed(KafkaTimeoutError()))

    assert not any(while_all_fail)
    assert while_others_deliver == [False] * (STRIKES_MAX - 2) + [True]
    setting.spool.abandon()


async def test_what_a_kill_left_is_tried_at_once(tmp_path: Path) -> None:
    """And named from the start."""
    setting = Setting(tmp_path)
    await setting.failed(UnknownTopicOrPartitionError())
    setting.spool.abandon()
    spool = Spool.open(tmp_path)
    topics = UndeliverableTopics(spool, Counters(), now_s=50.0)
    spool.abandon()

    assert topics.due(50.0) == [TOPIC]
    assert topics.some.is_set()


async def test_a_move_that_the_disk_does_not_take_is_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing left the window, so nobody has more room to be handed."""
    setting = Setting(tmp_path)
    setting.spool.undeliverable.hold_alone(setting.taken[0])

    def full(_segment: Segment, _frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", full)
        tried = await setting.disk.hold()
    moved = (await setting.disk.hold(), await setting.disk.hold())
    setting.spool.abandon()

    assert (tried, *moved) == (False, True, False)
