"""How far jobs are behind."""

from __future__ import annotations

import pytest
from aiokafka.errors import KafkaConnectionError

from fleetpulse.dashboard.consumer_lag import Lag, LagOfGroups, lags
from runtime.config import KafkaConfig
from schemas.errors import UnavailableError

READS = {"windows": ("a", "b"), "costs": ("a",)}
ENDS = {("a", 0): 10, ("a", 1): 5, ("b", 0): 7}


def test_what_was_not_committed_is_behind_topic_by_topic() -> None:
    """Over all partitions; a partition without an offset is behind from the log's beginning on."""
    committed = {"windows": {("a", 0): 4, ("b", 0): 7}}

    assert lags(committed, {("a", 1): 3}, ENDS, {"windows": 1}, {}, READS) == [
        Lag("windows", "a", 6 + 2, 2, 1),
        Lag("windows", "b", 0, 1, 1),
        Lag("costs", "a", None, 2, 0),
    ]


def test_what_retention_took_is_not_waited_for() -> None:
    """An offset before the log's beginning stands for the beginning, one behind its end for the end."""
    committed = {"windows": {("a", 0): 1, ("a", 1): 9, ("b", 0): 0}}

    assert [one.records for one in lags(committed, {("a", 0): 8}, ENDS, {}, {}, READS)[:2]] == [2, 7]


def test_a_topic_that_is_not_there_is_the_cause_itself() -> None:
    """Whatever its readers had committed of the one that was there; also of a job that is gone, which may write it."""
    found = lags({"windows": {("a", 0): 4}}, {}, {("b", 0): 9}, {}, {}, READS)

    assert [(one.job, one.topic, one.records, one.wrong) for one in found] == [
        ("windows", "a", None, "Topic missing"),
        ("windows", "b", 9, "Topic missing"),
        ("costs", "a", None, "Topic missing"),
    ]


@pytest.mark.parametrize(
    ("records", "members", "wrong"),
    [(5, 0, "Process not running"), (4, 0, ""), (900, 1, ""), (None, 0, "")],
)
def test_a_group_without_members_is_a_process_that_does_not_run(records: int | None, members: int, wrong: str) -> None:
    """Unless nothing waits but markers of transactions, two in each partition, or it never ran."""
    assert Lag("sink", "a", records, 2, members).wrong == wrong


@pytest.mark.parametrize(("job", "wrong"), [("deliver", "Alerts not delivered"), ("sink", "Consumer lag grows")])
def test_records_that_wait_for_long_though_somebody_reads_have_a_cause(job: str, wrong: str) -> None:
    """Of a target that takes nothing the record and its marker; elsewhere more than the markers of transactions."""
    reads, committed = {job: ("a",)}, {job: {("a", 0): 4, ("a", 1): 4}}
    ends = {("a", 0): 9, ("a", 1): 9}
    aged = {("a", 0): 4 + (2 if job == "deliver" else 3), ("a", 1): 4 + (1 if job == "deliver" else 2)}

    (late,) = lags(committed, {}, ends, {job: 1}, aged, reads)
    (soon,) = lags(committed, {}, ends, {job: 1}, {**aged, ("a", 0): 5}, reads)
    (gone,) = lags(committed, {}, ends, {}, aged, reads)

    assert (late.wrong, late.late) == (wrong, 2 if job == "deliver" else 3)
    assert (soon.wrong, gone.wrong) == ("", "Process not running")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KafkaConnectionError("no route"), "^Kafka unavailable; see"),
        (TimeoutError(), "^Kafka did not answer within 4 s"),
    ],
)
async def test_without_an_answer_of_kafka_that_is_said(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    """In a sentence for people; equal questions within a few seconds share it. Who is late is not called gone."""
    found = LagOfGroups(KafkaConfig())
    queries: list[int] = []

    async def away() -> list[Lag]:
        queries.append(1)
        raise error

    monkeypatch.setattr(found, "_found", away)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=says):
            await found.ask()
    assert len(queries) == 1
