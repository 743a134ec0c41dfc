"""What a migration has to do, as data: steps for people and machines to read, and the notes beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.contract.rights import Right
from schemas.contract.topics import KEPT_FOR_EVER, Topic
from schemas.ddl.kept import Kept
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


class Step(Protocol):
    """One thing to do. ``removes``: records or rows that are kept now are removed by it, so that it needs consent."""

    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def says(self) -> str: ...
    @property
    def removes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class MakeTopic:
    """A topic is missing. ``known``: only its log id is."""

    topic: Topic
    known: bool = False
    kind: str = "topic"
    removes: bool = False

    @property
    def subject(self) -> str:
        return self.topic.name

    @property
    def says(self) -> str:
        return "give it a log id" if self.known else f"create with {self.topic.partitions} partitions"


@dataclass(frozen=True, slots=True)
class NameDeployment:
    """The contract does not say whose topics these are."""

    subject: str
    kind: str = "deployment"
    removes: bool = False
    says: str = "note that the topics are its own"


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """A topic gets more partitions."""

    subject: str
    has: int
    wanted: int
    after: str = ""
    kind: str = "partitions"
    removes: bool = False

    @property
    def says(self) -> str:
        return f"{self.has} -> {self.wanted}" + (f"; {self.after}" if self.after else "")


@dataclass(frozen=True, slots=True)
class SetTopic:
    """Settings of a topic change: ``had`` and ``wanted`` by name; ``every`` has all that are set on the topic."""

    subject: str
    had: Mapping[str, str | None]
    wanted: Mapping[str, str]
    every: Mapping[str, str] = field(default_factory=dict)
    kind: str = "topic setting"

    @property
    def removes(self) -> bool:
        had, wanted = self.had.get("retention.ms"), self.wanted.get("retention.ms")
        return wanted is not None and (had is None or _shorter(int(wanted), int(had)))

    @property
    def says(self) -> str:
        return ", ".join(
            f"{name} {_readable(name, self.had[name])} -> {_readable(name, self.wanted[name])}" for name in self.wanted
        )


@dataclass(frozen=True, slots=True)
class Allow:
    """A login gets a right in Kafka."""

    principal: str
    right: Right
    removes: bool = False

    @property
    def kind(self) -> str:
        return f"allow {self.principal}"

    @property
    def subject(self) -> str:
        return self.right.subject

    @property
    def says(self) -> str:
        return str(self.right.operation)


@dataclass(frozen=True, slots=True)
class ApplyFile:
    """Statements that are executed once, and the rows of the history that say so: number, name, checksum."""

    subject: str
    statements: tuple[str, ...]
    noted: tuple[int, str, str]
    because: str = ""
    kind: str = "migration"
    removes: bool = False

    @property
    def says(self) -> str:
        return f"{len(self.statements)} statements" + (f"; {self.because}" if self.because else "")


@dataclass(frozen=True, slots=True)
class Restore:
    """A table, view or function that applied files made is missing: their statements about it run again."""

    subject: str
    statements: tuple[str, ...]
    holds_rows: bool
    kind: str = "missing"
    removes: bool = False

    @property
    def says(self) -> str:
        rows = "create it without rows; restore these from a backup" if self.holds_rows else "create it"
        return f"somebody dropped it: {rows}"


@dataclass(frozen=True, slots=True)
class SetTtl:
    """Rows of a table are kept for another time, or go in another way. ``had_ms``: None where nothing limits it now."""

    kept: Kept
    had_ms: int | None
    rows: int
    kind: str = "table ttl"

    @property
    def subject(self) -> str:
        return self.kept.table

    @property
    def removes(self) -> bool:
        return self.rows > 0 and (self.had_ms is None or self.kept.kept_ms < self.had_ms)

    @property
    def says(self) -> str:
        had = "none" if self.had_ms is None else duration(self.had_ms)
        return f"{had} -> {duration(self.kept.kept_ms)} after {self.kept.column}{self._way}"

    @property
    def _way(self) -> str:
        """How rows go, where it is not as for most tables, or is all that changes."""
        if self.kept.whole_parts is False:
            return ", row by row"
        return ", with whole parts" if self.kept.whole_parts and self.had_ms == self.kept.kept_ms else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps`` in the order in which they are done; ``notes`` are for people. ``left`` are steps that were not done
    because they need consent."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[Step, ...] = ()

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.steps + other.steps, self.notes + other.notes, self.left + other.left)

    @property
    def empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.steps and not self.left

    @property
    def removing(self) -> tuple[Step, ...]:
        """The steps that need consent."""
        return tuple(step for step in self.steps if step.removes)

    def without_removing(self) -> Plan:
        """The plan with the steps that need consent left out."""
        return Plan(tuple(step for step in self.steps if not step.removes), self.notes, self.left + self.removing)

    def __str__(self) -> str:
        lines = _lines(self.steps)
        lines += [f"not done without --yes: {line}" for line in _lines(self.left)]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines) if self.steps or self.left else "\n".join(["topics and tables are up to date", *lines])

    def data(self) -> dict[str, Any]:
        """The plan for ``--json``."""
        return {"steps": [_data(s) for s in self.steps], "left": [_data(s) for s in self.left], "notes": self.notes}


def _lines(steps: Iterable[Step]) -> list[str]:
    """A line for every step, one for those that do the same."""
    subjects: dict[tuple[str, str, bool], list[str]] = {}
    for step in steps:
        subjects.setdefault((step.kind, step.says, step.removes), []).append(step.subject)
    return [
        f"{kind} {', '.join(names)}: {says}" + (" (removes what is older)" if removes else "")
        for (kind, says, removes), names in subjects.items()
    ]


def _data(step: Step) -> dict[str, Any]:
    return {"kind": step.kind, "subject": step.subject, "says": step.says, "removes": step.removes}


def duration(ms: int) -> str:
    """Such as ``7 d`` or ``36 h``, exact; ``for ever`` for ``KEPT_FOR_EVER``."""
    if ms == KEPT_FOR_EVER:
        return "for ever"
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS), ("s", SECOND_MS)):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _readable(name: str, value: str | None) -> str:
    if value is None:
        return "unknown"
    return duration(int(value)) if name.endswith(".ms") else value


def _shorter(wanted_ms: int, had_ms: int) -> bool:
    return wanted_ms != KEPT_FOR_EVER and (had_ms == KEPT_FOR_EVER or wanted_ms < had_ms)
