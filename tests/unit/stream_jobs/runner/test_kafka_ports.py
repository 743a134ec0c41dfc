"""What the client says of a partition's last fetch. The ports run against brokers in tests/integration."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from runtime.config import KafkaConfig
from schemas.errors import UnavailableError
from stream_jobs.runner import kafka_ports
from stream_jobs.runner.kafka_ports import ELECTION_TRIES, KafkaBroker, in_transaction
from stream_jobs.runner.policy import DEFAULT_POLICY

PARTITION = TopicPartition("llm.requests", 3)


@pytest.mark.parametrize(
    ("end", "stable", "opened"),
    [(10, 10, False), (10, 9, True), (10, 0, True), (None, None, False), (10, None, False), (10, -1, False)],
    ids=["all ended", "one open", "open since the first", "nothing fetched", "not told", "not asked for"],
)
def test_a_transaction_is_open_where_the_log_goes_on_beyond_what_is_stable(
    end: int | None, stable: int | None, opened: bool
) -> None:
    """Of a partition that is another's nothing is known."""

    class Consumer:
        def __init__(self, *assigned: TopicPartition) -> None:
            self._assigned = frozenset(assigned)

        def assignment(self) -> frozenset[TopicPartition]:
            return self._assigned

        def highwater(self, partition: TopicPartition) -> int | None:
            assert partition in self._assigned
            return end

        def last_stable_offset(self, partition: TopicPartition) -> int | None:
            assert partition in self._assigned
            return stable

    assert in_transaction(Consumer(PARTITION), PARTITION) is opened
    assert in_transaction(Consumer(), PARTITION) is False


@pytest.mark.parametrize(
    ("leaders", "asked", "found"),
    [([2], 0, True), ([-1, -1, 1], 2, True), ([None, 1], 1, True), ([-1], ELECTION_TRIES, False)],
    ids=["known", "elected meanwhile", "of a topic not heard of yet", "none"],
)
async def test_a_partition_has_a_leader_or_is_given_the_time_of_an_election(
    leaders: list[int | None], asked: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is known costs no request."""
    monkeypatch.setattr(kafka_ports, "RETRY_AFTER_S", 0)

    class Client:
        """Its cluster, too. Each update brings the next leader; the last one stays."""

        asked = 0

        @property
        def cluster(self) -> Client:
            return self

        async def add_topic(self, topic: str) -> None:
            assert topic == PARTITION.topic

        def leader_for_partition(self, partition: TopicPartition) -> int | None:
            assert partition == PARTITION
            return leaders[min(self.asked, len(leaders) - 1)]

        async def force_metadata_update(self) -> None:
            self.asked += 1

    broker, client = KafkaBroker(KafkaConfig(), DEFAULT_POLICY), Client()
    monkeypatch.setattr(kafka_ports, "topics_known", lambda _consumer: client)

    assert (await broker.has_leader(*PARTITION), client.asked) == (found, asked)


async def test_a_cancellation_of_the_clients_own_is_an_error() -> None:
    """Taken for ours, it would end whoever asked, and nobody would say why; ours ends who asked."""

    class Client:
        cancelled = True

        async def end_offsets(self, _partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            if self.cancelled:
                raise asyncio.CancelledError
            await asyncio.Event().wait()
            return {}

    broker = KafkaBroker(KafkaConfig(), DEFAULT_POLICY)
    broker._asking = Client()

    with pytest.raises(UnavailableError, match="cancelled from within"):
        await broker.end_offset(*PARTITION)

    broker._asking.cancelled = False
    asking = asyncio.create_task(broker.end_offset(*PARTITION))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "cancelled"])
async def test_a_reader_that_does_not_start_is_stopped(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has it."""

    class Consumer:
        stopped = 0

        async def start(self) -> None:
            if refused:
                raise KafkaConnectionError("refused")
            await asyncio.Event().wait()

        async def stop(self) -> None:
            self.stopped += 1

    broker, consumer = KafkaBroker(KafkaConfig(), DEFAULT_POLICY), Consumer()
    monkeypatch.setattr(broker, "_consumer", lambda: consumer)
    reading = asyncio.create_task(broker.reader(*PARTITION, 0))
    await asyncio.sleep(0)
    if not refused:
        reading.cancel()

    with pytest.raises(UnavailableError if refused else asyncio.CancelledError):
        await reading
    assert consumer.stopped == 1
