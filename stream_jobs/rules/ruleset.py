"""What a file of rules holds beside rules: mutes, objectives of service classes, and what GPU events mean."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.alert_commands import Command
from stream_jobs.rules.model import Rule


@dataclass(frozen=True, slots=True)
class SloClass:
    """Objectives of a service class: ``share`` of its requests keep each latency that is given."""

    name: str
    share: float
    ttft_us: int | None = None
    tpot_us: int | None = None
    e2e_us: int | None = None


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """What to do about GPU events of these ``kinds`` (``codes`` and ``told`` severities empty: any).

    ``severity`` None: no alert. ``ended_by``: kinds of event that end it, for the same GPU; else it ends when none came
    for ``lasts_ms``.
    """

    kinds: tuple[str, ...]
    codes: tuple[int, ...]
    told: tuple[str, ...]
    severity: str | None
    advice: str
    ended_by: tuple[str, ...]
    lasts_ms: int

    def covers(self, kind: str, code: int | None, told: str | None) -> bool:
        """True for an event of this kind, code and severity."""
        return kind in self.kinds and (not self.codes or code in self.codes) and (not self.told or told in self.told)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """``disabled`` are rules that were read and checked, but do not judge. ``gpu_events``: the first that covers."""

    rules: tuple[Rule, ...]
    mutes: tuple[Command, ...] = ()
    slo_classes: tuple[SloClass, ...] = ()
    gpu_events: tuple[GpuEvent, ...] = ()
    disabled: tuple[Rule, ...] = ()

    def gpu_event(self, kind: str, code: int | None, told: str | None) -> GpuEvent | None:
        """What to do about an event: the first that covers it; None for one that nothing covers."""
        return next((event for event in self.gpu_events if event.covers(kind, code, told)), None)
