"""Tables and bars of the report, each from rows of its data. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fleetpulse.report import amounts as a
from fleetpulse.report.amounts import ratio
from fleetpulse.report.others import with_other_tenants
from fleetpulse.report.page import Bars, Table
from schemas.definitions import END
from schemas.limits import HOUR_MS

Row = Mapping[str, Any]
Rows = Sequence[Row]
TOP = 10
NOBODY = "(not reported)"

PARTS = {
    "request": "requests that ended well",
    "__overhead__ not answered in full": "requests not answered in full",
    "__overhead__ start-up": "start-up of engines",
    "__wasted__": "model loaded, no tokens",
    "__unattributed__": "tokens not reported",
    "__idle__": "idle GPUs",
    "__training__": "training",
    "__unpriced__": "without a price",
}
"""What a part is called for people, in the order of bars."""
UNOBSERVED = "beside the bill: silent GPUs"
_STACK = {
    "request": "requests",
    "__overhead__": "not answered, start-up",
    "__wasted__": "loaded, no tokens",
    "__idle__": "idle",
    "__training__": "training",
    "__unattributed__": "tokens not reported",
    "__unpriced__": "unpriced",
}
"""Parts of a bar over time and their names in its legend."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table before its rows. The first ``words`` columns are words, the others numbers, but for those in ``also``;
    ``least`` are left out first in a narrow terminal; ``share`` is a sum that is drawn as a bar of the whole."""

    caption: str
    columns: Mapping[str, Callable[[Row], str]]
    words: int = 1
    least: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    top: int | None = None
    share: str = ""

    def table(self, rows: Rows) -> Table:
        """The table of these rows; of the first ``top`` where there are more."""
        shown = rows[: self.top]
        caption = self.caption.format(shown=len(shown), all=len(rows))
        cells = tuple(tuple(write(row) for write in self.columns.values()) for row in shown)
        whole = sum(row[self.share] or 0 for row in rows) if self.share else 0
        shares = tuple(ratio(row[self.share], whole) or 0.0 for row in shown) if self.share else ()
        right = frozenset([*self.columns][self.words :]) - self.also
        return Table(caption, tuple(self.columns), cells, right, shares, self.least)


def _cell(key: str, write: Callable[[Any], str]) -> Callable[[Row], str]:
    return lambda row: write(row[key])


def whose(key: str) -> Callable[[Row], str]:
    """A name for people; what is nobody's is named by its part of the bills."""

    def said(row: Row) -> str:
        value = row[key] or NOBODY
        return PARTS.get(f"{value} start-up", PARTS.get(value, value)) if row.get("nobody") else value

    return said


def _part(row: Row) -> str:
    return f"{row['part']} {row['what']}".strip()


def split(rows: Rows, total: int | None, coverage: Rows) -> Table:
    """Parts of the bill with their shares; beside it what silent GPUs cost, of rows of ``cost_coverage``."""
    listed = sorted(rows, key=lambda row: [*PARTS].index(_part(row)))
    shares = [ratio(row["cost_nusd"], total) for row in listed]
    cells = [
        (
            PARTS[_part(row)],
            a.usd(row["cost_nusd"]),
            a.share(part),
            a.gpu_hours(row["gpu_ms"]),
            a.energy(row["meter_mj"]),
            a.carbon(row["carbon_ug"]),
        )
        for row, part in zip(listed, shares, strict=True)
    ]
    cells.append(("all", a.usd(total), a.share(ratio(total, total)), "", "", ""))
    columns = ("what for", "cost", "of the bill", "GPU time", "energy with PUE", "CO2e")
    silent_ms = sum(row["silent_gpu_ms"] for row in coverage)
    known = [row["unobserved_nusd"] for row in coverage if row["unobserved_nusd"] is not None]
    unobserved = sum(known) if known or not silent_ms else None
    cells.append((UNOBSERVED, a.usd(unobserved), a.share(ratio(unobserved, total)), a.gpu_hours(silent_ms), "", ""))
    bars = (*(part or 0.0 for part in shares), 0.0, 0.0)
    return Table("The bill, split", columns, tuple(cells), frozenset(columns[1:]), bars)


def components(bill: Row) -> Table:
    """What the bill is made of."""
    names = {"gpu_nusd": "GPU time", "host_nusd": "hosts beside their GPUs", "energy_nusd": "energy with PUE"}
    rows = [(said, a.usd(bill[name]), a.share(ratio(bill[name], bill["total_nusd"]))) for name, said in names.items()]
    columns = ("component", "cost", "of the bill")
    return Table("What it is made of", columns, tuple(rows), frozenset(columns[1:]))


def hours(rows: Rows) -> Bars:
    """The bill by hour."""
    return Bars("Cost by hour (UTC)", "$", tuple(_STACK.values()), _bars(rows, "part", tuple(_STACK)))


def _bars(rows: Rows, name: str, stack: Sequence[str]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        found[row["hour_ms"]][row[name]] += row["cost_nusd"] or 0
    if not found:
        return ()
    every = range(min(found), max(found) + 1, HOUR_MS)
    begin = -5 if len(every) <= 24 else 5  # of `2026-01-31 06:00`: beyond a day an hour comes again
    return tuple((a.instant(hour)[begin:], tuple(found[hour][part] / a.USD_NUSD for part in stack)) for hour in every)


def _by_host(rows: Rows) -> list[Row]:
    """Cost and GPU time of each host, the most expensive first."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        host = found.setdefault(row["host"], {"cost_nusd": 0, "gpu_ms": 0})
        host["cost_nusd"] += row["cost_nusd"] or 0
        host["gpu_ms"] += row["gpu_ms"]
    order = sorted(found, key=lambda host: (-found[host]["cost_nusd"], host))
    return [{"host": host, **found[host]} for host in order]


def idle(rows: Rows) -> Table:
    """Hosts by the cost of their idle GPUs."""
    return _IDLE.table(_by_host(rows))


def idle_hours(rows: Rows) -> Bars:
    """Idle cost by hour, the most expensive hosts apart."""
    most = tuple(row["host"] for row in _by_host(rows)[:6])
    named = [{**row, "host": row["host"] if row["host"] in most else "others"} for row in rows]
    stack = (*most, "others")
    return Bars("Cost of idle GPUs by host and hour (UTC)", "$", stack, _bars(named, "host", stack))


def tenants(rows: Rows) -> Table:
    """Who used it: these rows add up to the bill."""
    named = sum(not row["nobody"] for row in rows)
    return replace(_TENANTS.table(with_other_tenants(rows, TOP)), caption=f"Top {min(named, TOP)} of {named} tenants")


def goodput(rows: Rows) -> Table:
    """Attainment and cost of good work by class."""
    version = rows[0]["definition_version"] if rows else ""
    return replace(_GOODPUT.table(rows), caption=f"Goodput, definition version {version}")


def months(rows: Rows) -> Table:
    """What this month will have cost."""
    listed = [row for row in rows if row["spent_nusd"] or row["tenant"] is None]
    name = f"Calendar month from {a.instant(rows[0]['start_ms'])[:10]} (UTC)" if rows else ""
    return replace(_MONTHS.table(listed), caption=name)


def budgets(rows: Rows) -> Table:
    """Where budgets stand."""
    shares = tuple(min(1.0, row["spent_nusd"] / row["amount_nusd"]) for row in rows)
    return replace(_BUDGETS.table(rows), shares=shares)


def cap_said(rows: Rows) -> str:
    """One sentence on the lowest limit that was measured beside the highest of the same model and GPU."""
    by: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by[row["model"], row["gpu_model"]].append(row)
    said = []
    for (model, gpu), listed in by.items():
        low, high = min(listed, key=lambda row: row["limit_w"]), max(listed, key=lambda row: row["limit_w"])
        energy, speed = (ratio(low[name], high[name]) for name in ("j_per_token", "generated_tokens_per_gpu_s"))
        if low["limit_w"] < high["limit_w"] and energy is not None and speed is not None:
            change = f"{100 * (energy - 1):+.0f} % energy a token and {100 * (speed - 1):+.0f} % generated tokens/s"
            said.append(f"{model} on {gpu} at {low['limit_w']:.0f} instead of {high['limit_w']:.0f} W: {change}.")
    return " ".join(said)


def _left(share: float | None) -> str:
    """What is left of an error budget, or how many times it was spent."""
    return a.share(share) if share is None or share >= 0 else f"spent {1 - share:,.1f} times"


def _forecast(row: Row) -> str:
    if row["forecast_nusd"] is None:
        return "– (3 days of history needed)"
    return f"{a.usd(row['forecast_nusd'])} ({a.usd(row['forecast_low_nusd'])} to {a.usd(row['forecast_high_nusd'])})"


def _crossed(levels: Rows) -> str:
    return ", ".join(
        f"{one['share_ppm'] / 10_000:g} % {one['kind']}{' by forecast' if one['ahead'] else ''}" for one in levels
    )


_MODEL, _TENANT, _REQUESTS = whose("model"), whose("tenant"), _cell("requests", a.count)
_PROMPT, _GENERATED = _cell("prompt_tokens", a.count), _cell("output_tokens", a.count)
_GPU_TIME, _COST, _BILL = _cell("gpu_ms", a.gpu_hours), _cell("cost_nusd", a.usd), _cell("total_nusd", a.usd)
_ENDS = {name.replace("_", " "): _cell(name, a.count) for name in END}
_CARBON, _GRAMS = _cell("carbon_ug", a.carbon), _cell("g_per_million_tokens", lambda g: a.decimal(g, "g"))
_TOKENS, _TOKEN = _cell("usd_per_million_tokens", a.dollars), _cell("j_per_token", lambda j: a.decimal(j, "J"))
_EACH: dict[str, Callable[[Row], str]] = {
    "1M uncached": _cell("usd_per_million_uncached", a.dollars),
    "1M generated": _cell("usd_per_million_output", a.dollars),
    "kWh of 1M generated": _cell("kwh_per_million_output", a.decimal),
    "CO2e of 1M generated": _cell("g_per_million_output", lambda g: a.decimal(g, "g")),
}

MODELS = Layout(
    "Unit costs by model",
    {
        "model": _MODEL,
        "billed requests": _REQUESTS,
        **_ENDS,
        "uncached": _cell("uncached_tokens", a.count),
        "cached": _cell("cached_tokens", a.count),
        "generated": _GENERATED,
        "cost": _COST,
        "a request": _cell("usd_per_request", a.dollars),
        **_EACH,
    },
    least=(*_ENDS, "cached", "uncached", "generated", "CO2e of 1M generated", "billed requests"),
)
_TENANTS = Layout(
    "Tenants",
    {
        "tenant": _TENANT,
        "billed requests": _REQUESTS,
        **_ENDS,
        "prompt tokens": _PROMPT,
        "generated": _GENERATED,
        "cost": _COST,
        "a request": _cell("usd_per_request", a.dollars),
        **_EACH,
        "CO2e": _CARBON,
        "a request's": _cell("g_per_request", lambda g: a.decimal(g, "g")),
    },
    least=(*_ENDS, "prompt tokens", "generated", "a request's", "CO2e of 1M generated", "CO2e"),
    share="cost_nusd",
)
_GOODPUT = Layout(
    "Goodput",
    {
        "class": _cell("slo_class", str),
        "attained, of": lambda row: f"{a.share(row['attainment'])} of {a.share(row['share'])}",
        "good": _cell("good", a.count),
        "missed": _cell("missed", a.count),
        "failed": _cell("failed", a.count),
        "error budget left": _cell("error_budget_left", _left),
        "cost": _COST,
        "of it for misses": _cell("missed_usd", a.dollars),
        "a good request": _cell("usd_per_good_request", a.dollars),
        "1M good tokens": _cell("usd_per_million_good_tokens", a.dollars),
    },
    least=("good", "missed", "failed", "of it for misses"),
)
ENGINES = Layout(
    "Top {shown} of {all} engines",
    {
        "engine": _cell("engine_id", str),
        "models": lambda row: ", ".join(row["models"]) or NOBODY,
        "GPUs": lambda row: row["gpu_model"] or "several",
        "GPU time": _GPU_TIME,
        "bill": _BILL,
        "for requests": _cell("used", a.share),
        "waiting": _cell("unused_nusd", a.usd),
        "1M tokens": _TOKENS,
    },
    words=3,
    least=("GPUs", "GPU time"),
    top=TOP,
)
GPU_MODELS = Layout(
    "By type of GPU, idle time included",
    {
        "GPU": _cell("gpu_model", str),
        "GPU time": _GPU_TIME,
        "cost": _BILL,
        "a billed hour": _cell("usd_per_gpu_hour", a.dollars),
        "of it idle": _cell("idle_nusd", a.usd),
        "silent": _cell("unobserved_nusd", a.usd),
        "1M tokens": _TOKENS,
        "kWh of 1M": _cell("kwh_per_million_tokens", a.decimal),
        "CO2e of 1M": _GRAMS,
    },
    least=("CO2e of 1M",),
)
_IDLE = Layout(
    "Top {shown} of {all} hosts",
    {"host": _cell("host", str), "GPU time": _GPU_TIME, "cost": _COST},
    top=TOP,
    share="cost_nusd",
)
FAILED = Layout(
    f"The {TOP} most expensive, all others as one row",
    {
        "ended": _cell("status", str),
        "model": _MODEL,
        "tenant": _TENANT,
        "cost": _COST,
        "energy with PUE": _cell("meter_mj", a.energy),
        "CO2e": _CARBON,
    },
    words=3,
)
ENERGY = Layout(
    "By region",
    {
        "region": whose("region"),
        "GPU time": _GPU_TIME,
        "GPUs": _cell("energy_mj", a.energy),
        "at the meter": _cell("meter_mj", a.energy),
        "CO2e": _CARBON,
    },
)
POWER_CAPS = Layout(
    "By power limit",
    {
        "model": _MODEL,
        "GPU": whose("gpu_model"),
        "limit": _cell("limit_w", lambda watts: a.decimal(watts, "W")),
        "minutes": _cell("minutes", a.count),
        "a token, at the GPU": _TOKEN,
        "generated/s a GPU": _cell("generated_tokens_per_gpu_s", a.decimal),
    },
    words=2,
)
_MONTHS = Layout(
    "Calendar month",
    {
        "whose": lambda row: row["tenant"] or "all costs",
        "so far": _cell("spent_nusd", a.usd),
        "whole month, forecast (4 in 5)": _forecast,
    },
)
_BUDGETS = Layout(
    "Budgets of the periods that run now",
    {
        "budget": _cell("budget", str),
        "for": lambda row: f"{row['scope']} {row['of'] or ''}".strip(),
        "period": lambda row: f"{a.instant(row['start_ms'])[:10]} to {a.instant(row['end_ms'])[:10]}",
        "spent": _cell("spent_nusd", a.usd),
        "of": _cell("amount_nusd", a.usd),
        "forecast (4 in 5)": _forecast,
        "used up": _cell("exhausted_ms", a.instant),
        "levels crossed": _cell("crossed", _crossed),
    },
    words=3,
    least=("levels crossed", "period"),
    also=frozenset({"used up", "levels crossed"}),
)
PRICES = Layout(
    "Prices in force in this range",
    {
        "what": _cell("section", str),
        "GPU": lambda row: row["gpu_model"] or "any",
        "region": lambda row: row["region"] or "any",
        "price": lambda row: row["text"] or "no price",
        "source": lambda row: row["source"] or "",
        "written in": lambda row: Path(row["at"]).name if row["at"] else "",
    },
    words=6,
)
