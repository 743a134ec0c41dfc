"""The kinds of detectors, as one table: which measures each needs, which options it has, and what they mean.

Loading a rule checks its options against this table and fills in the defaults, so that detectors find every option of
their kind. ``docs/how-to/rules.md`` holds the same table; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

WEEK_S = 7 * 86_400


class Form(Enum):
    """How an option is written, and what detectors find."""

    LEVEL = "level"
    """A number in the unit of a measure, written with any unit of its family (``85C``, ``250ms``, ``90%``)."""
    NUMBER = "number"
    SHARE = "share"
    """``15%`` or ``0.15``; detectors find 0.15. Above 1 in percent alone."""
    PERCENT = "percent"
    """``15`` or ``15%``; detectors find 15."""
    SECONDS = "duration"
    """``30s``, ``5m``, ``2h``, ``1d``, or seconds; detectors find seconds."""
    WHOLE = "whole number"
    FLAG = "true or false"
    CHOICE = "one of"
    DIMENSION = "dimension"
    PAIRS = "pairs"
    """``[[1h, 5m, 14.4], ...]``; detectors find a tuple of (long s, short s, rate)."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a kind. ``low`` and ``high`` bound what detectors find; a level is bounded by measure ``of``."""

    name: str
    form: Form
    default: Any
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    of: str = "value"
    signed: bool = False
    """A level that may be below zero, such as a change."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A measure that a detector reads by name. ``value`` is what the rule's ``metric`` says."""

    name: str
    meaning: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class DetectorKind:
    """``one_of``: groups of options of which exactly one must be written. ``state_bytes``: per series, about.
    ``judges_absence``: looks at which series are absent; none is put in for it with a count of zero."""

    name: str
    meaning: str
    measures: tuple[Slot, ...]
    options: tuple[Option, ...]
    one_of: tuple[tuple[str, ...], ...] = ()
    state_bytes: int = 64
    judges_absence: bool = False

    def option(self, name: str) -> Option:
        """The option of that name; ``KeyError`` where there is none."""
        return {option.name: option for option in self.options}[name]


def _seconds(name: str, default: float | None, meaning: str, low: float = 10, high: float = 30 * 86_400) -> Option:
    return Option(name, Form.SECONDS, default, meaning, low, high)


def _direction(default: str) -> Option:
    return Option(
        "direction", Form.CHOICE, default, "which side is out of the ordinary", choices=("above", "below", "both")
    )


VALUE = Slot("value", "what is judged")
_LOAD = Slot("load", "what explains it where it is far above its own average", required=False)
_LOAD_PERCENT = Option(
    "load_percent", Form.PERCENT, 50.0, "trains, but never fires upwards, with `load` so far above its average", 1
)
_ABOVE = Option("above", Form.LEVEL, None, "fires above this; give this or `below`")
_BELOW = Option("below", Form.LEVEL, None, "fires below this; give this or `above`")
_LEAVE = Option("leave", Form.LEVEL, None, "is well again on the other side of this; without it the entering level")
_WARM_UP = Option("warm_up_windows", Form.WHOLE, 30, "windows a series must be seen before it is judged", 2, 100_000)
_RELEARN = _seconds("relearn_after_s", 7_200.0, "a change that lasts so long is taken as the new normal", 60)


def _relative(default: float) -> Option:
    return Option("min_relative", Form.SHARE, default, "and at least this share away from the expected", 0, 100)


_SIGMAS = (
    _direction("above"),
    Option("enter_sigmas", Form.NUMBER, 4.0, "fires so many deviations from the expected", 0.5, 100),
    Option("leave_sigmas", Form.NUMBER, 2.0, "is well again within so many", 0, 100),
    _relative(0.15),
    Option("floor_relative", Form.SHARE, 0.05, "the deviation is taken as at least this share of the expected", 0, 10),
    Option("floor_absolute", Form.LEVEL, 0.0, "the deviation is taken as at least this"),
)
"""How far from the expected is too far."""


_DETECTORS = (
    DetectorKind(
        "threshold", "a fixed level", (VALUE,), (_ABOVE, _BELOW, _LEAVE), (("above", "below"),), state_bytes=32
    ),
    DetectorKind(
        "deviation",
        "far from the series' own baseline (moving average and deviation, hour of week)",
        (VALUE, _LOAD),
        (
            *_SIGMAS,
            _seconds("half_life_s", 3_600.0, "half of the baseline's weight is younger", 60),
            _WARM_UP,
            Option("log", Form.FLAG, True, "judges ratios, as latencies need it, rather than differences"),
            Option("season", Form.FLAG, True, "expects by hour of the week where there is history"),
            Option("season_weeks_min", Form.WHOLE, 2, "weeks of history before the season counts", 1, 52),
            _LOAD_PERCENT,
            _RELEARN,
        ),
        state_bytes=1_024,
    ),
    DetectorKind(
        "moving_average",
        "so many percent from the moving average; the simplest baseline",
        (VALUE, _LOAD),
        (
            Option("percent", Form.PERCENT, 15.0, "fires so many percent away", 0.1, 10_000),
            _direction("above"),
            _seconds("half_life_s", 1_800.0, "half of the average's weight is younger", 60),
            _WARM_UP,
            Option("leave_percent", Form.PERCENT, 7.5, "is well again within so many percent", 0, 10_000),
            Option("only_above", Form.LEVEL, None, "and, upwards, only above this; lower values train the average"),
            _LOAD_PERCENT,
            _RELEARN,
        ),
    ),
    DetectorKind(
        "novelty",
        "not done before by this series: level, drift or spread, by its own hours of day and week",
        (VALUE,),
        (
            _direction("both"),
            Option(
                "scale",
                Form.CHOICE,
                "auto",
                "where a step means the same everywhere; auto: as its values are",
                choices=("auto", "linear", "root", "log"),
            ),
            Option("rare_days", Form.NUMBER, 3_000.0, "chance alone goes so far once in so many days", 1, 1e9),
            _relative(0.05),
            _seconds("half_life_s", 86_400.0, "half of the level's weight is younger", 600),
            _seconds("warm_up_s", 86_400.0, "time that a series is seen before it is judged", 36_000),
            _seconds("relearn_after_s", 172_800.0, "a change that lasts so long is taken as the new normal", 60),
        ),
        state_bytes=1_024,
    ),
    DetectorKind(
        "rate_of_change",
        "rises or falls too fast",
        (VALUE,),
        (
            Option("above", Form.LEVEL, None, "fires when it rises by more than this `per`", signed=True),
            Option("below", Form.LEVEL, None, "fires when it rises by less than this (negative: falls)", signed=True),
            Option("per", Form.CHOICE, "hour", "of which time the change is", choices=("hour", "minute")),
            _seconds("over_s", 600.0, "the change is measured over this, and at least 3 windows", 20, 86_400),
            Option("leave", Form.LEVEL, None, "is well again beyond this; default the level", signed=True),
        ),
        (("above", "below"),),
        state_bytes=1_024,
    ),
    DetectorKind(
        "no_data",
        "nothing comes any more from a series that was there",
        (VALUE,),
        (
            _seconds("after_s", 30.0, "fires when nothing came for so long", 10),
            _seconds("forget_after_s", 86_400.0, "a series silent for so long was taken away on purpose", 60),
        ),
        state_bytes=32,
        judges_absence=True,
    ),
    DetectorKind(
        "burn_rate",
        "an error budget is used up too fast, over a long and a short range at once",
        (Slot("value", "share of bad requests"),),
        (
            Option("objective", Form.SHARE, 0.999, "share of requests that must be good", 0.5, 0.999_999),
            Option(
                "pairs",
                Form.PAIRS,
                ((3_600.0, 300.0, 14.4), (21_600.0, 1_800.0, 6.0), (259_200.0, 21_600.0, 1.0)),
                "long range, short range, times the budget; any pair that is exceeded on both ranges fires",
            ),
            Option("min_events", Form.WHOLE, 50, "requests in the short range before it is judged", 1, 10**9),
        ),
        state_bytes=2_048,
    ),
    DetectorKind(
        "trend",
        "rises steadily over hours: a leak",
        (
            VALUE,
            Slot("limit", "what there is at most; slopes are then shares of the headroom", required=False),
            Slot("load", "rising work that would explain it: then it is no leak", required=False),
        ),
        (
            _seconds("horizon_s", 7_200.0, "the slope is measured over this, and at least 64 windows", 300, WEEK_S),
            Option("min_r2", Form.NUMBER, 0.8, "share of the variance that the line must explain", 0, 1),
            Option(
                "min_slope_per_hour",
                Form.NUMBER,
                0.01,
                "least rise an hour: share of the headroom with `limit`, else in the metric's unit",
                0,
            ),
            Option("leave", Form.NUMBER, None, "is well again below this rise an hour; default half of it", 0),
        ),
        state_bytes=1_024,
    ),
    DetectorKind(
        "straggler",
        "far from its peers in a group at the same moment (robust z-score)",
        (VALUE,),
        (
            Option("group", Form.DIMENSION, "engine_id", "series that share this label are peers"),
            Option("enter_z", Form.NUMBER, 6.0, "fires so many robust deviations from the peers' median", 1, 1_000),
            _relative(0.1),
            Option("floor_absolute", Form.LEVEL, 0.0, "and at least this far from the peers' median"),
            _direction("both"),
        ),
        state_bytes=64,
    ),
    DetectorKind(
        "load_adjusted",
        "out of the ordinary for this much load",
        (VALUE, Slot("load", "what explains it, such as requests running")),
        (
            *_SIGMAS,
            _seconds("half_life_s", 3_600.0, "half of the regression's weight is younger", 60),
            _WARM_UP,
            Option("log", Form.FLAG, True, "judges ratios rather than differences"),
            _RELEARN,
        ),
        state_bytes=512,
    ),
    DetectorKind(
        "saturation",
        "value and load rise together, both significantly: more comes in than is served",
        (VALUE, Slot("load", "waiting or running requests")),
        (
            _seconds("over_s", 300.0, "slopes are measured over this, and at least 12 windows", 30, 86_400),
            Option("min_t", Form.NUMBER, 4.0, "t statistic that each slope must reach", 1, 1_000),
            Option("min_rise", Form.SHARE, 0.5, "share by which each must have risen over the range", 0, 1_000),
        ),
        state_bytes=1_024,
    ),
    DetectorKind(
        "starved",
        "the GPU idles while requests wait",
        (
            Slot("value", "utilization of the GPU"),
            Slot("waiting", "requests in the queue"),
            Slot("thread", "busiest thread of the engine's processes: named as the cause when high", required=False),
            Slot("core", "busiest core of the host: named as the cause when high", required=False),
            Slot("cpu", "utilization of the processors: named as the cause when high", required=False),
            Slot("pcie", "bytes a second over PCIe: named as the cause when high", required=False),
        ),
        (
            Option("below", Form.LEVEL, None, "the GPU idles below this; must be written"),
            Option("leave", Form.LEVEL, None, "is well again above this; default the level"),
            Option("waiting_above", Form.LEVEL, 1.0, "and more requests than this wait", of="waiting"),
            Option("thread_above", Form.LEVEL, None, "one thread is the likely cause above this", of="thread"),
            Option("core_above", Form.LEVEL, None, "one core is the likely cause above this", of="core"),
            Option("cpu_above", Form.LEVEL, None, "the processors are the likely cause above this", of="cpu"),
            Option("pcie_above", Form.LEVEL, None, "PCIe is the likely cause above this", of="pcie"),
        ),
        (("below",),),
        state_bytes=32,
    ),
    DetectorKind(
        "regression",
        "a model version is worse than the versions before it",
        (VALUE, Slot("hosts", "on how many hosts it runs: only shown", required=False)),
        (
            _direction("above"),
            _relative(0.1),
            Option("min_count", Form.WHOLE, 200, "requests of each version before they are compared", 1, 10**9),
            Option("version", Form.DIMENSION, "model_version", "the label of versions"),
            _seconds("half_life_s", 3_600.0, "half of what is known of a version is younger", 60),
            _RELEARN,
        ),
        state_bytes=512,
    ),
)

KINDS: dict[str, DetectorKind] = {kind.name: kind for kind in _DETECTORS}
"""By name."""
