"""Rules and what stands beside them in a file, as data. ``load`` reads them, ``stream_jobs.insight`` judges by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any

from schemas.contract.alert_commands import Command
from schemas.limits import WINDOW_MS


class Function(StrEnum):
    """How a measure is made of the columns of finals."""

    PERCENTILE = "percentile"
    """``p95(ttft_us)``: of a sketch, as ``schemas.sketch.quantile``."""
    MEAN = "mean"
    """``mean(temperature_c)``: sum / count of a gauge or sketch."""
    MIN = "min"
    MAX = "max"
    LAST = "last"
    SUM = "sum"
    """``sum(preemptions)``: of a difference."""
    RATE = "rate"
    """``rate(output_tokens)``: sum of a difference, or events where no field is named, per second of the window."""
    COUNT = "count"
    """``count()``: events."""
    SHARE = "share"
    """``share(status in error,timeout)``: events that match / all events, 0 to 1."""
    RATIO = "ratio"
    """``ratio(throttled_us, interval_ms)``: sum / sum of differences, or mean / mean of gauges; times in one unit."""
    KNOWN = "known"
    """``known(memory_engine_bytes)``: events in which a level is known / all events, 0 to 1."""
    ABOVE = "above"
    """``share(ttft_us > 800ms)``: values of a sketch in bins above that of ``limit`` / values known, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on a dimension. ``None`` among ``one_of`` matches null; ``negated`` turns it round."""

    dimension: str
    one_of: tuple[str | None, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """A number per series and window. ``name`` is how detectors ask for it; the first of a rule is ``value``."""

    name: str
    topic: str
    function: Function
    field: str = ""
    over: str = ""
    """Denominator of a ratio."""
    q: float = 0.0
    match: Where | None = None
    """Numerator of a share."""
    where: tuple[Where, ...] = ()
    text: str = ""
    """As written, such as ``p95(ttft_us)``."""
    unit: str = ""
    limit: float = 0.0
    """Of ``above``, in the field's unit."""


@dataclass(frozen=True, slots=True)
class While:
    """A condition on another measure of the rule: ``low <= value <= high``.

    A window in which it is unknown is not judged. One in which it does not hold trains nothing, is never beyond and
    counts as within: what the rule describes is not there.
    """

    measure: str
    low: float = -inf
    high: float = inf


@dataclass(frozen=True, slots=True)
class Rule:
    """``kind`` names the detector, ``options`` are its own, checked when the rule was read.

    Judged once per ``window_ms`` (a multiple of the grain, aligned to the epoch) and series (values of ``by``). Fires
    when ``m`` of the last ``n`` windows are beyond the entering level; clears when ``clear_after`` windows in a row are
    within the leaving level. A window with fewer than ``min_count`` events of the first measure is not judged;
    with 0 of them a count of events is judged as zero where none came.
    """

    name: str
    kind: str
    measures: tuple[Measure, ...]
    by: tuple[str, ...]
    severity: str
    summary: str
    """One sentence with ``{label}``, ``{value}``, ``{baseline}`` in it."""
    advice: str = ""
    window_ms: int = WINDOW_MS
    m: int = 1
    n: int = 1
    clear_after: int = 3
    min_count: int = 1
    renotify_ms: int = 4 * 3_600_000
    options: dict[str, Any] = field(default_factory=dict)
    where_read: str = ""
    """``file:line``."""
    only_while: tuple[While, ...] = ()
    """All must hold; kept by ``insight.rule_detector`` for every kind, not by detectors."""

    @property
    def value(self) -> Measure:
        """What the rule looks at first."""
        return self.measures[0]

    @property
    def relearn_after_ms(self) -> int:
        """Of kinds that have ``relearn_after_s``: never before the rule could have fired."""
        return max(round(self.options["relearn_after_s"] * 1_000), (self.n + 1) * self.window_ms)


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
    """What to do about GPU events of these ``kinds``. ``codes`` and ``reported`` severities empty: any.

    ``severity`` None: no alert. ``ended_by``: kinds of event that end it, for the same GPU; else it ends when none came
    for ``lasts_ms``.
    """

    kinds: tuple[str, ...]
    codes: tuple[int, ...]
    reported: tuple[str, ...]
    severity: str | None
    advice: str
    ended_by: tuple[str, ...]
    lasts_ms: int

    def covers(self, kind: str, code: int | None, reported: str | None) -> bool:
        """True for an event of this kind, code and severity."""
        return (
            kind in self.kinds
            and (not self.codes or code in self.codes)
            and (not self.reported or reported in self.reported)
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """``disabled`` are rules that were read and checked, but do not judge. ``gpu_events``: the first that covers."""

    rules: tuple[Rule, ...]
    silences: tuple[Command, ...] = ()
    slo_classes: tuple[SloClass, ...] = ()
    gpu_events: tuple[GpuEvent, ...] = ()
    disabled: tuple[Rule, ...] = ()

    def gpu_event(self, kind: str, code: int | None, reported: str | None) -> GpuEvent | None:
        """What to do about an event: the first that covers it; None for one that nothing covers."""
        return next((event for event in self.gpu_events if event.covers(kind, code, reported)), None)
