"""Detectors by the ``kind`` of a rule: one module each, one line here.

A class takes the rule and is a ``stream_jobs.insight.frame.Detector``.
"""

from __future__ import annotations

from stream_jobs.insight.detectors.against_baseline import Deviation, MovingAverage
from stream_jobs.insight.detectors.burn_rate import BurnRate
from stream_jobs.insight.detectors.load_adjusted import LoadAdjusted
from stream_jobs.insight.detectors.no_data import NoData
from stream_jobs.insight.detectors.novelty import Novelty
from stream_jobs.insight.detectors.rate_of_change import RateOfChange
from stream_jobs.insight.detectors.regression import Regression
from stream_jobs.insight.detectors.saturation import Saturation
from stream_jobs.insight.detectors.starved import Starved
from stream_jobs.insight.detectors.straggler import Straggler
from stream_jobs.insight.detectors.threshold import Threshold
from stream_jobs.insight.detectors.trend import Trend
from stream_jobs.insight.frame import Detector

DETECTORS: dict[str, type[Detector]] = {
    "burn_rate": BurnRate,
    "deviation": Deviation,
    "load_adjusted": LoadAdjusted,
    "moving_average": MovingAverage,
    "no_data": NoData,
    "novelty": Novelty,
    "rate_of_change": RateOfChange,
    "regression": Regression,
    "saturation": Saturation,
    "starved": Starved,
    "straggler": Straggler,
    "threshold": Threshold,
    "trend": Trend,
}
"""Kinds that are not here (``gpu_event``) are judged elsewhere."""
