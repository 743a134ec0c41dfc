"""Percentiles from SQL against the exact order statistic, over any range and any dimension."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.sketch import RELATIVE_ERROR_MAX, bin_of, quantile, value_of
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import NOW_MS, partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
HOUR_MS = 3_600_000
FIRST_MS = NOW_MS // HOUR_MS * HOUR_MS
WINDOWS = [FIRST_MS + back for back in (0, 10_000, 60_000, HOUR_MS, 2 * HOUR_MS + 50_000)]
MODELS, TENANTS = ("m1", "m2"), ("t1", "t2", None)
Values = dict[tuple[int, str, str | None], Any]


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as found:
        yield found


def filled(database: SinkDatabase) -> Values:
    """Latencies of every window, model and tenant; each series comes in two commits."""
    rng = np.random.default_rng(7)
    values: Values = {}
    for offset, window_ms in enumerate(WINDOWS):
        rows = []
        for scale, model in enumerate(MODELS, 1):
            for tenant in TENANTS:
                drawn = np.minimum(rng.lognormal(9 * scale, 1.5, 200).astype(np.int64), 3_600_000_000)
                values[window_ms, model, tenant] = drawn
                rows += [a_row(window_ms, model, tenant, part) for part in (drawn[:70], drawn[70:])]
        store(database, [partials(rows[::2], 2 * offset), partials(rows[1::2], 2 * offset + 1)], NOW_MS)
    return values


def a_row(window_ms: int, model: str, tenant: str | None, values: Any) -> dict[str, Any]:
    bins, counts = np.unique(bin_of(values), return_counts=True)
    return {
        "window_ms": window_ms,
        "grouping": "service",
        "model": model,
        "tenant": tenant,
        "event_count": len(values),
        "ttft_us_count": len(values),
        "ttft_us_bins": dict(zip(bins.tolist(), counts.tolist(), strict=True)),
    }


def exact(parts: list[Any]) -> list[float]:
    return [float(np.quantile(np.concatenate(parts), q)) for q in QUANTILES]


def close(found: Any, expected: list[float]) -> bool:
    return all(abs(a - b) <= RELATIVE_ERROR_MAX * b + 1e-9 for a, b in zip(found, expected, strict=True))


ASKED = ", ".join(str(q) for q in QUANTILES)


def test_percentiles_of_one_window(database: SinkDatabase, clickhouse: Any) -> None:
    """Every row of the view, its named columns included, lies within 1.09 % of numpy's default."""
    values = filled(database)
    rows = clickhouse.query(
        f"SELECT window_ms, model, tenant, fp_quantiles_linear([{ASKED}], ttft_us_bins), ttft_us_p50, ttft_us_p99"
        " FROM request_windows"
    ).result_rows

    assert len(rows) == len(values)
    for window_ms, model, tenant, found, p50, p99 in rows:
        expected = exact([values[window_ms, model, tenant]])
        assert close(found, expected)
        assert (p50, p99) == (found[1], found[4])


def test_p_is_one_aggregate_over_the_rows_of_a_group(database: SinkDatabase, clickhouse: Any) -> None:
    """Whatever the table is called, to filter and to sort by; the merged bins read at once say the same."""
    values = filled(database)
    each = ", ".join(f"p({q}, c.ttft_us_bins)" for q in QUANTILES)
    rows = clickhouse.query(
        f"SELECT c.model, {each} FROM request_windows AS c GROUP BY c.model HAVING p(0.95, c.ttft_us_bins) > 0"
        " ORDER BY p(0.95, c.ttft_us_bins) DESC"
    ).result_rows
    merged = clickhouse.query(
        f"SELECT fp_quantiles_linear([{ASKED}], sumMap(ttft_us_bins)) FROM request_windows GROUP BY model"
        " ORDER BY model"
    ).result_rows

    assert [model for model, *_ in rows] == ["m2", "m1"]
    assert [found for (found,) in merged] == [list(found) for _, *found in reversed(rows)]
    for name, *found in rows:
        assert close(found, exact([drawn for (_, model, _), drawn in values.items() if model == name]))
    assert clickhouse.query("SELECT p(0.5, ttft_us_bins) FROM request_windows WHERE model = ''").result_rows == [
        (None,)
    ]


def test_who_may_only_read_may_call_p(clickhouse: Any, stack: Any) -> None:
    """Of the server's two logins that of people; a share that is none is refused, as its number would mislead."""
    bins = "(SELECT CAST(map(320, 50, 640, 50), 'Map(Int16, UInt64)') AS b)"
    with contextlib.closing(connect(stack.clickhouse_reader, database=None)) as reader:
        ((low, middle, high),) = reader.query(f"SELECT p(0.49, b), p(0.5, b), p(1, b) FROM {bins}").result_rows

        assert (low, middle, high) == pytest.approx((value_of(320), (value_of(320) + value_of(640)) / 2, value_of(640)))
        for wrong in (99, -0.1, 1.01):
            with pytest.raises(DatabaseError, match=r"q is a share, such as 0\.99 for p99"):
                reader.query(f"SELECT p({wrong}, b) FROM {bins}")


@pytest.mark.parametrize("q", [0.0, 0.25, 0.99])
def test_fp_quantile_is_that_of_0_1_0(clickhouse: Any, q: float) -> None:
    """The value at the rank below, for who calls it by its name."""
    drawn = np.array([1_000, 2_000, 4_000, 900_000])
    bins = {int(bin_of(np.array([one]))[0]): 1 for one in drawn}
    text = ", ".join(f"{key}, {count}" for key, count in bins.items())
    found = clickhouse.query(
        f"SELECT fp_quantile({q}, b), fp_quantiles([{q}], b)[1] FROM"
        f" (SELECT CAST(map({text}), 'Map(Int16, UInt64)') AS b)"
    ).result_rows

    assert found == [(quantile(bins, q, "lower"),) * 2]


@pytest.mark.parametrize(
    ("dimensions", "low", "high"),
    [
        pytest.param((), 0, len(WINDOWS), id="everything, over hours"),
        pytest.param(("model",), 0, len(WINDOWS), id="by model, over hours"),
        pytest.param(("tenant",), 0, len(WINDOWS), id="by tenant, null is one"),
        pytest.param(("model", "tenant"), 1, 4, id="by model and tenant, a range"),
    ],
)
def test_percentiles_of_any_group_over_any_range(
    database: SinkDatabase, clickhouse: Any, dimensions: tuple[str, ...], low: int, high: int
) -> None:
    """Bins of many windows and series are merged and read once: still within 1.09 % of all values together."""
    values = filled(database)
    keys = "".join(f"{name}, " for name in dimensions)
    sql = (
        f"SELECT {keys}fp_quantiles_linear([{ASKED}], sumMap(ttft_us_bins)), sum(event_count) FROM request_windows"
        f" WHERE window_ms >= {WINDOWS[low]} AND window_ms <= {WINDOWS[high - 1]}"
    )
    rows = clickhouse.query(sql + (f" GROUP BY {', '.join(dimensions)}" if dimensions else "")).result_rows

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for (window_ms, model, tenant), drawn in values.items():
        if window_ms in WINDOWS[low:high]:
            names = {"model": model, "tenant": tenant}
            groups.setdefault(tuple(names[name] for name in dimensions), []).append(drawn)
    assert {tuple(row[:-2]) for row in rows} == set(groups)
    for row in rows:
        parts = groups[tuple(row[:-2])]
        assert row[-1] == sum(len(part) for part in parts)
        assert close(row[-2], exact(parts))


def test_a_window_is_found_by_its_time_of_day(database: SinkDatabase, clickhouse: Any) -> None:
    """In text, UTC, in windows of every width."""
    filled(database)
    times = {f"{datetime.fromtimestamp(window_ms / 1_000, UTC):%H:%M}" for window_ms in WINDOWS}

    found = clickhouse.query("SELECT DISTINCT time_of_day FROM request_windows").result_rows

    assert {time for (time,) in found} == times
    (first,) = clickhouse.query(
        f"SELECT DISTINCT window_ms FROM request_windows WHERE time_of_day = '{min(times)}' ORDER BY window_ms LIMIT 1"
    ).result_rows
    assert first[0] in WINDOWS


def test_no_values_have_no_percentile(database: SinkDatabase, clickhouse: Any) -> None:
    """Unknown is null, never 0; zero is a value."""
    rows = [
        a_row(WINDOWS[0], "none", None, np.empty(0, np.int64)),
        a_row(WINDOWS[0], "zero", None, np.zeros(3, np.int64)),
    ]
    store(database, [partials(rows, 1)], NOW_MS)

    found = clickhouse.query("SELECT model, ttft_us_p50, ttft_us_count FROM request_windows ORDER BY model").result_rows

    assert found == [("none", None, 0), ("zero", 0.0, 3)]
