"""The state of the alert job, and what a commit of it sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.contract.alerts import Alert
from stream_jobs.alerts.ended import Ended
from stream_jobs.alerts.gather import Gather
from stream_jobs.alerts.life import Life
from stream_jobs.insight.frame import Finding
from stream_jobs.insight.window import Window


class DetectorLike(Protocol):
    """``stream_jobs.insight.fleet_detector.FleetDetector``, as far as it is needed here."""

    @property
    def stats(self) -> Counter[str]: ...

    @property
    def series(self) -> Mapping[str, int]: ...

    def detect(self, window: Window) -> list[Finding]: ...

    def dump(self) -> list[bytes]: ...

    def load(self, parts: Sequence[bytes]) -> None: ...


class EvidenceLike(Protocol):
    """``stream_jobs.alerts.evidence.Evidence``, as far as it is needed here."""

    def remember(self, window: Window, findings: Sequence[Finding]) -> None: ...

    def of(self, alert: Alert) -> Mapping[str, Any]: ...

    def dump(self) -> list[bytes]: ...

    def load(self, parts: Sequence[bytes]) -> None: ...


@dataclass(slots=True)
class State:
    """Everything that the alerts to come hang on."""

    topic: str
    partition: int
    gather: Gather
    detector: DetectorLike
    evidence: EvidenceLike
    life: Life
    ended: Ended
    skipped: int = 0
    """Records and pieces that could not be read."""


@dataclass(slots=True)
class Changes:
    """Transitions since the last commit, and what was counted. ``gone`` are alerts that are taken off the topic, by
    fingerprint: how many of ``alerts`` come before."""

    alerts: list[Alert] = field(default_factory=list)
    gone: list[tuple[int, str]] = field(default_factory=list)
    judged: int = 0
    incomplete: int = 0
    late: int = 0
    skipped: int = 0
    failed: int = 0
    """Windows that a defect of ours kept from being judged."""
    series: Counter[str] = field(default_factory=Counter)
    """What the detector did since: windows of series judged, and by reason not judged."""
