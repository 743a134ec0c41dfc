"""What several ClickHouse servers execute in place of what one does. Servers run it in tests/integration."""

from __future__ import annotations

import pytest

from schemas.ddl.declared import declared, made
from schemas.ddl.files import Names, migrations
from schemas.ddl.sharded import SHARD_KEYS, rendered, synced

ONE, SHARDS = Names("db"), Names("db", "c", "Replicated")
ALL = "CREATE OR REPLACE TABLE books AS books_local\nENGINE = Distributed('c', 'db', 'books_local', log_partition)"


def test_one_server_executes_what_stands_in_the_file() -> None:
    """All of it, as it always was."""
    statements = [statement for one in migrations() for statement in one.statements]

    assert [rendered(statement, ONE) for statement in statements] == [(ONE.fill(one),) for one in statements]


def test_every_table_has_a_shard_for_each_row() -> None:
    """By the row's identity; a table without a key could not be made."""
    tables = {name for name, statement in declared().items() if made(statement)[0] == "table"}

    assert tables - SHARD_KEYS.keys() == set()


@pytest.mark.parametrize(
    ("statement", "executed"),
    [
        pytest.param(
            "CREATE TABLE IF NOT EXISTS books\n(\n    x UInt8\n)\nENGINE = ${engine_prefix}MergeTree\nORDER BY x",
            (
                "CREATE TABLE IF NOT EXISTS books_local\n(\n    x UInt8\n)\nENGINE = ReplicatedMergeTree\nORDER BY x",
                ALL,
            ),
            id="a table is one of each shard, and one over all",
        ),
        pytest.param(
            "ALTER TABLE books\n    ADD COLUMN IF NOT EXISTS y UInt8 AFTER x,\n    ADD INDEX i y TYPE minmax",
            (
                "ALTER TABLE books_local\n    ADD COLUMN IF NOT EXISTS y UInt8 AFTER x,\n    ADD INDEX i y TYPE minmax",
                ALL,
            ),
            id="columns change in both, indexes where the rows are",
        ),
        pytest.param(
            "ALTER TABLE books MODIFY TTL x",
            ("ALTER TABLE books_local MODIFY TTL x",),
            id="the rest where the rows are",
        ),
        pytest.param(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS a_copy TO a AS\nSELECT x\nFROM books",
            ("CREATE MATERIALIZED VIEW IF NOT EXISTS a_copy TO a AS\nSELECT x\nFROM books_local",),
            id="a materialized view reads its own server's rows and writes over all",
        ),
        pytest.param(
            "ALTER TABLE a_copy\n    MODIFY QUERY SELECT x\nFROM books",
            ("ALTER TABLE a_copy\n    MODIFY QUERY SELECT x\nFROM books_local",),
            id="so does another one in its place",
        ),
        pytest.param(
            "CREATE OR REPLACE VIEW v AS SELECT x\nFROM books",
            ("CREATE OR REPLACE VIEW v AS SELECT x\nFROM books",),
            id="a view reads all",
        ),
    ],
)
def test_a_cluster_executes(statement: str, executed: tuple[str, ...]) -> None:
    """Replicated tables on each shard, and one over all of them under the name that everything knows."""
    assert rendered(statement, SHARDS) == executed


def test_all_replicas_that_may_be_read_are_waited_for() -> None:
    """Of all shards; of one server without replicas none."""
    assert synced("books", SHARDS) == "SYSTEM SYNC REPLICA ON CLUSTER 'c' db.books_local LIGHTWEIGHT"
    assert synced("books", Names("db", "", "Replicated")) == "SYSTEM SYNC REPLICA db.books LIGHTWEIGHT"
    assert synced("books", Names("db", "c")) == ""
