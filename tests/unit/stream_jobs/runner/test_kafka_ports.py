"""What the client says of a partition's last fetch. The ports run against brokers in tests/integration."""

from __future__ import annotations

import pytest
from aiokafka import TopicPartition

from stream_jobs.runner.kafka_ports import in_transaction

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
