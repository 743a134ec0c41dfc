"""Budget files: what is in them, and every mistake with its line and key."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.budgets.load import BUDGETS_MAX, load, parse_budgets
from stream_jobs.budgets.model import LEVELS, Budget, Budgets, Level, Unusual
from stream_jobs.yaml_files.errors import FileError

EXAMPLE = Path(__file__).parents[4] / "fleetpulse" / "data" / "budgets" / "example.yaml"


A = "2: budgets.a."
DOLLARS = "must be like `500 USD`, above 0, below a billion"
LISTED = "a list of `{name: ..., amount: 500 USD}`, one or more"


def problems(text: str) -> tuple[str, ...]:
    """The mistakes of a file, without its name."""
    with pytest.raises(FileError) as caught:
        parse_budgets(text.encode(), "b.yaml")
    return tuple(line.removeprefix("b.yaml:") for line in caught.value.problems)


def one(**keys: str) -> str:
    """A file with one budget in line 2."""
    given = {"name": "a", "amount": "5 USD", **keys}
    return "budgets:\n- {" + ", ".join(f"{key}: {value}" for key, value in given.items()) + "}"


def test_a_file_says_teams_budgets_and_levels() -> None:
    """Each word of a file is in what comes back; what is not written has its default."""
    found = parse_budgets(
        b"teams: {search: [acme, globex]}\n"
        b"budgets:\n"
        b"- {name: all of it, amount: 0.000000001 USD}\n"
        b"- {name: four weeks, team: search, amount: 12.5 USD, days: 28, since: 2026-01-05,\n"
        b"   levels: [{at: 80%}, {at: 99.5%, kind: hard}, {at: 100%, ahead: true}]}\n",
        "b.yaml",
    )

    assert found == Budgets(
        (
            Budget("all of it", 1, levels=LEVELS),
            Budget(
                "four weeks",
                12_500_000_000,
                "team",
                "search",
                28,
                date(2026, 1, 5),
                (Level(800_000), Level(995_000, "hard"), Level(1_000_000, ahead=True)),
            ),
        ),
        {"acme": "search", "globex": "search"},
    )


def test_rules_of_unusual_days_need_no_budgets() -> None:
    """Nor do budgets need them."""
    found = parse_budgets(b"unusual:\n- {each: tenant, above: 250%, at_least: 20 USD}\n", "b.yaml")

    assert found == Budgets((), {}, (Unusual("tenant", 2_500_000, 20_000_000_000),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ("1: the file is empty; it needs at least `budgets:`",), id="empty"),
        pytest.param("a", ("1: the file must be a mapping (key: value)",), id="no mapping"),
        pytest.param("budgets: ]", ("1: this is no YAML: did not find expected node content",), id="no YAML"),
        pytest.param(
            "budgets: []", (f"1: budgets: must be {LISTED}",), id="no budgets"
        ),
        pytest.param("teams: {}", ("1: the file needs at least `budgets` or `unusual`",), id="neither"),
        pytest.param(
            "budgets: [" + (BUDGETS_MAX + 1) * "1," + "]",
            (f"1: budgets: has more than {BUDGETS_MAX} entries; split the file",),
            id="too many",
        ),
        pytest.param(
            "teams: {a: [x], b: x}\n" + one(), ("1: teams: tenant 'x' is in team 'a' already",), id="in two teams"
        ),
        pytest.param(
            one(amount="5 EUR"),
            (A + f"amount: '5 EUR' {DOLLARS}",),
            id="other currency",
        ),
        pytest.param(
            one(amount="0.0 USD"), (A + f"amount: '0.0 USD' {DOLLARS}",), id="zero"
        ),
        pytest.param(
            one(amount="-5 USD"), (A + f"amount: '-5 USD' {DOLLARS}",), id="below 0"
        ),
        pytest.param(
            one(tenant="t", model="m"),
            ("2: budgets.a: a budget is for one of tenant, team, model; this one names tenant and model",),
            id="two scopes",
        ),
        pytest.param(one(tenant="null"), (A + "tenant: must be a word",), id="a budget of null, which is not all"),
        pytest.param(one(team="z"), ("2: budgets: team 'z' has no tenants; list them under teams",), id="unknown team"),
        pytest.param(
            one(since="2026-01-01"), (A + "since: needs `days` beside it: how long a period is",), id="no days"
        ),
        pytest.param(
            one(days="7", since="2026-02-30"), (A + "since: '2026-02-30' must be a day like 2026-01-05",), id="no day"
        ),
        pytest.param(one(days="0"), (A + "days: '0' must be a whole number from 1 to 366",), id="no length"),
        pytest.param(
            one(levels="[{at: 80}, {at: 2000%}, {at: 50%, kind: loud}]"),
            (
                A + "levels.at: '80' must be a share of the budget like 80%, above 0, at most 1000%",
                A + "levels.at: '2000%' must be a share of the budget like 80%, above 0, at most 1000%",
                A + "levels.kind: 'loud' is not known; valid: hard, soft",
            ),
            id="wrong levels",
        ),
        pytest.param(
            one(levels="[{at: 80%}, {at: 80%, kind: hard}, {at: 80.0%}]"),
            (A + "levels: the same stands already at b.yaml:2; a level is notified once",),
            id="a level twice",
        ),
        pytest.param(
            "unusual:\n- {each: team, above: 200%, at_least: 5 USD}",
            ("2: unusual.each: 'team' is not known; did you mean tenant?",),
            id="unusual of nobody known",
        ),
        pytest.param(
            "unusual:\n- {each: all, above: 100%, at_least: 5 USD}\n- {each: all, above: 200%, at_least: 5}",
            (
                "2: unusual.above: '100%' must be like 200%: of the usual, above 100%, at most 1000%",
                "3: unusual.at_least: '5' must be like `500 USD`, above 0, below a billion",
            ),
            id="unusual shares and sums",
        ),
        pytest.param(
            one() + "\nunusual:\n" + 2 * "- {each: all, above: 200.0%, at_least: 5 USD}\n",
            ("5: unusual: the same stands already at b.yaml:4; each is notified once",),
            id="unusual twice",
        ),
        pytest.param(
            "unusual: []",
            ("1: unusual: must be a list of `{each: tenant, above: 200%, at_least: 50 USD}`, one or more",),
            id="nothing unusual",
        ),
        pytest.param(
            one() + "\n- {name: a, amount: 1 USD}",
            ("3: budgets: the same stands already at b.yaml:2; give each its own name",),
            id="twice",
        ),
        pytest.param(one(untill="1"), (
            A + "untill: unknown key; valid: amount, days, levels, model, name, since, team, tenant",
        ), id="unknown key"),
    ],
)  # fmt: skip
def test_every_mistake_has_its_line(text: str, expected: tuple[str, ...]) -> None:
    """What is wrong, where, and what would be right."""
    assert problems(text) == expected


@given(st.binary(max_size=60) | st.text(alphabet="budgets:-{}[]nam \n\t5USD%,#&*!", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever a file holds, there are budgets or a list of mistakes."""
    found = read(data)

    if isinstance(found, Budgets):
        assert found.budgets or found.unusual
    else:
        assert all(line.startswith("b.yaml:") for line in found)


def read(data: bytes) -> Budgets | tuple[str, ...]:
    """The budgets, or what is wrong."""
    try:
        return parse_budgets(data, "b.yaml")
    except FileError as error:
        return error.problems


def test_the_shipped_example_is_valid() -> None:
    """What people copy is right."""
    assert [budget.name for budget in load(EXAMPLE).budgets] == [
        "fleet", "acme", "search team", "coding models, four weeks",
    ]  # fmt: skip


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Path and reason stand in the sentence."""
    with pytest.raises(FileError, match=r"none\.yaml:1: cannot be read: No such file or directory; check path"):
        load(tmp_path / "none.yaml")
