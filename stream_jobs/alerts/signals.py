"""One form for whatever may raise an alert: findings of the judge, GPU events, engines that went away.

A signal has a *rank*: how specific a cause it names. The best rank among the members of an alert is its headline:

======== ============================================================================================
rank     what
======== ============================================================================================
GONE     a GPU that is lost or does not answer, reported by the agent
EVENT    something else happened to a GPU or engine, reported by the driver or the agent
LOST     a host that fell silent
GPU      a measure of one GPU
HOST     a measure of one host
ENGINE   a measure of one engine that is bad by itself: errors, KV pressure, silence
VERSION  a version of a model compared with the ones before it
SYMPTOM  an engine that differs from its own past: slower, busier
MODEL    a measure of a model
TENANT   a measure of a tenant: objectives that burn
FLEET    any other
======== ============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import isfinite

from schemas.contract.alerts import SEVERITIES
from stream_jobs.insight.frame import Finding, Labels
from stream_jobs.rules.model import Function, Rule

UNKNOWN = "unknown"
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "us": ((1e6, "s"), (1e3, "ms"), (1, "us")),
    "ms": ((3.6e6, "h"), (6e4, "min"), (1e3, "s"), (1, "ms")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (1, "bytes")),
    "mW": ((1e3, "W"), (1, "mW")),
    "mJ": ((1e3, "J"), (1, "mJ")),
    "ppm": ((1e4, "%"),),
    "share": ((0.01, "%"),),
    "C": ((1, "°C"),),
    "1/s": ((1, "a second"),),
}


_SHARES = frozenset({Function.SHARE, Function.ABOVE, Function.KNOWN})


class _Known(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return UNKNOWN


def summary_of(rule: Rule, finding: Finding, labels: Mapping[str, str], hosts: int | None = None) -> str:
    """The rule's sentence; what is not known reads ``unknown``. A sentence that cannot be filled stays as it is."""
    return _filled(rule.summary, rule, finding, labels, hosts)


def advice_of(rule: Rule, finding: Finding, labels: Mapping[str, str], hosts: int | None = None) -> str:
    """What the rule says to do, filled in like its summary."""
    return _filled(rule.advice, rule, finding, labels, hosts)


def _filled(sentence: str, rule: Rule, finding: Finding, labels: Mapping[str, str], hosts: int | None) -> str:
    unit = unit_of(rule)
    values = {
        "value": shown(finding.value, unit),
        "baseline": shown(finding.baseline, unit),
        "low": shown(finding.low, unit),
        "high": shown(finding.high, unit),
        "count": str(finding.count),
        "note": finding.note,
        "hosts": UNKNOWN if hosts is None else f"{hosts} host{'' if hosts == 1 else 's'}",
        "rule": rule.name,
    }
    try:
        return sentence.format_map(_Known({**labels, **values}))
    except (ValueError, IndexError, KeyError, AttributeError, TypeError):
        return sentence


def unit_of(rule: Rule) -> str:
    """The unit of a rule's first measure; shares are shown in per cent."""
    value = rule.value
    shares = value.function in _SHARES or (value.function is Function.RATIO and not value.unit)
    return "share" if shares else value.unit


def shown(value: float | None, unit: str) -> str:
    """Three digits and a unit: ``1.25 s`` for 1,250,000 us, ``97 %`` for 970,000 ppm."""
    if value is None or not isfinite(value):
        return UNKNOWN
    scales = _SCALES.get(unit)
    if scales is None:
        return f"{digits(value)} {unit}".rstrip()
    divisor, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{digits(value / divisor)} {name}"


def digits(value: float) -> str:
    """Three digits that count, thousands separated, no zeros behind."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Rank(IntEnum):
    """Of a cause, the likeliest first."""

    GONE = 0
    EVENT = 1
    LOST = 2
    GPU = 3
    HOST = 4
    ENGINE = 5
    VERSION = 6
    SYMPTOM = 7
    MODEL = 8
    TENANT = 9
    FLEET = 10


class Level(IntEnum):
    """What a signal is about, by its labels."""

    GPU = 0
    ENGINE = 1
    HOST = 2
    MODEL = 3
    TENANT = 4
    FLEET = 5
    BUDGET = 6
    """No label says so, and nothing else is about the same."""


MACHINE = frozenset({Level.GPU, Level.ENGINE, Level.HOST})
RELATIVE = frozenset({"deviation", "moving_average", "rate_of_change", "load_adjusted", "saturation"})
"""Kinds of rules that compare an engine with its own past or load."""
_LEVELS = (
    (Level.GPU, ("gpu_uuid",)),
    (Level.ENGINE, ("engine_id", "placement_group")),
    (Level.HOST, ("host",)),
    (Level.TENANT, ("tenant",)),
    (Level.MODEL, ("model", "model_version")),
)
_ERRORS = frozenset({Function.SHARE, Function.COUNT})
_WEIGHT_ERRORS, _WEIGHT_LATENCY = 1, 2


@dataclass(frozen=True, slots=True)
class Signal:
    """``key`` identifies it among those of its rule; ``labels`` are all that is known about where. ``lasts_ms``: it is
    over by itself this long after ``at_ms``; None: somebody says so. ``length_ms`` is the window's, 0 of events;
    ``ended_by`` are kinds of GPU events that end it."""

    rule: str
    kind: str
    """Of the rule; ``event``."""
    key: Labels
    labels: Mapping[str, str]
    level: Level
    rank: Rank
    weight: int
    """Among equals the lowest is the likeliest cause: machines before errors before latencies."""
    severity: str
    since_ms: int
    at_ms: int
    firing: bool
    lasts_ms: int | None = None
    length_ms: int = 0
    ended_by: tuple[str, ...] = ()
    value: float | None = None
    baseline: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    measure: str = ""
    """Topic and field that the rule looks at."""
    count: int = 0
    note: str = ""
    summary: str = ""
    advice: str = ""
    renotify_ms: int = 4 * 3_600_000
    id: str = field(init=False, repr=False, compare=False)
    """Rule and key: the same for as long as it is the same trouble."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identity(self.rule, self.key))

    @property
    def machine(self) -> bool:
        """About a GPU, an engine or a host."""
        return self.level in MACHINE

    @property
    def place(self) -> str:
        """Name of the GPU, engine or host that it is about; empty of others."""
        names = {Level.GPU: "gpu_uuid", Level.ENGINE: "engine_id", Level.HOST: "host"}
        return self.labels.get(names.get(self.level, ""), "")

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """The likeliest cause sorts first: rank, severity, weight, beginning."""
        return (self.rank, -SEVERITIES.index(self.severity), self.weight, self.since_ms, self.id)

    def after(self, before: Signal) -> Signal:
        """An event that came again: one more, and never older than it was."""
        at_ms, since_ms = max(self.at_ms, before.at_ms), min(self.since_ms, before.since_ms)
        return replace(self, count=before.count + 1, at_ms=at_ms, since_ms=since_ms)


def identity(rule: str, key: Labels) -> str:
    """A text that is the same for the same rule and labels in any order."""
    return "\x1f".join((rule, *(f"{name}={plain(value)}" for name, value in sorted(key))))


def plain(value: str) -> str:
    """The value without the separator, so that no value can pass for two; others stay as they are."""
    return value.replace("\\", "\\\\").replace("\x1f", "\\_")


def of_finding(
    rule: Rule, finding: Finding, labels: Mapping[str, str], *, silent_host: bool = False, hosts: int | None = None
) -> Signal:
    """The finding as a signal; ``labels`` are its own and what the topology adds. ``silent_host``: a host of which
    nothing at all is heard. ``hosts``: how many have the version of the model that it is about, where that is known."""
    level = level_of(rule.by)
    return Signal(
        rule.name,
        rule.kind,
        finding.labels,
        labels,
        level,
        rank_of(rule, level, silent_host=silent_host),
        weight_of(rule),
        rule.severity,
        finding.since_ms,
        finding.end_ms,
        finding.firing,
        length_ms=finding.length_ms,
        value=finding.value,
        baseline=finding.baseline,
        low=finding.low,
        high=finding.high,
        unit=rule.value.unit,
        measure=f"{rule.value.topic}/{rule.value.field}" if rule.value.field else "",
        count=finding.count,
        note=finding.note,
        summary=summary_of(rule, finding, labels, hosts),
        advice=advice_of(rule, finding, labels, hosts),
        renotify_ms=rule.renotify_ms,
    )


def level_of(names: Iterable[str]) -> Level:
    """The most specific thing that labels of these names identify. Of a rule take what it judges ``by``: a finding
    lacks the label that nobody gave its machine, and is about that machine all the same."""
    given = set(names)
    return next((level for level, needed in _LEVELS if given.intersection(needed)), Level.FLEET)


def rank_of(rule: Rule, level: Level, *, silent_host: bool = False) -> Rank:
    """How specific a cause a rule names at this level."""
    if level is Level.HOST:
        return Rank.LOST if rule.kind == "no_data" and rule.by == ("host",) else Rank.HOST
    if silent_host:
        return Rank.SYMPTOM
    if level is Level.ENGINE:
        relative = rule.kind in RELATIVE and rule.value.function is not Function.SHARE
        return Rank.SYMPTOM if relative or rule.kind == "burn_rate" else Rank.ENGINE
    if level is Level.MODEL:
        return Rank.VERSION if rule.kind == "regression" else Rank.MODEL
    return {Level.GPU: Rank.GPU, Level.TENANT: Rank.TENANT}.get(level, Rank.FLEET)


def weight_of(rule: Rule) -> int:
    """What machines measure comes before errors of requests, these before latencies."""
    if rule.value.topic != "llm.requests":
        return 0
    return _WEIGHT_ERRORS if rule.value.function in _ERRORS else _WEIGHT_LATENCY
