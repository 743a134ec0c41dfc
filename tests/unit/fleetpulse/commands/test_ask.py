"""``fleetpulse ask``: the list, the range of a question, cells for people.

Covers fleetpulse.commands.ask and fleetpulse.commands.asking.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.asking import bounds_of, midnight, over, readable
from fleetpulse.queries.questions import Question, matching, numbered
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

BERLIN = ZoneInfo("Europe/Berlin")
QUESTION = Question("?", "who_changed", last="2h")
OF_TODAY = Question("?", "who_changed", last="today", against="1d")


def at(*when: int, zone: ZoneInfo | None = None) -> int:
    return round(datetime(*when, tzinfo=zone or UTC).timestamp() * 1_000)  # type: ignore[arg-type, misc]


NOON_MS = at(2026, 3, 4, 12)


def test_without_words_all_questions_are_listed() -> None:
    """With their numbers and queries, for programs and for people."""
    listed = json.loads(CliRunner().invoke(app, ["ask", "--json"]).stdout)
    shown = CliRunner().invoke(app, ["ask"], env={"COLUMNS": "200"}).stdout

    assert [one["number"] for one in listed] == list(numbered())
    assert [one["question"] for one in listed if one["question"] not in shown] == []


def test_the_query_alone_is_printed_as_it_is() -> None:
    """By number or by words, without a server: it can be pasted."""
    (best, *_) = matching(["idle", "GPUs"])
    by_words, by_number = (
        CliRunner().invoke(app, ["ask", *words, "--sql"], env={"COLUMNS": "80"}).stdout
        for words in (("idle", "GPUs"), (str(best),))
    )

    assert by_words == by_number
    assert by_words.strip() == numbered()[best].sql(30 * DAY_MS).strip()


@pytest.mark.parametrize(
    ("words", "says"),
    [(["zebra"], "lists them"), (["tenent"], "did you mean tenant"), (["0"], "from 1 to"), (["999"], "from 1 to")],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_no_question_is_said(words: list[str], says: str) -> None:
    """With what would be one."""
    result = CliRunner().invoke(app, ["ask", *words])

    assert isinstance(result.exception, ConfigError)
    assert says in str(result.exception)


@pytest.mark.parametrize(
    ("question", "last", "against", "expected"),
    [
        (QUESTION, None, None, (NOON_MS - 2 * HOUR_MS, NOON_MS, NOON_MS - 4 * HOUR_MS)),
        (QUESTION, "10m", None, (NOON_MS - 10 * MINUTE_MS, NOON_MS, NOON_MS - 20 * MINUTE_MS)),
        (QUESTION, "10m", "7d", (NOON_MS - 10 * MINUTE_MS, NOON_MS, NOON_MS - 10 * MINUTE_MS - 7 * DAY_MS)),
        (OF_TODAY, None, None, (at(2026, 3, 4), NOON_MS, at(2026, 3, 3))),
        (OF_TODAY, None, "7d", (at(2026, 3, 4), NOON_MS, at(2026, 2, 25))),
        (OF_TODAY, "1h", None, (NOON_MS - HOUR_MS, NOON_MS, NOON_MS - HOUR_MS - DAY_MS)),
    ],
    ids=["as it is asked", "last", "against a week ago", "today", "today against a week ago", "an hour of yesterday"],
)
def test_a_change_is_against_a_range_of_the_same_length(
    question: Question, last: str | None, against: str | None, expected: tuple[int, int, int]
) -> None:
    """What was just before, or the same so much earlier."""
    found = bounds_of(question, last, None, None, against, ZoneInfo("UTC"), NOON_MS)

    assert (found["from_ms"], found["to_ms"], found["before_from_ms"]) == expected
    assert found["before_to_ms"] - found["before_from_ms"] == found["to_ms"] - found["from_ms"]


def test_yesterday_begins_at_midnight_where_a_day_has_23_hours() -> None:
    """Clocks went forward on 29 March 2026."""
    now_ms = at(2026, 3, 30, 8, zone=BERLIN)
    found = bounds_of(OF_TODAY, None, None, None, None, BERLIN, now_ms)

    assert found["from_ms"] == at(2026, 3, 30, zone=BERLIN)
    assert found["before_from_ms"] == at(2026, 3, 29, zone=BERLIN) == found["from_ms"] - 23 * HOUR_MS
    assert midnight(now_ms, 0, None) <= now_ms


def test_ends_that_are_given_go_before_all_else() -> None:
    """Whole minutes, as reports have them."""
    found = bounds_of(OF_TODAY, None, "2026-03-01", "2026-03-02", None, BERLIN, NOON_MS)

    assert (found["from_ms"], found["to_ms"]) == (at(2026, 3, 1), at(2026, 3, 2))
    assert found["before_from_ms"] == at(2026, 2, 28)


def test_cells_have_units_that_people_read() -> None:
    """By the unit in the column's name; what is unknown stays so, and 0 is 0."""
    columns = (
        "cost_nusd",
        "of_30_days_nusd",
        "energy_mj",
        "gpu_ms",
        "heard_ms",
        "wait_ms",
        "share",
        "names",
        "none_nusd",
    )
    row = (1_500_000_000, 0, 7_200_000_000, 7_200_000, NOON_MS, 12.5, float("nan"), ["a", None], None)

    heads, (cells,) = readable(columns, [row])

    assert heads[:3] == ["cost", "of_30_days", "energy"]
    assert cells == ["$1.50", "$0.00", "2.00 kWh", "2.0 h", "2026-03-04 12:00", 12.5, None, "a, –", None]


def test_an_answer_says_of_what_it_is() -> None:
    """The range, and how much of it has data."""
    bounds = {"from_ms": NOON_MS - 30 * DAY_MS, "to_ms": NOON_MS}

    assert over(bounds, 240) == "2026-02-02 12:00 to 2026-03-04 12:00 UTC, over 4 min of data, of 30 d"
    assert over(bounds, 0).endswith("no data in this range")
    before = {"before_from_ms": NOON_MS - DAY_MS, "before_to_ms": NOON_MS - DAY_MS + HOUR_MS}
    assert over(before, 3_600, "before_") == "before: 2026-03-03 12:00 to 2026-03-03 13:00 UTC, over 60 min of data"
