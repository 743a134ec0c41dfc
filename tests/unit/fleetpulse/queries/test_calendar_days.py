"""Days of the calendar, and the range that one is compared with."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from fleetpulse.commands.asking import bounds_of
from fleetpulse.dashboard.sql_parameters import of_range
from fleetpulse.dashboard.zone import Zone
from fleetpulse.queries.calendar_days import before, day_of, midnight
from fleetpulse.queries.questions import numbered
from schemas.limits import HOUR_MS

BERLIN = ZoneInfo("Europe/Berlin")
ANY = next(iter(numbered().values()))


def at(month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return round(datetime(2026, month, day, hour, minute, tzinfo=BERLIN).timestamp() * 1_000)


@pytest.mark.parametrize(("now_ms", "until_ms"), [(150, 50), (200, 100), (10**9, 100), (99, 0)])
def test_a_range_that_is_not_over_is_compared_with_as_much_of_the_one_before(now_ms: int, until_ms: int) -> None:
    """Nothing of it where it has not begun."""
    assert before((100, 200), now_ms, UTC) == (0, until_ms)


@pytest.mark.parametrize(
    ("span", "now_ms", "days", "expected"),
    [
        ((at(3, 30), at(3, 31)), at(3, 30, 8), None, (at(3, 29), at(3, 29, 9))),
        ((at(3, 30), at(3, 31)), at(3, 31), None, (at(3, 29), at(3, 30))),
        ((at(3, 29), at(3, 30)), at(4, 1), None, (at(3, 28), at(3, 29))),
        ((at(3, 29), at(3, 30)), at(3, 29, 23), None, (at(3, 28), at(3, 28, 22))),
        ((at(10, 25), at(10, 26)), at(10, 25, 23, 30), None, (at(10, 24), at(10, 25))),
        ((at(3, 25), at(4, 1)), at(4, 1), None, (at(3, 18), at(3, 25))),
        ((at(3, 30), at(3, 31)), at(3, 30, 8), 7, (at(3, 23), at(3, 23, 8))),
        ((at(3, 29), at(3, 29, 12)), at(4, 1), None, (at(3, 29) - 11 * HOUR_MS, at(3, 29))),
    ],
    ids=["after 23 h", "whole after 23 h", "of 23 h", "of 23 h so far", "of 25 h so far", "week", "back", "half"],
)  # fmt: skip
def test_days_are_compared_with_as_many_days(
    span: tuple[int, int], now_ms: int, days: int | None, expected: tuple[int, int]
) -> None:
    """Whole ones from midnight to midnight; of one that is not over as many hours, never more than a day has.

    Clocks go forward on 29 March, and back on 25 October."""
    assert before(span, now_ms, BERLIN, days) == expected


def test_a_day_begins_at_midnight_of_its_zone() -> None:
    """A moment is of the day that clocks there show; of two midnights of one day the first counts."""
    assert midnight(date(2026, 3, 30), BERLIN) - midnight(date(2026, 3, 29), BERLIN) == 23 * HOUR_MS
    assert midnight(date(2026, 3, 30), BERLIN, 90) == at(3, 30, 1, 30)
    assert day_of(at(3, 30), BERLIN) == date(2026, 3, 30)
    assert day_of(at(3, 30) - 1, BERLIN) == date(2026, 3, 29)
    assert day_of(at(3, 30), UTC) == date(2026, 3, 29)
    assert midnight(date(2026, 3, 30), None) > 0


@pytest.mark.parametrize("name", ["Today", "Yesterday"])
@pytest.mark.parametrize("now_ms", [at(3, 29, 9), at(3, 30, 9), at(10, 25, 20), at(10, 26, 3), at(6, 7, 8)])
def test_pages_and_commands_compare_a_day_with_the_same_hours(name: str, now_ms: int) -> None:
    """On page *SQL* and by ``fleetpulse ask``, on days of 23 and 25 hours too."""
    shown = of_range(Zone("Europe/Berlin", BERLIN).days(name, now_ms), now_ms, BERLIN)
    asked = bounds_of(ANY, name.lower(), None, None, None, BERLIN, now_ms)

    ends = ("from_ms", "before_from_ms", "before_to_ms")
    assert [asked[one] for one in ends] == [shown[one] for one in ends]
    assert asked["to_ms"] == min(shown["to_ms"], now_ms)
