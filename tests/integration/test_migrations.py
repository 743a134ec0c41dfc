"""The files in schemas/migrations on a real server: they make what is declared, from nothing and from 0.1.0."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.migrate import tables, write
from fleetpulse.migrate.difference import Difference, difference
from fleetpulse.migrate.plan import ApplyFile
from fleetpulse.migrate.schema import DatabaseSchema
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas import sketch
from schemas.ddl.declared import declared, made
from schemas.ddl.files import Names, migrations, statements_of, text_of
from schemas.errors import ContractError
from schemas.limits import DEFAULT_LIMITS
from tests.conftest import own_database

pytestmark = pytest.mark.integration

RELEASE = Path(__file__).parents[1] / "data" / "releases" / "0.1.0"
"""The files of 0.1.0, as its `migrate` executed them."""
HINT = "files and declaration differ: make migration NAME=what_it_changes (see CONTRIBUTING.md)"
ROWS = 200
DIRTY = "CREATE TABLE IF NOT EXISTS dirty_windows"


@pytest.fixture
def wanted(clickhouse: Any) -> DatabaseSchema:
    """The schema of what is declared."""
    return write.schema_of(clickhouse, list(declared().values()))


def test_the_files_make_what_is_declared(clickhouse: Any, wanted: DatabaseSchema) -> None:
    """Whoever changes a field writes a migration, too."""
    has = write.schema_of(clickhouse, [text for one in migrations() for text in one.statements])

    assert difference(has, wanted, declared()) == Difference(), HINT


def test_a_database_of_0_1_0_gets_the_schema_of_a_new_one(clickhouse: Any) -> None:
    """Behind the baseline, where later files go on."""
    baseline = migrations()[0].statements
    old = [text for one in migrations(RELEASE) for text in one.statements]
    upgrade = statements_of(tables.UPGRADE.read_text())

    made_new = write.schema_of(clickhouse, baseline)
    found = difference(write.schema_of(clickhouse, [*old, *upgrade]), made_new, declared())

    assert found == Difference(), HINT


def test_what_is_written_makes_what_is_declared(
    clickhouse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column, an index, a setting, a table and a view at once; applied, nothing differs."""
    (tmp_path / "released.sha256").write_text("")
    for one in migrations():
        (tmp_path / one.file_name).write_text(one.text)
    changed = declared()
    changed["books"] = changed["books"].replace("\n    INDEX", "\n    extra Int64 COMMENT 'more',\n    INDEX")
    changed["usage"] = changed["usage"].replace("\n)\nENGINE", ",\n    INDEX w window_ms TYPE minmax\n)\nENGINE")
    changed["rejected"] = changed["rejected"].replace("ttl_only_drop_parts = 1", "ttl_only_drop_parts = 0")
    changed["dirty_more"] = changed["dirty_windows"].replace(DIRTY, "CREATE TABLE IF NOT EXISTS dirty_more")
    changed["alert_history"] = (
        changed["alert_history"].replace("'fingerprint", "'print", 1).replace("id of", "the id of")
    )
    monkeypatch.setattr(write, "declared", lambda: changed)

    path = write.write(clickhouse, "change_much", tmp_path)

    assert path == tmp_path / f"{len(migrations()) + 1:04d}_change_much.sql"
    heads = [text.split("\n")[0] for text in statements_of(path.read_text())]
    assert {"ALTER TABLE books", "ALTER TABLE usage", "ALTER TABLE rejected"} <= set(heads)
    assert {"CREATE TABLE IF NOT EXISTS dirty_more", "CREATE OR REPLACE VIEW alert_history"} <= set(heads)
    assert len(heads) == 5
    assert write.compared(clickhouse, migrations(tmp_path)) == Difference()
    assert write.write(clickhouse, "nothing_more", tmp_path) is None


def test_a_file_that_no_release_has_is_written_again(
    clickhouse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its name, until it is listed as released."""
    notes = {"dirty_windows": declared()["dirty_windows"]}
    monkeypatch.setattr(write, "declared", lambda: notes)
    (tmp_path / "released.sha256").write_text("")
    first = write.write(clickhouse, "baseline", tmp_path)
    again = write.write(clickhouse, "baseline", tmp_path)
    assert first == again == tmp_path / "0001_baseline.sql"
    assert statements_of(first.read_text()) == (notes["dirty_windows"],)

    (tmp_path / "released.sha256").write_text(f"{'0' * 64}  0001_baseline.sql\n")
    notes["dirty_windows"] = (
        notes["dirty_windows"].replace("noted UInt64", "noted Int64").replace("'level", "'the level")
    )
    notes["dirty_windows"] = notes["dirty_windows"].replace("rollup level to compute", "level to compute")
    assert write.write(clickhouse, "baseline", tmp_path) == tmp_path / "0002_baseline.sql"


def test_what_would_lose_values_is_not_written(
    clickhouse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text names the column; no file appears."""
    notes = {"dirty_windows": declared()["dirty_windows"]}
    (tmp_path / "released.sha256").write_text("")
    (tmp_path / "0001_baseline.sql").write_text(text_of(notes.values()))
    narrow = notes["dirty_windows"].replace("window_ms Int64", "window_ms Int32")
    monkeypatch.setattr(write, "declared", lambda: {"dirty_windows": narrow})

    with pytest.raises(ContractError, match="column window_ms of dirty_windows cannot become Int32 from Int64"):
        write.write(clickhouse, "narrower", tmp_path)
    assert [path.name for path in sorted(tmp_path.glob("*.sql"))] == ["0001_baseline.sql"]


SKEWED = "(CAST(map(320, 99, 640, 1), 'Map(Int16, UInt64)'))"
"""99 values of 1 ms and one of 1 s: percentile 99.5 of a hundred lies between both."""


def test_two_releases_on_one_server_keep_their_numbers(clickhouse: Any, stack: Any) -> None:
    """Functions belong to the server and 0.1.0 makes its own again: whichever was migrated last, views and functions
    of each say what they said."""
    asked = f"SELECT fp_quantile(0.995, {SKEWED}), fp_quantile_linear(0.995, {SKEWED}), p(0.995, {SKEWED})"
    view = "SELECT ttft_us_p99, fp_quantiles([0.99], ttft_us_bins)[1] FROM request_windows"
    row = (
        "INSERT INTO llm_requests_partials (grouping, window_ms, ttft_us_bins)"
        " SELECT 'service', toUnixTimestamp64Milli(now64(3)), map(320, 67, 640, 1)"
    )
    concerned = {"fp_quantile", "fp_quantiles", "fp_quantile_linear", "p", "llm_requests_partials", "request_windows"}
    with own_database(stack) as config, contextlib.closing(connect(config)) as new:
        older = [text for one in migrations(RELEASE) for text in one.statements]
        for texts, client in ((declared().values(), new), (older, clickhouse)):
            for statement in (text for text in texts if made(text)[1] in concerned):
                client.command(Names(str(client.database)).fill(statement))
            client.command(row)
            lower, linear, ours = new.query(asked).result_rows[0]
            assert lower == sketch.value_of(320)
            assert linear == ours == pytest.approx(sketch.quantile({320: 99, 640: 1}, 0.995))
        lowest, above = sketch.value_of(320), sketch.quantile({320: 67, 640: 1}, 0.99)

        assert clickhouse.query(view).result_rows == [(lowest, lowest)]
        assert new.query(view).result_rows == [(pytest.approx(above), lowest)]


@pytest.fixture
def old(clickhouse: Any) -> Any:
    """This test's database as 0.1.0 left it, with rows in every table."""
    for one in migrations(RELEASE):
        for statement in one.statements:
            clickhouse.command(statement)
    history = (
        "CREATE TABLE schema_migrations (number UInt32, name String, checksum String,"
        " applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'))"
        " ENGINE = ReplacingMergeTree(applied_at) ORDER BY number"
    )
    clickhouse.command(history)
    noted = [[one.number, one.name, secrets.token_hex(32)] for one in migrations(RELEASE)]
    clickhouse.insert("schema_migrations", noted, column_names=["number", "name", "checksum"])
    shown = clickhouse.query("SELECT name FROM system.tables WHERE database = currentDatabase()")
    had = {name for (name,) in shown.result_rows}
    for name, text in declared().items():
        if made(text)[0] == "table" and name in had:
            clickhouse.command(random_rows(clickhouse, name))
    return clickhouse


def random_rows(clickhouse: Any, table: str) -> str:
    """The statement that fills a table with rows of now; its own defaults fill in what it computes."""
    found = clickhouse.query(
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        " AND default_kind = ''",
        parameters={"table": table},
    ).result_rows
    structure = ", ".join(f"{name} {kind}" for name, kind in found)
    moments = ("at_ms", "window_ms", "minute_ms", "hour_ms", "committed_ms", "appended_ms")
    now = "toUnixTimestamp64Milli(now64(3)) - r.nth_row * 60000"
    picked = ", ".join(now if name in moments else f"r.{name}" for name, _ in found)
    quoted = structure.replace("'", "\\'")
    return (
        f"INSERT INTO {table} ({', '.join(name for name, _ in found)})\nSELECT {picked}\nFROM (SELECT *,"
        f" rowNumberInAllBlocks() AS nth_row FROM generateRandom('{quoted}', 1, 8, 3) LIMIT {ROWS}) AS r"
    )


def contents(clickhouse: Any, columns: dict[str, list[str]]) -> dict[str, Any]:
    """Number of rows and a checksum of all values, by table."""
    found = {}
    for table, names in columns.items():
        rows = ", ".join(f"toString({name})" for name in names)
        found[table] = clickhouse.query(f"SELECT count(), sum(cityHash64({rows})) FROM {table}").result_rows
    return found


def test_tables_of_0_1_0_are_upgraded_in_place_with_all_rows(
    old: Any, clickhouse_config: ClickHouseConfig, migrated: Callable[[], Any]
) -> None:
    """Every value of every row of every table, its history included; a second run finds nothing to do."""
    listed = old.query(
        "SELECT table, groupArray(name) FROM system.columns WHERE database = currentDatabase() AND table NOT IN"
        " (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%View') GROUP BY table"
    ).result_rows
    columns = dict(listed)
    before = contents(old, columns)
    assert {table for table, rows in before.items() if rows[0][0] == 0} == set()

    first = migrated()

    assert first.steps[0].subject == "upgrade/0.1.0.sql"
    assert [step.subject for step in first.steps if isinstance(step, ApplyFile)] == [
        "upgrade/0.1.0.sql",
        *(one.file_name for one in migrations()[1:]),
    ]
    assert contents(old, columns) == before
    assert migrated().empty
    applied = old.query("SELECT number, checksum FROM migrations FINAL ORDER BY number").result_rows
    assert applied == [(one.number, one.checksum) for one in migrations()]


@pytest.fixture
def migrated(clickhouse_config: ClickHouseConfig) -> Callable[[], Any]:
    """Migrate the tables of this test's database."""

    def run() -> Any:
        with tables.connect(clickhouse_config) as client:
            names = tables.names_of(clickhouse_config)
            plan = tables.plan(client, names, DEFAULT_LIMITS)
            tables.carry_out(client, names, plan.steps)
            return plan

    return run


def test_an_upgrade_that_was_killed_between_statements_runs_again(
    old: Any, clickhouse_config: ClickHouseConfig, migrated: Callable[[], Any]
) -> None:
    """Nothing is noted before its end."""
    names = Names(clickhouse_config.database)
    for statement in statements_of(tables.UPGRADE.read_text())[:3]:
        old.command(names.fill(statement))

    assert migrated().steps[0].subject == "upgrade/0.1.0.sql"
    assert migrated().empty
