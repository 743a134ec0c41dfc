"""Recipes of the cookbook say what pages and tables say."""

from __future__ import annotations

import re
from pathlib import Path

from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from schemas.limits import DAY_MS
from schemas.rows.costs import COST_KEY

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "cookbook.md"


def recipe(question: str) -> str:
    """The query under a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### {question}\n")[2]
    return text.partition("```sql\n")[2].partition("```")[0]


def test_what_a_recipe_shows_is_never_left_to_chance() -> None:
    """Where it is cut, names follow the figures in its order; the greatest of equals has an order among them, too."""
    queries = re.findall(r"^```sql\n(.+?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    cut = [re.search(r"GROUP BY ([\w, ]+)\n(?:(?:HAVING|QUALIFY) .*\n)?ORDER BY (.+)\nLIMIT", sql) for sql in queries]

    kept = [(found[1].split(", "), found[2].replace(" DESC", "").split(", ")) for found in cut if found]
    assert [names for names, order in kept if not {*names} <= {*order}] == []
    assert len(kept) > 5
    assert [
        sql for sql in queries if re.search(r"arg(?:Max|Min)\((?:gpu_uuid|engine_id|host|model|tenant), \w+\)", sql)
    ] == []


def test_what_is_open_is_what_page_alerts_calls_open() -> None:
    """Alerts of budgets tell nothing for weeks."""
    assert f"INTERVAL {ALERTS_KEPT_MS // DAY_MS} DAY" in recipe("What is open now?")


def test_revised_bills_are_told_apart_by_their_key() -> None:
    """Two placement groups of an engine have a bill each."""
    sql = recipe("Which bills were revised, and what did they say before?")
    keys = sql.partition("GROUP BY ")[2].partition("\n")[0].split(", ")

    assert keys == [one.removesuffix("_ms") for one in COST_KEY]


def test_throttled_time_is_a_share_of_the_time_of_which_it_is_known() -> None:
    """As on the pages: where nobody says, time alone would make the share smaller."""
    throttled = (
        "Which GPUs were throttled, for how much of their time?",
        "What did one GPU do while its engine's requests got slow?",
    )
    for sql in map(recipe, throttled):
        assert sql.count("sumIf(toInt128(interval_ms_sum), throttled_us_sum IS NOT NULL)") == 1
        assert sql.count("interval_ms_sum") == 1
