"""History as records of window.finals: in order of time, whole windows, bounded stretches; and rules over it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fleetpulse.backtest.files import preset
from fleetpulse.backtest.history import decode_blocks, events_sql, merged_sql, stretches
from fleetpulse.backtest.replay import backtest_history, judge
from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.record import Record
from schemas.errors import ConfigError, FleetpulseError
from schemas.events.event_types import BY_TOPIC, GPU_EVENTS
from schemas.fields import Field, Kind, Role
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders, PassedOnHeaders
from schemas.rows.tables import GROUPED, PARTIALS

START_MS = 1_790_035_200_000
Rows = list[dict[str, Any]]


def gpu_row(window_ms: int, throttled_us: int = 0) -> dict[str, Any]:
    zeros = {field.name: 0 for field in PARTIALS["gpu.samples"].fields if field.kind.numpy and not field.kind.optional}
    return {
        **zeros, "window_ms": window_ms, "event_count": 10, "last_at_ms": window_ms + 9_000, "definition_version": 1,
        "grouping": "gpu", "host": "h", "gpu_uuid": "GPU-1", "engine_id": "e", "placement_group": "e",
        "interval_ms_sum": 10_000, "throttled_us_sum": throttled_us, "throttled_fault_us_sum": throttled_us,
        "workload": "inference", "origin": "measured",
    }  # fmt: skip


def lost(at_ms: int, appended_ms: int, kind: str = "gpu_lost") -> dict[str, Any]:
    return {
        "at_ms": at_ms, "host": "h", "gpu_uuid": "GPU-1", "kind": kind, "severity": "critical", "origin": "measured",
        "appended_ms": appended_ms,
    }  # fmt: skip


def logged_ms(row: dict[str, Any]) -> int:
    """What ``events_sql`` makes of a row."""
    return min(int(row["appended_ms"]), int(row["at_ms"]) + DEFAULT_LIMITS.out_of_orderness_ms)


def a_database(partials: Rows, events: Rows) -> Callable[[str], bytes]:
    """Answers as ClickHouse would: the rows of a table in the requested range."""

    def fetch(sql: str) -> bytes:
        table = re.findall(r"FROM (\w+)", sql)[0]
        low, high = (int(number) for number in re.findall(r"(?:>=|<) (\d+)", sql))
        for event in GROUPED:
            if table == PARTIALS[event.topic].name:
                mine = [row for row in partials if event.topic == "gpu.samples" and low <= row["window_ms"] < high]
                fields = PARTIALS[event.topic].fields
                return native.encode(fields, block_from_rows(fields, mine)) if mine else b""
        topic = next(topic for topic in BY_TOPIC if topic.replace(".", "_") == table)
        fields = (*BY_TOPIC[topic].fields, Field("logged_ms", Kind.INT64, Role.TIME, "ms", ""))
        mine = [row | {"logged_ms": logged_ms(row)} for row in events if topic == "gpu.events"]
        return native.encode(fields, block_from_rows(fields, [row for row in mine if low <= row["logged_ms"] < high]))

    return fetch


def read(record: Record) -> tuple[Any, ...]:
    headers = finals.decode(record.headers, "here")
    if isinstance(headers, PassedOnHeaders):
        return ("event", headers.at_ms, headers.rows)
    return ("progress", headers.through_ms) if not headers.rows else ("rows", headers.window_ms, headers.rows)


def test_windows_and_events_come_in_order_of_time() -> None:
    """A window's rows, then its end; an event between the windows by when it was appended; whole windows."""
    database = a_database([gpu_row(START_MS), gpu_row(START_MS + 10_000)], [lost(START_MS + 13_000, START_MS + 13_200)])

    (stretch,) = stretches(database, START_MS + 1, START_MS + 19_999)

    assert [read(record) for record in stretch.records] == [
        ("rows", START_MS, 1),
        ("progress", START_MS + 10_000),
        ("event", START_MS + 13_200, 1),
        ("rows", START_MS + 10_000, 1),
        ("progress", START_MS + 20_000),
    ]
    assert [record.offset for record in stretch.records] == list(range(5))
    assert [record.timestamp_ms - START_MS for record in stretch.records] == [12_000, 12_000, 13_200, 22_000, 22_000]


def test_an_event_that_came_late_stands_before_the_windows_that_came_late_with_it() -> None:
    """When all of an hour came half a minute late, its windows waited; in a backtest none does."""
    event = lost(START_MS + 9_000, START_MS + 39_000)

    (stretch,) = stretches(a_database([gpu_row(START_MS)], [event]), START_MS, START_MS + 20_000)

    assert [read(record) for record in stretch.records] == [
        ("event", START_MS + 9_000 + DEFAULT_LIMITS.out_of_orderness_ms, 1),
        ("rows", START_MS, 1),
        ("progress", START_MS + 10_000),
        ("progress", START_MS + 20_000),
    ]


def test_rows_arrive_as_they_were_kept() -> None:
    """The block of a finals record holds the columns of the partials; an event loses what the table added."""
    database = a_database([gpu_row(START_MS, 5)], [lost(START_MS, START_MS + 2_000)])
    (stretch,) = stretches(database, START_MS, START_MS + 10_000)
    event, rows, _ = stretch.records

    fields = PARTIALS["gpu.samples"].fields
    (kept,) = rows_of(fields, native.decode(rows.value or b"", fields))
    (happened,) = rows_of(GPU_EVENTS.fields, native.decode(event.value or b"", GPU_EVENTS.fields))
    headers = finals.decode(rows.headers, "here")
    assert isinstance(headers, FinalsHeaders)
    assert (headers.complete, headers.upstream, headers.schema) == (True, 0, "gpu_samples_finals/1")
    assert (kept["gpu_uuid"], kept["throttled_us_sum"]) == ("GPU-1", 5)
    assert (happened["kind"], happened["at_ms"]) == ("gpu_lost", START_MS)


def test_an_answer_may_have_no_block_or_several() -> None:
    """A server answers nothing at all where there are no rows."""
    fields = PARTIALS["gpu.samples"].fields
    one, two = (native.encode(fields, block_from_rows(fields, [gpu_row(at_ms)])) for at_ms in (0, 10_000))

    assert [row["window_ms"] for row in rows_of(fields, decode_blocks(one + two, fields))] == [0, 10_000]
    assert decode_blocks(b"", fields).rows == 0


def test_stretches_follow_one_another_without_gap() -> None:
    """Empty stretches double up to an hour; every window ends once; offsets go on."""
    found = list(stretches(a_database([], []), START_MS, START_MS + 3 * 3_600_000))

    assert [stretch.from_ms for stretch in found[1:]] == [stretch.to_ms for stretch in found[:-1]]
    assert [(stretch.to_ms - stretch.from_ms) // 60_000 for stretch in found][:4] == [10, 20, 40, 60]
    ends = [read(record)[1] for stretch in found for record in stretch.records]
    assert ends == list(range(START_MS + WINDOW_MS, START_MS + 3 * 3_600_000 + 1, WINDOW_MS))


def test_queries_merge_rows_and_take_accepted_events_only() -> None:
    """One row per window, grouping set and series; events with when they stood in the log."""
    sql = merged_sql(BY_TOPIC["gpu.samples"], 1, 2)

    assert "sum(p.throttled_us_sum) AS throttled_us_sum" in sql
    assert "GROUP BY p.window_ms, p.grouping, p.cluster" in sql
    assert "WHERE p.window_ms >= 1 AND p.window_ms < 2" in sql
    events = events_sql(GPU_EVENTS, 1, 2)
    assert f"least(appended_ms, at_ms + {DEFAULT_LIMITS.out_of_orderness_ms}) AS logged_ms" in events
    assert "verdict = 'accepted' AND logged_ms >= 1 AND logged_ms < 2" in events


def test_rules_judge_history() -> None:
    """Two minutes of throttling open an alert about that GPU, and it is resolved; the bar is reported."""
    throttled = range(START_MS + 300_000, START_MS + 420_000, WINDOW_MS)
    rows = [
        gpu_row(at_ms, 9_000_000 if at_ms in throttled else 0)
        for at_ms in range(START_MS, START_MS + 1_200_000, WINDOW_MS)
    ]
    steps: list[tuple[int, int]] = []
    end_ms = START_MS + 1_200_000

    found = judge(
        stretches(a_database(rows, []), START_MS, end_ms), START_MS, end_ms, None, lambda *one: steps.append(one)
    ).as_dict()

    (alert,) = found["alerts"]
    assert alert["labels"]["gpu_uuid"] == "GPU-1"
    assert START_MS + 310_000 <= alert["opened_ms"] <= START_MS + 330_000
    assert alert["resolved_ms"] is not None
    assert found["by_rule"] == {alert["rule"]: 1}
    assert (found["rows"], found["covered_ms"], found["alerts_per_day"]) == (120, 1_200_000, 72)
    assert steps[-1] == (1_200_000, 1_200_000)


def test_alerts_a_day_are_of_the_time_that_has_data() -> None:
    """A range of which a third has windows: what has, and where, is said; time without data is no quiet time."""
    throttled = range(START_MS + 300_000, START_MS + 420_000, WINDOW_MS)
    data = range(START_MS, START_MS + 1_200_000, WINDOW_MS)
    rows = [gpu_row(at_ms, 9_000_000 if at_ms in throttled else 0) for at_ms in data]
    bounds = START_MS - 1_200_000, START_MS + 2_400_000

    found = judge(stretches(a_database(rows, []), *bounds), *bounds, None, lambda *_: None).as_dict()

    assert found["alerts_per_day"] == 72 * len(found["alerts"]) > 0
    assert (found["covered_ms"], found["first_ms"], found["last_ms"]) == (1_200_000, data[0], data[-1] + WINDOW_MS)


def test_a_backtest_over_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty database is no proof that no rule would have fired."""

    class Empty:
        native = staticmethod(a_database([], []))

    monkeypatch.setattr("fleetpulse.backtest.replay.Database", lambda _config: Empty())

    with pytest.raises(FleetpulseError, match=r"no data between 1970-01-01 00:00 and 1970-01-01 01:00 \(UTC\)"):
        backtest_history("1h", "0", "3600", None)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: preset("magic", 4, None, None, 1, 1, "both", "auto"), "--detector"),
        (lambda: preset("deviation", 4, None, None, 2, 1, "both", "auto"), "--m"),
        (lambda: backtest_history("1h", "yesterday", None, None), "--from"),
        (lambda: backtest_history("1h", "20", "10", None), "--from"),
    ],
)
def test_wrong_use_names_its_option(call: Callable[[], Any], said: str) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError) as raised:
        call()

    assert raised.value.key == said
