"""Fixtures for everybody.

Unit tests get no network. Integration tests share one Kafka and one ClickHouse: containers where a Docker engine
answers, else the local stack in ``FLEETPULSE_TEST_DATA_DIR`` (``.fleetpulse/test`` by default). Sessions that run at
the same time share it; the last one to end takes down what a test session started.
``FLEETPULSE_TEST_STACK=local`` keeps containers out; ``FLEETPULSE_TEST_KEEP=1`` leaves the stack running.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import gc
import logging
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from pytest_socket import disable_socket

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from runtime.config import ClickHouseConfig, KafkaConfig
    from tests.tables import Tables

# No deadlines: the first call of compiled code loads or compiles it, on any machine at any load. The same examples
# every time: it is `make fuzz` that searches.
settings.register_profile("any load", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")

# A stack that the user runs is neither found nor touched by tests: their registry is another.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="fleetpulse-tests-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

LONGEST_FIRST = (
    *("test_oracle", "test_cookbook", "test_slow_schedules", "test_runner_behaviour", "test_runner_behaviour_in_faust"),
    *("test_oracle_formulas", "test_overruns", "test_takeover", "test_stack", "test_rolling_upgrade"),
    *("test_migrate_running", "test_shards", "test_extremes", "test_copies", "test_deployments"),
    *("test_pipeline", "test_bad_input", "test_money_commands", "test_traces", "test_agent_kill", "test_secured"),
    *("test_sink", "test_bench_dashboard_raw", "test_rollup", "test_finals", "test_commands", "test_jobs_all"),
    *("test_reconcile", "test_replay", "test_migrate", "test_migrations", "test_audit_cost", "test_proxy_process"),
    *("test_request_cost", "test_views", "test_publisher_kill", "test_report_cost", "test_engine_identity"),
    *("test_schedules", "test_doctor", "test_log_rollups", "test_baseline", "test_delivery", "test_log_tail_kill"),
)
"""Files of tests that take longest, so that no worker begins one of them when the others have nothing left to do."""
ROOT = Path(__file__).resolve().parents[1]
UNIT = ROOT / "tests" / "unit"


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the session's servers are. ``data_dir`` is None when they run in containers."""

    kafka: KafkaConfig
    clickhouse: ClickHouseConfig
    clickhouse_reader: ClickHouseConfig
    data_dir: Path | None

    @property
    def kafka_bootstrap(self) -> str:
        return self.kafka.bootstrap


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in ``LONGEST_FIRST`` begin, in that order; the others follow as they were found."""
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish() -> None:
    """What was collected stays until the end, so the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest) -> None:
    """A unit test that opens a socket fails; Unix sockets (event loops, local datagrams) are no network."""
    if UNIT in request.path.parents and request.node.get_closest_marker("enable_socket") is None:
        disable_socket(allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _own_root_logger() -> Iterator[None]:
    """A test that configures logs, as every service does when it starts, leaves the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def stack() -> Iterator[Servers]:
    """A real Kafka and a real ClickHouse; they are there or the test fails."""
    with contextlib.ExitStack() as running:
        servers = _containers(running) if os.environ.get("FLEETPULSE_TEST_STACK") != "local" else None
        yield servers or running.enter_context(_local_stack())


def _containers(running: contextlib.ExitStack) -> Servers | None:
    from tests import containers

    if not containers.engine_answers():
        return None
    kafka = running.enter_context(containers.kafka_container())
    writer, reader = running.enter_context(containers.clickhouse_container())
    return Servers(kafka, writer, reader, None)


@contextlib.contextmanager
def _local_stack() -> Iterator[Servers]:
    from fleetpulse import stack as local
    from runtime.config import ClickHouseConfig, KafkaConfig
    from runtime.local_stack import DATABASE, READER, WRITER
    from runtime.stack_registry import unregister

    data_dir = Path(os.environ.get("FLEETPULSE_TEST_DATA_DIR") or ROOT / ".fleetpulse" / "test")
    with _in_use(data_dir) as ours:
        if not local.status(data_dir).running:
            ours.touch()
        state = local.up(data_dir)
        unregister(data_dir, os.environ)  # tests name it; to any other test it is no stack of this user
        url = state.clickhouse_url
        yield Servers(
            KafkaConfig(bootstrap=state.kafka_bootstrap),
            ClickHouseConfig(url=url, user=WRITER, password=state.writer_password),
            ClickHouseConfig(url=url, user=READER, password=state.reader_password, database=DATABASE),
            data_dir,
        )


@contextlib.contextmanager
def _in_use(data_dir: Path) -> Iterator[Path]:
    """Hold the folder together with other sessions; the last one out stops what is marked as started by tests."""
    from fleetpulse import stack as local

    data_dir.mkdir(parents=True, exist_ok=True)
    ours = data_dir / "started-by-tests"
    with (data_dir / "users.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield ours
        finally:
            with contextlib.suppress(BlockingIOError):  # others still use it
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if ours.exists() and not os.environ.get("FLEETPULSE_TEST_KEEP"):
                    local.down(data_dir)
                    ours.unlink()


@pytest.fixture(scope="session")
def kafka_bootstrap(stack: Servers) -> str:
    """``host:port`` of the session's Kafka."""
    return stack.kafka_bootstrap


@pytest.fixture(scope="session")
def _tables(stack: Servers) -> Iterator[Tables]:
    from tests.tables import Tables

    tables = Tables(stack.clickhouse)
    try:
        yield tables
    finally:
        tables.drop()


@pytest.fixture
def clickhouse_config(request: pytest.FixtureRequest, stack: Servers) -> Iterator[ClickHouseConfig]:
    """The writer's login to a fresh database of this test; with the marker ``tables`` to one that has all tables and
    no rows, which tests use in turn."""
    if request.node.get_closest_marker("tables") is not None:
        yield request.getfixturevalue("_tables").emptied()
        return
    with own_database(stack) as config:
        yield config


@contextlib.contextmanager
def own_database(stack: Servers) -> Iterator[ClickHouseConfig]:
    """The writer's login to a fresh database, removed with the block."""
    from runtime.clickhouse_clients import connect

    database = f"fleetpulse_test_{secrets.token_hex(6)}"
    with contextlib.closing(connect(stack.clickhouse)) as client:
        client.command(f"CREATE DATABASE {database}")
        try:
            yield stack.clickhouse.model_copy(update={"database": database})
        finally:
            client.command(f"DROP DATABASE {database} SYNC")


@pytest.fixture
def clickhouse(clickhouse_config: ClickHouseConfig) -> Iterator[Client]:
    """A client of the writer in this test's own database."""
    from runtime.clickhouse_clients import connect

    with contextlib.closing(connect(clickhouse_config)) as client:
        yield client


@pytest.fixture
def own_kafka(stack: Servers) -> Iterator[KafkaConfig]:
    """The session's Kafka as a deployment of this test, with all topics of the contract under a prefix of its own."""
    with own_deployment(stack) as kafka:
        yield kafka


@pytest.fixture
def other_kafka(stack: Servers) -> Iterator[KafkaConfig]:
    """A second one."""
    with own_deployment(stack) as kafka:
        yield kafka


@contextlib.contextmanager
def own_deployment(stack: Servers) -> Iterator[KafkaConfig]:
    """A deployment as ``own_kafka`` has it, removed with the block."""
    from fleetpulse.migrate import topics
    from schemas.limits import DEFAULT_LIMITS

    name = f"t{secrets.token_hex(4)}"
    kafka = stack.kafka.model_copy(update={"deployment": name, "topic_prefix": f"{name}."})

    async def migrate() -> None:
        plan = await topics.plan(kafka, {}, DEFAULT_LIMITS)
        await topics.carry_out(kafka, plan.steps, DEFAULT_LIMITS)

    try:
        _run_apart(migrate)
        yield kafka
    finally:
        with_admin(stack.kafka, lambda admin: _delete(admin, f"{name}."))


@pytest.fixture
def topic_name(stack: Servers) -> Iterator[Callable[..., str]]:
    """``topic_name("gpu.samples", partitions=4, config={...})`` makes a topic with a random name and returns the name;
    ``partitions=0`` only makes the name. Every topic that begins with it is removed at the end."""
    prefix = f"t{secrets.token_hex(6)}"

    def make(name: str = "topic", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        topic = f"{prefix}.{name}"
        if partitions:
            with_admin(stack.kafka, lambda admin: create_topic(admin, topic, partitions, config or {}))
        return topic

    try:
        yield make
    finally:
        with_admin(stack.kafka, lambda admin: _delete(admin, prefix))


async def create_topic(admin: Any, topic: str, partitions: int, config: dict[str, str]) -> None:
    from aiokafka.admin import NewTopic

    made = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
    failed = [error for error in made.topic_errors if error[1] != 0]
    assert not failed, f"the topic was not made: {failed}"
    for _ in range(250):
        if len((await admin.describe_topics([topic]))[0]["partitions"]) == partitions:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"{topic} does not appear in the metadata")


async def _delete(admin: Any, prefix: str) -> None:
    names = [name for name in await admin.list_topics() if name.startswith(prefix)]
    if names:
        await admin.delete_topics(names)


def with_admin(config: KafkaConfig, use: Callable[[Any], Awaitable[None]]) -> None:
    from runtime.kafka_clients import make_admin, started

    async def run() -> None:
        async with started(make_admin(config)) as admin:
            await use(admin)

    _run_apart(run)


def _run_apart(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    failed: list[BaseException] = []

    def body() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body)  # the test's own event loop may be running in this one
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
