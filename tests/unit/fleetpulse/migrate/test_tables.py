"""What a server is asked before it is migrated: its version, rows over shards. Real ones are in tests/integration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse.migrate import tables, topics
from fleetpulse.migrate.plan import ApplyFile, SetTtl
from fleetpulse.migrate.run import migrate
from runtime.config import ClickHouseConfig, KafkaConfig
from schemas.ddl.files import HISTORY, Names, migrations
from schemas.ddl.kept import kept
from schemas.errors import ContractError, UnavailableError
from schemas.limits import DAY_MS, DEFAULT_LIMITS

NAMES = Names("db", "shards", "Replicated")
(KEPT,) = [one for one in kept(DEFAULT_LIMITS) if one.table == "llm_requests"]


def answer(rows: list[Any], names: tuple[str, ...] = ()) -> Any:
    """As clickhouse_connect gives it."""
    return SimpleNamespace(column_names=names, result_rows=rows, summary={})


class Shard:
    """A server of a replicated database that keeps llm_requests a day longer; it has no row itself, others ``rows``."""

    server_version = "25.10.1.1"

    def __init__(self, rows: int, engine: str = "Replicated") -> None:
        self.rows, self.engine = rows, engine
        self.counted: list[str] = []

    def query(self, sql: str, **_more: Any) -> Any:
        if "system.databases" in sql:
            return answer([(self.engine,)])
        if "system.tables" in sql:
            engine = "ReplicatedReplacingMergeTree" if self.engine == "Replicated" else "ReplacingMergeTree"
            full = f"{engine} TTL {replace(KEPT, kept_ms=KEPT.kept_ms + DAY_MS).ttl}"
            named = [
                (name + end, of, text)
                for name in ("llm_requests", HISTORY)
                for end, of, text in (("", "Distributed", ""), ("_local", engine, full))
            ]
            return answer([(*one, 0, 0) for one in named], ("name", "engine", "engine_full", "is_view", "rows"))
        if "system.functions" in sql:
            return answer([])
        if HISTORY in sql:
            return answer([(one.number, one.name, one.checksum) for one in migrations()])
        self.counted.append(sql)
        return answer([(self.rows,)])


@pytest.mark.parametrize(("rows", "left"), [(0, False), (5, True)])
def test_a_shorter_ttl_counts_the_rows_of_every_shard(rows: int, *, left: bool) -> None:
    """Its statement reaches them all; what was dropped meanwhile is made anew and counts none."""
    shard = Shard(rows)

    plan = tables.plan(shard, NAMES, DEFAULT_LIMITS).without_removing()

    assert [step.subject for step in plan.left] == ["llm_requests"] * left
    assert shard.counted == ["SELECT count() FROM db.llm_requests"]


def test_shards_that_are_migrated_one_by_one_count_their_own_rows() -> None:
    """Without a replicated database a statement stays on its server."""
    shard = Shard(5, "Atomic")

    steps = tables.plan(shard, replace(NAMES, engine_prefix=""), DEFAULT_LIMITS).steps

    assert [step.rows for step in steps if isinstance(step, SetTtl) and step.subject == "llm_requests"] == [0]
    assert shard.counted == []


@pytest.mark.parametrize(("days", "left"), [(7, ()), (40, ("llm_requests",))])
def test_how_rows_go_is_read_from_the_server(days: int, left: tuple[str, ...]) -> None:
    """Of a table whose parts go whole, that is to be altered where they may hold two days of a partition."""
    limits = replace(DEFAULT_LIMITS, raw_ttl_ms=days * DAY_MS)
    (kept_now,) = [one for one in kept(limits) if one.table == "llm_requests"]

    class Whole(Shard):
        full = f"ReplacingMergeTree TTL {kept_now.ttl} SETTINGS ttl_only_drop_parts = 1, x = 1"

        def query(self, sql: str, **more: Any) -> Any:
            found = super().query(sql, **more)
            if "system.tables" in sql:
                found.result_rows = [(*row[:2], self.full, *row[3:]) for row in found.result_rows]
            return found

    steps = tables.plan(Whole(5, "Atomic"), replace(NAMES, engine_prefix=""), limits).steps

    had = [step.subject for step in steps if isinstance(step, SetTtl) and step.had_ms is not None]
    assert tuple(had) == left


def test_tables_that_did_not_come_are_not_made_again() -> None:
    """The server says how many there are."""

    class Short(Shard):
        def query(self, sql: str, **more: Any) -> Any:
            found = super().query(sql, **more)
            if "system.tables" in sql:
                found.summary, found.result_rows = {"result_rows": "4"}, found.result_rows[:3]
            return found

    with pytest.raises(UnavailableError, match="3 of 4 rows came"):
        tables.plan(Short(0), NAMES, DEFAULT_LIMITS)


@pytest.mark.parametrize("version", ["24.12.1.1", "25.9.7.1"])
def test_an_older_server_is_refused_before_kafka_is_asked(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first statement would fail where topics are made already."""

    @contextlib.contextmanager
    def connect(_config: ClickHouseConfig) -> Iterator[Any]:
        yield SimpleNamespace(server_version=version)

    async def asked(*_any: Any) -> Any:
        pytest.fail("Kafka was asked")

    monkeypatch.setattr(tables, "connect", connect)
    monkeypatch.setattr(topics, "plan", asked)

    with pytest.raises(ContractError, match=rf"{version} is too old, 25\.10 or newer is needed; nothing was changed"):
        migrate(KafkaConfig(), ClickHouseConfig())


class Recorder:
    """A shard that is migrated by itself; notes what it executes, with its name, in ``log``."""

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        self.name, self.log = name, log

    def command(self, sql: str, **_more: Any) -> None:
        self.log.append((self.name, " ".join(sql.split())))

    def query(self, _sql: str, **_more: Any) -> Any:
        return answer([])

    def insert(self, *_any: Any, **_more: Any) -> None:
        """The history."""


def test_tables_that_hold_rows_are_altered_on_every_shard_before_one_over_shards_is() -> None:
    """A server asks each shard for every column of its own table over shards: none may lack one."""
    log: list[tuple[str, str]] = []
    add = "ALTER TABLE books\n    ADD COLUMN IF NOT EXISTS added UInt8"
    file = ApplyFile("0003_added.sql", (add, "CREATE OR REPLACE VIEW of_books AS SELECT added FROM books"), (3, "", ""))

    tables.carry_out_on([(Recorder(name, log), Names("db", "fleet"), [file]) for name in ("a", "b")])

    held = "ALTER TABLE books_local ADD COLUMN IF NOT EXISTS added UInt8"
    first = {name: log.index((name, held)) for name in ("a", "b")}
    over = [n for n, (_, sql) in enumerate(log) if sql.startswith("CREATE OR REPLACE TABLE books AS books_local")]
    views = [n for n, (_, sql) in enumerate(log) if sql.startswith("CREATE OR REPLACE VIEW")]
    assert max(first.values()) < min(over) < min(views)
    assert len(over) == len(views) == 2


def test_how_rows_go_is_set_on_the_table_that_holds_them() -> None:
    """With their TTL."""
    log: list[tuple[str, str]] = []
    step = SetTtl(replace(KEPT, whole_parts=False), DAY_MS, 0)

    tables.carry_out_on([(Recorder("a", log), Names("db", "fleet"), [step])])

    assert [sql for _, sql in log if sql.startswith("ALTER")] == [
        "ALTER TABLE llm_requests_local MODIFY SETTING ttl_only_drop_parts = 0",
        f"ALTER TABLE llm_requests_local MODIFY TTL {KEPT.ttl}",
    ]


def test_one_server_executes_every_statement_once() -> None:
    """Nothing waits for others there."""
    log: list[tuple[str, str]] = []
    file = ApplyFile("0003_added.sql", ("ALTER TABLE books\n    ADD COLUMN IF NOT EXISTS added UInt8",), (3, "", ""))

    tables.carry_out_on([(Recorder("a", log), Names("db", "fleet"), [file])])

    assert sum("ADD COLUMN" in sql for _, sql in log) == 1
