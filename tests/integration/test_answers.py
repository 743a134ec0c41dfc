"""Each question of ``fleetpulse ask``: its answer beside what plain loops over single rows say.

Covers fleetpulse.queries.questions and fleetpulse.queries.written_out.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse import queries
from fleetpulse.queries.data_ends import kinds_of
from fleetpulse.queries.offers import usual
from fleetpulse.queries.questions import Question, numbered
from fleetpulse.queries.scope import NAMES, scoped
from fleetpulse.queries.written_out import written_out
from fleetpulse.sql.query import Query, bound
from lab.oracle.said import shown
from lab.oracle.value import Shown, Value
from runtime.clickhouse_clients import connect
from schemas.limits import HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import E2E_MOST_US, H100, TTFT_MOST_US, Row, Rows, fill_all
from tests.integration.answers import ANSWERS, goodput, held_to
from tests.tables import Tables

pytestmark = pytest.mark.integration

HOURS = 26
COUNTED_OF_ALL = ("engines", "hosts_used")
"""Columns that ``ANSWERS`` knows of all rows alone."""
OF_CHANGES = ("who_changed", "tokens_changed")


def differs(right: Any, got: Any) -> bool:
    """Whether an answer is not what it should be, as far as its digits go; null is null here."""
    if isinstance(got, Shown) and got.value is None:
        got = None
    if isinstance(right, (int, float)) and not isinstance(right, bool):
        right = Value(right, right)
    if not isinstance(right, Value):
        return bool(got != right)
    return got is None or not right.holds(got)


def bounds_of(rows: Rows, span_ms: int) -> dict[str, int]:
    """The last so much of it, and as much before."""
    bounds = {"from_ms": rows.until_ms - span_ms, "to_ms": rows.until_ms}
    return bounds | {"before_from_ms": bounds["from_ms"] - span_ms, "before_to_ms": bounds["from_ms"]}


def differences(clickhouse: Any, one: Question, query: Query, expected: list[Row]) -> list[tuple[Any, ...]]:
    """Where an answer differs from rows that it should be."""
    keys, _ = ANSWERS[one.query]
    answer = list(clickhouse.query(query.sql, parameters=dict(query.parameters)).named_results())
    got = {tuple(row[key] for key in keys): shown(query.sql, row) for row in answer}
    right = {tuple(row[key] for key in keys): row for row in expected}
    if got.keys() != right.keys() or len(answer) != len(expected):
        return [(sorted(map(str, got)), sorted(map(str, right)))]
    return [
        (key, name, got[key][name], value)
        for key, row in right.items()
        for name, value in row.items()
        if differs(value, row[name] if name in keys else got[key][name])
    ]


@pytest.fixture(scope="module")
def clickhouse(_tables: Tables) -> Iterator[Client]:
    """A client of the writer in a database with all tables: no test here writes what another might read."""
    with contextlib.closing(connect(_tables.emptied())) as client:
        yield client


@pytest.fixture(scope="module")
def rows(clickhouse: Client) -> Rows:
    """Everything that questions are about, of more than a day."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    return fill_all(clickhouse, now_ms // MINUTE_MS * MINUTE_MS - 5 * MINUTE_MS)


def test_every_question_is_answered_as_single_rows_say(clickhouse: Any, rows: Rows) -> None:
    """All rows of the answer, each column that single rows can say; over a day, and over the last ten minutes.

    What windows say of objectives single requests say too."""
    wrong, compared = [], dict.fromkeys(numbered(), 0)
    for span_ms in (HOURS * HOUR_MS, 10 * MINUTE_MS):
        bounds = bounds_of(rows, span_ms)
        for number, one in numbered().items():
            query = bound(one.sql(span_ms, bounds), one.known(), (), bounds)
            expected = ANSWERS[one.query][1](rows, **bounds, **one.given)
            compared[number] += sum(map(len, expected))
            wrong += [(number, one.query, *each) for each in differences(clickhouse, one, query, expected)]

        objectives = {"slo_classes": ["interactive", "batch"], "slo_ttft_us": [TTFT_MOST_US] * 2}
        objectives |= {"slo_tpot_us": [None] * 2, "slo_e2e_us": [E2E_MOST_US] * 2}
        answer = clickhouse.query(queries.text("cost_goodput"), parameters=objectives | bounds).named_results()
        single = {row["slo_class"]: row for row in answer}
        wrong += [
            (row, single[row["slo_class"]])
            for row in goodput(rows, **bounds)
            for name in ("good", "missed", "failed", "left_out", "good_tokens")
            if row[name] != single[row["slo_class"]][name]
        ]

    assert wrong == []
    assert [number for number, count in compared.items() if not count] == []


def names_of(rows: Rows, one: Question) -> list[dict[str, str]]:
    """What a question is held to: a name of each kind that it takes and that its rows have, and a tenant of a model."""
    if "bills" in kinds_of(one.sql(0)):
        names = {"model": "m", "tenant": "acme", "host": "h", "engine_id": "e1", "gpu_model": H100}
    elif one.query == "dashboard/training":
        names = dict.fromkeys(NAMES, "") | rows.readings["training.steps"][0]
    else:
        whole = next(row for row in rows.requests if row["tenant"] and row["engine_id"])
        names = {name: whole[name] for name in ("model", "tenant", "host", "engine_id")} | {"gpu_model": H100}
    names |= {"engine_id": "h/1"} if one.query == "cost_power_cap" else {}
    held = [
        *({name: value} for name, value in names.items() if name in NAMES),
        {name: names[name] for name in ("model", "tenant")},
    ]
    return [each for each in held if one.takes(each) and all(each.values())]


def test_an_answer_that_is_held_to_a_name_is_of_its_rows_alone(clickhouse: Any, rows: Rows) -> None:
    """Whatever question takes it: rows of all else might as well not be there. Rates are of the time of all."""
    wrong, held = [], Counter[str]()
    bounds = bounds_of(rows, HOURS * HOUR_MS)
    for number, one in numbered().items():
        for names in names_of(rows, one):
            own, given = held_to(rows, names), {**one.known(), **names}
            if one.query == "throughput_by_model":
                own.readings["host.samples"] = [*rows.readings["host.samples"], *rows.requests]
            query = bound(scoped(one.sql(HOURS * HOUR_MS, bounds), names), given, (), bounds)
            counted, params = ANSWERS[one.query][1], {name: given[name] for name in one.given}
            if one.query in OF_CHANGES:
                ((dimension, name),) = names.items()
                every = counted(rows, **bounds, **params)
                expected = [row for row in every if (row["dimension"], row["name"]) == (dimension, name)]
            else:
                expected = counted(own, **bounds, **params)
            expected = [{name: row[name] for name in row if name not in COUNTED_OF_ALL} for row in expected]
            held.update([*names] if expected else [])
            wrong += [(number, one.query, names, *each) for each in differences(clickhouse, one, query, expected)]

    assert wrong == []
    assert min(held[name] for name in ("model", "tenant", "host", "engine_id", "gpu_model")) > 3, held


def test_a_view_of_a_range_that_is_written_out_answers_the_same(clickhouse: Any, rows: Rows) -> None:
    """Every query of the catalogue that reads one: names and types of its columns, and its rows."""
    read = {
        name: queries.text(name) for name in queries.names() if written_out(queries.text(name)) != queries.text(name)
    }
    bounds, empty = bounds_of(rows, HOURS * HOUR_MS), set[str]()
    for name, text in read.items():
        query = bound(text, {"dimension": "model", **usual(name)}, (), bounds)
        view, itself = (
            clickhouse.query(sql, parameters=dict(query.parameters)) for sql in (query.sql, written_out(query.sql))
        )
        assert (itself.column_names, itself.column_types) == (view.column_names, view.column_types), name
        assert sorted(map(repr, itself.result_rows)) == sorted(map(repr, view.result_rows)), name
        empty |= set() if view.result_rows else {name}

    assert not empty, empty
    assert len(read) > 10
