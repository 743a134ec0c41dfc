"""The life of alerts: ``opened`` -> ``updated`` ... -> ``resolved``, as a fold over windows, events and commands.

- **One cause, one alert**: ``incident_store`` and ``connect`` decide who joins whom. The first symptom may open it;
  a likelier cause that comes later becomes its headline.
- **Opened** at once. **Updated** when the headline or the severity changed, a silence began or ended, an event joined,
  or other members did (at most once a minute); again every ``renotify_ms`` of its rule while it is not silenced.
  Members that follow from their machine being gone, and mere new values, are in the next record but cause none.
- **Resolved** when every member is over and none came back or joined for ``hold_ms``; ``resolved_ms`` is when the last
  was over. Burn rates look back for hours: they hold no alert open that has another member.
- **Flapping**: what comes back within ``flap_ms`` of its resolve takes the same alert up again (``updated``, numbers go
  on, the note counts returns), and each return doubles the hold.
- **Late consequences**: what began while an alert went on and comes when it is resolved opens nothing unless it
  outlives ``flap_ms`` (burn rates ``join_burn_ms``).

Time is event time: the end of the window judged last, or an event's own. Ids follow from the input alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.contract.alert_commands import Command, check_begin
from schemas.contract.alerts import Alert
from schemas.limits import WINDOW_MS
from stream_jobs.alerts import events
from stream_jobs.alerts.incident_store import IncidentStore
from stream_jobs.alerts.incidents import Emitted, Incident
from stream_jobs.alerts.marks import Marks, mark_of
from stream_jobs.alerts.policy import DEFAULT_POLICY, AlertPolicy
from stream_jobs.alerts.signals import Level, Signal, identity, level_of, of_finding
from stream_jobs.alerts.silences import Silences
from stream_jobs.alerts.spending import NO_BUDGETS, RULES, Spending
from stream_jobs.alerts.topology import Topology
from stream_jobs.budgets.model import Budgets
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import RuleSet

EvidenceOf = Callable[[Alert], Mapping[str, Any]]


class Life:
    """``evidence_of`` is called when an alert opens or changes. ``unknown`` counts findings of rules we do not have."""

    def __init__(
        self,
        ruleset: RuleSet,
        evidence_of: EvidenceOf = lambda alert: {},
        policy: AlertPolicy = DEFAULT_POLICY,
        budgets: Budgets = NO_BUDGETS,
    ) -> None:
        self._ruleset = ruleset
        self._rules = {rule.name: rule for rule in ruleset.rules}
        self._policy = policy
        self._evidence_of = evidence_of
        self.topology = Topology(policy)
        self.store = IncidentStore(policy, self.topology)
        self.silences = Silences(ruleset.silences, policy.silences_max)
        self.marks = Marks(policy.marks_max, policy.mark_ms)
        self.spending = Spending(budgets)
        self.now_ms = 0
        self.unknown = 0
        self._found_ms: dict[str, int] = {}
        """When a GPU or engine was found last; of those alone that the topology, which is bounded, knows."""

    # what comes

    def window(self, window: Window, findings: Sequence[Finding], length_ms: int = WINDOW_MS) -> list[Alert]:
        """A judged window: its findings, and time moves on to its end."""
        end_ms = window.window_ms + length_ms
        self.now_ms = max(self.now_ms, end_ms)
        self.topology.learn(window, end_ms)
        self._end_unruled(findings)
        self.store.take([*self._signals(findings, end_ms - length_ms), *self.spending.signals(self.now_ms)])
        self._settle(end_ms)
        return self._emit(list(self.store.incidents.values()), end_ms, renotify=True)

    def early(self, findings: Sequence[Finding], window_ms: int, length_ms: int = WINDOW_MS) -> list[Alert]:
        """What begins in a window that is judged later. Time stands: it goes on with windows that are judged."""
        touched = self.store.take(self._signals(findings, window_ms))
        return self._emit(list(touched.values()), window_ms + length_ms)

    def gpu_events(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """GPU events of one record, as rows of ``gpu.events``."""
        alerts: list[Alert] = []
        for row in sorted(rows, key=lambda one: int(one["at_ms"])):
            at_ms = int(row["at_ms"])
            self.topology.learn_row(row, min(at_ms, self.now_ms) if self.now_ms else at_ms)
            touched = self._end_by(row, at_ms)
            signal = self._of_gpu_event(row, at_ms)
            if signal is not None:
                touched |= self.store.take([signal])
            alerts += self._emit(list(touched.values()), at_ms)
        return alerts

    def engine_events(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Engine events of one record, as rows of ``engine.events``."""
        alerts: list[Alert] = []
        for row in sorted(rows, key=lambda one: int(one["at_ms"])):
            at_ms, kind = int(row["at_ms"]), row["kind"]
            if kind in events.MARKS:
                self.marks.add(mark_of(row))
            if kind != "marked":
                self.topology.learn_row(row, min(at_ms, self.now_ms) if self.now_ms else at_ms)
            touched = self._engine_event(row, at_ms)
            alerts += self._emit(list(touched.values()), at_ms)
        return alerts

    def command(self, command: Command, at_ms: int = 0) -> list[Alert]:
        """A silence begins or ends. ``at_ms`` is when it was written: what begins by then is in force at once, although
        the windows are some seconds behind. Raises ``RejectedError`` for a silence that begins too late or finds no
        room."""
        if command.command == "ran":
            return []
        now_ms = max(at_ms, self.now_ms)
        check_begin(command, now_ms)
        self.silences.forget(self.now_ms)
        self.silences.take(replace(command, from_ms=0) if command.from_ms <= at_ms else command)
        return self._emit(self.store.open(), self.now_ms)

    def spend(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Bills that changed, as rows of ``spend/1``; budgets are judged when a window is, nothing is emitted here."""
        self.spending.spend.add(rows)
        return []

    # signals

    def _signals(self, findings: Sequence[Finding], since_ms: int) -> list[Signal]:
        signals = []
        for finding in findings:
            rule = self._rules.get(finding.rule)
            if rule is None:
                self.unknown += 1
                continue
            labels = self.topology.where(dict(finding.labels))
            machine = rule.kind == "no_data" and level_of(rule.by) in (Level.GPU, Level.ENGINE)
            silent = machine and self.topology.is_silent(labels.get("host", ""), since_ms)
            hosts = self._hosts_of(labels) if rule.kind == "regression" else None
            signals.append(of_finding(rule, finding, labels, silent_host=silent, hosts=hosts))
        return signals

    def _end_unruled(self, findings: Sequence[Finding]) -> None:
        """What was found under rules that are no more is over with the first window that is judged without them."""
        for finding in findings:
            if finding.rule not in self._rules and not finding.firing:
                self.store.end(identity(finding.rule, finding.labels), finding.end_ms)

    def _hosts_of(self, labels: Mapping[str, str]) -> int | None:
        """How many hosts run the version of a model; None where nobody reported one."""
        return self.topology.hosts_with(labels.get("model", ""), labels.get("model_version", "")) or None

    def _of_gpu_event(self, row: Mapping[str, Any], at_ms: int) -> Signal | None:
        handling = events.handling_of(row, self._ruleset)
        if at_ms + handling.lasts_ms <= self.now_ms:
            return None  # it came late and is over by now
        if any(self._found_ms.get(f"{kind}\x1f{row['gpu_uuid']}", -1) >= at_ms for kind in handling.ended_by):
            return None  # it came after what ended it
        labels = self.topology.where(events.where_of(row))
        return events.of_gpu_event(row, handling, labels)

    def _end_by(self, row: Mapping[str, Any], at_ms: int) -> dict[str, Incident]:
        """What of this GPU is over because of the event."""
        kind, uuid = row["kind"], str(row["gpu_uuid"])
        touched: dict[str, Incident] = {}
        if kind == "gpu_found" and uuid in self.topology.gpus:
            key = f"{kind}\x1f{uuid}"
            self._found_ms[key] = max(at_ms, self._found_ms.get(key, 0))
        parts = [part for incident in self.store.about_gpu(uuid) for part in incident.parts.values()]
        live = [part.signal for part in parts if part.until_ms is None]
        for one in [*live, *self.store.waiting.about_gpu(uuid)]:
            mine = one.kind == "event" and one.labels.get("gpu_uuid") == uuid
            same = events.is_over(row) and one.rule == events.gpu_rule(kind) and _same_code(one, row)
            if mine and one.at_ms <= at_ms and (kind in one.ended_by or same):
                touched.update({each.fingerprint: each for each in self.store.end(one.id, at_ms)})
        return touched

    def _engine_event(self, row: Mapping[str, Any], at_ms: int) -> dict[str, Incident]:
        kind, engine_id = row["kind"], row.get("engine_id")
        if engine_id is None:
            return {}
        signal_id = identity(events.ENGINE_LOST, events.engine_key(str(engine_id)))
        if kind in events.ENGINE_BACK:
            if str(engine_id) in self.topology.engines:
                self._found_ms[signal_id] = max(at_ms, self._found_ms.get(signal_id, 0))
            began = self.store.signal(signal_id)
            if began is None or began.at_ms > at_ms:
                return {}
            return {one.fingerprint: one for one in self.store.end(signal_id, at_ms)}
        late = self._found_ms.get(signal_id, -1) >= at_ms or at_ms + events.LOST_MS <= self.now_ms
        if kind != "lost" or late:
            return {}
        signal = events.of_engine_lost(row, self.topology.where(events.where_of(row)))
        return self.store.take([signal] if signal is not None else [])

    # time

    def _settle(self, now_ms: int) -> None:
        """What time alone changes: parts that are over, alerts that are resolved or forgotten."""
        policy = self._policy
        for incident in self.store.open():
            for part in incident.parts.values():
                if part.until_ms is None and (over_ms := _over_ms(part.signal, policy)) <= now_ms:
                    self.store.end(part.signal.id, over_ms)
                    if part.until_ms is None:  # it belongs to the incident that this one was a part of
                        incident.end(part.signal.id, over_ms)
            hold_ms = min(policy.hold_ms * 2**incident.returns, policy.hold_max_ms)
            if incident.into:
                incident.resolved_ms = now_ms
            elif incident.calm_ms is not None and now_ms - incident.calm_ms >= hold_ms:
                incident.resolved_ms = incident.calm_ms
                self.store.spend(incident, now_ms)
        for incident in list(self.store.incidents.values()):
            last = incident.emitted
            if incident.resolved_ms is None or (last is not None and last.open):
                continue
            if last is None or now_ms - last.at_ms >= policy.flap_ms:
                self.store.drop(incident)
        self.store.forget_spent(now_ms)
        self.store.retry(now_ms)
        self.silences.forget(now_ms)
        self.marks.forget(now_ms)
        self._found_ms = {key: at for key, at in self._found_ms.items() if now_ms - at <= events.LOST_MS}

    # emitting

    def _emit(self, incidents: Sequence[Incident], now_ms: int, *, renotify: bool = False) -> list[Alert]:
        alerts = []
        for incident in sorted(incidents, key=lambda one: (one.opened_ms, one.fingerprint)):
            if incident.into and incident.resolved_ms is None:
                incident.resolved_ms = now_ms
            if incident.resolved_ms is None:
                incident.muted_until_ms = self._muted(incident, now_ms)
            transition = self._transition(incident, now_ms, renotify=renotify)
            if transition is not None:
                alerts.append(self._record(incident, transition, now_ms))
        return alerts

    def _transition(self, incident: Incident, now_ms: int, *, renotify: bool) -> str | None:
        last = incident.emitted
        if last is None:
            return "opened" if incident.resolved_ms is None else None
        if incident.resolved_ms is not None:
            return "resolved" if last.open else None
        state = (incident.severity, incident.face, incident.muted_until_ms)
        if not last.open or state != (last.severity, last.face, last.muted_until_ms):
            return "updated"
        if incident.events > last.events:
            return "updated"
        waited_ms = now_ms - last.at_ms
        grown = len(incident.parts) > last.members and not incident.lost
        if grown and waited_ms >= self._policy.members_every_ms:
            return "updated"
        again = renotify and incident.muted_until_ms is None and waited_ms >= incident.head.signal.renotify_ms
        return "updated" if again else None

    def _record(self, incident: Incident, transition: str, now_ms: int) -> Alert:
        last, policy = incident.emitted, self._policy
        at_ms = max(now_ms, last.at_ms if last is not None else 0)
        incident.number += 1
        changed = last is None or last.face != incident.face
        aged = at_ms - incident.evidence_ms >= policy.evidence_every_ms
        if transition != "resolved" and (changed or aged):
            bare = incident.alert(transition, at_ms, policy.members_max)
            incident.evidence, incident.evidence_ms = self._evidence(bare), at_ms
        incident.emitted = Emitted(
            at_ms,
            incident.severity,
            incident.face,
            len(incident.parts),
            incident.events,
            incident.muted_until_ms,
            transition != "resolved",
        )
        return incident.alert(transition, at_ms, policy.members_max)

    def _muted(self, incident: Incident, now_ms: int) -> int | None:
        """Until when its headline is silenced, and with it everything that goes on and is as severe as the alert: a
        silence of one host hides no budget of users that burns with it. Events are emitted before the window that they
        are in is judged: what is in force then is what is at their own time, and nothing goes back behind it."""
        if not self.silences.any:
            return None
        at_ms = max(self.now_ms, now_ms, 0 if incident.emitted is None else incident.emitted.at_ms)
        named = [(incident.head.signal.rule, incident.labels), *((one.rule, one.labels) for one in incident.worst())]
        whole = {"severity": incident.severity, "fingerprint": incident.fingerprint}
        ends = []
        for rule, labels in named:
            until_ms = self.silences.until_ms({**labels, "rule": rule, **whole}, at_ms)
            if until_ms is None:
                return None
            ends.append(until_ms)
        return min(ends)

    def _evidence(self, alert: Alert) -> dict[str, Any]:
        if alert.rule in RULES and "period" in alert.labels:
            return self.spending.evidence(alert.rule, alert.labels, self.now_ms)
        found = dict(self._evidence_of(alert))
        deployed = self.marks.of(alert.labels.get("model"), alert.labels.get("engine_id"), alert.since_ms)
        return {**found, "deployment": deployed} if deployed else found

    # state

    def dump(self) -> dict[str, Any]:
        """As plain values that JSON can hold; without the topology, which is packed by itself."""
        return {
            "now_ms": self.now_ms,
            "unknown": self.unknown,
            "found_ms": self._found_ms,
            "book": self.store.dump(),
            **self.silences.dump(),
            "marks": self.marks.dump(),
            "spending": self.spending.dump(),
        }

    def load(self, found: Mapping[str, Any]) -> None:
        self.now_ms, self.unknown, self._found_ms = found["now_ms"], found["unknown"], dict(found["found_ms"])
        self.store.load(found["book"])
        self.silences.load(found)
        self.marks.load(found["marks"])
        self.spending.load(found["spending"])


def _over_ms(signal: Signal, policy: AlertPolicy) -> int:
    """When a signal is over by itself: events last a time, findings that no longer come are over after a while."""
    if signal.lasts_ms is not None:
        return signal.at_ms + signal.lasts_ms
    return signal.at_ms + 3 * signal.length_ms + policy.unseen_ms


def _same_code(signal: Signal, row: Mapping[str, Any]) -> bool:
    code = dict(signal.key).get("code")
    return code is None or code == str(row.get("code"))
