"""Recipes of the cookbook say what pages and tables say."""

from __future__ import annotations

from pathlib import Path

from fleetpulse.queries.dashboard import ALERTS_KEPT_MS
from schemas.limits import DAY_MS
from schemas.rows.costs import COST_KEY

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "cookbook.md"


def recipe(question: str) -> str:
    """The query under a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### {question}\n")[2]
    return text.partition("```sql\n")[2].partition("```")[0]


def test_what_is_open_is_what_page_alerts_calls_open() -> None:
    """Alerts of budgets tell nothing for weeks."""
    assert f"INTERVAL {ALERTS_KEPT_MS // DAY_MS} DAY" in recipe("What is open now?")


def test_revised_bills_are_told_apart_by_their_key() -> None:
    """Two placement groups of an engine have a bill each."""
    sql = recipe("Which bills were revised, and what did they say before?")
    keys = sql.partition("GROUP BY ")[2].partition("\n")[0].split(", ")

    assert keys == [one.removesuffix("_ms") for one in COST_KEY]
