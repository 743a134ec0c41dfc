"""``fleetpulse ask``: the list, the range of a question, cells for people.

Covers fleetpulse.commands.ask, fleetpulse.commands.asking, fleetpulse.commands.answering,
fleetpulse.commands.elsewhere.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.answering import BoundQuestion, answered, held_to
from fleetpulse.commands.asking import bounds_of, command, covered, of_today, over, readable, understood
from fleetpulse.commands.elsewhere import elsewhere, options
from fleetpulse.commands.rising import rise, sought
from fleetpulse.queries.data_ends import Lack
from fleetpulse.queries.matching import matching
from fleetpulse.queries.meaning import Meaning, of_number
from fleetpulse.queries.questions import Question, numbered
from fleetpulse.sql.database import Answer, Database
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
    [
        (["0"], "from 1 to"),
        (["999"], "from 1 to"),
        (["22", "-p", "tenant=acme"], "is nothing that question 22 is held"),
        (["22", "-p", "modle=x"], "must be a parameter"),
        (["22", "-p", "region="], "is empty: give a name"),
        (["22", "-p", "tenant"], "must be name=value"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_no_question_is_said(words: list[str], says: str) -> None:
    """With what would be one."""
    result = CliRunner().invoke(app, ["ask", *words])

    assert isinstance(result.exception, ConfigError)
    assert says in str(result.exception)


def test_a_rise_is_sought_of_what_parameters_say_is_measured() -> None:
    """Not of what the question measures else: the answer is of the stretch that is found."""
    asked: list[dict[str, object]] = []

    class Server:
        def sql(self, _sql: str, parameters: dict[str, object]) -> Answer:
            asked.append(parameters)
            return Answer(("model", "at_ms", "before_ms", "now_ms"), (("llama", NOON_MS, 10.0, 20.0),))

    question = held_to(of_number(1), ["bins=tpot_us_bins", "quantile=0.5", "model=llama"])

    found = rise(cast(Database, Server()), question, (NOON_MS - HOUR_MS, NOON_MS + HOUR_MS))

    assert found is not None
    assert found.says.startswith("p50 of TPOT rose most")
    assert [(one["bins"], one["quantile"], one["model"]) for one in asked] == [("tpot_us_bins", "0.5", "llama")]


def test_a_rise_is_sought_over_the_range_that_is_listed_for_the_question() -> None:
    """Of an hour, where nobody says when."""
    asked: list[dict[str, int]] = []

    class Server:
        def sql(self, _sql: str, parameters: dict[str, int]) -> Answer:
            asked.append(parameters)
            return Answer(("model", "at_ms", "before_ms", "now_ms"), ())

    usual = bounds_of(numbered()[1], None, None, None, None, ZoneInfo("UTC"), NOON_MS)

    found = sought(cast(Database, Server()), of_number(1), usual)

    assert (numbered()[1].last, usual["from_ms"]) == ("1h", NOON_MS - HOUR_MS)
    assert found == (of_number(1), usual, "")
    assert {(one["from_ms"], one["to_ms"]) for one in asked if "width_ms" in one} == {(NOON_MS - HOUR_MS, NOON_MS)}


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [
        ("afternoon", (4, 15, 30), ((4, 12), (4, 15, 30))),
        ("afternoon", (4, 20), ((4, 12), (4, 18))),
        ("afternoon", (4, 11), ((3, 12), (3, 18))),
        ("night", (4, 9), ((3, 18), (4, 6))),
        ("15:38", (4, 20), ((4, 15, 33), (4, 15, 43))),
        ("15:38", (4, 12), ((3, 15, 33), (3, 15, 43))),
        ("evening", (29, 23), ((29, 18), (29, 23))),
        ("yesterday 15:38", (4, 20), ((3, 15, 33), (3, 15, 43))),
        ("yesterday afternoon", (4, 13), ((3, 12), (3, 18))),
        ("month", (4, 13), ((1, 0), (4, 13))),
        ("week", (4, 13), ((2, 0), (4, 13))),
        ("week", (2, 0, 30), ((2, 0), (2, 0, 30))),
        ("week", (29, 23), ((23, 0), (29, 23))),
    ],
)
def test_a_part_of_a_day_is_by_the_clocks_of_the_zone(
    last: str, now: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Of today, or of yesterday before it has begun; on a day without its second hour, too."""
    found = bounds_of(QUESTION, last, None, None, None, BERLIN, at(2026, 3, *now, zone=BERLIN))

    ends = tuple(at(2026, 3, *when, zone=BERLIN) for when in expected)
    assert (found["from_ms"], found["to_ms"]) == ends
    assert found["before_to_ms"] == ends[0]


@pytest.mark.parametrize(
    ("question", "last", "against", "expected"),
    [
        (QUESTION, None, None, (NOON_MS - 2 * HOUR_MS, NOON_MS, NOON_MS - 4 * HOUR_MS)),
        (QUESTION, "10m", None, (NOON_MS - 10 * MINUTE_MS, NOON_MS, NOON_MS - 20 * MINUTE_MS)),
        (QUESTION, "10m", "7d", (NOON_MS - 10 * MINUTE_MS, NOON_MS, NOON_MS - 10 * MINUTE_MS - 7 * DAY_MS)),
        (OF_TODAY, None, None, (at(2026, 3, 4), NOON_MS, at(2026, 3, 3))),
        (OF_TODAY, None, "7d", (at(2026, 3, 4), NOON_MS, at(2026, 2, 25))),
        (QUESTION, "yesterday", None, (at(2026, 3, 3), at(2026, 3, 4), at(2026, 3, 2))),
        (OF_TODAY, "1h", None, (NOON_MS - HOUR_MS, NOON_MS, NOON_MS - HOUR_MS - DAY_MS)),
    ],
    ids=[
        "as it is asked",
        "last",
        "against a week ago",
        "today",
        "today against a week ago",
        "yesterday",
        "an hour of yesterday",
    ],
)
def test_a_change_is_against_a_range_of_the_same_length(
    question: Question, last: str | None, against: str | None, expected: tuple[int, int, int]
) -> None:
    """What was just before, or the same so much earlier."""
    found = bounds_of(question, last, None, None, against, ZoneInfo("UTC"), NOON_MS)

    assert (found["from_ms"], found["to_ms"], found["before_from_ms"]) == expected
    assert found["before_to_ms"] - found["before_from_ms"] == found["to_ms"] - found["from_ms"]


@pytest.mark.parametrize(
    ("last", "from_", "expected"),
    [
        ("7d", None, (NOON_MS - 7 * DAY_MS, NOON_MS - 14 * DAY_MS)),
        ("week", None, (at(2026, 3, 2), 2 * at(2026, 3, 2) - NOON_MS)),
        ("since yesterday", None, (at(2026, 3, 3), 2 * at(2026, 3, 3) - NOON_MS)),
        (None, "2026-03-01", (at(2026, 3, 1), 2 * at(2026, 3, 1) - NOON_MS)),
        ("24h", None, (NOON_MS - DAY_MS, NOON_MS - 2 * DAY_MS)),
    ],
)
def test_a_range_is_compared_with_no_part_of_itself(
    last: str | None, from_: str | None, expected: tuple[int, int]
) -> None:
    """A question of today that is asked of more than a day is against the stretch before, and not a day earlier."""
    found = bounds_of(OF_TODAY, last, from_, None, None, ZoneInfo("UTC"), NOON_MS)

    assert (found["from_ms"], found["before_from_ms"]) == expected
    assert found["before_to_ms"] == found["from_ms"]
    own = bounds_of(OF_TODAY, last, from_, None, "1d", ZoneInfo("UTC"), NOON_MS)
    assert own["before_from_ms"] == found["from_ms"] - DAY_MS


@pytest.mark.parametrize(
    ("last", "begins"),
    [
        ("since yesterday", (3, 0)),
        ("since afternoon", (3, 12)),
        ("since yesterday afternoon", (3, 12)),
        ("since night", (3, 18)),
        ("since 09:05", (4, 9, 5)),
        ("since yesterday 09:05", (3, 9, 5)),
    ],
)
def test_since_a_day_or_a_time_is_until_now(last: str, begins: tuple[int, ...]) -> None:
    """Whatever part of a day it begins with; a time begins it exactly."""
    now_ms = at(2026, 3, 4, 11, zone=BERLIN)
    found = bounds_of(QUESTION, last, None, None, None, BERLIN, now_ms)

    assert (found["from_ms"], found["to_ms"]) == (at(2026, 3, *begins, zone=BERLIN), now_ms)


def test_yesterday_begins_at_midnight_where_a_day_has_23_hours() -> None:
    """Clocks went forward on 29 March 2026."""
    now_ms = at(2026, 3, 30, 8, zone=BERLIN)
    found = bounds_of(OF_TODAY, None, None, None, None, BERLIN, now_ms)

    assert found["from_ms"] == at(2026, 3, 30, zone=BERLIN)
    assert found["before_from_ms"] == at(2026, 3, 29, zone=BERLIN) == found["from_ms"] - 23 * HOUR_MS


@pytest.mark.parametrize("zone", [None, BERLIN], ids=["UTC", "Berlin"])
def test_ends_that_are_given_go_before_all_else(zone: ZoneInfo | None) -> None:
    """Whole minutes, as reports have them; days are those of the zone."""
    found = bounds_of(OF_TODAY, None, "2026-03-01", "2026-03-02", None, zone, NOON_MS)

    assert (found["from_ms"], found["to_ms"]) == (at(2026, 3, 1, zone=zone), at(2026, 3, 2, zone=zone))
    assert found["before_from_ms"] == at(2026, 2, 28, zone=zone)
    moments = bounds_of(OF_TODAY, None, "2026-03-01T06:00:00Z", None, None, zone, NOON_MS)
    assert (moments["from_ms"], moments["to_ms"]) == (at(2026, 3, 1, 6), NOON_MS)


@pytest.mark.parametrize("against", ["1.5d", "-1d", "yesterday", "d"])
def test_what_a_range_is_compared_with_is_so_much_earlier(against: str) -> None:
    """Never later, and nothing else."""
    with pytest.raises(ConfigError, match="--against"):
        bounds_of(OF_TODAY, None, None, None, against, BERLIN, NOON_MS)


def test_names_are_looked_up_over_the_range_that_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far back that is."""
    asked: list[tuple[int, int]] = []

    def meaning(_words: object, _params: object, span: tuple[int, int], _database: object) -> Meaning:
        asked.append(span)
        return of_number(22)

    monkeypatch.setattr("fleetpulse.commands.answering.meaning", meaning)
    for words in (["cost", "--last", "60d"], ["cost last 60 days"], ["cost"]):
        CliRunner().invoke(app, ["ask", *words, "--sql"])

    assert [to_ms - from_ms for from_ms, to_ms in asked] == [60 * DAY_MS, 60 * DAY_MS, DAY_MS]


def test_cells_have_units_that_people_read() -> None:
    """By the unit in the column's name; what is unknown stays so, and 0 is 0."""
    columns = (
        "cost_nusd",
        "cost_of_30_days_nusd",
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

    assert heads[:3] == ["cost", "cost_of_30_days", "energy"]
    assert cells == ["$1.50", "$0.00", "2.00 kWh", "2.0 h", "2026-03-04 12:00", 12.5, None, "a, –", None]


def test_an_answer_says_of_what_it_is() -> None:
    """The range, and how much of it has data."""
    bounds = {"from_ms": NOON_MS - 30 * DAY_MS, "to_ms": NOON_MS}

    assert over(bounds, 240) == "2026-02-02 12:00 to 2026-03-04 12:00 UTC, over 4 min of data, of 30 d"
    assert over(bounds, 0).endswith("no data in this range")
    before = {"before_from_ms": NOON_MS - DAY_MS, "before_to_ms": NOON_MS - DAY_MS + HOUR_MS}
    assert over(before, 3_600, "before_") == "before: 2026-03-03 12:00 to 13:00 UTC, over 60 min of data"


class Covered:
    """Answers how much of a range has data; which tables it was asked of."""

    def __init__(self) -> None:
        self.sql_asked: list[str] = []

    def sql(self, text: str, _bound: object = None) -> Answer:
        self.sql_asked.append(text)
        return Answer(("covered_ms", "coverage"), ((60_000, 1.0),) if "AS coverage" in text else ())


@pytest.mark.parametrize("kept_from_ms", [NOON_MS - HOUR_MS, NOON_MS])
def test_data_of_a_range_is_looked_for_where_it_still_is(kept_from_ms: int) -> None:
    """Rows of 10 s are kept for some days; a range that begins before is read by minutes."""
    database = Covered()

    assert covered(database, NOON_MS - HOUR_MS, NOON_MS, kept_from_ms) == 60
    assert ("llm_requests_partials" in database.sql_asked[0]) == (kept_from_ms == NOON_MS - HOUR_MS)


def test_how_much_has_data_is_told_of_what_is_kept() -> None:
    """Of the range before, too."""
    bounds = {"from_ms": NOON_MS - HOUR_MS, "to_ms": NOON_MS}
    bounds |= {"before_from_ms": NOON_MS - 2 * HOUR_MS, "before_to_ms": NOON_MS - HOUR_MS}
    question = BoundQuestion.of(of_number(13), bounds, [], whole=False, kept_from_ms=NOON_MS - HOUR_MS)
    database = Covered()

    result = answered(cast(Database, database), question, "", "fleetpulse ask 13")
    (now, before) = (one for one in database.sql_asked if "AS coverage" in one)
    assert "llm_requests_partials" in now
    assert "_partials" not in before
    assert (result.data["covered_s"], result.data["before_covered_s"]) == (60, 60)


def test_what_was_understood_stands_below_the_question() -> None:
    """What is measured, of what alone, and whose day it is."""
    spike, tokens = numbered()[1], numbered()[33]
    day = of_today(tokens, "", None, None, "Europe/Berlin")

    assert understood({"model": "llama"}, spike.given, "") == "p99 of TTFT of model llama"
    assert understood({"tenant": "acme", "host": "h"}, {}, day) == (
        "tenant acme, host h, today, against yesterday (Europe/Berlin)"
    )
    assert understood({}, {}, "") == of_today(tokens, "1h", None, None, None) == of_today(tokens, "", "1", None, None)
    assert of_today(spike, "yesterday", None, None, None) == "yesterday (time of this machine)"
    assert of_today(tokens, "", None, "7d", None) == "today, against 7d earlier (time of this machine)"


def test_another_range_is_a_command_to_paste() -> None:
    """As it was written, with the range added."""
    written = command(["why is acme slow"], ["model=a b"], against="1d", zone=None)

    assert written == "fleetpulse ask 'why is acme slow' -p 'model=a b' --against 1d"
    assert options((NOON_MS, NOON_MS + MINUTE_MS)) == "--from 2026-03-04T12:00Z --to 2026-03-04T12:01Z"
    assert elsewhere(Lack(("bills",), (0, HOUR_MS), ((NOON_MS, NOON_MS + DAY_MS),)), "fleetpulse report cost") == [
        "no bills in 1970-01-01 00:00 to 01:00 UTC; data covers 2026-03-04 12:00 to 2026-03-05 12:00 UTC",
        "try: fleetpulse report cost --from 2026-03-04T12:00Z --to 2026-03-04T13:00Z",
    ]
    assert elsewhere(Lack(("bills",), (0, 1), ()), "") == ["no bills yet"]
    assert elsewhere(None, "") == []
    assert command(["tokens"], [], against=None, zone=None) == "fleetpulse ask tokens"


def test_a_local_stack_is_named_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As commands of the stack take it; a command to be tried next has it, too. None runs elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked = CliRunner().invoke(app, ["ask", "22", "--data-dir", str(tmp_path)])

    assert isinstance(asked.exception, ConfigError)
    assert f"looked in {tmp_path} and " in str(asked.exception)
    assert command(["tokens"], [], zone=None, data_dir=tmp_path) == f"fleetpulse ask tokens --data-dir {tmp_path}"


def test_a_name_holds_every_table_of_the_question() -> None:
    """Of words and of parameters alike; a parameter goes before the words."""
    bounds = {"from_ms": 0, "to_ms": HOUR_MS, "before_from_ms": 0, "before_to_ms": 0}
    meaning = Meaning(4, (), {"model": "llama"}, {})

    asked = BoundQuestion.of(meaning, bounds, ["tenant=acme", "model=qwen"], whole=True)
    of_spike = BoundQuestion.of(of_number(1), bounds, ["model=qwen", "quantile=0.5"], whole=True)

    assert asked.held == {"model": "qwen", "tenant": "acme"}
    held = "(SELECT * FROM llm_requests_partials FINAL WHERE model = {model:String} AND tenant = {tenant:String})"
    assert held in asked.query.sql
    assert {**asked.query.parameters} == {"model": "qwen", "tenant": "acme", "from_ms": "0", "to_ms": str(HOUR_MS)}
    assert of_spike.query.sql == numbered()[1].sql(HOUR_MS).strip()
    assert of_spike.measured == {"model": "qwen", "bins": "ttft_us_bins", "quantile": "0.5"}
    assert (of_spike.compared, asked.compared) == (True, False)
