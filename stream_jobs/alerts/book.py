"""The book of incidents: those that go on and those lately resolved, found by fingerprint, by key and by part.

What a signal becomes is decided here (a new incident, a part of one, the return of one, or nothing); when that is told
is decided in ``life``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stream_jobs.alerts.connect import Keys, is_wide, keys_of, may_join, nearest, shared_of
from stream_jobs.alerts.incidents import Incident, fingerprint_of
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.signals import Level, Rank, Signal
from stream_jobs.alerts.topology import Topology


class Book:
    """``refused`` counts causes that found no room."""

    def __init__(self, policy: AlertPolicy, topology: Topology) -> None:
        self._policy = policy
        self._topology = topology
        self.incidents: dict[str, Incident] = {}
        self.refused = 0
        self._by_part: dict[str, str] = {}
        self._by_key: dict[str, dict[str, None]] = {}
        self._alike: dict[str, set[str]] = {}
        self._like_of: dict[str, tuple[str, ...]] = {}
        self._began: dict[str, tuple[str, int]] = {}
        self._spent: dict[str, int] = {}

    def open(self) -> list[Incident]:
        """Those that are not resolved, in order of their opening."""
        return [incident for incident in self.incidents.values() if incident.resolved_ms is None]

    def of_part(self, signal_id: str) -> Incident | None:
        """The incident that a signal is a part of."""
        fingerprint = self._by_part.get(signal_id)
        return None if fingerprint is None else self.incidents[fingerprint]

    def about_gpu(self, uuid: str) -> list[Incident]:
        """Open incidents that a GPU is a part of."""
        return self._open_holding((f"gpu\x1f{uuid}",))

    # taking signals

    def take(self, signals: Iterable[Signal]) -> dict[str, Incident]:
        """Place signals that were told together; the incidents that may have changed, by fingerprint."""
        ordered = sorted(signals, key=lambda one: (one.firing, one.order))
        touched: dict[str, Incident] = {}
        for signal in ordered:
            if signal.firing:
                self._count(signal)
        for signal in ordered:
            for incident in self._place(signal) if signal.firing else self.end(signal.id, signal.at_ms):
                touched[incident.fingerprint] = incident
        return touched

    def end(self, signal_id: str, at_ms: int) -> list[Incident]:
        """A signal is over."""
        self._spent.pop(signal_id, None)
        self._uncount(signal_id)
        incident = self.of_part(signal_id)
        if incident is None:
            return []
        incident.end(signal_id, at_ms)
        return [incident]

    def _place(self, signal: Signal) -> list[Incident]:
        known = self.of_part(signal.id)
        if known is not None and not self._is_stray(known, signal):
            return [self._again(known, signal)]
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

    def _is_stray(self, known: Incident, signal: Signal) -> bool:
        """A symptom of what is resolved by now: if another cause is open, it is that one's."""
        return known.resolved_ms is not None and not signal.machine and signal.id != known.headline

    def _again(self, incident: Incident, signal: Signal) -> Incident:
        if incident.resolved_ms is not None:
            incident.resolved_ms, incident.returns, incident.into = None, incident.returns + 1, ""
        before = incident.parts[signal.id].signal
        if signal.kind == "event":
            signal = _counted(signal, before)
        incident.take(signal)
        return incident

    def _adopt_or_open(self, signal: Signal, keys: Keys) -> list[Incident]:
        if self._explained(signal, keys):
            lasts_ms = self._policy.join_burn_ms if signal.kind == "burn_rate" else self._policy.flap_ms
            self._spent[signal.id] = signal.at_ms + lasts_ms
            return []
        fingerprint = fingerprint_of(signal)
        known = self.incidents.get(fingerprint)
        if known is not None:
            self._add(known, signal, keys, wide=False)
            return [self._again(known, signal)]
        if len(self.incidents) >= self._policy.open_max:
            self.refused += 1
            return []
        incident = Incident(fingerprint, signal.at_ms, signal.id, signal.since_ms)
        self.incidents[fingerprint] = incident
        self._add(incident, signal, keys, wide=False)
        return [incident]

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
            return [one for one in self._open_holding(keys.like) if self._together(signal, one)]
        wide = self._wide_keys(signal, keys)
        return [one for one in self._open_holding(wide) if _only_like(one, signal)]

    def _open_holding(self, keys: Iterable[str]) -> list[Incident]:
        return [one for one in self._holding(keys) if one.resolved_ms is None]

    def _holding(self, keys: Iterable[str]) -> list[Incident]:
        found = dict.fromkeys(fingerprint for key in keys for fingerprint in self._by_key.get(key, ()))
        return [self.incidents[fingerprint] for fingerprint in found]

    def _together(self, signal: Signal, incident: Incident) -> bool:
        lost = [part for part in incident.parts.values() if part.signal.rank is Rank.LOST]
        return any(abs(part.since_ms - signal.since_ms) <= self._policy.together_ms for part in lost)

    def _wide_keys(self, signal: Signal, keys: Keys) -> list[str]:
        if not keys.like or signal.rank is Rank.LOST:
            return []
        known = [count for _, count in shared_of(signal, self._topology)]
        counts = [self._close(key, signal.since_ms) for key in keys.like]
        told = zip(keys.like, counts, known, strict=True)
        return [key for key, count, all_ in told if is_wide(count, all_)]

    def _close(self, key: str, since_ms: int) -> int:
        """How many machines have had the same trouble since about the same time."""
        began = (self._began[signal_id] for signal_id in self._alike.get(key, ()))
        return len({place for place, ms in began if abs(since_ms - ms) <= self._policy.alike_ms})

    def _is_wide(self, signal: Signal, keys: Keys) -> bool:
        return bool(self._wide_keys(signal, keys))

    def _count(self, signal: Signal) -> None:
        if signal.id not in self._like_of:
            self._began[signal.id] = (signal.place or signal.id, signal.since_ms)
            self._like_of[signal.id] = keys_of(signal, self._topology).like
            for key in self._like_of[signal.id]:
                self._alike.setdefault(key, set()).add(signal.id)

    def _uncount(self, signal_id: str) -> None:
        self._began.pop(signal_id, None)
        for key in self._like_of.pop(signal_id, ()):
            self._alike[key].discard(signal_id)
            if not self._alike[key]:
                del self._alike[key]

    # changing

    def _add(self, incident: Incident, signal: Signal, keys: Keys, *, wide: bool) -> None:
        incident.take(signal, wide=wide)
        if wide:
            for part in incident.parts.values():
                part.wide = part.wide or part.signal.rule == signal.rule
            incident.settle()
        self._by_part[signal.id] = incident.fingerprint
        self._hold(incident, keys.holds)
        for gone in incident.trim(self._policy.parts_max):
            self._release(incident, gone)

    def _hold(self, incident: Incident, keys: Iterable[str]) -> None:
        for key in keys:
            incident.keys[key] = None
            self._by_key.setdefault(key, {})[incident.fingerprint] = None

    def _absorb(self, target: Incident, other: Incident) -> None:
        """All parts of ``other`` belong to ``target``; it keeps its headline alone, to be told as resolved."""
        for part in other.parts.values():
            mine = target.parts.setdefault(part.signal.id, part)
            mine.since_ms = min(mine.since_ms, part.since_ms)
            self._by_part[part.signal.id] = target.fingerprint
        target.joined_ms = max(target.joined_ms, other.joined_ms)
        self._hold(target, other.keys)
        self._unhold(other)
        other.parts, other.into = {other.headline: other.head}, target.fingerprint

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
                part.until_ms = now_ms
                self._uncount(signal_id)
                self._release(incident, signal_id)
                self._spent[signal_id] = now_ms + self._policy.join_burn_ms

    def drop(self, incident: Incident) -> None:
        """Forget an incident."""
        self._unhold(incident)
        for signal_id in incident.parts:
            self._release(incident, signal_id)
        del self.incidents[incident.fingerprint]

    def forget_spent(self, now_ms: int) -> None:
        """Let go of what was spent long ago."""
        for signal_id in [signal_id for signal_id, until_ms in self._spent.items() if until_ms <= now_ms]:
            del self._spent[signal_id]

    # state

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "incidents": [incident.dump() for incident in self.incidents.values()],
            "like_of": self._like_of,
            "began": self._began,
            "by_key": {key: list(held) for key, held in self._by_key.items()},
            "by_part": self._by_part,
            "spent": self._spent,
            "refused": self.refused,
        }

    def load(self, found: Mapping[str, Any]) -> None:
        """Take over a dump."""
        incidents = [Incident.load(one) for one in found["incidents"]]
        self.incidents = {incident.fingerprint: incident for incident in incidents}
        self._like_of = {signal_id: tuple(keys) for signal_id, keys in found["like_of"].items()}
        self._began = {signal_id: (place, since_ms) for signal_id, (place, since_ms) in found["began"].items()}
        self._alike = {}
        for signal_id, keys in self._like_of.items():
            for key in keys:
                self._alike.setdefault(key, set()).add(signal_id)
        self._by_key = {key: dict.fromkeys(held) for key, held in found["by_key"].items()}
        self._by_part, self._spent = dict(found["by_part"]), dict(found["spent"])
        self.refused = found["refused"]


def _only_like(incident: Incident, signal: Signal) -> bool:
    """Its machines only have the same trouble as the signal, or only differ from their own past."""
    machines = [part.signal for part in incident.parts.values() if part.signal.machine]
    return incident.soft or all(one.rule == signal.rule for one in machines)


def _oldest(incidents: Iterable[Incident]) -> Incident | None:
    return min(incidents, key=lambda one: (one.opened_ms, one.fingerprint), default=None)


def _counted(signal: Signal, before: Signal) -> Signal:
    """An event that came again: one more, and never older than it was."""
    at_ms, since_ms = max(signal.at_ms, before.at_ms), min(signal.since_ms, before.since_ms)
    return replace(signal, count=before.count + 1, at_ms=at_ms, since_ms=since_ms)
