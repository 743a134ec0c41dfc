"""Names that the server does not know have a hint: what to write instead."""

from __future__ import annotations

import pytest

from fleetpulse.sql.hints import hint


@pytest.mark.parametrize(
    ("error", "sql", "says"),
    [
        ("Unknown table expression identifier 'requests'.", "", "did you mean llm_requests"),
        ("Unknown table expression identifier 'fleetpulse.request_window'.", "", "did you mean request_windows"),
        ("Unknown table expression identifier 'zebra'.", "", "SHOW TABLES lists"),
        ("Unknown expression identifier `ttft`.", "SELECT ttft FROM request_windows",
         "no column ttft in request_windows; nearest: ttft_us_p50, ttft_us_p90, ttft_us_p95"),
        ("Unknown expression or function identifier `util`", "SELECT p(util) FROM gpu_windows",
         "no column util in gpu_windows; nearest: util_gpu_pct_"),
        ("Identifier 'r.tenent' cannot be resolved from", "SELECT r.tenent FROM slow_requests AS r",
         "no column tenent in slow_requests; nearest: tenant"),
        ("Unknown expression identifier `zebra`.", "SELECT zebra FROM costs",
         "no column zebra in costs; DESCRIBE costs lists them"),
        ("(EMPTY_LIST_OF_COLUMNS_QUERIED)", "SELECT * FROM who_changed", "who_changed(from_ms = ..., to_ms = ..."),
    ],
    ids=["nearly a table", "nearly a view of a database", "no table", "a part", "inside a function",
         "of an alias", "nothing near", "a view without its range"],
)  # fmt: skip
def test_what_the_server_does_not_know_has_a_hint(error: str, sql: str, says: str) -> None:
    """With a name to write, or where names are."""
    assert says in hint(error, sql)


def test_other_errors_have_no_hint() -> None:
    """Neither has one of a view without parameters."""
    assert hint("Syntax error", "SELECT") == hint("(EMPTY_LIST_OF_COLUMNS_QUERIED)", "SELECT * FROM costs") == ""
