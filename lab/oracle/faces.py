"""What each face says of a range: views in plain SQL, pages' queries, Grafana's boards and named queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD
from fleetpulse.queries.dashboard import Value as Bound
from grafana.sql import FILTERS, expanded, grafana_sql
from lab.oracle.recount import Key
from schemas.limits import HOUR_MS

Row = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]
"""Rows of a query with its bound values, as the reader."""
Said = dict[Key, Any]
_ENDS = ("ok", "aborted", "client_fault", "failed")
_COUNTS = ("requests", *_ENDS, "failed_share", "input_tokens", "cached_tokens", "output_tokens")
_MANY = 100_000
GRAFANA_SPAN_MS = 3 * HOUR_MS
"""What the boards of requests usually show."""


def views(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The view of ten-second windows, as anybody would sum it."""
    found: Said = {}
    for name in ("model", "tenant"):
        sql = (
            f"SELECT {name}, sum(event_count) AS requests, sum(input_tokens_sum) AS input_tokens,"
            " sum(cached_tokens_sum) AS cached_tokens, sum(output_tokens_sum) AS output_tokens,"
            " sumIf(event_count, status != 'ok') AS not_ok, sum(requests_ok) AS ok, sum(requests_aborted) AS aborted,"
            " sum(requests_client_fault) AS client_fault, sum(requests_failed) AS failed FROM request_windows"
            f" WHERE window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY {name}"
        )
        found |= _by(name, ask(sql, {}), (*_COUNTS, "not_ok"))
    return found


def pages(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The queries behind *Models* and *Tenants*."""

    def of(name: str, **more: Bound) -> list[dict[str, Any]]:
        query, span_ms = dashboard.query(name), to_ms - from_ms
        given: dict[str, Bound] = {**dict.fromkeys(STANDARD, ""), "search": "", "top": _MANY}
        given |= {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": max(10_000, span_ms // 100), **more}
        values = query.values(given, span_ms)
        return ask(query.at_levels(span_ms, values), values)

    found = _by("model", of("models"), _COUNTS) | _by("tenant", of("tenants"), _COUNTS)
    found |= _all(of("requests_over_time"))
    found |= _summed("not_ok", "tenant", of("tenant_errors"))
    found[("not_ok", "all")] = sum(row["requests"] for row in of("errors_over_time"))
    for name in ("model", "tenant"):
        for row in of("latency_by", bins="ttft_us_bins", dimension=name, names=[]):
            for place, percent in enumerate((50, 95)):
                if row["percentiles"]:
                    found[f"ttft_us_p{percent}", f"{name}={row['name']}"] = row["percentiles"][place]
    return found


def boards(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The panels of Grafana's *Models*, as its data source would send them."""

    def of(name: str) -> list[dict[str, Any]]:
        text = grafana_sql(name, GRAFANA_SPAN_MS, {"top": str(_MANY), "search": "''"})
        interval_s = max(10, (to_ms - from_ms) // 100_000)
        return ask(expanded(text, from_ms, to_ms, interval_s, dict.fromkeys(FILTERS, "")), {})

    return _by("model", of("models"), _COUNTS) | _by("tenant", of("tenants"), _COUNTS) | _all(of("requests_over_time"))


def named(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse query``."""
    given = {"from_ms": from_ms, "to_ms": to_ms}
    found = _by("model", ask(queries.text("throughput_by_model"), given), _COUNTS)
    for row in ask(queries.text("percentiles_by_model"), given):
        if row["latency"] == "TTFT" and row["p50_ms"] is not None:
            found["ttft_us_p50", f"model={row['model']}"] = 1_000 * row["p50_ms"]
            found["ttft_us_p95", f"model={row['model']}"] = 1_000 * row["p95_ms"]
    return found


FACES: Mapping[str, Callable[[Ask, int, int], Said]] = {
    "views": views,
    "dashboard": pages,
    "grafana": boards,
    "query": named,
}


def _by(name: str, rows: Iterable[Row], metrics: Iterable[str]) -> Said:
    """Each metric that the rows have, by the column ``name``."""
    wanted = list(metrics)
    return {
        (metric, f"{name}={row[name]}"): row[metric] for row in rows for metric in wanted if row.get(metric) is not None
    }


def _all(rows: list[dict[str, Any]]) -> Said:
    """Sums over the points of a chart."""
    names = [name for name in _COUNTS if rows and name in rows[0] and name != "failed_share"]
    return {(name, "all"): sum(row[name] or 0 for row in rows) for name in names}


def _summed(metric: str, name: str, rows: list[dict[str, Any]]) -> Said:
    found: Said = {}
    for row in rows:
        key = (metric, f"{name}={row[name]}")
        found[key] = found.get(key, 0) + row["requests"]
    return found
