"""Every figure a process tells about itself, in one table; kept in one Prometheus registry per process.

A name outside the table cannot be counted. Books balance with these: received = sent + rejected + waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from runtime.exposition import exposition

PREFIX = "fleetpulse_"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SERIES_MAX = 1_000
"""Sets of label values per metric; those that come later are counted as ``__other__``."""
OTHER = "__other__"


@dataclass(frozen=True, slots=True)
class Metric:
    """A ``total`` only grows; a ``level`` goes up and down. The unit is the end of the name."""

    name: str
    kind: Literal["total", "level"]
    unit: str
    labels: tuple[str, ...]
    meaning: str


def _total(name: str, unit: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(name, "total", unit, labels, meaning)


def _level(name: str, unit: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(name, "level", unit, labels, meaning)


_BY_TOPIC = ("topic",)
_BY_PARTITION = ("topic", "partition")
_BY_TABLE = ("table",)

METRICS: tuple[Metric, ...] = (
    # edge
    _total("edge_events", "events", _BY_TOPIC, "written to the spool"),
    _total("edge_records_sent", "records", _BY_TOPIC, "acknowledged by the broker, each once"),
    _total("edge_bytes_sent", "bytes", _BY_TOPIC, "of records acknowledged by the broker, before compression"),
    _total("edge_resends", "records", _BY_TOPIC, "handed to the broker again, after a doubt or a restart"),
    _total("edge_events_shed", "events", _BY_TOPIC, "dropped because the spool was full; declared in the books"),
    _total("edge_send_errors", "errors", ("topic", "error"), "failed attempts to send; nothing is lost by them"),
    _level("edge_spool_bytes", "bytes", (), "in the spool, not yet acknowledged"),
    _level("edge_oldest_ms", "ms", (), "age of the oldest record in the spool"),
    _total(
        "sampler_errors",
        "errors",
        ("sampler", "field"),
        "a figure that could not be read and went out as null, or a line that could not and was left out",
    ),
    # requests that others bring to the agent
    _total("receiver_datagrams", "datagrams", ("outcome",), "of the socket: taken, a farewell, or why refused"),
    _total("receiver_http_requests", "requests", ("status",), "answered over HTTP, by status"),
    _total("receiver_lost", "requests", (), "that clients say they dropped; declared in the books as shed"),
    _level("receiver_missing", "requests", (), "neither come nor declared by clients; what comes late is taken off"),
    _level("receiver_clients", "clients", (), "whose numbering is followed"),
    _total("otlp_unmapped", "items", ("kind", "item"), "brought by OTLP and kept in no field of ours"),
    # proxy
    _total("proxy_requests", "requests", ("api", "status"), "ended, by what the client was answered; none: nothing"),
    _total("proxy_refused", "answers", ("reason",), "of the proxy's own: a limit that was reached, or an error's code"),
    _level("proxy_open_requests", "requests", (), "under way"),
    _level("proxy_upstream_down", "upstreams", ("upstream",), "1 from the failure that took it down until it is back"),
    _total("proxy_unread", "occurrences", ("reason",), "what of answers could not be read for the figures"),
    # jobs
    _total("job_records", "records", _BY_TOPIC, "read and folded"),
    _total("job_events", "events", ("topic", "verdict"), "judged, by what became of them"),
    _total("job_records_rejected", "records", ("topic", "reason"), "unreadable as a whole, by reason"),
    _total("job_records_duplicate", "records", _BY_TOPIC, "seen before and dropped"),
    _total("job_commits", "transactions", _BY_TOPIC, "committed"),
    _total("job_commit_ms", "ms", _BY_TOPIC, "time inside transactions"),
    _total("job_output_records", "records", _BY_TOPIC, "written in transactions"),
    _total("job_output_bytes", "bytes", _BY_TOPIC, "written in transactions"),
    _total("job_acquires", "assignments", _BY_TOPIC, "partitions taken over"),
    _level("job_partitions", "partitions", (), "live now"),
    _level("job_lag_records", "records", _BY_PARTITION, "behind the end of the partition"),
    _level("job_watermark_ms", "ms", _BY_PARTITION, "event time up to which a partition is final, since the epoch"),
    _level("job_series", "series", ("set", "partition"), "held in memory"),
    _level("job_words", "words", _BY_PARTITION, "distinct values of the dimension that has most, held in memory"),
    _level("job_sources", "sources", _BY_PARTITION, "whose records are told from re-sends"),
    _level("job_forgotten", "ranges", _BY_PARTITION, "of seen records, forgotten at a limit: re-sends count twice"),
    _total("job_overflow_events", "events", ("set",), "fell into __other__ because a grouping set was full"),
    _total("job_usage_doubts", "requests", ("doubt",), "of whose usage by window something had to be assumed"),
    # sinks
    _total("sink_records", "records", _BY_TOPIC, "read"),
    _total("sink_rows", "rows", _BY_TABLE, "inserted and acknowledged; again where an answer was lost"),
    _total("sink_bytes", "bytes", _BY_TABLE, "inserted and acknowledged, before compression"),
    _total("sink_inserts", "inserts", _BY_TABLE, "acknowledged"),
    _total("sink_insert_ms", "ms", _BY_TABLE, "time waiting for acknowledged inserts"),
    _total("sink_rows_expired", "rows", _BY_TABLE, "older than the table's TTL when they came; counted, not inserted"),
    _total("sink_retries", "retries", ("table", "error"), "inserts tried again; nothing is lost by them"),
    _level("sink_waiting_rows", "rows", _BY_TABLE, "read and not yet inserted"),
    _level("sink_lag_records", "records", _BY_PARTITION, "behind the end of the partition at the last fetch"),
    # finals: partitions are those of window.partials
    _total("finals_windows", "windows", ("partition",), "closed with rows in them"),
    _total("finals_incomplete", "windows", ("partition",), "of these closed without having heard of every source"),
    _total("finals_rows", "rows", ("partition",), "told: first, and again because they changed"),
    _total(
        "finals_late_rows", "rows", ("partition",), "that came when their window was cold: only the tables have them"
    ),
    _total("finals_gaps", "gaps", ("partition",), "records of the windows job that were missing or could not be read"),
    _total(
        "spend_left_out", "bills", ("partition",), "older than what is kept of bills, or unreadable: budgets lack them"
    ),
    _level(
        "spend_unnamed", "amounts", (), "of tenants and models beyond those kept by name: budgets for all have them"
    ),
    _total("cost_bills", "bills", ("partition",), "told by the cost job: first, and again because they changed"),
    _total("cost_final_bills", "bills", ("partition",), "of these final"),
    _total("cost_late_rows", "rows", ("partition",), "that came after their minute was forgotten: rerate takes them"),
    _total("cost_gaps", "gaps", ("partition",), "records of the windows job that were missing or could not be read"),
    _level("cost_held", "minutes", ("partition",), "(group, minute)s held in memory"),
    _level("cost_through_ms", "ms", ("partition",), "event time up to which bills were told, since the epoch"),
    _level("finals_through_ms", "ms", ("partition",), "event time up to which windows were told, since the epoch"),
    # every process
    _total("errors", "errors", ("where", "error"), "caught and recovered from"),
    _total(
        "trace_spans", "spans", ("outcome",), "ended: exported, or dropped: queue_full, refused, too_many, shutdown"
    ),
    # dashboard
    _total("dashboard_queries", "queries", ("query", "outcome"), "answered by ClickHouse, or failed"),
    _total("dashboard_query_ms", "ms", ("query",), "time waiting for their answers"),
    # delivery of alerts
    _total(
        "deliver_transitions",
        "transitions",
        ("target", "what"),
        "taken = delivered + undelivered + held (muted) + waiting; retried: once more; not_kept: beyond open_max; "
        "left_out: not told again for a while",
    ),
    _total("deliver_undelivered", "transitions", ("target", "reason"), "given up and put on alerts.undelivered"),
    _total("deliver_requests", "requests", ("target", "status"), "by status of the answer; none: no answer"),
    _level("deliver_waiting", "transitions", ("target",), "not delivered yet"),
    _level("deliver_oldest_ms", "ms", ("target",), "age of the oldest transition that waits"),
    _level("deliver_open", "alerts", ("target",), "open alerts that the target knows"),
    # alert job
    _level("alerts_open", "alerts", ("severity",), "opened and not resolved"),
    _total("alert_transitions", "transitions", ("transition",), "told on topic alerts"),
    _total("alert_windows", "windows", ("complete",), "judged; no: without having heard of every source"),
    _total("alert_windows_failed", "windows", (), "left out because judging them raised: a defect, please report it"),
    _total("alert_late_revisions", "records", (), "of windows that were told or judged before: read, not judged"),
    _total("alert_records_skipped", "records", (), "that could not be read"),
    _level("alert_causes_refused", "alerts", (), "never opened for lack of room, since the state was made"),
    _level("alert_progress_ms", "ms", (), "end of the window judged last, since the epoch"),
    # rules of the alert job: a window of a series is judged once by every rule
    _total("insight_judged", "windows", (), "of series, whose value was known"),
    _total("insight_unjudged", "windows", ("reason",), "of series: unknown, below_count, beyond_limit or incomplete"),
    _total("insight_ignored", "windows", (), "not newer than the one judged before"),
    _level("insight_series", "series", ("rule",), "held in memory"),
    _total("insight_series_forgotten", "series", (), "not seen for long"),
)
CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in METRICS})


@dataclass(slots=True)
class _Kept:
    metric: Metric
    collector: Counter | Gauge
    seen: set[tuple[str, ...]] = field(default_factory=set)


class Counters:
    """The figures of one process. ``add`` and ``set`` may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kept: dict[str, _Kept] = {}
        self._keeping = threading.Lock()

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        """Let a total grow by ``by`` (0 or more)."""
        self._labelled(name, "total", labels).inc(by)

    def set(self, name: str, value: float, **labels: object) -> None:
        """Set a level."""
        level = self._labelled(name, "level", labels)
        assert isinstance(level, Gauge)
        level.set(value)

    def value(self, name: str, **labels: object) -> float:
        """What was counted so far under these labels; 0 when nothing was."""
        kind = CATALOGUE[name].kind
        sample = f"{PREFIX}{name}" + ("_total" if kind == "total" else "")
        told = {label: str(value) for label, value in labels.items()}
        return self.registry.get_sample_value(sample, told) or 0.0

    def render(self) -> bytes:
        """All figures in the Prometheus text format, under Prometheus' names and in its units."""
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
        make = Counter if metric.kind == "total" else Gauge
        with self._keeping:
            if name not in self._kept:
                told = f"{metric.meaning} ({metric.unit})"
                self._kept[name] = _Kept(metric, make(PREFIX + name, told, metric.labels, registry=self.registry))
            return self._kept[name]


COUNTERS = Counters()
"""This process's figures."""
