"""What each face says of a range: views in plain SQL, pages' queries, Grafana's boards, commands, report, cookbook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from fleetpulse import queries
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.written_out import written_out
from fleetpulse.sql.query import bound, percentiles_sql
from lab.oracle.charts import boards, pages
from lab.oracle.recipes import cookbook
from lab.oracle.said import (
    COUNTS,
    COVERAGE,
    ENDS,
    LATENCIES,
    MANY,
    OF_GPUS,
    RATES,
    Answers,
    Ask,
    Said,
    all_rows,
    asked,
    by,
    goodput,
    gpu_types,
    latencies,
    listed,
    silent,
    summed,
    times,
    unit_costs,
)
from lab.oracle.value import Key
from schemas.ddl import cost_views
from schemas.ddl.merging import LEVELS
from schemas.limits import HOUR_MS, MINUTE_MS

_GOOD = ("judged", "good", "judged_failed", "missed", "good_tokens", "good_share")
UNITS = {f"{unit}_per_million_{side}": f"{unit}_per_million_{side}"
          for unit in ("usd", "kwh", "g") for side in ("uncached", "output")}  # fmt: skip
UNITS |= {f"{side}_nusd": f"{side}_nusd" for side in ("uncached", "output")}
UNITS |= {f"priced_{side}_tokens": f"{side}_tokens" for side in ("uncached", "output")}
_TYPES = {f"type_{name}": name for name in ("gpu_ms", "energy_mj", "meter_mj", "carbon_ug", "unpriced_gpu_ms")}
_TYPES |= {"type_cost_nusd": "total_nusd", "type_idle_nusd": "idle_nusd", "type_requests": "requests"}
_TYPES |= {f"type_{name}": name for name in ("prompt_tokens", "decode_tokens")}
"""What is billed of GPUs of a type."""
_LISTED = {f"listed_{name}": name for name in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug", "gpu_ms")}
_LISTED |= {name: name for name in ("aborted_nusd", "unanswered_nusd")}
"""What is billed of a model or a tenant."""
_PLACES = ("energy_mj", "meter_mj", "carbon_ug", "gpu_ms")
"""What is billed in a region."""
_SUMS = ("requests", "failed", "input_tokens", "cached_tokens", "output_tokens", "cost_nusd")
_CHANGES = {name: name for name in _SUMS}
_CHANGES |= {f"{name}_p99_us": f"{name}_us_p99" for name in ("ttft", "tpot", "e2e")}
"""Metrics of ``who_changed``, as the recount names them."""
_WHOSE = {"model": "model", "tenant": "tenant", "host": "host", "engine_id": "engine"}
_OF_NAMES = {f"{name}_us_p99": ("model", "tenant") for name in ("tpot", "e2e")}
"""Metrics that are counted of some dimensions alone."""
_OF_HOSTS = ("host_cpu_share", "host_memory_share", "host_tx_per_s", "host_network_errors")
_CHANGE = "requests"
"""The one that ``ask`` is asked about: the view is the same for all."""


def views(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The views of ten-second windows and of bills, as anybody would sum them; those of a range."""
    found = _windows(ask, from_ms, to_ms, "")
    found.add(_costs(ask, f"cost_parts AS c WHERE minute_ms >= {from_ms} AND minute_ms < {to_ms}"))
    found.add(_coverage(ask, from_ms, to_ms))
    found.add(_changed(ask, from_ms, to_ms))
    found.add(_hourly(ask, from_ms, to_ms))
    (covered,) = ask(f"SELECT covered_ms / 1000 AS s FROM covered_time(from_ms = {from_ms}, to_ms = {to_ms})", {})
    found.add({("covered_s", "all"): covered["s"]})
    return found


def rollups(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """The same views of minutes, hours or days: the widest that both ends are whole in."""
    whole = [one.name for one in LEVELS if not from_ms % one.bucket_ms and not to_ms % one.bucket_ms]
    if not whole:
        return {}
    found = _windows(ask, from_ms, to_ms, f"_{whole[-1]}")
    if whole[-1] in cost_views.LEVELS:
        at_ms = f"toUnixTimestamp({cost_views.LEVELS[whole[-1]][1]}) * 1000"
        found.add(_costs(ask, f"cost_parts_{whole[-1]} AS c WHERE {at_ms} >= {from_ms} AND {at_ms} < {to_ms}"))
    return found


def _windows(ask: Ask, from_ms: int, to_ms: int, level: str) -> Answers:
    inside = f"WHERE window_ms >= {from_ms} AND window_ms < {to_ms}"
    found = Answers()
    for name in ("model", "tenant"):
        sql = (
            f"SELECT {name}, sum(event_count) AS requests, sum(input_tokens_sum) AS input_tokens,"
            " sum(cached_tokens_sum) AS cached_tokens, sum(output_tokens_sum) AS output_tokens,"
            " sumIf(event_count, status != 'ok') AS not_ok, sum(requests_ok) AS ok, sum(requests_aborted) AS aborted,"
            " sum(requests_client_fault) AS client_fault, sum(requests_failed) AS failed,"
            " sum(judged_requests_sum) AS judged, sum(good_requests_sum) AS good, sum(good_tokens_sum) AS good_tokens"
            f" FROM request_windows{level} {inside} GROUP BY {name}"
        )
        found.add(by(name, ask(sql, {}), (*COUNTS, *_GOOD, "not_ok")))
        sql = (
            f"SELECT {name}, sum(good_requests_sum) / nullIf(sum(judged_requests_sum), 0) AS good_share"
            f" FROM request_windows{level} {inside} GROUP BY {name}"
        )
        found.add(by(name, ask(sql, {}), ("good_share",)))
    sql = (
        "SELECT gpu_model, uniqExact(ifNull(parent_uuid, gpu_uuid)) AS gpus,"
        " sum(util_gpu_pct_sum) / sum(util_gpu_pct_count) AS util_pct, max(temperature_c_max) AS hottest_c,"
        " sum(toInt128(power_mw_sum)) / sum(power_mw_count) AS power_mw, sum(toInt128(energy_mj_sum)) AS gpu_energy_mj"
        f" FROM gpu_windows{level} {inside} GROUP BY gpu_model"
    )
    found.add(by("gpu_model", ask(sql, {}), OF_GPUS))
    sql = (
        "SELECT engine_id AS engine, max(waiting_max) AS most_waiting, max(kv_used_ppm_max) AS kv_most_ppm"
        f" FROM engine_windows{level} {inside} AND engine_id IS NOT NULL GROUP BY engine"
    )
    found.add(by("engine", ask(sql, {}), ("most_waiting", "kv_most_ppm")))
    sql = (
        "SELECT host, sum(toInt128(cpu_busy_ppm_sum)) / nullIf(sum(cpu_busy_ppm_count), 0) / 1e6 AS host_cpu_share,"
        " sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(toInt128(memory_total_bytes_sum)), 0) AS host_memory_share,"
        " 1000 * sum(toInt128(network_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS host_tx_per_s,"
        " sum(toInt128(network_errors_sum)) AS host_network_errors"
        f" FROM host_windows{level} {inside} GROUP BY host"
    )
    found.add(by("host", ask(sql, {}), _OF_HOSTS))
    return found


def _costs(ask: Ask, source: str) -> Said:
    found: Said = {}
    for name in ("model", "tenant"):
        sums = "sum(toInt128(c.cost_nusd)) AS cost_nusd, sum(toInt128(c.energy_mj)) AS energy_mj"
        found |= by(name, ask(f"SELECT {name}, {sums} FROM {source} GROUP BY {name}", {}), ("cost_nusd", "energy_mj"))
    return found


def _changed(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """What ``who_changed`` has of this range, against all before it."""
    ends = f"from_ms = {from_ms}, to_ms = {to_ms}, before_from_ms = 0, before_to_ms = {from_ms}"
    found: Said = {}
    for row in ask(f"SELECT * FROM who_changed({ends}) WHERE dimension != 'model_version'", {}):
        metric, dimension, name = _CHANGES[row["metric"]], row["dimension"], row["name"]
        if dimension not in _OF_NAMES.get(metric, _WHOSE) or (dimension == "engine_id" and name is None):
            continue
        name = name or "" if dimension == "host" else name
        found[metric, f"{_WHOSE[dimension]}={name}"] = row["now"]
    return found


def _coverage(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """By type of GPU, and of all."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in COVERAGE)
    source = f"gpu_coverage(from_ms = {from_ms}, to_ms = {to_ms})"
    picked = f"SELECT gpu_model AS type, {sums}, sum(unobserved_nusd) AS unobserved_nusd FROM {source}"
    rows = [row | {"gpu_model": row["type"] or None} for row in ask(f"{picked} GROUP BY type", {})]
    found = by("gpu_model", rows, (*COVERAGE, "unobserved_nusd"))
    return found | {(name, "all"): sum(row[name] for row in rows) for name in COVERAGE}


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


def named(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse query``."""
    given = {"from_ms": from_ms, "to_ms": to_ms}
    found = Answers(by("model", asked(ask, queries.text("throughput_by_model"), given), (*COUNTS, *RATES)))
    found.add(latencies("model", asked(ask, queries.text("percentiles_by_model"), given)))
    found.add(gpu_types(asked(ask, queries.text("gpu_summary"), given)))
    found.add(summed("not_ok", "model", ask(all_rows(queries.text("errors_by_kind")), given)))
    return found


def commands(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse percentiles`` and ``fleetpulse ask``, whatever of its questions single rows can answer."""
    found = Answers()
    for name in ("model", "tenant"):
        for measure in LATENCIES:
            rows = asked(ask, percentiles_sql(measure, name), {"from_ms": from_ms, "to_ms": to_ms})
            found.add(latencies(name, rows, "p{}", 1, measure))
    bounds = {"from_ms": from_ms, "to_ms": to_ms, "before_from_ms": 0, "before_to_ms": from_ms}
    for one in numbered().values():
        if one.query not in ASKED or one.given.get("metric", _CHANGE) != _CHANGE:
            continue
        sql = one.sql(to_ms - from_ms, bounds)
        query = bound(all_rows(sql) if one.query in _CUT else sql, one.known() | {"top": str(MANY)}, (), bounds)
        rows = asked(ask, query.sql, query.parameters)
        if one.query == "who_changed" and rows:
            found.add({(_CHANGE, "all"): rows[0]["all_now"]})
        else:
            found.add(ASKED[one.query](rows))
    return found


def _idle(rows: list[dict[str, Any]]) -> Said:
    """By why and type; of all of them the rate of a month, too."""
    found: Said = {}
    for row in rows:
        quiet, of = row["why"] == "no reading: __unobserved__", f"why={row['why']}, {row['gpu_model']}"
        of = "all" if row["why"] == "all in bills" else f"gpu_model={row['gpu_model'] or None}" if quiet else of
        hours, money = ("silent_gpu_ms", "unobserved_nusd") if quiet else ("idle_gpu_ms", "idle_nusd")
        found |= {(hours, of): row["gpu_ms"], (money, of): row["cost_nusd"] or 0}
        found |= {("idle_of_30_days_nusd", "all"): row["cost_of_30_days_nusd"]} if of == "all" else {}
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


def _places(rows: list[dict[str, Any]]) -> Said:
    """By region, all hours together."""
    found: Said = {}
    for name in _PLACES:
        named = [{"region": row["region"] or "", name: row[name] or 0} for row in rows]
        found |= summed(f"place_{name}", "region", named, name)
    return found


def _slowed(rows: list[dict[str, Any]]) -> Said:
    return {
        ("ttft_us_p99", f"model={row['model']}"): row["model_now_ms"] * 1_000
        for row in rows
        if row["model_now_ms"] is not None
    }


def _tokens(rows: list[dict[str, Any]]) -> Said:
    return {
        (metric, f"{row['dimension']}={row['name']}" if row["name"] != "" else "all"): row[f"{metric}_now"]
        for row in rows
        for metric in ("input_tokens", "cached_tokens", "output_tokens")
        if row[f"{metric}_now"]
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
    "cost_energy_by_place": _places,
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


def report(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """What ``fleetpulse report cost`` is made of; nothing where it says that there is no bill. It is of whole minutes:
    requests are counted where the range is."""

    def of(name: str, **more: str) -> list[dict[str, Any]]:
        return ask(written_out(queries.text(name)), {"from_ms": from_ms, "to_ms": to_ms, **more})

    if not (bill := of("cost_bill")):
        return {}
    found = Answers(_split(of("cost_split")))
    found.add({("cost_nusd", "all"): sum(row["cost_nusd"] or 0 for row in of("cost_by_hour"))})
    found.add({("cost_nusd", "all"): bill[0]["total_nusd"], ("billed_ms", "all"): bill[0]["billed_ms"]})
    found.add(silent(of("cost_coverage")))
    found.add(_columns("gpu_model", "gpu_model", _TYPES)(of("cost_by_gpu_model")))
    found.add(_places(of("cost_energy_by_place")))
    found.add(_idle_hosts(of("cost_idle")))
    minutes = not from_ms % MINUTE_MS and not to_ms % MINUTE_MS
    found.add(goodput(of("cost_goodput_windows")) if minutes else {})
    days = of("cost_by_day")
    for name in ("model", "tenant"):
        found.add(summed("cost_nusd", name, [row | {"cost_nusd": row["cost_nusd"] or 0} for row in days], "cost_nusd"))
        rows = [row | {name: row["name"] or None} for row in of("cost_by", dimension=name)]
        found.add(unit_costs(name, rows, UNITS))
        found.add(listed(name, rows, _LISTED))
        if minutes:
            found.add(by(name, [row for row in rows if sum(row[end] for end in ENDS)], ENDS))
    return found


def _idle_hosts(rows: list[dict[str, Any]]) -> Said:
    """``cost_idle``, all hours together."""
    found: Said = {}
    for metric, column in (("idle_host_nusd", "cost_nusd"), ("idle_host_gpu_ms", "gpu_ms")):
        found |= summed(metric, "host", [row | {column: row[column] or 0} for row in rows], column)
    return found


FACES: Mapping[str, Callable[[Ask, int, int], Said]] = {
    "views": views,
    "rollups": rollups,
    "dashboard": pages,
    "grafana": boards,
    "query": named,
    "commands": commands,
    "report": report,
    "cookbook": cookbook,
}
ONLY_WITH: Mapping[str, Key] = {"report": ("billed_ms", "all")}
"""Faces that say nothing of a range without this, whatever else there is in it."""
WHOLE_MS: Mapping[str, int] = {"rollups": MINUTE_MS}
"""Faces that say nothing of a range whose ends are not whole in this width."""
