"""A plan as people and machines read it."""

from __future__ import annotations

import pytest

from fleetpulse.migrate.plan import ApplyFile, GrowTopic, MakeTopic, Plan, Restore, SetTtl, duration
from schemas.contract.topics import BY_NAME
from schemas.ddl.kept import Kept
from schemas.limits import DAY_MS

SHORTER = (SetTtl(Kept("a", "at_ms", DAY_MS), 7 * DAY_MS, 5), SetTtl(Kept("b", "at_ms", DAY_MS), 7 * DAY_MS, 5))
PLAN = Plan(
    (
        MakeTopic(BY_NAME["books"]),
        ApplyFile("0002_add_x.sql", ("SELECT 1", "SELECT 2"), (2, "add_x", "")),
        Restore("rejected", ("CREATE TABLE",), holds_rows=True),
        *SHORTER,
        GrowTopic("gpu.samples", 4, 8),
    ),
    ("look at this",),
)


def test_a_plan_says_what_is_missing() -> None:
    """A line for each step, one for tables of which the same is to be done."""
    assert str(PLAN).splitlines() == [
        "topic books: create with 1 partitions",
        "migration 0002_add_x.sql: 2 statements",
        "missing rejected: somebody dropped it: create it without rows; restore these from a backup",
        "table ttl a, b: 7 d -> 1 d after at_ms (removes what is older)",
        "partitions gpu.samples: 4 -> 8",
        "note: look at this",
    ]
    assert str(Plan()) == "topics and tables are up to date"


def test_steps_that_remove_are_left_without_consent() -> None:
    """The others are done, and the plan says which are not."""
    found = PLAN.without_removing()

    assert (found.left, PLAN.removing) == (SHORTER, SHORTER)
    assert [step.kind for step in found.steps] == ["topic", "migration", "missing", "partitions"]
    assert "not done without --yes: table ttl a, b: 7 d -> 1 d after at_ms (removes what is older)" in str(found)
    assert not Plan(left=SHORTER).empty


def test_a_plan_is_data() -> None:
    """For `--json`."""
    assert PLAN.without_removing().data()["left"][0] == {
        "kind": "table ttl",
        "subject": "a",
        "says": "7 d -> 1 d after at_ms",
        "removes": True,
    }


@pytest.mark.parametrize(
    ("had_ms", "whole_parts", "says"),
    [
        (DAY_MS, None, "1 d -> 7 d after at_ms"),
        (DAY_MS, True, "1 d -> 7 d after at_ms"),
        (DAY_MS, False, "1 d -> 7 d after at_ms, row by row"),
        (7 * DAY_MS, False, "7 d -> 7 d after at_ms, row by row"),
        (7 * DAY_MS, True, "7 d -> 7 d after at_ms, with whole parts"),
    ],
)
def test_a_ttl_says_how_rows_go(had_ms: int, says: str, *, whole_parts: bool | None) -> None:
    """Where that is uncommon, or all that changes."""
    assert SetTtl(Kept("a", "at_ms", 7 * DAY_MS, whole_parts=whole_parts), had_ms, 5).says == says


@pytest.mark.parametrize(
    ("ms", "words"), [(7 * DAY_MS, "7 d"), (36 * 3_600_000, "36 h"), (90_000, "90 s"), (1, "1 ms"), (-1, "for ever")]
)
def test_durations_are_exact(ms: int, words: str) -> None:
    """The largest unit that divides them."""
    assert duration(ms) == words
