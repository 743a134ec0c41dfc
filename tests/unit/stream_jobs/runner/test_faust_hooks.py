"""Faust is pinned because we lean on its inside; these fail when it changes under us.

After a change of Faust: read again what is overridden (``faust_runner.HOOKS``), run the runner's behaviour suite, then
write the new digests here.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import faust
import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, Fetcher
from faust.app.base import App
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import ConsumerMessage

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from schemas.errors import ContractError
from stream_jobs.runner import bare_runner
from stream_jobs.runner.faust_runner import HOOKS, Runner, RunnerConsumer, RunnerThread, make_app
from stream_jobs.runner.job import Job
from stream_jobs.runner.kafka_ports import demand_read_committed
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.watchdog import Watchdog
from tests.simulator.counting import CountingStep

DIGESTS = {
    "Consumer._drain_messages": "44a2500309e83c63",
    "Consumer._get_active_partitions": "b24897f3c7afdb5d",
    "Consumer.getmany": "4b168d84882a70d6",
    "Consumer._wait_next_records": "6218e1969a636b3f",
    "Consumer.perform_seek": "0e8c130ff4b0afd8",
    "Consumer.on_partitions_revoked": "d04b7ae72c6fc206",
    "Consumer.commit": "a354437baaa08bf8",
    "AIOKafkaConsumerThread._create_worker_consumer": "c2701bfc3e6f6cad",
    "AIOKafkaConsumerThread.on_thread_stop": "8dfc004e258b6c25",
    "AIOKafkaConsumerThread._seek_wait": "9d221e816d940467",
    "AIOKafkaConsumerThread._fetch_records": "39a2c6c79fc1455a",
    "App._on_partitions_revoked": "d5c895bbe57dc73a",
    "App._on_partitions_assigned": "de932b7927db85b3",
    "Recovery._resume_streams": "d986a6710c1aca98",
    "Fetcher.fetched_records": "be4348896b9b66af",
}

OWN = {"__init__", "acquire", "_acquire", "_acquire_and_seek", "_fed_partitions", "_hand_over"}
"""Methods that override nothing."""

READ = (
    Consumer._drain_messages,
    Consumer._get_active_partitions,
    Consumer.getmany,
    Consumer._wait_next_records,
    Consumer.perform_seek,
    Consumer.on_partitions_revoked,
    Consumer.commit,
    AIOKafkaConsumerThread._create_worker_consumer,
    AIOKafkaConsumerThread.on_thread_stop,
    AIOKafkaConsumerThread._seek_wait,
    AIOKafkaConsumerThread._fetch_records,
    App._on_partitions_revoked,
    App._on_partitions_assigned,
    Recovery._resume_streams,
    Fetcher.fetched_records,
)


def digest(function: Any) -> str:
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]


def test_the_versions_are_those_the_hooks_were_written_for() -> None:
    """Another version may work; nobody has looked."""
    assert (faust.__version__, aiokafka.__version__) == ("0.15.3", "0.14.0")


@pytest.mark.parametrize(("owner", "name", "parameters"), HOOKS, ids=[f"{o.__name__}.{n}" for o, n, _ in HOOKS])
def test_a_hook_takes_what_it_took(owner: type, name: str, parameters: tuple[str, ...]) -> None:
    """The same parameters in the same order."""
    assert tuple(inspect.signature(getattr(owner, name)).parameters) == parameters


@pytest.mark.parametrize("function", READ, ids=lambda function: function.__qualname__)
def test_what_was_read_is_as_it_was_read(function: Any) -> None:
    """The order of steps inside matters, not only the names."""
    assert digest(function) == DIGESTS.get(function.__qualname__)


def test_what_is_overridden_is_there_to_be_overridden() -> None:
    """A hook under another name would be ours alone, and never called."""
    for ours, theirs in ((RunnerConsumer, Consumer), (RunnerThread, AIOKafkaConsumerThread)):
        own = {name for name, value in vars(ours).items() if inspect.isfunction(value)} - OWN
        assert own <= {name for each in theirs.__mro__ for name in vars(each)}


def test_a_message_carries_the_group_generation() -> None:
    """Faust drops messages of another generation in silence, so ours must say theirs."""
    assert "generation_id" in inspect.signature(ConsumerMessage).parameters


@pytest.mark.parametrize("found", ["read_uncommitted", None])
async def test_a_consumer_that_does_not_read_committed_is_noticed(found: str | None) -> None:
    """Also where aiokafka keeps its level elsewhere, and the attribute that Faust's consumer is given does nothing."""
    committed = Fetcher.__new__(Fetcher)
    committed._isolation_level = READ_COMMITTED
    other = Fetcher.__new__(Fetcher)
    if found is not None:
        other._isolation_level = READ_UNCOMMITTED

    demand_read_committed(SimpleNamespace(_fetcher=committed))
    with pytest.raises(ContractError, match="not read_committed"):
        demand_read_committed(SimpleNamespace(_fetcher=other))


@pytest.mark.enable_socket
async def test_a_worker_that_fetches_nothing_stays_in_its_group(tmp_path: Path) -> None:
    """Whose partitions are all another's, or quarantined: aiokafka takes out who fetched nothing for some time, and
    does not let it back before it fetches."""
    job, policy, watchdog = Job.of(CountingStep(), ["t"]), CommitPolicy(), Watchdog(1)
    partitions = Partitions(job, None, job.names("d"), policy, SystemClock())  # type: ignore[arg-type]
    app = make_app(job, KafkaConfig(), policy, Runner(partitions, watchdog, policy, ""), None, str(tmp_path))

    bare = bare_runner._consumer(KafkaConfig(), "g", policy, None)
    await bare.stop()

    assert app.conf.broker_max_poll_interval > 365 * 86_400
    assert bare._max_poll_interval_ms > 365 * 86_400_000


async def test_the_fetching_thread_ends_in_order_where_its_consumer_does_not() -> None:
    """What it raises would close the thread's loop under the consumer's own tasks."""
    stopped: list[bool] = []

    async def stop() -> None:
        stopped.append(True)
        raise asyncio.CancelledError

    thread: Any = RunnerThread.__new__(RunnerThread)
    thread._consumer = SimpleNamespace(stop=stop)

    await thread.on_thread_stop()

    assert stopped == [True]
