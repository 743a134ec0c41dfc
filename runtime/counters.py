"""The catalogue of counters and gauges, kept in one Prometheus registry per process.

A name outside the table cannot be counted. Books balance with these: received = sent + rejected + waiting.

Inside, times are milliseconds; at the border ``edge_oldest_ms`` is ``edge_oldest_seconds`` with the value divided, as
Prometheus' naming asks (https://prometheus.io/docs/practices/naming/, 2024-05). The moments at which counters were
made are left out: they double the page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

PREFIX = "fleetpulse_"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SERIES_MAX = 1_000
"""Sets of label values per metric; those that come later are counted as ``__other__``."""
OTHER = "__other__"


@dataclass(frozen=True, slots=True)
class Metric:
    """A ``counter`` only grows; a ``gauge`` goes up and down. The unit is the end of the name."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    labels: tuple[str, ...]
    meaning: str


def _counter(name: str, unit: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(name, "counter", unit, labels, meaning)


def _gauge(name: str, unit: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(name, "gauge", unit, labels, meaning)


_BY_TOPIC = ("topic",)
_BY_PARTITION = ("topic", "partition")
_BY_TABLE = ("table",)

METRICS: tuple[Metric, ...] = (
    # edge
    _counter("edge_events", "events", _BY_TOPIC, "written to the spool"),
    _counter("edge_records_sent", "records", _BY_TOPIC, "acknowledged by the broker, each once"),
    _counter("edge_bytes_sent", "bytes", _BY_TOPIC, "of records acknowledged by the broker, before compression"),
    _counter("edge_resends", "records", _BY_TOPIC, "resent after an ambiguous response or a restart"),
    _counter(
        "edge_events_shed",
        "events",
        _BY_TOPIC,
        "dropped because the spool was full or could not be used; declared in the books",
    ),
    _counter("edge_send_errors", "errors", ("topic", "error"), "failed attempts to send; nothing is lost by them"),
    _gauge(
        "edge_publisher_down",
        "publishers",
        (),
        "1 while the spool cannot be used: events are buffered in memory, then shed",
    ),
    _counter("edge_publisher_failures", "failures", ("error",), "that ended the publisher or its opening; retried"),
    _counter("edge_sources_renewed", "spools", ("reason",), "opened as a new source: copied, restored, restarted"),
    _gauge("edge_undeliverable_records", "records", _BY_TOPIC, "that Kafka rejects; kept apart and retried"),
    _gauge("edge_undeliverable_bytes", "bytes", _BY_TOPIC, "that they take of the spool; at most a quarter of it"),
    _gauge("edge_spool_bytes", "bytes", (), "in the spool, not yet acknowledged"),
    _gauge("edge_oldest_ms", "ms", (), "age of the oldest record in the spool"),
    _gauge("edge_clock_skew_ms", "ms", (), "this host's clock less the broker's; 0: no difference is proved"),
    _counter(
        "sampler_errors",
        "errors",
        ("sampler", "field"),
        "a value that could not be read and was published as null, or a line that was left out",
    ),
    _gauge("agent_others", "agents", (), "1 while another agent runs on this host: samples count twice"),
    _counter("agent_exposition_dropped", "readings", _BY_TOPIC, "left out of /metrics: series_max was reached"),
    # requests that others bring to the agent
    _counter("receiver_datagrams", "datagrams", ("outcome",), "of the socket: taken, a farewell, or why rejected"),
    _counter("receiver_http_requests", "requests", ("status",), "responded to over HTTP, by status"),
    _counter("receiver_lost", "requests", (), "that clients report as dropped; declared in the books as shed"),
    _gauge("receiver_missing", "requests", (), "neither received nor reported as dropped; late ones are subtracted"),
    _gauge("receiver_clients", "clients", (), "whose sequence is tracked"),
    _counter("otlp_unmapped", "items", ("kind", "item"), "received by OTLP and mapped to no field"),
    _counter("export_samples", "samples", ("outcome",), "of remote write: sent, rejected by the receiver, dropped"),
    _gauge("export_window_ms", "ms", (), "end of the last window that was exported, since the epoch"),
    # proxy
    _counter(
        "proxy_requests", "requests", ("api", "status"), "ended, by the status sent to the client; none: no response"
    ),
    _counter("proxy_refused", "responses", ("reason",), "sent by the proxy itself: a limit was reached, or an error"),
    _gauge("proxy_open_requests", "requests", (), "under way, their bodies here"),
    _gauge("proxy_arriving_requests", "requests", (), "whose body is not here yet"),
    _gauge("proxy_upstream_down", "upstreams", ("upstream",), "1 while marked down: it cannot be connected to"),
    _gauge("proxy_upstream_out", "upstreams", ("upstream",), "1 while taken out: it connects and does not answer"),
    _counter("requests_without_engine", "requests", ("edge",), "of an engine that no agent knows: joined to no GPU"),
    _gauge(
        "proxy_upstream_without_usage", "upstreams", ("upstream",), "1 once it rejected stream_options: none are sent"
    ),
    _counter("proxy_reports_absorbed", "requests", (), "also reported by a plug-in or SDK: fields it added"),
    _counter("proxy_unread", "occurrences", ("reason",), "parts of responses that could not be read"),
    # jobs
    _counter("job_records", "records", _BY_TOPIC, "read and folded"),
    _counter("job_events", "events", ("topic", "verdict"), "judged, by what became of them"),
    _counter("job_records_rejected", "records", ("topic", "reason"), "unreadable as a whole, by reason"),
    _counter("job_records_duplicate", "records", _BY_TOPIC, "seen before and dropped"),
    _counter("job_commits", "transactions", _BY_TOPIC, "committed"),
    _counter("job_commit_ms", "ms", _BY_TOPIC, "time inside transactions"),
    _counter("job_output_records", "records", _BY_TOPIC, "written in transactions"),
    _counter("job_output_bytes", "bytes", _BY_TOPIC, "written in transactions"),
    _counter("job_acquires", "assignments", _BY_TOPIC, "partitions acquired"),
    _gauge("job_partitions", "partitions", (), "live now"),
    _gauge("job_lag_records", "records", _BY_PARTITION, "consumer lag"),
    _gauge(
        "job_quarantined",
        "partitions",
        ("topic", "partition", "cause"),
        "1 while the partition stands still because of damage that no restart mends; the others go on",
    ),
    _gauge("job_watermark_ms", "ms", _BY_PARTITION, "event time up to which a partition is final, since the epoch"),
    _gauge("job_series", "series", ("set", "partition"), "held in memory"),
    _gauge("job_series_max", "series", ("set", "partition"), "that may be held; later ones fall into __other__"),
    _gauge("job_label_values", "values", _BY_PARTITION, "of the label that has most, in memory"),
    _gauge("job_sources", "sources", _BY_PARTITION, "whose duplicates are recognised"),
    _gauge("job_forgotten", "ranges", _BY_PARTITION, "of seen records, forgotten at a limit: duplicates count twice"),
    _counter("job_overflow_events", "events", ("set",), "fell into __other__: no room for their series"),
    _counter("job_overflow_labels", "events", ("set", "dimension"), "that read __other__: no room for the value"),
    _counter("job_usage_assumptions", "requests", ("assumption",), "whose usage per window is partly assumed, by what"),
    # sinks
    _counter("sink_records", "records", _BY_TOPIC, "read"),
    _counter("sink_rows", "rows", _BY_TABLE, "inserted and acknowledged; again where a response was lost"),
    _counter("sink_bytes", "bytes", _BY_TABLE, "inserted and acknowledged, before compression"),
    _counter("sink_inserts", "inserts", _BY_TABLE, "acknowledged"),
    _counter("sink_insert_ms", "ms", _BY_TABLE, "time waiting for acknowledged inserts"),
    _counter("sink_rows_expired", "rows", _BY_TABLE, "older than the table's TTL; counted, not inserted"),
    _counter("sink_retries", "retries", ("table", "error"), "inserts retried; nothing is lost by them"),
    _gauge("sink_waiting_rows", "rows", _BY_TABLE, "read and not yet inserted"),
    _gauge("sink_lag_records", "records", _BY_PARTITION, "consumer lag at the last fetch"),
    _counter("rollup_buckets", "buckets", ("level", "topic"), "of rollups, computed whole and noted as done"),
    _counter("rollup_ms", "ms", ("level", "topic"), "time waiting for the statements that computed them"),
    _gauge("rollup_waiting", "buckets", ("level",), "that have ended, have changed and are not computed"),
    _gauge("rollup_lag_ms", "ms", ("level",), "since the end of the oldest of them"),
    # finals: partitions are those of window.partials
    _counter("finals_windows", "windows", ("partition",), "closed with rows in them"),
    _counter("finals_incomplete", "windows", ("partition",), "of these closed before every source had reported"),
    _counter("finals_rows", "rows", ("partition",), "finals emitted, including revisions"),
    _counter(
        "finals_late_rows", "rows", ("partition",), "that came when their window was cold: only the tables have them"
    ),
    _counter("finals_records_skipped", "records", _BY_TOPIC, "events and commands not passed on to the alert job"),
    _counter("finals_gaps", "gaps", ("partition",), "records of the windows job, missing or unreadable"),
    _counter(
        "spend_left_out", "bills", ("partition",), "older than what is kept of bills, or unreadable: budgets lack them"
    ),
    _gauge(
        "spend_unnamed", "amounts", (), "of tenants and models beyond those kept by name: budgets for all have them"
    ),
    _counter("cost_bills", "bills", ("partition",), "bills emitted, including revisions"),
    _counter("cost_final_bills", "bills", ("partition",), "of these final"),
    _counter(
        "cost_late_rows",
        "rows",
        ("partition",),
        "that came after their minute was dropped from memory: a rerate includes them",
    ),
    _counter("cost_gaps", "gaps", ("partition",), "records of the windows job, missing or unreadable"),
    _gauge("cost_held", "minutes", ("partition",), "(group, minute)s held in memory"),
    _gauge("cost_through_ms", "ms", ("partition",), "event time up to which bills were emitted, since the epoch"),
    _gauge("finals_through_ms", "ms", ("partition",), "event time up to which windows were emitted, since the epoch"),
    # every process
    _gauge("cause", "processes", ("cause",), "1 while this keeps the process from its work; a heading of the runbook"),
    _gauge("process_info", "processes", ("process",), "1; which process of fleetpulse this is"),
    _counter("errors", "errors", ("where", "error"), "caught and recovered from"),
    _counter(
        "trace_spans", "spans", ("outcome",), "ended: exported, or dropped: queue_full, refused, too_many, shutdown"
    ),
    # dashboard
    _counter("dashboard_queries", "queries", ("query", "outcome"), "answered by ClickHouse, or failed"),
    _counter("dashboard_query_ms", "ms", ("query",), "time waiting for their responses"),
    # delivery of alerts
    _counter(
        "deliver_transitions",
        "transitions",
        ("target", "what"),
        "taken = delivered + undelivered + silenced + waiting; retried: once more; over_limit: beyond open_max; "
        "excluded: not sent again for a while",
    ),
    _counter("deliver_undelivered", "transitions", ("target", "reason"), "given up and put on alerts.undelivered"),
    _counter("deliver_requests", "requests", ("target", "status"), "by status of the response; none: no response"),
    _gauge("deliver_waiting", "transitions", ("target",), "not delivered yet"),
    _gauge("deliver_oldest_ms", "ms", ("target",), "age of the oldest transition that waits"),
    _gauge("deliver_open", "alerts", ("target",), "open alerts that the target was notified of"),
    # alert job
    _gauge("alerts_open", "alerts", ("severity",), "opened and not resolved"),
    _counter("alert_transitions", "transitions", ("transition",), "published on topic alerts"),
    _counter("alert_windows", "windows", ("complete",), "judged; no: before every source had reported"),
    _counter("alert_windows_early", "windows", (), "looked at before they were judged, as a source keeps them waiting"),
    _counter("alert_windows_failed", "windows", (), "left out because judging them raised: a defect, please report it"),
    _counter("alert_late_revisions", "records", (), "of windows that were emitted or judged before: read, not judged"),
    _counter("alert_records_skipped", "records", (), "that could not be read"),
    _gauge("alert_causes_refused", "alerts", (), "never opened for lack of room, since the state was made"),
    _gauge("alert_progress_ms", "ms", (), "end of the window judged last, since the epoch"),
    # rules of the alert job: a window of a series is judged once by every rule
    _counter("insight_judged", "windows", (), "of series, whose value was known"),
    _counter("insight_unjudged", "windows", ("reason",), "of series: unknown, below_count, beyond_limit or incomplete"),
    _counter("insight_ignored", "windows", (), "not newer than the one judged before"),
    _gauge("insight_series", "series", ("rule",), "held in memory"),
    _counter("insight_series_forgotten", "series", (), "not seen for long"),
)
CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in METRICS})


@dataclass(slots=True)
class _Kept:
    metric: Metric
    collector: Counter | Gauge
    seen: set[tuple[str, ...]] = field(default_factory=set)


class Counters:
    """The counters of one process. ``add`` and ``set`` may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kept: dict[str, _Kept] = {}
        self._keeping = threading.Lock()

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        """Increase a counter by ``by`` (0 or more)."""
        self._labelled(name, "counter", labels).inc(by)

    def set(self, name: str, value: float, **labels: object) -> None:
        """Set a gauge."""
        gauge = self._labelled(name, "gauge", labels)
        assert isinstance(gauge, Gauge)
        gauge.set(value)

    def record(self, name: str, value: float, **labels: object) -> None:
        """Add ``value`` to a counter, or set a gauge to it: whichever ``name`` is."""
        (self.add if CATALOGUE[name].kind == "counter" else self.set)(name, value, **labels)

    def value(self, name: str, **labels: object) -> float:
        """What was counted so far under these labels; 0 when nothing was."""
        kind = CATALOGUE[name].kind
        sample = f"{PREFIX}{name}" + ("_total" if kind == "counter" else "")
        values = {label: str(value) for label, value in labels.items()}
        return self.registry.get_sample_value(sample, values) or 0.0

    def readings(self) -> list[tuple[str, dict[str, str], float]]:
        """Name, labels and value of everything that was counted or set, in no order."""
        return [
            (name, sample.labels, sample.value)
            for name, kept in list(self._kept.items())
            for family in kept.collector.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]

    def render(self) -> bytes:
        """All of them in the Prometheus text format, under Prometheus' names and in its units."""
        return exposition(self.registry)

    def _labelled(self, name: str, kind: str, labels: Mapping[str, object]) -> Counter | Gauge:
        kept = self._kept.get(name) or self._keep(name)
        metric = kept.metric
        assert metric.kind == kind, f"{name} is a {metric.kind}"
        if not metric.labels:
            return kept.collector
        values = tuple(str(labels[label]) for label in metric.labels)
        if values not in kept.seen:
            if len(kept.seen) >= SERIES_MAX:
                values = (OTHER,) * len(values)
            else:
                kept.seen.add(values)
        return kept.collector.labels(*values)

    def _keep(self, name: str) -> _Kept:
        assert name in CATALOGUE, f"{name} is not in the catalogue of counters"
        metric = CATALOGUE[name]
        make = Counter if metric.kind == "counter" else Gauge
        with self._keeping:
            if name not in self._kept:
                text = f"{metric.meaning} ({metric.unit})"
                self._kept[name] = _Kept(metric, make(PREFIX + name, text, metric.labels, registry=self.registry))
            return self._kept[name]


COUNTERS = Counters()
"""This process's counters."""


MS_PER_S = 1_000


def exposition(registry: CollectorRegistry) -> bytes:
    """The text that ``/metrics`` answers."""
    return bytes(generate_latest(_Border(registry)))


def exported_name(name: str) -> str:
    """Prometheus' name of one of our counters, without prefix and ``_total``."""
    return f"{name.removesuffix('_ms')}_seconds" if name.endswith("_ms") else name


class _Border:
    """What ``generate_latest`` needs of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            yield _renamed(family)


def _renamed(family: Family) -> Family:
    name = exported_name(family.name)
    scale = 1 if name == family.name else MS_PER_S
    text = family.documentation if scale == 1 else family.documentation.removesuffix("(ms)") + "(seconds)"
    renamed = Family(name, text, family.type)
    renamed.samples = [
        Sample(name + sample.name.removeprefix(family.name), sample.labels, sample.value / scale)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    return renamed
