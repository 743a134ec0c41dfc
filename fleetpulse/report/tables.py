"""Tables and bars of the report, each from its figures. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetpulse.report import amounts as a
from fleetpulse.report.amounts import ratio
from fleetpulse.report.page import Bars, Table
from schemas.limits import HOUR_MS

Row = Mapping[str, Any]
Rows = Sequence[Row]
TOP = 10
NOBODY = "(not told)"

PARTS = {
    "request": "requests that ended well",
    "__overhead__ failed": "requests that failed",
    "__overhead__ start-up": "start-up of engines",
    "__wasted__": "model loaded, no tokens",
    "__unattributed__": "tokens not told",
    "__idle__": "idle GPUs",
    "__training__": "training",
    "__unpriced__": "without a price",
}
"""What a part is called for people, in the order of bars."""
_STACK = ("request", "__overhead__", "__wasted__", "__idle__", "__training__", "__unattributed__", "__unpriced__")
_STACK_WORDS = ("requests", "failed, start-up", "loaded, no tokens", "idle", "training", "tokens not told", "unpriced")


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1,
           shares: Sequence[float] = (), least: Sequence[str] = ()) -> Table:  # fmt: skip
    """The first ``left`` columns are words, the others numbers."""
    cells = tuple(tuple(row) for row in rows)
    return Table(caption, tuple(columns), cells, frozenset(columns[left:]), tuple(shares), tuple(least))


def _name(row: Row) -> str:
    return f"{row['part']} {row['what']}".strip()


def split(rows: Rows, total: int | None) -> Table:
    """Parts of the bill with their shares."""
    order = list(PARTS)
    listed = sorted(rows, key=lambda row: order.index(_name(row)))
    shares = [ratio(row["cost_nusd"], total) for row in listed]
    cells = [
        (
            PARTS[_name(row)],
            a.usd(row["cost_nusd"]),
            a.share(part),
            a.gpu_hours(row["gpu_ms"]),
            a.energy(row["energy_mj"]),
        )
        for row, part in zip(listed, shares, strict=True)
    ]
    cells.append(("all", a.usd(total), a.share(ratio(total, total)), "", ""))
    columns = ("what for", "cost", "of the bill", "GPU time", "energy")
    return _table("The bill, split", columns, cells, shares=[*(part or 0.0 for part in shares), 0.0])


def components(bill: Row) -> Table:
    """What the bill is made of."""
    names = {"gpu_nusd": "GPU time", "host_nusd": "hosts beside their GPUs", "energy_nusd": "energy with PUE"}
    rows = [(said, a.usd(bill[name]), a.share(ratio(bill[name], bill["total_nusd"]))) for name, said in names.items()]
    return _table("What it is made of", ("component", "cost", "of the bill"), rows)


def hours(rows: Rows) -> Bars:
    """The bill by hour."""
    return Bars("Cost by hour (UTC)", "$", _STACK_WORDS, _bars(rows, "part", _STACK))


def _bars(rows: Rows, name: str, stack: Sequence[str]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in rows:
        found[row["hour_ms"]][row[name]] = (row["cost_nusd"] or 0) / a.USD_NUSD
    if not found:
        return ()
    every = range(min(found), max(found) + 1, HOUR_MS)
    return tuple((a.instant(hour)[-5:], tuple(found.get(hour, {}).get(part, 0.0) for part in stack)) for hour in every)


def models(rows: Rows) -> Table:
    """Unit costs by model."""
    cells = [
        (
            row["model"] or NOBODY,
            a.count(row["requests"]),
            a.count(row["prompt_tokens"]),
            a.count(row["decode_tokens"]),
            a.usd(row["full_nusd"]),
            a.dollars(row["full_usd_per_request"]),
            a.dollars(row["usd_per_million_prompt"]),
            a.dollars(row["usd_per_million_generated"]),
            a.decimal(row["j_per_token"], "J"),
        )
        for row in rows
    ]
    columns = ("model", "requests", "prompt tokens", "generated", "full cost", "a request", "1M prompt", "1M generated",
               "a token")  # fmt: skip
    least = ("prompt tokens", "generated", "requests")
    return _table("Unit costs by model, full cost", columns, cells, least=least)


def list_prices(rows: Rows) -> Table:
    """List price beside self-hosted cost."""
    cells = [
        (
            row["model"],
            row["list_key"] or "",
            a.usd(row["full_nusd"]),
            a.usd(row["list_nusd"]),
            a.decimal(row["break_even_traffic"], "x"),
            a.share(row["busy"]),
            _reachable(row["break_even_busy"]),
            row["list_note"],
        )
        for row in rows
        if row["list_key"]
    ]
    columns = ("model", "hosted as", "self-hosted", "list price", "ratio", "GPUs busy", "break-even busy", "note")
    numbers = frozenset(columns[2:7])
    least = ("note", "GPUs busy", "self-hosted")
    return Table("The same tokens at list price", columns, tuple(cells), numbers, least=least)


def _reachable(busy: float | None) -> str:
    return a.share(busy) if busy is None or busy <= 1 else f"{a.share(busy)}, not reachable"


def tenants(rows: Rows) -> Table:
    """The tenants that cost most."""
    whole = sum(row["cost_nusd"] or 0 for row in rows)
    shown = rows[:TOP]
    cells = [
        (
            row["tenant"] or NOBODY,
            a.count(row["requests"]),
            a.count(row["failed"]),
            a.count(row["prompt_tokens"]),
            a.count(row["decode_tokens"]),
            a.usd(row["cost_nusd"]),
            a.dollars(row["usd_per_request"]),
            a.dollars(row["usd_per_million_tokens"]),
        )
        for row in shown
    ]
    columns = ("tenant", "requests", "failed", "prompt tokens", "generated", "cost", "a request", "1M tokens")
    caption = f"Top {len(shown)} of {len(rows)} tenants"
    shares = [ratio(row["cost_nusd"], whole) or 0.0 for row in shown]
    return _table(caption, columns, cells, shares=shares, least=("prompt tokens", "generated"))


def goodput(rows: Rows) -> Table:
    """Attainment and cost of good work by class."""
    cells = [
        (
            row["slo_class"],
            f"{a.share(row['attainment'])} of {a.share(row['share'])}",
            a.count(row["good"]),
            a.count(row["missed"]),
            a.count(row["failed"]),
            _left(row["error_budget_left"]),
            a.usd(row["cost_nusd"]),
            a.dollars(row["missed_usd"]),
            a.dollars(row["usd_per_good_request"]),
            a.dollars(row["usd_per_million_good_tokens"]),
        )
        for row in rows
    ]
    version = rows[0]["definition_version"] if rows else ""
    columns = (
        *("class", "attained, of", "good", "missed", "failed", "error budget left"),
        *("cost", "of it for misses", "a good request", "1M good tokens"),
    )
    least = ("good", "missed", "failed", "of it for misses")
    return _table(f"Goodput, definition version {version}", columns, cells, least=least)


def _left(share: float | None) -> str:
    """What is left of an error budget, or how many times it was spent."""
    return a.share(share) if share is None or share >= 0 else f"spent {1 - share:,.1f} times"


def engines(rows: Rows) -> Table:
    """The engines that cost most."""
    shown = rows[:TOP]
    cells = [
        (
            row["engine_id"],
            ", ".join(row["models"]) or NOBODY,
            row["gpu_model"] or "several",
            a.gpu_hours(row["gpu_ms"]),
            a.usd(row["total_nusd"]),
            a.share(row["used"]),
            a.usd(row["unused_nusd"]),
            a.dollars(row["usd_per_million_tokens"]),
        )
        for row in shown
    ]
    columns = ("engine", "models", "GPUs", "GPU time", "bill", "for requests", "waiting", "1M tokens")
    return _table(f"Top {len(shown)} of {len(rows)} engines", columns, cells, left=3, least=("GPUs", "GPU time"))


def gpu_models(rows: Rows) -> Table:
    """Types of GPU."""
    cells = [
        (
            row["gpu_model"],
            a.gpu_hours(row["gpu_ms"]),
            a.usd(row["total_nusd"]),
            a.dollars(row["usd_per_gpu_hour"]),
            a.usd(row["idle_nusd"]),
            a.dollars(row["usd_per_million_tokens"]),
            a.decimal(row["j_per_token"], "J"),
        )
        for row in rows
    ]
    columns = ("GPU", "GPU time", "cost", "an hour, all in", "of it idle", "1M tokens", "a token")
    return _table("By type of GPU, idle time included", columns, cells)


def idle(rows: Rows) -> Table:
    """Hosts by the cost of their idle GPUs."""
    cost: dict[str, int] = defaultdict(int)
    time: dict[str, int] = defaultdict(int)
    for row in rows:
        cost[row["host"]] += row["cost_nusd"] or 0
        time[row["host"]] += row["gpu_ms"]
    shown = sorted(cost, key=lambda host: (-cost[host], host))[:TOP]
    whole = sum(cost.values())
    cells = [(host, a.gpu_hours(time[host]), a.usd(cost[host])) for host in shown]
    shares = [ratio(cost[host], whole) or 0.0 for host in shown]
    return _table(f"Top {len(shown)} of {len(cost)} hosts", ("host", "GPU time", "cost"), cells, shares=shares)


def idle_hours(rows: Rows) -> Bars:
    """Idle cost by hour, the most expensive hosts apart."""
    cost: dict[str, int] = defaultdict(int)
    for row in rows:
        cost[row["host"]] += row["cost_nusd"] or 0
    most = sorted(cost, key=lambda host: (-cost[host], host))[:6]
    named = [{**row, "host": row["host"] if row["host"] in most else "others"} for row in rows]
    summed: dict[tuple[int, str], int] = defaultdict(int)
    for row in named:
        summed[row["hour_ms"], row["host"]] += row["cost_nusd"] or 0
    joined = [{"hour_ms": hour, "host": host, "cost_nusd": nusd} for (hour, host), nusd in summed.items()]
    stack = (*most, "others")
    return Bars("Cost of idle GPUs by host and hour (UTC)", "$", stack, _bars(joined, "host", stack))


def failed(rows: Rows) -> Table:
    """Failed requests by how they ended."""
    shown = rows[:TOP]
    cells = [
        (
            row["status"],
            row["model"] or NOBODY,
            row["tenant"] or NOBODY,
            a.usd(row["cost_nusd"]),
            a.energy(row["energy_mj"]),
        )
        for row in shown
    ]
    columns = ("ended", "model", "tenant", "cost", "energy")
    return _table("The most expensive", columns, cells, left=3)


def energy(rows: Rows) -> Table:
    """Energy by region."""
    cells = [
        (
            row["region"] or NOBODY,
            a.gpu_hours(row["gpu_ms"]),
            a.energy(row["energy_mj"]),
            a.energy(row["meter_mj"]),
            a.decimal(None if row["co2e_ug"] is None else row["co2e_ug"] / 1e9, "kg"),
        )
        for row in rows
    ]
    return _table("By region", ("region", "GPU time", "GPUs", "at the meter", "CO2e"), cells)


def power_caps(rows: Rows) -> Table:
    """Energy per token by power limit."""
    cells = [
        (
            row["model"] or NOBODY,
            row["gpu_model"] or NOBODY,
            a.decimal(row["limit_w"], "W"),
            a.count(row["minutes"]),
            a.decimal(row["j_per_token"], "J"),
            a.decimal(row["generated_tokens_per_gpu_s"]),
        )
        for row in rows
    ]
    columns = ("model", "GPU", "limit", "minutes", "a token", "generated/s a GPU")
    return _table("By power limit", columns, cells, left=2)


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


def months(rows: Rows) -> Table:
    """What this month will have cost."""
    cells = [
        (row["tenant"] or "all costs", a.usd(row["spent_nusd"]), _forecast(row))
        for row in rows
        if row["spent_nusd"] or row["tenant"] is None
    ]
    columns = ("whose", "so far", "whole month, forecast (4 in 5)")
    name = f"Calendar month from {a.instant(rows[0]['start_ms'])[:10]} (UTC)" if rows else ""
    return Table(name, columns, tuple(cells), frozenset(columns[1:]))


def budgets(rows: Rows) -> Table:
    """Where budgets stand."""
    cells = [
        (
            row["budget"],
            f"{row['scope']} {row['of'] or ''}".strip(),
            f"{a.instant(row['start_ms'])[:10]} to {a.instant(row['end_ms'])[:10]}",
            a.usd(row["spent_nusd"]),
            a.usd(row["amount_nusd"]),
            _forecast(row),
            a.instant(row["exhausted_ms"]),
            _crossed(row["crossed"]),
        )
        for row in rows
    ]
    columns = ("budget", "for", "period", "spent", "of", "forecast (4 in 5)", "used up", "levels crossed")
    shares = [min(1.0, row["spent_nusd"] / row["amount_nusd"]) for row in rows]
    caption, least = "Budgets of the periods that run now", ("levels crossed", "period")
    return Table(caption, columns, tuple(cells), frozenset(columns[3:6]), tuple(shares), least)


def _forecast(row: Row) -> str:
    if row["forecast_nusd"] is None:
        return "– (3 days of history needed)"
    return f"{a.usd(row['forecast_nusd'])} ({a.usd(row['forecast_low_nusd'])} to {a.usd(row['forecast_high_nusd'])})"


def _crossed(levels: Rows) -> str:
    return ", ".join(
        f"{one['share_ppm'] / 10_000:g} % {one['kind']}{' by forecast' if one['ahead'] else ''}" for one in levels
    )


def prices(rows: Rows) -> Table:
    """Prices in force and the line each stands in."""
    cells = [
        (
            row["section"],
            row["gpu_model"] or "any",
            row["region"] or "any",
            row["text"] or "no price",
            row["source"] or "",
            _place(row["at"]),
        )
        for row in rows
    ]
    columns = ("what", "GPU", "region", "price", "source", "written in")
    return Table("Prices in force in this range", columns, tuple(cells))


def _place(at: str | None) -> str:
    """File and line without the folder, which says something of the machine alone."""
    return Path(at).name if at else ""
