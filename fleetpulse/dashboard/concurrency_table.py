"""Table of latency by concurrency, on the pages Engine and Models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.latencies import percentile_column
from fleetpulse.dashboard.parts import Column
from fleetpulse.dashboard.values import percentile_cells, short

AT_ONCE = "requests that an engine ran at one time"
_LATENCIES = ("ttft", "itl", "e2e")
CONCURRENCY = [
    Column("at_once", "Running", text=short, right=True),
    Column("requests", "Requests", text=short, right=True),
    Column("requests_per_s", "Requests/s of an engine", text=short, right=True),
    Column("output_tokens_per_s", "Tokens/s of an engine", text=short, right=True),
    *(percentile_column(name, p) for name in _LATENCIES for p in ("p50", "p95")),
]


def concurrency_hint(rows: Sequence[Mapping[str, Any]], tenant: str = "") -> str:
    """What the table is of: where there are many windows, of some; whatever ``tenant`` was chosen, of all."""
    every = rows[0]["of_windows"] if rows else 1
    some = "" if every == 1 else f", in one of {every} windows"
    return f"{AT_ONCE}{', of all tenants' if tenant else ''}{some}"


def concurrency_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the query as rows of the table."""
    return [
        row | percentile_cells(_LATENCIES, [(row[f"{name}_us"], row[f"{name}_counted"]) for name in _LATENCIES])
        for row in map(dict, rows)
    ]
