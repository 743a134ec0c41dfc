"""The alert job as a step: one fold over ``window.finals``, nothing else. See ``stream_jobs.step`` for its rules.

Finals wait at the barrier (``gather``); a window that is ready goes through the detector (rules), the evidence (what is
worth remembering of it) and the life of alerts, whose transitions are the output. One that a slow upstream keeps
waiting is looked at early: what begins to fire on machines of the others is emitted, and nothing learned. GPU events,
engine events and silences act at once, where they stand in the log; spend is added up there, and budgets are judged
with the next window. Nothing that can be read makes the fold raise: what cannot be read is counted.

Should a defect of ours make a window raise, ``fold`` raises: detector, evidence and life may be spoilt half way, and to
keep a copy of them before every window would cost more than judging. The runner rebuilds the state up to that record
and hands it to ``reject``: there, and only there, a copy is taken before each window that is ready. The window that
raises again is left out and logged, the state before it is restored, and time goes on behind it.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import orjson

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract import alert_commands
from schemas.contract.alerts import SCHEMA, SEVERITIES, TRANSITIONS, Alert, encode
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC
from schemas.errors import ContractError, NewerReleaseError, RejectedError
from schemas.events.event_types import BY_TOPIC
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders, PassedOnHeaders
from schemas.rows.spend import SPEND
from stream_jobs import parts as frame
from stream_jobs.alerts.changes import Changes, Ended, State
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.gather import Gather, Ready
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.opening import window_of
from stream_jobs.alerts.policy import DEFAULT_POLICY, AlertPolicy
from stream_jobs.alerts.spending import NO_BUDGETS
from stream_jobs.budgets.model import Budgets
from stream_jobs.insight.fleet_detector import FleetDetector, with_builtin
from stream_jobs.parts import compress, decompress
from stream_jobs.rules.model import Rule, RuleSet
from stream_jobs.step import Commit, Stat, Step

_log = logging.getLogger(__name__)

VERSION = 4
_MAGIC_3 = b"FPA1"
_MAGIC = b"FPA2"

UNJUDGED = ("unknown", "below_count", "beyond_limit", "incomplete")
"""Why a window of a series was not judged."""


class AlertStep(Step[State, Changes]):
    """``upstreams``: partitions of ``window.partials``. ``judge`` and ``evidence`` make a fresh one for the rules.
    ``open_file`` opens an empty file for finals that wait, gone once it is closed; None: they wait in memory."""

    name = "alerts"
    snapshot_with_outputs = True

    def __init__(
        self,
        upstreams: int,
        ruleset: RuleSet,
        detector: Callable[[tuple[Rule, ...]], FleetDetector] = FleetDetector,
        evidence: Callable[[tuple[Rule, ...]], Evidence] = Evidence,
        policy: AlertPolicy = DEFAULT_POLICY,
        topic: str = ALERTS_TOPIC,
        budgets: Budgets = NO_BUDGETS,
        open_file: Callable[[], BinaryIO] | None = None,
    ) -> None:
        assert upstreams > 0
        self._upstreams = upstreams
        self._ruleset = ruleset
        self._detector = detector
        self._evidence = evidence
        self._policy = policy
        self._topic = topic
        self._budgets = budgets
        self._open_file = open_file

    def new(self, topic: str, partition: int) -> State:
        evidence = self._evidence(self._ruleset.rules)
        life = Life(with_builtin(self._ruleset), evidence.of, self._policy, self._budgets)
        gather, detector, ended = (
            Gather([0] * self._upstreams, open_file=self._open_file),
            self._detector(self._ruleset.rules),
            Ended(self._policy),
        )
        return State(topic, partition, gather, detector, evidence, life, ended)

    def changes(self) -> Changes:
        return Changes()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        for record in records:
            if record.offset < state.replay_to:
                _take_again(state.gather, record)
                continue
            late, skipped = state.gather.late, state.skipped
            try:
                self._take(state, record, changes)
            except NewerReleaseError:
                raise
            except (ContractError, RejectedError):
                state.skipped += 1
            changes.late += state.gather.late - late
            changes.skipped += state.skipped - skipped
            state.position = record.offset + 1

    def _take(self, state: State, record: Record, changes: Changes) -> None:
        headers = _headers(record)
        if isinstance(headers, FinalsHeaders):
            state.gather.add(headers, record.value or b"", record.timestamp_ms, record.offset)
            for ready in state.gather.ready():
                self._judge_window(state, ready, changes)
            for early in state.gather.early():
                self._look(state, early, changes)
            return
        self._emit(state, _passed_on(state.life, headers, record.value or b""), changes)

    def _judge_window(self, state: State, ready: Ready, changes: Changes) -> None:
        window, unread = window_of(ready, state.lexicons)
        before, findings = state.detector.stats, state.detector.detect(window)
        changes.series += state.detector.stats - before
        state.evidence.remember(window, findings)
        self._emit(state, state.life.window(window, findings), changes)
        changes.gone += [(len(changes.alerts), name) for name in state.ended.take_off(state.life.now_ms)]
        changes.judged += 1
        changes.incomplete += not window.complete
        state.skipped += unread

    def _look(self, state: State, early: Ready, changes: Changes) -> None:
        """Emit what begins in a window that some upstream keeps waiting; it is judged later."""
        window, unread = window_of(early, state.lexicons)
        if not unread:
            self._emit(state, state.life.early(state.detector.look(window), window.window_ms), changes)
            changes.early += 1

    def _emit(self, state: State, alerts: Iterable[Alert], changes: Changes) -> None:
        new = list(alerts)
        changes.alerts += new
        state.ended.emitted(new)

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """Book a record that made ``fold`` raise. What finals say is taken all the same, without the windows that
        cannot be judged; anything else is left out."""
        state.position = record.offset + 1
        try:
            headers = _headers(record)
            assert isinstance(headers, FinalsHeaders), "events and commands are not taken by halves"
            state.gather.add(headers, record.value or b"", record.timestamp_ms, record.offset)
        except MemoryError:
            raise
        except Exception:
            state.skipped += 1
            changes.skipped += 1
            return
        for ready in state.gather.ready():
            self._judge_or_leave(state, ready, changes)
        for _ in state.gather.early():
            pass  # it may be what raised: seen when it is judged

    def _judge_or_leave(self, state: State, ready: Ready, changes: Changes) -> None:
        detector, evidence, topology = state.detector.dump(), state.evidence.dump(), state.life.topology.dump()
        life, skipped = orjson.dumps(state.life.dump()), state.skipped
        try:
            self._judge_window(state, ready, changes)
        except MemoryError:
            raise
        except Exception as error:
            cause = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            facts = {"window_ms": ready.window_ms, "error": cause}
            _log.error("judging a window failed, please report it; the window is skipped", extra=facts)
            changes.failed += 1
            fresh = self.new(state.topic, state.partition)
            state.detector, state.evidence, state.life, state.skipped = (
                fresh.detector,
                fresh.evidence,
                fresh.life,
                skipped,
            )
            state.detector.load(detector)
            state.evidence.load(evidence)
            state.life.load(orjson.loads(life))
            state.life.topology.load(topology)

    def due(self, state: State, changes: Changes) -> bool:
        return bool(changes.alerts)

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        outputs = [output_of(alert, self._topic) for alert in changes.alerts]
        for before, fingerprint in reversed(changes.gone):
            outputs.insert(before, Output(self._topic, 0, fingerprint.encode(), None, ()))
        return outputs

    def stats(self, state: State, changes: Changes) -> Iterator[Stat]:
        open_ = Counter(incident.severity for incident in state.life.store.open())
        for severity in SEVERITIES:
            yield Stat("alerts_open", open_[severity], {"severity": severity})
        transitions = Counter(alert.transition for alert in changes.alerts)
        for transition in TRANSITIONS:
            yield Stat("alert_transitions", transitions[transition], {"transition": transition})
        yield Stat("alert_windows", changes.judged - changes.incomplete, {"complete": "yes"})
        yield Stat("alert_windows", changes.incomplete, {"complete": "no"})
        yield Stat("alert_windows_early", changes.early)
        yield Stat("alert_windows_failed", changes.failed)
        yield Stat("alert_late_revisions", changes.late)
        yield Stat("alert_strange_records", state.gather.strange)
        yield Stat("alert_records_skipped", changes.skipped)
        yield Stat("alert_causes_refused", state.life.store.refused)
        yield Stat("alert_progress_ms", state.life.now_ms)
        yield Stat("spend_unnamed", state.life.spending.spend.unnamed)
        yield Stat("insight_judged", changes.series["judged"])
        for reason in UNJUDGED:
            yield Stat("insight_unjudged", changes.series[reason], {"reason": reason})
        yield Stat("insight_ignored", changes.series["ignored"])
        yield Stat("insight_series_forgotten", changes.series["forgotten"])
        for rule, series in state.detector.series.items():
            yield Stat("insight_series", series, {"rule": rule})

    def dump(self, state: State) -> list[bytes]:
        head = {"gather": state.gather.head(), "life": state.life.dump(), "skipped": state.skipped}
        head |= {"ended": state.ended.dump(), "position": state.position}
        sections = {
            "gather": state.gather.values(),
            "judge": state.detector.dump(),
            "evidence": state.evidence.dump(),
            "topology": state.life.topology.dump(),
        }
        return in_parts(head, sections)

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        state = self.new(topic, partition)
        head, sections = of_parts(parts)
        state.gather.load(head["gather"], b"".join(sections["gather"]))
        state.detector.load(sections["judge"])
        state.evidence.load(sections["evidence"])
        state.life.load(head["life"])
        state.life.topology.load(sections["topology"])
        state.ended.load(head["ended"])
        state.skipped = head["skipped"]
        state.position = state.replay_to = head.get("position", 0)
        return state

    def replay_from(self, state: State, position: int) -> int:
        first = state.gather.first_offset()
        return position if first is None else min(first, position)

    def pass_over(self, state: State, offset: int) -> bool:
        """Finals before ``offset`` are gone: windows that waited with some of them are judged as incomplete. Where
        more than these are missing, the partition is not started."""
        if offset > state.replay_to:
            return False
        state.gather.pass_over(offset)
        return True

    def ends_without(self, state: State) -> list[str]:
        """Rules of which something fired, and which the file has no more."""
        known = {rule.name for rule in (*with_builtin(self._ruleset).rules, *self._ruleset.disabled)}
        detector = state.detector
        return sorted({one.rule for one in detector.given_up[detector.given_up_before :]} - known)

    def begin_again(self, state: State, offset: int, lost_to_ms: int) -> None:
        """Windows that wait, and those that the first finals from now on end, are judged as incomplete."""
        state.gather.begin_again()
        state.position = state.replay_to = offset


def _headers(record: Record) -> FinalsHeaders | PassedOnHeaders:
    where = f"{record.topic}/{record.partition} @ {record.offset}"
    return finals.decode(record.headers, where, record.timestamp_ms)


def _take_again(gather: Gather, record: Record) -> None:
    """What can be read of it was read before."""
    try:
        headers = _headers(record)
    except (ContractError, RejectedError):
        return
    if isinstance(headers, FinalsHeaders):
        gather.add_again(record.offset, headers, record.value or b"")


def output_of(alert: Alert, topic: str = ALERTS_TOPIC) -> Output:
    """The record of a transition."""
    headers = (
        ("schema", SCHEMA.encode()),
        ("content-type", b"application/json"),
        ("transition_id", alert.transition_id.encode()),
        ("severity", alert.severity.encode()),
    )
    return Output(topic, 0, alert.fingerprint.encode(), encode(alert), headers)


def _passed_on(life: Life, headers: PassedOnHeaders, value: bytes) -> Iterable[Alert]:
    """What an event or a command does at once. Raises ``RejectedError`` for what cannot be read."""
    if headers.schema == finals.COMMANDS_SCHEMA:
        return life.command(alert_commands.decode(value), headers.at_ms)
    if headers.schema == SPEND.schema:
        return life.spend(rows_of(SPEND.fields, native.decode(value, SPEND.fields)))
    topic = finals.PASSED_ON_SCHEMAS[headers.schema]
    fields = BY_TOPIC[topic].fields
    rows = rows_of(fields, native.decode(value, fields))
    return life.gpu_events(rows) if topic == "gpu.events" else life.engine_events(rows)


def in_parts(head: Mapping[str, Any], sections: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    """Head and sections as parts: the head, which changes with every record, and each piece of a section as it is, so
    that those that stay the same are not written again."""
    checks = {name: [zlib.crc32(piece) for piece in pieces] for name, pieces in sections.items()}
    text = orjson.dumps({"version": VERSION, "head": head, "sections": checks})
    return [_MAGIC + compress(text), *(piece for pieces in sections.values() for piece in pieces)]


def of_parts(parts: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Head and sections. Raises ``ContractError`` when the parts are not those of one snapshot of a version that is
    read."""
    if not parts or parts[0][:4] != _MAGIC:
        return _of_parts_3(parts)
    found = orjson.loads(decompress(parts[0][4:]))
    frame.check_head(found, VERSION)
    checks: dict[str, list[int]] = found["sections"]
    if [check for each in checks.values() for check in each] != [zlib.crc32(part) for part in parts[1:]]:
        raise ContractError("the parts of the snapshot do not belong together")
    rest = iter(parts[1:])
    return found["head"], {name: [next(rest) for _ in each] for name, each in checks.items()}


def _of_parts_3(parts: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Of a snapshot of 0.1.0, which holds all that waits at the barrier."""
    opening, data = frame.joined(_MAGIC_3, parts)
    found = orjson.loads(decompress(opening))
    frame.check_head(found, 3)
    lengths: dict[str, list[int]] = found["sections"]
    pieces = iter(frame.pieces_of(data, (length for each in lengths.values() for length in each)))
    return found["head"], {name: [next(pieces) for _ in each] for name, each in lengths.items()}
