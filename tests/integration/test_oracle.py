"""Every face says the same of any range, and what single rows say when they are counted one by one.

Covers lab.oracle.faces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleetpulse import queries
from lab.oracle.faces import FACES
from lab.oracle.recount import recount
from lab.oracle.run import Comparison, Range, oracle, stored
from schemas import definitions
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.request_rows import fill, fill_bills, requests

pytestmark = [pytest.mark.integration, pytest.mark.tables]

RANGES = 12
SOMETIMES = {"report", "cookbook"}
"""Faces that have nothing to say of a range without rows."""
ROUNDED = re.compile(r"\bround\((.*?)(?:, \d)?\) AS (\w+)")
"""A mistake may hide in what is not shown."""
MUTATIONS = (
    ("sum(event_count)", "count()"),
    ("sum(event_count)", "max(event_count)"),
    ("sumIf(event_count,", "countIf("),
    ("= 'ok'", "!= 'ok'"),
    ("= 'ok'", "= 'aborted'"),
    ("= 'aborted'", "!= 'aborted'"),
    ("= 'aborted'", "= 'timeout'"),
    ("NOT IN ('ok', 'aborted')", "IN ('ok', 'aborted')"),
    ("NOT IN ('ok', 'aborted')", "NOT IN ('ok')"),
    ("NOT IN ('ok', 'aborted')", "NOT IN ('ok', 'aborted', 'timeout')"),
    (" = 'client'", " != 'client'"),
    (" = 'client'", " = 'server'"),
    ("!= 'client'", "= 'client'"),
    ("!= 'client'", "!= 'server'"),
    ("ifNull(error_kind, '') !=", "error_kind !="),
    (" AND ", " OR "),
    ("NOT (", "("),
    (" / ", " * "),
)
"""What may go wrong with a formula, as text."""


class Asked:
    """A database as faces ask it."""

    def __init__(self, clickhouse: Any) -> None:
        self.client = clickhouse
        self.now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))

    def __call__(self, sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(self.client.query(sql, parameters=dict(bound)).named_results())


@pytest.fixture
def asked(clickhouse: Any) -> Asked:
    """Requests and bills of twenty-eight hours."""
    found = Asked(clickhouse)
    fill(clickhouse, requests(found.now_ms))
    last_ms = found.now_ms // MINUTE_MS * MINUTE_MS - 5 * MINUTE_MS
    fill_bills(clickhouse, [last_ms - 27 * HOUR_MS, last_ms - 3 * HOUR_MS, last_ms])
    return found


def test_every_face_says_what_single_rows_say(asked: Asked) -> None:
    """Counts to the last one, money to the nano-dollar, rates of the time with data, percentiles within the sketch's
    error, whatever the ends of the range are."""
    compared = oracle(asked, RANGES, 1, asked.now_ms + DAY_MS)
    differing = [line for line in compared.as_dict()["lines"] if line["different"]]

    assert differing == []
    assert compared.ranges == RANGES
    assert {face for face, _ in compared.lines} == set(FACES)
    counts = {key: line.compared for key, line in compared.lines.items() if key[0] not in SOMETIMES}
    assert {key: count for key, count in counts.items() if count < RANGES // 2} == {}


def test_reports_and_recipes_say_it_of_two_days(asked: Asked) -> None:
    """Of whole minutes with all bills in them: requests by end, parts of the bill, budgets burnt, who was fast."""
    to_ms = asked.now_ms // MINUTE_MS * MINUTE_MS
    over = Range(to_ms - 2 * DAY_MS, to_ms, "minute")
    expected, found = recount(stored(asked, asked.now_ms + DAY_MS), over.from_ms, over.to_ms), Comparison(1, 1)
    said = {name: FACES[name](asked, over.from_ms, over.to_ms) for name in ("report", "cookbook")}
    for name, answers in said.items():
        found.take(name, answers, expected, over)

    assert [line for line in found.as_dict()["lines"] if line["different"]] == []
    assert {key for key in said["report"] if key[1].startswith("part=")} >= {
        ("cost_nusd", f"part={part}") for part in ("request", "__idle__", "__wasted__")
    }
    assert {metric for metric, of in said["report"] if of == "model=m"} == {
        *("ok", "aborted", "client_fault", "failed", "listed_cost_nusd")
    }
    assert {metric for metric, of in said["cookbook"] if of == "model=m"} >= {"fast_share", "failed_share", "requests"}
    assert ("cost_nusd", "all") in said["cookbook"]


def mutants(formulas: Mapping[str, definitions.Metric]) -> Iterator[definitions.Metric]:
    """Each formula over windows with each mistake that it can have."""
    for one in (each for each in formulas.values() if each.over == "windows"):
        for right, wrong in MUTATIONS:
            if right in one.sql:
                yield replace(one, sql=one.sql.replace(right, wrong, 1))


def test_a_mistake_in_any_formula_is_noticed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is put into what every query is written from; the recount knows nothing of it."""
    over = Range(asked.now_ms - 2 * DAY_MS, asked.now_ms, "any")
    bounds = {"from_ms": over.from_ms, "to_ms": over.to_ms}
    expected = recount(stored(asked, asked.now_ms + DAY_MS), over.from_ms, over.to_ms)

    formulas = dict(definitions.METRICS)

    def notices(metrics: Mapping[str, definitions.Metric]) -> bool:
        monkeypatch.setattr(definitions, "METRICS", metrics)
        found = Comparison(1, 1)
        rows = asked(ROUNDED.sub(r"\1 AS \2", queries.text("throughput_by_model")), bounds)
        said = {(name, f"model={row['model']}"): row[name] for row in rows for name in metrics if name in row}
        said |= {("failed_share", f"model={row['model']}"): row["failed_pct"] / 100 for row in rows}
        found.take("query", said, expected, over)
        return not found.exact

    assert not notices(formulas)
    mistakes = list(mutants(formulas))
    unnoticed = [one for one in mistakes if not notices({**formulas, one.name: one})]
    assert [(one.name, one.sql) for one in unnoticed] == []
    assert {one.name for one in mistakes} == {one.name for one in formulas.values() if one.over == "windows"}
