"""The state of the alert job, and what a commit of it sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from schemas.contract.alerts import Alert
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.gather import Gather
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.lexicon import Lexicons


class Ended:
    """Alerts that ended and still stand on the topic, by fingerprint in the order in which they were resolved.

    The topic is compacted: without this the last record of every alert that ever was would stay on it. An alert that
    has been resolved for ``resolved_kept_ms`` of event time is taken off by a record without value; of more than
    ``resolved_max`` those that ended first go sooner. One that comes back meanwhile stays."""

    def __init__(self, policy: AlertPolicy) -> None:
        self._policy = policy
        self._resolved_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._resolved_ms)

    def emitted(self, alerts: Iterable[Alert]) -> None:
        """These were emitted."""
        for alert in alerts:
            self._resolved_ms.pop(alert.fingerprint, None)
            if alert.transition == "resolved":
                self._resolved_ms[alert.fingerprint] = alert.at_ms

    def take_off(self, now_ms: int) -> list[str]:
        """Those whose time is over, or that find no room; they are known no more."""
        spare = len(self._resolved_ms) - self._policy.resolved_max
        old_ms = now_ms - self._policy.resolved_kept_ms
        gone = [name for n, (name, at_ms) in enumerate(self._resolved_ms.items()) if n < spare or at_ms <= old_ms]
        for name in gone:
            del self._resolved_ms[name]
        return gone

    def dump(self) -> list[tuple[str, int]]:
        """As plain values."""
        return list(self._resolved_ms.items())

    def load(self, found: Iterable[Sequence[str | int]]) -> None:
        self._resolved_ms = {str(name): int(at_ms) for name, at_ms in found}


@dataclass(slots=True)
class State:
    """Everything that the alerts to come hang on. ``position`` is the offset behind the last record; those below
    ``replay_to`` were folded before the state was dumped: what waited of them is read again, nothing else."""

    topic: str
    partition: int
    gather: Gather
    detector: FleetDetector
    evidence: Evidence
    life: Life
    ended: Ended
    skipped: int = 0
    """Records and pieces that could not be read."""
    position: int = 0
    replay_to: int = 0
    lexicons: Lexicons = field(default_factory=Lexicons, repr=False, compare=False)
    """No part of what is dumped: which code a word has changes nothing."""


@dataclass(slots=True)
class Changes:
    """Transitions since the last commit, and what was counted. ``gone`` are alerts that are taken off the topic, by
    fingerprint: how many of ``alerts`` come before."""

    alerts: list[Alert] = field(default_factory=list)
    gone: list[tuple[int, str]] = field(default_factory=list)
    judged: int = 0
    incomplete: int = 0
    early: int = 0
    """Windows that were looked at before they could be judged."""
    late: int = 0
    skipped: int = 0
    failed: int = 0
    """Windows that a defect of ours kept from being judged."""
    series: Counter[str] = field(default_factory=Counter)
    """What the detector did since: windows of series judged, and by reason not judged."""
