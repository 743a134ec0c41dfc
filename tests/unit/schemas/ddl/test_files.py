"""The numbered files: how they are read, that they are safe to repeat, and that released ones never change."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from schemas.ddl.files import FOLDER, Migration, Names, migrations, released, statements_of, text_of

REPEATABLE = re.compile(
    r"CREATE (TABLE|FUNCTION|MATERIALIZED VIEW) IF NOT EXISTS |CREATE OR REPLACE (VIEW|FUNCTION) |"
    r"DROP VIEW IF EXISTS |INSERT INTO |ALTER TABLE \w+\s+(MODIFY |RESET SETTING |ADD (COLUMN|INDEX) IF NOT EXISTS |"
    r"DROP INDEX IF EXISTS )"
)


def test_numbers_rise_without_a_gap() -> None:
    """Files are applied in order, so their numbers are the order."""
    assert [one.number for one in migrations()] == list(range(1, len(migrations()) + 1))


def test_every_statement_is_safe_to_repeat() -> None:
    """A migration that was killed between two statements runs again from its first."""
    files = [*(one.text for one in migrations()), (FOLDER / "upgrade" / "0.1.0.sql").read_text()]
    statements = [text for one in files for text in statements_of(one)]

    assert [text[:80] for text in statements if not REPEATABLE.match(text)] == []


def test_no_statement_drops_rows() -> None:
    """Tables and columns stay."""
    found = re.compile(r"^(DROP TABLE|TRUNCATE|DELETE)|DROP (COLUMN|PARTITION)|CLEAR COLUMN", re.MULTILINE)

    assert [one.file_name for one in migrations() if found.search(one.text)] == []


def test_a_released_file_never_changes() -> None:
    """What a release applied somewhere is what every later release ships."""
    texts = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*.sql")}

    assert {name: sha256(texts[name]).hexdigest() for name in released() if name in texts} == released()


def test_a_release_lists_every_file() -> None:
    """While the changelog begins with unreleased changes, files of these may still change."""
    headings = re.findall(r"^## (.+)$", (Path(__file__).parents[4] / "CHANGELOG.md").read_text(), re.MULTILINE)
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.sql")}

    assert "unreleased" in headings[0] or set(released()) == files


def test_checksums_of_released_files_are_read_from_their_list(tmp_path: Path) -> None:
    """In the form that `sha256sum` writes and checks."""
    list_ = tmp_path / "released.sha256"
    list_.write_text(f"{'a' * 64}  0001_baseline.sql\n{'b' * 64}  upgrade/0.1.0.sql\n")

    assert released(list_) == {"0001_baseline.sql": "a" * 64, "upgrade/0.1.0.sql": "b" * 64}


def test_statements_end_with_a_semicolon_at_the_end_of_a_line() -> None:
    """Comments are left out; a semicolon within a line is text."""
    text = "-- why\nSELECT 'a;b';\n\n-- and\nSELECT 2\nFROM t;\n"

    assert statements_of(text) == ("SELECT 'a;b'", "SELECT 2\nFROM t")
    assert statements_of(text_of(statements_of(text))) == statements_of(text)


def test_names_are_filled_in_and_checksums_are_of_the_text_before() -> None:
    """The same file has the same checksum on one server and on a cluster."""
    one = Migration(2, "add_x", "CREATE TABLE t ENGINE = ${engine_prefix}MergeTree COMMENT '5 $$, {x}';\n")
    (statement,) = one.statements

    assert Names("db").fill(statement) == "CREATE TABLE t ENGINE = MergeTree COMMENT '5 $, {x}'"
    assert Names("db", engine_prefix="Replicated").fill(statement).split()[5] == "ReplicatedMergeTree"
    assert one.checksum == sha256(one.text.encode()).hexdigest()


def test_a_placeholder_that_nobody_fills_in_is_an_error() -> None:
    """Not an empty text in a statement."""
    with pytest.raises(KeyError):
        Names("db").fill("SELECT ${nothing}")


def test_files_are_read_in_order(tmp_path: Path) -> None:
    """By number; the name is the rest."""
    for name in ("0002_add_x.sql", "0001_baseline.sql"):
        (tmp_path / name).write_text("SELECT 1;\n")

    assert [(one.number, one.name, one.file_name) for one in migrations(tmp_path)] == [
        (1, "baseline", "0001_baseline.sql"),
        (2, "add_x", "0002_add_x.sql"),
    ]
