"""What a page works with: its range and what of it is over, its queries, what becomes of a failed asking."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.time_range import RangeSpec, TimeRange, fixed
from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts, View
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.queries.dashboard import query
from fleetpulse.sql.database import Answer
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

MIDNIGHT_MS = 20_000 * DAY_MS
NOW_MS = MIDNIGHT_MS + 5 * HOUR_MS + 20 * MINUTE_MS + 3_000
TODAY = fixed(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
WINDOW_OVER_MS = NOW_MS + 7_000


class RecordingData:
    """Answers every query with nothing."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, dict[str, Any], int]] = []

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        self.queries.append((name, values, span_ms))
        self.kept_from_ms = kept_from_ms
        return Answer((), ())


def view_of(spec: RangeSpec, data: object = None) -> View:
    """A page over this range, at ``NOW_MS``."""
    user = User("ada", OPERATOR)
    given = cast(Data, data or RecordingData())
    state = UrlState(spec)
    return View("/x", {}, state, given, Facts(), lambda: user, dark=False, zone=UTC_ZONE, now_ms=lambda: NOW_MS)


@pytest.mark.parametrize(
    ("spec", "past"),
    [
        (TODAY, TimeRange(MIDNIGHT_MS, WINDOW_OVER_MS)),
        (RangeSpec("1h"), TimeRange(WINDOW_OVER_MS - HOUR_MS, WINDOW_OVER_MS)),
        (fixed(0, HOUR_MS), TimeRange(0, HOUR_MS)),
        (fixed(NOW_MS + DAY_MS, NOW_MS + 2 * DAY_MS), TimeRange(NOW_MS + DAY_MS, NOW_MS + DAY_MS)),
    ],
    ids=["today", "moving", "over", "future"],
)
async def test_queries_end_now_where_the_range_ends_later(spec: RangeSpec, past: TimeRange) -> None:
    """Some take the end for now: which alert is silenced, what the last fifteen minutes were."""
    data = RecordingData()
    view = view_of(spec, data)

    await view.ask("alerts_open", kept_ms=DAY_MS)

    ((_, values, span_ms),) = data.queries
    assert (view.past, view.until_ms) == (past, past.to_ms)
    assert (values["from_ms"], values["to_ms"]) == (past.from_ms, past.to_ms)
    assert span_ms == view.range.span_ms


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("1h", (WINDOW_OVER_MS + 50_000 - HOUR_MS, WINDOW_OVER_MS + 50_000)),
        ("9m", (WINDOW_OVER_MS - 540_000, WINDOW_OVER_MS)),
    ],
)
async def test_what_is_kept_for_a_minute_is_queried_by_whole_minutes(last: str, found: tuple[int, int]) -> None:
    """So that a page which follows the clock meets it; not of a range that minutes would change much."""
    data = RecordingData()
    await view_of(RangeSpec(last), data).ask("joins")

    ((_, values, _),) = data.queries
    assert (values["from_ms"], values["to_ms"]) == found


class LateMarks(RecordingData):
    """Deployments are answered last."""

    def __init__(self) -> None:
        super().__init__()
        self.is_late = asyncio.Event()

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        await super().ask(name, values, span_ms, kept_from_ms)
        if name != "deployments":
            return Answer((), ())
        await self.is_late.wait()
        return Answer(("begun_ms", "a_kind", "model_version", "a_message"), ((1, "marked", None, "v2"),))

    async def lack(self, _kinds: object, _span: object) -> None:
        """Nothing is lacking."""


async def test_answers_wait_for_the_marks_that_are_queried_beside_them() -> None:
    """A chart is drawn once, with its marks; a page does not wait for these before it queries."""
    data, drawn = LateMarks(), []
    view = view_of(fixed(0, HOUR_MS), data)

    async def refresh() -> None:
        await view.ask("requests_over_time")
        drawn.append(view.marks)

    running = view.begin(refresh)
    while len(data.queries) < 2:  # noqa: ASYNC110 (its first steps, no more)
        await asyncio.sleep(0)
    assert ({name for name, *_ in data.queries}, drawn) == ({"deployments", "requests_over_time"}, [])
    data.is_late.set()
    await running
    assert drawn == [((1, "v2"),)]


def test_what_is_to_come_of_today_lacks_no_data() -> None:
    """Rates say how much of the range they are of: of what of it is over."""
    assert view_of(TODAY).mean_of((NOW_MS - MIDNIGHT_MS) / 1_000) == "over 5 h of data"
    assert view_of(TODAY).mean_of(3_600, "bills") == "over 60 min of bills, of 5 h"
    assert view_of(fixed(NOW_MS - DAY_MS, NOW_MS)).mean_of(5 * 3_600) == "over 5 h of data, of 24 h"


@pytest.mark.parametrize(("days", "grain_ms"), [(29, 10_000), (31, MINUTE_MS)])
async def test_a_short_range_of_long_ago_is_read_by_minutes(days: int, grain_ms: int) -> None:
    """Rows of 10 s are gone by then; minutes are kept for a year."""
    data = RecordingData()
    view = view_of(fixed(NOW_MS - days * DAY_MS, NOW_MS - days * DAY_MS + 10 * MINUTE_MS), data)

    await view.ask("requests_over_time")

    assert data.kept_from_ms == NOW_MS - 30 * DAY_MS
    assert view.bucket_ms("requests_over_time") == grain_ms
    assert view.query("requests_over_time").sources["requests"].level(1) == {10_000: "10s", MINUTE_MS: "1m"}[grain_ms]


def test_points_of_today_end_now() -> None:
    """Nothing is drawn of the hours to come, and no rate of a point that is not over yet."""
    view, name = view_of(TODAY), "tenants_over_time"
    width_ms = view.bucket_ms(name)
    now_at_ms = NOW_MS // width_ms * width_ms
    rows = [{"at_ms": now_at_ms - width_ms}, {"at_ms": now_at_ms}]

    assert width_ms == max(10 * MINUTE_MS, query(name).grain_ms(DAY_MS))
    assert max(view.moments(name)) == now_at_ms - width_ms
    assert view.whole_buckets(name, rows) == rows[:1]


def test_the_last_point_is_shown_where_there_is_no_other() -> None:
    """What was counted so far, by the seconds so far: empty would say that nothing happened."""
    view, name = view_of(TODAY), "tenants_over_time"
    width_ms = view.bucket_ms(name)
    now_at_ms = NOW_MS // width_ms * width_ms
    rows = [{"at_ms": now_at_ms}]

    assert view.whole_buckets(name, rows) == rows
    assert view.whole_buckets(name, []) == []
    assert view.counted_s(name, now_at_ms) == (WINDOW_OVER_MS - now_at_ms) / 1_000
    assert view.counted_s(name, now_at_ms - width_ms) == width_ms / 1_000


def test_points_of_a_range_that_is_over_are_all_there() -> None:
    """Nobody waits for the last one."""
    view = view_of(fixed(MIDNIGHT_MS - DAY_MS, MIDNIGHT_MS))
    rows = [{"at_ms": MIDNIGHT_MS - MINUTE_MS}]

    assert view.whole_buckets("tenants_over_time", rows) == rows
