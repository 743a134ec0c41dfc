"""What a database needs, by what it is. The statements run in tests/integration/test_migrate.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetpulse.migrate.plan import ApplyFile, Plan, Restore, SetTtl
from fleetpulse.migrate.table_plan import OLD_FILES, LiveDatabase, LiveTable, Wanted, check_engines, plan_tables
from schemas.ddl import views
from schemas.ddl.files import Migration, Names
from schemas.ddl.kept import Kept
from schemas.errors import ContractError
from schemas.limits import DAY_MS

BASELINE = Migration(
    1, "baseline", "CREATE TABLE IF NOT EXISTS t (x UInt8);\n\nCREATE OR REPLACE VIEW v AS SELECT 1;\n"
)
ADDED = Migration(
    2,
    "add_y",
    "ALTER TABLE t\n    ADD COLUMN IF NOT EXISTS y UInt8;\n\nCREATE OR REPLACE VIEW v AS SELECT 2;\n\n"
    "INSERT INTO t SELECT 1;\n",
)
KEPT = Kept("t", "at_ms", 7 * DAY_MS)
WANTED = Wanted(
    (BASELINE, ADDED), "ALTER TABLE t\n    MODIFY COLUMN x UInt16;\n", (KEPT,), {"0001_baseline.sql", "0002_add_y.sql"}
)
DONE = LiveDatabase(
    "db",
    {"t": LiveTable(KEPT.ttl, rows=3), "migrations": LiveTable()},
    frozenset({"v"}),
    applied={one.number: (one.name, one.checksum) for one in WANTED.files},
)


def noted(one: Migration) -> tuple[int, str, str]:
    return (one.number, one.name, one.checksum)


def test_a_migrated_database_needs_nothing() -> None:
    """Neither steps nor notes."""
    assert plan_tables(DONE, WANTED) == Plan()


@pytest.mark.parametrize("live", [DONE, LiveDatabase("db")], ids=["migrated", "empty"])
def test_a_function_p_of_somebody_else_stays_and_is_noted(live: LiveDatabase) -> None:
    """Functions belong to the server: none of ours is made in its place, and people read what to write instead."""
    wanted = replace(WANTED, at_once=("CREATE TABLE t (x UInt8)",))
    theirs = replace(live, functions={"p": "CREATE FUNCTION p AS x -> (x * 2)"})
    ours = replace(live, functions={"p": f"CREATE FUNCTION p AS (q, bins) -> {views.P_BODY}"})
    (says,) = plan_tables(theirs, wanted).notes

    assert "fp_quantile_linear(q, sumMap(bins))" in says
    assert plan_tables(ours, wanted).notes == plan_tables(live, wanted).notes == ()
    assert plan_tables(theirs, wanted).steps == plan_tables(live, wanted).steps
    (made,) = [text for text in views.functions() if " p AS " in text]
    assert made.startswith("CREATE FUNCTION IF NOT EXISTS p AS ")


def test_an_empty_database_gets_every_file_in_order() -> None:
    """And the time for which rows are kept, which no file has."""
    assert plan_tables(LiveDatabase("db"), WANTED).steps == (
        ApplyFile("0001_baseline.sql", BASELINE.statements, noted(BASELINE)),
        ApplyFile("0002_add_y.sql", ADDED.statements, noted(ADDED)),
        SetTtl(KEPT, None, 0),
    )


@pytest.mark.parametrize("tables", [{}, {"migrations": LiveTable()}], ids=["nothing", "an empty history"])
def test_an_empty_database_is_made_at_once(tables: dict[str, LiveTable]) -> None:
    """Of what all files make together; each is noted, the first once everything is there."""
    wanted = replace(WANTED, at_once=("CREATE TABLE t (x UInt8, y UInt8) TTL at_ms", "CREATE VIEW v AS SELECT 2"))

    found = plan_tables(LiveDatabase("db", tables), wanted)

    assert found.steps == (
        ApplyFile(
            "0001_baseline.sql",
            wanted.at_once,
            noted(BASELINE),
            "the database is empty: all tables and views as the last file leaves them",
        ),
        ApplyFile("0002_add_y.sql", (), noted(ADDED), "made with the first file"),
    )


@pytest.mark.parametrize(
    "live",
    [
        LiveDatabase("db", {"t": LiveTable()}),
        LiveDatabase("db", views=frozenset({"v"})),
        LiveDatabase("db", old=frozenset(range(1, OLD_FILES + 1))),
        replace(DONE, applied={1: DONE.applied[1]}),
    ],
    ids=["a table of somebody", "a view of somebody", "0.1.0", "a file applied"],
)
def test_what_holds_something_is_never_made_at_once(live: LiveDatabase) -> None:
    """The files bring it to what is wanted."""
    wanted = replace(WANTED, at_once=("CREATE TABLE t (x UInt8, y UInt8)",))

    assert plan_tables(live, wanted) == plan_tables(live, WANTED)


def test_only_files_that_are_missing_are_applied() -> None:
    """Those that were applied are not read again."""
    live = replace(DONE, applied={1: DONE.applied[1]})

    assert [step.subject for step in plan_tables(live, WANTED).steps] == ["0002_add_y.sql"]


def test_a_changed_file_is_refused() -> None:
    """The text says which fleetpulse to run, and that nothing was changed."""
    live = replace(DONE, applied={**DONE.applied, 2: ("add_y", "0" * 64)})

    with pytest.raises(ContractError, match=r"0002_add_y\.sql was applied to database db with another text"):
        plan_tables(live, WANTED)


def test_a_changed_file_that_no_release_has_runs_again() -> None:
    """On the databases of those who develop it; its statements are safe to repeat."""
    live = replace(DONE, applied={**DONE.applied, 2: ("add_y", "0" * 64)})

    (step,) = plan_tables(live, replace(WANTED, released={"0001_baseline.sql"})).steps

    assert isinstance(step, ApplyFile)
    assert (step.subject, step.noted) == ("0002_add_y.sql", noted(ADDED))


def test_a_database_of_0_1_0_is_brought_behind_the_baseline_by_its_own_file() -> None:
    """Later files follow as for everybody; the history of 0.1.0 stays where it is."""
    live = LiveDatabase("db", {"t": LiveTable(KEPT.ttl, 3)}, frozenset({"v"}), old=frozenset(range(1, 24)))

    steps = plan_tables(live, WANTED).steps

    assert [(step.subject, len(step.statements)) for step in steps if isinstance(step, ApplyFile)] == [
        ("upgrade/0.1.0.sql", 1),
        ("0002_add_y.sql", 3),
    ]
    assert isinstance(steps[0], ApplyFile)
    assert steps[0].noted == noted(BASELINE)
    assert len(steps) == 2


def test_a_database_that_0_1_0_did_not_finish_is_refused() -> None:
    """Its own files made tables that nobody else makes."""
    live = LiveDatabase("db", old=frozenset(range(1, OLD_FILES)))

    with pytest.raises(ContractError, match=r"only up to file 20 of 21: run `fleetpulse migrate` of 0\.1\.0"):
        plan_tables(live, WANTED)


def test_a_database_of_a_newer_fleetpulse_is_left_as_it_is() -> None:
    """After a roll-back of processes: its tables have all that this version needs."""
    live = replace(DONE, applied={**DONE.applied, 3: ("later", "x")}, views=frozenset())

    assert plan_tables(live, WANTED) == Plan(
        notes=("database db knows migration 3 of a newer fleetpulse: no file is applied",)
    )


def test_what_somebody_dropped_is_made_again_by_all_statements_about_it() -> None:
    """In their order, so that a view has its last text; rows that a file moved are not moved again."""
    live = replace(DONE, tables={}, views=frozenset())

    assert plan_tables(live, WANTED).steps == (
        Restore("t", (BASELINE.statements[0], ADDED.statements[0]), holds_rows=True),
        Restore("v", (BASELINE.statements[1], ADDED.statements[1]), holds_rows=False),
        SetTtl(KEPT, None, 0),
    )


@pytest.mark.parametrize(
    ("ttl", "rows", "step"),
    [
        pytest.param(replace(KEPT, kept_ms=3 * DAY_MS).ttl, 5, SetTtl(KEPT, 3 * DAY_MS, 5), id="shorter than wanted"),
        pytest.param(replace(KEPT, kept_ms=8 * DAY_MS).ttl, 5, SetTtl(KEPT, 8 * DAY_MS, 5), id="longer than wanted"),
        pytest.param("toDateTime(intDiv(at_ms, 1000)) + toIntervalDay(7)", 5, None, id="the same in days"),
        pytest.param("", 5, SetTtl(KEPT, None, 5), id="none"),
        pytest.param(
            "toDateTime(intDiv(x, 1000)) + toIntervalDay(7)", 5, SetTtl(KEPT, 7 * DAY_MS, 5), id="another time"
        ),
    ],
)
def test_a_ttl_is_brought_to_the_limits(ttl: str, rows: int, step: SetTtl | None) -> None:
    """As the server writes it."""
    live = replace(DONE, tables={**DONE.tables, "t": LiveTable(ttl, rows)})

    assert plan_tables(live, WANTED).steps == ((step,) if step else ())


@pytest.mark.parametrize("had", [True, False])
@pytest.mark.parametrize("wanted", [True, False, None])
def test_how_rows_go_is_brought_to_the_limits(*, had: bool, wanted: bool | None) -> None:
    """Where the limits say so, also of a table whose TTL is as it should be."""
    kept = replace(KEPT, whole_parts=wanted)
    live = replace(DONE, tables={**DONE.tables, "t": LiveTable(KEPT.ttl, 5, had)})

    steps = plan_tables(live, replace(WANTED, kept=(kept,))).steps

    assert steps == (() if wanted in (had, None) else (SetTtl(kept, 7 * DAY_MS, 5),))
    assert [step.removes for step in steps] == [False] * len(steps)


@pytest.mark.parametrize(
    ("had_ms", "rows", "removes"),
    [(8 * DAY_MS, 5, True), (None, 5, True), (8 * DAY_MS, 0, False), (6 * DAY_MS, 5, False)],
    ids=["longer before", "for ever before", "no rows", "shorter before"],
)
def test_a_shorter_ttl_removes_rows_where_there_are_any(had_ms: int | None, rows: int, removes: bool) -> None:
    """Only then consent is needed."""
    assert SetTtl(KEPT, had_ms, rows).removes == removes


def test_a_ttl_that_somebody_wrote_is_left() -> None:
    """Rows that move to other disks, for example."""
    ttl = "toDateTime(intDiv(at_ms, 1000)) + toIntervalDay(2) TO VOLUME 'cold'"
    live = replace(DONE, tables={**DONE.tables, "t": LiveTable(ttl, 5)})

    assert plan_tables(live, WANTED) == Plan(notes=(f"table t has a TTL of its own, which is left as it is: {ttl}",))


SHARDS, REPLICAS = Names("db", "c"), Names("db", engine_prefix="Replicated")
PLAIN, COPIED = "ReplacingMergeTree", "ReplicatedReplacingMergeTree"


@pytest.mark.parametrize(
    ("names", "database", "tables", "why"),
    [
        pytest.param(Names("db"), "Atomic", {"t": "Distributed", "t_local": PLAIN}, "set clickhouse.cluster", id="one"),
        pytest.param(SHARDS, "Atomic", {"t": PLAIN}, "set clickhouse.database to a new database", id="shards"),
        pytest.param(Names("db"), "Replicated", {}, "set clickhouse.engine_prefix to Replicated", id="rows of one"),
        pytest.param(REPLICAS, "Atomic", {}, "database db is of engine Atomic", id="statements of one"),
        pytest.param(REPLICAS, "Replicated", {"t": PLAIN}, "table t is not replicated", id="made before"),
    ],
)
def test_tables_of_another_kind_than_the_settings_say_are_refused(
    names: Names, database: str, tables: dict[str, str], why: str
) -> None:
    """Before anything is changed: rows would be on one server, and nobody would see it."""
    with pytest.raises(ContractError, match=why):
        check_engines(names, database, tables)


@pytest.mark.parametrize(
    ("names", "database", "tables"),
    [
        pytest.param(Names("db"), "Atomic", {"t": PLAIN, "v": "View"}, id="one server"),
        pytest.param(Names("db"), "Replicated", {"t": "SharedReplacingMergeTree"}, id="ClickHouse Cloud"),
        pytest.param(Names("db"), "Shared", {}, id="ClickHouse Cloud, empty"),
        pytest.param(SHARDS, "Atomic", {"t": "Distributed", "t_local": PLAIN}, id="shards"),
        pytest.param(REPLICAS, "Replicated", {"t": COPIED}, id="replicas"),
        pytest.param(replace(REPLICAS, cluster="c"), "Replicated", {"t": "Distributed", "t_local": COPIED}, id="both"),
    ],
)
def test_tables_as_the_settings_say_are_taken(names: Names, database: str, tables: dict[str, str]) -> None:
    """Every way to run ClickHouse that is documented."""
    check_engines(names, database, tables)
