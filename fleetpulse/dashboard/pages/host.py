"""*Host*: one host, all it reported, its GPUs, engines and processes. Without one: all, to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.parts import Column, Stats, TablePanel, grid, link_button, search_field
from fleetpulse.dashboard.process_table import PROCESSES
from fleetpulse.dashboard.signals import Signal, Signals
from fleetpulse.dashboard.values import ago, clean, gpu_name, percent, short, size
from fleetpulse.dashboard.view import PageSpec, Refresh, View

LISTED = 200
SIGNALS = (
    Signal("Processors", "share", {"busy": "cpu_busy", "waiting for disks": "cpu_iowait"}, "all of them"),
    Signal("Memory", "bytes", {"used": "memory_used_bytes", "swap": "swap_used_bytes", "total": "memory_total_bytes"}),
    Signal("Stalled", "share", {"processors": "cpu_pressure", "memory": "memory_pressure", "disks": "io_pressure"},
           "share of the time in which some task waited"),
    Signal("Load", "", {"load": "load_1m", "processors": "processors"}, "over one minute"),
    Signal("Disks", "bytes", {"read": "disk_read", "written": "disk_write"}, "bytes per second"),
    Signal("Disk queue", "", {"requests in flight": "disk_queue"}),
    Signal("Network", "bytes", {"sent": "network_tx", "received": "network_rx"}, "bytes per second"),
    Signal("Network errors", "", {"errors and drops": "network_faults"}),
)  # fmt: skip


def build(view: View) -> Refresh:
    """One host when the address names it, else the list."""
    return _OneHost(view).refresh if view.option("name") else _list(view)


def _list(view: View) -> Refresh:
    columns = [
        Column("host", "Host", href=lambda row: view.link("/host", name=str(row["host"]))),
        Column("a_cluster", "Cluster"),
        Column("a_region", "Region"),
        Column("cpu_busy", "Processors", text=percent, right=True),
        Column("memory", "Memory", text=percent, right=True),
        Column("sent", "Sent/s", text=size, right=True),
        Column("received", "Received/s", text=size, right=True),
        Column("network_faults", "Network errors", text=short, right=True),
        Column("heard_ago_ms", "Last seen", text=ago, right=True),
    ]
    panel = TablePanel("Hosts", "", columns, page_rows=25)
    with panel.tools:
        search_field("Search", view.option("q"), lambda text: view.set(q=text), "part of a name")

    async def refresh() -> None:
        answer = await view.ask("hosts", search=view.option("q"), top=LISTED)
        rows = [row | {"heard_ago_ms": max(0, view.range.to_ms - row["heard_ms"])} for row in answer.records()]
        known = rows[0]["hosts"] if rows else 0
        panel.hint(f"{known:,}" if known <= LISTED else f"{LISTED} of {known:,}; search for others")
        panel.rows(rows, "No host in this range", "Choose a longer range; fleetpulse agent reports its host.")

    return refresh


class _OneHost:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats({"host": "Host", "cpu": "Processors", "memory": "Memory", "network": "Network",
                             "gpus": "GPUs", "engines": "Engines"})  # fmt: skip
        with grid():
            self._signals = Signals(view, SIGNALS)
        self._gpus = TablePanel("GPUs", "", _gpu_columns(view), page_rows=16)
        with self._gpus.tools:
            link_button("All hosts", view.link("/host"), "arrow_back")
        self._engines = TablePanel("Engines", "", _engine_columns(view))
        self._processes = TablePanel("Processes on its GPUs", "most memory first", PROCESSES)

    async def refresh(self) -> None:
        """Ask and show."""
        view, host = self._view, self._view.option("name")
        states, gpus, engines, processes = await view.gather(
            view.ask("host_over_time", host=host),
            view.ask("gpus", host=host, search="", top=LISTED),
            view.ask("engines", host=host, search="", top=LISTED),
            view.ask("processes", host=host),
        )
        rows = states.records()
        self._signals.show(rows)
        self._show_stats(host, rows, len(gpus.rows), len(engines.rows))
        self._gpus.rows(gpus.records(), "No GPU in this range")
        self._engines.rows(engines.records(), "No engine in this range", "fleetpulse agent looks for engines.")
        self._processes.rows(processes.records(), "No process on its GPUs in this range")

    def _show_stats(self, host: str, rows: Sequence[Mapping[str, Any]], gpus: int, engines: int) -> None:
        last: Mapping[str, Any] = rows[-1] if rows else {}
        show = self._stats.show
        show("host", clean(host), "" if rows else "reported nothing in this range")
        show("cpu", percent(last.get("cpu_busy")), f"of {short(last.get('processors'))}")
        show("memory", size(last.get("memory_used_bytes")), f"of {size(last.get('memory_total_bytes'))}")
        show("network", f"{size(last.get('network_rx'))}/s", f"sent {size(last.get('network_tx'))}/s")
        show("gpus", short(gpus))
        show("engines", short(engines))


def _gpu_columns(view: View) -> list[Column]:
    return [
        Column("gpu_uuid", "GPU", href=lambda row: view.link("/gpu", gpu=str(row["gpu_uuid"]))),
        Column("a_model", "Type", text=gpu_name),
        Column("engine", "Engine", href=lambda row: view.link("/engine", name=str(row["engine"] or ""))),
        Column("busy", "Utilization", text=percent, right=True),
        Column("temperature_max_c", "Hottest", text=lambda c: f"{short(c)} °C", right=True),
    ]


def _engine_columns(view: View) -> list[Column]:
    return [
        Column("engine_id", "Engine", href=lambda row: view.link("/engine", name=str(row["engine_id"]))),
        Column("a_model", "Model"),
        Column("running", "Running", text=short, right=True),
        Column("waiting", "Waiting, most", text=short, right=True),
        Column("kv_used", "KV cache, most", text=percent, right=True),
        Column("tokens_per_s", "Tokens/s", text=short, right=True),
    ]


PAGE = PageSpec(
    path="/host",
    title="Hosts",
    icon="dns",
    about="One host: processors, memory, disks, network, its GPUs and engines",
    build=build,
    filters=("cluster", "region"),
    options={"name": "", "q": ""},
)
