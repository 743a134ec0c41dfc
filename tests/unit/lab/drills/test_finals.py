"""Finals of every window are compared with what ClickHouse has of it, and with nothing that may be on its way."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetpulse.reconcile.compare import Difference, Report
from fleetpulse.sql.database import Answer
from lab.drills import finals as module
from lab.drills.finals import CHECK, compare, with_finals
from tests.unit.stream_jobs.alerts.cases import at
from tests.unit.stream_jobs.alerts.log import Log

SINCE = 1
LATE = Difference(CHECK, "engine.samples, window 0", 1, 0)


class Stored:
    """In the database's place: events of engines by the number of the window."""

    def __init__(self, windows: Mapping[int, int]) -> None:
        self.windows = {at(number): events for number, events in windows.items()}

    def sql(self, text: str) -> Answer:
        low_ms, high_ms = (int(text.split(f"window_ms {sign} ")[1].split()[0]) for sign in (">=", "<"))
        rows = self.windows.items() if "engine_samples_partials" in text else ()
        found = tuple((window_ms, events) for window_ms, events in rows if low_ms <= window_ms < high_ms)
        return Answer(("window_ms", "events"), found)


@pytest.mark.parametrize(
    ("stored", "checks", "differing"),
    [
        ({0: 9, 1: 2, 2: 3, 3: 9}, 2, []),
        ({1: 2, 2: 2}, 2, [(2, 2, 3)]),
        ({1: 2}, 2, [(2, 0, 3)]),
        ({1: 2, 2: 3, 3: 1}, 2, []),
    ],
    ids=["all is there", "an event too many", "a window that ClickHouse lacks", "a window that is not over"],
)
def test_windows_that_all_upstreams_have_passed_have_the_events_of_their_finals(
    stored: dict[int, int], checks: int, differing: list[tuple[int, int, int]]
) -> None:
    """From the fault on, added up over series and upstreams."""
    log = Log()
    log.rows(0, 0, {"a": 1})
    log.rows(0, 1, {"a": 1, "b": 1})
    log.rows(0, 2, {"a": 1, "b": 1})
    log.rows(1, 2, {"a": 1}, through=3)
    log.rows(0, 3, {"a": 1}, through=4)

    found = compare(log.records, cast(Any, Stored(stored)), at(SINCE))

    expected = [Difference(CHECK, f"engine.samples, window {at(one)}", *counts) for one, *counts in differing]
    assert found == (checks, tuple(expected))


def test_a_window_without_finals_is_missed() -> None:
    """The topic began again, and what was emitted to it meanwhile is gone."""
    log = Log()
    log.rows(0, 2, {"a": 1}, through=3)

    checks, (one,) = compare(log.records, cast(Any, Stored({1: 1, 2: 1})), at(SINCE))

    assert (checks, one.expected, one.got) == (2, 1, 0)


def test_a_topic_without_finals_compares_nothing() -> None:
    """Nothing compared is nothing that agrees."""
    assert compare([], cast(Any, Stored({1: 1})), at(SINCE)) == (0, ())


@pytest.mark.parametrize(
    ("looks", "within_s", "exact", "checks"),
    [([(0, ()), (2, (LATE,)), (2, ())], 60.0, True, 7), ([(2, (LATE,))], -1.0, False, 7), ([(0, ())], -1.0, False, 5)],
    ids=["they come", "they do not come", "no window is ever over"],
)
def test_finals_on_their_way_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, looks: list[Any], within_s: float, exact: bool, checks: int
) -> None:
    """What differs then stands in the books, beside theirs."""
    tended: list[str] = []
    config = cast(Any, SimpleNamespace(clickhouse=None))
    monkeypatch.setattr(module, "read_log", lambda *_of: [])
    monkeypatch.setattr(module, "Database", lambda _config: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(module, "compare", lambda *_of: looks.pop(0))
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)

    found = with_finals(Report((), 5, ()), config, 0, within_s, lambda: tended.append("tended"))

    assert (found.exact, found.checks, len(tended)) == (exact, checks, 2 if within_s > 0 else 0)
    assert looks == []
