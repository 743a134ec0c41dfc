"""*Engine*: one serving engine, its requests, batch, KV cache, tokens, GPUs, memory and events. Without one: all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.concurrency_table import AT_ONCE, CONCURRENCY, concurrency_hint, concurrency_rows
from fleetpulse.dashboard.latencies import percentile_lines
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
from fleetpulse.dashboard.parts import ChartPanel, Column, Panel, Stats, TablePanel, grid, link_button
from fleetpulse.dashboard.requests_table import newest, requests_table
from fleetpulse.dashboard.signals import Signal, Signals
from fleetpulse.dashboard.values import ago, clean, gpu_name, microseconds, percent, scaled, short, size, watts
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from fleetpulse.report.compute import Compute, compute_of, estimated_bytes

REQUESTS_SHOWN = 50
OF_ENGINE = (
    Signal("Batch", "", {"running": "running", "most": "running_max", "waiting": "waiting"}, "requests"),
    Signal("KV cache", "share", {"in use": "kv_used"}, "share of its blocks"),
    Signal("Tokens", "/s", {"generated": "generated_per_s", "prompt": "prompt_per_s", "from cache": "hit_per_s"}),
    Signal("Preemptions", "", {"thrown out of the batch": "preemptions"}, "for lack of KV cache"),
)
OF_GPUS = (
    Signal("GPU work", "share", {"utilization": "busy", "SMs": "sm_active", "tensor": "tensor_active"}, "of its GPUs"),
    Signal("GPU memory", "bytes", {"used": "memory_used_bytes", "total": "memory_total_bytes"}, "of its GPUs"),
    Signal("Power", "W", {"draw": "power_w"}, "of its GPUs"),
)
LATENCIES = {"ttft_us": "TTFT", "itl_us": "ITL", "e2e_us": "E2E"}


def build(view: View) -> Refresh:
    """One engine when the address names it, else the list."""
    return _OneEngine(view).refresh if view.option("name") else _list(view)


def _list(view: View) -> Refresh:
    columns = [
        engine_column(view),
        host_column(view),
        Column("a_model", "Model"),
        Column("a_version", "Version"),
        Column("a_precision", "Precision"),
        *ENGINE_LOAD,
        LAST_SEEN,
        Column("a_kind", "Software"),
    ]
    return listing(view, "engine", columns, "engine, host or model", "fleetpulse agent looks for engines")


class _OneEngine:
    def __init__(self, view: View) -> None:
        self._view = view
        names = {"engine": "Engine", "host": "Host", "model": "Model", "batch": "Running", "tokens": "Tokens/s"}
        self._stats = Stats({**names, "mfu": "FLOPs utilization", "memory": "GPU memory", "load": "Load time"})
        with grid():
            self._rate = ChartPanel(view, "Requests", "per second by end", "Requests per second over time", 160)
            self._latency = {
                name: ChartPanel(view, title, "p50 and p95", f"{title} over time", 160)
                for name, title in LATENCIES.items()
            }
            self._engine = Signals(view, OF_ENGINE)
            self._of_gpus = Signals(view, OF_GPUS)
        self._concurrency = TablePanel("Latency by concurrency", AT_ONCE, CONCURRENCY)
        self._gpus = TablePanel("Its GPUs", "", _gpu_columns(view))
        held = _memory_columns(view)
        self._memory = TablePanel("GPU memory by holder", "as it was last", held, label="Memory of its GPUs")
        self._load = TablePanel(
            "Processes", "most processors first; one thread at 100 % bounds an engine", load_columns(view)
        )
        self._processes = TablePanel("Processes on its GPUs", "most memory first", process_columns(view))
        self._events = TablePanel("Events", "newest first", _EVENTS, label="Events of this engine")
        self._requests_panel = Panel("Requests it served", f"the newest {REQUESTS_SHOWN}")
        with self._requests_panel.tools:
            link_button("All its requests", view.link("/requests", engine_id=view.option("name")))
            link_button("All engines", view.link("/engine"), "arrow_back")
        with self._requests_panel.body:
            self._requests = requests_table(view, "Requests of this engine", page_rows=10)

    async def refresh(self) -> None:
        view, engine = self._view, self._view.option("name")
        grain_ms = view.query("latency_by_concurrency").grain_ms(view.range.span_ms)
        states, served, gpus, work, events, memory, processes, load, batches, known = await view.gather(
            view.ask("engine_over_time", engine_id=engine),
            view.ask("engine_requests", engine_id=engine),
            view.ask("engine_gpus", engine_id=engine),
            view.ask("engine_gpus_over_time", engine_id=engine),
            view.ask("engine_changes", engine_id=engine),
            view.ask("engine_memory", engine_id=engine),
            view.ask("processes", engine_id=engine),
            view.ask("process_load", engine_id=engine),
            view.ask("latency_by_concurrency", engine_id=engine, grain_ms=grain_ms),
            view.ask("engines", search=engine, top=LISTED),
        )
        rows, devices, changes = states.records(), gpus.records(), events.records()
        by_batch = batches.records()
        (is_now, *_) = [row for row in known.records() if row["engine_id"] == engine] or [{}]
        self._engine.show(rows)
        self._of_gpus.show(work.records())
        self._show_requests(served.records())
        self._show_stats(engine, is_now, rows, devices, changes)
        self._concurrency.hint(concurrency_hint(by_batch))
        self._concurrency.rows(concurrency_rows(by_batch), "No request beside a reported batch in this range")
        self._gpus.rows(devices, "No GPU known", "The agent matches engines to GPUs by their processes.")
        self._memory.rows(memory.records(), "No GPU known", "The agent matches engines to GPUs by their processes.")
        self._load.rows(
            load.records(), "No process of it in this range", "The agent reads /proc of engines that it knows."
        )
        self._processes.rows(processes.records(), "No process of it on a GPU in this range")
        dated = [{**row, "ago_ms": view.until_ms - row["at_ms"]} for row in changes]
        self._events.rows(dated, "No events", "Registrations, deployments, losses and marks would stand here.")
        self._show_newest((await newest(view, REQUESTS_SHOWN, id="", failed=0, engine_id=engine)).records())

    def _show_requests(self, rows: Sequence[dict[str, Any]]) -> None:
        view = self._view
        if not rows:
            for panel in (self._rate, *self._latency.values()):
                panel.empty("No request in this range", "Requests reach the page by proxy, plug-in or SDK.")
            return
        ends = {"ok": "ok", "aborted": "aborted", "client faults": "client_fault", "failed": "failed"}
        whole = view.whole_buckets("engine_requests", list(rows))
        seconds = [view.counted_s("engine_requests", row["at_ms"]) for row in whole]
        lines = [
            Line(name, [(row["at_ms"], row[column] / each_s) for row, each_s in zip(whole, seconds, strict=True)])
            for name, column in ends.items()
        ]
        self._rate.draw(over_time(lines, view.range, view.palette, "/s"))
        for name, panel in self._latency.items():
            known = [row for row in rows if row[name]]  # empty where no value was known
            if not known:
                panel.empty("Not reported in this range")
                continue
            lines, of = percentile_lines({"p50": "", "p95": ""}, known, name, f"{name}_counted")
            panel.hint(f"p50 and p95 · {of}")
            panel.draw(over_time(lines, view.range, view.palette, "us"))

    def _show_stats(
        self, engine: str, is_now: Mapping[str, Any], rows: Sequence[Mapping[str, Any]],
        gpus: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]],
    ) -> None:  # fmt: skip
        show, last = self._stats.show, rows[-1] if rows else {}
        facts = next((row for row in events if row["kind"] not in ("marked", "lost")), {})
        model = is_now.get("a_model") or facts.get("model")
        host, at = is_now.get("a_host") or facts.get("host"), self._view.link
        show("engine", clean(engine), clean(is_now.get("a_kind")))
        show("host", clean(host), "", href=at("/host", name=str(host)) if host else "")
        version = f"{clean(is_now.get('a_version'))} · {clean(is_now.get('a_precision'))}"
        show("model", clean(model), version, href=at("/models", model=str(model)) if model else "")
        show("batch", short(last.get("running")), f"waiting {short(last.get('waiting'))}")
        show("tokens", short(last.get("generated_per_s")), f"prompt {short(last.get('prompt_per_s'))}")
        self._show_mfu(compute_of(rows, gpus, facts, model, is_now.get("a_precision")))
        used = [row["memory_used_bytes"] for row in gpus if row["memory_used_bytes"] is not None]
        estimate = estimated_bytes(facts, model, is_now.get("a_precision"))
        show("memory", size(sum(used) if used else None), f"weights {size(estimate)} estimated")
        load = facts.get("load_ms")
        show("load", microseconds(None if load is None else load * 1_000), "process start to ready")

    def _show_mfu(self, compute: Compute) -> None:
        tensor = f"tensor {percent(compute.tensor_active)}"
        self._stats.show("mfu", percent(compute.utilisation), f"{scaled(compute.flops_per_s, 'FLOP/s')} · {tensor}")

    def _show_newest(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._requests_panel.show()
            self._requests.show(rows)
        else:
            self._requests_panel.empty("None in this range", "It served no request that was reported.")


def _gpu_columns(view: View) -> list[Column]:
    return [
        gpu_column(view),
        Column("gpu_type", "Type", text=gpu_name),
        host_column(view),
        UTILIZATION,
        Column("sm_active", "SMs", text=percent, right=True),
        Column("tensor_active", "Tensor", text=percent, right=True),
        Column("memory_used_bytes", "Memory", text=size, right=True),
        Column("memory_total_bytes", "of", text=size, right=True),
        Column("power_w", "Power", text=watts, right=True),
        HOTTEST,
    ]


def _memory_columns(view: View) -> list[Column]:
    parts = {
        "used_bytes": "In use",
        "total_bytes": "of",
        "engine_bytes": "This engine",
        "weight_bytes": "Weights",
        "kv_cache_bytes": "KV cache",
        "rest_bytes": "Its rest",
        "others_bytes": "Other processes",
        "unattributed_bytes": "Of no process",
        "free_bytes": "Free",
    }
    return [gpu_column(view), *(Column(name, label, text=size, right=True) for name, label in parts.items())]


_EVENTS = [
    Column("ago_ms", "Ago", text=ago, right=True),
    Column("kind", "Kind"),
    Column("message", "What"),
    Column("model", "Model"),
    Column("model_version", "Version"),
    Column("precision", "Precision"),
    Column("engine_version", "Software"),
    Column("tensor_parallel", "TP", right=True),
    Column("context_tokens_max", "Context", text=short, right=True),
    Column("load_ms", "Load time", text=lambda ms: microseconds(None if ms is None else ms * 1_000), right=True),
    Column("parameters", "Parameters", text=short, right=True),
    Column("weight_bytes", "Weights", text=size, right=True),
    Column("kv_cache_bytes", "KV cache", text=size, right=True),
    Column("kv_cache_tokens", "of tokens", text=short, right=True),
]

PAGE = PageSpec(
    path="/engine",
    title="Engines",
    icon="developer_board",
    about="One engine: requests, batch, KV cache, tokens, its GPUs and events",
    build=build,
    reads=("engine readings",),
    filters=("cluster", "region", "host", "model"),
    options={"name": "", "q": ""},
)
