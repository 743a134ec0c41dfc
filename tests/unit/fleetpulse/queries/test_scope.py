"""A query held to names: only where every table knows them, before anything is summed or cut."""

from __future__ import annotations

import pytest

from fleetpulse import queries
from fleetpulse.queries import scope
from fleetpulse.queries.scope import NAMES, scoped, takes
from schemas.ddl.declared import declared as declared_now
from schemas.definitions import BILLED


@pytest.mark.parametrize(
    ("sql", "names", "expected"),
    [
        ("SELECT 1 FROM request_windows\nWHERE a OR b", ["model", "tenant"],
         "SELECT 1 FROM (SELECT * FROM request_windows WHERE model = {model:String} AND tenant = {tenant:String})\n"
         "WHERE a OR b"),
        ("SELECT 1 FROM cost_parts AS p JOIN costs AS c", ["engine_id"],
         "SELECT 1 FROM (SELECT * FROM cost_parts WHERE owner = {engine_id:String}) AS p"
         " JOIN (SELECT * FROM costs WHERE owner = {engine_id:String}) AS c"),
        ("SELECT 1 FROM llm_requests_rollup_1h FINAL WHERE x", ["model"],
         "SELECT 1 FROM (SELECT * FROM llm_requests_rollup_1h FINAL WHERE model = {model:String}) WHERE x"),
        ("SELECT 1 FROM llm_requests_partials FINAL WHERE grouping = 'engine'", ["host"],
         "SELECT 1 FROM (SELECT * FROM llm_requests_partials FINAL WHERE host = {host:String})"
         " WHERE grouping = 'engine'"),
        ("SELECT 1 FROM slow_requests(from_ms = {from_ms:Int64}, to_ms = 2)", ["host"],
         "SELECT 1 FROM (SELECT * FROM slow_requests(from_ms = {from_ms:Int64}, to_ms = 2)"
         " WHERE host = {host:String})"),
        ("SELECT 1 FROM who_changed(from_ms = 1) AS c", ["tenant"],
         "SELECT 1 FROM (SELECT * FROM who_changed(from_ms = 1)"
         " WHERE dimension = 'tenant' AND name = {tenant:String}) AS c"),
        ("SELECT 1 FROM alert_history", ["host"],
         "SELECT 1 FROM (SELECT * FROM alert_history WHERE (fingerprint, opened_ms) IN (SELECT fingerprint, opened_ms"
         " FROM alert_history WHERE at_ms < {to_ms:Int64} GROUP BY ALL"
         " HAVING argMax(labels, number)['host'] = {host:String}))"),
        (f"WITH {BILLED['of_bills']} AS billed_ms SELECT billed_ms FROM costs", ["region"],
         f"WITH {BILLED['of_bills']} AS billed_ms SELECT billed_ms"
         " FROM (SELECT * FROM costs WHERE region = {region:String})"),
        ("WITH (SELECT 1 FROM covered_time(from_ms = 1)) AS c, m AS (SELECT 1 FROM request_windows) SELECT 1 FROM m",
         ["model"],
         "WITH (SELECT 1 FROM covered_time(from_ms = 1)) AS c, m AS (SELECT 1 FROM (SELECT * FROM request_windows"
         " WHERE model = {model:String})) SELECT 1 FROM m"),
        ("SELECT 1 FROM request_windows WHERE {model:String} IN ('', model)", ["model"],
         "SELECT 1 FROM request_windows WHERE {model:String} IN ('', model)"),
    ],
    ids=["a view", "a join", "a table", "rows of engines", "a view of a range", "changes", "alerts",
         "the time with bills is of all", "the clock is of all", "its own"],
)  # fmt: skip
def test_tables_are_read_with_a_condition(sql: str, names: list[str], expected: str) -> None:
    """Each of them; a parameter of its own is bound as it is."""
    assert takes(sql, names)
    assert scoped(sql, names) == expected


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1 FROM costs", ["tenant"]),
        ("SELECT 1 FROM cost_parts, costs AS c JOIN costs", ["model"]),
        ("SELECT 1 FROM llm_requests_rollup_1h WHERE grouping = 'service'", ["host"]),
        ("SELECT 1 FROM llm_requests_partials WHERE grouping IN ('service') OR grouping = 'engine'", ["host"]),
        ("SELECT 1 FROM who_changed(from_ms = 1)", ["tenant", "model"]),
        ("SELECT 1 FROM who_changed(from_ms = 1)", ["gpu_model"]),
        ("SELECT 1", ["model"]),
    ],
    ids=["no column", "one of two", "not of these rows", "not of all", "changes of two", "no dimension", "no table"],
)
def test_a_query_is_not_held_to_what_a_table_does_not_know(sql: str, names: list[str]) -> None:
    """A part of the answer would be of everything."""
    assert not takes(sql, names)


def test_nothing_is_every_query_held_to() -> None:
    """And it stays as it is."""
    texts = [queries.text(name) for name in queries.names()]

    assert all(takes(text, []) and scoped(text, []) == text for text in texts)
    assert [name for name in NAMES if any(takes(text, [name]) for text in texts)] == [*NAMES]


def test_statements_of_all_tables_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of however many queries."""
    made = list[str]()

    def declared() -> dict[str, str]:
        made.append("all")
        return declared_now()

    for cached in (scope._declared, scope.columns_of):
        cached.cache_clear()
    monkeypatch.setattr(scope, "declared", declared)
    for name in queries.names():
        if scope.takes(queries.text(name), ["model"]):
            scope.scoped(queries.text(name), ["model"])

    assert made == ["all"]
