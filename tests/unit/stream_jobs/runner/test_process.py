"""How a job's process begins: once Kafka answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.backoff import Backoff
from runtime.config import KafkaConfig
from schemas.errors import ConfigError, ContractError, FleetpulseError, UnavailableError
from stream_jobs.runner import process
from stream_jobs.runner.partitions import worker_readiness
from stream_jobs.runner.watchdog import EXIT_FATAL
from tests.simulator.counting import CountingStep

JOINS = "the worker has not joined its group yet"
AWAY = "Kafka at h:9092 does not return its log ids"


class Cluster:
    """What a job asks before it is served: fails with ``errors``, then has a topic of three partitions. The job is
    told to stop at the last error where it ``stops``."""

    def __init__(self, *errors: FleetpulseError, stops: bool = False) -> None:
        self.errors, self.stops, self.stop = list(errors), stops, asyncio.Event()
        self.readiness = worker_readiness()
        self.seen: list[str | None] = []
        self.served: list[str | None] = []

    async def check_deployment(self, _kafka: KafkaConfig, _topics: Any) -> None:
        self.seen.append(self.readiness.why())
        if self.errors:
            error = self.errors.pop(0)
            if self.stops and not self.errors:
                self.stop.set()
            raise error

    async def check_topics(self, *_asked: Any) -> int:
        return 3

    async def serve(self, _job: Any, _kafka: Any, _policy: Any, _stop: Any, member: str | None, *_more: Any) -> None:
        self.seen.append(self.readiness.why())
        self.served.append(member)

    def run(self, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
        for name in ("settle", "keep_freed"):
            monkeypatch.setattr(process, name, lambda *_: None)
        monkeypatch.setattr(process, "on_stop_signal", lambda _loop: self.stop)
        monkeypatch.setattr(process, "_shell", lambda _name: self.serve)
        monkeypatch.setattr(process, "check_deployment", self.check_deployment)
        monkeypatch.setattr(process, "check_topics", self.check_topics)
        return process.run_process("faust", CountingStep(), ["a"], KafkaConfig(), worker="w", readiness=self.readiness)


def test_a_job_that_finds_no_broker_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so where it is asked whether it is ready."""
    cluster = Cluster(UnavailableError(AWAY), UnavailableError(AWAY))

    assert cluster.run(monkeypatch) == 0
    waits = f"{JOINS}; Kafka unavailable: {AWAY}"
    assert (cluster.seen, cluster.served) == ([JOINS, waits, waits, JOINS], ["w.3"])


def test_a_job_that_waits_for_a_broker_ends_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, though it never began."""
    cluster = Cluster(UnavailableError(AWAY), stops=True)

    assert cluster.run(monkeypatch) == 0
    assert (cluster.seen, cluster.served) == ([JOINS], [])


def test_what_no_waiting_mends_ends_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login that is rejected, and topics that do not fit it."""
    with pytest.raises(ConfigError):
        Cluster(ConfigError("kafka.sasl_username", "u", "must be a login")).run(monkeypatch)

    assert Cluster(ContractError("topic a is missing")).run(monkeypatch) == EXIT_FATAL


class Leaving(Cluster):
    """Its job fails and leaves a task, which begins another as it is cancelled."""

    later: Any = None

    async def serve(self, *_args: Any, **_kwargs: Any) -> None:
        async def left() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.later = asyncio.create_task(asyncio.Event().wait())

        self.left = asyncio.create_task(left())
        await asyncio.sleep(0)
        raise UnavailableError(AWAY)


def test_a_job_that_fails_leaves_no_task_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """As clients do whose broker is away: each would be logged as an error, behind the one that tells why."""
    cluster = Leaving()

    assert cluster.run(monkeypatch) == EXIT_FATAL
    assert (cluster.left.cancelled(), cluster.later.cancelled()) == (True, True)
