"""*GPU*: one GPU, all it reported, what happened to it, the requests it served. Without one: all, to choose from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.machine_tables import (
    HOTTEST,
    LAST_SEEN,
    UTILIZATION,
    engine_column,
    gpu_column,
    host_column,
    listing,
)
from fleetpulse.dashboard.parts import Column, Panel, Stats, TablePanel, grid, link_button, severity_mood
from fleetpulse.dashboard.requests_table import newest, requests_table
from fleetpulse.dashboard.signals import Signal, Signals
from fleetpulse.dashboard.values import ago, clean, gpu_name, percent, short, size, watts
from fleetpulse.dashboard.view import PageSpec, Refresh, View

REQUESTS_SHOWN = 50
MARKS_MAX = 20
SIGNALS = (
    Signal("Work", "share", {"utilization": "busy", "SMs": "sm_active", "tensor": "tensor_active"}),
    Signal("Memory bandwidth", "share", {"DRAM active": "dram_active", "controller busy": "memory_busy"}),
    Signal("Memory in use", "bytes", {"used": "memory_used_bytes", "total": "memory_total_bytes"}),
    Signal("Power", "W", {"draw": "power_w", "limit": "power_limit_w"}),
    Signal("Temperature", "°C", {"core": "temperature_c", "memory": "temperature_memory_c"}),
    Signal("Clocks", "MHz", {"SM": "clock_sm_mhz", "memory": "clock_memory_mhz"}),
    Signal("Throttled by heat or power", "share", {"of the time": "throttled", "not by its limit": "throttled_fault"}),
    Signal("PCIe", "bytes", {"sent": "pcie_tx", "received": "pcie_rx"}, "bytes per second"),
    Signal("NVLink", "bytes", {"sent": "nvlink_tx", "received": "nvlink_rx"}, "bytes per second"),
    Signal("PCIe link", "", {"lanes": "pcie_lanes", "lanes possible": "pcie_lanes_possible", "generation": "pcie_gen"}),
    Signal("Link errors", "", {"PCIe replays": "replays", "NVLink errors": "link_errors"}, "in each point"),
)


def build(view: View) -> Refresh:
    """One GPU when the address names it, else the list."""
    return _OneGpu(view).refresh if view.option("gpu") else _list(view)


def _list(view: View) -> Refresh:
    columns = [
        host_column(view, "host"),
        gpu_column(view),
        Column("a_model", "Type"),
        engine_column(view, "engine"),
        UTILIZATION,
        HOTTEST,
        LAST_SEEN,
    ]
    return listing(view, "GPU", columns, "GPU, host or engine", "fleetpulse agent reports GPUs")


class _OneGpu:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {
                "what": "GPU",
                "where": "Host",
                "engine": "Engine",
                "busy": "Utilization",
                "memory": "Memory",
                "power": "Power",
                "heat": "Temperature",
            }
        )
        with grid():
            self._signals = Signals(view, SIGNALS)
            self._events = TablePanel("Events", "newest first", _EVENTS, label="Events of this GPU")
        self._requests_panel = Panel("Requests it served", f"the newest {REQUESTS_SHOWN} of its engine")
        with self._requests_panel.tools:
            link_button("All GPUs", view.link("/gpu"), "arrow_back")
        with self._requests_panel.body:
            self._requests = requests_table(view, "Requests of this GPU's engine", page_rows=10)

    async def refresh(self) -> None:
        view, gpu = self._view, self._view.option("gpu")
        known, (signals, events) = await asyncio.gather(
            self._known(gpu),
            view.gather(view.ask("gpu_signals", gpu_uuid=gpu), view.ask("gpu_faults", gpu_uuid=gpu)),
        )
        rows = signals.records()
        self._show_stats(gpu, known, rows)
        serious = [row for row in events.records() if row["severity"] != "info"][:MARKS_MAX]
        self._signals.show(rows, [(row["at_ms"], clean(row["kind"])) for row in serious])
        dated = [{**row, "ago_ms": view.until_ms - row["at_ms"]} for row in events.records()]
        self._events.rows(dated, "No events in this range", "XIDs, ECC errors and losses would stand here.")

    async def _known(self, gpu: str) -> list[dict[str, Any]]:
        """Who it is; and, as soon as that is known, the requests of its engine."""
        known = (await self._view.ask("gpu_identity", gpu_uuid=gpu)).records()
        await self._show_requests(known)
        return known

    def _show_stats(self, gpu: str, known: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> None:
        first: Mapping[str, Any] = known[0] if known else {}
        last: Mapping[str, Any] = rows[-1] if rows else {}
        last_seen = ago(max(0, self._view.until_ms - first["heard_ms"])) if first else "never"
        show = self._stats.show
        show("what", clean(gpu).removeprefix("GPU-")[:8], gpu_name(first.get("gpu_model")))
        host, engine, at = first.get("host"), first.get("engine_id"), self._view.link
        where = f"{clean(first.get('cluster'))} · seen {last_seen}"
        show("where", clean(host), where, href=at("/host", name=str(host)) if host else "")
        show(
            "engine",
            clean(engine),
            clean(first.get("workload")),
            href=at("/engine", name=str(engine)) if engine else "",
        )
        show("busy", percent(last.get("busy")), f"tensor {percent(last.get('tensor_active'))}")
        show("memory", size(last.get("memory_used_bytes")), f"of {size(last.get('memory_total_bytes'))}")
        show("power", watts(last.get("power_w")), f"limit {watts(last.get('power_limit_w'))}")
        show(
            "heat",
            f"{short(last.get('temperature_c'))} °C",
            f"throttled {percent(last.get('throttled'))}",
            "warn" if last.get("throttled_fault") else "",
        )

    async def _show_requests(self, known: Sequence[Mapping[str, Any]]) -> None:
        engine = next((row["engine_id"] for row in known if row["engine_id"]), None)
        nothing = "No engine reported that it runs on this GPU in this range."
        if engine is None:
            self._requests_panel.empty("None known", nothing)
            return
        answer = await newest(self._view, REQUESTS_SHOWN, id="", failed=0, engine_id=engine)
        if answer.rows:
            self._requests_panel.show()
            self._requests.show(answer.records())
        else:
            self._requests_panel.empty("None in this range", "Its engine served no request.")


_EVENTS = [
    Column("ago_ms", "Ago", text=ago, right=True),
    Column("severity", "Severity", mood=lambda row: severity_mood(row["severity"])),
    Column("kind", "Kind"),
    Column("code", "Code", right=True),
    Column("message", "What"),
    Column("action", "To do"),
]

PAGE = PageSpec(
    path="/gpu",
    title="GPUs",
    icon="memory",
    about="One GPU: its signals, its events, the requests it served",
    build=build,
    reads=("GPU readings",),
    filters=("cluster", "host", "gpu_model"),
    options={"gpu": "", "q": ""},
)
