"""What one check found, and all of them together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from runtime.runbook import QUARANTINE, Cause, section
from runtime.tls import OUT_OF_TIME

_CAUSES = {
    "kafka.port": Cause.KAFKA,
    "kafka.answer": Cause.KAFKA,
    "clickhouse.answer": Cause.CLICKHOUSE,
    "clickhouse.login": Cause.CLICKHOUSE_LOGIN,
    "clickhouse_reader.login": Cause.CLICKHOUSE_LOGIN,
    "topic.exists": Cause.TOPIC,
    "process": Cause.PROCESS,
    "topic.deployment": Cause.DEPLOYMENT,
    "config.key": Cause.SETTING,
    "config.value": Cause.SETTING,
    "config.file": Cause.SETTING,
    "clock.kafka": Cause.CLOCK,
    "clock.clickhouse": Cause.CLOCK,
    "clock.hosts": Cause.CLOCK,
    "records.rejected": Cause.REJECTED,
    "join.price": Cause.PRICE,
    "series.room": Cause.SERIES,
    "disk": Cause.DISK,
    "parts": Cause.PART,
    "certificate": Cause.CERTIFICATE,
    "delivery": Cause.DELIVERY,
    "lag": Cause.LAG,
    "lag.age": Cause.LAG,
    "topic.open_transaction": Cause.LAG,
}
"""What the runbook calls the cause, by check."""
PARTITION = "partition."
"""Checks of partitions that stand still begin so; why is the rest."""


class State(StrEnum):
    """``NOTE``: worth knowing, nothing is broken. ``UNKNOWN``: could not be checked, mostly because of another finding
    that is wrong."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one thing. ``mend`` is a command or a setting to copy; None where nothing is to be mended."""

    check: str
    """Which check: ``topic.partitions``, ``reader.rights``. Stable: programs may rely on it."""
    subject: str
    """What was checked: a topic, a table, an address."""
    state: State
    says: str
    mend: str | None = None

    @property
    def cause(self) -> Cause | None:
        """The cause by the runbook's name; None where nothing is wrong, or the command that mends it says all."""
        if self.state is not State.WRONG:
            return None
        return Cause.CERTIFICATE if OUT_OF_TIME in self.says else _CAUSES.get(self.check)

    @property
    def runbook(self) -> str | None:
        """Where people read more about what is wrong; None where there is no section of it."""
        if self.state is State.WRONG and self.check.startswith(PARTITION):
            return section(QUARANTINE)
        return None if self.cause is None else self.cause.url

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "runbook": self.runbook}


def good(check: str, subject: str, says: str) -> Finding:
    """All is well there."""
    return Finding(check, subject, State.GOOD, says)


def note(check: str, subject: str, says: str, mend: str | None = None) -> Finding:
    """Worth knowing."""
    return Finding(check, subject, State.NOTE, says, mend)


def wrong(check: str, subject: str, says: str, mend: str) -> Finding:
    """Broken, with what mends it."""
    return Finding(check, subject, State.WRONG, says, mend)


def unknown(check: str, subject: str, says: str) -> Finding:
    """Not checked, and why."""
    return Finding(check, subject, State.UNKNOWN, says)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings in the order of the checks."""

    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """What has to be mended."""
        return tuple(one for one in self.findings if one.state is State.WRONG)

    def of(self, *states: State) -> tuple[Finding, ...]:
        """Findings in one of these states."""
        return tuple(one for one in self.findings if one.state in states)

    def as_dict(self) -> dict[str, Any]:
        counts = {state.value: len(self.of(state)) for state in State}
        return {"ok": not self.wrong, **counts, "findings": [one.as_dict() for one in self.findings]}
