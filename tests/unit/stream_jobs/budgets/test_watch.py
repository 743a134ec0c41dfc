"""Levels that hold: once each in a period, until it ends, the budget is raised, or bills are corrected."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stream_jobs.budgets.model import Budget, Budgets, Level
from stream_jobs.budgets.spend import Spend
from stream_jobs.budgets.watch import GRACE_MS, Crossed, Held, Key, Watch
from tests.unit.stream_jobs.budgets.spend_cases import DAY_MS, DOLLAR, spend_row

HALF, HARD = Level(500_000), Level(1_000_000, "hard")
AHEAD = Level(1_000_000, ahead=True)


def ms(month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return round(datetime(2026, month, day, hour, minute, tzinfo=UTC).timestamp()) * 1_000


def day_of(month: int, day: int) -> int:
    return ms(month, day) // DAY_MS


APRIL, MAY = ms(4, 1), ms(5, 1)


class Case:
    """One budget of 100 dollars a month, what was spent, and what holds."""

    def __init__(self, *levels: Level) -> None:
        self.budgets = Budgets((Budget("b", 100 * DOLLAR, levels=levels),))
        self.watch, self.spend = Watch(self.budgets), Spend(self.budgets)

    def changed(self, amount: int, *levels: Level) -> None:
        """The file says so from now on; what is held is taken over."""
        held = self.watch.dump()
        self.budgets = Budgets((Budget("b", amount, levels=levels),))
        self.watch = Watch(self.budgets)
        self.watch.load(held)

    def spent(self, month: int, day: int, dollars: int) -> None:
        self.spend.add([spend_row(day_of(month, day), dollars * DOLLAR)])

    def judge(self, now_ms: int) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
        """(level, period, since) of what holds and (level, period, end) of what does no more."""
        crossed, ended = self.watch.judge(self.spend, now_ms)
        return (
            [(one.key.level, one.key.start_ms, one.since_ms) for one in crossed],
            [(key.level, key.start_ms, at_ms) for key, at_ms in ended],
        )


@pytest.mark.parametrize(
    ("level", "name"),
    [(Level(805_000), "soft 80.5%"), (HARD, "hard 100%"), (AHEAD, "soft 100% ahead")],
    ids=["a share", "hard", "ahead"],
)
def test_names_of_levels(level: Level, name: str) -> None:
    """They stand in the labels of an alert."""
    assert level.name == name


def test_a_level_holds_from_the_moment_it_is_crossed() -> None:
    """Below, on it, further on: since the first time, and nothing ends."""
    case = Case(HALF, HARD)
    case.spent(4, 2, 49)
    assert case.judge(ms(4, 2, 9)) == ([], [])

    case.spent(4, 2, 1)
    assert case.judge(ms(4, 2, 10)) == ([("soft 50%", APRIL, ms(4, 2, 10))], [])
    case.spent(4, 3, 50)
    held = [("soft 50%", APRIL, ms(4, 2, 10)), ("hard 100%", APRIL, ms(4, 3, 1))]
    assert case.judge(ms(4, 3, 1)) == (held, [])
    assert case.judge(ms(4, 20)) == (held, [])


def test_a_corrected_bill_or_a_raised_budget_ends_it() -> None:
    """At the moment that is known; crossed again it is new."""
    case = Case(HALF)
    case.spent(4, 2, 60)
    case.judge(ms(4, 2, 10))

    case.spent(4, 2, -11)
    assert case.judge(ms(4, 2, 11)) == ([], [("soft 50%", APRIL, ms(4, 2, 11))])
    case.spent(4, 2, 1)
    assert case.judge(ms(4, 2, 12)) == ([("soft 50%", APRIL, ms(4, 2, 12))], [])
    case.changed(121 * DOLLAR, HALF)
    assert case.judge(ms(4, 2, 13)) == ([], [("soft 50%", APRIL, ms(4, 2, 13))])


def test_a_level_or_budget_that_is_in_the_file_no_more_ends() -> None:
    """Whatever was spent."""
    case = Case(HALF, HARD)
    case.spent(4, 2, 100)
    case.judge(ms(4, 2, 10))

    case.changed(100 * DOLLAR, HARD)

    assert case.judge(ms(4, 2, 11)) == (
        [("hard 100%", APRIL, ms(4, 2, 10))],
        [("soft 50%", APRIL, ms(4, 2, 11))],
    )


def test_at_the_turn_of_a_period_late_bills_still_count() -> None:
    """The old period is judged for half an hour beside the new one; then it ends, when it did."""
    case = Case(HALF, HARD)
    case.spent(4, 30, 60)
    half = ("soft 50%", APRIL, ms(4, 30, 23))
    assert case.judge(ms(4, 30, 23)) == ([half], [])
    assert case.judge(MAY) == ([half], [])

    case.spent(4, 30, 40)  # the last minutes of the month
    case.spent(5, 1, 50)
    late, new = ("hard 100%", APRIL, MAY - 1), ("soft 50%", MAY, ms(5, 1, 0, 2))
    assert case.judge(ms(5, 1, 0, 2)) == ([half, late, new], [])
    assert case.judge(MAY + GRACE_MS - 1) == ([half, late, new], [])
    assert case.judge(MAY + GRACE_MS) == ([new], [("soft 50%", APRIL, MAY), ("hard 100%", APRIL, ms(5, 1, 0, 2))])


def test_a_forecast_that_moves_does_not_come_and_go() -> None:
    """Crossed at the level, over when it is 5 % below."""
    case = Case(AHEAD)
    for day in range(1, 11):
        case.spent(4, day, 3)
    assert case.judge(ms(4, 11)) == ([], [])  # 30 and 20 days of 3: 90

    case.spent(4, 10, 10)  # 40 and 20 days of 4: 120
    assert case.judge(ms(4, 11)) == ([("soft 100% ahead", APRIL, ms(4, 11))], [])
    case.spent(4, 10, -8)  # 32 and 20 of 3.2: 96
    assert case.judge(ms(4, 11, 0, 1)) == ([("soft 100% ahead", APRIL, ms(4, 11))], [])
    case.spent(4, 10, -1)  # 31 and 20 of 3.1: 93
    assert case.judge(ms(4, 11, 0, 2)) == ([], [("soft 100% ahead", APRIL, ms(4, 11, 0, 2))])


def test_without_history_no_forecast_holds() -> None:
    """However much was spent: a hard level says that."""
    case = Case(AHEAD, HARD)
    case.spent(4, 1, 500)

    assert case.judge(ms(4, 1, 5)) == ([("hard 100%", APRIL, ms(4, 1, 5))], [])


def test_what_is_known_of_a_period_is_said() -> None:
    """And from which day on; asked of any level of any budget in the file."""
    case = Case(HALF)
    case.spent(4, 2, 60)
    case.judge(ms(4, 2, 10))
    key = Key("b", "soft 50%", APRIL)

    part = case.watch.stands(key, case.spend, ms(4, 2, 11))
    case.spent(3, 30, 1)
    whole = case.watch.stands(key, case.spend, ms(4, 2, 11))

    assert isinstance(part, Crossed)
    assert isinstance(whole, Crossed)
    assert (part.known_ms, whole.known_ms) == (ms(4, 2), ms(3, 30))
    assert (whole.stands.spent_nusd, whole.since_ms) == (60 * DOLLAR, ms(4, 2, 10))
    assert case.watch.stands(Key("c", "soft 50%", APRIL), case.spend, ms(4, 2, 11)) is None


def test_what_is_held_survives_a_dump() -> None:
    """As plain values."""
    case = Case(HALF, HARD)
    case.spent(4, 2, 100)
    case.judge(ms(4, 2, 10))
    again = Watch(case.budgets)

    again.load(case.watch.dump())

    assert again.held == case.watch.held
    assert again.held[Key("b", "hard 100%", APRIL)] == Held(ms(4, 2, 10), MAY)
