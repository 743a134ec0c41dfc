"""*Host*: one host, all it reported, its GPUs, engines and processes. Without one: all, to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.machine_tables import (
    ENGINE_LOAD,
    HOTTEST,
    LAST_SEEN,
    LISTED,
    UTILIZATION,
    engine_column,
    gpu_column,
    host_column,
    listing,
    load_columns,
    process_columns,
)
from fleetpulse.dashboard.parts import Column, Stats, TablePanel, grid, link_button
from fleetpulse.dashboard.signals import Signal, Signals
from fleetpulse.dashboard.values import UNKNOWN, clean, gpu_name, percent, short, size
from fleetpulse.dashboard.view import PageSpec, Refresh, View

SIGNALS = (
    Signal("Processors", "share",
           {"busy": "cpu_busy", "busiest core": "core_busy_max", "waiting for disks": "cpu_iowait"},
           "all of them, and the busiest"),
    Signal("Memory", "bytes", {"used": "memory_used_bytes", "swap": "swap_used_bytes", "total": "memory_total_bytes"}),
    Signal("Stalled", "share", {"processors": "cpu_pressure", "memory": "memory_pressure", "disks": "io_pressure"},
           "share of the time in which some task waited"),
    Signal("Load", "", {"load": "load_1m", "processors": "processors"}, "over one minute"),
    Signal("Disks", "bytes", {"read": "disk_read", "written": "disk_write"}, "bytes per second"),
    Signal("Disk queue", "", {"requests in flight": "disk_queue"}),
    Signal("Network", "bytes", {"sent": "network_tx", "received": "network_rx"}, "bytes per second"),
    Signal("RDMA", "bytes", {"sent": "rdma_tx", "received": "rdma_rx"}, "bytes per second, InfiniBand and RoCE"),
    Signal("TCP retransmits", "share", {"sent again": "retransmitted"}, "share of segments"),
    Signal("Network errors", "", {"errors and drops": "network_faults", "RDMA": "rdma_faults"}, "in each point"),
)  # fmt: skip


def build(view: View) -> Refresh:
    """One host when the address names it, else the list."""
    return _OneHost(view).refresh if view.option("name") else _list(view)


def _list(view: View) -> Refresh:
    columns = [
        host_column(view, "host"),
        Column("a_cluster", "Cluster"),
        Column("a_region", "Region"),
        Column("cpu_busy", "Processors", text=percent, right=True),
        Column("memory", "Memory", text=percent, right=True),
        Column("sent", "Sent/s", text=size, right=True),
        Column("received", "Received/s", text=size, right=True),
        Column("network_faults", "Network errors", text=short, right=True),
        LAST_SEEN,
    ]
    return listing(view, "host", columns, "part of a name", "fleetpulse agent reports its host")


class _OneHost:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats({"host": "Host", "cpu": "Processors", "memory": "Memory", "network": "Network",
                             "gpus": "GPUs", "engines": "Engines"})  # fmt: skip
        with grid() as self._charts:
            self._signals = Signals(view, SIGNALS)
        self._gpus = TablePanel("GPUs", "", _gpu_columns(view), page_rows=16)
        with self._gpus.tools:
            link_button("Its requests", view.link("/requests", host=view.option("name")))
            link_button("All hosts", view.link("/host"), "arrow_back")
        self._links = TablePanel("Links of its GPUs", "those with errors first", _link_columns(view), page_rows=16)
        self._devices = TablePanel(
            "Devices",
            "interfaces, RDMA ports, disks, NUMA nodes; those with errors first",
            _DEVICE_COLUMNS,
            page_rows=16,
        )
        self._engines = TablePanel("Engines", "", [engine_column(view), Column("a_model", "Model"), *ENGINE_LOAD])
        self._load = TablePanel(
            "Processes", "most processors first; one thread at 100 % bounds an engine", load_columns(view)
        )
        self._processes = TablePanel("Processes on its GPUs", "most memory first", process_columns(view))

    async def refresh(self) -> None:
        view, host = self._view, self._view.option("name")
        states, gpus, engines, processes, load, links, devices = await view.gather(
            view.ask("host_over_time", host=host),
            view.ask("gpus", host=host, search="", top=LISTED),
            view.ask("engines", host=host, search="", top=LISTED),
            view.ask("processes", host=host),
            view.ask("process_load", host=host),
            view.ask("host_links", host=host),
            view.ask("host_devices", host=host),
        )
        rows = states.records()
        self._charts.set_visibility(bool(rows))  # of a host without an agent GPUs alone are known
        self._signals.show(rows)
        self._show_stats(host, rows, gpus.records(), len(engines.rows))
        self._gpus.rows(gpus.records(), "No GPU in this range")
        self._links.rows(links.records(), "No GPU in this range")
        self._devices.rows(devices.records(), "No device in this range", "The agent reads them every ten seconds.")
        self._engines.rows(engines.records(), "No engine in this range", "fleetpulse agent looks for engines.")
        self._load.rows(
            load.records(),
            "No process of an engine or a job in this range",
            "The agent reads /proc of engines that it knows.",
        )
        self._processes.rows(processes.records(), "No process on its GPUs in this range")

    def _show_stats(
        self, host: str, rows: Sequence[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]], engines: int
    ) -> None:
        last: Mapping[str, Any] = rows[-1] if rows else {}
        show = self._stats.show
        show("host", clean(host), "" if rows else "reported nothing of its own")
        busiest = f"of {short(last.get('processors'))}, busiest {percent(last.get('core_busy_max'))}"
        show("cpu", percent(last.get("cpu_busy")), busiest if last else "")
        show(
            "memory", size(last.get("memory_used_bytes")), f"of {size(last.get('memory_total_bytes'))}" if last else ""
        )
        show("network", _per_s(last.get("network_rx")), f"sent {_per_s(last.get('network_tx'))}" if last else "")
        show("gpus", *gpus_counted(gpus))
        show("engines", short(engines))


def gpus_counted(gpus: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """How many GPUs, each once with its MIG devices, and below how many of these."""
    devices = sum(one["part_of_gpu"] is not None for one in gpus)
    whole = len({one["part_of_gpu"] or one["gpu_uuid"] for one in gpus})
    return short(whole), f"with {devices:,} MIG devices" if devices else ""


def _per_s(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{size(amount)}/s"


def _gpu_columns(view: View) -> list[Column]:
    return [
        gpu_column(view),
        Column("a_model", "Type", text=gpu_name),
        engine_column(view, "engine"),
        UTILIZATION,
        HOTTEST,
    ]


def _link_columns(view: View) -> list[Column]:
    return [
        gpu_column(view),
        Column("lanes_min", "PCIe lanes, least", text=short, right=True),
        Column("lanes_possible", "of", text=short, right=True),
        Column("generation", "Generation", text=short, right=True),
        Column("pcie_sent_per_s", "PCIe sent/s", text=size, right=True),
        Column("pcie_received_per_s", "PCIe received/s", text=size, right=True),
        Column("replays", "PCIe replays", text=short, right=True),
        Column("nvlink_sent_per_s", "NVLink sent/s", text=size, right=True),
        Column("nvlink_received_per_s", "NVLink received/s", text=size, right=True),
        Column("link_errors", "NVLink errors", text=short, right=True),
    ]


_DEVICE_COLUMNS = [
    Column("device_kind", "Kind"),
    Column("device", "Device"),
    Column("sent_per_s", "Sent/s", text=size, right=True),
    Column("received_per_s", "Received/s", text=size, right=True),
    Column("faults", "Errors", text=short, right=True),
    Column("read_per_s", "Read/s", text=size, right=True),
    Column("written_per_s", "Written/s", text=size, right=True),
    Column("disk_busy", "Busy", text=percent, right=True),
    Column("held_bytes", "Used", text=size, right=True),
    Column("size_bytes", "Size", text=size, right=True),
]


PAGE = PageSpec(
    path="/host",
    title="Hosts",
    icon="dns",
    about="One host: processors, memory, disks, network, its GPUs and engines",
    build=build,
    reads=("host readings",),
    filters=("cluster", "region"),
    options={"name": "", "q": ""},
)
