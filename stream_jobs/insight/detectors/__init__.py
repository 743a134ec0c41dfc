"""Detectors by the ``kind`` of a rule: one module each, one line here.

A class takes the rule and keeps to ``stream_jobs.insight.frame.Detector``. ``STATE_OPTIONS``, where a class has it,
names the options its state depends on: a change of any other keeps what was learned; without it every change of an
option makes the rule begin anew.

A detector that must know labels (peers of one engine, versions of one model) has a method ``named(slots, labels)`` with
``labels`` as in ``frame.Labels``, one per slot: it is called when series are given their slots, before they are first
judged, and after ``load`` for all that live. It is no part of what ``dump`` keeps.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_jobs.insight.detectors.threshold import Threshold
from stream_jobs.insight.frame import Detector
from stream_jobs.rules.model import Rule

DETECTORS: dict[str, Callable[[Rule], Detector]] = {
    "threshold": Threshold,
}
"""Kinds that are not here (``gpu_event``) are judged elsewhere."""
