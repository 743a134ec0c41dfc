"""The dashboard's queries: headers, limits, which table a range reads, what may be bound."""

from __future__ import annotations

import re

import pytest

from fleetpulse.queries.dashboard import SECONDS_MAX, Value, names, query, read
from fleetpulse.queries.levels import Source
from schemas.ddl.slowest_hours import WINDOWS_UP_TO_MS
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS, MINUTE_MS

TEXT = """-- What it says.
-- param top: how many at most
-- param column: what is summed
-- reads gpu: gpu.samples 10s <= 15m, 1m <= 2h, 1d
-- rows: 10
SELECT sum({column:Identifier}), {bucket_ms:Int64} FROM {gpu:Identifier} WHERE host = {host:String} LIMIT {top:UInt32}
"""
VALUES: dict[str, Value] = {"top": 5, "column": "power_mw_sum", "host": "'; DROP TABLE x", "bucket_ms": 10_000}


def test_every_query_has_a_title_a_limit_and_says_what_it_needs() -> None:
    """And bounds what may come back: many rows by the query itself, few by the server's refusal."""
    for name in names():
        found = query(name)

        assert found.title.endswith("."), name
        assert found.rows_max > 0, name
        assert found.rows_max <= 100 or re.search(r"\bLIMIT\b", found.sql), name


def test_nothing_is_put_into_a_text() -> None:
    """Every place is a parameter that the server binds."""
    for name in names():
        rest = re.sub(r"\{\w+:[^{}]+\}", "", query(name).sql)

        assert not re.search(r"[{}]|%\(|%s|\$\w", rest), name


@pytest.mark.parametrize(
    ("span_ms", "table"),
    [
        (1, "gpu_samples_partials"),
        (15 * MINUTE_MS, "gpu_samples_partials"),
        (15 * MINUTE_MS + 1, "gpu_samples_rollup_1m"),
        (2 * HOUR_MS, "gpu_samples_rollup_1m"),
        (2 * HOUR_MS + 1, "gpu_samples_rollup_1d"),
        (400 * DAY_MS, "gpu_samples_rollup_1d"),
    ],
)
def test_the_table_follows_the_range(span_ms: int, table: str) -> None:
    """The finest whose bound the range keeps."""
    found = read("q", TEXT)

    assert found.values(VALUES, span_ms)["gpu"] == table
    assert f"FROM {table} WHERE" in found.at_levels(span_ms)


@pytest.mark.parametrize(("topic", "table"), [("books", "books_rollup_1h"), ("costs", "token_costs_rollup_1h")])
def test_books_and_costs_have_levels_too(topic: str, table: str) -> None:
    """From a minute on: what is finer is read from the lines and bills themselves."""
    source = Source(topic, (("1m", HOUR_MS), ("1h", None)))

    assert source.table(source.level(HOUR_MS + 1)) == table


def test_the_slowest_are_read_by_hours_beyond_the_range_of_which_pages_say_so() -> None:
    """A page says from which requests they are."""
    bounds = re.findall(r"\{from_ms:Int64\} (<=|>) (\d+)", query("slowest_of_windows").sql)

    assert bounds == [(">", str(WINDOWS_UP_TO_MS)), ("<=", str(WINDOWS_UP_TO_MS))]


def test_points_are_never_closer_than_rows() -> None:
    """A chart of ten-second points of daily rows would be full of gaps."""
    found = read("q", TEXT)

    assert [found.values(VALUES, span)["bucket_ms"] for span in (1, HOUR_MS, DAY_MS)] == [10_000, MINUTE_MS, DAY_MS]


def test_points_of_a_text_for_any_length_are_minutes_once_rows_of_10_s_are_gone() -> None:
    """A minute's requests in a point of 10 s would be six times their rate. The tables say which are gone: how long
    rows are kept is a setting, which no board can see."""
    grain = query("requests_over_time").grain_sql()

    assert "if((SELECT count() > 0 FROM llm_requests_rollup_1m WHERE window_ms >= {from_ms:Int64}" in grain
    assert grain.endswith("), 60000, 1))")
    assert "SELECT minOrNull(window_ms) FROM llm_requests_partials WHERE" in grain
    assert str(DEFAULT_LIMITS.partials_ttl_ms) not in grain
    assert "SELECT" not in query("cost_over_time").grain_sql()


def test_only_what_the_query_names_is_bound() -> None:
    """Names from a page are values, whatever they hold."""
    bound = read("q", TEXT).values({**VALUES, "other": 1}, 1)

    assert bound == {**VALUES, "gpu": "gpu_samples_partials"}


@pytest.mark.parametrize("column", ["power_mw_sum; DROP", "system.users", "", "x", "`power_mw_sum`"])
def test_an_identifier_must_be_a_column_of_the_field_tables(column: str) -> None:
    """The server would quote it; it still would be somebody's choice of a column."""
    with pytest.raises(ValueError, match="must be a column"):
        read("q", TEXT).values({**VALUES, "column": column}, 1)


def test_a_place_without_a_value_is_a_mistake_of_the_page() -> None:
    """Named."""
    with pytest.raises(KeyError, match="top"):
        read("q", TEXT).values({"column": "power_mw_sum", "host": "", "bucket_ms": 1}, 1)


def test_names_without_room_are_looked_for_in_every_grouping_set() -> None:
    """The doctor says that every value has its name, and the page shows none, where this query finds nothing."""
    assert {grouping.name for grouping in GROUPING_SETS} <= query("pipeline_overflow").groupings


def test_every_query_says_of_which_grouping_sets_it_reads_rows() -> None:
    """In words that are told from its text: a set of each topic of events that it reads, and none that there is not."""
    topics = {one.name: one.topic for one in GROUPING_SETS}
    for name in names():
        found = query(name)
        read_of = {source.topic.replace("gpu.history", "gpu.samples") for source in found.sources.values()}

        assert found.groupings <= set(topics), name
        assert read_of - {"books", "costs"} <= {topics[one] for one in found.groupings}, name
    assert query("joins").groupings == {"engine", "service", "gpu"}


def test_limits_go_to_the_server() -> None:
    """It stops what takes too long and what brings too much."""
    assert read("q", TEXT).settings() == {
        "max_execution_time": SECONDS_MAX,
        "max_result_rows": 10,
        "result_overflow_mode": "throw",
        "optimize_move_to_prewhere_if_final": 1,
    }


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        pytest.param("gpu.samples", "gpu.nothing", r"q\.sql:4: reads must name", id="an unknown topic"),
        pytest.param("10s <=", "5s <=", r"q\.sql:4: a level of gpu\.samples must be one of", id="an unknown level"),
        pytest.param("gpu.samples", "costs", r"q\.sql:4: a level of costs must be one of 1m", id="bills of windows"),
        pytest.param("10s <= 15m", "10s", r"q\.sql:4: every level but the last", id="a level without a bound"),
        pytest.param("1d\n", "1d <= 9d\n", r"q\.sql:4: every level but the last", id="a bound on the last level"),
        pytest.param("-- rows: 10\n", "", "without rows", id="no limit of rows"),
        pytest.param("-- rows: 10", "-- rows: many", r"q\.sql:5: ", id="a limit that is no number"),
        pytest.param("-- param top: how many at most\n", "", r"without \['top'\]", id="a place nobody explained"),
        pytest.param("-- rows", "-- param gone: x\n-- rows", r"unused \['gone'\]", id="an explanation of nothing"),
    ],
)
def test_a_bad_header_names_its_line(old: str, new: str, error: str) -> None:
    """So that it is mended at once."""
    with pytest.raises(ValueError, match=error):
        read("q", TEXT.replace(old, new, 1))


def test_a_query_is_whole_without_the_list_of_its_header() -> None:
    """Whoever wants other rows first asks for all; of one whose text has the limit nobody can."""
    text = TEXT.replace("-- rows", "-- list: 7 by host, x DESC\n-- rows").replace(
        " LIMIT {top:UInt32}", " = {top:UInt32}"
    )
    listed = read("q", text)

    assert listed.sql == f"{listed.whole().sql}\nORDER BY host, x DESC\nLIMIT 7"
    assert (listed.listed_max, listed.whole().listed_max) == (7, None)
    assert listed.whole().parameters == listed.parameters
    with pytest.raises(ValueError, match="q must have its order and limit in its header"):
        read("q", TEXT).whole()


def test_an_unknown_query_is_a_key_error() -> None:
    """Names are ours, never a file of somebody's choice."""
    with pytest.raises(KeyError):
        query("../people")


def test_a_source_says_how_wide_its_rows_are() -> None:
    """For the width of points."""
    assert Source("gpu.samples", (("10s", 5), ("1h", None))).grain_ms(5) == 10_000
    assert Source("gpu.samples", (("10s", 5), ("1h", None))).grain_ms(6) == HOUR_MS
