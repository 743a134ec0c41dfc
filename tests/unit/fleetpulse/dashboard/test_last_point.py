"""Pages while all that happened lies in the last point of their charts, which is not over yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from nicegui import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages import custom, engine, models, pipeline
from fleetpulse.dashboard.parts import ChartPanel, Panel, Stats
from fleetpulse.dashboard.time_range import RangeSpec
from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts, PageSpec, View
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.sql.database import Answer
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.unit.fleetpulse.dashboard.idle_data import IdleData

LAST_AT_MS = 20_000 * DAY_MS + 5 * HOUR_MS
NOW_MS = LAST_AT_MS + 20 * MINUTE_MS
"""Twenty minutes of the last point, of an hour, are over."""
EARLIER_MS = LAST_AT_MS - HOUR_MS
ENDS = {"requests": 1_200, "ok": 600, "aborted": 0, "client_fault": 0, "failed": 600}
TOKENS = {"output_tokens": 2_400, "input_tokens": 0, "cached_tokens": 0}

Row = dict[str, Any]
Drawn = dict[str, list[list[float | None]]]


class Answers(IdleData):
    """Answers by query; all others with nothing."""

    def __init__(self, rows: Mapping[str, list[Row]]) -> None:
        super().__init__()
        self._rows: Mapping[str, list[Row]] = {"covered": [{"covered_ms": 20 * MINUTE_MS, "coverage": 1.0}], **rows}

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        rows = self._rows.get(name, [])
        return Answer(tuple(rows[0]), tuple(tuple(row.values()) for row in rows)) if rows else Answer((), ())


class Shown:
    """What a page said and drew: sentences in place of panels, lines by name, headline values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sentences: list[str] = []
        self.lines: list[Drawn] = []
        self.stats: dict[str, str] = {}
        monkeypatch.setattr(Panel, "empty", lambda _panel, title, advice="": self.sentences.append(title))
        monkeypatch.setattr(ChartPanel, "draw", lambda _panel, options: self.lines.append(_lines(options)))
        monkeypatch.setattr(Stats, "show", self._show_stat)

    def _show_stat(self, name: str, value: str, below: str = "", mood: str = "", *, href: str = "") -> None:
        self.stats[name] = value


def _lines(options: Mapping[str, Any]) -> Drawn:
    return {line["name"]: line["data"] for line in options["series"]}


async def _show(
    client: Client, page: PageSpec, rows: Mapping[str, list[Row]], last: str = "24h", **options: str
) -> None:
    user, state = User("ada", OPERATOR), UrlState(RangeSpec(last), options={**page.options, **options})
    data = cast(Data, Answers(rows))
    view = View(
        page.path, page.options, state, data, Facts(), lambda: user, dark=False, zone=UTC_ZONE, now_ms=lambda: NOW_MS
    )
    with client:
        await page.build(view)()


async def test_models_show_what_failed_and_what_met_its_objectives(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sentence says that nothing failed, or that nobody came."""
    shown = Shown(monkeypatch)
    rows: dict[str, list[Row]] = {
        "requests_over_time": [{"at_ms": LAST_AT_MS, **ENDS, **TOKENS}],
        "errors_over_time": [{"at_ms": LAST_AT_MS, "kind": "timeout", "requests": 600}],
        "goodput_over_time": [{"bucket_at_ms": LAST_AT_MS, "judged": 1_200, "good": 300}],
    }

    await _show(client, models.PAGE, rows)

    said = {"Every request was answered in full", "No request in this range", "No request was judged in this range"}
    assert not said.intersection(shown.sentences)
    assert (shown.stats["failed"], shown.stats["good"]) == ("50.0 %", "25.0 %")
    (flow,) = [lines for lines in shown.lines if "client faults" in lines]
    assert (flow["ok"], flow["failed"]) == ([[LAST_AT_MS, 0.5]], [[LAST_AT_MS, 0.5]])
    (errors,) = [lines for lines in shown.lines if "timeout" in lines]
    assert errors["timeout"][-1] == [LAST_AT_MS, 0.5]
    assert {value for _, value in errors["timeout"][:-1]} == {0}


async def test_goodput_is_of_all_requests_that_were_judged(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the reports have it; the line ends where the last point that is over does."""
    shown = Shown(monkeypatch)
    rows: list[Row] = [
        {"bucket_at_ms": EARLIER_MS, "judged": 3_600, "good": 3_600},
        {"bucket_at_ms": LAST_AT_MS, "judged": 1_200, "good": 0},
    ]

    await _show(client, models.PAGE, {"goodput_over_time": rows})

    assert shown.stats["good"] == "75.0 %"
    assert [lines["judged"] for lines in shown.lines if "judged" in lines] == [[[EARLIER_MS, 1.0]]]


async def test_an_engine_shows_its_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the last minutes, where there are no others."""
    shown = Shown(monkeypatch)
    latencies: Row = dict.fromkeys(engine.LATENCIES, ())

    await _show(client, engine.PAGE, {"engine_requests": [{"at_ms": LAST_AT_MS, **ENDS, **latencies}]}, name="e")

    assert "No request in this range" not in shown.sentences
    assert [lines["failed"] for lines in shown.lines if "failed" in lines] == [[[LAST_AT_MS, 0.5]]]


async def test_a_counter_shows_what_it_grew_by(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which there is the last point alone."""
    shown = Shown(monkeypatch)
    of = {"of_service": "s", "of_host": "h", "with_attributes": ""}
    rows: list[Row] = [{"at_ms": LAST_AT_MS, **of, "level": None, "increase": 600}]

    await _show(client, custom.PAGE, {"custom_over_time": rows}, metric="made")

    assert shown.lines == [{"h": [[LAST_AT_MS, 0.5]]}]


class NoLag:
    """Kafka has no group."""

    async def ask(self) -> list[Any]:
        return []


@pytest.mark.parametrize("hours_before", [0, 1], ids=["of one point", "of several"])
async def test_the_pipeline_shows_what_was_rejected(
    client: Client, monkeypatch: pytest.MonkeyPatch, hours_before: int
) -> None:
    """Beside a count of what was rejected nothing says that everything was accepted."""
    shown = Shown(monkeypatch)
    monkeypatch.setattr(pipeline, "_lag_of_groups", NoLag)
    fine = {"topic": "llm.requests", "booked": 3_600, "rejected": 0, "untimely": 0, "duplicate": 0}
    before: list[Row] = [{"at_ms": EARLIER_MS, **fine}] * hours_before
    rows: list[Row] = [*before, {"at_ms": LAST_AT_MS, **fine, "booked": 1_200, "rejected": 600}]

    await _show(client, pipeline.PAGE, {"pipeline_over_time": rows}, last="10d")

    assert "Everything was accepted" not in shown.sentences
    (odd,) = [lines for lines in shown.lines if "rejected" in lines]
    assert odd["rejected"][-1] == [LAST_AT_MS, 0.5]
