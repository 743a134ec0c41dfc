"""Every face says the same of any range, and what single requests say when they are counted one by one.

Covers lab.oracle.faces.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lab.oracle.run import Comparison, oracle
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.sketch import bin_of

pytestmark = [pytest.mark.integration, pytest.mark.tables]

ENDS = (
    ("ok", None),
    ("ok", None),
    ("ok", None),
    ("aborted", None),
    ("error", "client"),
    ("error", "server"),
    ("timeout", "timeout"),
)
RANGES = 12
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
WAITS_US = (None, 900, *range(10_000, 900_000, 9_973))
DIMENSIONS = ("model", "tenant", "status", "error_kind")


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
             "status": status, "error_kind": kind, "ttft_us": chance.choice(WAITS_US),
             "input_tokens": chance.randrange(9_000), "cached_tokens": chance.randrange(500),
             "output_tokens": chance.randrange(2_000)}
        )  # fmt: skip
    return found


def fill(clickhouse: Any, rows: list[dict[str, Any]]) -> None:
    """The requests, their windows and the rollups of these."""
    columns = ("at_ms", *DIMENSIONS, "ttft_us", *TOKENS)
    more = ("verdict", "request_id", "source", "seq", "row", "appended_ms")
    raw = [
        [*(row[name] for name in columns), "accepted", f"r{number}", "s", number, 0, row["at_ms"]]
        for number, row in enumerate(rows)
    ]
    clickhouse.insert("llm_requests", raw, column_names=[*columns, *more])
    windows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["at_ms"] // WINDOW_MS * WINDOW_MS, *(row[name] for name in DIMENSIONS))
        windows.setdefault(key, []).append(row)
    sums = [f"{name}_sum" for name in TOKENS]
    names = ["window_ms", *DIMENSIONS, "grouping", "event_count", "last_at_ms", *sums, "ttft_us_bins", "log_offset"]
    clickhouse.insert(
        "llm_requests_partials",
        [[*key, "service", *measured(group), number] for number, (key, group) in enumerate(windows.items())],
        column_names=names,
    )
    for level in LEVELS:
        buckets = {level.bucket_of(row["at_ms"]) for row in rows}
        clickhouse.command(rollup_insert(LLM_REQUESTS, level, tuple(buckets)))


def measured(group: list[dict[str, Any]]) -> list[Any]:
    """The measures of a window."""
    waits = np.array([row["ttft_us"] for row in group if row["ttft_us"] is not None], dtype=np.int64)
    bins, counts = np.unique(bin_of(waits), return_counts=True)
    sketch = dict(zip(bins.tolist(), counts.tolist(), strict=True))
    return [
        len(group),
        max(row["at_ms"] for row in group),
        *(sum(row[name] for row in group) for name in TOKENS),
        sketch,
    ]


@pytest.fixture
def compared(clickhouse: Any) -> Comparison:
    """Random ranges of a minute to thirty days, before, across and after the requests."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    fill(clickhouse, requests(now_ms))

    def ask(sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(clickhouse.query(sql, parameters=dict(bound)).named_results())

    return oracle(ask, RANGES, 1, now_ms + DAY_MS)


def test_every_face_says_what_single_requests_say(compared: Comparison) -> None:
    """Counts to the last one, percentiles within the sketch's error, whatever the ends of the range are."""
    differing = [line for line in compared.as_dict()["lines"] if line["different"]]

    assert differing == []
    assert compared.ranges == RANGES
    assert {face for face, _ in compared.lines} == {"views", "dashboard", "grafana", "query"}
    assert all(line.compared >= RANGES // 2 for line in compared.lines.values())
