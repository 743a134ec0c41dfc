"""Every face says the same of any range, and what single rows say when they are counted one by one.

Covers lab.oracle.faces and lab.oracle.recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any, Literal

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from fleetpulse import queries
from fleetpulse.queries.questions import numbered
from fleetpulse.top.table import SQL, View, table_of
from lab.oracle.faces import ASKED, FACES, NOT_ASKED, UNITS
from lab.oracle.recipes import COUNTED, NOT_COUNTED, recipes
from lab.oracle.recount import Recount
from lab.oracle.run import Comparison, Range, oracle, stored
from lab.oracle.said import unit_costs
from schemas import definitions
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import E2E_MOST_US, TTFT_MOST_US, Row, fill_all
from tests.integration.cost_rows import ODD_ROWS
from tests.integration.request_rows import fill_bills

pytestmark = [pytest.mark.integration, pytest.mark.tables]

RANGES = 12
OBJECTIVES = dict.fromkeys(("interactive", "batch"), (TTFT_MOST_US, None, E2E_MOST_US))
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
    (" - ", " + "),
    ("sumIf(toInt128(judged", "sumIf(-toInt128(judged"),
    ("sum(toInt128(", "max(toInt128("),
    ("covered_ms", "(covered_ms + 1)"),
    ("sumIf(toInt128(", "maxIf(toInt128("),
    (" IS NOT NULL", " IS NULL"),
    *((f" AND {column} IS NOT NULL", "") for column in definitions.UNIT_OF.values()),
    (" > 0", " >= 0"),
    (" > 0", " > 29"),
    ("'prefill', 'kv'", "'prefill'"),
    ("'decode', 'kv'", "'decode'"),
    *((f"'{right}'", f"'{wrong}'") for right, wrong in permutations(("prefill", "decode", "kv"), 2)),
    (", NULL)", ", 1)"),
    *((column, "energy_mj") for column in definitions.UNIT_OF.values()),
)
"""What may go wrong with a formula, as text."""
NO_MISTAKE = (
    ("ifNull(maxIf(", ""),  # of what is not negative the largest is above 0 where the sum is
    (" >= 0", "_per_million_output"),  # divided by no tokens it is null whatever it is
    (", 1) / 1e", "_per_million_output"),
    (", 1) / 3.6e", "_per_million_output"),
)
"""What is right all the same, and of which metrics."""


class Asked:
    """A database as faces ask it."""

    def __init__(self, clickhouse: Any) -> None:
        self.client = clickhouse
        self.readings: dict[str, list[Row]] = {}
        self.now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))

    def __call__(self, sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(self.client.query(sql, parameters=dict(bound)).named_results())


@pytest.fixture
def asked(clickhouse: Any) -> Asked:
    """Requests, bills and readings of more than a day."""
    found = Asked(clickhouse)
    rows = fill_all(clickhouse, found.now_ms)
    fill_bills(clickhouse, [found.now_ms - ago_ms for ago_ms in (26 * HOUR_MS, 4 * MINUTE_MS)], ODD_ROWS)
    for topic, table in (("gpu.samples", "gpu_samples"), ("host.samples", "host_samples"),
                         ("engine.samples", "engine_samples")):  # fmt: skip
        found.readings[topic] = rows.readings[topic]
        insert_raw(clickhouse, table, rows.readings[topic])
    return found


def insert_raw(clickhouse: Any, table: str, rows: list[Row]) -> None:
    """Single readings, as the sink leaves them."""
    known = {row[0] for row in clickhouse.query(f"DESCRIBE TABLE {table}").result_rows}
    names = sorted({name for row in rows for name in row} & known)
    listed = [[*(row.get(name) for name in names), "accepted", "s", seq, 0, row["at_ms"]]
              for seq, row in enumerate(rows)]  # fmt: skip
    clickhouse.insert(table, listed, column_names=[*names, "verdict", "source", "seq", "row", "appended_ms"])


def test_every_face_says_what_single_rows_say(asked: Asked) -> None:
    """Counts to the last one, money to the nano-dollar, rates of the time with data, percentiles within the sketch's
    error, whatever the ends of the range are."""
    compared = oracle(asked, RANGES, 1, asked.now_ms + DAY_MS, OBJECTIVES)
    differing = [line for line in compared.as_dict()["lines"] if line["different"]]

    assert differing == []
    assert compared.ranges == RANGES
    assert {face for face, _ in compared.lines} == set(FACES)
    counts = {key: line.compared for key, line in compared.lines.items() if key[0] not in SOMETIMES}
    assert {key: count for key, count in counts.items() if count < RANGES // 2} == {}


def test_each_recipe_is_compared_or_says_why_not() -> None:
    """No new one is forgotten."""
    every = set(recipes(0, 1))

    assert every == set(COUNTED) | set(NOT_COUNTED)
    assert not set(COUNTED) & set(NOT_COUNTED)


def test_each_question_is_compared_or_says_why_not() -> None:
    """Of ``fleetpulse ask``, over random ranges."""
    assert {one.query for one in numbered().values()} == set(ASKED) | set(NOT_ASKED)
    assert not set(ASKED) & set(NOT_ASKED)


def test_the_recipe_by_class_judges_as_goodput_is_defined(asked: Asked) -> None:
    """By the objectives that it has of its own."""
    over = Range(asked.now_ms - 2 * DAY_MS, asked.now_ms, "any")
    own = {"interactive": (500_000, 50_000, None), "batch": (None, None, 60_000_000)}
    expected = Recount(stored(asked, asked.now_ms + DAY_MS, own)).over(over.from_ms, over.to_ms)
    sql = recipes(0, 1)["What share of requests was good, by service class?"]
    rows = asked(sql.replace("INTERVAL 1 HOUR", "INTERVAL 3 DAY"), {})

    assert {(name, f"class={row['slo_class']}"): row[name] for row in rows for name in ("judged", "good")} == {
        (name, f"class={one}"): expected[name, f"class={one}"].least for one in own for name in ("judged", "good")
    }


def test_top_shows_the_newest_reading_of_each_gpu(asked: Asked) -> None:
    """Hosts have the mean, the sum and the most of their GPUs."""
    newest = {row["gpu_uuid"]: row for row in sorted(asked.readings["gpu.samples"], key=lambda row: row["at_ms"])}
    hosts: dict[str, list[Row]] = {}
    for row in newest.values():
        hosts.setdefault(row["host"], []).append(row)
    gpus = asked(SQL, {})

    def shown(by: Literal["gpu", "host"]) -> dict[Any, tuple[Any, ...]]:
        name = "gpu" if by == "gpu" else "host"
        return {row[name]: (row["util %"], row["power W"], row["temp C"]) for row in table_of(gpus, View(by))}

    assert shown("gpu") == {
        uuid: (row["util_gpu_pct"], row["power_mw"] / 1_000, row["temperature_c"]) for uuid, row in newest.items()
    }
    assert shown("host") == {
        host: (
            sum(row["util_gpu_pct"] for row in group) / len(group),
            pytest.approx(sum(row["power_mw"] for row in group) / 1_000),
            max(row["temperature_c"] for row in group),
        )
        for host, group in hosts.items()
    }


def test_reports_and_recipes_say_it_of_two_days(asked: Asked) -> None:
    """Of whole minutes with all bills in them: requests by end, parts of the bill, budgets burnt, who was fast."""
    to_ms = asked.now_ms // MINUTE_MS * MINUTE_MS
    over = Range(to_ms - 2 * DAY_MS, to_ms, "minute")
    expected, found = (
        Recount(stored(asked, asked.now_ms + DAY_MS, OBJECTIVES)).over(over.from_ms, over.to_ms),
        Comparison(1, 1),
    )
    said = {name: FACES[name](asked, over.from_ms, over.to_ms) for name in ("report", "cookbook")}
    for name, answers in said.items():
        found.take(name, answers, expected, over)

    assert [line for line in found.as_dict()["lines"] if line["different"]] == []
    assert {key for key in said["report"] if key[1].startswith("part=")} >= {
        ("cost_nusd", f"part={part}") for part in ("request", "__idle__", "__wasted__")
    }
    assert {metric for metric, of in said["report"] if of == "model=m"} == {
        *("ok", "aborted", "client_fault", "failed", "listed_cost_nusd"),
        *(f"priced_{one.name}" if one.unit == "tokens" else one.name for one in definitions.UNIT_COSTS),
    }
    assert {metric for metric, of in said["report"] if of == "class=batch"} == {
        *("judged", "good", "judged_failed", "missed", "good_tokens")
    }
    assert {metric for metric, of in said["cookbook"] if of == "model=m"} >= {
        *("fast_share", "failed_share", "requests", "judged", "good", "good_tokens")
    }
    assert ("cost_nusd", "all") in said["cookbook"]


def mutants(formulas: Mapping[str, definitions.Metric]) -> Iterator[definitions.Metric]:
    """Each formula with each mistake that it can have, in each of its places."""
    for one in formulas.values():
        for right, wrong in MUTATIONS:
            for place in re.finditer(re.escape(right), one.sql):
                found = replace(one, sql=one.sql[: place.start()] + wrong + one.sql[place.end() :])
                if not any(sql in found.sql and found.name.endswith(names) for sql, names in NO_MISTAKE):
                    yield found


def test_a_mistake_in_any_formula_is_noticed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is put into what every query is written from; the recount knows nothing of it."""
    over = Range(asked.now_ms // MINUTE_MS * MINUTE_MS - 2 * DAY_MS, asked.now_ms // MINUTE_MS * MINUTE_MS, "minute")
    bounds = {"from_ms": over.from_ms, "to_ms": over.to_ms}
    expected = Recount(stored(asked, asked.now_ms + DAY_MS, OBJECTIVES)).over(over.from_ms, over.to_ms)
    formulas = dict(definitions.METRICS)

    def of_covered() -> dict[Any, Any]:
        time = f"covered_time(from_ms = {over.from_ms}, to_ms = {over.to_ms})"
        picked = ", ".join(f"{{{name}:Metric}} AS {name}" for name in ("covered_ms", "coverage"))
        (row,) = asked(definitions.written(f"SELECT {picked} FROM {time}"), bounds)
        return {("covered_s", "all"): row["covered_ms"] / 1_000, ("coverage", "all"): row["coverage"]}

    def of_windows() -> dict[Any, Any]:
        rows = asked(ROUNDED.sub(r"\1 AS \2", queries.text("throughput_by_model")), bounds)
        said = {(name, f"model={row['model']}"): row[name] for row in rows for name in formulas if name in row}
        return said | {("failed_share", f"model={row['model']}"): row["failed_pct"] / 100 for row in rows}

    def of_judged() -> dict[Any, Any]:
        named = [one.name for one in formulas.values() if one.over == "judged" and one.name != "good_per_s"]
        sql = ", ".join(f"{{{name}:Metric}} AS of_{name}" for name in named)
        per_s = "WITH 60 AS covered SELECT {good_per_s:Metric} * 60"
        source = (
            "FROM llm_requests_partials FINAL WHERE grouping = 'service' AND judged_requests_sum IS NOT NULL"
            f" AND window_ms >= {over.from_ms} AND window_ms < {over.to_ms} GROUP BY model"
        )
        rows = asked(definitions.written(f"{per_s} AS of_good_per_s, model, {sql} {source}"), {})
        said = {(name, f"model={row['model']}"): row[f"of_{name}"] for row in rows for name in named}
        return said | {("good", f"of={row['model']}"): row["of_good_per_s"] for row in rows}

    def of_parts() -> dict[Any, Any]:
        rows = asked(queries.text("cost_by"), bounds | {"dimension": "tenant"})
        return unit_costs("tenant", [row | {"tenant": row["name"] or None} for row in rows], UNITS)

    def of_billed() -> dict[Any, Any]:
        (row,) = [one for one in asked(queries.text("idle_gpus"), bounds) if one["why"] == "all in bills"]
        return {("idle_of_30_days_nusd", "all"): row["of_30_days_nusd"]}

    asked_of = {"windows": of_windows, "judged": of_judged, "parts": of_parts, "covered_time": of_covered}
    asked_of |= {"billed": of_billed}
    expected |= {("good", f"of={of.partition('=')[2]}"): value for (metric, of), value in expected.items()
                 if metric == "good" and of.startswith("model=")}  # fmt: skip
    share = expected["covered_s", "all"].least * 1_000 / (over.to_ms - over.from_ms)
    expected["coverage", "all"] = replace(expected["covered_s", "all"], least=share, most=share)

    def notices(over_what: str, metrics: Mapping[str, definitions.Metric]) -> bool:
        monkeypatch.setattr(definitions, "METRICS", metrics)
        found = Comparison(1, 1)
        try:
            found.take(over_what, asked_of[over_what](), expected, over)
        except DatabaseError:  # a formula that the server rejects
            return True
        return not found.exact

    assert {over_what for over_what in asked_of if notices(over_what, formulas)} == set()
    mistakes = list(mutants(formulas))
    unnoticed = [one for one in mistakes if not notices(one.over, {**formulas, one.name: one})]
    assert [(one.name, one.sql) for one in unnoticed] == []
    assert {one.name for one in mistakes} == set(formulas)
