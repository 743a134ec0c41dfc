"""An incident: one cause and everything it does. What an alert is made of; who joins whom stands in ``connect``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from schemas.contract.alerts import SEVERITIES, Alert
from stream_jobs.alerts.events import ENGINE_LOST
from stream_jobs.alerts.parts import Part, PartCounts
from stream_jobs.alerts.signals import Rank, Signal

FINGERPRINT_CHARS = 16
_APART = ("parts", "keys", "told", "emitted", "counts", "unsettled")
"""Not dumped as they are."""


def fingerprint_of(signal: Signal) -> str:
    """16 hex digits of the rule and the labels that identify a signal."""
    return sha256(signal.id.encode()).hexdigest()[:FINGERPRINT_CHARS]


@dataclass(slots=True)
class Emitted:
    """What the last record said, so that only changes are emitted."""

    at_ms: int
    severity: str
    face: str
    members: int
    events: int
    muted_until_ms: int | None
    open: bool


@dataclass(slots=True)
class Incident:
    """``parts`` by id of their signals; ``keys`` are what may connect others with it. ``joined_ms``: beginning of the
    newest part that may be a cause. ``calm_ms``: when the last part was over."""

    fingerprint: str
    opened_ms: int
    headline: str
    joined_ms: int
    parts: dict[str, Part] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)
    number: int = 0
    severity: str = "info"
    calm_ms: int | None = None
    resolved_ms: int | None = None
    returns: int = 0
    into: str = ""
    """Of the incident that this one turned out to be a part of."""
    evicted: bool = False
    """It was closed because something more severe needed the room."""
    emitted: Emitted | None = None
    muted_until_ms: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    evidence_ms: int = 0
    counts: PartCounts = field(default_factory=PartCounts, compare=False, repr=False)
    """Of ``parts``, which nobody else changes."""
    unsettled: bool = False
    """Parts came at once: the headline is chosen among all of them at the next signal."""

    @property
    def head(self) -> Part:
        """The likeliest cause seen so far."""
        return self.parts[self.headline]

    @property
    def face(self) -> str:
        """What people take the alert for: its headline, alone or as one of many."""
        return f"{self.headline}\x1e{'many' if self.head.wide else ''}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Of the headline; of many machines with the same trouble what they share, such as version or host."""
        head = self.head
        if not head.wide:
            return head.signal.labels
        alike = [part.signal.labels.items() for part in self._alike()]
        return {name: value for name, value in head.signal.labels.items() if all((name, value) in one for one in alike)}

    def _alike(self) -> list[Part]:
        """The parts of the headline's rule, itself among them."""
        return [part for part in self.parts.values() if part.wide and part.signal.rule == self.head.signal.rule]

    @property
    def summary(self) -> str:
        """Of the headline, and how many there are like it."""
        head = self.head
        more = self.counts.wide.get(head.signal.rule, 0) - 1 if head.wide else 0
        return f"{head.signal.summary} (and {more} more like it)" if more > 0 else head.signal.summary

    @property
    def since_ms(self) -> int:
        """When it began."""
        return min(self.counts.began)  # type: ignore[type-var,return-value]

    @property
    def anchored(self) -> bool:
        """A machine is among the parts, alone of its kind."""
        return self.counts.anchors > 0

    @property
    def lost(self) -> bool:
        """Whatever its machines report follows from their being gone."""
        head = self.head.signal
        return head.rank is Rank.LOST or head.rank is Rank.GONE or head.rule == ENGINE_LOST

    @property
    def events(self) -> int:
        """Parts that are events: each is news to whoever acts on them."""
        return self.counts.events

    @property
    def hard(self) -> bool:
        """Something happened to a machine, or it is gone: whatever follows there follows from it."""
        return self.head.signal.rank <= Rank.LOST

    @property
    def felt(self) -> bool:
        """Requests show it now."""
        return self.counts.felt > 0

    @property
    def soft(self) -> bool:
        """Its machines only differ from their own past: their cause may be what they share."""
        return self.counts.faults == 0

    @property
    def busy(self) -> bool:
        """Every part goes on."""
        return self.counts.live == len(self.parts)

    def only_like(self, rule: str) -> bool:
        """Its machines only have the trouble of this rule, or only differ from their own past."""
        return self.soft or self.counts.machine_rules.keys() <= {rule}

    def shows(self, measure: str, place: str) -> bool:
        """This measure of this machine is among the parts."""
        return (measure, place) in self.counts.measures

    def lost_about(self, since_ms: int, within_ms: int) -> bool:
        """A host of it fell silent about then."""
        return any(abs(at_ms - since_ms) <= within_ms for at_ms in self.counts.lost)  # type: ignore[operator]

    def goes_on(self) -> bool:
        """A part is not over; burn rates count only where there is nothing else, because they look back for hours."""
        return (self.counts.live_causes if self.counts.causes else self.counts.live) > 0

    def worst(self) -> list[Signal]:
        """Of those that go on, what is as severe as the incident is said to be."""
        live = (part.signal for part in self.parts.values() if part.until_ms is None)
        return [one for one in live if one.severity == self.severity]

    def take(self, signal: Signal, *, wide: bool = False) -> Part:
        """Put a signal in, or update a part; the headline moves to a likelier cause only."""
        head = self.parts.get(self.headline)
        stood = None if head is None else head.standing
        part = self.parts.get(signal.id)
        if part is None:
            part = self.parts[signal.id] = Part(signal, signal.since_ms)
            if signal.machine or signal.rank is Rank.VERSION:
                self.joined_ms = max(self.joined_ms, signal.since_ms)
        else:
            self.counts.count(part, -1)
        part.update(signal)
        part.wide = part.wide or wide
        self.counts.count(part, 1)
        if self.goes_on():
            self.calm_ms = None
        self.severity = worse(self.severity, signal.severity)
        self._weigh(part, stood)
        return part

    def _weigh(self, part: Part, stood: tuple[int, int] | None) -> None:
        """Settle, knowing that but for this part nothing stands before the headline, which stood there."""
        if self.unsettled or (stood is not None and part is self.head and part.standing > stood):
            self.settle()
        elif part.standing < self.head.standing:
            self.headline = part.signal.id

    def settle(self) -> None:
        """Choose the headline: what stands there stays unless another ranks, or weighs in severity, before it."""
        self.unsettled = False
        best = min(self.parts.values(), key=lambda part: part.order)
        if best.standing < self.head.standing:
            self.headline = best.signal.id

    def widen(self, rule: str) -> None:
        """All parts of this rule are of many."""
        if rule not in self.counts.narrow:
            return
        for part in self.parts.values():
            if part.signal.rule == rule and not part.wide:
                self.counts.count(part, -1)
                part.wide = True
                self.counts.count(part, 1)
        self.settle()

    def absorb(self, other: Incident) -> None:
        """All parts of ``other`` belong to this one; it keeps its headline alone, to be emitted as resolved."""
        for signal_id, part in other.parts.items():
            mine = self.parts.get(signal_id)
            if mine is not None:
                self.counts.count(mine, -1)
            mine = self.parts.setdefault(signal_id, replace(part))
            mine.since_ms = min(mine.since_ms, part.since_ms)
            self.counts.count(mine, 1)
        self.joined_ms = max(self.joined_ms, other.joined_ms)
        self.severity = worse(self.severity, other.severity)
        self.unsettled = True
        other._keep({other.headline: other.head})
        other.into = self.fingerprint

    def end(self, signal_id: str, at_ms: int) -> None:
        """A part is over."""
        part = self.parts[signal_id]
        if part.until_ms is None:
            self.counts.count(part, -1)
            part.end(at_ms)
            self.counts.count(part, 1)
        if not self.goes_on() and self.calm_ms is None:
            self.calm_ms = at_ms

    def trim(self, parts_max: int) -> list[Part]:
        """Forget the oldest parts that are over, then the least likely causes, beyond ``parts_max``; these."""
        excess = len(self.parts) - parts_max
        if excess <= 0:
            return []
        others = [part for part in self.parts.values() if part.signal.id != self.headline]
        others.sort(key=lambda part: (part.until_ms is None, part.until_ms or 0, *(-n for n in part.standing)))
        gone = others[:excess]
        for part in gone:
            self.counts.count(part, -1)
            del self.parts[part.signal.id]
        return gone

    def _keep(self, parts: dict[str, Part]) -> None:
        self.parts, self.counts = parts, PartCounts()
        for part in parts.values():
            self.counts.count(part, 1)

    def alert(self, transition: str, at_ms: int, members_max: int) -> Alert:
        """The whole state as a record."""
        head = self.head.signal
        others = sorted((p for p in self.parts.values() if p is not self.head), key=lambda p: p.order)
        return Alert(
            fingerprint=self.fingerprint,
            transition=transition,
            number=self.number,
            rule=head.rule,
            severity=self.severity,
            summary=self.summary,
            advice=head.advice,
            labels=self.labels,
            opened_ms=self.opened_ms,
            since_ms=self.since_ms,
            at_ms=at_ms,
            resolved_ms=self.resolved_ms,
            value=head.value,
            baseline=head.baseline,
            low=head.low,
            high=head.high,
            unit=head.unit,
            count=head.count,
            note=self._note(len(others) - members_max),
            muted_until_ms=self.muted_until_ms,
            members=tuple(part.member() for part in others[:members_max]),
            evidence=self.evidence,
        )

    def _note(self, more: int) -> str:
        said = [self.head.signal.note] if self.head.signal.note else []
        if self.returns:
            said.append(f"came back {self.returns} times" if self.returns > 1 else "came back once")
        if more > 0:
            said.append(f"{more} more with it")
        if self.into:
            said.append(f"same cause as {self.into}")
        if self.evicted:
            said.append("closed to make room for what is more severe")
        return "; ".join(said)

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        found = {name: getattr(self, name) for name in self.__slots__ if name not in _APART}
        parts = [part.dump() for part in self.parts.values()]
        return {
            **found,
            "parts": parts,
            "keys": list(self.keys),
            "told": asdict(self.emitted) if self.emitted else None,
        }

    @classmethod
    def load(cls, found: Mapping[str, Any]) -> Incident:
        parts = [Part.load(one) for one in found["parts"]]
        emitted = Emitted(**found["told"]) if found["told"] else None
        rest = {name: value for name, value in found.items() if name not in _APART}
        incident = cls(**rest, keys=dict.fromkeys(found["keys"]), emitted=emitted)
        incident._keep({part.signal.id: part for part in parts})
        return incident


def worse(one: str, other: str) -> str:
    """The worse of two severities."""
    return max(one, other, key=SEVERITIES.index)
