"""Detectors by the ``kind`` of a rule: one module each, one line here.

A class takes the rule and keeps to ``stream_jobs.insight.frame.Detector``. ``STATE_OPTIONS``, where a class has it,
names the options its state depends on: a change of any other keeps what was learned; without it every change of an
option makes the rule start over. ``STATE_NAME`` is the kind's name before it was renamed: snapshots of then still hold.

A detector that must know labels (peers of one engine, versions of one model) has a method ``named(slots, labels)`` with
``labels`` as in ``frame.Labels``, one per slot: it is called when series are given their slots, before they are first
judged, and after ``load`` for all that live. It is no part of what ``dump`` keeps.

A detector that looks at which series are absent says ``JUDGES_ABSENCE = True``: then none is put in for it with a
count of zero.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_jobs.insight.detectors.against_baseline import Deviation, MovingAverage
from stream_jobs.insight.detectors.burn_rate import BurnRate
from stream_jobs.insight.detectors.load_adjusted import LoadAdjusted
from stream_jobs.insight.detectors.no_data import NoData
from stream_jobs.insight.detectors.rate_of_change import RateOfChange
from stream_jobs.insight.detectors.regression import Regression
from stream_jobs.insight.detectors.saturation import Saturation
from stream_jobs.insight.detectors.starved import Starved
from stream_jobs.insight.detectors.straggler import Straggler
from stream_jobs.insight.detectors.threshold import Threshold
from stream_jobs.insight.detectors.trend import Trend
from stream_jobs.insight.frame import Detector
from stream_jobs.rules.model import Rule

DETECTORS: dict[str, Callable[[Rule], Detector]] = {
    "burn_rate": BurnRate,
    "deviation": Deviation,
    "load_adjusted": LoadAdjusted,
    "moving_average": MovingAverage,
    "no_data": NoData,
    "rate_of_change": RateOfChange,
    "regression": Regression,
    "saturation": Saturation,
    "starved": Starved,
    "straggler": Straggler,
    "threshold": Threshold,
    "trend": Trend,
}
"""Kinds that are not here (``gpu_event``) are judged elsewhere."""
