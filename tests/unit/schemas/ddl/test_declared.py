"""What is declared of the database, and that the files make it. They run in tests/integration/test_migrations.py.

Covers schemas.ddl.columns and schemas.ddl.packing.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from schemas.ddl.declared import declared, made
from schemas.ddl.files import migrations
from schemas.ddl.merging import LEVELS, measures_of
from schemas.ddl.stored import LANDED, RAW
from schemas.ddl.tables import raw
from schemas.events.event_types import EVENTS, LLM_REQUESTS

DECLARED = declared()
DESCRIBED = [name for name, text in DECLARED.items() if made(text)[0] in ("table", "view")]
_COLUMN = re.compile(r"^    (?!INDEX )(\w+) (.+?)(?: CODEC\(.+\))? COMMENT '", re.MULTILINE)


def test_every_column_has_a_comment() -> None:
    """Each column of each table and view says what it is, and so does the table."""
    for name in DESCRIBED:
        columns = DECLARED[name].split("\n(\n", 1)[1].split("\n)\n", 1)[0].split("\n")

        assert [line for line in columns if not re.search(r"^    INDEX | COMMENT '.{3,}'", line)] == [], name
        assert re.search(r"\nCOMMENT '.+'$", DECLARED[name]), name


def test_every_declared_column_is_made_by_a_file() -> None:
    """A field that was added without a migration is in no file: run `make migration NAME=what_it_adds`."""
    statements = [text for one in migrations() for text in one.statements]
    missing = []
    for name in (name for name, text in DECLARED.items() if made(text)[0] == "table"):
        about = "\n".join(text for text in statements if re.match(rf"(?:CREATE|ALTER) TABLE .*\b{name}\b", text))
        missing += [
            f"{name}.{column} {kind}"
            for column, kind in _COLUMN.findall(DECLARED[name])
            if f" {column} {kind}" not in about
        ]

    assert missing == []


def test_tables_have_no_ttl() -> None:
    """How long rows are kept is a setting, not part of a file that never changes."""
    assert [name for name, text in DECLARED.items() if "\nTTL " in text] == []


def test_of_copies_of_an_event_the_first_in_the_log_has_the_greatest_version() -> None:
    """ReplacingMergeTree keeps the greatest version: all bits of the offset turned round."""
    statement = raw(LLM_REQUESTS)

    assert " first UInt64 MATERIALIZED bitNot(offset)" in statement
    assert "ReplacingMergeTree(first)" in statement
    assert "ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)" in statement


def test_every_column_of_a_partial_row_is_a_key_or_merges() -> None:
    """What is neither a label nor the window has a rule by which it merges."""
    for event in EVENTS:
        table = next(table for schema, table in LANDED.items() if schema.startswith(event.topic.replace(".", "_")))
        merged = {measure.name for measure in measures_of(event)}

        rest = {f.name for f in table.fields if not f.kind.value.startswith("LowCardinality")} - merged
        assert rest == {
            "window_ms",
            "source_partition",
            "source_offset_to",
            "log_partition",
            "log_offset",
            "log_row",
        }, event.topic


@pytest.mark.parametrize(
    ("table", "column", "codec"),
    [
        ("llm_requests", "e2e_us", "T64, LZ4"),
        ("llm_requests", "input_tokens", "T64, LZ4"),
        ("llm_requests", "itl_bins", "T64, ZSTD(1)"),
        ("llm_requests", "at_ms", "Delta(8), ZSTD(1)"),
        ("llm_requests", "seq", "Delta(8), ZSTD(1)"),
        ("llm_requests", "tenant", "ZSTD(1)"),
        ("llm_requests", "request_id", "ZSTD(1)"),
        ("llm_requests_partials", "e2e_us_sum", "T64, LZ4"),
        ("gpu_samples", "power_mw", "ZSTD(1)"),
        ("llm_requests_rollup_1m", "ttft_us_bins", "LZ4"),
        ("llm_requests_rollup_1m", "ttft_us_sum", "ZSTD(1)"),
    ],
)
def test_columns_are_packed_by_what_they_hold(table: str, column: str, codec: str) -> None:
    """Numbers and sketches of requests have codecs of their own, and so have sketches of rollups."""
    assert re.search(rf"^    {column} .*CODEC\({re.escape(codec)}\) COMMENT", DECLARED[table], re.MULTILINE)


def test_raw_tables_know_source_partition_and_offset() -> None:
    """A raw row can be found again in the log."""
    assert all({"partition", "offset", "source", "boot", "seq"} <= {f.name for f in t.fields} for t in RAW.values())


def test_buckets_of_a_level_lie_within_those_above() -> None:
    """A minute belongs to one hour, an hour to one day."""
    for finer, coarser in pairwise(LEVELS):
        assert coarser.bucket_ms % finer.bucket_ms == 0
        assert coarser.below == finer.name
    assert LEVELS[1].bucket_of(3_600_000 * 7 + 1) == 3_600_000 * 7


@pytest.mark.parametrize(
    ("statement", "kind", "name"),
    [
        ("CREATE TABLE IF NOT EXISTS books\n(", "table", "books"),
        ("CREATE OR REPLACE VIEW costs\n(", "view", "costs"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS a_copy TO a AS", "materialized view", "a_copy"),
        ("CREATE OR REPLACE FUNCTION fp AS (q) -> q", "function", "fp"),
        ("ALTER TABLE books ADD COLUMN x UInt8", "", ""),
    ],
)
def test_what_a_statement_makes_is_read_from_its_head(statement: str, kind: str, name: str) -> None:
    """Kind and name."""
    assert made(statement) == (kind, name)
