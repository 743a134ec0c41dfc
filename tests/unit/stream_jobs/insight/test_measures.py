"""``stream_jobs.insight.measures`` and ``plan``: from columns to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schemas import sketch
from schemas.errors import ConfigError
from stream_jobs.insight.frames import plan
from stream_jobs.insight.measures import columns_of, counts_of, value_of
from stream_jobs.insight.project import View, project
from stream_jobs.rules.model import Function, Measure, Where
from stream_jobs.rules.vocabulary import fills_with_zero
from tests.unit.stream_jobs.insight.cases import GPU, REQUESTS, a_block, a_row, a_rule

NAN = float("nan")
BINS = {sketch.ZERO_BIN: 1, 500: 2}
FULL = {
    "event_count": 8,
    "last_at_ms": 1,
    "ttft_us_count": 4,
    "ttft_us_sum": 1_000,
    "ttft_us_min": 1,
    "ttft_us_max": 900,
    "ttft_us_bins": BINS,
    "itl_bins": BINS,
    "output_tokens_sum": 50,
    "input_tokens_sum": 100,
}


def numbers(measure: Measure, *rows: dict[str, Any], grouping: str = "engine") -> tuple[list[float], list[int]]:
    """Values and counts of rows, one series each (by status), over 10 s."""
    match = () if measure.match is None else (measure.match,)
    by = ("host", *(one.dimension for one in match if one.dimension == "host"))[:1]
    view = View(measure.topic, grouping, by, measure.where, columns_of(measure), match)
    given = [a_row(measure.topic, grouping, **{"host": f"h{n}", **row}) for n, row in enumerate(rows)]
    block = project(view, a_block(measure.topic, given))
    return value_of(measure, block, 10_000).tolist(), counts_of(measure, block).tolist()


def a_measure(function: Function, field: str = "", topic: str = REQUESTS, **given: Any) -> Measure:
    return Measure("value", topic, function, field, **given)


@pytest.mark.parametrize(
    ("measure", "value", "count"),
    [
        (a_measure(Function.PERCENTILE, "ttft_us", q=0.95), sketch.value_of(500), 4),
        (a_measure(Function.PERCENTILE, "itl", q=0.0), 0.0, 3),
        (a_measure(Function.PERCENTILE, "itl_bins", q=1.0), sketch.value_of(500), 3),
        (a_measure(Function.MEAN, "ttft_us"), 250.0, 4),
        (a_measure(Function.MEAN, "itl"), 2 * sketch.value_of(500) / 3, 3),
        (a_measure(Function.MIN, "ttft_us"), 1.0, 4),
        (a_measure(Function.MAX, "ttft_us"), 900.0, 4),
        (a_measure(Function.SUM, "output_tokens"), 50.0, 8),
        (a_measure(Function.RATE, "output_tokens"), 5.0, 8),
        (a_measure(Function.RATE), 0.8, 8),
        (a_measure(Function.COUNT), 8.0, 8),
        (a_measure(Function.RATIO, "output_tokens", over="input_tokens"), 0.5, 8),
        (a_measure(Function.RATIO, "output_tokens", over="ttft_us"), 0.2, 8),
        (a_measure(Function.ABOVE, "ttft_us", limit=float(sketch.BOUNDS[499])), 2 / 3, 4),
        (a_measure(Function.ABOVE, "ttft_us", limit=float(sketch.BOUNDS[499]) + 1), 0.0, 4),
        (a_measure(Function.ABOVE, "itl", limit=0.5), 2 / 3, 3),
        (a_measure(Function.ABOVE, "itl", limit=-1.0), 1.0, 3),
    ],
    ids=lambda one: f"{one.function} {one.field}" if isinstance(one, Measure) else "",
)
def test_a_measure_of_full_columns(measure: Measure, value: float, count: int) -> None:
    """Each function, with the events behind it."""
    assert numbers(measure, FULL) == ([pytest.approx(value, rel=1e-15)], [count])


@pytest.mark.parametrize(
    "measure",
    [
        a_measure(Function.PERCENTILE, "ttft_us", q=0.5),
        a_measure(Function.ABOVE, "ttft_us", limit=1.0),
        a_measure(Function.MEAN, "ttft_us"),
        a_measure(Function.MEAN, "itl"),
        a_measure(Function.MIN, "ttft_us"),
        a_measure(Function.MAX, "ttft_us"),
        a_measure(Function.SUM, "output_tokens"),
        a_measure(Function.RATE, "output_tokens"),
        a_measure(Function.SHARE, match=Where("status", ("ok",))),
        a_measure(Function.RATIO, "output_tokens", over="input_tokens"),
        a_measure(Function.LAST, "temperature_c", GPU),
    ],
    ids=lambda measure: f"{measure.function} {measure.field}",
)
def test_a_measure_of_nothing_known_is_unknown(measure: Measure) -> None:
    """Never 0."""
    values, _ = numbers(measure, {}, grouping="gpu" if measure.topic == GPU else "engine")

    assert np.isnan(values).tolist() == [True]


def test_levels_may_be_negative() -> None:
    """A mean, least and latest temperature below zero are what they are."""
    row = {"temperature_c_count": 2, "temperature_c_sum": -30, "temperature_c_min": -20, "temperature_c_last": -10}

    found = [
        numbers(a_measure(function, "temperature_c", GPU), row, grouping="gpu")[0]
        for function in (Function.MEAN, Function.MIN, Function.LAST)
    ]

    assert found == [[-15.0], [-20.0], [-10.0]]


def test_a_level_is_known_in_a_share_of_the_events() -> None:
    """Of all that came: 0 where none knows it, and unknown where none came."""
    measure = a_measure(Function.KNOWN, "memory_engine_bytes", GPU)
    rows = [{"event_count": 8, "memory_engine_bytes_count": count} for count in (8, 2, 0)]

    assert numbers(measure, *rows, grouping="gpu") == ([1.0, 0.25, 0.0], [8, 8, 8])
    assert np.isnan(numbers(measure, {}, grouping="gpu")[0]).tolist() == [True]


def test_times_in_a_ratio_are_brought_to_one_unit() -> None:
    """5 s of throttling, told in microseconds, in 10 s told in milliseconds: one half."""
    measure = a_measure(Function.RATIO, "throttled_us", GPU, over="interval_ms")

    assert numbers(measure, {"throttled_us_sum": 5_000_000, "interval_ms_sum": 10_000}, grouping="gpu")[0] == [0.5]


@pytest.mark.parametrize(
    ("field", "over", "expected"), [("util_gpu_pct", "sm_active_ppm", 2.0), ("sm_active_ppm", "util_gpu_pct", 0.5)]
)
def test_shares_in_a_ratio_are_brought_to_one_unit(field: str, over: str, expected: float) -> None:
    """60 % busy, told in percent, and 300,000 ppm of the SMs active: twice as much, and half."""
    row = {"util_gpu_pct_count": 2, "util_gpu_pct_sum": 120, "sm_active_ppm_count": 2, "sm_active_ppm_sum": 600_000}
    measure = a_measure(Function.RATIO, field, GPU, over=over)

    assert numbers(measure, row, grouping="gpu")[0] == [pytest.approx(expected, rel=1e-15)]


def test_a_share_counts_events_that_match() -> None:
    """Of 10 requests of a host, 3 failed or ended we do not know how."""
    measure = a_measure(Function.SHARE, match=Where("status", ("error", None)))
    rows = [{"host": "h", "status": status, "event_count": n} for status, n in (("ok", 7), ("error", 2), (None, 1))]

    assert numbers(measure, *rows) == ([0.3], [10])


def test_only_counts_of_events_are_zero_without_a_row() -> None:
    """No event is a count of none; no tokens told are not zero tokens."""
    yes = [fills_with_zero(a_measure(Function.COUNT)), fills_with_zero(a_measure(Function.RATE))]
    no = [fills_with_zero(a_measure(Function.RATE, "output_tokens")), fills_with_zero(a_measure(Function.SHARE))]

    assert (yes, no) == ([True, True], [False, False])


def test_rules_share_views_and_the_smallest_grouping_set_serves() -> None:
    """Two rules over the same rows make one view with the columns of both."""
    one = a_rule(measures=(a_measure(Function.MEAN, "ttft_us"),), by=("model",), name="one", options={"above": 1.0})
    two = a_rule(measures=(a_measure(Function.COUNT),), by=("model",), name="two", options={"above": 1.0})
    three = a_rule(measures=(a_measure(Function.COUNT),), by=("model", "tenant"), name="three")

    found = plan([one, two, three])

    assert found["one"][0].view is found["two"][0].view
    assert found["one"][0].view.columns == ("event_count", "ttft_us_count", "ttft_us_sum")
    assert found["three"][0].view.grouping == "service"


@pytest.mark.parametrize(
    ("measure", "by", "text"),
    [
        (a_measure(Function.COUNT), ("engine_id", "tenant"), "no grouping set with engine_id, tenant"),
        (a_measure(Function.COUNT, where=(Where("gpu_uuid", ("g",)),)), (), "no grouping set with gpu_uuid"),
        (a_measure(Function.SUM, "ttft_us"), ("model",), None),
        (a_measure(Function.SUM, "nothing"), ("model",), "no column nothing_sum"),
        (a_measure(Function.LAST, "output_tokens"), ("model",), "no column output_tokens_last"),
    ],
)
def test_what_finals_do_not_hold_is_refused(measure: Measure, by: tuple[str, ...], text: str | None) -> None:
    """With the topic and what is missing; what is there is planned."""
    rule = a_rule(measures=(measure,), by=by)
    if text is None:
        assert plan([rule])[rule.name][0].measure is measure
        return

    with pytest.raises(ConfigError, match=text):
        plan([rule])
