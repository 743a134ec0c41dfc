"""The doctor before broken set-ups on real servers: each is found, named, and nothing else is called wrong.

Covers fleetpulse.commands.doctor, fleetpulse.doctor.look_database, fleetpulse.doctor.look_host and
fleetpulse.doctor.look_kafka.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from pydantic import SecretStr

from fleetpulse.doctor.examine import Subject, examine_world
from fleetpulse.doctor.facts import Bounds
from fleetpulse.doctor.finding import Finding, State
from fleetpulse.migrate import topics as live_topics
from fleetpulse.migrate.run import migrate
from fleetpulse.migrate.tables import wanted
from fleetpulse.migrate.topic_plan import topic_settings
from fleetpulse.migrate.topics import give_log_ids
from fleetpulse.stack import ports
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, Config, KafkaConfig
from runtime.kafka_clients import make_admin, make_consumer, make_producer, started
from runtime.local_stack import StackState, write_state
from schemas.contract.topics import BY_NAME, CONTRACT, Topic
from schemas.ddl.kept import Kept
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from tests.conftest import create_topic, with_admin
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

QUICK = Bounds(within_s=2.0, disk_free_bytes_min=0)
"""Where nobody answers that should. What does answer may take its time on a busy machine."""
PATIENT = replace(QUICK, within_s=20.0)
NO_TOPICS = Subject(topics=(), reads={})
KINDS = [BY_NAME[name] for name in ("gpu.events", "books", "alerts", "alert.commands", "state.windows.gpu.events")]
"""One topic of each kind, all of one partition."""


class FastClock(SystemClock):
    """A host whose clock is ten seconds ahead of everybody's."""

    def now_ms(self) -> int:
        return super().now_ms() + 10_000


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    return unused_ports()[0]


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


@pytest.fixture
def topic_name(own_kafka: KafkaConfig) -> Callable[..., str]:
    """As everywhere, among the topics of this test's deployment."""

    def make(name: str = "topic", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        topic = f"t{secrets.token_hex(6)}.{name}"
        if partitions:
            with_admin(own_kafka, lambda admin: create_topic(admin, topic, partitions, config or {}))
        return topic

    return make


@pytest.fixture
def bare(own_kafka: KafkaConfig, stack: Any, clickhouse_config: ClickHouseConfig, tmp_path: Path) -> Config:
    """This test's own deployment and database, the session's servers; without tables."""
    return Config(
        data_dir=tmp_path,
        kafka=own_kafka,
        clickhouse=clickhouse_config,
        clickhouse_reader=stack.clickhouse_reader,
    )


@pytest.fixture
def without_topics(stack: Any, clickhouse_config: ClickHouseConfig, tmp_path: Path) -> Config:
    """The same for who looks at no topic."""
    return Config(
        data_dir=tmp_path,
        kafka=stack.kafka,
        clickhouse=clickhouse_config,
        clickhouse_reader=stack.clickhouse_reader,
    )


def but(config: Config, **sections: Any) -> Config:
    return config.model_copy(update=sections)


def wrongs(found: tuple[Finding, ...]) -> set[tuple[str, str]]:
    """What is wrong, beside that a bare database has no tables."""
    return {(one.check, one.subject) for one in found if one.state is State.WRONG and one.says != "was never migrated"}


async def behind(kafka: KafkaConfig, topic: str) -> None:
    """A group that committed the beginning of a topic of thirty records."""
    async with started(make_producer(kafka)) as producer:
        for _ in range(30):
            await producer.send_and_wait(topic, b"x", partition=0)
    async with started(make_consumer(kafka, group=f"{kafka.namespace}-windows")) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): 0})


async def keeps_log_ids(kafka: KafkaConfig) -> None:
    """The topic that keeps them is there, also where nobody has migrated this broker yet."""
    async with started(make_admin(kafka)) as admin:
        await live_topics.create(kafka, admin, (CONTRACT,), DEFAULT_LIMITS)
        await live_topics.visible(admin, CONTRACT.name)


async def test_every_broken_topic_is_named(bare: Config, topic_name: Callable[..., str]) -> None:
    """Ten faults at once, each found beside the others: topics, settings, a process, a transaction, clocks."""
    source, state = BY_NAME["gpu.events"], BY_NAME["state.windows.gpu.events"]

    def made(name: str, of: Topic, changes: dict[str, str]) -> Topic:
        settings = topic_settings(of, 1, DEFAULT_LIMITS) | changes
        return replace(of, name=topic_name(name, 1, settings))

    good, orphan = made("good", source, {}), made("orphan", source, {})
    missing = replace(source, name=topic_name("missing", 0))
    few = replace(made("few", source, {}), partitions=2)
    stamped = made("stamped", source, {"message.timestamp.type": "CreateTime"})
    short = made("short", source, {"retention.ms": "3600000"})
    small = made("small", source, {"max.message.bytes": "1000000"})
    forgetful = made("forgetful", state, {"cleanup.policy": "delete"})
    topics = (good, orphan, missing, few, stamped, short, small, forgetful)
    await keeps_log_ids(bare.kafka)
    await give_log_ids(bare.kafka, [one.name for one in topics if one is not orphan])
    await behind(bare.kafka, good.name)
    subject = Subject(topics=topics, reads={"windows": (good.name,)}, clock=FastClock())
    bounds = replace(PATIENT, lag_records_max=29)

    async with started(make_producer(bare.kafka, transactional_id=good.name)) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(few.name, b"x", partition=0)
        found = await asyncio.to_thread(examine_world, bare, bounds, subject, probe=True)
        await producer.abort_transaction()

    assert wrongs(found) == {
        ("topic.exists", missing.name),
        ("topic.log_id", orphan.name),
        ("topic.partitions", few.name),
        ("topic.message.timestamp.type", stamped.name),
        ("topic.retention.ms", short.name),
        ("topic.max.message.bytes", small.name),
        ("topic.cleanup.policy", forgetful.name),
        ("topic.open_transaction", f"{few.name}/0"),
        ("process", f"{bare.kafka.namespace}-windows"),
        ("clock.kafka", "the broker's clock"),
        ("clock.clickhouse", "the database's clock"),
    }
    assert [one for one in found if one.state is State.WRONG and not one.mend] == []


def test_a_set_up_is_without_fault_until_it_is_damaged(
    bare: Config, topic_name: Callable[..., str], clickhouse: Any, closed_port: int
) -> None:
    """Topics as the contract makes them and migrated tables have no fault. Then a table and a view are dropped, rows
    of another go too early, and Kafka is down; then a file was applied with another text."""
    migrate(bare.kafka, bare.clickhouse)
    as_made = {of: topic_settings(of, 1, DEFAULT_LIMITS) for of in KINDS}
    topics = [replace(of, name=topic_name(of.name, of.partitions, settings)) for of, settings in as_made.items()]
    asyncio.run(give_log_ids(bare.kafka, [one.name for one in topics]))

    sound = examine_world(bare, PATIENT, Subject(topics=topics, reads={}), probe=True)

    assert (wrongs(sound), [one for one in sound if one.state is State.UNKNOWN]) == (set(), [])

    clickhouse.command("DROP TABLE rejected SYNC")
    clickhouse.command("DROP VIEW fleet_now")
    (shorter,) = Kept("books", "committed_ms", DAY_MS).statements
    clickhouse.command(shorter)
    away = bare.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{closed_port}"})
    full = replace(PATIENT, disk_free_bytes_min=1 << 60, data_dir_free_share=1.0)
    damaged = examine_world(but(bare, kafka=away), full, NO_TOPICS, probe=False)

    assert wrongs(damaged) == {
        ("disk", f"disk of {bare.data_dir}"),
        ("disk", f"disk default of {bare.clickhouse.url}"),
        ("kafka.port", f"127.0.0.1:{closed_port}"),
        ("schema.missing", "rejected"),
        ("schema.missing", "fleet_now"),
        ("schema.ttl", "books"),
    }

    clickhouse.insert("migrations", [[1, "baseline", "other"]], column_names=["number", "name", "checksum"])
    released = replace(wanted(DEFAULT_LIMITS), released={"0001_baseline.sql"})
    other = examine_world(but(bare, kafka=away), PATIENT, replace(NO_TOPICS, wanted=released), probe=False)
    assert ("schema.migration", bare.clickhouse.database) in wrongs(other)


def test_wrong_logins_are_named(without_topics: Config, mute_port: int) -> None:
    """Passwords that are refused, a reader that may write, a database that is not there; a port that is no broker's."""
    elsewhere = without_topics.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{mute_port}"})
    refused = without_topics.clickhouse.model_copy(update={"password": SecretStr("wrong")})
    nowhere = without_topics.clickhouse.model_copy(update={"database": "fleetpulse_nowhere"})
    assert without_topics.clickhouse_reader is not None
    locked_out = without_topics.clickhouse_reader.model_copy(update={"password": SecretStr("wrong")})

    first = but(without_topics, kafka=elsewhere, clickhouse=refused, clickhouse_reader=without_topics.clickhouse)
    second = but(without_topics, kafka=elsewhere, clickhouse=nowhere, clickhouse_reader=locked_out)
    every = (first, second, but(without_topics, kafka=elsewhere, clickhouse_reader=None))
    with ThreadPoolExecutor() as pool:  # each waits for the port
        found = list(pool.map(lambda one: wrongs(examine_world(one, PATIENT, NO_TOPICS, probe=False)), every))

    user, deaf = without_topics.clickhouse.user, ("kafka.answer", f"127.0.0.1:{mute_port}")
    assert found == [
        {deaf, ("clickhouse.login", user), ("reader.rights", user), ("reader.limits", user)},
        {deaf, ("clickhouse_reader.login", "reader"), ("schema.database", "fleetpulse_nowhere")},
        {deaf},
    ]


@pytest.mark.timeout(120)
def test_servers_that_are_away_or_hang_end_in_time(without_topics: Config, closed_port: int, mute_port: int) -> None:
    """One closed port and one that never answers: reported apart, within the limits."""
    away = without_topics.clickhouse.model_copy(update={"url": f"http://127.0.0.1:{closed_port}"})
    hangs = without_topics.clickhouse.model_copy(update={"url": f"http://127.0.0.1:{mute_port}"})
    dead = without_topics.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{closed_port}"})
    broken = but(without_topics, kafka=dead, clickhouse=hangs, clickhouse_reader=away)

    found = examine_world(broken, QUICK, NO_TOPICS, probe=False)

    assert {check for check, _ in wrongs(found)} == {"kafka.port", "clickhouse.answer", "clickhouse_reader.answer"}


def test_a_stack_that_lies_half_dead_is_named(without_topics: Config, mute_port: int) -> None:
    """Parts that should run, a port that somebody took; a test's own folder is closed, so its passwords are too."""
    chosen = replace(ports.choose(without_topics.data_dir)[0], clickhouse_http=mute_port)
    write_state(StackState(without_topics.data_dir, "x" * 22, chosen, "w", "r", wanted=True))
    (without_topics.data_dir / "stack.json").chmod(0o644)

    found = examine_world(without_topics, PATIENT, NO_TOPICS, probe=False)

    assert wrongs(found) == {
        ("stack.part", "kafka"),
        ("stack.part", "clickhouse"),
        ("stack.port", str(mute_port)),
    }


def cli(words: tuple[str, ...], tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETPULSE_")}
    given = {f"FLEETPULSE_{name}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "fleetpulse", "doctor", *words],
        env={**kept, "FLEETPULSE_DATA_DIR": str(tmp_path), **given},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_command_tells_programs_and_people(tmp_path: Path, closed_port: int) -> None:
    """Exit code 1, clean JSON, no traceback; for people each finding with what mends it."""
    away = {"KAFKA__BOOTSTRAP": f"127.0.0.1:{closed_port}", "CLICKHOUSE__URL": f"http://127.0.0.1:{closed_port}"}

    as_json = cli(("--json", "--within", "2"), tmp_path, **away)
    misspelt = cli((), tmp_path, KAFKA__BOTSTRAP="x")

    found = json.loads(as_json.stdout)
    assert (as_json.returncode, found["ok"], as_json.stderr) == (1, False, "")
    assert [one["check"] for one in found["findings"] if one["state"] == "wrong"] == [
        "kafka.port",
        "clickhouse.answer",
    ]
    assert misspelt.returncode == 1
    assert "mend: FLEETPULSE_KAFKA__BOOTSTRAP" in misspelt.stdout
    assert "Traceback" not in misspelt.stderr
