"""``bench freshness``: whether a run counts whose rows did not all come."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import Difference, Report
from fleetpulse.sql.database import Answer
from lab.bench import command, cpu, freshness, live
from lab.bench.freshness import Seen
from lab.bench.measurement import Measured

EXACT = Report((), 12, ())
LACKING = Report((), 12, (Difference("a", "b", 2, 1),))


def run(monkeypatch: pytest.MonkeyPatch, books: Report, events: int) -> Measured:
    """A fleet of one window, which held 80 events a second after its end; ``events``: what it holds in the end."""
    config = SimpleNamespace(kafka="kafka", clickhouse="clickhouse", reading="reading")
    stand, seen = SimpleNamespace(config=config, clickhouse_pid=1), Seen()
    seen.note(21_000, ("gpu", 10_000), 80)

    class Tables:
        def __init__(self, login: object) -> None:
            assert login == "reading"

        def sql(self, _text: str, _parameters: Mapping[str, Any] | None = None) -> Answer:
            return Answer(("grouping", "window_ms", "events"), [("gpu", 10_000, events)])

        def close(self) -> None:
            """Nothing to give back."""

    def reconcile(kafka: object, clickhouse: object, *, wait_s: float) -> Report:
        assert (kafka, clickhouse, wait_s) == ("kafka", "clickhouse", live.SETTLE_WITHIN_S)
        return books

    processes = SimpleNamespace(start=lambda _command: None)
    monkeypatch.setattr(freshness, "fresh_stand", lambda *_of: nullcontext(stand))
    monkeypatch.setattr(live, "pipeline", lambda *_of, **_how: nullcontext(processes))
    monkeypatch.setattr(live, "fleet", lambda *_of: None)
    monkeypatch.setattr(cpu, "cpu_s", lambda _pid: 1.0)
    monkeypatch.setattr(freshness, "_observe", lambda *_of: (seen, 0, 30_000))
    monkeypatch.setattr(freshness, "reconcile", reconcile)
    monkeypatch.setattr(freshness, "Database", Tables)
    return command.freshness(Progress(), 1)


@pytest.mark.parametrize(
    ("books", "wrong"),
    [
        (EXACT, []),
        (LACKING, ["12 comparisons, 1 differences"]),
        (Report((), 0, ()), ["0 comparisons, 0 differences"]),
    ],
    ids=["exact", "an event is lost", "nothing was compared"],
)
def test_a_run_that_lost_events_is_wrong(monkeypatch: pytest.MonkeyPatch, books: Report, wrong: list[str]) -> None:
    """However fresh the rows were that came."""
    found = run(monkeypatch, books, 80)

    assert found.wrong == {"books are not exact": wrong}
    assert (found.result["books"]["exact"], found.result["max_s"]) == (books.exact, 1.0)


def test_what_comes_when_nobody_looks_any_more_was_not_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window holds more once the books are exact than it held when it was looked at last."""
    found = run(monkeypatch, EXACT, 90)

    assert found.wrong == {"books are not exact": []}
    assert found.result["max_s"] > 1_000
