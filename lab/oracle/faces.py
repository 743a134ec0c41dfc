"""What each face says of a range: views in plain SQL, pages' queries, Grafana's boards, commands, report, cookbook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD
from fleetpulse.queries.dashboard import Value as Bound
from fleetpulse.queries.questions import numbered
from fleetpulse.sql.query import bound, percentiles_sql
from grafana.sql import FILTERS, expanded, grafana_sql
from lab.oracle.recount import PERCENTS, Key, Shown
from schemas.limits import MINUTE_MS

Row = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]
"""Rows of a query with its bound values, as the reader."""
Said = dict[Key, Any]
_ENDS = ("ok", "aborted", "client_fault", "failed")
_COUNTS = ("requests", *_ENDS, "failed_share", "input_tokens", "cached_tokens", "output_tokens")
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
_RATES = ("requests_per_s", "output_tokens_per_s")
_CHANGES = {name: name for name in ("requests", "failed", "input_tokens", "cached_tokens", "output_tokens")}
_CHANGES |= {"ttft_p99_us": "ttft_us_p99"}
"""Metrics of ``who_changed``, as the recount names them."""
_CHANGE = "output_tokens"
"""The one that ``ask`` is asked about: the view is the same for all."""
_MANY = 100_000
_FIRST_ROWS = re.compile(r"\nLIMIT \d+\s*$")
_COOKBOOK = Path(__file__).parents[2] / "docs" / "how-to" / "cookbook.md"
"""Of a checkout; an installed wheel has no recipes to ask."""
_RECENT = re.compile(r"\b(window|minute) >= now\(\) - INTERVAL \d+ \w+")
_OF_VIEW = re.compile(
    r"from_ms = toUnixTimestamp64Milli\(now64\(\) - INTERVAL \d+ \w+\), to_ms = toUnixTimestamp64Milli\(now64\(\)\)"
)


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
        found |= _by(name, ask(sql, {}), (*_COUNTS, *_GOOD, "not_ok"))
        sql = (
            f"SELECT {name}, sum(toInt128(cost_nusd)) AS cost_nusd, sum(toInt128(p.energy_mj)) AS energy_mj"
            f" FROM cost_parts AS p WHERE minute_ms >= {from_ms} AND minute_ms < {to_ms} GROUP BY {name}"
        )
        found |= _by(name, ask(sql, {}), ("cost_nusd", "energy_mj"))
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

    found = _by("model", of("models"), _COUNTS) | _by("tenant", of("tenants"), _COUNTS)
    found |= _all(of("requests_over_time"))
    found |= _all(of("goodput_over_time"), ("judged", "good"))
    found |= _unit_costs("model", of("cost_models"), _OF_PAGE)
    found["covered_s", "all"] = of("covered")[0]["covered_ms"] / 1_000
    for row in of("cost_total"):
        found |= {("cost_nusd", "all"): row["total"], ("meter_mj", "all"): row["used_mj"] or 0}
        found |= {("billed_minutes", "all"): row["billed_minutes"]}
    for name in ("model", "tenant"):
        listed = of(f"cost_{name}s")
        found |= {("listed_cost_nusd", f"{name}={row[name] or None}"): row["cost"] or 0 for row in listed}
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
        text = grafana_sql(name, {"top": str(_MANY), "search": "''"})
        interval_s = max(10, (to_ms - from_ms) // 100_000)
        return ask(expanded(text, from_ms, to_ms, interval_s, dict.fromkeys(FILTERS, "")), {})

    found = _by("model", of("models"), _COUNTS) | _by("tenant", of("tenants"), _COUNTS)
    found |= _unit_costs("model", of("cost_models"), _OF_PAGE)
    return found | _all(of("requests_over_time"))


def named(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse query``."""
    given = {"from_ms": from_ms, "to_ms": to_ms}
    found = _by("model", _asked(ask, queries.text("throughput_by_model"), given), (*_COUNTS, *_RATES))
    found |= _latencies("model", _asked(ask, queries.text("percentiles_by_model"), given))
    return found | _summed("not_ok", "model", ask(_all_rows(queries.text("errors_by_kind")), given))


def commands(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """``fleetpulse percentiles`` and ``fleetpulse ask``, whatever of its questions single rows can answer."""
    found: Said = {}
    for name in ("model", "tenant"):
        rows = _asked(ask, percentiles_sql("ttft_us", name), {"from_ms": from_ms, "to_ms": to_ms})
        found |= _latencies(name, rows, "p{}", 1)
    bounds = {"from_ms": from_ms, "to_ms": to_ms, "before_from_ms": 0, "before_to_ms": from_ms}
    for one in numbered().values():
        if one.query not in _ASKED or one.given.get("metric", _CHANGE) != _CHANGE:
            continue
        query = bound(one.sql(to_ms - from_ms, bounds), one.known() | {"top": str(_MANY)}, (), bounds)
        rows = _asked(ask, query.sql, query.parameters)
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
    "throughput_by_model": lambda rows: _by("model", rows, (*_COUNTS, *_RATES)),
    "dashboard/tenants": lambda rows: _by("tenant", rows, _COUNTS),
    "dashboard/covered": lambda rows: {("covered_s", "all"): rows[0]["covered_ms"] / 1_000},
    "slowest_requests": lambda rows: {("ttft_us_max", "all"): _times(rows[0]["ttft_ms"], 1_000)} if rows else {},
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
    whole = not from_ms % MINUTE_MS and not to_ms % MINUTE_MS
    found |= _goodput(of("cost_goodput_windows")) if whole else {}
    for name in ("model", "tenant"):
        listed = [row | {name: row["name"] or None} for row in of("cost_by", dimension=name)]
        found |= _unit_costs(name, listed, _UNITS)
        found |= {("listed_cost_nusd", f"{name}={row[name]}"): row["cost_nusd"] or 0 for row in listed}
        if whole:
            found |= _by(name, [row for row in listed if sum(row[end] for end in _ENDS)], _ENDS)
    return found


def cookbook(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """Its recipes on models and tenants, with this range in place of the last minutes."""
    if not _COOKBOOK.is_file():
        return {}
    text = _RECENT.sub(rf"\1_ms >= {from_ms} AND \1_ms < {to_ms}", _COOKBOOK.read_text(encoding="utf-8"))
    text = _OF_VIEW.sub(f"from_ms = {from_ms}, to_ms = {to_ms}", text)
    recipes = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}

    def sql(question: str) -> str:
        return recipes[question].partition("```sql\n")[2].partition("```")[0]

    def rows(question: str) -> list[dict[str, Any]]:
        return _asked(ask, sql(question), {})

    latencies = rows("How slow is each model, at the median and in the tail?")
    found = _latencies("model", latencies, "ttft_p{}_ms")
    found = {key: value for key, value in found.items() if key[0] != "ttft_counted"}
    found |= _by("model", latencies, ("requests",))
    found |= _by("model", rows("How many requests and tokens does each model take and give, per second?"), _RATES)
    slowest = rows("Where did the time of the slowest requests go, and on which GPUs?")
    found |= _ASKED["slowest_requests"](slowest)
    for row in rows("What share of requests was faster than half a second?"):
        found["fast_share", f"model={row['model']}"] = _times(row["under_500_ms_pct"], 0.01)
    for row in rows("How fast is the error budget being burnt?"):
        if row["burn_1h"].value is not None:
            found["failed_share", f"model={row['model']}"] = _times(row["burn_1h"], row["budget"])
    over_weeks = "What share of requests was good over weeks, by model?"
    if not from_ms % MINUTE_MS and not to_ms % MINUTE_MS:
        weeks = ask(_all_rows(sql(over_weeks)), {})
        for metric in ("judged", "good", "good_tokens"):
            found |= _summed(metric, "model", weeks, metric)
    (bill,) = rows("Does the bill add up, and what of it has no price?")
    if bill["parts_nusd"]:
        found["cost_nusd", "all"] = bill["parts_nusd"]
    return found | _summed(
        "not_ok", "model", ask(_all_rows(sql("Who fails, how, and how much of the traffic is that?")), {})
    )


FACES: Mapping[str, Callable[[Ask, int, int], Said]] = {
    "views": views,
    "dashboard": pages,
    "grafana": boards,
    "query": named,
    "commands": commands,
    "report": report,
    "cookbook": cookbook,
}


def _all_rows(sql: str) -> str:
    """A query that shows the most frequent, with nothing left out: of a part of them no sum can be recounted."""
    whole, limits = _FIRST_ROWS.subn("", sql)
    assert limits == 1, sql
    return whole


def decimals(sql: str, name: str) -> int | None:
    """To how many decimals a query rounds the column of this name; None: it does not."""
    found = re.search(rf"\bround\(.*?(?:, (\d))?\)+ AS {name}\b", sql)
    return None if found is None else int(found[1] or 0)


def shown(sql: str, row: Row) -> dict[str, Any]:
    """A row, what its query rounds with half of the last digit that it shows."""
    places = {name: decimals(sql, name) for name in row}
    return {
        name: value if (digits := places[name]) is None else Shown(value, 10**-digits / 2)
        for name, value in row.items()
    }


def _asked(ask: Ask, sql: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [shown(sql, row) for row in ask(sql, given)]


def _times(shown: Shown, factor: float) -> Shown:
    return Shown(None if shown.value is None else factor * shown.value, factor * shown.half)


def _latencies(name: str, rows: Iterable[Row], column: str = "p{}_ms", unit_us: int = 1_000) -> Said:
    """Percentiles of TTFT and how many went in, of rows that may have other latencies too."""
    found: Said = {}
    for row in rows:
        if row.get("latency", "TTFT") == "TTFT":
            found["ttft_counted", f"{name}={row[name]}"] = row["requests"]
            values = {percent: _times(row[column.format(percent)], unit_us) for percent in PERCENTS}
            found |= {
                (f"ttft_us_p{one}", f"{name}={row[name]}"): us for one, us in values.items() if us.value is not None
            }
    return found


def _by(name: str, rows: Iterable[Row], metrics: Iterable[str]) -> Said:
    """Each metric that the rows have, by the column ``name``."""
    wanted = list(metrics)
    return {
        (metric, f"{name}={row[name]}"): row[metric] for row in rows for metric in wanted if row.get(metric) is not None
    }


def _all(rows: list[dict[str, Any]], names: Iterable[str] = _COUNTS) -> Said:
    """Sums over the points of a chart."""
    shown_names = [name for name in names if rows and name in rows[0] and name != "failed_share"]
    return {(name, "all"): sum(row[name] or 0 for row in rows) for name in shown_names}


def _goodput(rows: list[dict[str, Any]]) -> Said:
    """Verdicts by class, as ``cost_goodput_windows`` names them."""
    names = {"judged": "all_judged", "good": "good", "judged_failed": "failed", "missed": "missed"}
    names["good_tokens"] = "good_tokens"
    return {(metric, f"class={row['slo_class']}"): row[name] for row in rows for metric, name in names.items()}


def _unit_costs(name: str, rows: Iterable[Row], columns: Mapping[str, str]) -> Said:
    """Unit costs of the rows that are of requests."""
    return {
        (metric, f"{name}={row[name] or None}"): row[column]
        for row in rows
        for metric, column in columns.items()
        if not row["nobody"] and row[column] is not None
    }


def _summed(metric: str, name: str, rows: list[dict[str, Any]], column: str = "requests") -> Said:
    found: Said = {}
    for row in rows:
        key = (metric, f"{name}={row[name]}")
        found[key] = found.get(key, 0) + row[column]
    return found
