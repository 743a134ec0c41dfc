"""Which dashboards there are, and which query each panel shows. Data; ``render`` makes JSON of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from schemas.limits import DAY_MS, HOUR_MS
from schemas.sketch import counted_min

Kind = Literal["timeseries", "table", "stat"]
_NO_PARAMS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Panel:
    """``query`` is a name of the catalogue; ``select`` what is taken of its columns, each an expression with its name;
    ``time`` its column of milliseconds, for charts. ``unit`` and ``units`` (by column) are Grafana's.

    A ``select`` may name ``counted_s``: the seconds of the range that a point counts, in rows of ``row_s``. ``order``
    sorts a table otherwise than its query does; ``rows_max`` of all rows of the query are shown where that is set, else
    those of its own list."""

    title: str
    query: str
    select: str
    unit: str = "short"
    kind: Kind = "timeseries"
    units: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMS)
    params: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMS)
    time: str = "at_ms"
    width: int = 12
    stacked: bool = False
    row_s: int = 10
    order: str = ""
    rows_max: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A chart of what Prometheus records (``deploy/prometheus/pipeline.yaml``). ``normal`` is said below its title.

    Its lines are named after ``legend`` and the Kubernetes namespace, which differs between installations."""

    title: str
    expression: str
    legend: str
    normal: str
    unit: str = "short"
    width: int = 8


@dataclass(frozen=True, slots=True)
class Annotation:
    """Moments of a query, drawn on every chart over time: ``select`` gives the columns ``time``, ``text`` and ``tags``,
    and ``timeEnd`` where they last."""

    name: str
    query: str
    select: str
    colour: str


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard that begins with the last ``span_ms``. ``annotations`` stand on its charts; ``recorded`` come after
    the panels."""

    name: str
    title: str
    says: str
    span_ms: int
    panels: tuple[Panel, ...]
    annotations: tuple[Annotation, ...] = ()
    recorded: tuple[Recorded, ...] = ()


def _when(column: str) -> str:
    return f"fromUnixTimestamp64Milli(toInt64({column}))"


_table = partial(Panel, kind="table")


def _known(value: str, q: float, counted: str = "counted") -> str:
    """A percentile, where enough values went in for it to say something; else a gap."""
    return f"if({counted} >= {counted_min(q)}, {value}, NULL)"


_MIDDLE = f"{_known('percentiles[1]', 0.5)} AS p50, {_known('percentiles[2]', 0.95)} AS p95"
_LATENCY = f"{_MIDDLE}, {_known('percentiles[3]', 0.99)} AS p99"
_TOP = {"top": "20"}


def _latency(title: str, bins: str) -> Panel:
    return Panel(title, "latency_over_time", _LATENCY, "µs", params={"bins": bins})


def _latency_of(whose: str, title: str, bins: str) -> Panel:
    """Percentiles by model or by tenant, of all of them."""
    params = {"bins": bins, "dimension": whose, "names": "[]"}
    select = f"name AS {whose}, counted, {_MIDDLE}"
    return _table(title, "latency_by", select, "µs", units={"counted": "short"}, params=params)


def _per_s(*columns: str) -> str:
    """Counts of a point as rates."""
    return ", ".join(f"{one} / counted_s AS {one}" for one in columns)


_OF_JOB = "{{process}} {{topic}}"
_STARVED = Panel(
    "Starved: busiest thread of an engine", "threads_over_time", "name, busiest_thread", "percentunit", params=_TOP
)
"""GPUs of an engine whose scheduler keeps one core at work all the time wait for it."""


def _usd(*columns: str) -> str:
    return ", ".join(f"{column} / 1e9 AS {column}_usd" for column in columns)


ANNOTATIONS = (
    Annotation(
        "Alerts",
        "alerts_history",
        f"{_when('opened_ms')} AS time, ifNull({_when('ended_ms')}, now64(3)) AS timeEnd, said AS text, worst AS tags",
        "red",
    ),
    Annotation(
        "Deployments and marks",
        "deployments",
        f"{_when('begun_ms')} AS time, arrayStringConcat([a_kind, ifNull(model, ''), ifNull(model_version, ''),"
        " ifNull(a_message, '')], ' ') AS text, a_kind AS tags",
        "blue",
    ),
)
"""What people look for first when a line moves."""

BOARDS = (
    Board(
        "fleet",
        "Fleet",
        "How many GPUs report, how utilized they are, what they draw, what is wrong with them.",
        3 * HOUR_MS,
        (
            Panel("GPUs that report", "fleet_over_time", "gpus", width=8),
            Panel(
                "Utilization, memory, throttled", "fleet_over_time", "busy, memory, throttled", "percentunit", width=8
            ),
            Panel("Power", "fleet_over_time", "power_w", "watt", width=8),
            _table(
                "Open alerts",
                "alerts_open",
                f"severity, summary, rule, {_when('since_ms')} AS since, host, model, muted",
                params={"kept_ms": str(ALERTS_KEPT_MS)},
                width=24,
            ),
            _table(
                "GPUs by type",
                "gpu_summary",
                "gpu_model, gpus, util_pct, power_w, temperature_max_c, memory_pct, bandwidth_pct, narrow_links,"
                " link_errors",
                units={
                    "util_pct": "percent",
                    "bandwidth_pct": "percent",
                    "power_w": "watt",
                    "temperature_max_c": "celsius",
                    "memory_pct": "percent",
                },
            ),
            _table("Hosts with the slowest first tokens", "slowest_hosts", "*", units={"ttft_p99_ms": "ms"}),
            _table("Hosts", "host_summary", "*", width=24),
            _table("Processes of engines and jobs", "engine_processes", "*", width=24),
        ),
        ANNOTATIONS,
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
            Panel(
                "Requests a second, by outcome",
                "requests_over_time",
                _per_s("ok", "aborted", "client_fault", "failed"),
                "reqps",
                stacked=True,
            ),
            Panel("Not ok a second, by kind", "errors_over_time", f"kind, {_per_s('requests')}", "reqps", stacked=True),
            Panel(
                "Tokens a second", "requests_over_time", _per_s("input_tokens", "cached_tokens", "output_tokens"), "cps"
            ),
            Panel(
                "Requests a second, by tenant",
                "tenants_over_time",
                f"name, {_per_s('requests')}",
                "reqps",
                params=_TOP,
                stacked=True,
            ),
            _table(
                "Models",
                "models",
                "model, requests, ok, aborted, client_fault, failed, failed_share, input_tokens, output_tokens",
                units={"failed_share": "percentunit"},
                params={**_TOP, "search": "''"},
            ),
            _table(
                "Tenants by requests",
                "tenants",
                "tenant, requests, ok, aborted, client_fault, failed, failed_share, input_tokens, cached_tokens,"
                " output_tokens",
                units={"failed_share": "percentunit"},
                params=_TOP,
            ),
            _latency_of("model", "Time to first token by model", "ttft_us_bins"),
            _latency_of("model", "End to end by model", "e2e_us_bins"),
            _latency_of("tenant", "Time to first token by tenant", "ttft_us_bins"),
            _latency_of("tenant", "End to end by tenant", "e2e_us_bins"),
        ),
        ANNOTATIONS,
    ),
    Board(
        "engines",
        "Engines",
        "The fullest engines: batch, queue, KV cache, tokens, latencies, and the thread that bounds them.",
        HOUR_MS,
        (
            Panel("Running", "engines_over_time", "name, running", params=_TOP),
            Panel("Waiting", "engines_over_time", "name, waiting", params=_TOP),
            Panel("KV cache in use", "engines_over_time", "name, kv_used", "percentunit", params=_TOP),
            Panel("Generated tokens per second", "engines_over_time", "name, generated_per_s", params=_TOP),
            Panel(
                "Time to first token, p99",
                "engines_latency_over_time",
                f"name, {_known('ttft_p99_us', 0.99, 'ttft_counted')} AS ttft_p99_us",
                "µs",
                params=_TOP,
            ),
            Panel(
                "Inter-token latency, p99",
                "engines_latency_over_time",
                f"name, {_known('itl_p99_us', 0.99, 'itl_counted')} AS itl_p99_us",
                "µs",
                params=_TOP,
            ),
            _STARVED,
            _table(
                "Engines",
                "engines",
                f"* EXCEPT (heard_ms, engines), {_when('heard_ms')} AS last_seen",
                units={"kv_used": "percentunit"},
                params={"top": "200", "search": "''"},
                width=24,
            ),
            _table("Events of engines", "engine_changes", f"{_when('at_ms')} AS at, * EXCEPT at_ms", width=24),
        ),
        ANNOTATIONS,
    ),
    Board(
        "hosts",
        "Hosts",
        "The busiest hosts: processors and the busiest core, memory, network, and what keeps GPUs waiting.",
        HOUR_MS,
        (
            Panel("Processors", "hosts_over_time", "name, cpu_busy", "percentunit", params=_TOP),
            Panel("Busiest core", "hosts_over_time", "name, core_busy_max", "percentunit", params=_TOP),
            Panel("Memory in use", "hosts_over_time", "name, memory", "percentunit", params=_TOP),
            Panel("Tasks waiting for a processor", "hosts_over_time", "name, cpu_pressure", "percentunit", params=_TOP),
            Panel("Network, sent", "hosts_over_time", "name, network_tx", "Bps", params=_TOP),
            Panel("Network, received", "hosts_over_time", "name, network_rx", "Bps", params=_TOP),
            Panel("TCP segments sent again", "hosts_over_time", "name, retransmitted", "percentunit", params=_TOP),
            _STARVED,
            _table("Hosts", "host_summary", "*", width=24),
        ),
        ANNOTATIONS,
    ),
    Board(
        "gpu",
        "GPUs",
        "Every GPU: readings, faults, throttling.",
        HOUR_MS,
        (
            Panel("Power", "fleet_over_time", "power_w", "watt"),
            Panel("Throttled", "fleet_over_time", "throttled", "percentunit"),
            _table(
                "Most utilized GPUs",
                "fleet_gpus",
                f"host, gpu_uuid, a_model, engine, value AS busy, temperature_max_c, {_when('heard_ms')} AS last_seen",
                units={"busy": "percent", "temperature_max_c": "celsius"},
                params={"total": "util_gpu_pct_sum", "known": "util_gpu_pct_count"},
                width=24,
                order="busy DESC NULLS LAST, host, gpu_uuid",
                rows_max=100,
            ),
            _table(
                "Faults",
                "gpu_faults",
                f"{_when('at_ms')} AS at, severity, kind, code, host, gpu_uuid, message, action",
                params={"gpu_uuid": "''"},
                width=24,
            ),
            _table("Links with errors or fewer lanes than possible", "gpu_links", "*", width=24),
            _table("Requests that faults touched", "requests_of_gpu_fault", "*", width=24),
        ),
        ANNOTATIONS,
    ),
    Board(
        "cost",
        "Cost",
        "The bill, what it went to, and what a million tokens cost.",
        DAY_MS,
        (
            Panel(
                "Bill", "cost_total", _usd("total", "gpu", "hosts", "energy", "idle"), "currencyUSD", "stat", width=24
            ),
            Panel(
                "What money goes to, an hour",
                "cost_over_time",
                "what, cost / 1e9 / counted_s * 3600 AS usd_an_hour",
                "currencyUSD",
                width=24,
                stacked=True,
                row_s=60,
            ),
            _table(
                "Models",
                "cost_models",
                "model, "
                + _usd("cost", "aborted", "unanswered")
                + ", per_million_in, per_million_out, kwh_per_million_out, g_per_million_out",
                units=dict.fromkeys(
                    ("cost_usd", "aborted_usd", "unanswered_usd", "per_million_in", "per_million_out"), "currencyUSD"
                ),
            ),
            _table(
                "Tenants",
                "cost_tenants",
                "tenant, " + _usd("cost", "aborted", "unanswered") + ", gpu_time_ms",
                units=dict.fromkeys(("cost_usd", "aborted_usd", "unanswered_usd"), "currencyUSD")
                | {"gpu_time_ms": "ms"},
            ),
            _table(
                "Idle and wasted",
                "cost_idle_hosts",
                "owner, what, a_gpu, gpu_time_ms, " + _usd("cost"),
                units={"cost_usd": "currencyUSD", "gpu_time_ms": "ms"},
                width=24,
            ),
            _table(
                "GPUs that do not report: __unobserved__, in no bill",
                "cost_coverage",
                "toDate(day) AS day_utc, region, gpu_model, inventory_gpu_ms, reporting_gpu_ms, silent_gpu_ms,"
                " unobserved_nusd / 1e9 AS unobserved_usd",
                units=dict.fromkeys(("inventory_gpu_ms", "reporting_gpu_ms", "silent_gpu_ms"), "ms")
                | {"unobserved_usd": "currencyUSD"},
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
            _table(
                "Age of the newest event in the tables",
                "pipeline_freshness",
                "topic, toUnixTimestamp64Milli(now64(3)) - newest_ms AS age_ms",
                units={"age_ms": "ms"},
            ),
            _table(
                "Producers' books",
                "pipeline_producers",
                f"topic, producers, written, waiting, shed, {_when('reported_ms')} AS reported",
            ),
            _table("Clocks that are off", "pipeline_clocks", "host, skew_ms", units={"skew_ms": "ms"}),
            Panel("Booked a second", "pipeline_over_time", f"topic, {_per_s('booked')}", "cps", row_s=1),
            Panel("Rejected a second", "pipeline_over_time", f"topic, {_per_s('rejected')}", "cps", row_s=1),
            Panel("Late and future a second", "pipeline_over_time", f"topic, {_per_s('untimely')}", "cps", row_s=1),
            Panel("Duplicates a second", "pipeline_over_time", f"topic, {_per_s('duplicate')}", "cps", row_s=1),
            _table(
                "Verdicts by topic",
                "pipeline_topics",
                f"* EXCEPT last_commit_ms, {_when('last_commit_ms')} AS last_commit",
                width=24,
            ),
            _table(
                "Rejected, by reason",
                "pipeline_rejected",
                f"* EXCEPT newest_ms, {_when('newest_ms')} AS newest",
                width=24,
            ),
        ),
    ),
    Board(
        "itself",
        "fleetpulse itself",
        "What Prometheus records of the processes: docs/reference/process-metrics.md has every metric.",
        HOUR_MS,
        (),
        recorded=(
            Recorded("Does not respond", 'up{job=~"fleetpulse.*"} == 0', "{{instance}}", "no line"),
            Recorded("Kept from its work", "fleetpulse_cause == 1", "{{instance}}: {{cause}}", "no line"),
            Recorded("Rebalances", "fleetpulse:rebalances:rate10m", "a second", "0"),
            Recorded("Consumer lag", "fleetpulse:job_lag_records:topic", _OF_JOB, "not growing"),
            Recorded("Consumer lag, at most", "fleetpulse:job_lag_seconds:topic", _OF_JOB, "below 10 s", "s"),
            Recorded(
                "Consumer lag of the sink",
                "sum by (namespace, topic) (fleetpulse_sink_lag_records)",
                "{{topic}}",
                "not growing",
            ),
            Recorded("Not committed", "fleetpulse:job_uncommitted_seconds:topic", _OF_JOB, "below 10 s", "s"),
            Recorded("A commit takes", "fleetpulse:job_commit_seconds:topic", "{{topic}}", "below half a second", "s"),
            Recorded("Windows are behind", "fleetpulse:windows_delay_seconds:max", "windows", "below 40 s", "s"),
            Recorded(
                "Watermark behind what was read", "fleetpulse:watermark_delay_seconds:topic", _OF_JOB, "below 10 s", "s"
            ),
            Recorded("Snapshots", "fleetpulse:snapshot_bytes:topic", _OF_JOB, "settled", "bytes"),
            Recorded("Age of snapshots", "fleetpulse:snapshot_age_seconds:topic", _OF_JOB, "below 2 min", "s"),
            Recorded("Spools", "fleetpulse:spool_bytes:sum", "bytes", "1 MB a host or less", "bytes"),
            Recorded("Oldest in a spool", "fleetpulse:spool_oldest_seconds:max", "oldest", "below 2 s", "s"),
            Recorded("Duplicates dropped", "fleetpulse:duplicates:topic", "{{topic}}", "0"),
            Recorded("Rows a second", "fleetpulse:sink_rows:table", "{{table}}", "as the fleet is busy"),
            Recorded(
                "Inserting", "fleetpulse:sink_insert_share:table", "{{table}}", "below half the time", "percentunit"
            ),
            Recorded(
                "Rows that wait", "sum by (namespace, table) (fleetpulse_sink_waiting_rows)", "{{table}}", "back to 0"
            ),
            Recorded(
                "Rollups are behind",
                "max by (namespace, level) (fleetpulse_rollup_lag_seconds)",
                "{{level}}",
                "below 2 min",
                "s",
            ),
            Recorded("Series, of what may be", "fleetpulse:series_used:set", "{{set}}", "below 80 %", "percentunit"),
            Recorded("Labels without room", "fleetpulse:labels_overflow:dimension", "{{dimension}}", "0"),
        ),
    ),
)
