"""What each face says of a range: views in plain SQL, pages' queries, Grafana's boards, commands, report, cookbook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD
from fleetpulse.queries.dashboard import Value as Bound
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.written_out import written_out
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
from lab.oracle.value import Key
from schemas.limits import HOUR_MS, MINUTE_MS

_GOOD = ("judged", "good", "judged_failed", "missed", "good_tokens", "good_share")
UNITS = {f"{unit}_per_million_{side}": f"{unit}_per_million_{side}"
          for unit in ("usd", "kwh", "g") for side in ("uncached", "output")}  # fmt: skip
UNITS |= {f"{side}_nusd": f"{side}_nusd" for side in ("uncached", "output")}
UNITS |= {f"priced_{side}_tokens": f"{side}_tokens" for side in ("uncached", "output")}
_OF_PAGE = {
    "priced_uncached_tokens": "tokens_in",
    "priced_output_tokens": "tokens_out",
    "usd_per_million_uncached": "per_million_in",
    "usd_per_million_output": "per_million_out",
    "kwh_per_million_output": "kwh_per_million_out",
    "g_per_million_output": "g_per_million_out",
}
"""Unit costs, by the column that a query has them in."""
COVERAGE = tuple(f"{name}_gpu_ms" for name in ("inventory", "reporting", "billed", "silent"))
_TYPES = {f"type_{name}": name for name in ("gpu_ms", "energy_mj", "meter_mj", "carbon_ug", "unpriced_gpu_ms")}
_TYPES |= {"type_cost_nusd": "total_nusd", "type_idle_nusd": "idle_nusd", "type_requests": "requests"}
_TYPES |= {f"type_{name}": name for name in ("prompt_tokens", "decode_tokens")}
"""What is billed of GPUs of a type."""
_CHANGES = {name: name for name in ("requests", "failed", "input_tokens", "cached_tokens", "output_tokens")}
_CHANGES |= {"ttft_p99_us": "ttft_us_p99"}
"""Metrics of ``who_changed``, as the recount names them."""
_CHANGE = "requests"
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
        "SELECT gpu_model, uniqExact(ifNull(parent_uuid, gpu_uuid)) AS gpus,"
        " sum(util_gpu_pct_sum) / sum(util_gpu_pct_count) AS util_pct, max(temperature_c_max) AS hottest_c,"
        " sum(toInt128(power_mw_sum)) / sum(power_mw_count) AS power_mw, sum(toInt128(energy_mj_sum)) AS gpu_energy_mj"
        f" FROM gpu_windows WHERE window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY gpu_model"
    )
    found |= by("gpu_model", ask(sql, {}), OF_GPUS) | _coverage(ask, from_ms, to_ms)
    (covered,) = ask(f"SELECT covered_ms / 1000 AS s FROM covered_time(from_ms = {from_ms}, to_ms = {to_ms})", {})
    changed = f"from_ms = {from_ms}, to_ms = {to_ms}, before_from_ms = 0, before_to_ms = {from_ms}"
    for row in ask(f"SELECT * FROM who_changed({changed}) WHERE dimension IN ('model', 'tenant')", {}):
        if row["metric"] in _CHANGES and (row["now"] or row["metric"] == "cost_nusd"):
            found[_CHANGES[row["metric"]], f"{row['dimension']}={row['name']}"] = row["now"]
    found |= _good_shares(ask, from_ms, to_ms) | _hourly(ask, from_ms, to_ms)
    return found | {("covered_s", "all"): covered["s"]}


def _coverage(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """By type of GPU, and of all."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in COVERAGE)
    source = f"gpu_coverage(from_ms = {from_ms}, to_ms = {to_ms})"
    picked = f"SELECT gpu_model AS type, {sums}, sum(unobserved_nusd) AS unobserved_nusd FROM {source}"
    rows = [row | {"gpu_model": row["type"] or None} for row in ask(f"{picked} GROUP BY type", {})]
    found = by("gpu_model", rows, (*COVERAGE, "unobserved_nusd"))
    return found | {(name, "all"): sum(row[name] for row in rows) for name in COVERAGE}


def _good_shares(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """What the view of windows has for it, divided as its page says."""
    found: Said = {}
    for name in ("model", "tenant"):
        sql = (
            f"SELECT {name}, sum(good_requests_sum) / nullIf(sum(judged_requests_sum), 0) AS good_share"
            f" FROM request_windows WHERE window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY {name}"
        )
        found |= by(name, ask(sql, {}), ("good_share",))
    return found


def _hourly(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """Each row of ``unit_costs``, which are of whole hours."""
    if from_ms % HOUR_MS or to_ms % HOUR_MS:
        return {}
    hour = "toUnixTimestamp(hour) * 1000"
    found: Said = {}
    for row in ask(f"SELECT * FROM unit_costs WHERE {hour} >= {from_ms} AND {hour} < {to_ms}", {}):
        hour_of = round(row["hour"].replace(tzinfo=UTC).timestamp() * 1_000) // HOUR_MS
        of = f"hour={hour_of} {row['tenant']} {row['model']} {row['unused'] or ''}"
        values = {name: row.get(name) for name in row if name not in ("hour", "tenant", "model", "unused")}
        for side in ("uncached", "output"):
            values[f"priced_{side}_tokens"] = values.pop(f"{side}_tokens")
        found |= {(f"hourly_{name}", of): value for name, value in values.items() if value is not None}
    return found


def pages(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The queries behind *Models* and *Tenants*."""

    def of(name: str, **more: Bound) -> list[dict[str, Any]]:
        query, span_ms = dashboard.query(name), to_ms - from_ms
        given: dict[str, Bound] = {**dict.fromkeys(STANDARD, ""), "search": "", "top": _MANY}
        given |= {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": max(10_000, span_ms // 100), **more}
        values = query.values(given, span_ms)
        return ask(written_out(query.at_levels(span_ms, values)), values)

    found = by("model", of("models"), COUNTS) | by("tenant", of("tenants"), COUNTS)
    found |= whole(of("requests_over_time"))
    energy_j = [row["energy_j"] for row in of("fleet_over_time") if row["energy_j"] is not None]
    found |= {("gpu_energy_mj", "all"): round(1_000 * sum(energy_j))} if energy_j else {}
    for row in of("fleet_gpus", total="util_gpu_pct_sum", known="util_gpu_pct_count"):
        found["util_pct", f"gpu={row['gpu_uuid']}"] = row["value"]
        found["hottest_c", f"gpu={row['gpu_uuid']}"] = row["temperature_max_c"]
    found |= whole(of("goodput_over_time"), ("judged", "good"))
    found |= unit_costs("model", of("cost_models"), _OF_PAGE)
    found["covered_s", "all"] = of(dashboard.covered(to_ms - from_ms))[0]["covered_ms"] / 1_000
    for row in of("cost_total"):
        found |= {("cost_nusd", "all"): row["total"], ("meter_mj", "all"): row["used_mj"] or 0}
        found |= {("billed_ms", "all"): row["billed_ms"]}
    for row in of("cost_idle_hosts"):
        owner = f"owner={row['owner']}"
        found |= {("idle_gpu_ms", owner): row["gpu_time_ms"], ("idle_nusd", owner): row["cost"] or 0}
    silent = [row | {"gpu_model": row["gpu_model"] or None} for row in of("silent_gpus")]
    for column in ("silent_gpu_ms", "unobserved_nusd"):
        found |= summed(column, "gpu_model", [row | {column: row[column] or 0} for row in silent], column)
    found["silent_gpu_ms", "all"] = sum(row["silent_gpu_ms"] for row in silent)
    for name in ("model", "tenant"):
        listed = of(f"cost_{name}s")
        found |= {("listed_cost_nusd", f"{name}={row[name] or None}"): row["cost"] or 0 for row in listed}
    found |= summed("not_ok", "tenant", of("tenant_errors"))
    found[("not_ok", "all")] = sum(row["requests"] for row in of("errors_over_time"))
    for name in ("model", "tenant"):
        for row in of("latency_by", bins="ttft_us_bins", dimension=name, names=[]):
            for place, percent in enumerate((50, 95, 99)):
                if row["percentiles"]:
                    found[f"ttft_us_p{percent}", f"{name}={row['name']}"] = row["percentiles"][place]
    return found


def boards(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """Panels of Grafana's *Models* and *Cost*, as its data source would send them."""

    def of(name: str) -> list[dict[str, Any]]:
        text = grafana_sql(name, {"top": str(_MANY), "search": "''"})
        interval_s = max(10, (to_ms - from_ms) // 100_000)
        return ask(expanded(text, from_ms, to_ms, interval_s, dict.fromkeys(FILTERS, "")), {})

    found = by("model", of("models"), COUNTS) | by("tenant", of("tenants"), COUNTS)
    found |= unit_costs("model", of("cost_models"), _OF_PAGE) | _silent(of("cost_coverage"))
    return found | whole(of("requests_over_time"))


def _silent(rows: list[dict[str, Any]]) -> Said:
    """``cost_coverage``, all days together."""
    found: Said = {}
    names = {name: name for name in COVERAGE if name != "billed_gpu_ms"} | {"unobserved_nusd": "unobserved_nusd"}
    for metric, column in names.items():
        named = [{"gpu_model": row["gpu_model"] or None, column: row[column] or 0} for row in rows]
        found |= summed(metric, "gpu_model", named, column)
    for metric, column in {"type_gpu_ms": "billed_gpu_ms", "type_machine_nusd": "billed_nusd"}.items():
        named = [{"gpu_model": row["gpu_model"] or "several types", column: row[column] or 0} for row in rows]
        found |= summed(metric, "gpu_model", named, column)
    return found


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
        if one.query not in ASKED or one.given.get("metric", _CHANGE) != _CHANGE:
            continue
        sql = one.sql(to_ms - from_ms, bounds)
        query = bound(all_rows(sql) if one.query in _CUT else sql, one.known() | {"top": str(_MANY)}, (), bounds)
        rows = asked(ask, query.sql, query.parameters)
        if one.query == "who_changed" and rows:
            found[_CHANGE, "all"] = rows[0]["all_now"]
        else:
            found |= ASKED[one.query](rows)
    return found


def _idle(rows: list[dict[str, Any]]) -> Said:
    """By why and type; of all of them the rate of a month, too."""
    found: Said = {}
    for row in rows:
        silent, of = row["why"] == "no reading: __unobserved__", f"why={row['why']}, {row['gpu_model']}"
        of = "all" if row["why"] == "all in bills" else f"gpu_model={row['gpu_model'] or None}" if silent else of
        hours, money = ("silent_gpu_ms", "unobserved_nusd") if silent else ("idle_gpu_ms", "idle_nusd")
        found |= {(hours, of): row["gpu_ms"], (money, of): row["cost_nusd"] or 0}
        found |= {("idle_of_30_days_nusd", "all"): row["of_30_days_nusd"]} if of == "all" else {}
    return found


def _ended(rows: list[dict[str, Any]]) -> Said:
    return {
        (f"not_ok_{name}", f"ended={row['status']} {row['model']} {row['tenant']}"): row[name]
        for row in rows
        for name in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug")
    }


def _hosts(rows: list[dict[str, Any]]) -> Said:
    scaled = ("ttft_us_p99", "ttft_p99_ms"), ("queue_us_p99", "queue_p99_ms")
    found = {(metric, f"host={row['host']}"): times(row[name], 1_000) for row in rows for metric, name in scaled
             if row[name].value is not None}  # fmt: skip
    return found | {("ttft_counted", f"host={row['host']}"): row["requests"] for row in rows}


def _columns(of: str, column: str, names: Mapping[str, str]) -> Callable[[list[dict[str, Any]]], Said]:
    """Metrics by the column that has them; null is 0."""
    return lambda rows: {
        (metric, f"{of}={row[column]}"): row[name] or 0 for row in rows for metric, name in names.items()
    }


def _split(rows: list[dict[str, Any]]) -> Said:
    """Money of each part of the bill, and the energy of all."""
    if not rows:
        return {}
    found: Said = {("energy_mj", "all"): sum(row["energy_mj"] or 0 for row in rows)}
    for row in rows:
        key = ("cost_nusd", f"part={row['part']}")
        found[key] = found.get(key, 0) + (row["cost_nusd"] or 0)
    return found


def _slowed(rows: list[dict[str, Any]]) -> Said:
    return {
        ("ttft_us_p99", f"model={row['model']}"): row["model_now_ms"] * 1_000
        for row in rows
        if row["model_now_ms"] is not None
    }


def _tokens(rows: list[dict[str, Any]]) -> Said:
    return {
        (f"{kind}_tokens", f"{row['dimension']}={row['name']}" if row["name"] != "" else "all"): row[f"{kind}_now"]
        for row in rows
        for kind in ("input", "cached", "output")
        if row[f"{kind}_now"]
    }


ASKED: Mapping[str, Callable[[list[dict[str, Any]]], Said]] = {
    "who_changed": lambda rows: {},
    "tokens_changed": _tokens,
    "who_slowed_model": _slowed,
    "idle_gpus": _idle,
    "cost_bill": lambda rows: {
        (metric, "all"): row[name]
        for row in rows
        for metric, name in (
            ("cost_nusd", "total_nusd"),
            ("energy_mj",) * 2,
            ("meter_mj",) * 2,
            ("billed_ms",) * 2,
        )
    },
    "cost_split": _split,
    "throughput_by_model": lambda rows: by("model", rows, (*COUNTS, *RATES)),
    "cost_by_gpu_model": _columns("gpu_model", "gpu_model", _TYPES),
    "cost_failed": _ended,
    "cost_by_engine": _columns(
        "engine", "engine_id", {f"{name}_nusd": f"{name}_nusd" for name in ("request", "failed", "startup", "unused")}
    ),
    "request_cost_gpu": _columns(
        "tenant",
        "tenant",
        {
            "billed_requests": "requests",
            "gpu_ms_per_request": "gpu_ms_per_request",
            "energy_mj_per_request": "energy_mj_per_request",
            **{
                f"{whose}_{name}": f"{column}{name}"
                for whose, column in (("whole", ""), ("work", "work_"))
                for name in ("gpu_ms", "energy_mj")
            },
        },
    ),
    "slowest_hosts": _hosts,
    "dashboard/tenants": lambda rows: by("tenant", rows, COUNTS),
    "dashboard/covered": lambda rows: {("covered_s", "all"): rows[0]["covered_ms"] / 1_000},
    "slowest_requests": lambda rows: {("ttft_us_max", "all"): times(rows[0]["ttft_ms"], 1_000)} if rows else {},
}
"""How answers of ``fleetpulse ask`` are read."""
_CUT = ("cost_failed", "slowest_hosts")
"""Those that show the first rows: all are asked for."""
NOT_ASKED: Mapping[str, str] = {
    **dict.fromkeys(("percentiles_by_model", "errors_by_kind", "gpu_summary"), "by its name: `fleetpulse query`"),
    **dict.fromkeys(("cost_by", "cost_goodput_windows"), "as the report has it"),
    **dict.fromkeys(("open_alerts", "alert_history"), "of alerts, which rules make"),
    **dict.fromkeys(("dashboard/deployments", "actions"), "single rows, as they are"),
    **dict.fromkeys(
        ("dashboard/pipeline_freshness", "dashboard/pipeline_topics"), "of the pipeline, not of what it carries"
    ),
    **dict.fromkeys(
        ("requests_of_gpu_fault", "requests_lost"), "of faults in their time, which begin and end outside of ranges"
    ),
    "cost_power_cap": "of whole minutes of usage, a table of its own",
    "cost_energy_by_place": "sums of bills as cost_by_gpu_model, by region",
    "starved_gpus": "of readings in tests",
    "dashboard/engines": "of the newest readings, whatever the range",
    **dict.fromkeys(("gpu_links", "host_summary", "engine_processes", "dashboard/training"), "of readings in tests"),
}
"""Why answers to the others are not compared here. Each is beside single rows in tests/integration/test_answers.py."""


def report(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """What ``fleetpulse report cost`` is made of; nothing where it says that there is no bill. It is of whole minutes:
    requests are counted where the range is."""

    def of(name: str, **more: str) -> list[dict[str, Any]]:
        return ask(written_out(queries.text(name)), {"from_ms": from_ms, "to_ms": to_ms, **more})

    if not (bill := of("cost_bill")):
        return {}
    found = _split(of("cost_split"))
    found["cost_nusd", "all"] = sum(row["cost_nusd"] or 0 for row in of("cost_by_hour"))
    found["billed_ms", "all"] = bill[0]["billed_ms"]
    found |= _silent(of("cost_coverage")) | _columns("gpu_model", "gpu_model", _TYPES)(of("cost_by_gpu_model"))
    minutes = not from_ms % MINUTE_MS and not to_ms % MINUTE_MS
    found |= goodput(of("cost_goodput_windows")) if minutes else {}
    for name in ("model", "tenant"):
        listed = [row | {name: row["name"] or None} for row in of("cost_by", dimension=name)]
        found |= unit_costs(name, listed, UNITS)
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
ONLY_WITH: Mapping[str, Key] = {"report": ("billed_ms", "all")}
"""Faces that say nothing of a range without this, whatever else there is in it."""
