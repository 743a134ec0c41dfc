"""What the dashboard's pages and Grafana's boards say of a range: their queries, and panels as they are sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD
from fleetpulse.queries.dashboard import Value as Bound
from fleetpulse.queries.written_out import written_out
from grafana.boards import BOARDS
from grafana.render import panel_sql
from grafana.sql import FILTERS, expanded, grafana_sql
from lab.oracle.recount import PERCENTS
from lab.oracle.said import (
    COUNTS,
    LATENCIES,
    MANY,
    Answers,
    Ask,
    Said,
    asked,
    by,
    gpu_types,
    listed,
    silent,
    summed,
    unit_costs,
    whole,
)

_Of = Callable[..., list[dict[str, Any]]]
"""Rows of a query by its name, with what of its parameters is not usual."""
_OF_PAGE = {
    "priced_uncached_tokens": "tokens_in",
    "priced_output_tokens": "tokens_out",
    "usd_per_million_uncached": "per_million_in",
    "usd_per_million_output": "per_million_out",
    "kwh_per_million_output": "kwh_per_million_out",
    "g_per_million_output": "g_per_million_out",
}
"""Unit costs, by the column that a query has them in."""
_LISTED = {
    "listed_cost_nusd": "cost",
    "listed_meter_mj": "used_mj",
    "listed_carbon_ug": "emitted_ug",
    "listed_gpu_ms": "gpu_time_ms",
    "aborted_nusd": "aborted",
    "unanswered_nusd": "unanswered",
}
_OF_HOST = {
    "cpu_busy": "host_cpu_share",
    "core_busy_max": "host_core_share",
    "memory": "host_memory_share",
    **dict.fromkeys(("sent", "network_tx"), "host_tx_per_s"),
    **dict.fromkeys(("received", "network_rx"), "host_rx_per_s"),
    "network_faults": "host_network_errors",
    "retransmitted": "host_sent_again",
}
"""What is said of a host, by the column that a query has it in."""
_DOLLARS = {metric: f"{column}_usd" for metric, column in _LISTED.items() if metric.endswith("_nusd")}
"""Of each model and tenant, by the column of a query, and of a panel."""
_OVERHEAD = ("start-up", "not answered in full")
"""What a chart calls two pieces of one part of the bills."""
_PANELS = {(board.name, panel.title): (board, panel) for board in BOARDS for panel in board.panels}


def pages(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The queries behind *Fleet*, *Models*, *Tenants*, *Engines*, *Hosts* and *Cost*."""

    def of(name: str, **more: Bound) -> list[dict[str, Any]]:
        query, span_ms = dashboard.query(name), to_ms - from_ms
        given: dict[str, Bound] = {**dict.fromkeys(STANDARD, ""), "search": "", "top": MANY}
        given |= {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": max(10_000, span_ms // 100), **more}
        values = query.values(given, span_ms)
        return ask(written_out(query.at_levels(span_ms, values)), values)

    found = Answers({("covered_s", "all"): of(dashboard.covered(to_ms - from_ms))[0]["covered_ms"] / 1_000})
    for said in (_requests(of, to_ms), _latencies(of), _engines(of, to_ms), _money(of), _silent(of)):
        found.add(said)
    for said in (_gpus_over_time(of, to_ms), _gpus(of, to_ms), _hosts(of, to_ms)):
        found.add(said)
    found.add({("first_ms", "all"): of("first_event")[0]["first_ms"]})
    return found


def _requests(of: _Of, to_ms: int) -> Said:
    """A point as wide as all time holds the whole range."""
    found = Answers(by("model", of("models"), COUNTS) | by("tenant", of("tenants"), COUNTS))
    found.add(whole(of("requests_over_time")))
    found.add(whole(of("goodput_over_time"), ("judged", "good")))
    named = [row | {"tenant": row["name"] or None} for row in of("tenants_over_time", bucket_ms=to_ms)]
    for column in ("requests", "output_tokens"):
        found.add(summed(column, "tenant", [row | {column: row[column] or 0} for row in named], column))
    found.add(summed("not_ok", "tenant", of("tenant_errors")))
    found.add({("not_ok", "all"): sum(row["requests"] for row in of("errors_over_time"))})
    return found


def _latencies(of: _Of) -> Said:
    found: Said = {}
    for measure, percents in LATENCIES.items():
        for name in ("model", "tenant"):
            for row in of("latency_by", bins=f"{measure}_bins", dimension=name, names=[]):
                values = dict(zip(PERCENTS, row["percentiles"], strict=False))
                found |= {(f"{measure}_p{one}", f"{name}={row['name']}"): values[one] for one in percents if values}
    return found


def _engines(of: _Of, to_ms: int) -> Said:
    found = Answers()
    for row in of("latency_over_time", bins="ttft_us_bins", bucket_ms=to_ms):
        found["ttft_counted", "all"] = row["counted"]
        found |= {(f"ttft_us_p{one}", "all"): us for one, us in zip(PERCENTS, row["percentiles"], strict=True)}
    for row in of("engines_latency_over_time", bucket_ms=to_ms):
        engine = f"engine={row['name']}"
        found |= {("requests", engine): row["requests"], ("ttft_counted", engine): row["ttft_counted"]}
        found["ttft_us_p99", engine] = row["ttft_p99_us"]
    rows = of("engines")
    for row in rows:
        kv_ppm = None if row["kv_used"] is None else round(1e6 * row["kv_used"])
        found["most_waiting", f"engine={row['engine_id']}"] = row["waiting"]
        found["kv_most_ppm", f"engine={row['engine_id']}"] = kv_ppm
    for name in [row["engine_id"] for row in rows[:1]]:
        for row in of("engine_requests", engine_id=name, bucket_ms=to_ms):
            counted = {"requests": row["requests"], "ttft_counted": row["ttft_us_counted"]}
            found.add({(metric, f"engine={name}"): value for metric, value in counted.items()})
    return found


def _gpus_over_time(of: _Of, to_ms: int) -> Said:
    energy_j = [row["energy_j"] for row in of("fleet_over_time") if row["energy_j"] is not None]
    found: Said = {("gpu_energy_mj", "all"): round(1_000 * sum(energy_j))} if energy_j else {}
    for row in of("fleet_over_time", bucket_ms=to_ms):
        found |= {("gpus", "all"): row["gpus"], ("util_pct", "all"): 100 * (row["busy"] or 0)}
    return found


def _gpus(of: _Of, to_ms: int) -> Said:
    """On the map and in the list, where some have been there around the range and did nothing in it; one over time."""
    found, rows = Answers(), of("gpus")
    mapped = of("fleet_gpus", total="util_gpu_pct_sum", known="util_gpu_pct_count")
    shares = [(row, row["value"]) for row in mapped] + [(row, 100 * (row["busy"] or 0)) for row in rows]
    for row, util_pct in shares:
        gpu = f"gpu={row['gpu_uuid']}"
        found.add({("util_pct", gpu): util_pct, ("hottest_c", gpu): row["temperature_max_c"]})
    for row in mapped:
        held_us, covered_ms = row["throttled_fault_us"], row["covered_ms"]
        share = held_us / 1e3 / covered_ms if covered_ms else 0
        found.add({("throttled_fault_pct", f"gpu={row['gpu_uuid']}"): 100 * share})
    for gpu_uuid in [row["gpu_uuid"] for row in rows[:1]]:
        for row in of("gpu_signals", gpu_uuid=gpu_uuid, bucket_ms=to_ms):
            of_signals = {"util_pct": "busy", "throttled_fault_pct": "throttled_fault"}
            found.add({(said, f"gpu={gpu_uuid}"): 100 * (row[name] or 0) for said, name in of_signals.items()})
    return found


def _hosts(of: _Of, to_ms: int) -> Said:
    """In the list, all over time, and the first alone."""
    found, rows = Answers(), of("hosts")
    listed_hosts = [(row["host"], row) for row in rows]
    charted = [(row["name"], row) for row in of("hosts_over_time", bucket_ms=to_ms)]
    alone = [(name, row) for name, _ in listed_hosts[:1] for row in of("host_over_time", host=name, bucket_ms=to_ms)]
    for name, row in (*listed_hosts, *charted, *alone):
        found.add({(metric, f"host={name}"): row[column] for column, metric in _OF_HOST.items() if column in row})
    return found


def _money(of: _Of) -> Said:
    listed_by = {name: of(f"cost_{name}s") for name in ("model", "tenant")}
    found = Answers(unit_costs("model", listed_by["model"], _OF_PAGE))
    for row in of("cost_total"):
        found.add({("cost_nusd", "all"): row["total"], ("meter_mj", "all"): row["used_mj"] or 0})
        found.add({("billed_ms", "all"): row["billed_ms"]})
    for row in of("cost_idle_hosts"):
        owner = f"owner={row['owner']}"
        found.add({("idle_gpu_ms", owner): row["gpu_time_ms"], ("idle_nusd", owner): row["cost"] or 0})
    for name, rows in listed_by.items():
        found.add(listed(name, rows, _LISTED))
    parts = [
        {"part": "__overhead__" if row["what"] in _OVERHEAD else row["what"], "cost": row["cost"] or 0}
        for row in of("cost_over_time")
    ]
    found.add(summed("cost_nusd", "part", parts, "cost"))
    return found


def _silent(of: _Of) -> Said:
    found: Said = {}
    rows = [row | {"gpu_model": row["gpu_model"] or None} for row in of("silent_gpus")]
    for column in ("silent_gpu_ms", "unobserved_nusd"):
        found |= summed(column, "gpu_model", [row | {column: row[column] or 0} for row in rows], column)
    found["silent_gpu_ms", "all"] = sum(row["silent_gpu_ms"] for row in rows)
    return found


def boards(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """Grafana's *Models*, *Cost* and what of *Fleet* and *GPUs* is of readings, as its data source would send them."""
    interval_s = max(10, (to_ms - from_ms) // 100_000)

    def sent(text: str) -> list[dict[str, Any]]:
        return asked(ask, expanded(text, from_ms, to_ms, interval_s, dict.fromkeys(FILTERS, "")), {})

    def of(name: str) -> list[dict[str, Any]]:
        return sent(grafana_sql(name, {"top": str(MANY), "search": "''"}))

    def panel(board: str, title: str) -> list[dict[str, Any]]:
        """With all rows, where it shows the first."""
        whose, one = _PANELS[board, title]
        top = {"top": str(MANY)} if "top" in one.params else {}
        return sent(panel_sql(whose, replace(one, params={**one.params, **top}, rows_max=None)))

    found = Answers(by("model", panel("models", "Models"), COUNTS))
    found.add(by("tenant", panel("models", "Tenants by requests"), COUNTS))
    found.add(whole(of("requests_over_time")))
    found.add(unit_costs("model", of("cost_models"), _OF_PAGE))
    found.add(silent(of("cost_coverage")))
    for name in ("model", "tenant"):
        rows = panel("models", f"Time to first token by {name}")
        found.add({("ttft_counted", f"{name}={row[name]}"): row["counted"] for row in rows})
    found.add(gpu_types(panel("fleet", "GPUs by type")))
    for row in panel("gpu", "Most utilized GPUs"):
        gpu = f"gpu={row['gpu_uuid']}"
        found.add({("util_pct", gpu): row["busy"], ("hottest_c", gpu): row["temperature_max_c"]})
    found.add(_dollars(panel))
    return found


def _dollars(panel: _Of) -> Said:
    """Panels of *Cost*, in nano-dollars again."""
    (bill,) = panel("cost", "Bill")
    found: Said = {("cost_nusd", "all"): _nusd(bill["total_usd"])}
    for name, title in (("model", "Models"), ("tenant", "Tenants")):
        rows = [{name: row[name]} | {of: _nusd(row[of]) for of in _DOLLARS.values()} for row in panel("cost", title)]
        found |= listed(name, rows, _DOLLARS)
    for row in panel("cost", "Idle and wasted"):
        owner = f"owner={row['owner']}"
        found |= {("idle_gpu_ms", owner): row["gpu_time_ms"], ("idle_nusd", owner): _nusd(row["cost_usd"])}
    return found


def _nusd(usd: float | None) -> int:
    return round(1e9 * (usd or 0))
