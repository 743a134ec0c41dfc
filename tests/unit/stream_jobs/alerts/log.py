"""Records of ``window.finals`` made by hand, and a judge that says what the window's rows tell it to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_FINALS
from schemas.events.event_types import BY_TOPIC
from schemas.rows.finals import PROGRESS_SCHEMA, FinalsHeaders, PassedOnHeaders, finals_schema
from schemas.rows.spend import SPEND
from schemas.rows.tables import PARTIALS
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.spending import NO_BUDGETS
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.model import Budgets
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Rule
from tests.unit.stream_jobs.alerts.cases import RULESET, WINDOW, at

HOT_MS = 800
"""``engine_kv`` fires where the ``waiting_sum`` of an engine is above this."""


class Detector:
    """One finding per engine whose queue is long, and one when it is no longer; counts the windows it saw."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.seen: list[tuple[int, bool]] = []
        self.since: dict[str, int] = {}
        self.stats: Counter[str] = Counter()
        self.series: dict[str, int] = {}
        self.given_up: list[Finding] = []
        self.given_up_before = 0

    def detect(self, window: Window) -> list[Finding]:
        self.seen.append((window.window_ms, window.complete))
        block = window.tables.get("engine.samples")
        rows = rows_of(PARTIALS["engine.samples"].fields, block) if block else []
        hot = {row["engine_id"]: row["waiting_sum"] for row in rows if row["waiting_sum"] > HOT_MS}
        found = [self._finding(window, engine, True, value) for engine, value in sorted(hot.items())]
        found += [self._finding(window, engine, False, 0) for engine in sorted(set(self.since) - set(hot))]
        self.since = {engine: self.since.get(engine, window.window_ms) for engine in sorted(hot)}
        return found

    def look(self, window: Window) -> list[Finding]:
        """Whose queue is long there and was not before."""
        block = window.tables["engine.samples"]
        rows = rows_of(PARTIALS["engine.samples"].fields, block)
        hot = {row["engine_id"]: row["waiting_sum"] for row in rows if row["waiting_sum"] > HOT_MS}
        return [self._finding(window, one, True, value) for one, value in sorted(hot.items()) if one not in self.since]

    def _finding(self, window: Window, engine: str, firing: bool, value: float) -> Finding:
        since = self.since.get(engine, window.window_ms)
        labels = (("engine_id", engine),)
        return Finding("engine_kv", labels, window.window_ms, WINDOW, firing, since, value, None, None, None, 1)

    def dump(self) -> list[bytes]:
        return [json.dumps(self.seen).encode(), json.dumps(self.since).encode()]

    def load(self, parts: Sequence[bytes]) -> None:
        self.seen, self.since = [(w, c) for w, c in json.loads(parts[0])], json.loads(parts[1])


class Evidence:
    """Remembers how many windows there were."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.windows = 0

    def remember(self, window: Window, findings: Sequence[Finding]) -> None:
        self.windows += 1

    def of(self, alert: Alert) -> Mapping[str, Any]:
        return {"windows": self.windows}

    def dump(self) -> list[bytes]:
        return [b"%d" % self.windows]

    def load(self, parts: Sequence[bytes]) -> None:
        self.windows = int(parts[0])


QUICK = AlertPolicy(hold_ms=2 * WINDOW, flap_ms=5 * WINDOW)
"""So that a short story has everything in it."""


def a_step(upstreams: int = 2, budgets: Budgets = NO_BUDGETS) -> AlertStep:
    return AlertStep(upstreams, RULESET, Detector, Evidence, QUICK, budgets=budgets)


class Log:
    """Builds the log, offset by offset."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._now_ms = at(0)

    def _add(self, value: bytes | None, headers: Any, told_ms: int = 0) -> None:
        """Appended when the newest thing that was told so far is over."""
        self._now_ms = max(self._now_ms, told_ms)
        self.records.append(Record(WINDOW_FINALS, 0, len(self.records), self._now_ms, None, value, headers))

    def rows(
        self, upstream: int, window: int, queues: Mapping[str, int], through: int = 0, *, complete: bool = True
    ) -> None:
        """Engines by id with the sum of their queues; ``through`` is the number of the window it ends."""
        value = native.encode(
            PARTIALS["engine.samples"].fields,
            block_from_rows(PARTIALS["engine.samples"].fields, queue_rows(window, queues)),
        )
        schema = finals_schema("engine.samples")
        through_ms = at(through) if through else 0
        headers = FinalsHeaders(schema, upstream, at(window), 7, complete, through_ms, len(queues)).encode()
        self._add(value, headers, at(max(window + 1, through)))

    def progress(self, upstream: int, through: int) -> None:
        """All windows before this one are told."""
        self._add(b"", FinalsHeaders(PROGRESS_SCHEMA, upstream, 0, 0, True, at(through), 0).encode(), at(through))

    def gpu_event(self, kind: str, gpu: str, at_ms: int, severity: str = "critical", **more: Any) -> None:
        row = {
            "at_ms": at_ms,
            "host": "h-1",
            "gpu_uuid": gpu,
            "kind": kind,
            "severity": severity,
            "origin": "simulated",
        }
        self._event("gpu.events", {**row, **more}, at_ms)

    def engine_event(self, kind: str, engine: str, at_ms: int, **more: Any) -> None:
        row = {"at_ms": at_ms, "host": "h-1", "engine_id": engine, "kind": kind, "origin": "simulated"}
        self._event("engine.events", {**row, **more}, at_ms)

    def _event(self, topic: str, row: Mapping[str, Any], at_ms: int) -> None:
        event = BY_TOPIC[topic]
        value = native.encode(event.fields, block_from_rows(event.fields, [row]))
        self._add(value, PassedOnHeaders(event.schema, at_ms, 1).encode(), at_ms)

    def spend(self, rows: Sequence[Mapping[str, Any]], at_ms: int = 0) -> None:
        """By how much bills changed."""
        value = native.encode(SPEND.fields, block_from_rows(SPEND.fields, rows))
        self._add(value, PassedOnHeaders(SPEND.schema, at_ms, len(rows)).encode(), at_ms)

    def command(self, command: Command) -> None:
        self._add(alert_commands.encode(command), PassedOnHeaders(alert_commands.SCHEMA, at(0), 1).encode())

    def strange(self, value: bytes, **headers: str) -> None:
        self._add(value, tuple((name, text.encode()) for name, text in headers.items()))


def queue_rows(window: int, queues: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows of ``engine.samples`` partials."""
    zero = {
        f.name: 0
        for f in PARTIALS["engine.samples"].fields
        if f.name.endswith(("_count", "_sum")) and not f.kind.optional
    }
    common = {
        **zero,
        "window_ms": at(window),
        "last_at_ms": at(window),
        "definition_version": 1,
        "grouping": "engine_sample",
    }
    common |= {"origin": "simulated", "event_count": 1, "waiting_count": 1}
    return [
        {
            **common,
            "host": f"h-{engine}",
            "model": f"m-{engine}",
            "engine_id": engine,
            "placement_group": engine,
            "waiting_sum": queue,
        }
        for engine, queue in queues.items()
    ]
