"""What is out of the ordinary in the fleet: one window after the other in, findings out.

A window is projected once per view that any rule needs; rules with longer windows keep those rows until theirs is
over (``spans``). Then each rule makes its measures, its detector judges them, and m of n windows make a finding
(``rule_detector``). A window that is not complete trains nothing. Where sources are missing and nothing else, rules
about machines go by what there is all the same, since a machine's series come from one source. All others begin nothing
and end nothing, for as long as ``PATIENCE_MS``: when all windows were incomplete for longer, that is a finding of its
own (``builtin``), and rules begin and end findings again from what there is. Those that a missing source would mislead
go on waiting: who looks for silence, and sums and counts that are not of one source. A window that is not newer than
the last is left out and counted. Nothing hangs on a clock or on the order of rows.

A window that has to wait for a source can be looked at before (``look``): what begins to fire is said then.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec import native
from schemas.codec.block import Block, Labels
from schemas.errors import ContractError
from schemas.limits import MINUTE_MS, WINDOW_MS
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.insight.frames import plan
from stream_jobs.insight.project import View, project
from stream_jobs.insight.rule_detector import RuleDetector, state_hash
from stream_jobs.insight.series import SERIES_MAX
from stream_jobs.insight.spans import Parts, Span
from stream_jobs.parts import compress_all, decompress
from stream_jobs.rules.model import Function, Measure, Rule, RuleSet
from stream_jobs.windows.emit import compacted


class FleetDetector:
    """All rules of a deployment. Rules of kinds without a detector are left to others.

    ``detectors`` by name of their rule, ``spans`` by the length of their windows. ``incomplete_since_ms`` is the start
    of the first of the incomplete windows in a row. ``given_up`` are findings of rules that were changed or removed
    while they fired, to be resolved with the next window, the first ``given_up_before`` of them by the owner
    before."""

    def __init__(self, rules: Sequence[Rule], series_max: int = SERIES_MAX) -> None:
        self.rules = tuple(rule for rule in rules if rule.kind in DETECTORS)
        needed = plan(self.rules)
        self.detectors = {rule.name: RuleDetector(rule, needed[rule.name], series_max) for rule in self.rules}
        self.spans: dict[int, Span] = {}
        self.last_ms: int | None = None
        self.incomplete_since_ms: int | None = None
        self.given_up: list[Finding] = []
        self.given_up_before = 0
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

    def look(self, window: Window) -> list[Finding]:
        """Series that begin to fire by what is there of a window that is judged when the rest of it came. Of rules that
        are judged every window, and whose series are whole where their source is."""
        if self.last_ms is not None and window.window_ms <= self.last_ms:
            return []
        self._dumped = None
        rows, findings = Projected(window), list[Finding]()
        for detector in self.detectors.values():
            if detector.rule.window_ms == WINDOW_MS and detector.of_one_source:
                findings += detector.look(window.window_ms, rows.of)
        return sorted(findings, key=lambda one: (one.rule, one.labels))

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
            self._dumped = _dump(self)
        return list(self._dumped)

    def load(self, parts: Sequence[bytes]) -> None:
        """Takes over a dump into a detector that has not judged yet, as far as the rules are the same.

        Rules are matched by name and what their state depends on; a new one starts over, and what a lost one had
        firing is emitted as cleared with the next window. Raises ``ContractError`` for parts that are none of ours.
        """
        self._dumped = None
        _load(self, parts)

    def _views(self, length_ms: int) -> list[View]:
        detectors = (detector for detector in self.detectors.values() if detector.rule.window_ms == length_ms)
        return [one.view for detector in detectors for one in detector.needed]

    def _step(self, span: Span, window: Window, rows: Projected) -> list[Finding]:
        start_ms = window.window_ms - window.window_ms % span.length_ms
        findings = []
        if span.start_ms is not None and span.start_ms != start_ms:
            findings += self._close(span, window)
        if span.start_ms is None:
            span.begin(window.window_ms, from_start=self.last_ms is not None and self.last_ms < start_ms)
        span.add([(view, rows.of(view)) for view in span.views], window.complete, window.series_whole)
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
        try:
            if all(span.heard_all(one.view) for one in detector.needed):
                return detector.detect(start_ms, rows_of)
            in_part = (in_part and detector.in_part) or (span.series_whole and detector.of_one_source)
            if in_part and all(span.heard_whole(one.view) for one in detector.needed):
                return detector.detect(start_ms, rows_of, learn=False)
            return detector.pass_by(start_ms, rows_of(detector.needed[0].view).rows)
        except Exception as error:
            error.add_note(f"judging rule {detector.rule.name}")
            raise


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


PATIENCE_MS = 5 * MINUTE_MS
"""When windows have been incomplete for longer in a row, a finding says so, and rules go by what there is."""
JUDGING_INCOMPLETE = Rule(
    "judging_incomplete",
    "builtin",
    (Measure("value", "", Function.COUNT, text="windows without some source", unit="ms"),),
    (),
    "warning",
    "Windows have been judged without some source for {value}: what stands behind it is not watched.",
    "Look for the source partition whose watermark stands still, and for the windows and finals jobs' logs: one that "
    "nobody owns, a stopped job, or fewer partitions in the contract than the topic has.",
)
"""No labels. Its value is how long it has been so, in ms."""


def with_builtin(ruleset: RuleSet) -> RuleSet:
    """The rules and the built-in ones; a rule of the same name in a file goes before."""
    if any(rule.name == JUDGING_INCOMPLETE.name for rule in ruleset.rules):
        return ruleset
    return replace(ruleset, rules=(*ruleset.rules, JUDGING_INCOMPLETE))


VERSION = 1
_MAGIC = b"FPJ1"

Arrays = Mapping[str, npt.NDArray[Any]]


def _dump(detector: FleetDetector) -> list[bytes]:
    """All parts; the first says how many there are."""
    parts = [_rule_part(one) for _, one in sorted(detector.detectors.items())]
    parts += [_view_part(span, view) for span in detector.spans.values() for view in span.parts]
    head = {
        "version": VERSION,
        "parts": len(parts),
        "last_ms": detector.last_ms,
        "incomplete_since_ms": detector.incomplete_since_ms,
        "given_up": [asdict(finding) for finding in detector.given_up],
    }
    return [_packed(head), *parts]


def _load(detector: FleetDetector, parts: Sequence[bytes]) -> None:
    """Fills a detector that has not judged yet."""
    opened = [_unpacked(part) for part in parts]
    if not opened or opened[0][0].get("version") != VERSION or opened[0][0].get("parts") != len(parts) - 1:
        raise ContractError("the parts of the detector's state do not belong together, or are of another version")
    head = opened[0][0]
    detector.last_ms = head["last_ms"]
    detector.incomplete_since_ms = head["incomplete_since_ms"]
    detector.given_up = [_finding(found) for found in head["given_up"]]
    detector.given_up_before = len(detector.given_up)
    for one, data in opened[1:]:
        if "rule" in one:
            _load_rule(detector, one, data)
        else:
            _load_view(detector, one, data)


def _packed(head: Mapping[str, Any], *data: bytes | memoryview) -> bytes:
    opening = json.dumps(head, separators=(",", ":"), sort_keys=True).encode()
    return _MAGIC + compress_all([len(opening).to_bytes(4, "little"), opening, *data])


def _unpacked(part: bytes) -> tuple[dict[str, Any], memoryview]:
    if part[:4] != _MAGIC:
        raise ContractError("a part of the detector's state does not begin as one")
    whole = decompress(part[4:])
    stop = 4 + int.from_bytes(whole[:4], "little")
    head: dict[str, Any] = json.loads(whole[4:stop])
    return head, memoryview(whole)[stop:]


def _rule_part(detector: RuleDetector) -> bytes:
    if detector.packed is None:
        head, arrays = detector.dump()
        shapes = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
        data = (np.ascontiguousarray(array).data.cast("B") for array in arrays.values() if array.size)
        detector.packed = _packed({**head, "arrays": shapes}, *data)
    return detector.packed


def _arrays(head: Mapping[str, Any], data: memoryview) -> dict[str, npt.NDArray[Any]]:
    found, position = {}, 0
    for name, dtype, shape in head["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=dtype, count=count, offset=position).reshape(shape)
        position += array.nbytes
        found[name] = array.copy()
    return found


def _load_rule(detector: FleetDetector, head: Mapping[str, Any], data: memoryview) -> None:
    ours = detector.detectors.get(head["rule"])
    if ours is not None and state_hash(ours.rule) == head["hash"]:
        ours.load(head, _arrays(head, data))
        return
    lost = RuleDetector(_a_rule(head), (), 1)
    lost.load(head, _arrays(head, data), learned=False)
    detector.given_up += lost.ended()


def _a_rule(head: Mapping[str, Any]) -> Rule:
    """Enough of a rule that is no more to name what fired."""
    none = Measure("value", "", Function.COUNT)
    options = {"above": 0.0}
    return Rule(
        head["rule"], "threshold", (none,), tuple(head["by"]), "", "", window_ms=head["window_ms"], options=options
    )


def _view_part(span: Span, view: View) -> bytes:
    parts = span.parts[view]
    head = {
        "span_ms": span.length_ms,
        "start_ms": span.start_ms,
        "complete": span.complete,
        "whole": span.whole,
        "series_whole": span.series_whole,
        "heard": span.heard,
        "view_heard": parts.heard,
        "view": _view_text(view),
    }
    return _packed(head, native.encode(view.fields, _plain(parts.whole(view))))


def _plain(block: Block) -> Block:
    """With the words in use alone, in order: codes of a lexicon are those of this process."""
    columns = {
        name: Labels(*compacted(column.codes, column.words)) if isinstance(column, Labels) else column
        for name, column in block.columns.items()
    }
    return Block(block.rows, columns)


def _load_view(detector: FleetDetector, head: Mapping[str, Any], data: memoryview) -> None:
    span = detector.spans.get(head["span_ms"])
    if span is None:
        return
    if span.start_ms is None:
        span.begin(head["start_ms"], from_start=True)
        span.complete, span.whole, span.heard = head["complete"], head["whole"], head["heard"]
        span.series_whole = head.get("series_whole", False)
    for view in span.views:
        if _view_text(view) == head["view"]:
            span.parts[view] = Parts(head["view_heard"], [native.decode(bytes(data), view.fields)])


def _view_text(view: View) -> str:
    return repr((view.key, [field.name for field in view.fields]))


def _finding(found: dict[str, Any]) -> Finding:
    labels = tuple((name, value) for name, value in found["labels"])
    return Finding(**{**found, "labels": labels})
