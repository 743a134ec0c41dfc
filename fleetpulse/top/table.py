"""The table that ``fleetpulse top`` shows: GPUs, or hosts, of the view ``fleet_now``, sorted by a column. Pure.

What nobody measured is None and shows as a dash; it sorts below every number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from fleetpulse.commands import table as fitted
from fleetpulse.commands.output import show

GPUS_MAX = 20_000
_SQL = f"""
SELECT host, gpu_uuid, parent_uuid, gpu_model, model, workload, age_ms, util_gpu_pct, memory_used_bytes,
    memory_total_bytes, power_mw, power_limit_mw, temperature_c, engine_id, engine_running, engine_waiting,
    engine_kv_used_ppm, host_cpu_busy_ppm
FROM fleet_now
ORDER BY {{order}} NULLS LAST, host, gpu_uuid
LIMIT {GPUS_MAX}
"""
Group = Literal["gpu", "host"]
Row = Mapping[str, Any]
QUIET_MS = 30_000
"""A GPU that did not report for so long is marked: its values are old."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``value`` of a row, of a GPU or MIG device, in the unit of the heading; ``fold`` of a host's rows, of
    one ``each`` where that is given; ``key`` sorts by it; ``warm`` and ``hot``: from where it is yellow and red."""

    heading: str
    key: str
    value: Callable[[Row], Any]
    fold: Callable[[Sequence[Any]], Any]
    warm: float = float("inf")
    hot: float = float("inf")
    each: Callable[[Row], Any] | None = None


def _gpu(row: Row) -> str:
    """The GPU itself of one, and of each of its MIG devices."""
    return str(row["parent_uuid"] or row["gpu_uuid"])


def _engine(row: Row) -> str | None:
    return row["engine_id"]


def _share(part: str, whole: str) -> Callable[[Row], float | None]:
    def share(row: Row) -> float | None:
        return None if row[part] is None or not row[whole] else 100 * row[part] / row[whole]

    return share


def _scaled(name: str, by: float) -> Callable[[Row], float | None]:
    return lambda row: None if row[name] is None else row[name] / by


def _known(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[Any]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _most(values: Sequence[Any]) -> Any:
    return max(_known(values), default=None)


def _sum(values: Sequence[Any]) -> Any:
    known = _known(values)
    return sum(known) if known else None


def _named(values: Sequence[Any]) -> str | None:
    """The one name they have, or how many."""
    names = sorted(set(_known(values)))
    return names[0] if len(names) == 1 else f"{len(names)} of them" if names else None


COLUMNS = (
    Column("host", "h", lambda row: row["host"], _named),
    Column("gpu", "g", lambda row: row["gpu_uuid"], len, each=_gpu),
    Column("type", "", lambda row: row["gpu_model"], _named),
    Column("model", "m", lambda row: row["model"], _named),
    Column("util %", "u", lambda row: row["util_gpu_pct"], _mean, 101, 101),
    Column("mem %", "e", _share("memory_used_bytes", "memory_total_bytes"), _mean, 90, 97),
    Column("power W", "p", _scaled("power_mw", 1_000), _sum),
    Column("of limit %", "l", _share("power_mw", "power_limit_mw"), _mean, 98, 105),
    Column("temp C", "t", lambda row: row["temperature_c"], _most, 80, 88),
    Column("running", "r", lambda row: row["engine_running"], _sum, each=_engine),
    Column("waiting", "w", lambda row: row["engine_waiting"], _sum, 1, 50, each=_engine),
    Column("kv %", "k", _scaled("engine_kv_used_ppm", 10_000), _most, 90, 98),
    Column("cpu %", "c", _scaled("host_cpu_busy_ppm", 10_000), _most, 90, 98),
    Column("age s", "a", _scaled("age_ms", 1_000), _most, QUIET_MS / 1_000, 60),
)
_OF_HOST: Mapping[Any, str] = {
    _named: "min({})",
    len: "uniqExact(ifNull(parent_uuid, gpu_uuid))",
    _mean: "avg({})",
    _sum: "sum({})",
    _most: "max({})",
}
"""What folds the GPUs of a host, in SQL."""
_OF_GPU: Mapping[str, str] = {
    "host": "host",
    "gpu": "gpu_uuid",
    "type": "gpu_model",
    "model": "model",
    "util %": "util_gpu_pct",
    "mem %": "memory_used_bytes / nullIf(memory_total_bytes, 0)",
    "power W": "power_mw",
    "of limit %": "power_mw / nullIf(power_limit_mw, 0)",
    "temp C": "temperature_c",
    "running": "engine_running",
    "waiting": "engine_waiting",
    "kv %": "engine_kv_used_ppm",
    "cpu %": "host_cpu_busy_ppm",
    "age s": "age_ms",
}
"""What a column sorts GPUs by, in SQL."""
_NAMES = ("host", "gpu", "type", "model")
HEADINGS = tuple(column.heading for column in COLUMNS)
LEAST = ("type", "of limit %", "model", "power W", "cpu %", "kv %")
"""Columns without which a narrow terminal goes on, the first to go first."""
KEYS = {column.key: column.heading for column in COLUMNS if column.key}
SCROLLS = {
    **dict.fromkeys(("j", "\x1b[B", "\x1bOB"), (1, 0)),
    **dict.fromkeys(("\x1b[A", "\x1bOA"), (-1, 0)),
    **dict.fromkeys(("J", "\x1b[6~"), (0, 1)),
    **dict.fromkeys(("K", "^", "\x1b[5~"), (0, -1)),
}
"""Rows and pages that a key goes down: letters, arrows, Page Up and Page Down as terminals send them."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown: by GPU or host, sorted by which column, from which row on."""

    group: Group = "gpu"
    sort: str = "util %"
    rising: bool = False
    first: int = 0

    def pressed(self, key: str, rows: int, page: int) -> View | None:
        """The view of a table of so many rows after a key; None when it ends. Other keys change nothing."""
        if key in ("q", "\x03", "\x1b"):
            return None
        if key in ("\t", " "):
            return replace(self, group="host" if self.group == "gpu" else "gpu", first=0)
        if key in SCROLLS:
            rows_down, pages_down = SCROLLS[key]
            return replace(self, first=max(0, min(self.first + rows_down + pages_down * page, rows - page)))
        if key == "i":
            return replace(self, rising=not self.rising, first=0)
        if key in KEYS:
            return replace(self, sort=KEYS[key], rising=KEYS[key] == self.sort and not self.rising, first=0)
        return self


def sql(view: View) -> str:
    """The query for the fleet: its first GPUs in the order of the table, or those of its first hosts, whose engines
    count once for each of their GPUs then."""
    order, rises = _OF_GPU[view.sort], view.sort in _NAMES
    if view.group == "host":
        (fold,) = (column.fold for column in COLUMNS if column.heading == view.sort)
        order, rises = f"{_OF_HOST[fold].format(order)} OVER (PARTITION BY host)", rises and fold is _named
    return _SQL.format(order=f"{order} {'ASC' if rises is not view.rising else 'DESC'}")


def table_of(gpus: Sequence[Row], view: View) -> list[dict[str, Any]]:
    """Rows of the table by heading, sorted: numbers falling, names rising, unknown last; ``rising`` turns that."""
    groups = [[gpu] for gpu in gpus] if view.group == "gpu" else list(_by_host(gpus).values())
    rows = [_row(group, view.group) for group in groups]
    return _sorted(rows, view)


def _by_host(gpus: Sequence[Row]) -> dict[Any, list[Row]]:
    hosts: dict[Any, list[Row]] = {}
    for gpu in gpus:
        hosts.setdefault(gpu["host"], []).append(gpu)
    return hosts


def _row(group: Sequence[Row], by: Group) -> dict[str, Any]:
    if by == "gpu":
        return {column.heading: column.value(group[0]) for column in COLUMNS}
    return {column.heading: column.fold([column.value(row) for row in _once(group, column)]) for column in COLUMNS}


def _once(group: Sequence[Row], column: Column) -> Sequence[Row]:
    return group if column.each is None else [*{column.each(row): row for row in group}.values()]


def _sorted(rows: list[dict[str, Any]], view: View) -> list[dict[str, Any]]:
    known = [row for row in rows if row[view.sort] is not None]
    known.sort(key=lambda row: (str(row["host"]), str(row["gpu"])))
    words = any(isinstance(row[view.sort], str) for row in known)
    known.sort(key=lambda row: row[view.sort], reverse=view.rising if words else not view.rising)
    return known + [row for row in rows if row[view.sort] is None]


def summary(gpus: Sequence[Row]) -> str:
    """One line about all of them: a GPU counts once with its MIG devices, and is silent where all of these are."""
    hosts = len({gpu["host"] for gpu in gpus})
    utilization = _mean([gpu["util_gpu_pct"] for gpu in gpus])
    power_w = _sum([gpu["power_mw"] for gpu in gpus])
    whole, devices = len({*map(_gpu, gpus)}), sum(gpu["parent_uuid"] is not None for gpu in gpus)
    quiet = whole - len({_gpu(gpu) for gpu in gpus if gpu["age_ms"] <= QUIET_MS})
    first = "the first " if len(gpus) == GPUS_MAX else ""  # there may be more
    text = f"{hosts:,} hosts, {first}{whole:,} GPUs{f' with {devices:,} MIG devices' if devices else ''}"
    text += f", {show(utilization)} % utilization"
    text += f", {show(None if power_w is None else power_w / 1e6)} kW"
    return text + (f", {quiet:,} silent for {QUIET_MS // 1_000} s" if quiet else "")


def screen(gpus: Sequence[Row], view: View, page: int, said: str = "") -> RenderableType:
    """The table and its keys, for a terminal with room for ``page`` rows."""
    keys = "q quit  Tab hosts or GPUs  arrows, j/J down, ^ up  i turn  sort: " + " ".join(
        f"{key} {heading}" for key, heading in KEYS.items()
    )
    return Lines(drawn(gpus, view, page, said), Text(keys, style="dim"))


def drawn(gpus: Sequence[Row], view: View, page: int, said: str = "") -> fitted.FittedTable:
    """At most ``page`` rows of the table, a line each, under one line about all of them."""
    rows = table_of(gpus, view)[view.first : view.first + page]
    mark = " ^" if view.rising else " v"
    numeric = {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
    heads = [fitted.Column(name + mark * (name == view.sort), name in numeric, wrapped=False) for name in HEADINGS]
    cells = [[_cell(column, row[column.heading]) for column in COLUMNS] for row in rows]
    least = [name for name in (*LEAST, *reversed(HEADINGS)) if name != view.sort]
    return fitted.FittedTable(f"{summary(gpus)}{said}", heads, cells, least)


def _cell(column: Column, value: Any) -> Text:
    style = ""
    if isinstance(value, int | float):
        style = "red" if value >= column.hot else "yellow" if value >= column.warm else ""
    if isinstance(value, float):
        return Text(f"{value:,.0f}", style=style)
    return Text(show(value), style=style)
