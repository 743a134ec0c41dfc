"""Alerts of a big fleet: their history over a span, as the sink stores what the alert job emits.

Each is opened, updated once and resolved, but for the newest, which are open; a few have many members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lab.bench.dashboard_fleet import ENGINES_PER_HOST, HOSTS_PER_CLUSTER, Fleet, gpu_uuid
from lab.bench.dashboard_windows import Span
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import SEVERITIES, Alert, Member, encode
from schemas.contract.record import Record
from schemas.contract.topics import ALERT_COMMANDS, ALERTS_TOPIC
from schemas.ddl.stored import LANDED
from schemas.limits import MINUTE_MS
from schemas.rows.tables import ACTIONS, ALERT_HISTORY, Table
from sinks.alert_rows import block_of
from sinks.database import SinkDatabase
from sinks.landing import Insert

ALERTS = 3_000
OPEN = 60
"""Of these the newest."""
SILENCED_EVERY = 100
_LASTS_MS = 7 * MINUTE_MS
_RULES = ("gpu_hot", "ttft_slow", "host_silent", "errors_many", "kv_full")


def fingerprint(number: int) -> str:
    """Of an alert of the history, counted from 0, the oldest."""
    return f"{number:016x}"


def fill_alerts(database: SinkDatabase, fleet: Fleet, span: Span) -> int:
    """Insert the history, and what people did about some of it; how many rows."""
    alerts = [(alert.at_ms, encode(alert)) for alert in transitions(fleet, span)]
    commands = [(command.from_ms, alert_commands.encode(command)) for command in silences(span)]
    return _fill(database, ALERT_HISTORY, ALERTS_TOPIC, alerts) + _fill(database, ACTIONS, ALERT_COMMANDS, commands)


def _fill(database: SinkDatabase, table: Table, topic: str, values: Sequence[tuple[int, bytes]]) -> int:
    records = [Record(topic, 0, offset, at_ms, b"", value, ()) for offset, (at_ms, value) in enumerate(values)]
    block, kept = block_of(table, records)
    assert len(kept) == len(records), "what is drawn can be read"
    rows = block.rows
    place: dict[str, Column] = {
        "log_id": Labels(np.ones(rows, np.uint8), [None, b"bench"]),
        "log_partition": Numbers(np.zeros(rows, "<u4")),
        "log_offset": Numbers(np.arange(rows, dtype="<u8")),
        "log_row": Numbers(np.zeros(rows, "<u4")),
    }
    fields = LANDED[table.schema].fields
    pieces = native.pieces(fields, Block(rows, {**block.columns, **place}))
    database.insert([Insert(table.name, tuple(field.name for field in fields), pieces, rows)])
    return rows


def silences(span: Span) -> Iterator[Command]:
    """One for every hundredth alert, of an hour."""
    step_ms = (span.to_ms - span.from_ms) // ALERTS
    for number in range(0, ALERTS, SILENCED_EVERY):
        from_ms, labels = span.from_ms + number * step_ms, {"fingerprint": fingerprint(number)}
        yield Command("mute", f"{number:032x}", labels, from_ms, from_ms + 60 * MINUTE_MS, "host is drained", "on-call")


def transitions(fleet: Fleet, span: Span) -> Iterator[Alert]:
    """In the order of alerts, those of one in theirs."""
    step_ms = (span.to_ms - span.from_ms) // ALERTS
    for number in range(ALERTS):
        opened_ms = span.from_ms + number * step_ms
        kinds = ("opened", "updated", "resolved")[: 2 if number >= ALERTS - OPEN else 3]
        for nth, transition in enumerate(kinds, 1):
            at_ms = min(opened_ms + (nth - 1) * _LASTS_MS // 2, span.to_ms - 1)
            yield _alert(fleet, number, opened_ms, transition, nth, at_ms)


def _alert(fleet: Fleet, number: int, opened_ms: int, transition: str, nth: int, at_ms: int) -> Alert:
    host = number * 7 % fleet.hosts
    engine = number % ENGINES_PER_HOST
    labels = {
        "cluster": f"cluster-{host // HOSTS_PER_CLUSTER}",
        "host": f"host-{host:04d}",
        "engine_id": f"host-{host:04d}-engine-{engine}",
        "model": fleet.models[(host * ENGINES_PER_HOST + engine) % len(fleet.models)],
        "gpu_uuid": gpu_uuid(host * 8),
    }
    severity = SEVERITIES[number % len(SEVERITIES)]
    member = Member(_RULES[-1], severity, labels, opened_ms - MINUTE_MS, None, 0.97, "KV cache of an engine is full")
    return Alert(
        fingerprint(number), transition, nth, _RULES[number % len(_RULES)], severity,
        f"{labels['host']}: GPU {labels['gpu_uuid'][:12]} is hotter than its neighbours, tokens are slow",
        "Look at the airflow of the host; drain it when the temperature stays.", labels,
        opened_ms, opened_ms - MINUTE_MS, at_ms, at_ms if transition == "resolved" else None,
        91.0, 70.0, 55.0, 88.0, "C", 6, "cooling of the host",
        at_ms + 60 * MINUTE_MS if number % 10 == 0 else None, (member,) * (1 + 30 * (number % 50 == 0)),
        {"expected": [{"dimension": "host", "value": 91.0, "median": 70.0}]},
    )  # fmt: skip
