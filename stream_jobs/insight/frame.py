"""What a rule sees, and what a detector says: windows of the whole fleet, and one window of one rule as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block
from stream_jobs.rules.model import Rule


@dataclass(frozen=True, slots=True)
class Window:
    """``tables`` by source topic: rows with the columns of ``tables.PARTIALS``, one per grouping set and series
    (rows of different origins need not be merged: whoever reads adds them up).

    ``exemplars`` has the columns of ``tables.EXEMPLARS``; None when none came. ``complete`` is False when the
    window was closed without having heard of every source; then ``series_whole`` says that every series of a machine is
    there as a whole or not at all.
    """

    window_ms: int
    tables: Mapping[str, Block]
    exemplars: Block | None = None
    complete: bool = True
    series_whole: bool = False


Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Labels = tuple[tuple[str, str], ...]
"""(dimension, value) of a series in the order of the rule's ``by``; what is null is left out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """``slots`` are the series present in this window: small whole numbers, each a row of every state array of the
    rule, kept as long as the series lives. ``values[name]`` is the measure of that name per present series, NaN where
    it is unknown; ``counts`` the events behind the first measure. ``firing`` says which of them fire already."""

    window_ms: int
    length_ms: int
    slots: Whole
    values: Mapping[str, Floats]
    counts: Whole
    firing: Mask

    @property
    def end_ms(self) -> int:
        """End of the window."""
        return self.window_ms + self.length_ms


@dataclass(frozen=True, slots=True)
class Detection:
    """What a detector thinks of series ``slots`` (not only those present: silence can be judged).

    ``beyond``: past the entering level. ``within``: back within the leaving level; neither where it is between or not
    judged. ``value``, ``baseline``, ``low`` and ``high`` (expected range) are NaN where there is none. ``note`` codes
    into ``notes`` (0 is nothing): a likely cause in words. ``score``: how far out, 1 at the entering level, without an
    upper bound; None where the distance from ``baseline`` to ``low`` or ``high`` says it. ``pauses``: where what is
    between breaks no row of windows within; None: nowhere.
    """

    slots: Whole
    beyond: Mask
    within: Mask
    value: Floats
    baseline: Floats
    low: Floats
    high: Floats
    note: npt.NDArray[np.int16] | None = None
    notes: tuple[str, ...] = ("",)
    score: Floats | None = None
    pauses: Mask | None = None


class Detector(ABC):
    """One per rule. State is arrays indexed by slot; ``grow`` makes room, ``forget`` empties slots for new series.

    ``detect`` is called once per window of the rule, in order of time, also when no series is present. ``dump`` and
    ``load`` carry the whole state; equal states give equal arrays.
    """

    STATE_OPTIONS: ClassVar[tuple[str, ...] | None] = None
    """Options its state depends on: a change of any other keeps what was learned. None: a change of any starts over."""
    STATE_NAME: ClassVar[str] = ""
    """The kind's name before it was renamed: snapshots of then still hold."""
    STATE_VERSION: ClassVar[int] = 0
    LEARNS: ClassVar[bool] = False
    """A window that is not complete must leave it as it was."""

    @abstractmethod
    def __init__(self, rule: Rule) -> None: ...

    @abstractmethod
    def grow(self, slots: int) -> None: ...

    @abstractmethod
    def detect(self, frame: Frame) -> Detection: ...

    @abstractmethod
    def forget(self, slots: Whole) -> None: ...

    @abstractmethod
    def dump(self) -> dict[str, npt.NDArray[np.generic]]: ...

    @abstractmethod
    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None: ...

    def named(self, slots: Whole, labels: Sequence[Labels]) -> None:  # noqa: B027
        """The labels of series, one for each slot: called when they are given their slots, before they are first
        judged, and after ``load`` for all that live. For a detector that must know peers or versions."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A series of a rule that fires, emitted for every window in which it does and once (``firing`` False) when it has
    cleared. ``since_ms`` is the start of the first window of the run that was beyond."""

    rule: str
    labels: Labels
    window_ms: int
    length_ms: int
    firing: bool
    since_ms: int
    value: float | None
    baseline: float | None
    low: float | None
    high: float | None
    count: int
    note: str = ""

    @property
    def end_ms(self) -> int:
        """End of the window judged last."""
        return self.window_ms + self.length_ms
