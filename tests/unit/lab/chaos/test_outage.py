"""When an outage counts as made good, and at which rate. Covers lab.chaos.outage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import Report
from lab.chaos import outage
from lab.chaos.compare import Comparison, Difference
from lab.chaos.outage import SETTLED_MS, Outage, caught_up_ms
from schemas.errors import FleetpulseError

BACK_MS = 1_790_000_000_000
LATE_MS = 2_000
"""How long a window is waited for after its end."""
EXACT, INEXACT = Report((), 1, ()), Report((), 0, ())
RIGHT = Comparison(3, 0, 0, 0, ())
WRONG = Comparison(3, 0, 1, 0, (Difference("alerts", "transition", (), "records", 1, 0),))


def delays(*delays_s: float, grouping: str = "gpu") -> dict[tuple[str, int], int]:
    """Of one window after the other, from the one that ends with the return."""
    return {(grouping, BACK_MS + 10_000 * (at - 1)): round(1_000 * delay_s) for at, delay_s in enumerate(delays_s)}


def seen(found: dict[tuple[str, int], int], windows: int) -> int | None:
    """When it was made good, seconds after the return; as soon as so many windows have settled."""
    now_ms = BACK_MS + 10_000 * (windows - 1) + SETTLED_MS
    at_ms = caught_up_ms(found, BACK_MS, now_ms)
    return None if at_ms is None else (at_ms - BACK_MS) // 1_000


def test_it_is_made_good_with_the_first_window_of_those_that_stay_fresh() -> None:
    """Its last rows came 1 s after its end and lateness; those of the window before it came late."""
    assert seen(delays(40, 30, 20, 1, 2, 1), 6) == 30 + LATE_MS // 1_000 + 1


@pytest.mark.parametrize(
    ("delays_s", "windows"),
    [
        pytest.param((40, 30, 1, 1), 4, id="too few fresh windows"),
        pytest.param((1, 1, 1, 1, 5), 5, id="the last one is late again"),
        pytest.param((), 1, id="nothing seen"),
    ],
)
def test_it_is_not_made_good_yet(delays_s: tuple[float, ...], windows: int) -> None:
    """Three windows in a row, up to the last."""
    assert seen(delays(*delays_s), windows) is None


def test_a_window_that_may_still_grow_does_not_count() -> None:
    """Of six only three are old enough, and just two of these are fresh."""
    assert seen(delays(40, 1, 1, 1, 1, 1), 3) is None
    assert seen(delays(40, 1, 1, 1, 1, 1), 4) == 10 + 3


def test_a_window_is_as_fresh_as_its_last_grouping_set() -> None:
    """One that lags is not made good by others."""
    found = delays(1, 1, 1, 1) | delays(1, 9, 1, 1, grouping="engine")

    assert seen(found, 4) is None


@pytest.mark.parametrize(
    ("caught_up_s", "books", "alerts", "rate", "holds"),
    [
        pytest.param(100.0, EXACT, RIGHT, 7.0, True, id="seven times real time"),
        pytest.param(200.0, EXACT, RIGHT, 4.0, False, id="too slow"),
        pytest.param(None, EXACT, RIGHT, None, False, id="never"),
        pytest.param(100.0, INEXACT, RIGHT, 7.0, False, id="inexact books"),
        pytest.param(100.0, EXACT, WRONG, 7.0, False, id="an alert is missing"),
    ],
)
def test_an_outage_holds_where_all_is_right_and_soon_made_good(
    caught_up_s: float | None, books: Report, alerts: Comparison, rate: float | None, holds: bool
) -> None:
    """Ten minutes and what came while they were made good, over the time that took."""
    found = Outage("kafka", 5_000, 600.0, 0.4, caught_up_s, books, alerts)

    assert (found.rate, found.holds) == (rate, holds)
    assert found.as_dict()["holds"] == holds
    assert ("does NOT hold" in found.text()) == (not holds)


def test_a_part_that_had_ended_by_itself_is_no_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was away for nobody knows how long, and why it ended is what to look for."""
    monkeypatch.setattr(outage.stack, "kill", lambda _folder, _part: None)
    monkeypatch.setattr(outage.stack, "start_part", lambda _folder, _part: None)
    run = cast(Any, SimpleNamespace(stand=SimpleNamespace(data_dir=tmp_path)))

    with pytest.raises(FleetpulseError, match="kafka had ended by itself"):
        outage._away(run, "kafka", 0.0, Progress())
