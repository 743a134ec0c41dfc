"""Conditions between a rule's measures (``while:``), kept around any detector. Pure, vectorised over series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_jobs.insight.frame import Frame, Judgement, Mask
from stream_jobs.rules.model import Rule


def applied(rule: Rule, frame: Frame) -> tuple[Frame, Mask]:
    """The frame with the first measure unknown where a condition does not hold or is unknown, and where all are known
    and one does not hold. The frame itself when the rule has no conditions."""
    known = np.ones(len(frame.slots), np.bool_)
    if not rule.only_while:
        return frame, ~known
    holds = known.copy()
    for one in rule.only_while:
        values = frame.values[one.measure]
        known &= ~np.isnan(values)
        holds &= (values >= one.low) & (values <= one.high)
    name = rule.value.name
    value = np.where(holds, frame.values[name], np.nan)
    return replace(frame, values={**frame.values, name: value}), known & ~holds


def judged(judgement: Judgement, frame: Frame, off: Mask) -> Judgement:
    """The judgement with series whose condition does not hold as within: what the rule describes is not there."""
    if not off.any():
        return judgement
    well = np.isin(judgement.slots, frame.slots[off])
    return replace(judgement, beyond=judgement.beyond & ~well, within=judgement.within | well)
