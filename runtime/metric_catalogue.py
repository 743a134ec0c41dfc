"""The catalogue: every counter and gauge of every process, what it counts and what is normal.

Names are those inside, where times are milliseconds; ``counters`` has the border, at which they are Prometheus'.
``docs/reference/process-metrics.md`` is written from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """A ``counter`` only grows; a ``gauge`` goes up and down. The unit is the end of the name."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    labels: tuple[str, ...]
    meaning: str
    normal: str
    """What it is like while all is well."""


def _counter(name: str, unit: str, labels: tuple[str, ...], meaning: str, normal: str) -> Metric:
    return Metric(name, "counter", unit, labels, meaning, normal)


def _gauge(name: str, unit: str, labels: tuple[str, ...], meaning: str, normal: str) -> Metric:
    return Metric(name, "gauge", unit, labels, meaning, normal)


_BY_TOPIC = ("topic",)
_BY_PARTITION = ("topic", "partition")
_BY_TABLE = ("table",)

# fmt: off
METRICS: tuple[Metric, ...] = (
    # edge
    _counter("edge_events", "events", _BY_TOPIC, "written to the spool", "grows with what the host does"),
    _counter("edge_records_sent", "records", _BY_TOPIC, "acknowledged by the broker, each once",
             "grows with what the host does"),
    _counter("edge_bytes_sent", "bytes", _BY_TOPIC, "of records acknowledged by the broker, before compression",
             "grows with what the host does"),
    _counter("edge_resends", "records", _BY_TOPIC, "resent after an ambiguous response or a restart",
             "rare: restarts, brokers that change leaders"),
    _counter("edge_events_shed", "events", _BY_TOPIC,
             "dropped because the spool was full or could not be used; declared in the books",
             "0; anything else is loss"),
    _counter("edge_send_errors", "errors", ("topic", "error"), "failed attempts to send; nothing is lost by them",
             "rare; grows while Kafka is unavailable"),
    _gauge("edge_publisher_down", "publishers", (),
           "1 while the spool cannot be used: events are buffered in memory, then shed", "0"),
    _counter("edge_publisher_failures", "failures", ("error",), "that ended the publisher or its opening; retried",
             "0"),
    _counter("edge_sources_renewed", "spools", ("reason",), "opened as a new source: copied, restored, restarted",
             "one for a new disk or a copied host, else none"),
    _gauge("edge_undeliverable_records", "records", _BY_TOPIC, "that Kafka rejects; kept apart and retried", "0"),
    _gauge("edge_undeliverable_bytes", "bytes", _BY_TOPIC, "that they take of the spool; at most a quarter of it", "0"),
    _gauge("edge_spool_bytes", "bytes", (), "in the spool, not yet acknowledged",
           "below 1 MB; grows while Kafka is unavailable, up to limits.spool_bytes_max"),
    _gauge("edge_oldest_ms", "ms", (), "age of the oldest record in the spool", "below 2 s"),
    _gauge("edge_clock_skew_ms", "ms", (), "this host's clock less the broker's; 0: no difference is proved",
           "0; below 1 s either way"),
    _counter("sampler_errors", "errors", ("sampler", "field"),
             "a value that could not be read and was published as null, or a line that was left out",
             "none, or a few when drivers or processes change"),
    _gauge("agent_others", "agents", (), "1 while another agent runs on this host: samples count twice", "0"),
    _counter("agent_exposition_dropped", "readings", _BY_TOPIC, "left out of /metrics: series_max was reached",
             "0: else the agent's exposition.series_max is too low for the host"),
    # requests that others bring to the agent
    _counter("receiver_datagrams", "datagrams", ("outcome",),
             "of the socket: taken, a farewell, a claim, or why rejected", "nearly all taken"),
    _counter("receiver_http_requests", "requests", ("status",), "responded to over HTTP, by status",
             "nearly all 200 and 202"),
    _counter("receiver_lost", "requests", (), "that clients report as dropped; declared in the books as shed",
             "0; anything else is loss"),
    _gauge("receiver_missing", "requests", (), "neither received nor reported as dropped; late ones are subtracted",
           "0, or a few that are still on their way"),
    _gauge("receiver_clients", "clients", (), "whose sequence is tracked", "processes of the host that send"),
    _counter("otlp_unmapped", "items", ("kind", "item"), "received by OTLP and mapped to no field",
             "grows where senders know more than fleetpulse"),
    _counter("export_samples", "samples", ("outcome",), "of remote write: sent, rejected by the receiver, dropped",
             "all sent"),
    _gauge("export_window_ms", "ms", (), "end of the last window that was exported, since the epoch",
           "remote_write.settle_ms and one window behind now"),
    # proxy
    _counter("proxy_requests", "requests", ("api", "status"),
             "ended, by the status sent to the client; none: no response", "grows with traffic; mostly 200"),
    _counter("proxy_refused", "responses", ("reason",), "sent by the proxy itself: a limit was reached, or an error",
             "0, or what your limits are for"),
    _gauge("proxy_open_requests", "requests", (), "under way, their bodies here", "below proxy.open_requests_max"),
    _gauge("proxy_arriving_requests", "requests", (), "whose body is not here yet", "near 0"),
    _gauge("proxy_upstream_down", "upstreams", ("upstream",), "1 while marked down: it cannot be connected to", "0"),
    _gauge("proxy_upstream_out", "upstreams", ("upstream",), "1 while taken out: it connects and does not answer", "0"),
    _counter("requests_without_engine", "requests", ("edge",), "of an engine that no agent knows: joined to no GPU",
             "0 where an agent runs on the engine's host"),
    _gauge("proxy_upstream_without_usage", "upstreams", ("upstream",),
           "1 once it rejected stream_options: none are sent", "0; 1 with engines that know no stream_options"),
    _counter("proxy_reports_absorbed", "requests", (), "also reported by a plug-in or SDK: fields it added",
             "grows where a plug-in or the SDK reports the same requests"),
    _counter("proxy_unread", "occurrences", ("reason",), "parts of responses that could not be read", "0, or rare"),
    # jobs
    _counter("job_records", "records", _BY_TOPIC, "read and folded", "grows with what is sent"),
    _counter("job_events", "events", ("topic", "verdict"), "judged, by what became of them",
             "nearly all accepted; late and future below 1 %"),
    _counter("job_records_rejected", "records", ("topic", "reason"), "unreadable as a whole, by reason", "0"),
    _counter("job_records_duplicate", "records", _BY_TOPIC, "seen before and dropped",
             "rare: after restarts of edges and brokers"),
    _counter("job_commits", "transactions", _BY_TOPIC, "committed", "one in 1 to 5 s for a partition that is read"),
    _counter("job_commit_ms", "ms", _BY_TOPIC, "time inside transactions", "below half a second for a commit"),
    _counter("job_output_records", "records", _BY_TOPIC, "written in transactions", "grows with what is sent"),
    _counter("job_output_bytes", "bytes", _BY_TOPIC, "written in transactions", "grows with what is sent"),
    _counter("job_acquires", "assignments", _BY_TOPIC, "partitions acquired",
             "the partitions of the worker, once for every rebalance"),
    _counter("job_rebalances", "rebalances", (), "after which partitions went live",
             "one at start, and one when workers come or go"),
    _gauge("job_partitions", "partitions", (), "live now", "all partitions of what is read, over the workers"),
    _gauge("job_lag_records", "records", _BY_PARTITION,
           "consumer lag; markers of transactions do not count at the end of an idle partition",
           "what comes in 5 s; not growing"),
    _gauge("job_read_ms", "ms", _BY_PARTITION, "when the record read last was appended, since the epoch",
           "5 s behind now where something comes; else since something came"),
    _gauge("job_committed_ms", "ms", _BY_PARTITION, "when it was committed last, since the epoch",
           "5 s behind now where something comes; up to 6 h where nothing does"),
    _gauge("job_snapshot_ms", "ms", _BY_PARTITION, "when its last snapshot was complete, since the epoch",
           "below 2 min behind now where something comes"),
    _gauge("job_snapshot_bytes", "bytes", _BY_PARTITION, "of the last complete snapshot",
           "150 bytes a series, 1 KB a source; settled after the allowed lateness"),
    _gauge("job_quarantined", "partitions", ("topic", "partition", "cause"),
           "1 while the partition stands still because of damage that no restart mends; the others go on", "0"),
    _gauge("job_watermark_ms", "ms", _BY_PARTITION, "event time up to which a partition is final, since the epoch",
           "limits.out_of_orderness_ms and 5 s behind now where something comes; else since something came"),
    _gauge("job_series", "series", ("set", "partition"), "held in memory", "settled; below 80 % of job_series_max"),
    _gauge("job_series_max", "series", ("set", "partition"), "that may be held; later ones fall into __other__",
           "limits.process_series_max in equal parts, limits.series_max at most"),
    _gauge("job_label_values", "values", _BY_PARTITION, "of the label that has most, in memory",
           "settled; below limits.label_cardinality_max"),
    _gauge("job_sources", "sources", _BY_PARTITION, "whose duplicates are recognised",
           "spools that sent within limits.source_expiry_ms (48 h)"),
    _gauge("job_forgotten", "ranges", _BY_PARTITION, "of seen records, forgotten at a limit: duplicates count twice",
           "0"),
    _counter("job_overflow_events", "events", ("set",), "fell into __other__: no room for their series", "0"),
    _counter("job_overflow_labels", "events", ("set", "dimension"), "that read __other__: no room for the value", "0"),
    _counter("job_usage_assumptions", "requests", ("assumption",), "whose usage per window is partly assumed, by what",
             "few; engines that report no token times"),
    # sinks
    _counter("sink_records", "records", _BY_TOPIC, "read", "grows with what jobs write"),
    _counter("sink_rows", "rows", _BY_TABLE, "inserted and acknowledged; again where a response was lost",
             "grows with what jobs write"),
    _counter("sink_bytes", "bytes", _BY_TABLE, "inserted and acknowledged, before compression",
             "grows with what jobs write"),
    _counter("sink_inserts", "inserts", _BY_TABLE, "acknowledged", "one in 1 to 10 s for a table that gets rows"),
    _gauge("sink_inserted_ms", "ms", _BY_TABLE, "when an insert was acknowledged last, since the epoch",
           "10 s behind now for a table that gets rows"),
    _counter("sink_insert_ms", "ms", _BY_TABLE, "time waiting for acknowledged inserts", "below half of the time"),
    _counter("sink_rows_expired", "rows", _BY_TABLE, "older than the table's TTL; counted, not inserted", "0"),
    _counter("sink_retries", "retries", ("table", "error"), "inserts retried; nothing is lost by them",
             "0, or a few while ClickHouse restarts"),
    _gauge("sink_waiting_rows", "rows", _BY_TABLE, "read and not yet inserted", "goes back to 0 with every insert"),
    _counter("sink_missing_records", "records", _BY_PARTITION,
             "deleted by retention before they were read, markers included: the tables lack them", "0"),
    _gauge("sink_lag_records", "records", _BY_PARTITION, "consumer lag at the last fetch",
           "what comes in 10 s; not growing"),
    _counter("rollup_buckets", "buckets", ("level", "topic"), "of rollups, computed whole and noted as done",
             "grows: a bucket of each level and topic for each of its periods"),
    _counter("rollup_ms", "ms", ("level", "topic"), "time waiting for the statements that computed them",
             "below half of the time"),
    _gauge("rollup_waiting", "buckets", ("level",), "that have ended, have changed and are not computed",
           "few; shrinks after an outage by itself"),
    _gauge("rollup_lag_ms", "ms", ("level",), "since the end of the oldest of them",
           "below 2 min of the minute, a period of the others"),
    # finals: partitions are those of window.partials
    _counter("finals_windows", "windows", ("partition",), "closed with rows in them",
             "one in 10 s for each partition that has rows"),
    _counter("finals_incomplete", "windows", ("partition",), "of these closed before every source had reported",
             "0, or rare: restarts of windows workers"),
    _counter("finals_rows", "rows", ("partition",), "finals emitted, including revisions", "grows with series"),
    _counter("finals_late_rows", "rows", ("partition",),
             "that came when their window was cold: only the tables have them", "rare: senders that were cut off"),
    _counter("finals_records_skipped", "records", _BY_TOPIC, "events and commands not passed on to the alert job", "0"),
    _counter("finals_gaps", "gaps", ("partition",), "records of the windows job, missing or unreadable", "0"),
    _counter("spend_left_out", "bills", ("partition",),
             "older than what is kept of bills, or unreadable: budgets lack them", "0"),
    _gauge("spend_unnamed", "amounts", (), "of tenants and models beyond those kept by name: budgets for all have them",
           "0"),
    _counter("cost_bills", "bills", ("partition",), "bills emitted, including revisions",
             "grows: an engine and minute each, and revisions"),
    _counter("cost_bills_failed", "bills", ("partition",),
             "of a group and minute, left out because making them raised: a defect, please report it", "0"),
    _counter("cost_final_bills", "bills", ("partition",), "of these final",
             "grows as bills, 15 min 2 s later"),
    _counter("cost_late_rows", "rows", ("partition",),
             "that came after their minute was dropped from memory, or with cost_held at its most: a rerate has them",
             "rare: senders that were cut off"),
    _counter("cost_unpriced_ms", "ms", ("gpu_model",), "GPU time in bills, with revisions, that has no price", "0"),
    _counter("cost_gaps", "gaps", ("partition",),
             "records of the windows job, missing or unreadable: bills lack them, rate these minutes again", "0"),
    _gauge("cost_held", "minutes", ("partition",), "(group, minute)s held in memory, 500,000 at most",
           "settled: engines times the minutes that may still change, 27; far below its most"),
    _gauge("cost_through_ms", "ms", ("partition",), "event time up to which bills were emitted, since the epoch",
           "below 40 s behind now"),
    _gauge("finals_through_ms", "ms", ("partition",), "event time up to which windows were emitted, since the epoch",
           "below 40 s behind now"),
    # every process
    _gauge("cause", "processes", ("cause",), "1 while this keeps the process from its work; a heading of the runbook",
           "0"),
    _gauge("process_info", "processes", ("process",), "1; which process of fleetpulse this is", "1"),
    _gauge("build_info", "processes", ("process", "version"), "1; which version of fleetpulse it runs",
           "one version but for an upgrade"),
    _gauge("process_start_ms", "ms", ("process",), "when it started, since the epoch", "changes with a restart"),
    _counter("errors", "errors", ("where", "error"), "caught and recovered from", "rare"),
    _counter("trace_spans", "spans", ("outcome",),
             "ended: exported, or dropped: queue_full, refused, too_many, shutdown",
             "exported, where there is a collector"),
    # dashboard
    _counter("dashboard_queries", "queries", ("query", "outcome"), "answered by ClickHouse, or failed",
             "outcome ok but for a few"),
    _counter("dashboard_query_ms", "ms", ("query",), "time waiting for their responses", "below a second for a query"),
    # delivery of alerts
    _counter("deliver_transitions", "transitions", ("target", "what"),
             "taken = delivered + undelivered + silenced + waiting; retried: once more; over_limit: beyond open_max; "
             "excluded: not sent again for a while",
             "taken = delivered but for silenced ones"),
    _counter("deliver_undelivered", "transitions", ("target", "reason"), "given up and put on alerts.undelivered", "0"),
    _counter("deliver_requests", "requests", ("target", "status"), "by status of the response; none: no response",
             "nearly all 200 to 204"),
    _gauge("deliver_waiting", "transitions", ("target",), "not delivered yet", "0 but for seconds"),
    _gauge("deliver_oldest_ms", "ms", ("target",),
           "for how long the oldest transition waits; one that a silence held, from its end on", "below 10 s"),
    _gauge("deliver_open", "alerts", ("target",), "open alerts that the target was notified of",
           "open alerts but for silenced ones"),
    # alert job
    _gauge("alerts_open", "alerts", ("severity",), "opened and not resolved", "0 in a healthy fleet"),
    _counter("alert_transitions", "transitions", ("transition",), "published on topic alerts", "few an hour"),
    _counter("alert_windows", "windows", ("complete",), "judged; no: before every source had reported",
             "one in 10 s, all complete"),
    _counter("alert_windows_early", "windows", (), "looked at before they were judged, as a source keeps them waiting",
             "0, or rare: a partition that is late"),
    _counter("alert_windows_failed", "windows", (), "left out because judging them raised: a defect, please report it",
             "0"),
    _counter("alert_late_revisions", "records", (), "of windows that were emitted or judged before: read, not judged",
             "rare: senders that were cut off"),
    _gauge("alert_strange_records", "records", (), "of upstreams beyond those of the configuration, since the state was"
           " made: [partitions] is not that of the other jobs", "0"),
    _counter("alert_records_skipped", "records", (), "that could not be read", "0"),
    _gauge("alert_causes_refused", "alerts", (), "never opened for lack of room, since the state was made", "0"),
    _gauge("alert_progress_ms", "ms", (), "end of the window judged last, since the epoch", "below 40 s behind now"),
    # rules of the alert job: a window of a series is judged once by every rule
    _counter("insight_judged", "windows", (), "of series, whose value was known", "grows with series and windows"),
    _counter("insight_unjudged", "windows", ("reason",), "of series: unknown, below_count, beyond_limit or incomplete",
             "grows where series have little traffic"),
    _counter("insight_ignored", "windows", (), "not newer than the one judged before", "rare"),
    _gauge("insight_series", "series", ("rule",), "held in memory", "settled; series that a rule watches"),
    _counter("insight_series_forgotten", "series", (), "not seen for long", "rare"),
)
# fmt: on
CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in METRICS})
