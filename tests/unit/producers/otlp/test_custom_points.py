from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from producers.agent.publishing import Parcel
from producers.identity.directory import Directory
from producers.identity.joiner import Joiner
from producers.otlp.custom_points import CustomPoints
from producers.otlp.intake import Full, Intake
from producers.otlp.json_signals import CUMULATIVE, DELTA, Point
from producers.otlp.points import SERIES_MAX, Points
from producers.otlp.semconv import Unmapped
from runtime.counters import Counters
from schemas.codec import json_columns, native, ndjson
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.admission import Reject, admit, read_headers
from schemas.contract.engines import Engine
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, Identity, encode_headers
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.events.event_types import CUSTOM_METRICS, ENGINE_SAMPLES
from schemas.fields import Event
from schemas.limits import DEFAULT_LIMITS
from tests.unit.producers.otlp.test_semconv import AT_NS, LABELS, tokens

DECODE = {NATIVE: native.decode, NDJSON: ndjson.decode, JSON_COLUMNS: json_columns.decode}
GAUGE = Point(
    "pool.size", 0, AT_NS, 0, 0, 2.5, {"pool": "b", "a": 1}, {"service.name": "app"}, kind="gauge", unit="{slot}"
)
SUM = replace(GAUGE, metric="retries", kind="sum", monotonic=True, temporality=CUMULATIVE, start_ns=AT_NS - 10**9)


def custom(series_max: int = 10) -> CustomPoints:
    return CustomPoints(LABELS, Points(LABELS), series_max)


def judge(rows: list[dict[str, Any]]) -> list[int]:
    """What the windows job and the sink make of them."""
    value = native.encode(CUSTOM_METRICS.fields, block_from_rows(CUSTOM_METRICS.fields, rows))
    headers = encode_headers(CUSTOM_METRICS.schema, NATIVE, Identity("a" * 32, 1, 1, (1, 1)), len(rows))
    record = Record("custom.metrics", 0, 0, AT_NS // 10**6, b"h", value, headers)
    heads = read_headers(CUSTOM_METRICS, [record], DEFAULT_LIMITS)
    readable = [head for head in heads if not isinstance(head, Reject)]
    return list(admit(CUSTOM_METRICS, [record], readable, DEFAULT_LIMITS).verdicts.tolist())


def row(metric: str = "pool.size", **amounts: Any) -> dict[str, Any]:
    about = {"at_ms": AT_NS // 10**6, "metric": metric, "service": "app", "unit": "{slot}", "attributes": "a=1,pool=b"}
    return LABELS | about | {"origin": "measured"} | amounts


def test_a_gauge_is_a_level() -> None:
    """Under its service, its unit and its sorted attributes; so is a sum that may fall."""
    falls = replace(GAUGE, kind="sum", temporality=CUMULATIVE, total=-1.0)

    assert custom().rows_of(GAUGE) == [row(value_micro=2_500_000)]
    assert custom().rows_of(falls) == [row(value_micro=-1_000_000)]
    assert block_from_rows(CUSTOM_METRICS.fields, [row(value_micro=1)]).rows == 1


def test_a_sum_that_grows_is_an_increase() -> None:
    """Delta as it is; cumulative by the point before, the first tells nothing."""
    points = custom()
    later = replace(SUM, at_ns=AT_NS + 10**9, total=4.0)

    assert custom().rows_of(replace(SUM, temporality=DELTA)) == [row("retries", increase_micro=2_500_000)]
    assert points.rows_of(SUM) == []
    assert [each["increase_micro"] for each in points.rows_of(later)] == [1_500_000]


def test_bytes_are_kept_in_mib() -> None:
    """Levels, increases and rates: what any process has of them fits the fields then."""
    gib = replace(GAUGE, metric="memory", total=float(40 * 2**30), unit="By")
    read = replace(SUM, metric="read", unit="By", temporality=DELTA, total=float(2**20))
    rate = replace(gib, unit="By/s")

    (level,), (increase,), (speed,) = (custom().rows_of(point) for point in (gib, read, rate))

    assert (level["value_micro"], level["unit"]) == (40 * 1024 * 1_000_000, "MiB")
    assert (increase["increase_micro"], increase["unit"]) == (1_000_000, "MiB")
    assert (speed["value_micro"], speed["unit"]) == (40 * 1024 * 1_000_000, "MiB/s")
    assert judge([level, increase, speed]) == [Verdict.ACCEPTED] * 3


def test_a_total_may_be_of_any_size() -> None:
    """What it grows by is what has to fit: a counter of bytes passes any bound of a value some day."""
    points = custom()
    totals = [2e13, 2e13 + 2.5, 2e13 + 2.75]

    found = [points.rows_of(replace(SUM, at_ns=AT_NS + at, total=total)) for at, total in enumerate(totals)]

    assert [[each["increase_micro"] for each in rows] for rows in found] == [[], [2_500_000], [250_000]]


def test_a_histogram_is_its_count_and_its_sum() -> None:
    """Each a series; a sum that is not told is none."""
    histogram = replace(SUM, kind="histogram", temporality=DELTA, count=3)

    found = custom().rows_of(histogram)

    assert found == [row("retries.count", increase_micro=3_000_000), row("retries.sum", increase_micro=2_500_000)]
    assert custom().rows_of(replace(histogram, total=None)) == found[:1]


def test_how_often_bytes_were_observed_is_a_number() -> None:
    """Of a histogram of bytes its sum alone is in MiB: three bodies of 2 MiB in all."""
    bodies = replace(SUM, kind="histogram", unit="By", temporality=DELTA, count=3, total=float(2 * 2**20))

    found = [(each["metric"], each["increase_micro"], each["unit"]) for each in custom().rows_of(bodies)]

    assert found == [("retries.count", 3_000_000, "By"), ("retries.sum", 2_000_000, "MiB")]


@pytest.mark.parametrize(
    ("point", "broken"),
    [
        (replace(GAUGE, metric="gen_ai.server.time_to_first_token"), False),
        (replace(GAUGE, attributes={"a": "x" * 255}), False),
        (replace(GAUGE, attributes={"a": "é" * 128}), False),
        (replace(GAUGE, kind="summary"), False),
        (replace(SUM, monotonic=False, temporality=DELTA), False),
        (replace(GAUGE, total=None), True),
        (replace(GAUGE, total=float("nan")), True),
        (replace(GAUGE, total=1e13), True),
        (replace(SUM, temporality=DELTA, total=1e13), True),
        (replace(SUM, total=-1.0), True),
        (replace(SUM, start_ns=AT_NS + 1), True),
    ],
    ids=[
        "ours",
        "long",
        "long in bytes",
        "summary",
        "falls by deltas",
        "no value",
        "NaN",
        "too large",
        "grows by too much",
        "negative",
        "backwards",
    ],
)
def test_points_that_become_no_row(point: Point, broken: bool) -> None:
    """Either not mapped, or broken."""
    with pytest.raises(Unmapped) as raised:
        custom().rows_of(point)

    assert raised.value.broken is broken


def test_series_are_bounded() -> None:
    """Those that are known go on; 0 takes none."""
    points = custom(1)
    points.rows_of(GAUGE)

    with pytest.raises(Unmapped, match="metric_series_max"):
        points.rows_of(replace(GAUGE, attributes={}))
    assert len(points.rows_of(GAUGE)) == 1
    with pytest.raises(Unmapped):
        custom(0).rows_of(GAUGE)


def test_series_that_are_not_taken_are_not_remembered() -> None:
    """However many come, those that are taken increase; what engines report has a place of its own."""
    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, metric_series_max=4)
    histogram = replace(SUM, kind="histogram", count=3, metric="waits")
    many = [replace(histogram, attributes={"number": number}) for number in range(SERIES_MAX)]

    for later_s, more in ((0, 0), (1, 5)):
        points = [replace(each, at_ns=each.at_ns + later_s * 10**9, count=3 + more) for each in (histogram, *many)]
        intake.metrics([tokens(1 + later_s, 70.0 + more, temporality=CUMULATIVE), *points])

    assert [dict(parcel.events()) for parcel in taken] == [{"engine.samples": 1, "custom.metrics": 4}]
    assert intake.unkept.counts() == {"metric:waits": 2 * (SERIES_MAX - 1)}


def test_what_engines_report_outlasts_any_number_of_other_series() -> None:
    """Taken ones too."""
    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, metric_series_max=2 * SERIES_MAX)
    many = [replace(SUM, attributes={"number": number}) for number in range(SERIES_MAX + 1)]

    intake.metrics([tokens(1, 70.0, temporality=CUMULATIVE), *many])
    intake.metrics([tokens(2, 75.0, temporality=CUMULATIVE)])

    assert [dict(parcel.events()) for parcel in taken] == [{"engine.samples": 1}]


def test_a_sum_that_is_none_takes_nothing_of_its_count() -> None:
    """The next sound point tells all of both."""
    points = custom()
    sent = [
        replace(SUM, kind="histogram", count=count, total=total, at_ns=AT_NS + at_s * 10**9)
        for at_s, count, total in ((0, 1, 1.0), (1, 2, float("nan")), (2, 4, 9.0))
    ]

    points.rows_of(sent[0])
    with pytest.raises(Unmapped):
        points.rows_of(sent[1])

    assert [each["increase_micro"] for each in points.rows_of(sent[2])] == [3_000_000, 8_000_000]


def test_a_batch_holds_both() -> None:
    """Samples of engines and custom metrics, handed on together; what is neither is counted by name."""
    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, metric_series_max=10)

    intake.metrics([tokens(1, 70.0), GAUGE, replace(GAUGE, metric="gen_ai.x")])

    assert [parcel.events() for parcel in taken] == [[("engine.samples", 1), ("custom.metrics", 1)]]
    assert intake.unkept.counts() == {"metric:gen_ai.x": 1}


def test_a_batch_without_room_is_as_if_it_had_never_come() -> None:
    """Sent again it tells the same: what grew is neither lost nor counted twice, whatever was forgotten for it."""
    room = [True, False, False, True]
    taken: list[Parcel] = []

    def offer(parcel: Parcel) -> bool:
        if has_room := room.pop(0):
            taken.append(parcel)
        return has_room

    intake = Intake(LABELS, offer, metric_series_max=10)
    grown = [tokens(2, 150.0, temporality=CUMULATIVE), replace(SUM, at_ns=AT_NS + 10**9, total=4.0)]
    others = [
        tokens(2, 5.0, temporality=CUMULATIVE, kind="output"),
        *(replace(grown[0], scope=(str(number), "")) for number in range(SERIES_MAX)),
    ]

    intake.metrics([GAUGE, tokens(1, 100.0, temporality=CUMULATIVE), SUM])
    for _ in range(2):
        with pytest.raises(Full):
            intake.metrics([*grown, *others])
    intake.metrics(grown)

    assert [dict(parcel.events()) for parcel in taken] == [
        {"custom.metrics": 1},
        {"engine.samples": 1, "custom.metrics": 1},
    ]
    assert [increases(each, ENGINE_SAMPLES, "prompt_tokens") for each in taken] == [[], [50]]
    assert [increases(each, CUSTOM_METRICS, "increase_micro") for each in taken] == [[None], [1_500_000]]


def test_tokens_of_an_engine_that_the_agent_reads_are_its_own() -> None:
    """Its page has them: what a client says of it would count again. Of other engines nobody else tells."""
    taken: list[Parcel] = []
    joiner = Joiner("otlp", lambda: Directory([Engine("e-1", "h", "e-1", ("e:8000",))], "h"), Counters())
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, joiner=joiner)
    unread = tokens(1, 50.0)
    unread = replace(unread, attributes={**unread.attributes, "server.port": 8001})

    assert intake.metrics([tokens(1, 70.0), unread]).rejected == 0
    assert [increases(each, ENGINE_SAMPLES, "prompt_tokens") for each in taken] == [[50]]
    assert intake.unkept.counts() == {"metric:gen_ai.client.token.usage": 1}


def increases(parcel: Parcel, event: Event, name: str) -> list[Any]:
    """A field of the rows of one event."""
    fields = event.fields
    batches = [batch for batch in parcel.batches if batch.topic == event.topic]
    return [row[name] for batch in batches for row in rows_of(fields, DECODE[batch.content_type](batch.value, fields))]
