"""The migrations on disk and what they say of every column. The statements run in tests/integration/test_ddl.py."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from schemas.ddl import FOLDER, Migration, migrations, write
from schemas.ddl_packing import statements as packing
from schemas.ddl_tables import raw
from schemas.events import EVENTS, LLM_REQUESTS
from schemas.fields import Event
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.merging import LEVELS, measures_of
from schemas.stored import LANDED, RAW, kept_of


def is_table(statement: str) -> bool:
    """Whether it makes a table or a view."""
    return statement.startswith(("CREATE TABLE", "CREATE OR REPLACE VIEW"))


CREATES = [text for migration in migrations() for text in migration.statements if is_table(text)]


def test_the_files_hold_what_the_field_tables_say() -> None:
    """schemas/migrations is what ``python -m schemas.ddl`` writes, no file more."""
    on_disk = {path.name: path.read_text() for path in FOLDER.glob("*.sql")}

    assert on_disk == {one.file_name: one.text for one in migrations()}


def test_writing_makes_the_files(tmp_path: Path) -> None:
    """Every migration becomes a file named by its number."""
    paths = write(tmp_path / "made")

    assert [path.name for path in paths] == [one.file_name for one in migrations()]
    assert paths[0].read_text() == migrations()[0].text


@pytest.mark.parametrize("statement", CREATES, ids=lambda text: text.split("\n")[0].split(" ")[-1])
def test_every_column_has_a_comment(statement: str) -> None:
    """Each column of each table and view says what it is, and so does the table."""
    columns = statement.split("\n(\n", 1)[1].split("\n)\n", 1)[0].split("\n")

    assert [line for line in columns if not re.search(r" COMMENT '.{3,}'", line)] == []
    assert re.search(r"\nCOMMENT '.+'$", statement)


def test_numbers_rise_without_a_gap() -> None:
    """Migrations are applied in order, so their numbers are the order."""
    assert [one.number for one in migrations()] == list(range(1, len(migrations()) + 1))


def test_only_functions_and_views_may_be_made_anew() -> None:
    """What holds data is never replaced."""
    assert {one.name for one in migrations() if one.replaceable} == {
        "functions",
        "views",
        "alert_views",
        "cost_views",
        "cost_late",
    }


def test_a_changed_statement_changes_the_checksum() -> None:
    """So that migrate sees a file that was edited after it was applied."""
    assert Migration(1, "x", ("SELECT 1",)).checksum != Migration(1, "x", ("SELECT 2",)).checksum


def test_of_copies_of_an_event_the_first_in_the_log_has_the_greatest_version() -> None:
    """ReplacingMergeTree keeps the greatest version: all bits of the offset turned round."""
    statement = raw(LLM_REQUESTS, DEFAULT_LIMITS)

    assert " first UInt64 MATERIALIZED bitNot(offset)" in statement
    assert "ReplacingMergeTree(first)" in statement
    assert "ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)" in statement


def test_limits_say_how_long_rows_are_kept() -> None:
    """A limit that differs from the default is in the statement, and the sink counts by the same one."""
    limits = Limits(raw_ttl_ms=3 * 86_400_000)

    assert "INTERVAL 259200 SECOND" in raw(LLM_REQUESTS, limits)
    assert kept_of("llm_requests", limits) == ("appended_ms", 259_200_000)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic)
def test_every_column_of_a_partial_row_is_a_key_or_merges(event: Event) -> None:
    """What is neither a label nor the window has a rule by which it merges."""
    table = next(table for schema, table in LANDED.items() if schema.startswith(event.topic.replace(".", "_")))
    merged = {measure.name for measure in measures_of(event)}

    rest = {f.name for f in table.fields if not f.kind.value.startswith("LowCardinality")} - merged
    assert rest == {"window_ms", "source_partition", "log_partition", "log_offset", "log_row"}


@pytest.mark.parametrize(
    ("column", "codec"),
    [
        ("e2e_us", "T64, LZ4"),
        ("input_tokens", "T64, LZ4"),
        ("itl_bins", "T64, ZSTD(1)"),
        ("at_ms", None),
        ("seq", None),
        ("tenant", None),
        ("request_id", None),
    ],
)
def test_numbers_and_sketches_are_packed_anew_and_what_rises_stays(column: str, codec: str | None) -> None:
    """Raw requests: columns that gain from differences, labels and texts keep the codec they were made with."""
    statement = next(one for one in packing() if one.startswith("ALTER TABLE llm_requests MODIFY COLUMN "))

    found = re.findall(rf"MODIFY COLUMN {column} CODEC\((.*?)\)(?:,|$)", statement)
    assert found == ([] if codec is None else [codec])


def test_raw_tables_know_source_partition_and_offset() -> None:
    """A raw row can be found again in the log."""
    assert all({"partition", "offset", "source", "boot", "seq"} <= {f.name for f in t.fields} for t in RAW.values())


def test_buckets_of_a_level_lie_within_those_above() -> None:
    """A minute belongs to one hour, an hour to one day."""
    for finer, coarser in pairwise(LEVELS):
        assert coarser.bucket_ms % finer.bucket_ms == 0
        assert coarser.below == finer.name
    assert LEVELS[1].bucket_of(3_600_000 * 7 + 1) == 3_600_000 * 7
