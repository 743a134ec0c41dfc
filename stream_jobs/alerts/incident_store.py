"""Incidents: those that are open and those lately resolved, found by fingerprint, by key and by part.

What a signal becomes is decided here (a new incident, a part of one, the return of one, or nothing); when that is
emitted is decided in ``life``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.contract.alerts import SEVERITIES
from stream_jobs.alerts.alike import Alike, Having
from stream_jobs.alerts.connect import Keys, is_wide, keys_of, may_join, nearest, shared_of
from stream_jobs.alerts.incidents import Incident, fingerprint_of
from stream_jobs.alerts.parts import Part
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.signals import Level, Rank, Signal
from stream_jobs.alerts.topology import Topology
from stream_jobs.alerts.waiting import Standing, Waiting, standing_of, standings


class IncidentStore:
    """``refused`` counts causes that found no room; events among them are in ``waiting`` until there is."""

    def __init__(self, policy: AlertPolicy, topology: Topology) -> None:
        self._policy = policy
        self._topology = topology
        self.incidents: dict[str, Incident] = {}
        self.refused = 0
        self._by_part: dict[str, str] = {}
        self._by_key: dict[str, dict[str, None]] = {}
        self._beyond: dict[str, tuple[str, bool]] = {}
        """Signals that go on and found no room in their incident: its fingerprint, and whether they are of many."""
        self._spent: dict[str, int] = {}
        self._evicted: dict[str, None] = {}
        """Incidents to drop once they were emitted as resolved; they do not count as open."""
        self._standings: list[Standing] | None = None
        """Who makes room during one ``take``."""
        self.alike = Alike()
        self.waiting = Waiting(policy.waiting_max)

    def open(self) -> list[Incident]:
        """Those that are not resolved, in order of their opening."""
        return [incident for incident in self.incidents.values() if incident.resolved_ms is None]

    def of_part(self, signal_id: str) -> Incident | None:
        """The incident that a signal is a part of."""
        fingerprint = self._by_part.get(signal_id)
        return None if fingerprint is None else self.incidents[fingerprint]

    def signal(self, signal_id: str) -> Signal | None:
        """The signal as it came last, if it is a part of an incident or waits to be one."""
        incident = self.of_part(signal_id)
        return self.waiting.get(signal_id) if incident is None else incident.parts[signal_id].signal

    def about_gpu(self, uuid: str) -> list[Incident]:
        """Open incidents that a GPU is a part of."""
        return self._open_holding((f"gpu\x1f{uuid}",))

    # taking signals

    def take(self, signals: Iterable[Signal]) -> dict[str, Incident]:
        """Place signals that came together; the incidents that may have changed, by fingerprint."""
        self._forget_evicted()
        self._standings = None
        ordered = sorted(signals, key=lambda one: (one.firing, one.order))
        counted = [signal.id for signal in ordered if signal.firing and self._count(signal)]
        touched: dict[str, Incident] = {}
        for signal in ordered:
            for incident in self._place(signal) if signal.firing else self.end(signal.id, signal.at_ms):
                touched[incident.fingerprint] = incident
        for incident in touched.values():
            self._trim(incident)
        for signal_id in counted:
            if signal_id not in self._by_part and signal_id not in self._beyond:
                self.alike.discard(signal_id)
        return touched

    def end(self, signal_id: str, at_ms: int) -> list[Incident]:
        """A signal is over."""
        self._spent.pop(signal_id, None)
        self._beyond.pop(signal_id, None)
        self.waiting.pop(signal_id)
        self.alike.discard(signal_id)
        incident = self.of_part(signal_id)
        if incident is None:
            return []
        incident.end(signal_id, at_ms)
        return [incident]

    def _place(self, signal: Signal) -> list[Incident]:
        known = self.of_part(signal.id)
        if known is not None and self._is_anew(known, signal):
            self._release(known, signal.id)
            known = None
        if known is not None and not self._is_stray(known, signal):
            return [self._again(known, signal)]
        if self._is_beyond(signal):
            return []
        if signal.id in self._spent:
            if signal.at_ms < self._spent[signal.id]:
                return []
            del self._spent[signal.id]
        keys = keys_of(signal, self._topology)
        found, others = self._seek(signal, keys)
        if found is None:
            return [self._again(known, signal)] if known is not None else self._adopt_or_open(signal, keys)
        for other in others:
            self._absorb(found, other)
        self._add(found, signal, keys, wide=self._is_wide(signal, keys))
        return [found, *others]

    def _is_anew(self, known: Incident, signal: Signal) -> bool:
        """A burn rate that begins after its incident, of which it was no cause, is resolved: it is a trouble of its
        own, and would hold that one open no longer than it did."""
        over_ms = known.resolved_ms
        return (
            signal.kind == "burn_rate" and over_ms is not None and signal.since_ms > over_ms and known.counts.causes > 0
        )

    def _is_stray(self, known: Incident, signal: Signal) -> bool:
        """A symptom of what is resolved by now: if another cause is open, it is that one's."""
        return known.resolved_ms is not None and not signal.machine and signal.id != known.headline

    def _is_beyond(self, signal: Signal) -> bool:
        """Its incident has no room for it, and it would not be the headline there."""
        fingerprint, wide = self._beyond.get(signal.id, ("", False))
        incident = self.incidents.get(fingerprint)
        if incident is None or incident.resolved_ms is not None or not incident.busy:
            return False
        full = len(incident.parts) >= self._policy.parts_max
        return full and Part(signal, signal.since_ms, None, wide).standing >= incident.head.standing

    def _again(self, incident: Incident, signal: Signal) -> Incident:
        self._revive(incident)
        before = incident.parts[signal.id].signal
        incident.take(signal.after(before) if signal.kind == "event" else signal)
        return incident

    def _revive(self, incident: Incident) -> None:
        if incident.resolved_ms is not None:
            incident.resolved_ms, incident.returns, incident.into = None, incident.returns + 1, ""

    def _adopt_or_open(self, signal: Signal, keys: Keys) -> list[Incident]:
        if self._explained(signal, keys):
            lasts_ms = self._policy.join_burn_ms if signal.kind == "burn_rate" else self._policy.flap_ms
            self._spent[signal.id] = signal.at_ms + lasts_ms
            return []
        fingerprint = fingerprint_of(signal)
        known = self.incidents.get(fingerprint)
        if known is not None and not known.evicted and self._is_anew(known, signal):
            self.drop(known)
            known = None
        if known is not None and not known.evicted:
            self._revive(known)
            self._add(known, signal, keys, wide=False)
            return [known]
        gone = None if known is not None else self._make_room(signal)
        if gone is None:
            self.refused += self.waiting.add(signal) if signal.kind == "event" else 1
            return []
        incident = Incident(fingerprint, signal.at_ms, signal.id, signal.since_ms)
        self.incidents[fingerprint] = incident
        self._add(incident, signal, keys, wide=False)
        return [incident, *gone]

    # room

    def retry(self, now_ms: int) -> None:
        """Place events that waited for room, until there is none."""
        self.waiting.forget(now_ms)
        for signal in self.waiting.in_order():
            self.take([signal])
            if signal.id in self.waiting:
                return

    def _make_room(self, signal: Signal) -> list[Incident] | None:
        """Incidents that were closed so that there is room for the signal; None where none may be."""
        if len(self.incidents) - len(self._evicted) < self._policy.open_max:
            return []
        if self._standings is None:
            self._standings = standings(self.incidents.values())
        while self._standings:
            standing = self._standings[-1]
            victim = self.incidents.get(standing[2])
            if victim is not None and standing_of(victim) == standing:
                return self._evict(victim, signal) if standing[0] < SEVERITIES.index(signal.severity) else None
            self._standings.pop()  # it went, or is another by now
        return None

    def _evict(self, victim: Incident, signal: Signal) -> list[Incident]:
        if victim.resolved_ms is not None:
            self.drop(victim)
            return []
        victim.resolved_ms, victim.evicted = signal.at_ms, True
        self._evicted[victim.fingerprint] = None
        self._unhold(victim)
        self._let_go(victim)
        return [victim]

    def _forget_evicted(self) -> None:
        for fingerprint in list(self._evicted):
            emitted = self.incidents[fingerprint].emitted
            if emitted is not None and not emitted.open:
                self.drop(self.incidents[fingerprint])

    def _explained(self, signal: Signal, keys: Keys) -> bool:
        """It began while something that is resolved by now went on: its late consequence."""
        if signal.rank <= Rank.EVENT:
            return False
        past = (one for one in self._holding(keys.seeks) if one.resolved_ms is not None)
        return any(signal.since_ms <= (one.resolved_ms or 0) and signal.since_ms >= one.since_ms for one in past)

    # finding

    def _seek(self, signal: Signal, keys: Keys) -> tuple[Incident | None, list[Incident]]:
        """The incident to join, and others that turn out to be the same."""
        if signal.level is Level.FLEET:
            strong = self.open()
        else:
            strong = [one for one in self._holding(keys.seeks) if one.resolved_ms is None]
        strong = [one for one in strong if may_join(signal, one, self._policy)]
        alike = self._alike_to(signal, keys)
        weak = [one for one in self._holding(keys.weak) if one.resolved_ms is None and not one.anchored]
        weak = [one for one in weak if may_join(signal, one, self._policy)]
        if not signal.machine:
            target = nearest(signal, strong)
            soft = [one for one in strong if one.soft] if signal.rank is Rank.VERSION else []
            return target, [one for one in soft if one is not target]
        same = [*alike, *weak, *(strong if signal.rank is Rank.LOST else ())]
        target = nearest(signal, strong) if strong and signal.rank is not Rank.LOST else _oldest(same)
        return target, list({one.fingerprint: one for one in same if one is not target}.values())

    def _alike_to(self, signal: Signal, keys: Keys) -> list[Incident]:
        """Incidents of the same trouble where enough machines have it for a shared cause."""
        if signal.rank is Rank.LOST:
            near_ms = self._policy.together_ms
            return [one for one in self._open_holding(keys.like) if one.lost_about(signal.since_ms, near_ms)]
        wide = self._wide_keys(signal, keys)
        return [one for one in self._open_holding(wide) if one.only_like(signal.rule)]

    def _open_holding(self, keys: Iterable[str]) -> list[Incident]:
        return [one for one in self._holding(keys) if one.resolved_ms is None]

    def _holding(self, keys: Iterable[str]) -> list[Incident]:
        found = dict.fromkeys(fingerprint for key in keys for fingerprint in self._by_key.get(key, ()))
        return [self.incidents[fingerprint] for fingerprint in found]

    def _wide_keys(self, signal: Signal, keys: Keys) -> list[str]:
        if not keys.like or signal.rank is Rank.LOST:
            return []
        known = [count for _, count in shared_of(signal, self._topology)]
        counts = [self.alike.close(key, signal.since_ms, self._policy.alike_ms) for key in keys.like]
        each = zip(keys.like, counts, known, strict=True)
        return [key for key, count, all_ in each if is_wide(count, all_)]

    def _is_wide(self, signal: Signal, keys: Keys) -> bool:
        return bool(self._wide_keys(signal, keys))

    def _count(self, signal: Signal) -> bool:
        """Whether it was not counted before."""
        if signal.id in self.alike:
            return False
        keys = keys_of(signal, self._topology).like
        self.alike.add(signal.id, Having(signal.place or signal.id, signal.since_ms, keys))
        return True

    # changing

    def _add(self, incident: Incident, signal: Signal, keys: Keys, *, wide: bool) -> None:
        incident.take(signal, wide=wide)
        if wide:
            incident.widen(signal.rule)
        self._by_part[signal.id] = incident.fingerprint
        self._beyond.pop(signal.id, None)
        self.waiting.pop(signal.id)
        self._hold(incident, keys.holds)

    def _trim(self, incident: Incident) -> None:
        """Once all signals that came together are in."""
        for part in incident.trim(self._policy.parts_max):
            self._release(incident, part.signal.id)
            if part.until_ms is None and part.signal.kind != "event":
                self._beyond[part.signal.id] = (incident.fingerprint, part.wide)
            else:
                self.alike.discard(part.signal.id)

    def _hold(self, incident: Incident, keys: Iterable[str]) -> None:
        for key in keys:
            incident.keys[key] = None
            self._by_key.setdefault(key, {})[incident.fingerprint] = None

    def _absorb(self, target: Incident, other: Incident) -> None:
        """All parts of ``other`` belong to ``target``."""
        for signal_id in other.parts:
            self._by_part[signal_id] = target.fingerprint
        self._hold(target, other.keys)
        self._unhold(other)
        target.absorb(other)

    def _unhold(self, incident: Incident) -> None:
        for key in incident.keys:
            holders = self._by_key[key]
            del holders[incident.fingerprint]
            if not holders:
                del self._by_key[key]
        incident.keys = {}

    def _release(self, incident: Incident, signal_id: str) -> None:
        """It is found under this incident no more; under another that it belongs to by now it is."""
        if self._by_part.get(signal_id) == incident.fingerprint:
            del self._by_part[signal_id]

    def spend(self, incident: Incident, now_ms: int) -> None:
        """What goes on though its incident is resolved (burn rates) opens nothing until it is over, or for hours."""
        for signal_id, part in incident.parts.items():
            if part.until_ms is None:
                incident.end(signal_id, now_ms)
                self.alike.discard(signal_id)
                self._release(incident, signal_id)
                self._spent[signal_id] = now_ms + self._policy.join_burn_ms

    def drop(self, incident: Incident) -> None:
        """Forget an incident."""
        self._unhold(incident)
        self._let_go(incident)
        self._evicted.pop(incident.fingerprint, None)
        del self.incidents[incident.fingerprint]

    def _let_go(self, incident: Incident) -> None:
        for signal_id in incident.parts:
            if self._by_part.get(signal_id) == incident.fingerprint:
                self.alike.discard(signal_id)
                del self._by_part[signal_id]

    def forget_spent(self, now_ms: int) -> None:
        """Let go of what was spent long ago."""
        for signal_id in [signal_id for signal_id, until_ms in self._spent.items() if until_ms <= now_ms]:
            del self._spent[signal_id]
        for signal_id in [one for one, (name, _) in self._beyond.items() if name not in self.incidents]:
            del self._beyond[signal_id]
            self.alike.discard(signal_id)

    # state

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "incidents": [incident.dump() for incident in self.incidents.values()],
            **self.alike.dump(),
            "beyond": self._beyond,
            "by_key": {key: list(held) for key, held in self._by_key.items()},
            "by_part": self._by_part,
            "spent": self._spent,
            "waiting": self.waiting.dump(),
            "refused": self.refused,
        }

    def load(self, found: Mapping[str, Any]) -> None:
        incidents = [Incident.load(one) for one in found["incidents"]]
        self.incidents = {incident.fingerprint: incident for incident in incidents}
        self._evicted = {incident.fingerprint: None for incident in incidents if incident.evicted}
        self.waiting.load(found["waiting"])
        self.alike.load(found)
        self._beyond = {signal_id: (name, wide) for signal_id, (name, wide) in found["beyond"].items()}
        self._by_key = {key: dict.fromkeys(held) for key, held in found["by_key"].items()}
        self._by_part, self._spent = dict(found["by_part"]), dict(found["spent"])
        self.refused = found["refused"]


def _oldest(incidents: Iterable[Incident]) -> Incident | None:
    return min(incidents, key=lambda one: (one.opened_ms, one.fingerprint), default=None)
