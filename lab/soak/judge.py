"""Whether anything grew: pure. Numbers are those of ``Sample``, taken at even distances over a soak.

The first third is start-up: loops are compiled, caches fill, the first hour's parts are made. Through the rest, the
last 40 minutes of an hour, goes the line of Theil and Sen, the median of all slopes, so that a fetch or a merge that
falls on a sample decides nothing; by its two ends is judged. Falling is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

import numpy as np

WARM_UP_SHARE = 1 / 3
SAMPLES_MIN = 12
"""Behind the start-up."""
SOURCES = "windows"
"""The reader of all that the fleet sends."""
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Sample:
    """Of processes, readers and disks at one moment. ``memory_bytes`` is proportional (PSS): what several share is
    counted in parts. ``lag`` and ``ends`` are records of each reader's topics. ``query_p95_ms``: of all queries of the
    dashboard; None where they were not run."""

    at_s: float
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    resident_bytes: Mapping[str, int] = field(default_factory=dict)
    open_files: Mapping[str, int] = field(default_factory=dict)
    lag: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    parts: int = 0
    files: int = 0
    disk_bytes: int = 0
    query_p95_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """How much an amount may grow: by a share of what it was, or by ``slack`` where that is more; and never beyond
    ``limit``, where it began there, too."""

    share: float
    slack: float = 0.0
    limit: float = inf

    def most(self, begin: float) -> float:
        """What it may have become."""
        return min(begin + max(self.share * begin, self.slack), self.limit)


MEMORY = Bound(0.05)
OPEN_FILES = Bound(0.05, 10)
LAG_S = Bound(0.0, 2.0, 15.0)
"""In seconds of a reader's input, as commits come every five: three of them at most, also where it stays so."""
PARTS = Bound(0.05, 20)
FILES = Bound(0.05, 200)
QUERY_P95_MS = Bound(0.25, 50.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One amount. ``most`` None: it grows with what is kept, and is not judged. ``holds`` None: not judged, or too few
    samples."""

    name: str
    unit: str
    begin: float | None
    end: float | None
    most: float | None
    holds: bool | None

    @property
    def growth(self) -> float | None:
        """As a share of what it was."""
        return None if self.begin is None or self.end is None or not self.begin else self.end / self.begin - 1

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "growth": self.growth}


def lines(samples: Sequence[Sample], seconds: float, restarts: Mapping[str, int]) -> list[Line]:
    """Every amount with its verdict; ``restarts`` of processes, each of which fails."""
    steady = _steady(samples, seconds)
    found = [*_of_processes(steady), *_of_readers(steady)]
    found.append(_line("parts of tables", "", steady, [one.parts for one in steady], PARTS))
    found.append(_line("files", "", steady, [one.files for one in steady], FILES))
    found.append(_line("dashboard p95", "ms", steady, [one.query_p95_ms for one in steady], QUERY_P95_MS))
    found.append(_line("bytes on disk", "B", steady, [one.disk_bytes for one in steady], None))
    found += [Line(f"restarts of {name}", "", 0, count, 0, False) for name, count in restarts.items() if count]
    return found


def load_per_s(samples: Sequence[Sample], seconds: float) -> float | None:
    """Records that the fleet sent each second behind the start-up; None where that was not seen."""
    seen = [(one.at_s, float(one.ends[SOURCES])) for one in _steady(samples, seconds) if SOURCES in one.ends]
    if len(seen) < SAMPLES_MIN:
        return None
    begin, end = trend(seen)
    return (end - begin) / (seen[-1][0] - seen[0][0])


def _steady(samples: Sequence[Sample], seconds: float) -> list[Sample]:
    return [one for one in samples if one.at_s >= WARM_UP_SHARE * seconds]


def _of_processes(steady: Sequence[Sample]) -> Iterator[Line]:
    for name in _names(one.memory_bytes for one in steady):
        yield _line(f"memory of {name}", "B", steady, [one.memory_bytes.get(name) for one in steady], MEMORY)
    for name in _names(one.open_files for one in steady):
        yield _line(f"open files of {name}", "", steady, [one.open_files.get(name) for one in steady], OPEN_FILES)


def _of_readers(steady: Sequence[Sample]) -> Iterator[Line]:
    for name in _names(one.lag for one in steady):
        per_s = _rate(steady, name)
        yield _line(f"lag of {name}", "s", steady, [_seconds(one.lag.get(name), per_s) for one in steady], LAG_S)


def _names(of: Iterable[Mapping[str, int]]) -> list[str]:
    return sorted({name for one in of for name in one})


def _rate(steady: Sequence[Sample], reader: str) -> float:
    """Records a second that come to a reader's topics."""
    span_s = steady[-1].at_s - steady[0].at_s
    return (steady[-1].ends.get(reader, 0) - steady[0].ends.get(reader, 0)) / span_s if span_s else 0.0


def _seconds(lag: int | None, per_s: float) -> float | None:
    return None if lag is None or per_s <= 0 else lag / per_s


def _line(name: str, unit: str, steady: Sequence[Sample], values: Iterable[float | None], bound: Bound | None) -> Line:
    seen = [(one.at_s, value) for one, value in zip(steady, values, strict=True) if value is not None]
    if not seen:
        return Line(name, unit, None, None, None, None)
    begin, end = trend(seen)
    most = None if bound is None else bound.most(begin)
    return Line(name, unit, begin, end, most, None if most is None or len(seen) < SAMPLES_MIN else end <= most)


def trend(seen: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """First and last value of the line of Theil and Sen through (time, value), in order of time."""
    at, values = (np.array(column, np.float64) for column in zip(*seen, strict=True))
    first, second = np.triu_indices(len(at), 1)
    slope = np.median((values[second] - values[first]) / (at[second] - at[first])) if len(first) else 0.0
    level = np.median(values - slope * at)
    return float(level + slope * at[0]), float(level + slope * at[-1])
