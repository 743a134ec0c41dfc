"""Migrate on real servers: safe to repeat, and it refuses what would make numbers wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from fleetpulse import migrate as module
from fleetpulse.log_ids import give_log_ids
from fleetpulse.migrate import check_topics, migrate
from runtime.config import ClickHouseConfig
from runtime.log_ids import read_log_ids
from schemas.ddl import migrations
from schemas.errors import ConfigError, ContractError, UnavailableError
from schemas.topics import BY_NAME, TOPICS

pytestmark = pytest.mark.integration


@pytest.fixture
def tables(stack: Any, clickhouse_config: ClickHouseConfig) -> Callable[..., Any]:
    """Migrate the session's Kafka and this test's own database."""

    def run(**settings: Any) -> Any:
        return migrate(stack.kafka, clickhouse_config, **settings)

    return run


async def test_every_topic_has_a_log_id_that_stays(stack: Any, clickhouse_config: ClickHouseConfig) -> None:
    """It is given once; running again changes nothing."""
    await asyncio.to_thread(migrate, stack.kafka, clickhouse_config)
    first = await read_log_ids(stack.kafka)
    await asyncio.to_thread(migrate, stack.kafka, clickhouse_config)

    assert await read_log_ids(stack.kafka) == first
    assert {topic.name for topic in TOPICS} <= set(first)
    assert len(set(first.values())) == len(first)


def test_the_second_run_finds_nothing_to_do(tables: Callable[..., Any]) -> None:
    """And a dry run says what a run would do, and does nothing."""
    numbers = [one.number for one in migrations()]
    assert [one.number for one in tables(dry_run=True).migrations] == numbers
    assert [one.number for one in tables().migrations] == numbers

    assert tables().empty
    assert tables(dry_run=True).empty


def test_a_migration_that_was_killed_half_way_runs_again(
    tables: Callable[..., Any], clickhouse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements are idempotent; what was noted is not done again."""
    all_ = migrations()
    cut = replace(all_[3], statements=(*all_[3].statements[:1], "SELECT throwIf(1)"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", lambda _: (*all_[:3], cut))
        with pytest.raises(ContractError):
            tables()

    assert [one.number for one in tables().migrations] == [one.number for one in all_[3:]]
    assert clickhouse.command("EXISTS TABLE rejected") == 1


def test_changed_views_are_made_anew_and_changed_tables_are_refused(
    tables: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view holds no data; a table does, and an edited file must not pass as applied."""
    tables()
    all_ = migrations()
    view = replace(all_[5], statements=(*all_[5].statements, "CREATE OR REPLACE VIEW one AS SELECT 1"))
    table = replace(all_[1], statements=(*all_[1].statements, "CREATE TABLE two (x UInt8) ENGINE = Memory"))

    monkeypatch.setattr(module, "migrations", lambda _: (*all_[:5], view))
    assert [one.number for one in tables().migrations] == [6]
    monkeypatch.setattr(module, "migrations", lambda _: (all_[0], table))
    with pytest.raises(ContractError, match=r"0002_raw\.sql"):
        tables()


def test_a_table_keeps_rows_as_long_as_the_limits_say(tables: Callable[..., Any], clickhouse: Any) -> None:
    """Limits of the configuration reach the statements."""
    tables(limits=replace(module.DEFAULT_LIMITS, raw_ttl_ms=3 * 86_400_000))

    assert "toIntervalSecond(259200)" in clickhouse.command("SHOW CREATE TABLE llm_requests")


@pytest.mark.parametrize(
    ("timestamps", "partitions", "words"),
    [
        pytest.param("CreateTime", 4, "LogAppendTime", id="senders' clocks must not judge"),
        pytest.param("LogAppendTime", 3, "3 partitions", id="fewer partitions than processes count on"),
    ],
)
async def test_a_source_topic_that_breaks_the_contract_is_refused(
    stack: Any, topic_name: Callable[..., str], timestamps: str, partitions: int, words: str
) -> None:
    """The text names the topic and what to change."""
    name = topic_name("llm.requests", partitions, {"message.timestamp.type": timestamps})
    topic = replace(BY_NAME["llm.requests"], name=name)
    admin = AIOKafkaAdminClient(**stack.kafka.client_settings())
    await admin.start()
    try:
        with pytest.raises(ContractError, match=f"{name}.*{words}"):
            await check_topics(admin, [topic], {})
        if timestamps == "LogAppendTime":
            await check_topics(admin, [topic], {name: 3})
    finally:
        await admin.close()


async def test_the_id_of_a_topic_is_written_before_the_topic_is_made(
    stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in between leaves an id without a topic, never a new topic under an old id."""
    order: list[str] = []

    class Admin:
        pass

    async def give(_: Any, topics: Any) -> dict[str, str]:
        order.append("ids " + " ".join(topics))
        return {}

    async def create(_kafka: Any, _admin: Any, topics: Any) -> None:
        order.append("topics " + " ".join(topic.name for topic in topics))

    async def nothing(*_: Any) -> dict[str, str]:
        return {}

    monkeypatch.setattr(module, "give_log_ids", give)
    monkeypatch.setattr(module, "_create", create)
    monkeypatch.setattr(module, "_visible", nothing)
    monkeypatch.setattr(module, "read_log_ids", nothing)
    await module._make(stack.kafka, Admin(), (BY_NAME["contract"], BY_NAME["books"]))

    assert order[0] == "topics contract"
    assert order[1].startswith("ids ")
    assert "books" in order[1]
    assert order[2] == "topics books"


async def test_a_new_id_replaces_the_old_one(stack: Any) -> None:
    """The latest record of a key counts."""
    (first,) = (await give_log_ids(stack.kafka, ["a-topic-of-a-test"])).values()
    (second,) = (await give_log_ids(stack.kafka, ["a-topic-of-a-test"])).values()

    assert first != second
    assert (await read_log_ids(stack.kafka))["a-topic-of-a-test"] == second


def test_a_wrong_login_and_an_absent_server_are_told_apart(stack: Any, clickhouse_config: ClickHouseConfig) -> None:
    """One needs another password, the other a little patience."""
    wrong = ClickHouseConfig(url=clickhouse_config.url, user=clickhouse_config.user, password="no")
    absent = ClickHouseConfig(url="http://127.0.0.1:1", user="x", password="no")

    with pytest.raises(ConfigError, match=r"clickhouse\.user"):
        migrate(stack.kafka, wrong)
    with pytest.raises(UnavailableError):
        migrate(stack.kafka, absent)
