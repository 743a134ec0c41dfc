"""The oracle notices a mistake in any formula; what it says of two days is what single rows say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import permutations, zip_longest
from typing import Any, Literal

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.top.table import View, sql, table_of
from lab.oracle.faces import FACES, UNITS
from lab.oracle.recipes import COUNTED, recipes
from lab.oracle.recount import Recount
from lab.oracle.run import Comparison, Line, Range, stored
from lab.oracle.said import Said, all_rows, unit_costs
from lab.oracle.said import asked as rows_of
from schemas import definitions
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import Row
from tests.integration.oracle_rig import OBJECTIVES, Asked, filled
from tests.tables import Tables

pytestmark = pytest.mark.integration

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


@pytest.fixture(scope="module")
def asked(_tables: Tables) -> Iterator[Asked]:
    with filled(_tables) as found:
        yield found


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

    def shown(by: Literal["gpu", "host"]) -> dict[Any, tuple[Any, ...]]:
        name = "gpu" if by == "gpu" else "host"
        gpus = asked(sql(View(by)), {})
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
        *("ok", "aborted", "client_fault", "failed", "cost_nusd", "aborted_nusd", "unanswered_nusd"),
        *(f"listed_{name}" for name in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug", "gpu_ms")),
        *(f"priced_{one.name}" if one.unit == "tokens" else one.name for one in definitions.UNIT_COSTS),
    }
    assert {metric for metric, of in said["report"] if of == "class=batch"} == {
        *("judged", "good", "judged_failed", "missed", "good_tokens")
    }
    assert {metric for metric, of in said["cookbook"] if of == "model=m"} >= {
        *("fast_share", "failed_share", "requests", "judged", "good", "good_tokens")
    }
    assert ("cost_nusd", "all") in said["cookbook"]


NOTHING = {"difference", "bill_estimated_gpu_ms"}
"""Metrics that are 0 here: parts of bills are the bills, and nothing is estimated."""
ELSEWHERE = "How did the tail move, minute by minute?"
"""A recipe about a model that is not here."""


def test_each_metric_of_each_face_is_compared_with_something(asked: Asked) -> None:
    """Over whole hours that hold everything: of nothing no mistake could be noticed. Each recipe says something."""
    to_ms = -(-asked.now_ms // HOUR_MS) * HOUR_MS
    over = Range(to_ms - 2 * DAY_MS, to_ms, "hour")
    expected = Recount(stored(asked, asked.now_ms + DAY_MS, OBJECTIVES)).over(over.from_ms, over.to_ms)
    found = Comparison(1, 1)
    for name, face in FACES.items():
        found.take(name, face(asked, over.from_ms, over.to_ms), expected, over)
    texts = recipes(over.from_ms, over.to_ms)
    said = {
        question: one.read(rows_of(asked, all_rows(texts[question]) if one.cut else texts[question], {}))
        for question, one in COUNTED.items()
    }

    assert [line for line in found.as_dict()["lines"] if line["different"]] == []
    assert {face for face, _ in found.lines} == set(FACES)
    assert {metric for (_, metric), line in found.lines.items() if not line.of_something} == NOTHING
    assert [question for question, answers in said.items() if not answers] == [ELSEWHERE]


def mutants(formulas: Mapping[str, definitions.Metric]) -> Iterator[definitions.Metric]:
    """Each formula with each mistake that it can have, in each of its places."""
    for one in formulas.values():
        for right, wrong in MUTATIONS:
            for place in re.finditer(re.escape(right), one.sql):
                found = replace(one, sql=one.sql[: place.start()] + wrong + one.sql[place.end() :])
                if not any(sql in found.sql and found.name.endswith(names) for sql, names in NO_MISTAKE):
                    yield found


SAID_AS = {
    "uncached_tokens": "priced_uncached_tokens",
    "output_tokens": "priced_output_tokens",
    "covered_ms": "covered_s",
    "of_30_days_nusd": "idle_of_30_days_nusd",
}
"""Formulas that the recount knows by another name."""


class Answers:
    """What queries say of a range by the formulas as they stand, by what these are over."""

    def __init__(self, asked: Asked, over: Range) -> None:
        self._asked = asked
        self._over = over
        self._bounds = {"from_ms": over.from_ms, "to_ms": over.to_ms}
        self.by: Mapping[str, Callable[[], Said]] = {
            "windows": self._of_windows,
            "judged": self._of_judged,
            "parts": self._of_parts,
            "covered_time": self._of_covered,
            "billed": self._of_billed,
        }

    def _of_covered(self) -> Said:
        time = f"covered_time(from_ms = {self._over.from_ms}, to_ms = {self._over.to_ms})"
        picked = ", ".join(f"{{{name}:Metric}} AS {name}" for name in ("covered_ms", "coverage"))
        (row,) = self._asked(definitions.written(f"SELECT {picked} FROM {time}"), self._bounds)
        return {("covered_s", "all"): row["covered_ms"] / 1_000, ("coverage", "all"): row["coverage"]}

    def _of_windows(self) -> Said:
        rows = self._asked(ROUNDED.sub(r"\1 AS \2", queries.text("throughput_by_model")), self._bounds)
        named = [one.name for one in definitions.METRICS.values() if one.over == "windows"]
        said = {(name, f"model={row['model']}"): row[name] for row in rows for name in named if name in row}
        return said | {("failed_share", f"model={row['model']}"): row["failed_pct"] / 100 for row in rows}

    def _of_judged(self) -> Said:
        named = [one.name for one in definitions.METRICS.values() if one.over == "judged" and one.name != "good_per_s"]
        sql = ", ".join(f"{{{name}:Metric}} AS of_{name}" for name in named)
        per_s = "WITH 60 AS covered SELECT {good_per_s:Metric} * 60"
        source = (
            "FROM llm_requests_partials FINAL WHERE grouping = 'service' AND judged_requests_sum IS NOT NULL"
            f" AND window_ms >= {self._over.from_ms} AND window_ms < {self._over.to_ms} GROUP BY model"
        )
        rows = self._asked(definitions.written(f"{per_s} AS of_good_per_s, model, {sql} {source}"), {})
        return {(name, f"model={row['model']}"): row[f"of_{name}"] for row in rows for name in (*named, "good_per_s")}

    def _of_parts(self) -> Said:
        rows = self._asked(queries.text("cost_by"), self._bounds | {"dimension": "tenant"})
        return unit_costs("tenant", [row | {"tenant": row["name"] or None} for row in rows], UNITS)

    def _of_billed(self) -> Said:
        rows = self._asked(queries.text("idle_gpus"), self._bounds)
        (row,) = [one for one in rows if one["why"] == "all in bills"]
        return {("idle_of_30_days_nusd", "all"): row["cost_of_30_days_nusd"]}


def waves(mistakes: Iterable[definitions.Metric]) -> Iterator[Sequence[definitions.Metric]]:
    """Mistakes that one query can have together: each in a formula of its own, all over the same."""
    left: dict[str, dict[str, list[definitions.Metric]]] = {}
    for one in mistakes:
        left.setdefault(one.over, {}).setdefault(one.name, []).append(one)
    for by_name in left.values():
        for wave in zip_longest(*by_name.values()):
            yield [one for one in wave if one is not None]


def test_a_mistake_in_any_formula_is_noticed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is put into what every query is written from, where the answers by other formulas do not depend on it; the
    recount knows nothing of it."""
    over = Range(asked.now_ms // MINUTE_MS * MINUTE_MS - 2 * DAY_MS, asked.now_ms // MINUTE_MS * MINUTE_MS, "minute")
    answers = Answers(asked, over)
    expected = Recount(stored(asked, asked.now_ms + DAY_MS, OBJECTIVES)).over(over.from_ms, over.to_ms)
    formulas = dict(definitions.METRICS)
    expected |= {("good_per_s", of): value for (metric, of), value in expected.items() if metric == "good"}
    share = expected["covered_s", "all"].least * 1_000 / (over.to_ms - over.from_ms)
    expected["coverage", "all"] = replace(expected["covered_s", "all"], least=share, most=share)

    def compared(over_what: str, wrong: Sequence[definitions.Metric] = ()) -> Mapping[tuple[str, str], Line]:
        monkeypatch.setattr(definitions, "METRICS", {**formulas, **{one.name: one for one in wrong}})
        found = Comparison(1, 1)
        found.take(over_what, answers.by[over_what](), expected, over)
        return found.lines

    def unnoticed(wave: Sequence[definitions.Metric]) -> Iterator[definitions.Metric]:
        try:
            lines = compared(wave[0].over, wave)
        except DatabaseError:  # a formula that the server rejects, noticed where it is the only one
            for one in wave if len(wave) > 1 else ():
                yield from unnoticed([one])
            return
        for one in wave:
            line = lines.get((one.over, SAID_AS.get(one.name, one.name)))
            if line is None or not line.different:
                yield one

    right = {key: line for over_what in answers.by for key, line in compared(over_what).items()}
    assert {(one.over, SAID_AS.get(one.name, one.name)) for one in formulas.values()} <= set(right)
    assert {key: line.examples for key, line in right.items() if line.different} == {}
    mistakes = list(mutants(formulas))
    assert [(one.name, one.sql) for wave in waves(mistakes) for one in unnoticed(wave)] == []
    assert {one.name for one in mistakes} == set(formulas)


PIECES = {
    "BILLED": (
        ("1 - least(", "1 + least("),
        ("least(1,", "greatest(1,"),
        ("length(minutes) -", "length(minutes) +"),
        ("gpu_ms[one.1] / nullIf(gpu_ms[one.2], 0)", "gpu_ms[one.2] / nullIf(gpu_ms[one.1], 0)"),
        (f"before = {MINUTE_MS} AND after", f"before = {MINUTE_MS} OR after"),
        (f"after = {MINUTE_MS}, {MINUTE_MS}", f"after = {MINUTE_MS}, -{MINUTE_MS}"),
    ),
    "COVERED": (
        ("<= greatest(", "> greatest("),
        ("greatest(one.2", "least(one.2"),
        ("hour - 1) AND has", "hour - 1) OR has"),
    ),
}
"""What may go wrong with how much of a range is billed, and with how much of it has data."""


def page(asked: Asked, name: str, ends: Mapping[str, int]) -> list[Row]:
    """A query of pages, read again: it is of the formulas as they are now."""
    text = files("fleetpulse.queries.dashboard").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    query, span_ms = dashboard.read(name, text), ends["to_ms"] - ends["from_ms"]
    given: dict[str, dashboard.Value] = {**dict.fromkeys(dashboard.STANDARD, ""), **ends}
    values = query.values(given, span_ms)
    return asked(query.at_levels(span_ms, values), values)


def test_a_mistake_in_the_clock_of_rates_is_noticed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bills, as the report reads them, and of their rollup, as pages do; and of the time with data."""
    to_ms = asked.now_ms // MINUTE_MS * MINUTE_MS
    ends = {"from_ms": to_ms - 2 * DAY_MS, "to_ms": to_ms}
    expected = Recount(stored(asked, asked.now_ms + DAY_MS, OBJECTIVES)).over(**ends)
    right = {kind: dict(getattr(definitions, kind)) for kind in PIECES}

    def noticed() -> dict[str, list[bool]]:
        billed = [*asked(queries.text("cost_bill"), ends), *page(asked, "cost_total", ends)]
        covered = page(asked, "covered", ends)
        return {
            "BILLED": [not expected["billed_ms", "all"].holds(row["billed_ms"]) for row in billed],
            "COVERED": [not expected["covered_s", "all"].holds(row["covered_ms"] / 1_000) for row in covered],
        }

    assert noticed() == {"BILLED": [False, False], "COVERED": [False]}
    for kind, mistakes in PIECES.items():
        for text, wrong in mistakes:
            pieces = {name: sql.replace(text, wrong) for name, sql in right[kind].items()}
            assert pieces != right[kind], text
            monkeypatch.setattr(definitions, kind, pieces)
            assert all(noticed()[kind]), (text, wrong)
        monkeypatch.setattr(definitions, kind, right[kind])
