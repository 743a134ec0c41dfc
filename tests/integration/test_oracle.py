"""Every face says the same of any range, and what single rows say when they are counted one by one.

Covers lab.oracle.charts, lab.oracle.faces, lab.oracle.left_out and lab.oracle.recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fleetpulse.queries import dashboard
from fleetpulse.queries.questions import numbered
from lab.oracle import left_out
from lab.oracle.charts import pages
from lab.oracle.faces import ASKED, FACES
from lab.oracle.recipes import COUNTED, recipes
from lab.oracle.run import ZONES, oracle, ranges_over
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.oracle_rig import OBJECTIVES, Asked, filled
from tests.tables import Tables

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

RANGES = 10
"""As many as there are kinds of ends."""
SOMETIMES = {"report", "cookbook", "rollups"}
"""Faces that have nothing to say of a range without rows, or without whole minutes."""


@pytest.fixture(scope="module")
def asked(_tables: Tables) -> Iterator[Asked]:
    with filled(_tables) as found:
        yield found


def test_every_face_says_what_single_rows_say(asked: Asked) -> None:
    """Counts to the last one, money to the nano-dollar, rates of the time with data, percentiles within the sketch's
    error, whatever the ends of the range are."""
    compared = oracle([asked], RANGES, 1, asked.now_ms + DAY_MS, OBJECTIVES)
    differing = [line for line in compared.as_dict()["lines"] if line["different"]]

    assert differing == []
    assert compared.ranges == RANGES
    assert {face for face, _ in compared.lines} == set(FACES)
    counts = {key: line.compared for key, line in compared.lines.items() if key[0] not in SOMETIMES}
    assert {key: count for key, count in counts.items() if count < RANGES // 2} == {}


def test_each_recipe_is_compared_or_says_why_not() -> None:
    """No new one is forgotten."""
    every = set(recipes(0, 1))

    assert every == set(COUNTED) | set(left_out.RECIPES)
    assert not set(COUNTED) & set(left_out.RECIPES)


def test_each_question_is_compared_or_says_why_not() -> None:
    """Of ``fleetpulse ask``, over random ranges."""
    assert {one.query for one in numbered().values()} == set(ASKED) | set(left_out.QUESTIONS)
    assert not set(ASKED) & set(left_out.QUESTIONS)


def test_each_query_of_a_page_is_compared_or_says_why_not(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a long range and a short one, of which the covered time is another query's."""
    query, compared = dashboard.query, set[str]()

    def seen(name: str) -> dashboard.Query:
        compared.add(name)
        return query(name)

    monkeypatch.setattr(dashboard, "query", seen)
    for span_ms in (HOUR_MS, DAY_MS):
        pages(asked, asked.now_ms - span_ms, asked.now_ms)

    assert compared | set(left_out.PAGES) == set(dashboard.names())
    assert not compared & set(left_out.PAGES)


def test_each_view_is_compared_or_says_why_not(asked: Asked) -> None:
    """Of windows and bills, and their levels."""
    seen: list[str] = []

    def ask(sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        seen.append(sql)
        return asked(sql, bound)

    for grain_ms in (MINUTE_MS, HOUR_MS, DAY_MS):
        to_ms = asked.now_ms // grain_ms * grain_ms
        for name in ("views", "rollups", "cookbook"):
            FACES[name](ask, to_ms - 2 * DAY_MS, to_ms)
    text = "\n".join(seen)
    views = {
        re.sub("_1[mhd]$", "", row["name"])
        for row in asked("SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'", {})
    }
    compared = {name for name in views if re.search(rf"\b{name}(_1[mhd])?\b", text)}

    assert compared | set(left_out.VIEWS) == views
    assert not compared & set(left_out.VIEWS)


def test_ranges_have_ends_of_every_kind() -> None:
    """Each comes once."""
    ends = [over.ends for over in ranges_over(0, DAY_MS, RANGES, 1)]

    assert ends == ["any", "window", "minute", "hour", *(f"days of {zone}" for zone in ZONES)]
