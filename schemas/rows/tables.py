"""Rows between our own processes: partials, books, rejected, exemplars, alerts, usage, shares, as field tables.

Partials of an event type: one row per (window, grouping set, series) and commit, additive. Columns follow from the
event's own table:

- every sketch ``x``: ``x_count``, ``x_sum``, ``x_min``, ``x_max``, ``x_bins``;
- every gauge ``x``: ``x_count``, ``x_sum``, ``x_min``, ``x_max``, ``x_last``; and ``x_bins`` of a distributed one;
- every difference ``x``, computed ones included: ``x_sum`` (null while none was known);
- ready-made bins keep their name.

Merge rules: counts, sums and bins add; min and max take the extreme; ``last_at_ms`` takes the greatest and the
``_last`` columns come from the row with the greatest (last_at_ms, value). All whole numbers, so any order gives the
same bytes.
"""

from __future__ import annotations

from dataclasses import replace

from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.events.grouping import derived_of, sets_of
from schemas.fields import Event, Field, Kind, Role
from schemas.fields import Table as Table
from schemas.rows.costs import COSTS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.usage import USAGE

DEFINITION_VERSION = 1
"""Version of the metric definitions (schemas/events/metrics.py) that these rows follow. How a percentile is read off
their bins is no part of it: rows of any age are read in one way."""


def _count(name: str, meaning: str) -> Field:
    return Field(name, Kind.UINT64, Role.DIFFERENCE, "", meaning)


def _whole(name: str, unit: str, meaning: str) -> Field:
    return Field(name, Kind.OPTIONAL_INT64, Role.ATTRIBUTE, unit, meaning)


def _measures(field: Field) -> list[Field]:
    name, unit = field.name, field.unit
    if field.role is Role.DIFFERENCE:
        return [_whole(f"{name}_sum", unit, f"sum of: {field.meaning}")]
    columns = [
        replace(_count(f"{name}_count", f"values of {name} that were known"), may_be_absent=True),
        Field(f"{name}_sum", Kind.INT64, Role.DIFFERENCE, unit, f"sum of: {field.meaning}", may_be_absent=True),
        _whole(f"{name}_min", unit, f"least: {field.meaning}"),
        _whole(f"{name}_max", unit, f"greatest: {field.meaning}"),
    ]
    if field.role is Role.GAUGE:
        columns.append(_whole(f"{name}_last", unit, f"latest: {field.meaning}"))
    return columns


def _computed(name: str, unit: str, meaning: str) -> Field:
    return Field(name, Kind.OPTIONAL_UINT64, Role.DIFFERENCE, unit, meaning)


COMPUTED: dict[str, tuple[Field, ...]] = {
    "llm.requests": (
        _computed("judged_requests", "requests", "requests that count for the objectives of their class"),
        _computed("good_requests", "requests", "of these, those that ended well and met all objectives of their class"),
        _computed("good_tokens", "tokens", "prompt and generated tokens of good requests, where known"),
    )
}
"""Differences that no event carries: the windows job computes them of each event as it is folded, by topic. Requests
are judged by the SLO classes of the rules that are configured at that moment; null where no class applies."""


def partials_of(event: Event) -> Table:
    """The partials table of an event type; named after its topic (``llm.requests`` -> ``llm_requests_partials``)."""
    name = event.topic.replace(".", "_") + "_partials"
    fields = [
        Field("window_ms", Kind.INT64, Role.TIME, "ms", "start of the 10 s window, event time, UTC"),
        _count("event_count", "events in this row"),
        Field("last_at_ms", Kind.INT64, Role.ATTRIBUTE, "ms", "greatest event time in this row"),
        Field("definition_version", Kind.UINT32, Role.ATTRIBUTE, "", "version of the metric definitions"),
    ]
    for field in (*event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE), *COMPUTED.get(event.topic, ())):
        fields += _measures(field)
    fields.append(Field("grouping", Kind.LABEL, Role.DIMENSION, "", "name of the grouping set", required=True))
    fields += event.of(Role.DIMENSION)
    fields += [Field(d.name, Kind.LABEL, Role.DIMENSION, "", d.meaning) for d in derived_of(event.topic)]
    fields += [
        Field(f"{f.name}_bins", Kind.BINS, Role.SKETCH_BINS, f.unit, f"sketch of: {f.meaning}")
        for f in event.of(Role.SKETCH, Role.GAUGE)
        if f.role is Role.SKETCH or f.distributed
    ]
    fields += event.of(Role.SKETCH_BINS)
    return Table(name, f"{name}/{event.version}", f"additive 10 s rows of {event.topic}", tuple(fields))


PARTIALS: dict[str, Table] = {event.topic: partials_of(event) for event in EVENTS}
"""Partials table by source topic. Records of a topic without grouping sets carry progress and no rows."""

GROUPED: tuple[Event, ...] = tuple(event for event in EVENTS if sets_of(event.topic))
"""Event types that are aggregated: they have a partials table and rollups in the database."""


def _number(name: str, meaning: str, unit: str = "") -> Field:
    return Field(name, Kind.UINT64, Role.ATTRIBUTE, unit, meaning)


def _optional(name: str, meaning: str) -> Field:
    return Field(name, Kind.OPTIONAL_UINT64, Role.ATTRIBUTE, "", meaning)


def _name(name: str, meaning: str) -> Field:
    return Field(name, Kind.LABEL, Role.DIMENSION, "", meaning)


BOOKS = Table(
    "books",
    "books/1",
    "per commit of a job: what became of the events of offsets [offset_from, offset_to), by source and verdict",
    (
        Field("committed_ms", Kind.INT64, Role.TIME, "ms", "wall clock of the owner at the commit"),
        _number("partition", "source partition"),
        _number("offset_from", "first source offset of the commit"),
        _number("offset_to", "first source offset after the commit"),
        _number("boot", "boot of the source; 0 without identity"),
        _number("verdict", "0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate"),
        _number("records", "records with an event of this verdict (of the source and boot)"),
        _number("events", "events of this verdict"),
        _name("job", "who committed"),
        _name("topic", "source topic"),
        _name("source", "spool id of the sender; null without identity"),
    ),
)
"""A commit that covered offsets but no events still writes one row with verdict 0 and zero counts."""

PRODUCER_BOOKS = Table(
    "producer_books",
    "producer_books/1",
    "per spool, boot and topic: what a producer wrote to its spool so far (cumulative; the greatest row counts)",
    (
        Field("at_ms", Kind.INT64, Role.TIME, "ms", "wall clock of the producer"),
        _number("boot", "boot of the spool"),
        _number("records", "records written to the spool"),
        _number("events", "events in them"),
        _number("acknowledged_events", "events of records acknowledged by Kafka"),
        _number("shed_events", "events never spooled because the spool was full: declared loss"),
        _optional("seq_to", "first sequence number of the boot that the row does not cover; null: of 0.1.0"),
        _optional(
            "seq_events", "events before seq_to, the same as events; null: landed by 0.1.0, seq_to of a row before"
        ),
        _whole("clock_skew_ms", "ms", "the host's clock less the broker's, by acknowledgements; null: not known"),
        _name("source", "spool id"),
        _name("topic", "topic they are for"),
        _name("host", "host of the producer"),
    ),
)

SEQ_ALL = 2**53 - 1
"""``seq_to`` of a boot that writes nothing any more."""

REJECTED = Table(
    "rejected",
    "rejected/1",
    "one row per rejected record, or per rejected event of a record that was readable",
    (
        Field("appended_ms", Kind.INT64, Role.TIME, "ms", "append time of the source record"),
        _number("partition", "source partition"),
        _number("offset", "source offset"),
        Field(
            "row",
            Kind.OPTIONAL_UINT32,
            Role.ATTRIBUTE,
            "",
            "row in the batch; null when the whole record was rejected",
        ),
        _number("events", "events this stands for: 1, or the record's count"),
        _number("bytes_total", "size of the original value", "bytes"),
        _optional("boot", "boot of the sender; null without identity"),
        _optional("seq", "number of the record within the boot; null without identity"),
        _name("topic", "source topic"),
        _name("source", "spool id of the sender; null without identity"),
        _name("reason", "why, one of docs/reference/reasons.md"),
        _name("schema", "schema header as sent; null when unreadable"),
        _name("content_type", "content-type header as sent; null when unreadable"),
        Field("detail", Kind.TEXT, Role.ATTRIBUTE, "", "which field and value, and what it must be"),
        Field(
            "bytes",
            Kind.TEXT,
            Role.ATTRIBUTE,
            "",
            "the value (whole record), or the event as JSON; cut at the limit",
        ),
    ),
)

EXEMPLARS_OF = "llm.requests"
"""Source topic of exemplars."""
EXEMPLAR_METRICS = ("ttft", "e2e", "failed")
EXEMPLARS_MAX = {"ttft": 2, "e2e": 2, "failed": 4}
"""How many requests of a window, engine and model stand for the slowest, and for those that failed."""
EXEMPLARS_OF_CLIENT = {"status": "aborted", "error_kind": "client"}
"""Of those that did not end well either tells that it was no failure of our side."""


_EXEMPLAR_LABELS = (
    "cluster", "region", "host", "engine_id", "placement_group", "model", "model_version", "tenant", "slo_class",
    "status", "error_kind", "origin",
)  # fmt: skip


def _exemplar_fields() -> tuple[Field, ...]:
    event = BY_TOPIC[EXEMPLARS_OF]
    return (
        Field("window_ms", Kind.INT64, Role.TIME, "ms", "start of the 10 s window, event time, UTC"),
        _whole("value_us", "us", "ttft_us where the metric is ttft, else e2e_us; null where a failed one has none"),
        event.field("http_status"),
        Field(
            "metric",
            Kind.LABEL,
            Role.DIMENSION,
            "",
            "what it is an example of: one of the slowest by ttft or e2e, or of those that failed",
            allowed=EXEMPLAR_METRICS,
            required=True,
        ),
        *(event.field(name) for name in _EXEMPLAR_LABELS),
        event.field("request_id"),
        event.field("trace_id"),
    )


EXEMPLARS = Table(
    "exemplars",
    "exemplars/1",
    "single requests of a window, engine and model: the slowest two by ttft and by e2e, up to four that failed",
    _exemplar_fields(),
)
"""Of every window, (engine_id, model) and metric the requests with the greatest (value_us, request_id); of failed ones
(any status but ok) those that failed on our side, then the others, each with the greatest request_id. To merge: unite
and keep the greatest again. They travel on ``window.partials`` beside the partials of their commit, are no sums, and no
part of the books."""

ALERT_HISTORY = Table(
    "alerts",
    "alert_history/1",
    "every transition of every alert, as published on topic alerts",
    (
        Field("at_ms", Kind.INT64, Role.TIME, "ms", "when the transition happened, event time, UTC"),
        Field("opened_ms", Kind.INT64, Role.ATTRIBUTE, "ms", "when the alert was opened"),
        Field("since_ms", Kind.INT64, Role.ATTRIBUTE, "ms", "when what it is about began"),
        _whole("resolved_ms", "ms", "when it was resolved; null while it is open"),
        _number("number", "of this transition within the alert: 1 opens it"),
        _name("fingerprint", "id of the alert: 16 hex digits, of the rule and labels that opened it"),
        _name("transition", "opened, updated or resolved"),
        _name("rule", "rule of the headline"),
        _name("severity", "the worst so far: info, warning or critical"),
        Field("summary", Kind.TEXT, Role.ATTRIBUTE, "", "one sentence for people"),
        Field("record", Kind.TEXT, Role.ATTRIBUTE, "", "the whole record as JSON"),
    ),
)
"""Rows made from the JSON records of topic ``alerts``, whose own schema is ``schemas.contract.alerts.SCHEMA``."""

ACTIONS = Table(
    "actions",
    "actions/1",
    "what people did: silences, and runs that change stored results, as recorded on topic alert.commands",
    (
        Field("at_ms", Kind.INT64, Role.TIME, "ms", "when it was recorded, by the broker's clock"),
        _whole("until_ms", "ms", "when the silence ends; null where it is none"),
        _name("action", "silence, unsilence, or run: a command that changes stored results"),
        Field(
            "done_by", Kind.TEXT, Role.ATTRIBUTE, "", "who: a user of the dashboard, or user and host of a command line"
        ),
        Field("about", Kind.TEXT, Role.ATTRIBUTE, "", "labels of the silence; the command line of a run"),
        Field("reason", Kind.TEXT, Role.ATTRIBUTE, "", "why, in the words of who did it"),
        Field("action_id", Kind.TEXT, Role.ATTRIBUTE, "", "id of the silence or run"),
        Field("record", Kind.TEXT, Role.ATTRIBUTE, "", "the whole record as JSON"),
    ),
)
"""Rows made from the JSON records of topic ``alert.commands``, of schema ``schemas.contract.alert_commands.SCHEMA``."""

TABLES: tuple[Table, ...] = (
    *PARTIALS.values(),
    BOOKS,
    PRODUCER_BOOKS,
    REJECTED,
    EXEMPLARS,
    ALERT_HISTORY,
    ACTIONS,
    USAGE,
    SHARES,
    COSTS,
)
BY_TABLE_SCHEMA = {table.schema: table for table in TABLES}
