"""*Fleet*: every GPU at a glance, which do not report or are throttled, and totals over the range."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.fleet_health import MISSING_MS, Health, health_of, verdict_text
from fleetpulse.dashboard.heat_map import GPU_METRICS, description, heat_map
from fleetpulse.dashboard.parts import (
    ChartPanel,
    Column,
    GpuMap,
    Panel,
    Stats,
    TablePanel,
    choices,
    grid,
    severity_mood,
)
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import ago, clean, energy, microseconds, percent, short, watts
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from fleetpulse.sql.database import Answer
from schemas.limits import MINUTE_MS

NOW_MS = 60_000
"""The map shows the last minute of the range, as it is now; the other numbers are of the whole range."""
_WORST_MAX = 200
MAP_LABEL = "Heat map of all GPUs: arrow keys choose one, Enter opens it. The table of worst GPUs says the same."


def build(view: View) -> Refresh:
    """Counts, the map, lines over time, the worst GPUs, faults."""
    return _Fleet(view).refresh


class _Fleet:
    def __init__(self, view: View) -> None:
        self._view = view
        self._heavy: tuple[Answer | None, ...] = (None, None, None)
        self._health = Health(())
        self._stats = Stats(
            {
                "gpus": "GPUs reporting",
                "missing": "Not reporting",
                "throttled": "Throttled",
                "busy": "Utilization",
                "power": "Power",
                "faults": "Faults",
            }
        )
        self._map_panel = Panel("GPUs by host")
        with self._map_panel.tools:
            metric = view.choice("metric", GPU_METRICS)
            titles = {name: one.title for name, one in GPU_METRICS.items()}
            choices("Colour", titles, metric, lambda value: view.set(metric=value))
            stretch = {"now": "last minute", "range": "whole range"}
            choices("Mean of", stretch, view.choice("over", stretch), lambda value: view.set(over=value))
        with self._map_panel.body:
            self._map = GpuMap(MAP_LABEL, self._describe, self._open_gpu)
        with grid():
            shares = "Utilization, memory in use and share of time throttled, over time"
            self._busy = ChartPanel(view, "Utilization, memory, throttled", "mean of all GPUs", shares, 190)
            self._power = ChartPanel(view, "Power", "whole fleet", "Power of the fleet over time", 190)
            worst = self._worst_columns()
            self._worst = TablePanel("Worst GPUs", "not reporting, then throttled, then hot", worst, "c6")
            self._faults = TablePanel("Faults of GPUs", "newest first", self._fault_columns(), "c6")

    def _worst_columns(self) -> list[Column]:
        return [
            Column("host", "Host"),
            Column("gpu_uuid", "GPU", text=_short_uuid, href=self._gpu_link),
            Column("verdict", "State", text=verdict_text, mood=lambda row: f"fp-pill {row['mood']}"),
            Column("heard_ago_ms", "Seen", text=ago, right=True),
            Column("temperature_max_c", "Hottest", text=lambda c: f"{short(c)} °C", right=True),
            Column("throttled_us", "Throttled", text=microseconds, right=True),
            Column("throttled_fault_us", "Not by limit", text=microseconds, right=True),
        ]

    def _fault_columns(self) -> list[Column]:
        return [
            Column("ago_ms", "Ago", text=ago, right=True),
            Column("severity", "Severity", mood=lambda row: severity_mood(row["severity"])),
            Column("gpu_uuid", "GPU", text=_short_uuid, href=self._gpu_link),
            Column("message", "What"),
        ]

    def _gpu_link(self, row: Mapping[str, Any]) -> str:
        return self._view.link("/gpu", gpu=str(row["gpu_uuid"]))

    def _open_gpu(self, number: int) -> None:
        self._view.open(self._gpu_link(self._health.gpus[number]))

    def _describe(self, number: int) -> list[str]:
        return description(self._health.gpus[number], GPU_METRICS[self._view.choice("metric", GPU_METRICS)])

    async def refresh(self) -> None:
        view = self._view
        metric = GPU_METRICS[view.choice("metric", GPU_METRICS)]
        value = {"total": metric.total, "known": metric.known}
        now = view.past.end(NOW_MS) if view.option("over") != "range" else view.range
        known, shown, series, faults = await view.gather(
            view.ask("fleet_gpus", **value),
            view.ask_over(now, "fleet_gpus", **value),
            view.ask("fleet_over_time"),
            view.ask("gpu_faults", gpu_uuid=""),
        )
        if known.rows and not shown.rows:  # the pipeline lags: its last minute is shown, and the hint says so
            shown = await view.ask_over(last_reported(known.records(), now), "fleet_gpus", **value)
        heavy = (known, shown, series)
        if not all(map(operator.is_, heavy, self._heavy)):  # live mode queries more often than these are counted again
            self._heavy = heavy
            self._health = health_of(known.records(), shown.records(), view.until_ms, metric.scale)
            self._show_map(self._health)
            self._show_lines(series.records())
            self._worst.rows(
                self._health.worst(_WORST_MAX), "No GPU stands out", "All report, none is throttled or hot."
            )
        events = faults.records()
        self._show_stats(self._health, series.records(), events[0]["faults"] if events else 0)
        rows = [row | {"ago_ms": view.until_ms - row["at_ms"]} for row in events]
        self._faults.rows(rows, "No faults in this range", "XIDs, ECC errors and lost GPUs would stand here.")

    def _show_map(self, health: Health) -> None:
        if not health.gpus:
            self._map_panel.empty(
                "No GPU reported in this range",
                "Start an agent on a GPU host (fleetpulse agent), or try fleetpulse demo; or choose a longer range.",
            )
            return
        metric = GPU_METRICS[self._view.choice("metric", GPU_METRICS)]
        hosts = len({one["host"] for one in health.gpus})
        behind = f" · newest reading {ago(health.behind_ms)} before the end" if health.behind_ms >= MISSING_MS else ""
        cut = f" · {health.cut}" if health.cut else ""
        devices = f" with {health.devices:,} MIG devices" if health.devices else ""
        self._map_panel.hint(f"{health.whole:,} GPUs{devices} on {hosts:,} hosts{behind}{cut}")
        self._map_panel.show()
        self._map.show(heat_map(health.gpus, metric, self._view.palette))

    def _show_stats(self, health: Health, series: Sequence[Mapping[str, Any]], faults: int) -> None:
        show = self._stats.show
        last = series[-2] if len(series) > 1 else series[-1] if series else {}
        of = health.cut or f"of {health.whole:,} in this range"
        show("gpus", f"{health.reporting:,}", of, "warn" if health.cut else "")
        show("missing", f"{health.missing:,}", "silent for 30 s", "bad" if health.missing else "good")
        show("throttled", f"{health.throttled:,}", "not by their power limit", "warn" if health.throttled else "good")
        show("busy", percent(last.get("busy")), f"memory {percent(last.get('memory'))}")
        energy_j = sum(row["energy_j"] or 0 for row in series) if series else None
        show("power", watts(last.get("power_w")), f"{energy(energy_j)} in this range")
        show("faults", f"{faults:,}", "events in this range", "warn" if faults else "good")

    def _show_lines(self, series: Sequence[Mapping[str, Any]]) -> None:
        view = self._view
        if not series:
            self._busy.empty("No readings in this range")
            self._power.empty("No readings in this range")
            return

        def line(name: str, column: str, **how: Any) -> Line:
            return Line(name, [(row["at_ms"], row[column]) for row in series], **how)

        shares = [line("utilization", "busy"), line("memory", "memory"), line("throttled", "throttled")]
        self._busy.draw(over_time(shares, view.range, view.palette, "share"))
        self._power.draw(over_time([line("power", "power_w", area=True)], view.range, view.palette, "W"))


def _short_uuid(uuid: str) -> str:
    """A MIG device keeps its ``MIG-``."""
    return clean(uuid).removeprefix("GPU-")[: 12 if uuid.startswith("MIG-") else 8]


def last_reported(known: Sequence[Mapping[str, Any]], now: TimeRange) -> TimeRange:
    """The last minute in which any of these GPUs reported, by whole minutes; ``now`` when that is not earlier."""
    newest_ms = max(int(row["heard_ms"]) for row in known)
    end_ms = min(now.to_ms, newest_ms - newest_ms % MINUTE_MS + MINUTE_MS)
    return TimeRange(end_ms - NOW_MS, end_ms)


PAGE = PageSpec(
    path="/fleet",
    title="Fleet",
    icon="grid_view",
    about="Every GPU: utilization, temperature, which are throttled or do not report",
    build=build,
    reads=("GPU readings",),
    filters=("cluster", "region", "host", "gpu_model"),
    options={"metric": "busy", "over": "now"},
    live_s=2.0,
)
