"""What each face says of a range: views in plain SQL, pages' queries, Grafana's boards, commands, report, cookbook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD
from fleetpulse.queries.dashboard import Value as Bound
from fleetpulse.queries.questions import numbered
from fleetpulse.sql.query import bound, percentiles_sql
from grafana.sql import FILTERS, expanded, grafana_sql
from lab.oracle.recipes import cookbook
from lab.oracle.said import (
    COUNTS,
    ENDS,
    OF_GPUS,
    RATES,
    Ask,
    Said,
    all_rows,
    asked,
    by,
    goodput,
    latencies,
    summed,
    times,
    unit_costs,
    whole,
)
from schemas.limits import MINUTE_MS

_GOOD = ("judged", "good", "judged_failed", "missed", "good_tokens", "good_share")
_UNITS = {f"{unit}_per_million_{side}": f"{unit}_per_million_{side}"
          for unit in ("usd", "kwh", "g") for side in ("uncached", "output")}  # fmt: skip
_UNITS |= {f"{side}_nusd": f"{side}_nusd" for side in ("uncached", "output")}
_UNITS |= {f"priced_{side}_tokens": f"{side}_tokens" for side in ("uncached", "output")}
_OF_PAGE = {
    "priced_uncached_tokens": "tokens_in",
    "priced_output_tokens": "tokens_out",
    "usd_per_million_uncached": "per_million_in",
    "usd_per_million_output": "per_million_out",
    "kwh_per_million_output": "kwh_per_million_out",
    "g_per_million_output": "g_per_million_out",
}
"""Unit costs, by the column that a query has them in."""
_CHANGES = {name: name for name in ("requests", "failed", "input_tokens", "cached_tokens", "output_tokens")}
_CHANGES |= {"ttft_p99_us": "ttft_us_p99"}
"""Metrics of ``who_changed``, as the recount names them."""
_CHANGE = "output_tokens"
"""The one that ``ask`` is asked about: the view is the same for all."""
_MANY = 100_000


def views(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The view of ten-second windows, as anybody would sum it."""
    found: Said = {}
    for name in ("model", "tenant"):
        sql = (
            f"SELECT {name}, sum(event_count) AS requests, sum(input_tokens_sum) AS input_tokens,"
            " sum(cached_tokens_sum) AS cached_tokens, sum(output_tokens_sum) AS output_tokens,"
            " sumIf(event_count, status != 'ok') AS not_ok, sum(requests_ok) AS ok, sum(requests_aborted) AS aborted,"
            " sum(requests_client_fault) AS client_fault, sum(requests_failed) AS failed,"
            " sum(judged_requests_sum) AS judged, sum(good_requests_sum) AS good, sum(good_tokens_sum) AS good_tokens"
            " FROM request_windows"
            f" WHERE window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY {name}"
        )
        found |= by(name, ask(sql, {}), (*COUNTS, *_GOOD, "not_ok"))
        sql = (
            f"SELECT {name}, sum(toInt128(cost_nusd)) AS cost_nusd, sum(toInt128(p.energy_mj)) AS energy_mj"
            f" FROM cost_parts AS p WHERE minute_ms >= {from_ms} AND minute_ms < {to_ms} GROUP BY {name}"
        )
        found |= by(name, ask(sql, {}), ("cost_nusd", "energy_mj"))
    sql = (
        "SELECT gpu_model, uniqExact(gpu_uuid) AS gpus, sum(util_gpu_pct_sum) / sum(util_gpu_pct_count) AS util_pct,"
        " max(temperature_c_max) AS hottest_c, sum(toInt128(power_mw_sum)) / sum(power_mw_count) AS power_mw,"
        " sum(toInt128(energy_mj_sum)) AS gpu_energy_mj FROM gpu_windows"
        f" WHERE window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY gpu_model"
    )
    found |= by("gpu_model", ask(sql, {}), OF_GPUS)
    (covered,) = ask(f"SELECT covered_ms / 1000 AS s FROM covered_time(from_ms = {from_ms}, to_ms = {to_ms})", {})
    changed = f"from_ms = {from_ms}, to_ms = {to_ms}, before_from_ms = 0, before_to_ms = {from_ms}"
    for row in ask(f"SELECT * FROM who_changed({changed}) WHERE dimension IN ('model', 'tenant')", {}):
        if row["metric"] in _CHANGES and (row["now"] or row["metric"] == "cost_nusd"):
            found[_CHANGES[row["metric"]], f"{row['dimension']}={row['name']}"] = row["now"]
    return found | {("covered_s", "all"): covered["s"]}


def pages(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The queries behind *Models* and *Tenants*."""

    def of(name: str, **more: Bound) -> list[dict[str, Any]]:
        query, span_ms = dashboard.query(name), to_ms - from_ms
        given: dict[str, Bound] = {**dict.fromkeys(STANDARD, ""), "search": "", "top": _MANY}
        given |= {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": max(10_000, span_ms // 100), **more}
        values = query.values(given, span_ms)
        return ask(query.at_levels(span_ms, values), values)

    found = by("model", of("models"), COUNTS) | by("tenant", of("tenants"), COUNTS)
    found |= whole(of("requests_over_time"))
    energy_j = [row["energy_j"] for row in of("fleet_over_time") if row["energy_j"] is not None]
    found |= {("gpu_energy_mj", "all"): round(1_000 * sum(energy_j))} if energy_j else {}
    for row in of("fleet_gpus", total="util_gpu_pct_sum", known="util_gpu_pct_count"):
        found["util_pct", f"gpu={row['gpu_uuid']}"] = row["value"]
        found["hottest_c", f"gpu={row['gpu_uuid']}"] = row["temperature_max_c"]
    found |= whole(of("goodput_over_time"), ("judged", "good"))
    found |= unit_costs("model", of("cost_models"), _OF_PAGE)
    found["covered_s", "all"] = of("covered")[0]["covered_ms"] / 1_000
    for row in of("cost_total"):
        found |= {("cost_nusd", "all"): row["total"], ("meter_mj", "all"): row["used_mj"] or 0}
        found |= {("billed_minutes", "all"): row["billed_minutes"]}
    for name in ("model", "tenant"):
        listed = of(f"cost_{name}s")
        found |= {("listed_cost_nusd", f"{name}={row[name] or None}"): row["cost"] or 0 for row in listed}
    found |= summed("not_ok", "tenant", of("tenant_errors"))
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
        text = grafana_sql(name, {"top": str(_MANY), "search": "''"})
        interval_s = max(10, (to_ms - from_ms) // 100_000)
        return ask(expanded(text, from_ms, to_ms, interval_s, dict.fromkeys(FILTERS, "")), {})

    found = by("model", of("models"), COUNTS) | by("tenant", of("tenants"), COUNTS)
    found |= unit_costs("model", of("cost_models"), _OF_PAGE)
    return found | whole(of("requests_over_time"))


def named(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse query``."""
    given = {"from_ms": from_ms, "to_ms": to_ms}
    found = by("model", asked(ask, queries.text("throughput_by_model"), given), (*COUNTS, *RATES))
    found |= latencies("model", asked(ask, queries.text("percentiles_by_model"), given))
    for row in asked(ask, queries.text("gpu_summary"), given):
        known = {"gpus": row["gpus"], "util_pct": row["util_pct"], "hottest_c": row["temperature_max_c"]}
        known |= {"power_mw": times(row["power_w"], 1_000), "gpu_energy_mj": times(row["energy_j"], 1_000)}
        found |= by("gpu_model", [known | {"gpu_model": row["gpu_model"]}], OF_GPUS)
    return found | summed("not_ok", "model", ask(all_rows(queries.text("errors_by_kind")), given))


def commands(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse percentiles`` and ``fleetpulse ask``, whatever of its questions single rows can answer."""
    found: Said = {}
    for name in ("model", "tenant"):
        rows = asked(ask, percentiles_sql("ttft_us", name), {"from_ms": from_ms, "to_ms": to_ms})
        found |= latencies(name, rows, "p{}", 1)
    bounds = {"from_ms": from_ms, "to_ms": to_ms, "before_from_ms": 0, "before_to_ms": from_ms}
    for one in numbered().values():
        if one.query not in _ASKED or one.given.get("metric", _CHANGE) != _CHANGE:
            continue
        query = bound(one.sql(to_ms - from_ms, bounds), one.known() | {"top": str(_MANY)}, (), bounds)
        rows = asked(ask, query.sql, query.parameters)
        if one.query == "who_changed" and rows:
            found[_CHANGE, "all"] = rows[0]["all_now"]
        else:
            found |= _ASKED[one.query](rows)
    return found


def _idle(rows: list[dict[str, Any]]) -> Said:
    return {("idle_nusd", row["why"]): row["cost_nusd"] for row in rows if row["why"] == "all"}


def _split(rows: list[dict[str, Any]]) -> Said:
    """Money of each part of the bill, and the energy of all."""
    if not rows:
        return {}
    found: Said = {("energy_mj", "all"): sum(row["energy_mj"] or 0 for row in rows)}
    for row in rows:
        key = ("cost_nusd", f"part={row['part']}")
        found[key] = found.get(key, 0) + (row["cost_nusd"] or 0)
    return found


_ASKED: Mapping[str, Callable[[list[dict[str, Any]]], Said]] = {
    "who_changed": lambda rows: {},
    "idle_gpus": _idle,
    "cost_bill": lambda rows: {
        (metric, "all"): row[name]
        for row in rows
        for metric, name in (
            ("cost_nusd", "total_nusd"),
            ("energy_mj",) * 2,
            ("meter_mj",) * 2,
            ("billed_minutes",) * 2,
        )
    },
    "cost_split": _split,
    "throughput_by_model": lambda rows: by("model", rows, (*COUNTS, *RATES)),
    "dashboard/tenants": lambda rows: by("tenant", rows, COUNTS),
    "dashboard/covered": lambda rows: {("covered_s", "all"): rows[0]["covered_ms"] / 1_000},
    "slowest_requests": lambda rows: {("ttft_us_max", "all"): times(rows[0]["ttft_ms"], 1_000)} if rows else {},
}
"""How answers of ``fleetpulse ask`` are read."""


def report(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """What ``fleetpulse report cost`` is made of; nothing where it says that there is no bill. It is of whole minutes:
    requests are counted where the range is."""

    def of(name: str, **more: str) -> list[dict[str, Any]]:
        return ask(queries.text(name), {"from_ms": from_ms, "to_ms": to_ms, **more})

    if not (bill := of("cost_bill")):
        return {}
    found = _split(of("cost_split"))
    found["cost_nusd", "all"] = sum(row["cost_nusd"] or 0 for row in of("cost_by_hour"))
    found["billed_minutes", "all"] = bill[0]["billed_minutes"]
    minutes = not from_ms % MINUTE_MS and not to_ms % MINUTE_MS
    found |= goodput(of("cost_goodput_windows")) if minutes else {}
    for name in ("model", "tenant"):
        listed = [row | {name: row["name"] or None} for row in of("cost_by", dimension=name)]
        found |= unit_costs(name, listed, _UNITS)
        found |= {("listed_cost_nusd", f"{name}={row[name]}"): row["cost_nusd"] or 0 for row in listed}
        if minutes:
            found |= by(name, [row for row in listed if sum(row[end] for end in ENDS)], ENDS)
    return found


FACES: Mapping[str, Callable[[Ask, int, int], Said]] = {
    "views": views,
    "dashboard": pages,
    "grafana": boards,
    "query": named,
    "commands": commands,
    "report": report,
    "cookbook": cookbook,
}
