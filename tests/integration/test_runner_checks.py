"""A job that cannot run as it should says so at once, before it is a member of anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.config import KafkaConfig
from schemas.contract.topics import state_topic
from schemas.errors import ContractError
from stream_jobs.runner.checks import check_topics
from stream_jobs.runner.job import Job
from tests.simulator.counting import CountingStep

pytestmark = pytest.mark.integration

APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
COMPACTED = {"cleanup.policy": "compact"}
TopicName = Callable[..., str]


@pytest.fixture
def job(topic_name: TopicName, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job on a source topic that is not made yet; its state topic is named after the source, not before."""
    monkeypatch.setattr("stream_jobs.runner.job.state_topic", lambda job, topic: f"{topic}.state")
    return Job.of(CountingStep(), [topic_name("source", partitions=0)])


async def check(kafka_bootstrap: str, job: Job, **outputs: int) -> int:
    return await check_topics(KafkaConfig(bootstrap=kafka_bootstrap), job, job.names("here"), outputs)


async def test_topics_as_they_should_be_pass(kafka_bootstrap: str, topic_name: TopicName, job: Job) -> None:
    """LogAppendTime, a compacted state topic with as many partitions, enough output partitions."""
    topic_name("source", 2, APPEND_TIME)
    topic_name("source.state", 2, COMPACTED)
    out = topic_name("out", 3)

    assert await check_topics(KafkaConfig(bootstrap=kafka_bootstrap), job, job.names("here"), {out: 3}) == 2


async def test_a_missing_topic_is_named(kafka_bootstrap: str, job: Job) -> None:
    """And what makes it."""
    with pytest.raises(ContractError, match=r"source does not exist; run `fleetpulse migrate`"):
        await check(kafka_bootstrap, job)


async def test_a_missing_output_is_named(kafka_bootstrap: str, topic_name: TopicName, job: Job) -> None:
    """It would take a producer's whole time-out to find out."""
    topic_name("source", 1, APPEND_TIME)
    topic_name("source.state", 1, COMPACTED)

    with pytest.raises(ContractError, match="topic nowhere does not exist"):
        await check(kafka_bootstrap, job, nowhere=4)


async def test_create_time_is_refused(kafka_bootstrap: str, topic_name: TopicName, job: Job) -> None:
    """Verdicts hang on the broker's time."""
    topic_name("source", 1)
    topic_name("source.state", 1, COMPACTED)

    with pytest.raises(ContractError, match=r"message\.timestamp\.type=CreateTime, but it must be LogAppendTime"):
        await check(kafka_bootstrap, job)


async def test_a_state_topic_that_deletes_is_refused(kafka_bootstrap: str, topic_name: TopicName, job: Job) -> None:
    """A quiet partition's snapshot would expire."""
    topic_name("source", 1, APPEND_TIME)
    topic_name("source.state", 1)

    with pytest.raises(ContractError, match=r"cleanup\.policy=delete, but it must be compact"):
        await check(kafka_bootstrap, job)


async def test_a_state_topic_with_too_few_partitions_stops_nobody_else(
    kafka_bootstrap: str, topic_name: TopicName, job: Job
) -> None:
    """Partitions without one for their state are quarantined, the others run."""
    topic_name("source", 2, APPEND_TIME)
    topic_name("source.state", 1, COMPACTED)

    assert await check(kafka_bootstrap, job) == 2


async def test_a_state_topic_that_has_grown_first_is_good(
    kafka_bootstrap: str, topic_name: TopicName, job: Job
) -> None:
    """As a migration that was killed between the two leaves them."""
    topic_name("source", 2, APPEND_TIME)
    topic_name("source.state", 3, COMPACTED)

    assert await check(kafka_bootstrap, job) == 2


def test_the_state_topic_is_named_after_job_and_source() -> None:
    """The name that `fleetpulse migrate` makes."""
    assert state_topic("windows", "llm.requests") == "state.windows.llm.requests"
