"""The same judging without the wire: rows of the windows job go straight to rules, evidence and the life of alerts.

A day costs half as much. What is left out are codecs, the finals job (one source partition emits a window as a whole
anyway) and exemplars, which are evidence only; alerts are the same, which a test holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleetpulse.backtest.alerting import Transition
from lab.evaluate.pipeline import ONE_EACH, Arrivals, Log, Spent
from lab.simulator.fleet import Step
from schemas.codec import native
from schemas.codec.block import Block, Numbers
from schemas.codec.build import rows_of
from schemas.codec.select import select
from schemas.contract.alerts import Alert
from schemas.contract.record import Record
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.tables import GROUPED, PARTIALS
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.life import Life
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.rules.load import load_set
from stream_jobs.windows.changes import State
from stream_jobs.windows.emit import blocks_of
from stream_jobs.windows.step import WindowsStep

TOPICS = tuple(event.topic for event in GROUPED)


class Shortcut:
    """From steps of a fleet to transitions. A window is judged when the watermark has passed it."""

    def __init__(self, rules: Path | None, spent: Spent) -> None:
        ruleset = load_set(rules)
        self._windows = WindowsStep(DEFAULT_LIMITS, ONE_EACH)
        self._states: dict[str, State] = {topic: self._windows.new(topic, 0) for topic in TOPICS}
        self._detector = FleetDetector(ruleset.rules)
        self._evidence = Evidence(ruleset.rules)
        self._life = Life(ruleset, self._evidence.of)
        self._spent = spent
        self._arrivals = Arrivals(Log())
        self._rows: dict[str, list[Block]] = {topic: [] for topic in TOPICS}
        self._next_ms: int | None = None

    def take(self, step: Step) -> Iterator[Transition]:
        """What a step of the fleet makes open, change or end."""
        self._spent.on("fleet")
        if self._next_ms is None:
            self._next_ms = step.from_ms - step.from_ms % WINDOW_MS
        self._arrivals.add(step.wides)
        for topic, records in self._arrivals.passed_on(step.from_ms):
            yield from (Transition(step.from_ms, alert) for alert in self._events(topic, records))
        if self._next_ms + WINDOW_MS + DEFAULT_LIMITS.out_of_orderness_ms <= step.to_ms:
            for topic in TOPICS:
                self._fold(topic, step.to_ms)
            self._spent.on("windows")
        while self._next_ms + WINDOW_MS + DEFAULT_LIMITS.out_of_orderness_ms <= step.to_ms:
            closed = self._close(self._next_ms)
            self._next_ms += WINDOW_MS
            yield from (Transition(step.to_ms, alert) for alert in closed)
        self._spent.on("alerts")

    def _events(self, topic: str, records: Sequence[Record]) -> list[Alert]:
        fields = BY_TOPIC[topic].fields
        rows = [row for record in records for row in rows_of(fields, native.decode(record.value or b"", fields))]
        return self._life.gpu_events(rows) if topic == "gpu.events" else self._life.engine_events(rows)

    def _fold(self, topic: str, now_ms: int) -> None:
        records = self._arrivals.records(topic, now_ms)
        if not records:
            return
        changes, state = self._windows.changes(), self._states[topic]
        self._windows.fold(state, records, changes)
        for segment in changes.segments:
            self._rows[topic] += [block for _, block in blocks_of(state.plan, segment, 1)]

    def _close(self, window_ms: int) -> list[Alert]:
        """Judge a window; rows of windows before it come too late to be judged, as they would live."""
        tables: dict[str, Block] = {}
        for topic, blocks in self._rows.items():
            mine, self._rows[topic] = _split(blocks, window_ms)
            if mine:
                tables[topic] = mine[0] if len(mine) == 1 else native.concat(PARTIALS[topic].fields, mine)
        window = Window(window_ms, tables)
        findings = self._detector.detect(window)
        self._evidence.remember(window, findings)
        return self._life.window(window, findings)


def _split(blocks: Sequence[Block], window_ms: int) -> tuple[list[Block], list[Block]]:
    """The rows of a window, and those of later ones."""
    mine: list[Block] = []
    later: list[Block] = []
    for block in blocks:
        windows = block.columns["window_ms"]
        assert isinstance(windows, Numbers)
        for rows, into in ((windows.values == window_ms, mine), (windows.values > window_ms, later)):
            if rows.any():
                into.append(select(block, rows))
    return mine, later
