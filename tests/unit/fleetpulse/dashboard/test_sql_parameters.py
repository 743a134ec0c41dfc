"""Parameters of statements on page SQL: whose value counts, how a link carries them, what people are asked for."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.sql_parameters import (
    GIVEN_MAX,
    missing,
    of_range,
    parsed,
    values_for,
    written,
)
from fleetpulse.dashboard.time_range import TimeRange

RANGED = of_range(TimeRange(3_600_000, 7_200_000), 9_000_000, UTC)
SQL = (
    "SELECT {metric:String}, {model:String}, {dimension:Identifier},"
    " {from_ms:Int64}, {before_from_ms:Int64}, {top:UInt32}"
)


def test_what_people_gave_counts_before_the_range_and_before_what_is_offered() -> None:
    """Text that nobody gave is empty, which filters take as all; other types have no value then."""
    usual = {"metric": "a", "model": "", "from_ms": 3_600_000, "before_from_ms": 0, "top": 50}

    assert values_for(SQL, RANGED, {}, {"metric": ("a", "b")}) == usual
    assert values_for(SQL, RANGED, {"metric": "b", "top": "3", "else": "x"}, {"metric": ("a", "b")}) == {
        **usual,
        "metric": "b",
        "top": "3",
    }


def test_what_is_missing_is_asked_for_with_its_type() -> None:
    """Nothing is asked for where all is known."""
    assert missing(SQL, values_for(SQL, RANGED, {}, {})) == "dimension (Identifier): give a value below the statement"
    assert missing(SQL, values_for(SQL, RANGED, {"dimension": "model"}, {})) == ""


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text(min_size=1), max_size=GIVEN_MAX))
def test_a_link_carries_any_values(values: dict[str, str]) -> None:
    """Empty ones are none."""
    assert parsed(written({**values, "none": ""})) == {key: one for key, one in values.items() if key != "none"}


def test_letters_of_any_script_count_once() -> None:
    """A link carries so many characters: a name of the longest kind has room, in whatever script."""
    name = "モデル" * 60

    assert len(written({"model": name, "tenant": "a&b=c+d%e"})) == len("model=&tenant=a%26b%3Dc%2Bd%25e") + len(name)
    assert parsed(written({"model": name})) == {"model": name}


@pytest.mark.parametrize("link", ["&" * 10_000, "=", "%", "a", "a=1&" * GIVEN_MAX])
def test_no_link_fails_a_page(link: str) -> None:
    """What cannot be read is left out, as is more than any statement takes."""
    assert parsed(link) == {}
