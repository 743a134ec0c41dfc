"""Which dashboards there are, and which query each panel shows. Data; ``render`` makes JSON of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.limits import DAY_MS, HOUR_MS

Kind = Literal["timeseries", "table", "stat"]
_NO_PARAMS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Panel:
    """``query`` is a name of the catalogue; ``select`` what is taken of its columns, each an expression with its name;
    ``time`` its column of milliseconds, for charts. ``unit`` and ``units`` (by column) are Grafana's."""

    title: str
    query: str
    kind: Kind
    select: str
    unit: str = "short"
    units: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMS)
    params: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMS)
    time: str = "at_ms"
    width: int = 12
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard that usually shows the last ``span_ms``; tables are chosen for that range."""

    name: str
    title: str
    says: str
    span_ms: int
    panels: tuple[Panel, ...]


def _when(column: str) -> str:
    return f"fromUnixTimestamp64Milli(toInt64({column}))"


_LATENCY = "percentiles[1] AS p50, percentiles[2] AS p95, percentiles[3] AS p99"
_TOP = {"top": "20"}


def _latency(title: str, bins: str) -> Panel:
    return Panel(title, "latency_over_time", "timeseries", _LATENCY, "µs", params={"bins": bins})


def _latency_of(whose: str, title: str, bins: str) -> Panel:
    """Percentiles by model or by tenant, of all of them."""
    select = f"name AS {whose}, percentiles[1] AS p50, percentiles[2] AS p95"
    params = {"bins": bins, "dimension": whose, "names": "[]"}
    return Panel(title, "latency_by", "table", select, "µs", params=params)


def _usd(*columns: str) -> str:
    return ", ".join(f"{column} / 1e9 AS {column}_usd" for column in columns)


BOARDS = (
    Board(
        "fleet",
        "Fleet",
        "How many GPUs report, how utilized they are, what they draw, what is wrong with them.",
        3 * HOUR_MS,
        (
            Panel("GPUs that report", "fleet_over_time", "timeseries", "gpus", width=8),
            Panel(
                "Utilization, memory, throttled",
                "fleet_over_time",
                "timeseries",
                "busy, memory, throttled",
                "percentunit",
                width=8,
            ),
            Panel("Power", "fleet_over_time", "timeseries", "power_w", "watt", width=8),
            Panel(
                "Open alerts",
                "alerts_open",
                "table",
                f"severity, summary, rule, {_when('since_ms')} AS since, host, model, muted",
                params={"kept_ms": str(30 * DAY_MS)},
                width=24,
            ),
            Panel(
                "GPUs by type",
                "gpu_summary",
                "table",
                "gpu_model, gpus, util_pct, power_w, temperature_max_c, memory_pct",
                units={
                    "util_pct": "percent",
                    "power_w": "watt",
                    "temperature_max_c": "celsius",
                    "memory_pct": "percent",
                },
            ),
            Panel("Hosts with the slowest first tokens", "slowest_hosts", "table", "*", units={"ttft_p99_ms": "ms"}),
        ),
    ),
    Board(
        "models",
        "Models and objectives",
        "Requests, latencies and failures of every model.",
        3 * HOUR_MS,
        (
            _latency("Time to first token", "ttft_us_bins"),
            _latency("Time per output token", "tpot_us_bins"),
            _latency("End to end", "e2e_us_bins"),
            _latency("Queue", "queue_us_bins"),
            Panel("Requests by outcome", "requests_over_time", "timeseries", "ok, aborted, client", stacked=True),
            Panel("Failures by kind", "errors_over_time", "timeseries", "kind, requests", stacked=True),
            Panel("Tokens", "requests_over_time", "timeseries", "input_tokens, cached_tokens, output_tokens"),
            Panel("Tenants", "tenants_over_time", "timeseries", "name, requests", params=_TOP, stacked=True),
            Panel(
                "Models",
                "models",
                "table",
                "model, requests, failed_share, input_tokens, output_tokens",
                units={"failed_share": "percentunit"},
                params={**_TOP, "search": "''"},
            ),
            Panel(
                "Tenants by requests",
                "tenants",
                "table",
                "*",
                units={"failed": "percentunit"},
                params=_TOP,
            ),
            _latency_of("model", "Time to first token by model", "ttft_us_bins"),
            _latency_of("model", "End to end by model", "e2e_us_bins"),
            _latency_of("tenant", "Time to first token by tenant", "ttft_us_bins"),
            _latency_of("tenant", "End to end by tenant", "e2e_us_bins"),
        ),
    ),
    Board(
        "gpu",
        "GPUs",
        "Every GPU: readings, faults, throttling.",
        HOUR_MS,
        (
            Panel("Energy", "fleet_over_time", "timeseries", "energy_j", "joule"),
            Panel("Throttled", "fleet_over_time", "timeseries", "throttled", "percentunit"),
            Panel(
                "Most utilized GPUs",
                "fleet_gpus",
                "table",
                f"host, gpu_uuid, a_model, engine, value AS busy, temperature_max_c, {_when('heard_ms')} AS last_seen",
                units={"busy": "percent", "temperature_max_c": "celsius"},
                params={"total": "util_gpu_pct_sum", "known": "util_gpu_pct_count"},
                width=24,
            ),
            Panel(
                "Faults",
                "gpu_faults",
                "table",
                f"{_when('at_ms')} AS at, severity, kind, code, host, gpu_uuid, message, action",
                params={"gpu_uuid": "''"},
                width=24,
            ),
            Panel("Requests that faults touched", "requests_of_gpu_fault", "table", "*", width=24),
        ),
    ),
    Board(
        "cost",
        "Cost",
        "The bill, what it went to, and what a million tokens cost.",
        DAY_MS,
        (
            Panel(
                "Bill", "cost_total", "stat", _usd("total", "gpu", "hosts", "energy", "idle"), "currencyUSD", width=24
            ),
            Panel(
                "What money went to",
                "cost_over_time",
                "timeseries",
                "what, cost / 1e9 AS usd",
                "currencyUSD",
                width=24,
                stacked=True,
            ),
            Panel(
                "Models",
                "cost_models",
                "table",
                "model, " + _usd("cost", "lost", "per_million_in", "per_million_out") + ", mj_per_token",
                units=dict.fromkeys(
                    ("cost_usd", "lost_usd", "per_million_in_usd", "per_million_out_usd"), "currencyUSD"
                ),
            ),
            Panel(
                "Tenants",
                "cost_tenants",
                "table",
                "tenant, " + _usd("cost", "lost") + ", gpu_time_ms",
                units={"cost_usd": "currencyUSD", "lost_usd": "currencyUSD", "gpu_time_ms": "ms"},
            ),
            Panel(
                "Idle and wasted",
                "cost_idle_hosts",
                "table",
                "owner, what, a_gpu, gpu_time_ms, " + _usd("cost"),
                units={"cost_usd": "currencyUSD", "gpu_time_ms": "ms"},
                width=24,
            ),
        ),
    ),
    Board(
        "pipeline",
        "Pipeline",
        "Whether what was produced has landed: freshness, verdicts, what was rejected and why.",
        HOUR_MS,
        (
            Panel(
                "Age of the newest event in the tables",
                "pipeline_freshness",
                "table",
                "topic, toUnixTimestamp64Milli(now64(3)) - newest_ms AS age_ms",
                units={"age_ms": "ms"},
            ),
            Panel(
                "Producers' books",
                "pipeline_producers",
                "table",
                f"topic, producers, written, waiting, shed, {_when('reported_ms')} AS reported",
            ),
            Panel("Booked", "pipeline_over_time", "timeseries", "topic, booked"),
            Panel("Rejected", "pipeline_over_time", "timeseries", "topic, rejected"),
            Panel("Late and future", "pipeline_over_time", "timeseries", "topic, untimely"),
            Panel("Duplicates", "pipeline_over_time", "timeseries", "topic, duplicate"),
            Panel(
                "Verdicts by topic",
                "pipeline_topics",
                "table",
                f"* EXCEPT last_commit_ms, {_when('last_commit_ms')} AS last_commit",
                width=24,
            ),
            Panel(
                "Rejected, by reason",
                "pipeline_rejected",
                "table",
                f"* EXCEPT newest_ms, {_when('newest_ms')} AS newest",
                width=24,
            ),
        ),
    ),
)
