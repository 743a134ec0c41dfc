"""How answers of faces are read: columns that are metrics, and to how many decimals a query rounds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from lab.oracle.recount import PERCENTS
from lab.oracle.value import Each, Key, Shown

Row = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]
"""Rows of a query with its bound values, as the reader."""
Said = dict[Key, Any]
ENDS = ("ok", "aborted", "client_fault", "failed")
COUNTS = ("requests", *ENDS, "failed_share", "input_tokens", "cached_tokens", "output_tokens")
RATES = ("requests_per_s", "output_tokens_per_s")
OF_GPUS = ("gpus", "util_pct", "hottest_c", "power_mw", "gpu_energy_mj")
LATENCIES: Mapping[str, tuple[int, ...]] = {"ttft_us": PERCENTS, "e2e_us": (50, 99), "tpot_us": (99,)}
"""Percentiles of each that are counted of models and tenants."""
_LATENCY = {"TTFT": "ttft_us", "TPOT": "tpot_us", "E2E": "e2e_us"}
COVERAGE = tuple(f"{name}_gpu_ms" for name in ("inventory", "reporting", "billed", "silent"))
MANY = 100_000
"""More rows than a list of any face has."""
_FIRST_ROWS = re.compile(r"\nLIMIT \d+\s*$")
_OTHERS = re.compile(r"\bplace > \d+")
_LEFT_OUT = re.compile(r"\nHAVING [^\n]+")


class Answers(dict[Key, Any]):
    """What the queries of a face say, together: where two say something of one thing, neither is lost."""

    def add(self, said: Mapping[Key, Any]) -> None:
        """What one more query says."""
        for key, value in said.items():
            before = self.get(key)
            known = before.values if isinstance(before, Each) else (before,)
            self[key] = Each((*known, value)) if key in self else value


def all_rows(sql: str) -> str:
    """A query that shows the most frequent, with nothing left out: of a part of them no sum can be recounted."""
    whole, limits = _FIRST_ROWS.subn("", sql)
    whole, others = _OTHERS.subn(f"place > {2**63 - 1}", whole)
    assert limits + min(others, 1) == 1, sql
    return _LEFT_OUT.sub("", whole)


@lru_cache(4_096)
def decimals(sql: str, name: str) -> int | None:
    """To how many decimals a query rounds the column of this name; None: it does not. Asked for every row."""
    found = re.search(rf"\bround\((?:(?!\sAS\s).)*?(?:, (\d))?\s*\)+\s+AS {name}\b", sql, re.DOTALL)
    return None if found is None else int(found[1] or 0)


def shown(sql: str, row: Row) -> dict[str, Any]:
    """A row, what its query rounds with half of the last digit that it shows."""
    places = {name: decimals(sql, name) for name in row}
    return {
        name: value if (digits := places[name]) is None else Shown(value, 10**-digits / 2)
        for name, value in row.items()
    }


def asked(ask: Ask, sql: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [shown(sql, row) for row in ask(sql, given)]


def times(shown: Shown, factor: float) -> Shown:
    return Shown(None if shown.value is None else factor * shown.value, factor * shown.half)


def latencies(
    name: str, rows: Iterable[Row], column: str = "p{}_ms", unit_us: int = 1_000, measure: str = "ttft_us"
) -> Said:
    """Percentiles of a latency, of that which a row names where it does; of TTFT how many went in."""
    found: Said = {}
    for row in rows:
        of, whose = _LATENCY[row["latency"]] if "latency" in row else measure, f"{name}={row[name]}"
        found |= {("ttft_counted", whose): row["requests"]} if of == "ttft_us" else {}
        values = {percent: times(row[column.format(percent)], unit_us) for percent in LATENCIES[of]}
        found |= {(f"{of}_p{one}", whose): us for one, us in values.items() if us.value is not None}
    return found


def by(name: str, rows: Iterable[Row], metrics: Iterable[str]) -> Said:
    """Each metric that the rows have, by the column ``name``."""
    wanted = list(metrics)
    return {
        (metric, f"{name}={row[name]}"): row[metric] for row in rows for metric in wanted if row.get(metric) is not None
    }


def whole(rows: list[dict[str, Any]], names: Iterable[str] = COUNTS) -> Said:
    """Sums over the points of a chart."""
    shown_names = [name for name in names if rows and name in rows[0] and name != "failed_share"]
    return {(name, "all"): sum(row[name] or 0 for row in rows) for name in shown_names}


def goodput(rows: list[dict[str, Any]]) -> Said:
    """Verdicts by class, as ``cost_goodput_windows`` names them."""
    names = {"judged": "all_judged", "good": "good", "judged_failed": "failed", "missed": "missed"}
    names["good_tokens"] = "good_tokens"
    return {(metric, f"class={row['slo_class']}"): row[name] for row in rows for metric, name in names.items()}


def unit_costs(name: str, rows: Iterable[Row], columns: Mapping[str, str]) -> Said:
    """Unit costs of the rows that are of requests."""
    return {
        (metric, f"{name}={row[name] or None}"): row[column]
        for row in rows
        for metric, column in columns.items()
        if not row["nobody"] and row[column] is not None
    }


def listed(name: str, rows: Iterable[Row], columns: Mapping[str, str]) -> Said:
    """What bills say of each model or tenant, and of each part that is nobody's, under its name; null is 0."""
    return {
        (metric, f"{name}={row[name] or None}"): row[column] or 0
        for row in rows
        for metric, column in columns.items()
        if column in row
    }


def summed(metric: str, name: str, rows: list[dict[str, Any]], column: str = "requests") -> Said:
    found: Said = {}
    for row in rows:
        key = (metric, f"{name}={row[name]}")
        found[key] = found.get(key, 0) + row[column]
    return found


def gpu_types(rows: Iterable[Row]) -> Said:
    """GPUs by type, as ``gpu_summary`` names what they did."""
    found: Said = {}
    for row in rows:
        known = {"gpu_model": row["gpu_model"], "gpus": row["gpus"], "util_pct": row["util_pct"]}
        known |= {"hottest_c": row["temperature_max_c"], "power_mw": times(row["power_w"], 1_000)}
        known |= {"gpu_energy_mj": times(row["energy_j"], 1_000)} if "energy_j" in row else {}
        found |= by("gpu_model", [known], OF_GPUS)
    return found


def silent(rows: list[dict[str, Any]]) -> Said:
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
