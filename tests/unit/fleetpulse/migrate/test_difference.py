"""What brings one schema to another, and what is refused. Statements run in tests/integration/test_migrations.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetpulse.migrate.difference import Difference, difference, widens
from fleetpulse.migrate.schema import ColumnSchema, DatabaseSchema, TableSchema

X = ColumnSchema("Int64", codec="ZSTD(1)", comment="a number")
TABLE = TableSchema(
    {"x": X, "y": ColumnSchema("String")},
    {"engine": "ReplacingMergeTree", "partition key": "", "sorting key": "x"},
    {"a": "1", "b": "''"},
    {"by_x": "x TYPE minmax GRANULARITY 1"},
    "a table",
)
HAS = DatabaseSchema({"t": TABLE}, {"v": "VIEW 1"}, {"t_copy": "SELECT x"}, {"fp": "FUNCTION 1"})
DECLARED = {
    "fp": "CREATE OR REPLACE FUNCTION fp",
    "t": "CREATE TABLE IF NOT EXISTS t",
    "t_copy": "CREATE MATERIALIZED VIEW IF NOT EXISTS t_copy TO u AS\nSELECT y",
    "v": "CREATE OR REPLACE VIEW v",
}


def table(**changes: Any) -> DatabaseSchema:
    """The schema with another table."""
    return replace(HAS, tables={"t": replace(TABLE, **changes)})


def columns(**changes: ColumnSchema) -> DatabaseSchema:
    return table(columns={**TABLE.columns, **changes})


def test_equal_schemas_have_no_difference() -> None:
    """Nothing to write, nothing to refuse."""
    assert difference(HAS, HAS, DECLARED) == Difference()


def test_from_nothing_everything_is_made_as_declared() -> None:
    """In the order of the declaration."""
    assert difference(DatabaseSchema(), HAS, DECLARED).statements == tuple(DECLARED.values())


@pytest.mark.parametrize(
    ("wanted", "statement"),
    [
        pytest.param(
            columns(z=ColumnSchema("Int8", "DEFAULT 1", "LZ4", "it's 5 $")),
            "ALTER TABLE t\n    ADD COLUMN IF NOT EXISTS z Int8 DEFAULT 1 CODEC(LZ4) COMMENT 'it\\'s 5 $$' AFTER y",
            id="a column, behind the one before it",
        ),
        pytest.param(
            table(columns={"w": X, **TABLE.columns}),
            "ALTER TABLE t\n    ADD COLUMN IF NOT EXISTS w Int64 CODEC(ZSTD(1)) COMMENT 'a number' FIRST",
            id="a column before all",
        ),
        pytest.param(
            columns(x=replace(X, type="Int128")),
            "ALTER TABLE t\n    MODIFY COLUMN x Int128 CODEC(ZSTD(1)) COMMENT 'a number'",
            id="a wider type",
        ),
        pytest.param(
            columns(x=replace(X, codec="")),
            "ALTER TABLE t\n    MODIFY COLUMN x REMOVE CODEC,\n    MODIFY COLUMN x Int64 COMMENT 'a number'",
            id="no codec any more",
        ),
        pytest.param(
            table(indexes={"by_x": "x TYPE set(9)"}),
            "ALTER TABLE t\n    DROP INDEX IF EXISTS by_x,\n    ADD INDEX IF NOT EXISTS by_x x TYPE set(9)",
            id="another index",
        ),
        pytest.param(table(settings={"a": "2", "b": "''"}), "ALTER TABLE t\n    MODIFY SETTING a = 2", id="a setting"),
        pytest.param(table(settings={"a": "1"}), "ALTER TABLE t\n    RESET SETTING b", id="a setting less"),
        pytest.param(table(comment="other"), "ALTER TABLE t\n    MODIFY COMMENT 'other'", id="a comment"),
        pytest.param(replace(HAS, views={"v": "VIEW 2"}), DECLARED["v"], id="a view"),
        pytest.param(replace(HAS, functions={"fp": "FUNCTION 2"}), DECLARED["fp"], id="a function"),
        pytest.param(
            replace(HAS, copies={"t_copy": "SELECT y"}), "ALTER TABLE t_copy\n    MODIFY QUERY SELECT y", id="a filling"
        ),
        pytest.param(replace(HAS, views={}), "DROP VIEW IF EXISTS v", id="a view less"),
    ],
)
def test_a_difference_is_one_statement(wanted: DatabaseSchema, statement: str) -> None:
    """Safe to repeat, with dollar signs as placeholders need them."""
    declared = {name: text for name, text in DECLARED.items() if name != "v" or wanted.views}

    assert difference(HAS, wanted, declared) == Difference((statement,))


def test_a_table_is_altered_before_what_reads_it() -> None:
    """Views come behind the columns that they show."""
    wanted = replace(columns(z=X), views={"v": "VIEW 2"}, functions={"fp": "FUNCTION 2"})

    statements = difference(HAS, wanted, DECLARED).statements

    assert [text.split("\n")[0] for text in statements] == [DECLARED["fp"], "ALTER TABLE t", DECLARED["v"]]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        pytest.param(replace(HAS, tables={}), "table t is not declared any more", id="a table less"),
        pytest.param(table(columns={"x": X}), "column y of t is not declared any more", id="a column less"),
        pytest.param(
            columns(x=replace(X, type="Int32")), "column x of t cannot become Int32 from Int64", id="narrower"
        ),
        pytest.param(
            table(fixed={**TABLE.fixed, "sorting key": "x, y"}),
            "the sorting key of t cannot be altered from x to x, y",
            id="another key",
        ),
    ],
)
def test_what_would_lose_rows_or_values_is_refused(wanted: DatabaseSchema, words: str) -> None:
    """With the reason and what to do instead."""
    declared = {name: text for name, text in DECLARED.items() if name != "t" or wanted.tables}

    (why,) = difference(HAS, wanted, declared).refused

    assert why.startswith(words)
    assert "eclare" in why or "Add a column" in why


@pytest.mark.parametrize(
    ("had", "wanted", "fits"),
    [
        ("Int64", "Int64", True),
        ("Int64", "Int128", True),
        ("UInt32", "Int64", True),
        ("UInt32", "Int32", False),
        ("UInt64", "Int64", False),
        ("Int32", "UInt64", False),
        ("Int64", "Float64", False),
        ("Int64", "Nullable(Int128)", True),
        ("Nullable(Int64)", "Int64", False),
        ("String", "LowCardinality(String)", True),
        ("LowCardinality(String)", "String", True),
        ("LowCardinality(Nullable(String))", "LowCardinality(String)", False),
        ("Map(Int16, UInt64)", "Map(Int32, UInt64)", True),
        ("Map(Int16, UInt64)", "Map(Int16, UInt32)", False),
        ("SimpleAggregateFunction(max, Int64)", "SimpleAggregateFunction(max, Int128)", True),
        ("SimpleAggregateFunction(max, Int64)", "SimpleAggregateFunction(min, Int64)", False),
        ("Array(Tuple(Int64, String))", "Array(Tuple(Int128, String))", True),
        ("String", "Int64", False),
    ],
)
def test_a_type_widens_where_every_value_stays_the_same(had: str, wanted: str, *, fits: bool) -> None:
    """Also inside of others."""
    assert widens(had, wanted) == fits
