from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)

from producers.publish import sender as sender_module
from producers.publish.clock_skew import ClockSkew
from producers.publish.sender import BATCH_BYTES_MAX, LaneError, LaneKey, Sender
from producers.publish.spans import PublishSpans
from producers.spool.frame import Spooled
from runtime.counters import Counters
from tests.unit.recording_tracer import RecordingTracer
from tests.virtual_clock import VirtualClock

SOURCE = "ab" * 16
NOW_MS = 1_700_000_000_000


class RecordingBatch:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def append(self, **record: Any) -> object:
        self.records.append(record)
        return object()

    def close(self) -> None:
        pass


@dataclass
class Answer:
    """Of aiokafka's ``RecordMetadata`` what says when a batch was appended."""

    timestamp: int
    timestamp_type: int = 1


class RecordingProducer:
    """Stands in for aiokafka's: keeps batches, answers when the test says so. ``refuses`` maps a lane to its error."""

    def __init__(self) -> None:
        self.batches: list[tuple[LaneKey, list[dict[str, Any]]]] = []
        self.refuses: dict[LaneKey, Exception] = {}
        self.silent: set[LaneKey] = set()
        self.answer: Answer | None = None

    async def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    def create_batch(self) -> RecordingBatch:
        return RecordingBatch()

    async def send_batch(self, batch: RecordingBatch, topic: str, *, partition: int) -> asyncio.Future[Any]:
        lane = (topic, partition)
        self.batches.append((lane, batch.records))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if lane in self.refuses:
            future.set_exception(self.refuses[lane])
        elif lane not in self.silent:
            future.set_result(self.answer)
        return future


def record(seq: int, partition: int = 0, size: int = 10) -> Spooled:
    return Spooled(2, seq, 5, "t", partition, "t/1", "application/x-ndjson", b"key", 3, b"v" * size)


async def run(producer: RecordingProducer, records: list[Spooled], **options: Any) -> list[Spooled]:
    """What was delivered of these records; the sender ends once nothing moves any more."""
    delivered: list[Spooled] = []
    skew = options.pop("skew", None) or ClockSkew(VirtualClock(), Counters())
    sender = Sender(producer, lambda _boot: SOURCE, lambda _topic: (1, 7), delivered.extend, skew, **options)

    async def feed(sender: Sender) -> None:
        sender.send(records)
        for _ in range(50):
            await asyncio.sleep(0)
        raise LaneError(("feed", 0), TimeoutError("enough"))

    with pytest.raises(LaneError) as caught:
        await sender.run(feed)
    if caught.value.lane[0] != "feed":
        raise caught.value
    return delivered


async def test_records_of_a_partition_share_a_batch_with_their_headers() -> None:
    """One request carries them all; each says who it is and what is acknowledged."""
    producer = RecordingProducer()

    delivered = await run(producer, [record(0), record(1)])

    ((lane, sent),) = producer.batches
    assert lane == ("t", 0)
    assert delivered == [record(0), record(1)]
    assert dict(sent[1]["headers"]) == {
        "schema": b"t/1",
        "content-type": b"application/x-ndjson",
        "source": SOURCE.encode(),
        "boot": b"2",
        "seq": b"1",
        "low": b"1.7",
        "count": b"3",
    }
    assert (sent[1]["key"], sent[1]["value"]) == (b"key", b"v" * 10)


async def test_sampled_records_have_one_more_header_and_a_span_once_acknowledged() -> None:
    """A record in flight has the header and no span yet."""
    producer, tracer = RecordingProducer(), RecordingTracer()
    producer.silent.add(("t", 1))

    await run(producer, [record(0)])
    await run(producer, [record(0), record(1, 1)], spans=PublishSpans(tracer, lambda _boot: SOURCE, VirtualClock(8)))

    (_, (plain,)), (_, (followed,)), (_, (on_its_way,)) = producer.batches
    assert followed["headers"] == [*plain["headers"], tracer.spans[0].context.header]
    assert on_its_way["headers"][-1][0] == "traceparent"
    assert [(span.name, span.start_ms, span.end_ms) for span in tracer.spans] == [("publish t", 5, 8)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(NOW_MS - 600_000), b"599999"),
        (Answer(NOW_MS + 600_000), b"-599998"),
        (Answer(NOW_MS), None),
        (Answer(NOW_MS - 600_000, 0), None),
        (None, None),
    ],
)
async def test_records_say_how_far_the_clock_is_off_once_an_acknowledgement_has(
    answer: Answer | None, said: bytes | None
) -> None:
    """By the broker's append time; not where the topic keeps the producer's, nor while the clock is right."""
    producer = RecordingProducer()
    producer.answer = answer
    skew = ClockSkew(VirtualClock(NOW_MS), Counters())

    await run(producer, [record(0)], skew=skew)
    await run(producer, [record(1)], skew=skew)

    (_, (first,)), (_, (second,)) = producer.batches
    assert "clock-skew-ms" not in dict(first["headers"])
    assert dict(second["headers"]).get("clock-skew-ms") == said
    assert skew.ms == (None if answer is None or answer.timestamp_type == 0 else int(said or b"0"))


async def test_a_batch_is_bounded_and_a_large_record_travels_alone() -> None:
    """A record above the bound of a batch is sent all the same."""
    producer = RecordingProducer()
    sizes = [BATCH_BYTES_MAX // 2, BATCH_BYTES_MAX // 2, 1, BATCH_BYTES_MAX + 1, 1]

    delivered = await run(producer, [record(seq, size=size) for seq, size in enumerate(sizes)])

    assert [[len(each["value"]) for each in sent] for _, sent in producer.batches] == [sizes[:2], [1], sizes[3:4], [1]]
    assert len(delivered) == 5


async def test_a_lane_that_does_not_answer_holds_up_nobody_else() -> None:
    """A partition without a leader waits alone, with one batch on its way."""
    producer = RecordingProducer()
    producer.silent.add(("t", 0))

    delivered = await run(producer, [record(0), record(1, 1), record(2, 1)])

    assert delivered == [record(1, 1), record(2, 1)]
    assert [lane for lane, _ in producer.batches].count(("t", 0)) == 1


async def test_the_first_failure_ends_the_life_of_the_producer() -> None:
    """An idempotent producer with a gap in its sequence is of no use: the caller makes a new one."""
    producer = RecordingProducer()
    producer.refuses["t", 0] = KafkaError("no")

    with pytest.raises(LaneError, match=r"t\[0\]") as caught:
        await run(producer, [record(0)])

    assert caught.value.lane == ("t", 0)
    assert isinstance(caught.value.cause, KafkaError)


async def test_a_partition_that_is_not_there_is_a_failure() -> None:
    """Somebody made the topic with fewer partitions than the contract says."""
    with pytest.raises(LaneError, match="no partition 5"):
        await run(RecordingProducer(), [record(0, 5)])


@dataclass
class Client:
    """Of a producer that knows nothing of a topic: ``answers`` once it is asked again, with these partitions."""

    answers: bool
    partitions: set[int] | None

    @property
    def cluster(self) -> Client:
        return self

    async def force_metadata_update(self) -> bool:
        if not self.answers:
            await asyncio.Event().wait()
        return True

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self.partitions if topic == "prefix.t" else None


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        pytest.param(Client(True, None), UnknownTopicOrPartitionError, id="an answer without the topic"),
        pytest.param(Client(False, None), RequestTimedOutError, id="no answer"),
        pytest.param(Client(True, {0, 1}), None, id="a late answer with it"),
    ],
)
async def test_a_topic_is_missing_when_an_answer_says_so(
    monkeypatch: pytest.MonkeyPatch, client: Client, kind: type[KafkaError] | None
) -> None:
    """A broker that is slow says nothing of the topic: that passes by itself."""
    producer = RecordingProducer()
    sender = Sender(producer, lambda _boot: SOURCE, lambda _topic: (1, 7), print, ClockSkew(VirtualClock(), Counters()))
    monkeypatch.setattr(sender_module, "_TOPIC_WITHIN_S", 0.01)
    monkeypatch.setattr(producer, "partitions_for", lambda _topic: asyncio.Event().wait())
    monkeypatch.setattr(producer, "client", client, raising=False)
    monkeypatch.setattr(producer, "topic_prefix", "prefix.", raising=False)

    with nullcontext() if kind is None else pytest.raises(kind):
        await sender._demand_partition("t", 1)


async def test_a_held_lane_takes_records_and_sends_nothing() -> None:
    """Its records wait, those of others go."""
    producer = RecordingProducer()

    delivered = await run(producer, [record(0), record(1, 1)], backing_off=lambda: {("t", 0)})

    assert delivered == [record(1, 1)]


async def test_a_lane_whose_batches_were_too_large_sends_one_by_one() -> None:
    """What the broker refuses together it may take alone."""
    producer = RecordingProducer()

    await run(producer, [record(0), record(1)], alone={("t", 0)})

    assert [len(sent) for _, sent in producer.batches] == [1, 1]


async def test_a_defect_of_ours_is_not_taken_for_kafkas() -> None:
    """Only what may go wrong on the way to Kafka is tried again."""
    producer = RecordingProducer()
    producer.refuses["t", 0] = ZeroDivisionError()
    producer.refuses["t", 1] = MessageSizeTooLargeError()

    with pytest.raises(ExceptionGroup) as caught:
        await run(producer, [record(0), record(1, 1)])

    assert caught.group_contains(ZeroDivisionError)
