"""Choose sources from the configured switches and the results of the probes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.edge_config import Switch


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found: ``what`` is there, or None and ``why`` not. ``late``: it has not answered yet."""

    what: str | None
    why: str | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A source and its switch. Of the ``auto`` sources of one ``group`` only the first that is found is taken, and none
    behind one that has not answered yet: what is taken stays."""

    name: str
    switch: Switch
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What becomes of a source and why: ``reason`` says what was found, or why it is not collected."""

    name: str
    switch: Switch
    chosen: bool
    reason: str


def chosen(wanted: Sequence[Wanted], probed: Mapping[str, Probed]) -> list[Finding]:
    """One finding per source, in their order. A source that was not probed counts as not found."""
    taken: dict[str, str] = {}
    awaited: dict[str, str] = {}
    findings = []
    for each in wanted:
        found = probed.get(each.name, Probed(None, "not probed"))
        finding = _judged(each, found, taken, awaited)
        if finding.chosen and each.group is not None:
            taken.setdefault(each.group, each.name)
        elif found.late and each.group is not None:
            awaited.setdefault(each.group, each.name)
        findings.append(finding)
    return findings


def _judged(wanted: Wanted, probed: Probed, taken: Mapping[str, str], awaited: Mapping[str, str]) -> Finding:
    def finding(is_chosen: bool, reason: str) -> Finding:
        return Finding(wanted.name, wanted.switch, is_chosen, reason)

    if wanted.switch == "off":
        return finding(False, "switched off")
    if wanted.switch == "on":
        return finding(True, probed.what or f"switched on, though the probe found nothing: {probed.why}")
    other = taken.get(wanted.group or "")
    if other is not None:
        return finding(False, f"not needed: {other} answers")
    better = awaited.get(wanted.group or "")
    if better is not None and probed.what is not None:
        return finding(False, f"not yet: {better} has not answered")
    return finding(probed.what is not None, probed.what or probed.why or "not found")
