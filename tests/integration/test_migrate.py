"""Migrate on real servers: safe to repeat, and it refuses what would make numbers wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from fleetpulse.migrate import tables as tables_module
from fleetpulse.migrate import topics
from fleetpulse.migrate.difference import Difference, difference
from fleetpulse.migrate.plan import ApplyFile, GrowTopic, MakeTopic, Plan, Restore, SetTtl
from fleetpulse.migrate.run import migrate
from fleetpulse.migrate.schema import read_schema
from fleetpulse.migrate.topic_plan import LiveTopic, plan_topics, topic_settings
from fleetpulse.migrate.topics import give_log_ids
from fleetpulse.migrate.write import schema_of
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.contract_record import read_log_ids
from runtime.kafka_clients import make_consumer, open_admin
from schemas.contract.topics import BY_NAME, TOPICS, WINDOW_PARTIALS
from schemas.ddl.declared import declared
from schemas.ddl.files import Names, migrations
from schemas.ddl.fresh import fresh
from schemas.errors import ConfigError, ContractError, UnavailableError
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS
from tests.integration.sink_rig import send
from tests.unit.sinks.landing_cases import NOW_MS, partials

pytestmark = pytest.mark.integration


@pytest.fixture
def tables(stack: Any, clickhouse_config: ClickHouseConfig) -> Callable[..., Plan]:
    """Migrate the session's Kafka and this test's own database."""

    def run(**settings: Any) -> Plan:
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


def files(plan: Plan) -> list[str]:
    """Names of the files of a plan."""
    return [step.subject for step in plan.steps if isinstance(step, ApplyFile)]


def test_the_second_run_finds_nothing_to_do(tables: Callable[..., Plan], clickhouse: Any) -> None:
    """And a dry run says what a run would do, and does nothing."""
    every = [one.file_name for one in migrations()]
    assert files(tables(dry_run=True)) == every
    assert clickhouse.command("SELECT count() FROM system.tables WHERE database = currentDatabase()") == 0
    assert files(tables()) == every

    assert tables() == Plan()
    assert tables(dry_run=True) == Plan()


def test_a_migration_that_was_killed_between_statements_runs_again(
    tables: Callable[..., Plan], clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Wherever it was killed: what was made is there already, and the file is noted behind its last statement."""
    names, (baseline, *_) = Names(clickhouse_config.database), migrations()
    killed_after = (1, 7, len(baseline.statements) // 2, len(baseline.statements))
    for first, last in pairwise((0, *killed_after)):
        for statement in baseline.statements[first:last]:
            clickhouse.command(names.fill(statement))
        assert files(tables(dry_run=True))[0] == baseline.file_name

    tables()

    assert tables() == Plan()
    rows = clickhouse.query("SELECT number, name, checksum FROM migrations ORDER BY number").result_rows
    assert rows == [(one.number, one.name, one.checksum) for one in migrations()]


@pytest.mark.parametrize("share", [0.5, 1.0], ids=["half-way", "before it was noted"])
def test_a_first_migration_that_was_killed_is_finished_by_the_files(
    share: float, tables: Callable[..., Plan], clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Tables that were made at once have all that the files would add, and these are safe to repeat."""
    statements = fresh(Names(clickhouse_config.database))
    for statement in statements[: round(share * len(statements))]:
        clickhouse.command(statement)

    assert {step.because for step in tables().steps if isinstance(step, ApplyFile)} == {""}

    assert tables() == Plan()
    has = read_schema(clickhouse, clickhouse_config.database)
    assert difference(has, schema_of(clickhouse, list(declared().values())), declared()) == Difference()


def test_a_file_with_another_text_is_refused_and_nothing_is_changed(
    tables: Callable[..., Plan], clickhouse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A released file never changes, so this is another fleetpulse's database."""
    tables()
    monkeypatch.setattr(tables_module, "released", lambda: {"0001_baseline.sql": migrations()[0].checksum})
    clickhouse.command("DROP VIEW fleet_now SYNC")
    clickhouse.insert("migrations", [[1, "baseline", "other"]], column_names=["number", "name", "checksum"])

    with pytest.raises(ContractError, match=r"0001_baseline\.sql was applied .* with another text"):
        tables()
    assert clickhouse.command("EXISTS VIEW fleet_now") == 0


def test_what_somebody_dropped_is_made_again(tables: Callable[..., Plan], clickhouse: Any) -> None:
    """A table, its filling and a view; all others keep their rows."""
    tables()
    clickhouse.command("INSERT INTO books (job, committed_ms) SELECT 'windows', toUnixTimestamp64Milli(now64(3))")
    for kind, name in (("TABLE", "rejected"), ("TABLE", "gpu_history_1m_copy"), ("VIEW", "fleet_now")):
        clickhouse.command(f"DROP {kind} {name} SYNC")

    found = {step.subject for step in tables().steps if isinstance(step, Restore)}

    assert found == {"rejected", "gpu_history_1m_copy", "fleet_now"}
    assert tables() == Plan()
    assert clickhouse.command("SELECT count() FROM books") == 1


def test_rows_are_kept_as_long_as_the_limits_say_also_those_that_are_there(
    tables: Callable[..., Plan], clickhouse: Any
) -> None:
    """A longer TTL is set at once; a shorter one removes rows, so it needs consent, and everything else is done."""
    tables()
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    for age_days in (1, 5):
        clickhouse.insert("books", [["windows", now_ms - age_days * DAY_MS]], column_names=["job", "committed_ms"])
    longer = replace(DEFAULT_LIMITS, raw_ttl_ms=9 * DAY_MS)
    shorter = replace(longer, partials_ttl_ms=3 * DAY_MS, rollup_ttl_ms=500 * DAY_MS)

    assert {step.removes for step in tables(limits=longer).steps} == {False}
    assert "toIntervalSecond(777600)" in clickhouse.command("SHOW CREATE TABLE llm_requests")
    left = tables(limits=shorter)
    assert [step.subject for step in left.left] == ["books"]
    assert all(isinstance(step, SetTtl) and not step.removes for step in left.steps)
    assert clickhouse.command("SELECT count() FROM books") == 2
    assert [step.subject for step in tables(limits=shorter, dry_run=True).steps] == ["books"]
    assert [step.subject for step in tables(limits=shorter, yes=True).steps] == ["books"]
    assert tables(limits=shorter) == Plan()
    assert rows_left(clickhouse, 1) == [(now_ms - DAY_MS,)]


def test_raw_rows_of_two_days_in_a_partition_go_row_by_row(tables: Callable[..., Plan], clickhouse: Any) -> None:
    """From when the limits keep them so long, and until they no longer do."""
    tables()
    longer = replace(DEFAULT_LIMITS, raw_ttl_ms=40 * DAY_MS)

    said = {step.subject: step.says for step in tables(limits=longer).steps}
    assert said["llm_requests"] == "7 d -> 40 d after appended_ms, row by row"
    assert said["exemplars"] == "7 d -> 40 d after window_ms"
    assert "ttl_only_drop_parts = 0" in clickhouse.command("SHOW CREATE TABLE llm_requests")
    assert "ttl_only_drop_parts = 1" in clickhouse.command("SHOW CREATE TABLE exemplars")
    assert tables(limits=longer) == Plan()

    assert "llm_requests" in {step.subject for step in tables().steps}
    assert "ttl_only_drop_parts = 1" in clickhouse.command("SHOW CREATE TABLE llm_requests")
    assert tables() == Plan()


def test_new_raw_tables_are_made_by_the_limits(tables: Callable[..., Plan], clickhouse: Any) -> None:
    """Nothing is left to alter."""
    longer = replace(DEFAULT_LIMITS, raw_ttl_ms=40 * DAY_MS)
    tables(limits=longer)

    assert "ttl_only_drop_parts = 0" in clickhouse.command("SHOW CREATE TABLE llm_requests")
    assert tables(limits=longer) == Plan()


def rows_left(clickhouse: Any, wanted: int) -> Any:
    """Rows of books, waiting until there are so many: a TTL takes effect in the background."""
    for _ in range(100):
        found = clickhouse.query("SELECT committed_ms FROM books").result_rows
        if len(found) == wanted:
            break
        time.sleep(0.1)
    return found


async def test_retention_of_topics_is_brought_to_the_limits(stack: Any, topic_name: Callable[..., str]) -> None:
    """On the broker, with what somebody else set on the topic left as it is."""
    of = BY_NAME["gpu.samples"]
    settings = {**topic_settings(of, 1, DEFAULT_LIMITS), "segment.bytes": "2000000"}
    topic = replace(of, name=topic_name("gpu.samples", 4, settings))
    limits = replace(DEFAULT_LIMITS, source_retention_ms=20 * HOUR_MS)

    async def found() -> tuple[Plan, LiveTopic]:
        async with open_admin(stack.kafka) as admin:
            live = await topics.live_topics(stack.kafka, admin, [topic])
        return plan_topics([topic], live, {}, limits, [topic.name]), live[topic.name]

    plan, before = await found()
    await topics.carry_out(stack.kafka, plan.steps, limits)
    again, after = await found()

    assert [(step.subject, step.says, step.removes) for step in plan.steps] == [
        (topic.name, "retention.ms 1 d -> 20 h", True)
    ]
    assert again == Plan()
    assert dict(after.own) == {**before.own, "retention.ms": "72000000"}


async def test_partitions_are_added_on_the_broker(stack: Any, topic_name: Callable[..., str]) -> None:
    """Up to the configured count, once."""
    of = BY_NAME["gpu.samples"]
    topic = replace(of, name=topic_name("gpu.samples", 2, topic_settings(of, 1, DEFAULT_LIMITS)))

    async def plan() -> Plan:
        async with open_admin(stack.kafka) as admin:
            live = await topics.live_topics(stack.kafka, admin, [topic])
        return plan_topics([topic], live, {topic.name: 5}, DEFAULT_LIMITS, [topic.name])

    first = await plan()
    await topics.carry_out(stack.kafka, first.steps, DEFAULT_LIMITS)

    assert [step.says for step in first.steps] == ["2 -> 5"]
    assert await plan() == Plan()


async def test_partitions_of_partials_are_not_added_while_a_job_runs(
    own_kafka: KafkaConfig,
) -> None:
    """The refusal names the group that runs and the procedure; once it has stopped, nothing is in the way."""
    kafka = own_kafka
    more = {WINDOW_PARTIALS: 99}
    await send(kafka, [partials([{"window_ms": NOW_MS - NOW_MS % 10_000, "grouping": "service"}], 0)])
    job = make_consumer(kafka, WINDOW_PARTIALS, group=f"{kafka.namespace}-finals")
    await job.start()
    try:
        with pytest.raises(ContractError, match=rf"Stop all jobs \(running: {kafka.namespace}-finals \(1 member\)\)"):
            await topics.plan(kafka, more, DEFAULT_LIMITS)
    finally:
        await job.stop()

    plan = await topics.plan(kafka, more, DEFAULT_LIMITS)
    grown = [step.subject for step in plan.steps if isinstance(step, GrowTopic)]
    assert grown == ["state.finals.window.partials", "state.costs.window.partials", "window.partials"]


async def test_the_id_of_a_topic_is_written_before_the_topic_is_made(
    stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in between leaves an id without a topic, never a new topic under an old id."""
    order: list[str] = []

    class Admin:
        async def list_topics(self) -> list[str]:
            return []

    async def give(_: Any, names: Any) -> dict[str, str]:
        order.append("ids " + " ".join(names))
        return {}

    async def create(_kafka: Any, _admin: Any, made: Any, _limits: Any) -> None:
        order.append("topics " + " ".join(topic.name for topic in made))

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(topics, "give_log_ids", give)
    monkeypatch.setattr(topics, "create", create)
    monkeypatch.setattr(topics, "visible", nothing)
    steps = [MakeTopic(BY_NAME["contract"]), MakeTopic(BY_NAME["books"])]
    await topics._make(stack.kafka, Admin(), steps, DEFAULT_LIMITS)

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
