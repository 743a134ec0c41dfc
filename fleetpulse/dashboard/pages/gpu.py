"""*GPU*: one GPU, all it reported, what happened to it, the requests it served. Without one: all, to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.page import PageSpec
from fleetpulse.dashboard.parts import Chart, Column, Panel, Stats, Table, grid, link_button, search_field
from fleetpulse.dashboard.requests_table import newest, requests_table
from fleetpulse.dashboard.values import ago, clean, percent, short, size, watts
from fleetpulse.dashboard.view import Refresh, View

LISTED = 200
REQUESTS_SHOWN = 50
MARKS_MAX = 20
SIGNALS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "Work",
        "share",
        {"utilization": "busy", "SMs": "sm_active", "tensor": "tensor_active", "memory": "memory_busy"},
    ),
    ("Memory in use", "bytes", {"used": "memory_used_bytes", "all": "memory_total_bytes"}),
    ("Power", "W", {"draw": "power_w", "limit": "power_limit_w"}),
    ("Temperature", "°C", {"core": "temperature_c", "memory": "temperature_memory_c"}),
    ("Clocks", "MHz", {"SM": "clock_sm_mhz", "memory": "clock_memory_mhz"}),
    ("Throttled by heat or power", "share", {"of the time": "throttled"}),
    ("PCIe", "bytes", {"sent": "pcie_tx", "received": "pcie_rx"}),
    ("NVLink", "bytes", {"sent": "nvlink_tx", "received": "nvlink_rx"}),
)
_HINTS = {"PCIe": "bytes per second", "NVLink": "bytes per second"}


def build(view: View) -> Refresh:
    """One GPU when the address names it, else the list."""
    return _OneGpu(view).refresh if view.option("gpu") else _list(view)


def _list(view: View) -> Refresh:
    panel = Panel("GPUs")
    with panel.tools:
        search_field("Search", view.option("q"), lambda text: view.set(q=text), "GPU, host or engine")
    columns = [
        Column("host", "Host"),
        Column("gpu_uuid", "GPU", href=lambda row: view.link("/gpu", gpu=str(row["gpu_uuid"]))),
        Column("a_model", "Type"),
        Column("engine", "Engine"),
        Column("busy", "Utilization", text=percent, right=True),
        Column("temperature_max_c", "Hottest", text=lambda c: f"{short(c)} °C", right=True),
        Column("heard_ago_ms", "Last seen", text=ago, right=True),
    ]
    with panel.body:
        table = Table(columns, "GPUs", page_rows=25)

    async def refresh() -> None:
        answer = await view.ask("gpus", search=view.option("q"), top=LISTED)
        rows = answer.records()
        if not rows:
            panel.empty("No GPU in this range", "Choose a longer range; fleetpulse agent reports GPUs.")
            return
        known = rows[0]["gpus"]
        panel.hint(f"{known:,}" if known <= LISTED else f"{LISTED} of {known:,}; search for others")
        panel.show()
        table.show([row | {"heard_ago_ms": max(0, view.range.to_ms - row["heard_ms"])} for row in rows])

    return refresh


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
        self._charts: dict[str, tuple[Panel, Chart]] = {}
        with grid():
            for title, _, _ in SIGNALS:
                panel = Panel(title, _HINTS.get(title, ""), "c6")
                with panel.body:
                    self._charts[title] = panel, Chart(view, f"{title} over time", 160)
            self._events_panel = Panel("Events", "newest first")
            with self._events_panel.body:
                self._events = Table(_event_columns(), "Events of this GPU", page_rows=10)
        self._requests_panel = Panel("Requests it served", f"the newest {REQUESTS_SHOWN} of its engine")
        with self._requests_panel.tools:
            link_button("All GPUs", view.link("/gpu"), "arrow_back")
        with self._requests_panel.body:
            self._requests = requests_table(view, "Requests of this GPU's engine", page_rows=10)

    async def refresh(self) -> None:
        """Ask and show."""
        view, gpu = self._view, self._view.option("gpu")
        who, signals, events = await view.gather(
            view.ask("gpu_identity", gpu_uuid=gpu),
            view.ask("gpu_signals", gpu_uuid=gpu),
            view.ask("gpu_faults", gpu_uuid=gpu),
        )
        rows, known = signals.records(), who.records()
        self._show_stats(gpu, known, rows)
        self._show_signals(rows, events.records())
        self._show_events(events.records())
        await self._show_requests(known)

    def _show_stats(self, gpu: str, known: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> None:
        first: Mapping[str, Any] = known[0] if known else {}
        last: Mapping[str, Any] = rows[-1] if rows else {}
        last_seen = ago(max(0, self._view.range.to_ms - first["heard_ms"])) if first else "never"
        show = self._stats.show
        show("what", clean(gpu).removeprefix("GPU-")[:8], clean(first.get("gpu_model")))
        show("where", clean(first.get("host")), f"{clean(first.get('cluster'))} · last seen {last_seen}")
        show("engine", clean(first.get("engine_id")), clean(first.get("workload")))
        show("busy", percent(last.get("busy")), f"tensor cores {percent(last.get('tensor_active'))}")
        show("memory", size(last.get("memory_used_bytes")), f"of {size(last.get('memory_total_bytes'))}")
        show("power", watts(last.get("power_w")), f"limit {watts(last.get('power_limit_w'))}")
        throttled = last.get("throttled")
        show(
            "heat",
            f"{short(last.get('temperature_c'))} °C",
            f"throttled {percent(throttled)}",
            "warn" if throttled else "",
        )

    def _show_signals(self, rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> None:
        view = self._view
        serious = [row for row in events if row["severity"] != "info"][:MARKS_MAX]
        marks = [(row["at_ms"], clean(row["kind"])) for row in serious]
        for title, unit, columns in SIGNALS:
            panel, chart = self._charts[title]
            reported = {
                name: column for name, column in columns.items() if any(row[column] is not None for row in rows)
            }
            if not reported:
                panel.empty("Not reported in this range", "" if rows else "Choose a longer range.")
                continue
            lines = [Line(name, [(row["at_ms"], row[column]) for row in rows]) for name, column in reported.items()]
            panel.show()
            chart.show(over_time(lines, view.range, view.palette, unit, marks=marks))

    def _show_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        if not events:
            self._events_panel.empty("Nothing happened in this range", "XIDs, ECC errors and losses would stand here.")
            return
        to_ms = self._view.range.to_ms
        self._events_panel.show()
        self._events.show([{**row, "ago_ms": to_ms - row["at_ms"]} for row in events])

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


def _event_columns() -> list[Column]:
    moods = {"critical": "fp-pill fp-bad", "warning": "fp-pill fp-warn"}
    return [
        Column("ago_ms", "Ago", text=ago, right=True),
        Column("severity", "Severity", mood=lambda row: moods.get(row["severity"], "fp-pill fp-muted")),
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
    filters=("cluster", "host", "gpu_model"),
    options={"gpu": "", "q": ""},
)
