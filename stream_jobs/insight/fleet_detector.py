"""What is out of the ordinary in the fleet: one window after the other in, findings out.

A window is projected once per view that any rule needs; rules with longer windows keep those rows until theirs is
over (``spans``). Then each rule makes its measures, its detector judges them, and m of n windows make a finding
(``rule_detector``). A window that is not complete trains nothing, begins nothing and ends nothing, for as long as
``PATIENCE_MS``: when all windows were incomplete for longer, that is a finding of its own (``builtin``), and rules
begin and end findings again from what there is, but train nothing still. Those that a missing source would mislead go
on waiting: who looks for silence, and sums and counts that are not of one machine. A window that is not newer than the
last is left out and counted. Nothing hangs on a clock or on the order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from schemas.codec import native
from schemas.codec.block import Block
from schemas.limits import WINDOW_MS
from stream_jobs.insight import detector_state
from stream_jobs.insight.builtin import JUDGING_INCOMPLETE, PATIENCE_MS
from stream_jobs.insight.detector_state import FleetDetectorState
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.insight.frames import plan
from stream_jobs.insight.project import View, project
from stream_jobs.insight.rule_detector import RuleDetector
from stream_jobs.insight.series import SERIES_MAX
from stream_jobs.insight.spans import Span
from stream_jobs.rules.model import Rule


class FleetDetector(FleetDetectorState):
    """All rules of a deployment. Rules of kinds without a detector are left to others."""

    def __init__(self, rules: Sequence[Rule], series_max: int = SERIES_MAX) -> None:
        self.rules = tuple(rule for rule in rules if rule.kind in DETECTORS)
        needed = plan(self.rules)
        detectors = {rule.name: RuleDetector(rule, needed[rule.name], series_max) for rule in self.rules}
        super().__init__(detectors, {})
        for length_ms in sorted({rule.window_ms for rule in self.rules}):
            self.spans[length_ms] = Span(length_ms, self._views(length_ms))
        self._dumped: list[bytes] | None = None
        self._ignored = 0

    def detect(self, window: Window) -> list[Finding]:
        """Every series that fires in rule windows that this window ends, and once those that have cleared.

        In order of rule window end, rule and labels. A window not newer than the last gives nothing.
        """
        self._dumped = None
        if self.last_ms is not None and window.window_ms <= self.last_ms:
            self._ignored += 1
            return []
        rows = Projected(window)
        findings, self.given_up = [*self.given_up, *self._watch(window)], []
        for span in self.spans.values():
            findings += self._step(span, window, rows)
        self.last_ms = window.window_ms
        return sorted(findings, key=lambda one: (one.end_ms, one.rule, one.labels, one.firing))

    def _watch(self, window: Window) -> list[Finding]:
        """How long windows have been incomplete, emitted when it is too long and once when it is over."""
        since_ms, end_ms = self.incomplete_since_ms, (self.last_ms or 0) + WINDOW_MS
        if window.complete:
            self.incomplete_since_ms = None
            shown = since_ms is not None and end_ms - since_ms > PATIENCE_MS
        else:
            since_ms = self.incomplete_since_ms = window.window_ms if since_ms is None else since_ms
            end_ms = window.window_ms + WINDOW_MS
            shown = self._impatient(end_ms)
        if not shown or since_ms is None:
            return []
        length, value = (window.window_ms, WINDOW_MS), float(end_ms - since_ms)
        name = JUDGING_INCOMPLETE.name
        return [Finding(name, (), *length, not window.complete, since_ms, value, None, None, None, 0)]

    def _impatient(self, end_ms: int) -> bool:
        return self.incomplete_since_ms is not None and end_ms - self.incomplete_since_ms > PATIENCE_MS

    @property
    def stats(self) -> Counter[str]:
        """Since the process started: the fields of ``RuleStats``, of all rules, and ``ignored`` windows, which were not
        newer than the one judged before."""
        total = Counter(ignored=self._ignored)
        for detector in self.detectors.values():
            total.update(asdict(detector.stats))
        return total

    @property
    def series(self) -> dict[str, int]:
        """By rule: those that have a slot."""
        return {name: detector.registry.count for name, detector in self.detectors.items()}

    def dump(self) -> list[bytes]:
        """The state in parts, compressed; equal for equal states. Give all of them to ``load``. Between windows, when
        alerts come of events alone, they are made once."""
        if self._dumped is None:
            self._dumped = detector_state.dump(self)
        return list(self._dumped)

    def load(self, parts: Sequence[bytes]) -> None:
        """Takes over a dump into a detector that has not judged yet, as far as the rules are the same.

        Rules are matched by name and what their state depends on; a new one starts over, and what a lost one had
        firing is emitted as cleared with the next window. Raises ``ContractError`` for parts that are none of ours.
        """
        self._dumped = None
        detector_state.load(self, parts)

    def _views(self, length_ms: int) -> list[View]:
        detectors = (detector for detector in self.detectors.values() if detector.rule.window_ms == length_ms)
        return [one.view for detector in detectors for one in detector.needed]

    def _step(self, span: Span, window: Window, rows: Projected) -> list[Finding]:
        start_ms = window.window_ms - window.window_ms % span.length_ms
        findings = []
        if span.start_ms is not None and span.start_ms != start_ms:
            findings += self._close(span, window)
        if span.start_ms is None:
            span.begin(window.window_ms, from_start=self.last_ms is not None)
        span.add([(view, rows.of(view)) for view in span.views], window.complete)
        if window.window_ms + WINDOW_MS >= start_ms + span.length_ms:
            findings += self._close(span, window)
        return findings

    def _close(self, span: Span, window: Window) -> list[Finding]:
        start_ms, whole = span.start_ms, {view: parts.whole(view) for view, parts in span.parts.items()}
        assert start_ms is not None
        findings = []
        in_part = self._impatient(window.window_ms + WINDOW_MS)
        for rule in self.rules:
            if rule.window_ms == span.length_ms:
                findings += self._judged(self.detectors[rule.name], span, start_ms, whole.__getitem__, in_part=in_part)
        span.start_ms, span.parts = None, {}
        return findings

    def _judged(
        self, detector: RuleDetector, span: Span, start_ms: int, rows_of: Callable[[View], Block], *, in_part: bool
    ) -> list[Finding]:
        if all(span.heard_all(one.view) for one in detector.needed):
            return detector.detect(start_ms, rows_of)
        if in_part and detector.in_part and all(span.heard_whole(one.view) for one in detector.needed):
            return detector.detect(start_ms, rows_of, learn=False)
        return detector.pass_by(start_ms, rows_of(detector.needed[0].view).rows)


class Projected:
    """Views of one window, each made at its first use."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._found: dict[View, Block] = {}

    def of(self, view: View) -> Block:
        """Rows of the view; none where the topic has none."""
        if view not in self._found:
            table = self._window.tables.get(view.topic)
            self._found[view] = native.concat(view.fields, ()) if table is None else project(view, table)
        return self._found[view]
