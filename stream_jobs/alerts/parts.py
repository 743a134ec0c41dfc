"""Parts of an incident, and counts over them that are kept as they come, change and go: no question walks them all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from math import inf
from typing import Any

from schemas.contract.alerts import SEVERITIES, Member
from stream_jobs.alerts.signals import Level, Rank, Signal

_SIGNAL = tuple(one.name for one in fields(Signal) if one.init)


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Of one window, and the sentence that says them.

    What an alert says of a trouble that passes are the values of its worst window, not those of the last, calm one: the
    one furthest beyond what was expected there; of equal ones the last. While a window is beyond its own values are
    emitted; once it is not, or the trouble is over, those of the worst so far. Kept besides a signal only while they
    are others than its own."""

    value: float | None
    baseline: float | None
    low: float | None
    high: float | None
    count: int
    summary: str


def values_of(signal: Signal) -> WindowValues:
    """Of the signal's window."""
    return WindowValues(signal.value, signal.baseline, signal.low, signal.high, signal.count, signal.summary)


def excess(one: Signal | WindowValues) -> float:
    """How far beyond the expected range the value lies, 0 or less inside; from the baseline where there is no range;
    -inf where nothing says."""
    if one.value is None:
        return -inf
    if one.low is None and one.high is None:
        return -inf if one.baseline is None else abs(one.value - one.baseline)
    above = -inf if one.high is None else one.value - one.high
    below = -inf if one.low is None else one.low - one.value
    return max(above, below)


def to_emit(now: Signal, before: Signal, worst: WindowValues | None) -> tuple[Signal, WindowValues | None]:
    """The signal of this window as it is to be emitted after ``before``, and what was worse."""
    peak = worst or values_of(before)
    away, most = excess(now), excess(peak)
    if away >= most:
        return now, None
    return (now, peak) if away > 0 else (with_values(now, peak), None)


def with_values(signal: Signal, values: WindowValues) -> Signal:
    """The signal with the values of another window."""
    return replace(signal, **asdict(values))


@dataclass(slots=True)
class Part:
    """A signal as it came last. ``since_ms`` of its first run, ``until_ms`` None while it goes on. ``wide``: one of
    many of its kind, which says more about what they share than about this one. ``worst``: values of a window that was
    further beyond, which are emitted once it is over."""

    signal: Signal
    since_ms: int
    until_ms: int | None = None
    wide: bool = False
    worst: WindowValues | None = None

    def update(self, signal: Signal) -> None:
        """It goes on."""
        self.signal, self.worst = to_emit(signal, self.signal, self.worst)
        self.until_ms = None

    def end(self, at_ms: int) -> None:
        """It is over."""
        self.until_ms = at_ms
        if self.worst is not None:
            self.signal, self.worst = with_values(self.signal, self.worst), None

    @property
    def standing(self) -> tuple[int, int]:
        """Rank and severity, the likeliest cause first: what a headline must be beaten in."""
        rank = self.signal.rank
        return (max(rank, Rank.MODEL + 1) if self.wide else rank, -SEVERITIES.index(self.signal.severity))

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """The likeliest cause first."""
        return (*self.standing, self.signal.weight, self.signal.since_ms, self.signal.id)

    def member(self) -> Member:
        """As a member of the alert."""
        one = self.signal
        return Member(one.rule, one.severity, one.labels, self.since_ms, self.until_ms, one.value, one.summary)

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        found = {"since_ms": self.since_ms, "until_ms": self.until_ms, "wide": self.wide}
        return {
            "signal": dump_signal(self.signal),
            **found,
            **({"worst": list(astuple(self.worst))} if self.worst else {}),
        }

    @classmethod
    def load(cls, found: Mapping[str, Any]) -> Part:
        signal, values = load_signal(found["signal"]), found.get("worst")
        return cls(
            signal, found["since_ms"], found["until_ms"], found["wide"], WindowValues(*values) if values else None
        )


def dump_signal(signal: Signal) -> dict[str, Any]:
    """As plain values."""
    return {name: getattr(signal, name) for name in _SIGNAL}


def load_signal(found: Mapping[str, Any]) -> Signal:
    values = dict(found)
    values["key"] = tuple((name, value) for name, value in values["key"])
    values["ended_by"] = tuple(values["ended_by"])
    values["level"], values["rank"] = Level(values["level"]), Rank(values["rank"])
    return Signal(**values)


Counts = dict[Hashable, int]


@dataclass(slots=True)
class PartCounts:
    """How many parts are what; a part is counted out before it is changed and in again after it."""

    causes: int = 0
    """All but burn rates."""
    live: int = 0
    live_causes: int = 0
    felt: int = 0
    """Of requests, and going on."""
    events: int = 0
    anchors: int = 0
    """Machines alone of their kind."""
    faults: int = 0
    """Machines that do more than differ from their own past."""
    machine_rules: Counts = field(default_factory=dict)
    measures: Counts = field(default_factory=dict)
    """By measure and place."""
    began: Counts = field(default_factory=dict)
    lost: Counts = field(default_factory=dict)
    """Hosts that fell silent, by when."""
    wide: Counts = field(default_factory=dict)
    narrow: Counts = field(default_factory=dict)
    """By rule; ``narrow`` are those that are not wide."""

    def count(self, part: Part, by: int) -> None:
        """In (1) or out (-1)."""
        one, live = part.signal, part.until_ms is None
        cause = one.kind != "burn_rate"
        self.causes += by * cause
        self.live += by * live
        self.live_causes += by * (live and cause)
        self.felt += by * (live and cause and one.weight > 0)
        self.events += by * (one.rank <= Rank.EVENT)
        _bump(self.began, part.since_ms, by)
        _bump(self.wide if part.wide else self.narrow, one.rule, by)
        if one.machine:
            self._count_machine(part, by)

    def _count_machine(self, part: Part, by: int) -> None:
        one = part.signal
        self.anchors += by * (not part.wide)
        self.faults += by * (one.rank < Rank.SYMPTOM)
        _bump(self.machine_rules, one.rule, by)
        _bump(self.measures, (one.measure, one.place), by)
        if one.rank is Rank.LOST:
            _bump(self.lost, part.since_ms, by)


def _bump(counts: Counts, name: Hashable, by: int) -> None:
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        del counts[name]
