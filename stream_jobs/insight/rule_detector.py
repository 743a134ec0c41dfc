"""One rule over time: its series, its detector, and which of them fire."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import ConfigError
from schemas.events.grouping import sets_of
from schemas.limits import MINUTE_MS
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.firing import BITS, VALUES, Firing
from stream_jobs.insight.frame import Detection, Detector, Finding, Frame, Mask, Whole
from stream_jobs.insight.frames import Made, Needed, Rows, make
from stream_jobs.insight.project import View
from stream_jobs.insight.series import IDLE_MS, PRESSED_IDLE_MS, Registry
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

VERSION = 1
"""Of what is kept; another one starts over."""
SWEEP_MS = MINUTE_MS
"""How often series that were long not seen are looked for."""
_ADDITIVE = frozenset({Function.COUNT, Function.RATE, Function.SUM})
_PLACED = frozenset({"gpu_uuid", "engine_id", "placement_group"})
CHANGED = "the rule was changed or removed"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RuleStats:
    """Of windows of series, since the process started. ``unknown``: the value is not known, or not yet."""

    judged: int = 0
    unknown: int = 0
    below_count: int = 0
    beyond_limit: int = 0
    incomplete: int = 0
    forgotten: int = 0


class RuleDetector:
    """State of a rule. ``judge`` is called once per window of the rule, in order of time."""

    def __init__(self, rule: Rule, needed: Sequence[Needed], series_max: int) -> None:
        if not 1 <= rule.m <= rule.n <= BITS:
            raise ConfigError(f"rule {rule.name}", f"{rule.m} of {rule.n}", f"must be 1 <= m <= n <= {BITS}")
        self.rule, self.needed = rule, needed
        self.detector: Detector = DETECTORS[rule.kind](rule)
        self.registry = Registry(rule.by, series_max)
        self.firing = self._a_firing()
        self.stats = RuleStats()
        self.last_ms: int | None = None
        self.ahead: Firing | None = None
        self.ahead_ms = 0
        """What would fire after windows that were looked at early, the last of them; None once all are judged."""
        self.packed: bytes | None = None
        """The state as it was dumped last, until it changes: one with a longer window does so rarely."""
        self._is_full = False
        self._judges_absence = KINDS[rule.kind].judges_absence
        self._idle_ms = round(1_000 * rule.options.get("forget_after_s", IDLE_MS / 1_000))

    @property
    def in_part(self) -> bool:
        """Whether what a window without some source shows is true as far as it goes. Not so of silence, and of sums
        over more than one source, which are too small."""
        additive = (one.view for one in self.needed if one.measure.function in _ADDITIVE)
        return not self._judges_absence and all(map(_of_one_source, additive))

    @property
    def of_one_source(self) -> bool:
        """Whether a series is there as a whole where its source is, so that it can be judged without the others. Not so
        of silence, and of series that are more than a machine."""
        return not self._judges_absence and all(_of_one_source(one.view) for one in self.needed)

    def look(self, window_ms: int, rows_of: Rows) -> list[Finding]:
        """Series that begin to fire by what is there of a window, which is judged later. What was learned stays as it
        is, what fires as well, and what begins is emitted once. Of a window not newer than the last one that was looked
        at nothing is."""
        if self.ahead is not None and window_ms <= self.ahead_ms:
            return []
        rule, self.packed = self.rule, None
        window = (window_ms, rule.window_ms)
        made = make(self.needed, rows_of, self.registry, self._grow, window, rule.min_count, fill=False)
        self._name(made.taken)
        frame, off = apply_while(rule, made.frame)
        detection = judged_while(self._unchanged(frame), frame, off)
        if self.ahead is None:
            self.ahead, self.ahead_ms = self._a_firing(), self.last_ms or window_ms
            self.ahead.load(self.firing.dump())
        fired = self.ahead.firing.copy()
        cleared = self.ahead.step(made.frame, detection, (window_ms - self.ahead_ms) // rule.window_ms)
        self.ahead.drop(cleared)
        self.ahead_ms = window_ms
        begun = np.flatnonzero(self.ahead.firing & ~fired & ~self.firing.firing)
        return self._findings_of(self.ahead, window_ms, begun, begun[:0])

    def detect(self, window_ms: int, rows_of: Rows, *, learn: bool = True) -> list[Finding]:
        """Findings of a window that is complete. Without ``learn`` of one that is not: nothing is trained, and series
        that are missing are not taken for empty."""
        rule, self.packed = self.rule, None
        self._sweep(window_ms)
        window, fill = (window_ms, rule.window_ms), learn and not self._judges_absence
        made = make(self.needed, rows_of, self.registry, self._grow, window, rule.min_count, fill=fill)
        self._name(made.taken)
        frame, off = apply_while(rule, made.frame)
        detection = judged_while(self._detected(frame, learn=learn), frame, off)
        elapsed = 1 if self.last_ms is None else (window_ms - self.last_ms) // rule.window_ms
        self.last_ms = window_ms
        self._caught_up(window_ms)
        cleared = self.firing.step(made.frame, detection, elapsed)
        self._count(made, detection.value, len(detection.slots))
        findings = self._findings(window_ms, cleared)
        self.firing.drop(cleared)
        return findings

    def _detected(self, frame: Frame, *, learn: bool) -> Detection:
        """What the detector says; one that ``LEARNS`` is as it was before, unless it is to ``learn``."""
        return self.detector.detect(frame) if learn or not self.detector.LEARNS else self._unchanged(frame)

    def _unchanged(self, frame: Frame) -> Detection:
        kept = {name: array.copy() for name, array in self.detector.dump().items()}
        detection = self.detector.detect(frame)
        self.detector.load(kept)
        self.detector.grow(self.registry.room)
        return detection

    def pass_by(self, window_ms: int, series: int) -> list[Finding]:
        """Findings of a window that is not complete: what fires goes on, nothing is learned, begins or ends. Nor is its
        time held against series that are not there."""
        self.stats.incomplete += series
        self.registry.pass_by(window_ms + self.rule.window_ms, self.rule.window_ms)
        self.firing.pass_by(window_ms + self.rule.window_ms)
        self.packed = None
        self._caught_up(window_ms)
        return self._findings(window_ms, np.empty(0, np.int64))

    def ended(self) -> list[Finding]:
        """A clearing for all that fires: the rule is given up."""
        firing, self.packed = np.flatnonzero(self.firing.firing), None
        self.firing.notes = dict.fromkeys(firing.tolist(), CHANGED)
        return self._findings(self.last_ms or 0, firing)

    def dump(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Head and arrays; equal for equal states."""
        parts: dict[str, Mapping[str, npt.NDArray[Any]]] = {
            "series": self.registry.dump(),
            "firing": self.firing.dump(),
            "detector": self.detector.dump(),
        }
        notes = {str(slot): note for slot, note in sorted(self.firing.notes.items())}
        ahead = {}
        if self.ahead is not None:
            parts["ahead"] = self.ahead.dump()
            ahead = {"ahead_ms": self.ahead_ms}
        head = {
            "rule": self.rule.name,
            "by": self.rule.by,
            "window_ms": self.rule.window_ms,
            "hash": state_hash(self.rule),
            "last_ms": self.last_ms,
            "notes": notes,
            **ahead,
        }
        return head, {f"{part}.{name}": array for part, found in parts.items() for name, array in sorted(found.items())}

    def load(self, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], *, learned: bool = True) -> None:
        """What was dumped; without what the detector ``learned`` when it is only to be ended."""
        self.last_ms, self.packed = head["last_ms"], None
        self.registry.load(_part(arrays, "series"))
        self.firing.load(_part(arrays, "firing"))
        self.firing.notes = {int(slot): note for slot, note in head["notes"].items()}
        if learned and "ahead_ms" in head:
            self.ahead, self.ahead_ms = self._a_firing(), head["ahead_ms"]
            self.ahead.load(_part(arrays, "ahead"))
        if learned:
            self.detector.load(_part(arrays, "detector"))
            self.detector.grow(self.registry.room)
            self._name(np.flatnonzero(self.registry.alive))

    def _grow(self, slots: int) -> Mask:
        self.detector.grow(slots)
        self.firing.grow(slots)
        if self.ahead is not None:
            self.ahead.grow(slots)
        return self.firing.firing

    def _name(self, slots: Whole) -> None:
        if len(slots):
            self.detector.named(slots, self.registry.labels_of(slots))

    def _sweep(self, window_ms: int) -> None:
        if self.last_ms is None or window_ms // SWEEP_MS == self.last_ms // SWEEP_MS:
            return
        pressed = self.registry.count >= self.registry.series_max
        idle_ms = min(self._idle_ms, PRESSED_IDLE_MS) if pressed else self._idle_ms
        slots = self.registry.idle(window_ms - max(idle_ms, self.rule.window_ms), self.firing.firing)
        if len(slots):
            self.stats.forgotten += len(slots)
            self.registry.forget(slots)
            self.detector.forget(slots)
            self.firing.forget(slots)
            if self.ahead is not None:
                self.ahead.forget(slots)

    def _count(self, made: Made, values: npt.NDArray[np.float64], judged: int) -> None:
        known = int((~np.isnan(values)).sum())
        self.stats.judged += known
        self.stats.unknown += max(len(made.frame.slots), judged) - known
        self.stats.below_count += made.below_count
        self.stats.beyond_limit += made.beyond_limit
        if made.beyond_limit and not self._is_full:  # once until all have room again
            facts = {"rule": self.rule.name, "series_max": self.registry.series_max, "beyond": made.beyond_limit}
            _log.warning("a rule has no room for more series; those beyond its limit are not judged", extra=facts)
        self._is_full = made.beyond_limit > 0

    def _caught_up(self, window_ms: int) -> None:
        """A window was judged: what was looked at early is over once the last of it was."""
        if self.ahead is not None and window_ms >= self.ahead_ms:
            self.ahead, self.packed = None, None

    def _a_firing(self) -> Firing:
        return Firing(self.rule.m, self.rule.n, self.rule.clear_after, self.rule.window_ms)

    def _findings(self, window_ms: int, cleared: Whole) -> list[Finding]:
        return self._findings_of(self.firing, window_ms, np.flatnonzero(self.firing.firing), cleared)

    def _findings_of(self, firing: Firing, window_ms: int, slots: Whole, cleared: Whole) -> list[Finding]:
        if not len(slots):
            return []
        values = [firing.values(name, slots) for name in VALUES]
        since, counts = (firing.state[name][slots].tolist() for name in ("since_ms", "count"))
        goes_on = (~np.isin(slots, cleared)).tolist()
        labels, notes = self.registry.labels_of(slots), firing.notes
        rows = zip(slots.tolist(), labels, goes_on, since, zip(*values, strict=True), counts, strict=True)
        name, length_ms = self.rule.name, self.rule.window_ms
        found = [
            Finding(
                name, label, window_ms, length_ms, fires, since_ms, value, base, low, high, count, notes.get(slot, "")
            )
            for slot, label, fires, since_ms, (value, base, low, high), count in rows
        ]
        return sorted(found, key=lambda finding: finding.labels)


def _of_one_source(view: View) -> bool:
    """Rows of a set are placed by ``placement_group``, or by the host of those that have none."""
    dimensions = next(one.dimensions for one in sets_of(view.topic) if one.name == view.grouping)
    return not _PLACED.isdisjoint(view.by) or ("host" in view.by and "placement_group" not in dimensions)


def state_hash(rule: Rule) -> str:
    """Equal where what was learned under one rule holds under the other."""
    detector = DETECTORS[rule.kind]
    names, version = detector.STATE_OPTIONS, detector.STATE_VERSION
    options = {name: value for name, value in rule.options.items() if names is None or name in names}
    measures = [_meaning(one) for one in rule.measures]
    what = [VERSION, detector.STATE_NAME or rule.kind, rule.by, rule.window_ms, measures, options]
    text = json.dumps([*what, version] if version else what, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _meaning(measure: Measure) -> str:
    parts = (measure.name, measure.topic, str(measure.function), measure.field, measure.over, measure.q, measure.limit)
    return repr((parts, measure.match, measure.where))


def _part(arrays: Mapping[str, npt.NDArray[Any]], part: str) -> dict[str, npt.NDArray[Any]]:
    return {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{part}.")}


def apply_while(rule: Rule, frame: Frame) -> tuple[Frame, Mask]:
    """The frame with the first measure unknown where a condition does not hold or is unknown, and where all are known
    and one does not hold. The frame itself when the rule has no conditions."""
    known = np.ones(len(frame.slots), np.bool_)
    if not rule.only_while:
        return frame, ~known
    holds = known.copy()
    for one in rule.only_while:
        values = frame.values[one.measure]
        known &= ~np.isnan(values)
        holds &= (values >= one.low) & (values <= one.high)
    name = rule.value.name
    value = np.where(holds, frame.values[name], np.nan)
    return replace(frame, values={**frame.values, name: value}), known & ~holds


def judged_while(detection: Detection, frame: Frame, off: Mask) -> Detection:
    """The detection with series whose condition does not hold as within: what the rule describes is not there."""
    if not off.any():
        return detection
    well = np.isin(detection.slots, frame.slots[off])
    return replace(detection, beyond=detection.beyond & ~well, within=detection.within | well)
