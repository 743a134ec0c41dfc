"""Requests with their windows and the rollups of these, as the jobs and the sink leave them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.oracle.value import merged
from schemas.ddl import cost_rollups
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.sketch import bin_of
from tests.integration.cost_rows import BEGIN_MS, ROWS

ENDS = (
    ("ok", None),
    ("ok", None),
    ("ok", None),
    ("aborted", None),
    ("aborted", "client"),
    ("timeout", "client"),
    ("error", "client"),
    ("error", "server"),
    ("error", None),
    ("timeout", "timeout"),
)
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
WAITS_US = (None, 900, *range(10_000, 900_000, 9_973))
DIMENSIONS = {
    "service": ("model", "tenant", "status", "error_kind", "slo_class"),
    "engine": ("model", "host", "engine_id", "status", "error_kind"),
}
LABELS = ("model", "tenant", "host", "engine_id", "status", "error_kind", "slo_class")
TIMES = ("ttft_us", "e2e_us", "queue_us", "tpot_us")
VERDICTS = ("judged_requests", "good_requests", "good_tokens")
"""Of requests with a class."""
PARTS = ("count", "sum", "bins")


def requests(until_ms: int) -> list[dict[str, Any]]:
    """Twenty-eight hours with a gap of five, most of them in the last ten minutes."""
    chance = random.Random(3)
    found = []
    for number in range(1_500):
        ago_ms = chance.randrange(10 * MINUTE_MS) if number % 3 else chance.randrange(28 * HOUR_MS)
        if 7 * HOUR_MS < ago_ms < 12 * HOUR_MS:
            continue
        status, kind = chance.choice(ENDS)
        found.append(
            {"at_ms": until_ms - 1 - ago_ms, "model": chance.choice("mno"), "tenant": chance.choice(["a", "b", None]),
             "host": "h", "engine_id": chance.choice(["h/0", "h/1"]), "status": status, "error_kind": kind,
             "ttft_us": chance.choice(WAITS_US), "e2e_us": chance.randrange(1_000_000, 9_000_000),
             "queue_us": chance.choice([None, 500, 1_500]),
             "input_tokens": chance.randrange(9_000), "cached_tokens": chance.randrange(500),
             "output_tokens": chance.randrange(2_000),
             "itl_bins": {200 + number % 90: 1 + number % 7, 300 + number % 50: number % 3 + 1} if number % 5 else {}}
        )  # fmt: skip
    return found


def fill(clickhouse: Any, rows: list[dict[str, Any]]) -> None:
    """The requests, their windows and the rollups of these."""
    columns = ("at_ms", *LABELS, *TIMES, *TOKENS)
    more = ("verdict", "request_id", "source", "seq", "row", "appended_ms")
    raw = [
        [
            *(row.get(name) for name in columns),
            row.get("itl_bins", {}),
            "accepted",
            f"r{number}",
            "s",
            number,
            0,
            row["at_ms"],
        ]
        for number, row in enumerate(rows)
    ]
    clickhouse.insert("llm_requests", raw, column_names=[*columns, "itl_bins", *more])
    for place, (grouping, dimensions) in enumerate(DIMENSIONS.items()):
        windows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            key = (row["at_ms"] // WINDOW_MS * WINDOW_MS, *(row.get(name) for name in dimensions))
            windows.setdefault(key, []).append(row)
        measures = [*(f"{name}_sum" for name in TOKENS), *(f"{name}_sum" for name in VERDICTS)]
        measures += [f"{name}_{part}" for name in TIMES for part in PARTS]
        clickhouse.insert(
            "llm_requests_partials",
            [
                [*key, grouping, *measured(group), 100_000 * place + number]
                for number, (key, group) in enumerate(windows.items())
            ],
            column_names=[
                "window_ms",
                *dimensions,
                "grouping",
                "event_count",
                "last_at_ms",
                *measures,
                "itl_bins",
                "log_offset",
            ],
        )
    for level in LEVELS:
        buckets = {level.bucket_of(row["at_ms"]) for row in rows}
        clickhouse.command(rollup_insert(LLM_REQUESTS, level, tuple(buckets)))


def fill_bills(clickhouse: Any, minutes_ms: list[int], bills: Sequence[dict[str, Any]] = ROWS) -> None:
    """The bills of a small fleet, each time from one of these minutes on, and their rollups."""
    rows = [
        {**row, "minute_ms": minute_ms + row["minute_ms"] - BEGIN_MS, "log_offset": 100 * place + number}
        for place, minute_ms in enumerate(minutes_ms)
        for number, row in enumerate(bills)
    ]
    columns = list(rows[0])
    clickhouse.insert("token_costs", [[row[name] for name in columns] for row in rows], column_names=columns)
    for level in LEVELS:
        buckets = {level.bucket_of(row["minute_ms"]) for row in rows}
        clickhouse.command(cost_rollups.insert(level, tuple(buckets)))


def measured(group: list[dict[str, Any]]) -> list[Any]:
    """The measures of a window."""
    sums = [sum(row[name] for row in group) for name in TOKENS]
    judged = group[0].get("slo_class") is not None
    sums += [sum(row[name] for row in group) if judged else None for name in VERDICTS]
    return [
        len(group),
        max(row["at_ms"] for row in group),
        *sums,
        *(one for name in TIMES for one in _times(group, name)),
        merged(row.get("itl_bins", {}) for row in group),
    ]


def _times(group: list[dict[str, Any]], name: str) -> list[Any]:
    """Count, sum and sketch of a latency, as ``PARTS`` has them."""
    known = np.array([row[name] for row in group if row.get(name) is not None], dtype=np.int64)
    bins, counts = np.unique(bin_of(known), return_counts=True)
    return [len(known), int(known.sum()), dict(zip(bins.tolist(), counts.tolist(), strict=True))]
