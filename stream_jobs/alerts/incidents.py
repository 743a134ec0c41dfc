"""An incident: one cause and everything it does. What an alert is made of; who joins whom stands in ``connect``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from schemas.alerts import SEVERITIES, Alert, Member
from stream_jobs.alerts.events import ENGINE_LOST
from stream_jobs.alerts.signals import Level, Rank, Signal

FINGERPRINT_CHARS = 16


def fingerprint_of(signal: Signal) -> str:
    """16 hex digits of the rule and the labels that identify a signal."""
    return sha256(signal.id.encode()).hexdigest()[:FINGERPRINT_CHARS]


@dataclass(slots=True)
class Part:
    """A signal as it was told last. ``since_ms`` of its first run, ``until_ms`` None while it goes on. ``wide``: one of
    many of its kind, which says more about what they share than about this one."""

    signal: Signal
    since_ms: int
    until_ms: int | None = None
    wide: bool = False

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """The likeliest cause first."""
        rank, *rest = self.signal.order
        return (max(rank, Rank.MODEL + 1) if self.wide else rank, *rest)  # type: ignore[return-value]

    def member(self) -> Member:
        """As the alert tells it."""
        one = self.signal
        return Member(one.rule, one.severity, one.labels, self.since_ms, self.until_ms, one.value, one.summary)


@dataclass(slots=True)
class Told:
    """What the last record said, so that only what changed is told again."""

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
    told: Told | None = None
    muted_until_ms: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    evidence_ms: int = 0

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
        more = len(self._alike()) - 1 if self.head.wide else 0
        return f"{self.head.signal.summary} (and {more} more like it)" if more > 0 else self.head.signal.summary

    @property
    def since_ms(self) -> int:
        """When it began."""
        return min(part.since_ms for part in self.parts.values())

    @property
    def anchored(self) -> bool:
        """A machine is among the parts, alone of its kind."""
        return any(part.signal.machine and not part.wide for part in self.parts.values())

    @property
    def lost(self) -> bool:
        """What is told of its machines follows from their being gone."""
        head = self.head.signal
        return head.rank is Rank.LOST or head.rank is Rank.GONE or head.rule == ENGINE_LOST

    @property
    def events(self) -> int:
        """Parts that are events: each is news to whoever acts on them."""
        return sum(part.signal.rank <= Rank.EVENT for part in self.parts.values())

    @property
    def hard(self) -> bool:
        """Something happened to a machine, or it is gone: whatever follows there follows from it."""
        return self.head.signal.rank <= Rank.LOST

    @property
    def felt(self) -> bool:
        """Requests show it now."""
        going_on = (part.signal for part in self.parts.values() if part.until_ms is None)
        return any(one.weight and one.kind != "burn_rate" for one in going_on)

    @property
    def soft(self) -> bool:
        """Its machines only differ from their own past: their cause may be what they share."""
        return all(part.signal.rank >= Rank.SYMPTOM for part in self.parts.values() if part.signal.machine)

    def goes_on(self) -> bool:
        """A part is not over; burn rates count only where there is nothing else, because they look back for hours."""
        parts = list(self.parts.values())
        causes = [part for part in parts if part.signal.kind != "burn_rate"] or parts
        return any(part.until_ms is None for part in causes)

    def take(self, signal: Signal, *, wide: bool = False) -> Part:
        """Put a signal in, or tell a part anew; the headline moves to a likelier cause only."""
        part = self.parts.get(signal.id)
        if part is None:
            part = self.parts[signal.id] = Part(signal, signal.since_ms)
            if signal.machine or signal.rank is Rank.VERSION:
                self.joined_ms = max(self.joined_ms, signal.since_ms)
        part.signal, part.until_ms, part.wide = signal, None, part.wide or wide
        if self.goes_on():
            self.calm_ms = None
        self.severity = worse(self.severity, signal.severity)
        self.settle()
        return part

    def settle(self) -> None:
        """Choose the headline: what stands there stays unless another ranks, or weighs in severity, before it."""
        best = min(self.parts.values(), key=lambda part: part.order)
        if best.order[:2] < self.head.order[:2]:
            self.headline = best.signal.id

    def end(self, signal_id: str, at_ms: int) -> None:
        """A part is over."""
        part = self.parts[signal_id]
        if part.until_ms is None:
            part.until_ms = at_ms
        if not self.goes_on() and self.calm_ms is None:
            self.calm_ms = at_ms

    def trim(self, parts_max: int) -> list[str]:
        """Forget the oldest parts that are over, then the least likely causes, beyond ``parts_max``; their ids."""
        excess = len(self.parts) - parts_max
        if excess <= 0:
            return []
        others = [part for part in self.parts.values() if part.signal.id != self.headline]
        others.sort(key=lambda part: (part.until_ms is None, part.until_ms or 0, *(-n for n in part.order[:2])))
        gone = [part.signal.id for part in others[:excess]]
        for signal_id in gone:
            del self.parts[signal_id]
        return gone

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
        return "; ".join(said)

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        found = {name: getattr(self, name) for name in self.__slots__ if name not in ("parts", "keys", "told")}
        parts = [asdict(part) for part in self.parts.values()]
        return {**found, "parts": parts, "keys": list(self.keys), "told": asdict(self.told) if self.told else None}

    @classmethod
    def load(cls, found: Mapping[str, Any]) -> Incident:
        """Of a dump."""
        parts = [_part(one) for one in found["parts"]]
        told = Told(**found["told"]) if found["told"] else None
        rest = {name: value for name, value in found.items() if name not in ("parts", "keys", "told")}
        by_id = {part.signal.id: part for part in parts}
        return cls(**rest, parts=by_id, keys=dict.fromkeys(found["keys"]), told=told)


def _part(found: Mapping[str, Any]) -> Part:
    told = dict(found["signal"])
    told["key"] = tuple((name, value) for name, value in told["key"])
    told["ended_by"] = tuple(told["ended_by"])
    told["level"], told["rank"] = Level(told["level"]), Rank(told["rank"])
    return Part(Signal(**told), found["since_ms"], found["until_ms"], found["wide"])


def worse(one: str, other: str) -> str:
    """The worse of two severities."""
    return max(one, other, key=SEVERITIES.index)
