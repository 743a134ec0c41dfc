"""*Request*: one request, where its time went, and its engine and GPUs meanwhile."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.parts import ChartPanel, Pairs, Panel, grid, link_button
from fleetpulse.dashboard.phases import MARGIN_MS, phases, received_ms, timeline
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import UNKNOWN, clean, microseconds, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from fleetpulse.report import EXAMPLE_PRICES
from fleetpulse.report.list_side import list_side_of_request
from schemas.errors import FleetpulseError
from schemas.limits import MINUTE_MS
from stream_jobs.prices.load import load
from stream_jobs.prices.model import Prices

_LABELS = ("model", "model_version", "precision", "tenant", "slo_class", "status", "error_kind", "http_status",
           "finish_reason", "start", "api", "cluster", "region", "host", "engine_id", "request_id", "trace_id",
           "verdict", "origin")  # fmt: skip
_PAGES = {"engine_id": ("/engine", "name"), "host": ("/host", "name"), "model": ("/models", "model"),
          "tenant": ("/requests", "tenant")}  # fmt: skip
AROUND_MS = 15 * MINUTE_MS
"""Pages of an engine, host or model that a request links to show so much before and after it."""
_TIMES = ("ttft_us", "ttfo_us", "tpot_us", "e2e_us", "queue_us", "prefill_us", "decode_us", "icl_max_us")
_COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "speculative_tokens", "chunks",
           "tool_calls", "choices")  # fmt: skip
_SIGNALS: dict[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
    "Utilization": ("share", lambda row: _scaled(row["util_gpu_pct"], 0.01)),
    "Power": ("W", lambda row: _scaled(row["power_mw"], 1e-3)),
    "SM clock": ("MHz", lambda row: _scaled(row["clock_sm_mhz"], 1)),
    "Temperature": ("°C", lambda row: _scaled(row["temperature_c"], 1)),
}


_ABBREVIATED = frozenset({"ttft", "ttfo", "tpot", "e2e", "icl", "slo", "http", "api", "id"})


def build(view: View) -> Refresh:
    """The bar of phases, reported fields, the engine, the GPUs."""
    return _Request(view).refresh


class _Request:
    def __init__(self, view: View) -> None:
        self._view = view
        label = "Phases of the request; the numbers below say the same"
        self._time = ChartPanel(view, "Where its time went", "", label, 92, "", zoom=False)
        with self._time.tools:
            link_button("All requests", view.link("/requests"), "arrow_back")
        with grid():
            self._fields: list[tuple[Panel, Pairs]] = []
            for title in ("What it was", "How long", "How much", "What it cost"):
                panel = Panel(title, classes="c3")
                with panel.body:
                    self._fields.append((panel, Pairs()))
        with grid():
            self._engine = self._chart("Engine", "requests running and waiting")
            self._cache = self._chart("KV cache", "share of its blocks in use")
            self._signals = {name: self._chart(name, "its engine's GPUs") for name in _SIGNALS}

    def _chart(self, title: str, hint: str) -> ChartPanel:
        return ChartPanel(self._view, title, hint, f"{title} around the request", 170, zoom=False)

    async def refresh(self) -> None:
        view = self._view
        wanted = view.option("id")
        at_ms = moment(view.option("at"))
        around = view.range if at_ms is None else TimeRange(at_ms - MINUTE_MS, at_ms + MINUTE_MS)
        near_ms = view.range.from_ms if at_ms is None else at_ms
        answer = await view.ask_over(around, "request", id=wanted, near_ms=near_ms)
        if not answer.rows:
            answer = await view.ask("request", id=wanted, near_ms=near_ms)
        if not answer.rows:
            self._time.empty("No such request in this range", "Look for it on the page Requests, over a longer range.")
            return
        request = answer.records()[0]
        self._show_request(request)
        await self._show_cost(request)
        await self._show_surroundings(request)

    def _show_request(self, request: Mapping[str, Any]) -> None:
        parts = phases(request)
        received = received_ms(request)
        said = self._view.zone.said
        when = f"received {said(received)}" if received is not None else f"ended {said(request['at_ms'])}"
        self._time.hint(f"{when}{one_of(request['matches'])}")
        if parts:
            self._time.draw(timeline(parts, self._view.palette))
        else:
            self._time.empty("Its duration was not reported")
        (_, what), (_, long), (_, much), _ = self._fields
        what.show(
            [(_words(name), clean(request[name])) for name in _LABELS if request[name] is not None],
            self._links(request),
        )
        long.show([(_words(name), microseconds(request[name])) for name in _TIMES])
        much.show([(_words(name), short(request[name])) for name in _COUNTS])

    def _links(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Pages of what it names, around its time."""
        at = f"from={request['at_ms'] - AROUND_MS}&to={request['at_ms'] + AROUND_MS}"
        return {
            _words(name): f"{path}?{at}&{urlencode({option: request[name]})}"
            for name, (path, option) in _PAGES.items()
            if request[name] is not None
        }

    async def _show_cost(self, request: Mapping[str, Any]) -> None:
        """Its share of its engine's bills; they come a minute later, and are final after a quarter of an hour."""
        span = TimeRange(request["at_ms"], request["at_ms"] + 1)
        answer = await self._view.ask_over(span, "request_cost", request_id=request["request_id"])
        listed = await asyncio.to_thread(list_price, self._view.facts.prices_file or EXAMPLE_PRICES, request)
        panel, pairs = self._fields[-1]
        known = answer.records()[0] if answer.rows else {"cost_nusd": None}
        if known["cost_nusd"] is None and listed is None:
            panel.empty("Not known", "No engine, no tokens, no bill yet, or no price.")
            return
        panel.show()
        panel.hint("no bill of it is known" if known["cost_nusd"] is None else cost_hint(known))
        pairs.show(([] if known["cost_nusd"] is None else cost_pairs(known)) + ([listed] if listed else []))

    async def _show_surroundings(self, request: Mapping[str, Any]) -> None:
        view, engine = self._view, request["engine_id"]
        if engine is None:
            for panel in (self._engine, self._cache, *self._signals.values()):
                panel.empty("Not known", "This request did not name the engine that served it.")
            return
        received = received_ms(request)
        begun_ms = request["at_ms"] if received is None else received
        span = TimeRange(begun_ms - MARGIN_MS, request["at_ms"] + MARGIN_MS)
        gpus, states = await view.gather(
            view.ask_over(span, "request_gpus", engine_id=engine),
            view.ask_over(span, "request_engine", engine_id=engine),
        )
        marks = [(begun_ms, "received"), (request["at_ms"], "end")]
        self._show_engine(states.records(), span, marks)
        by_gpu: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in gpus.records():
            by_gpu[clean(row["gpu_uuid"])[:12]].append(row)
        for name, panel in self._signals.items():
            unit, value = _SIGNALS[name]
            lines = [Line(gpu, [(row["at_ms"], value(row)) for row in rows]) for gpu, rows in by_gpu.items()]
            _show(panel, over_time(lines, span, view.palette, unit, marks=marks) if lines else None)

    def _show_engine(self, rows: Sequence[Mapping[str, Any]], span: TimeRange, marks: list[tuple[int, str]]) -> None:
        lines = [Line(name, [(row["at_ms"], row[name]) for row in rows]) for name in ("running", "waiting")]
        _show(self._engine, over_time(lines, span, self._view.palette, marks=marks) if rows else None)
        used = [(row["at_ms"], _scaled(row["kv_used_ppm"], 1e-6)) for row in rows if row["kv_used_ppm"] is not None]
        options = over_time([Line("in use", used, area=True)], span, self._view.palette, "share", marks=marks)
        _show(self._cache, options if used else None)


def list_price(prices_file: Path, request: Mapping[str, Any]) -> tuple[str, str] | None:
    """What a hosted model would bill for it, by the map of list prices; None where that does not know."""
    try:
        prices = _prices(prices_file, prices_file.stat().st_mtime_ns)
    except (OSError, FleetpulseError) as error:
        return "list price", f"prices cannot be read: {error}"
    side = list_side_of_request(prices, request)
    if side.cost_nusd is None:
        return None if side.key is None else ("list price", side.note)
    example = ", example prices" if prices.example else ""
    return "list price", f"{_dollars(side.cost_nusd)} ({side.key}{f'; {side.note}' if side.note else ''}{example})"


@lru_cache(maxsize=2)
def _prices(file: Path, _changed_ns: int) -> Prices:
    return load(file)


def cost_hint(cost: Mapping[str, Any]) -> str:
    """Whether anything of it may change, or is missing."""
    missing = f", {cost['unpriced_minutes']} of {cost['minutes']} min without price" if cost["unpriced_minutes"] else ""
    return f"{'final' if cost['all_final'] or cost['no_work'] else 'provisional'} bills{missing}"


def cost_pairs(cost: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Money by what it was paid for, GPU time, energy, emissions."""
    millijoules, micrograms, gpu_ms = cost["share_meter_mj"], cost["share_carbon_ug"], cost["share_gpu_ms"]
    paid = [(name, _dollars(cost[f"{name}_nusd"])) for name in ("prefill", "decode", "kv")]
    return [
        ("cost", _dollars(cost["cost_nusd"])),
        *paid,
        ("GPU time", UNKNOWN if gpu_ms is None else microseconds(gpu_ms * 1_000)),
        ("energy with PUE", UNKNOWN if millijoules is None else f"{short(millijoules / 1e3)} J"),
        ("CO2e", UNKNOWN if micrograms is None else f"{short(micrograms / 1e3)} mg"),
    ]


def _dollars(nusd: int | None) -> str:
    return UNKNOWN if nusd is None else f"{nusd / 1e9:.9f} USD"


def _show(panel: ChartPanel, options: Mapping[str, Any] | None) -> None:
    if options is None:
        panel.empty("No readings of that time", "They may be older than readings are kept, or were never reported.")
    else:
        panel.draw(options)


def moment(at: str) -> int | None:
    """The moment a link names; None where it names none."""
    return int(at) if at.isascii() and at.isdigit() and len(at) <= 14 else None


def one_of(matches: int) -> str:
    """That others have the same id; "" where none has."""
    return f" · one of {matches:,} requests with this id or trace id; page Requests lists them" if matches > 1 else ""


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _words(column: str) -> str:
    words = column.removesuffix("_us").split("_")
    return " ".join(word.upper() if word in _ABBREVIATED else word for word in words)


PAGE = PageSpec(
    path="/request",
    title="Request",
    icon="receipt_long",
    about="One request, its engine and its GPUs",
    build=build,
    options={"id": "", "at": ""},
    in_menu=False,
    has_range=False,
)
