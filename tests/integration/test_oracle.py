"""Every face says the same of any range, and what single rows say when they are counted one by one.

Covers lab.oracle.charts, lab.oracle.faces and lab.oracle.recipes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetpulse.queries.questions import numbered
from lab.oracle.faces import ASKED, FACES, NOT_ASKED
from lab.oracle.recipes import COUNTED, NOT_COUNTED, recipes
from lab.oracle.run import ZONES, oracle, ranges_over
from schemas.limits import DAY_MS
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


def test_ranges_have_ends_of_every_kind() -> None:
    """Each comes once."""
    ends = [over.ends for over in ranges_over(0, DAY_MS, RANGES, 1)]

    assert ends == ["any", "window", "minute", "hour", *(f"days of {zone}" for zone in ZONES)]
