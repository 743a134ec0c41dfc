"""``stream_jobs.insight.project`` and its kernels: rows of finals by the labels of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import sketch
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.group_kernels import quantiles
from stream_jobs.insight.project import View, match_name, merge, project
from stream_jobs.rules.model import Where
from tests.unit.stream_jobs.insight.cases import GPU, REQUESTS, Row, a_block, a_gpu, a_row

COLUMNS = (
    "event_count",
    "last_at_ms",
    "power_mw_count",
    "power_mw_sum",
    "power_mw_min",
    "power_mw_max",
    "power_mw_last",
    "throttled_us_sum",
)
WHERE = (Where("host", ("h1", None)), Where("workload", ("training",), negated=True))
MATCH = Where("engine_id", ("e1", None))
VIEW = View(GPU, "gpu", ("gpu_uuid", "engine_id"), WHERE, COLUMNS, (MATCH,))

WHOLE = st.integers(0, 5)
LEVEL = st.none() | st.integers(-3, 9)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "grouping": st.sampled_from(["gpu", "other"]),
            "gpu_uuid": st.sampled_from(["a", "b", "__other__"]),
            "engine_id": st.sampled_from([None, "e1", "e2"]),
            "host": st.sampled_from([None, "h1", "h2"]),
            "workload": st.sampled_from([None, "training", "idle"]),
            "event_count": WHOLE,
            "last_at_ms": WHOLE,
            "power_mw_count": WHOLE,
            "power_mw_sum": st.integers(-9, 9),
            **{f"power_mw_{name}": LEVEL for name in ("min", "max", "last")},
            "throttled_us_sum": LEVEL,
        }
    ),
    max_size=12,
)


def by_hand(rows: Sequence[Row]) -> dict[Any, Row]:
    """What the view says, row by row."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        keep = row["grouping"] == "gpu" and row["host"] in ("h1", None) and row["workload"] != "training"
        if keep and row["gpu_uuid"] != "__other__":
            found.setdefault((row["gpu_uuid"], row["engine_id"]), []).append(row)
    return {key: merged_by_hand(key, group) for key, group in found.items()}


def merged_by_hand(key: Any, group: Sequence[Row]) -> Row:
    def known(name: str) -> list[int]:
        return [row[name] for row in group if row[name] is not None]

    newest = max(row["last_at_ms"] for row in group)
    last = [row["power_mw_last"] for row in group if row["last_at_ms"] == newest]
    return {
        **{name: sum(row[name] for row in group) for name in ("event_count", "power_mw_count", "power_mw_sum")},
        "last_at_ms": newest,
        "power_mw_min": min(known("power_mw_min"), default=None),
        "power_mw_max": max(known("power_mw_max"), default=None),
        "power_mw_last": max((one for one in last if one is not None), default=None),
        "throttled_us_sum": sum(known("throttled_us_sum")) if known("throttled_us_sum") else None,
        match_name(MATCH): sum(row["event_count"] for row in group if row["engine_id"] in ("e1", None)),
        "gpu_uuid": key[0],
        "engine_id": key[1],
    }


def shown(view: View, block: Any) -> dict[Any, Row]:
    rows = rows_of(view.fields, block)
    assert len({tuple(row[name] for name in view.by) for row in rows}) == len(rows)
    return {tuple(row[name] for name in view.by): row for row in rows}


@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_a_projection_is_what_plain_python_makes_of_the_rows(rows: list[Row]) -> None:
    """Sums, extremes, latest values and matching events per label, for the rows of one grouping set that hold."""
    block = a_block(GPU, [a_row(GPU, **row) for row in rows])

    assert shown(VIEW, project(VIEW, block)) == by_hand(rows)


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, cut=st.integers(0, 12), more=st.integers(0, 12))
def test_parts_brought_together_are_the_whole(rows: list[Row], cut: int, more: int) -> None:
    """Projected in parts and merged, in any steps: the same as projected at once."""
    given_rows = [a_row(GPU, **row) for row in rows]
    pieces = (given_rows[:cut], given_rows[cut : cut + more], given_rows[cut + more :])
    parts = [project(VIEW, a_block(GPU, piece)) for piece in pieces]

    assert shown(VIEW, merge(VIEW, parts)) == by_hand(rows)
    assert shown(VIEW, merge(VIEW, [merge(VIEW, parts[:2]), parts[2]])) == by_hand(rows)


SKETCH = st.dictionaries(st.integers(sketch.ZERO_BIN, sketch.BIN_MAX), st.integers(1, 5))


@settings(max_examples=20, deadline=None)
@given(kept=st.lists(st.tuples(st.sampled_from("ab"), SKETCH), max_size=6))
def test_sketches_add_up_and_answer_as_the_schema_says(kept: list[tuple[str, dict[int, int]]]) -> None:
    """Bins per label are the sum of all bins; quantiles of them are those of ``schemas.sketch``, NaN when empty."""
    view = View(REQUESTS, "engine", ("engine_id",), (), ("event_count", "ttft_us_bins"))
    rows = [a_row(REQUESTS, "engine", engine_id=e, ttft_us_bins=dict(sorted(bins.items()))) for e, bins in kept]
    block = project(view, a_block(REQUESTS, rows))

    expected = {(e,): sketch.merge(*[bins for other, bins in kept if other == e]) for e in {e for e, _ in kept}}
    assert {key: row["ttft_us_bins"] for key, row in shown(view, block).items()} == expected
    for q in (0.0, 0.5, 0.95, 1.0):
        out = np.full(block.rows, np.nan)
        bins: Any = block.columns["ttft_us_bins"]
        quantiles(bins.ends, bins.keys, bins.counts, q, out)
        wanted = [sketch.quantile(row["ttft_us_bins"], q) for row in rows_of(view.fields, block)]
        assert [None if np.isnan(one) else one for one in out] == wanted


def test_what_came_over_the_wire_is_projected_as_well() -> None:
    """Columns of a decoded record are read-only and stand where they stand."""
    rows = [a_gpu("a", 50), a_gpu("b", 60), a_gpu("a", 70)]
    fields = PARTIALS[GPU].fields
    block = native.decode(native.encode(fields, a_block(GPU, rows)), fields)
    view = View(GPU, "gpu", ("gpu_uuid",), (), ("event_count", "temperature_c_sum"))

    sums = {key: row["temperature_c_sum"] for key, row in shown(view, project(view, block)).items()}

    assert sums == {("a",): 120, ("b",): 60}


def test_no_labels_make_one_row_and_no_rows_make_none() -> None:
    """The whole fleet is one series, unless nothing came."""
    view = View(GPU, "gpu", (), (), ("event_count",))

    assert rows_of(view.fields, project(view, a_block(GPU, [a_gpu("a", 1), a_gpu("b", 2)]))) == [{"event_count": 2}]
    assert project(view, a_block(GPU, [])).rows == 0
