"""Records, expectations and shorthands that the tests of the windows job share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemas import sketch
from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import CLOCK_SKEW, NATIVE, Identity, encode_headers
from schemas.contract.record import Output, Record
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import derived_of, sets_of
from schemas.fields import Field, Role
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import BY_TABLE_SCHEMA, COMPUTED, DEFINITION_VERSION, EXEMPLARS, PARTIALS, Table
from schemas.rows.usage import USAGE
from stream_jobs.step import Commit
from stream_jobs.windows.changes import Changes, State
from stream_jobs.windows.step import WindowsStep
from tests.merged_rows import merge_rows

Row = dict[str, Any]

BASE_MS = 1_800_000_000_000
WINDOW_MS = 10_000
PARTITIONS = {"window.partials": 3, "books": 1, "rejected": 1}
SOURCE = "0123456789abcdef0123456789abcdef"


def a_step(limits: Limits = DEFAULT_LIMITS) -> WindowsStep:
    return WindowsStep(limits, PARTITIONS)


def a_request(at_ms: int = BASE_MS, **fields: Any) -> Row:
    """A request event with everything required."""
    base = {"host": "h1", "model": "m1", "status": "ok", "origin": "measured", "itl_bins": {}, "request_id": "r"}
    return {"at_ms": at_ms, **base, **fields}


def a_sample(at_ms: int = BASE_MS, **fields: Any) -> Row:
    """A GPU sample with everything required."""
    return {"at_ms": at_ms, "host": "h1", "gpu_uuid": "GPU-1", "origin": "measured", **fields}


def a_record(
    topic: str,
    rows: Sequence[Row],
    offset: int = 0,
    appended_ms: int | None = None,
    identity: Identity | None = None,
    skew_ms: int | None = None,
) -> Record:
    """A Native record of these events; without identity unless one is given. ``skew_ms`` is what its sender says."""
    event = BY_TOPIC[topic]
    value = native.encode(event.fields, block_from_rows(event.fields, rows))
    if appended_ms is None:
        appended_ms = max(row["at_ms"] for row in rows) + 100
    if identity is not None:
        headers = encode_headers(event.schema, NATIVE, identity, len(rows))
    else:
        headers = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()))
    if skew_ms is not None:
        headers = (*headers, (CLOCK_SKEW, b"%d" % skew_ms))
    return Record(topic, 0, offset, appended_ms, None, value, headers)


def fold_all(step: WindowsStep, records: Iterable[Record], topic: str) -> tuple[State, Changes]:
    """State and changes after all records, folded at once."""
    state, changes = step.new(topic, 0), step.changes()
    step.fold(state, list(records), changes)
    return state, changes


def a_commit(topic: str, offset_from: int = 0, offset_to: int = 1, **fields: Any) -> Commit:
    base: dict[str, Any] = {"number": 0, "now_ms": BASE_MS, "idle": False}
    return Commit(topic, 0, offset_from, offset_to, **{**base, **fields})


def header(output: Output, name: str) -> str:
    return dict(output.headers)[name].decode()


BESIDE = (EXEMPLARS, USAGE, SHARES)
"""What travels with partials."""


def rows_in(outputs: Iterable[Output], topic: str, only: Table | None = None) -> list[Row]:
    """All rows sent to an output topic, in order: of one table, else of all but those that travel with partials."""
    rows: list[Row] = []
    for output in outputs:
        if output.topic == topic and output.value:
            table = BY_TABLE_SCHEMA[header(output, "schema")]
            if table is only or (only is None and table not in BESIDE):
                rows += rows_of(table.fields, native.decode(output.value, table.fields))
    return rows


def partials(step: WindowsStep, state: State, changes: Changes) -> list[Row]:
    """The partial rows that a commit would send now."""
    return rows_in(step.rows(state, changes, a_commit(state.topic)), "window.partials")


def merged(topic: str, rows: Iterable[Row]) -> list[Row]:
    """The rows merged by window and series, in canonical order."""
    return list(merge_rows(PARTIALS[topic], rows).values())


def expected(topic: str, events: Iterable[Row]) -> list[Row]:
    """Merged partial rows of these events by brute force, straight from the definitions."""
    return merged(topic, [row for event in events for row in _rows_of_event(topic, event)])


def _rows_of_event(topic: str, event: Row) -> list[Row]:
    described = BY_TOPIC[topic]
    rows = []
    for grouping in sets_of(topic):
        row: Row = {
            "window_ms": event["at_ms"] - event["at_ms"] % WINDOW_MS,
            "event_count": 1,
            "last_at_ms": event["at_ms"],
            "definition_version": DEFINITION_VERSION,
            "grouping": grouping.name,
        }
        for field in described.fields:
            if field.role in (Role.SKETCH, Role.GAUGE, Role.DIFFERENCE):
                row |= _measures(field, event.get(field.name))
            elif field.role is Role.SKETCH_BINS:
                row[field.name] = dict(sorted(event[field.name].items()))
            elif field.role is Role.DIMENSION:
                row[field.name] = event.get(field.name) if field.name in grouping.dimensions else None
        row |= {f"{one.name}_sum": None for one in COMPUTED.get(topic, ())}
        for derived in derived_of(topic):
            row[derived.name] = _derive(derived, event) if derived.name in grouping.dimensions else None
        rows.append({field.name: row[field.name] for field in PARTIALS[topic].fields})
    return rows


def _derive(derived: Any, event: Row) -> str | None:
    value = event.get(derived.field)
    if value is None:
        return None
    return next(
        (w for w, bound in zip(derived.words, derived.bounds, strict=False) if value <= bound), derived.words[-1]
    )


def _measures(field: Field, value: int | None) -> Row:
    name = field.name
    if field.role is Role.DIFFERENCE:
        return {f"{name}_sum": value}
    known = value is not None
    row = {f"{name}_count": int(known), f"{name}_sum": value or 0, f"{name}_min": value, f"{name}_max": value}
    if field.role is Role.GAUGE:
        row[f"{name}_last"] = value
        if not field.distributed:
            return row
    bounds = sketch.BOUNDS.tolist()
    found = {}
    if value is not None:
        index = next((k for k, bound in enumerate(bounds) if value <= bound), sketch.BIN_MAX)
        found = {sketch.ZERO_BIN if value == 0 else index: 1}
    return row | {f"{name}_bins": found}
