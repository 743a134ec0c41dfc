"""Summaries: a rule's sentence with labels and values put in, values in the units that people read."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from stream_jobs.insight.frame import Finding
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


_SHARES = frozenset({Function.SHARE, Function.ABOVE})


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
