"""The runner in a Faust worker. Everything that leans on Faust's inside is in this module; Faust is pinned, and a test
fails when one of these hooks changes under us (``HOOKS``).

Faust gives the group membership, the fetching thread, flow control and agents. It never commits, has no tables, and
its own seeks are replaced by ours:

- ``Consumer.seek_to_committed`` (called at the end of every rebalance, after the assignment signals) begins to acquire
  and seek, in a task of its own: Faust would wait for 30 s, and a takeover may make progress for longer. Installed
  is *before* the seek, because a fetch that is waiting in the thread may return what the new position brought before
  the seek itself has returned to us. What was fetched before the seek can't be mistaken for it: every fetch is stamped,
  in the thread that also seeks, with the number of seeks so far.
- ``Consumer.on_partitions_revoked`` releases every partition, then lets Faust do its part.
- ``Consumer._drain_messages`` hands over one message per (partition, fetch), whose value is the list of records: Faust
  spends some 500 us on a message, however small.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import faust
from faust.app.base import BootStrategy
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.health import Readiness
from runtime.kafka_clients import METADATA_MAX_AGE_MS, stop_client
from runtime.tracing import Tracer
from schemas.errors import UnavailableError
from stream_jobs.runner.job import Job
from stream_jobs.runner.kafka_ports import KafkaBroker, demand_read_committed, in_transaction, record_of
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.policy import NEVER_MS, CommitPolicy
from stream_jobs.runner.watchdog import Watchdog

STREAM_BUFFER = 8
"""Fetches waiting for the agent, per process."""
STOP_WITHIN_S = 1.0
BUFFERS_FULL_PAUSE_S = 0.02

HOOKS: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (driver.Consumer, "_new_consumer_thread", ("self",)),
    (driver.Consumer, "_get_active_partitions", ("self",)),
    (driver.Consumer, "_getmany", ("self", "active_partitions", "timeout")),
    (driver.Consumer, "_drain_messages", ("self", "fetcher")),
    (driver.Consumer, "_commit", ("self", "offsets")),
    (driver.Consumer, "commit", ("self", "topics", "start_new_transaction")),
    (driver.Consumer, "seek_to_committed", ("self",)),
    (driver.Consumer, "seek_wait", ("self", "partitions")),
    (driver.Consumer, "on_partitions_revoked", ("self", "revoked")),
    (driver.Consumer, "perform_seek", ("self",)),
    (driver.AIOKafkaConsumerThread, "_create_worker_consumer", ("self", "transport")),
    (driver.AIOKafkaConsumerThread, "_ensure_consumer", ("self",)),
    (driver.AIOKafkaConsumerThread, "on_thread_stop", ("self",)),
    (driver.AIOKafkaConsumerThread, "_seek_wait", ("self", "consumer", "partitions")),
    (
        driver.AIOKafkaConsumerThread,
        "_fetch_records",
        ("self", "consumer", "active_partitions", "timeout", "max_records"),
    ),
)
"""What is overridden or called, with the parameters it must have."""


class Fetched(dict[Any, Any]):
    """Records by partition, stamped with the number of seeks made before they were taken."""

    seeks = 0


class RunnerThread(driver.AIOKafkaConsumerThread):
    """The fetching thread."""

    seeks = 0

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = self.app.runner.policy.fetch_wait_ms
        return consumer

    async def on_thread_stop(self) -> None:
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()  # which does not stop the consumer
        if self._consumer is not None:  # one that hangs, or raises, would keep the loop, or close it under its tasks
            await stop_client(self._consumer.stop)

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        self.seeks += 1  # and the seeks themselves come before the first await of what is called
        await super()._seek_wait(consumer, partitions)

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> Any:
        found = await super()._fetch_records(*args, **kwargs)
        fetched = Fetched(found)
        fetched.seeks = self.seeks  # nothing was awaited since the records were taken
        return fetched


class RunnerConsumer(driver.Consumer):
    """Faust's consumer with our ways of seeking, handing over and (not) committing."""

    _thread: RunnerThread
    _seeks_due = 0
    _acquiring: asyncio.Task[None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turn = asyncio.Lock()

    def _new_consumer_thread(self) -> RunnerThread:
        return RunnerThread(self, loop=self.loop, beacon=self.beacon)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        return False

    async def _commit(self, offsets: Any) -> bool:
        return False

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await self.app.runner.partitions.revoke()
        await super().on_partitions_revoked(revoked)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        self.acquire()
        return {}

    def acquire(self) -> None:
        """Begin to acquire what is assigned now."""
        self._acquiring = asyncio.create_task(self._acquire(), name="runner-acquire")

    async def _acquire(self) -> None:
        runner = self.app.runner
        runner.watchdog.expect()
        try:
            async with self._turn:  # a partition that leaves quarantine may meet a rebalance here
                await self._acquire_and_seek(runner)
        except Exception as error:
            runner.partitions.fail(error)

    async def _acquire_and_seek(self, runner: Runner) -> None:
        demand_read_committed(self._thread._consumer)
        positions = await runner.partitions.assign((runner.name_of(tp), tp.partition) for tp in self.assignment())
        if positions is None:
            return
        self._seeks_due = self._thread.seeks + 1
        runner.partitions.install()
        if positions:
            await self.seek_wait({runner.on_wire(*partition): position for partition, position in positions.items()})
        runner.watchdog.met()

    async def _drain_messages(self, fetcher: Any) -> None:
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                if not self.flow_active:
                    await self.wait(self.can_resume_flow)
                    continue
                active = self._fed_partitions()
                if not active:  # nothing assigned, or every buffer is full
                    await self.sleep(BUFFERS_FULL_PAUSE_S)
                    continue
                fetched = await self._getmany(active_partitions=active, timeout=1.0)
                await self._hand_over(fetched)
                if sum(map(len, fetched.values())) < self.app.runner.policy.fetch_records_max // 2:
                    await self.sleep(self.app.runner.policy.fetch_linger_ms / 1_000)
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise

    def _fed_partitions(self) -> set[TP]:
        """Those whose buffers have room, but for quarantined ones."""
        runner = self.app.runner
        active, quarantined = self._get_active_partitions(), runner.partitions.quarantined
        if not quarantined:
            return active
        return {tp for tp in active if (runner.name_of(tp), tp.partition) not in quarantined}

    async def _hand_over(self, fetched: Any) -> None:
        if not fetched or fetched.seeks != self._seeks_due:
            return
        generation = self.app.runner.partitions.generation
        for tp, messages in fetched.items():
            message = _message(tp, generation, messages, self.app.consumer_generation_id)
            await self.wait_first(self.callback(message), self.suspend_flow.wait())


def _message(tp: Any, generation: int, messages: Sequence[Any], group_generation: int) -> ConsumerMessage:
    """What a fetch brought of a partition, as a single message of Faust (which drops it in silence when it is not of
    the group's present generation)."""
    first = messages[0]
    return ConsumerMessage(
        tp.topic,
        tp.partition,
        first.offset,
        first.timestamp / 1_000,
        first.timestamp_type,
        (),
        None,
        (generation, messages),
        None,
        0,
        0,
        TP(tp.topic, tp.partition),
        generation_id=group_generation,
    )


class RunnerTransport(driver.Transport):
    """Faust's way to Kafka, by our consumer."""

    Consumer = RunnerConsumer


class _Boot(BootStrategy):
    enable_web = False


class RunnerApp(faust.App):
    """A Faust app that knows its runner."""

    BootStrategy = _Boot
    runner: Runner


class Runner:
    """What the hooks above need to know."""

    def __init__(self, partitions: Partitions, watchdog: Watchdog, policy: CommitPolicy, topic_prefix: str) -> None:
        self.partitions = partitions
        self.watchdog = watchdog
        self.policy = policy
        self._topic_prefix = topic_prefix

    def on_wire(self, topic: str, partition: int = 0) -> TP:
        """A partition as Faust and the brokers name it."""
        return TP(self._topic_prefix + topic, partition)

    def name_of(self, tp: TP) -> str:
        """The topic's name in the contract."""
        return str(tp.topic).removeprefix(self._topic_prefix)


def make_app(
    job: Job, kafka: KafkaConfig, policy: CommitPolicy, runner: Runner, member: str | None, folder: str
) -> Any:
    """The app, with one agent per source topic. Call inside a running event loop."""
    app = RunnerApp(
        job.names(kafka.namespace).group,
        broker=[f"kafka://{address.strip()}" for address in kafka.bootstrap.split(",")],
        broker_credentials=_credentials(kafka),
        broker_max_poll_records=policy.fetch_records_max,
        broker_session_timeout=policy.session_timeout_ms / 1_000,
        broker_heartbeat_interval=policy.heartbeat_interval_ms / 1_000,
        broker_rebalance_timeout=policy.rebalance_timeout_ms / 1_000,
        broker_request_timeout=kafka.request_timeout_ms / 1_000,
        broker_commit_interval=1e6,
        broker_max_poll_interval=NEVER_MS / 1_000,
        consumer_group_instance_id=member,
        consumer_metadata_max_age_ms=METADATA_MAX_AGE_MS,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=policy.fetch_bytes_max,
        stream_buffer_maxsize=STREAM_BUFFER,
        stream_wait_empty=False,
        stream_recovery_delay=0,
        table_standby_replicas=0,
        topic_disable_leader=True,
        topic_allow_declare=False,
        value_serializer="raw",
        key_serializer="raw",
        datadir=folder,
        autodiscover=False,
    )
    app.runner = runner
    app.transport = RunnerTransport(app.conf.broker_consumer, app)
    for topic in job.topics:
        _add_agent(app, topic)
    return app


def _add_agent(app: Any, topic: str) -> None:
    name = app.runner.on_wire(topic).topic
    channel = app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    async def fold(stream: Any) -> None:
        async for event in stream.noack().events():
            generation, messages = event.message.value
            source = event.message.tp
            records = [record_of(message, topic) for message in messages]
            with contextlib.suppress(Exception):  # noted as the fatal error already, which ends the process
                await app.runner.partitions.feed(topic, source.partition, generation, records)

    app.agent(channel, name=f"fold-{topic}", concurrency=1)(fold)


def _credentials(kafka: KafkaConfig) -> Any:
    settings = kafka.client_settings()
    context = settings.get("ssl_context")
    if "sasl_mechanism" in settings:
        return faust.SASLCredentials(
            username=settings["sasl_plain_username"],
            password=settings["sasl_plain_password"],
            mechanism=settings["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)


async def serve(
    job: Job,
    kafka: KafkaConfig,
    policy: CommitPolicy,
    stop: asyncio.Event,
    member: str | None,
    readiness: Readiness | None,
    tracer: Tracer | None,
) -> None:
    """The job in a Faust worker, see ``process.Serve``."""
    async with contextlib.AsyncExitStack() as open_:
        folder = tempfile.mkdtemp(prefix="fleetpulse-faust-")  # Faust insists on one; nothing is kept there
        open_.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = KafkaBroker(kafka, policy)
        open_.push_async_callback(broker.stop)
        await broker.start()
        names = job.names(kafka.namespace)
        partitions = Partitions(job, broker, names, policy, SystemClock(), readiness=readiness, tracer=tracer)
        watchdog = open_.enter_context(Watchdog(policy.live_limit_ms))
        runner = Runner(partitions, watchdog, policy, kafka.topic_prefix)
        app = make_app(job, kafka, policy, runner, member, folder)
        partitions.progressed = watchdog.progressed
        partitions.again = lambda: app.consumer.acquire()  # noqa: PLW0108  the consumer is made later
        partitions.lag.end_known = lambda topic, partition: app.consumer.highwater(runner.on_wire(topic, partition))
        partitions.lag.in_transaction = lambda topic, partition: in_transaction(
            app.consumer._thread._ensure_consumer(), runner.on_wire(topic, partition)
        )
        open_.push_async_callback(_stop_app, app)
        open_.push_async_callback(partitions.shut_down)
        partitions.start()
        watchdog.expect()  # a broker that dies during the join can leave Faust waiting for ever
        await _until(app, partitions.fatal, stop)


async def _until(app: Any, fatal: asyncio.Future[None], stop: asyncio.Event) -> None:
    """Run the app until ``stop``; raise the fatal error, or what made Faust crash."""
    started = asyncio.create_task(app.start(), name="faust-start")
    stopped = asyncio.create_task(stop.wait())
    crashed = asyncio.create_task(app._crashed.wait())
    try:
        waiting = {started, stopped, crashed, fatal}
        while not (stopped.done() or crashed.done() or fatal.done()):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if started in done:
                started.result()
        if fatal.done():
            fatal.result()
        if crashed.done():
            raise UnavailableError(f"Faust ended: {app.crash_reason!r}")
    finally:
        for task in (started, stopped, crashed):
            task.cancel()


async def _stop_app(app: Any) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(STOP_WITHIN_S):
            await app.stop()
