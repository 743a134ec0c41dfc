"""Small parts of the runner: names, policy, jobs, watchdog, Kafka's errors and records in our terms."""

from __future__ import annotations

import asyncio
import dataclasses
import gc

import pytest
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from aiokafka.structs import ConsumerRecord

from runtime.config import KafkaConfig
from schemas.contract.record import Output, Record
from schemas.errors import ConfigError, FencedError, UnavailableError
from stream_jobs.runner.job import Job, Names, Source
from stream_jobs.runner.kafka_ports import KafkaProducer, _as_our_errors, record_of
from stream_jobs.runner.policy import DEFAULT_POLICY, CommitPolicy
from stream_jobs.runner.process import run_process
from stream_jobs.runner.watchdog import Watchdog
from tests.simulator.counting import CountingStep


def test_names_tell_deployments_jobs_and_partitions_apart() -> None:
    """The transactional id is the fence: it must be the same for every owner of a partition, and nobody else's."""
    names = Names("eu", "windows")

    assert names.group == "eu-windows"
    assert names.transactional_id("llm.requests", 3) == "eu-windows-llm.requests-3"
    assert names.state_topic("llm.requests") == "state.windows.llm.requests"
    assert names.state_key(1, 12) == b"eu/1/12"


async def test_a_send_that_fails_leaves_no_error_behind() -> None:
    """A record after the first raises: that the first failed, too, is nothing for the garbage collector to report."""
    loop = asyncio.get_running_loop()
    sent: list[asyncio.Future[object]] = [loop.create_future()]
    reported: list[object] = []
    loop.set_exception_handler(lambda _loop, context: reported.append(context))

    class Client:
        """aiokafka's, which has failed while it was sent to."""

        async def send(self, topic: str, *_record: object, **_headers: object) -> asyncio.Future[object]:
            if topic == "second":
                sent[0].set_exception(KafkaError("fatal"))
                await asyncio.sleep(0)
                raise KafkaError("fatal")
            return sent[0]

    producer = KafkaProducer(KafkaConfig(), DEFAULT_POLICY, "id")
    producer._producer = Client()
    with pytest.raises(UnavailableError):
        await producer.send([Output(topic, 0, None, b"", ()) for topic in ("first", "second")])
    sent.clear()
    producer._producer = None
    gc.collect()
    await asyncio.sleep(0)

    assert reported == []


def test_every_interval_has_a_lower_bound() -> None:
    """A limit of -1 is nobody's wish."""
    for name in (field.name for field in dataclasses.fields(CommitPolicy)):
        with pytest.raises(ConfigError, match=f"policy.{name}"):
            CommitPolicy(**{name: -1})


def test_time_limits_stand_in_their_order() -> None:
    """The process gives up before the broker does, and taking over has its time before the watchdog barks."""
    with pytest.raises(ConfigError, match="transaction_timeout_ms"):
        CommitPolicy(commit_limit_ms=30_000, transaction_timeout_ms=30_000)
    with pytest.raises(ConfigError, match="live_limit_ms"):
        CommitPolicy(live_limit_ms=20_000)
    assert DEFAULT_POLICY.acquire_limit_ms < 30_000


def test_a_job_is_one_step_for_many_topics_or_a_step_for_each() -> None:
    """All steps of a job have its name; topics written by jobs have holes in their offsets."""
    step = CountingStep()

    job = Job.of(step, ["a", "b"], transactional=["b"])

    assert job.topics == ("a", "b")
    assert job.source("a", 1) == Source("a", 1, gapless=True)
    assert job.source("b", 0) == Source("b", 0, gapless=False)
    assert Job.of({"a": step}).steps == {"a": step}


def test_a_job_without_a_step_is_refused() -> None:
    """An empty list of sources is a mistake in the configuration."""
    with pytest.raises(ConfigError, match=r"job\.steps"):
        Job.of(CountingStep(), [])


def test_an_unknown_shell_is_refused_by_name() -> None:
    """Before anything is connected to."""
    with pytest.raises(ConfigError, match="must be faust or bare"):
        run_process("spark", CountingStep(), ["a"], None)  # type: ignore[arg-type]


def test_the_watchdog_barks_when_the_time_is_over_and_not_before() -> None:
    """Armed by the first expectation; a second one does not put it off."""
    now_s, barked = [0.0], []
    watchdog = Watchdog(60_000, end=barked.append, now_s=lambda: now_s[0])

    seen = [watchdog.look()]
    watchdog.expect()
    for now_s[0] in (30.0, 59.9, 60.0):
        watchdog.expect()
        seen.append(watchdog.look())

    assert seen == [False, False, False, True]
    assert barked == ["assignment not live after 60 s"]


def test_the_watchdog_is_silent_once_all_is_live() -> None:
    """However late it is looked at."""
    now_s, barked = [0.0], []
    watchdog = Watchdog(60_000, end=barked.append, now_s=lambda: now_s[0])
    watchdog.expect()
    watchdog.met()
    now_s[0] = 1_000.0

    assert not watchdog.look()
    assert barked == []


@pytest.mark.parametrize("error", [ProducerFenced(), InvalidProducerEpoch()], ids=["fenced", "old epoch"])
async def test_a_fenced_producer_is_told_apart(error: KafkaError) -> None:
    """Another owner took over: that is in order, and said so."""
    with pytest.raises(FencedError, match="another owner took over"), _as_our_errors("commit"):
        raise error


@pytest.mark.parametrize("error", [KafkaError("?"), TimeoutError()], ids=["an error of Kafka", "a time-out"])
async def test_every_other_error_is_unavailable(error: Exception) -> None:
    """Nobody knows whether it took effect."""
    with pytest.raises(UnavailableError, match="commit"), _as_our_errors("commit"):
        raise error


def test_a_consumed_message_keeps_all_that_matters() -> None:
    """Key and value as they were, the append time, headers in order."""
    message = ConsumerRecord("t", 1, 2, 3_000, 1, b"k", b"v", None, 1, 1, (("a", b"1"), ("a", b"2")))

    assert record_of(message) == Record("t", 1, 2, 3_000, b"k", b"v", (("a", b"1"), ("a", b"2")))
