"""Rules over series in files: one CSV, or a directory in the layout of the Numenta Anomaly Benchmark.

NAB: ``DIR/data/<category>/<file>.csv`` (or the categories right in ``DIR``), labels in ``combined_windows.json``
anywhere below ``labels`` or ``DIR``; results go to ``<detector>/<category>/<detector>_<file>.csv`` with the columns
``timestamp,value,anomaly_score,label``. Source: Lavin, Ahmad, "Evaluating Real-time Anomaly Detection Algorithms - the
Numenta Anomaly Benchmark", ICMLA 2015, and its repository.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fleetpulse.backtest.labelled import Found, Run, Runs, compare, together
from fleetpulse.backtest.one_series import Judged, judged, rule_of
from fleetpulse.backtest.series_file import Spans, interval_ms, read_series, time_ms
from fleetpulse.commands.people import duration_ms
from fleetpulse.commands.progress import Progress, Report
from schemas.errors import ConfigError

DETECTORS = ("novelty", "deviation", "moving_average")
SIGMAS, PERCENT = 6.0, 15.0
"""Of ``deviation`` and ``moving_average``, where nothing is said."""
_TAKES = {"novelty": ("--scale",), "deviation": ("--sigmas", "--scale"), "moving_average": ("--percent",)}
_SCALES = {"auto": None, "linear": False, "log": True}
"""Of ``deviation``: whether it judges ratios; None as the kind has it."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A detector and what differs from its defaults. ``m`` of ``n`` points begin an alert."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    m: int = 1
    n: int = 1

    def judge(self, path: Path) -> Iterator[Judged]:
        """Every point of a file."""
        return judged(rule_of(self.kind, interval_ms(path), self.options, self.m, self.n), read_series(path))


def preset(
    detector: str | None, sigmas: float | None, percent: float | None, half_life: str | None, m: int, n: int,
    direction: str, scale: str | None,
) -> Preset:  # fmt: skip
    """The detector of a file; without one that which has ``sigmas`` or ``percent``, else novelty. None: nothing was
    said. Raises ``ConfigError`` for a detector there is not, and for an option that it does not have."""
    if detector is None:
        detector = "deviation" if sigmas is not None else "moving_average" if percent is not None else "novelty"
    if detector not in DETECTORS:
        raise ConfigError("--detector", detector, f"must be one of {', '.join(DETECTORS)}")
    if m > n:
        raise ConfigError("--m", m, "must be at most --n")
    for name, value in (("--sigmas", sigmas), ("--percent", percent), ("--scale", scale)):
        if value is not None and name not in _TAKES[detector]:
            others = ", ".join(one for one in DETECTORS if name in _TAKES[one])
            raise ConfigError(name, value, f"is not of --detector {detector}, but of {others}")
    scale = scale or "auto"
    options: dict[str, Any] = {"direction": _one_of("--direction", direction, ("above", "below", "both"))}
    if detector == "novelty":
        options["scale"] = _one_of("--scale", scale, ("auto", "linear", "root", "log"))
    elif detector == "moving_average":
        options["percent"] = percent or PERCENT
    else:
        options["enter_sigmas"] = sigmas or SIGMAS
        if (log := _SCALES[_one_of("--scale", scale, tuple(_SCALES))]) is not None:
            options["log"] = log
    if half_life is not None:
        options["half_life_s"] = duration_ms(half_life) / 1_000
    return Preset(detector, options, m, n)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(name, value, f"must be one of {', '.join(known)}")
    return value


@dataclass(frozen=True, slots=True)
class SeriesResult:
    """What a rule said of one series; ``found`` is None without labels. ``steps_back``: points that are older than the
    one before them, as after a clock was put back; they are judged in the order of the file."""

    name: str
    points: int
    steps_back: int
    runs: tuple[Run, ...]
    found: Found | None

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        alerts = [
            {"since": run.since, "since_ms": run.since_ms, "until_ms": run.until_ms, "value": run.value,
             "baseline": None if run.baseline != run.baseline else run.baseline}
            for run in self.runs
        ]  # fmt: skip
        labelled = {} if self.found is None else self.found.as_dict()
        return {"series": self.name, "points": self.points, "steps_back": self.steps_back, "alerts": alerts} | {
            name: value for name, value in labelled.items() if name != "alerts"
        }


def backtest_files(
    file: Path | None, nab: Path | None, labels: Path | None, preset: Preset, results: Path
) -> dict[str, Any]:
    """One file or a directory, as plain values."""
    if file is not None and nab is not None:
        raise ConfigError("--nab", str(nab), "give --csv or --nab, not both")
    with Progress() as progress, progress.task("series") as report:
        if file is not None:
            found = [backtest_csv(file, preset, labels)]
        else:
            assert nab is not None
            found = backtest_nab(nab, preset, f"fleetpulse_{preset.kind}", results, report)
    whole = total(found)
    return {"series": [one.as_dict() for one in found], **({} if whole is None else whole.as_dict())}


def backtest_csv(path: Path, preset: Preset, labels: Path | None = None) -> SeriesResult:
    """One file. ``labels``: a JSON list of [begin, end]."""
    runs = Runs()
    for one in preset.judge(path):
        runs.take(one)
    return _result(path.name, runs, None if labels is None else spans_of(labels))


def spans_of(path: Path) -> Spans:
    """Labelled spans of a file. Raises ``ConfigError`` where it holds none."""
    try:
        return tuple((time_ms(str(a)), time_ms(str(b))) for a, b in orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError, ValueError, TypeError) as error:
        raise ConfigError("--labels", str(path), f"must hold [[begin, end], ...] as JSON: {error}") from error


def backtest_nab(folder: Path, preset: Preset, detector: str, out: Path, report: Report) -> list[SeriesResult]:
    """Every series of a directory; scores are written below ``out`` as they come."""
    every = series_of(folder)
    results = []
    for number, series in enumerate(every):
        report(number, len(every))
        results.append(_one(series, preset, result_path(out, detector, series)))
    return results


def _one(series: Series, preset: Preset, path: Path) -> SeriesResult:
    runs, spans = Runs(), series.labelled or ()

    def rows() -> Iterator[tuple[object, ...]]:
        for one in preset.judge(series.path):
            runs.take(one)
            point = one.point
            yield point.text, point.value, one.score, int(is_labelled(point.at_ms, spans))

    write_result(path, rows())
    return _result(f"{series.category}/{series.path.name}", runs, series.labelled)


def _result(name: str, runs: Runs, spans: Spans | None) -> SeriesResult:
    found = runs.close()
    return SeriesResult(
        name, runs.points, runs.steps_back, tuple(found), None if spans is None else compare(found, spans)
    )


def total(results: list[SeriesResult]) -> Found | None:
    """Over all series with labels; None when there is none."""
    found = [result.found for result in results if result.found is not None]
    return together(found) if found else None


# the layout of NAB


@dataclass(frozen=True, slots=True)
class Series:
    """A file of the benchmark and what is labelled in it; None where there are no labels."""

    category: str
    path: Path
    labelled: Spans | None


def series_of(folder: Path) -> list[Series]:
    """All series below a folder, by category and name. Raises ``ConfigError`` when there is none."""
    data = folder / "data" if (folder / "data").is_dir() else folder
    labels = _labels(folder)
    found = [
        Series(path.parent.name, path, None if labels is None else labels.get(f"{path.parent.name}/{path.name}", ()))
        for path in sorted(data.glob("*/*.csv"))
    ]
    if not found:
        raise ConfigError("--nab", str(folder), "holds no <category>/<file>.csv, nor does its folder data")
    return found


def _labels(folder: Path) -> Mapping[str, Spans] | None:
    places = [folder / "labels" / "combined_windows.json", folder / "combined_windows.json"]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return None
    try:
        found = orjson.loads(path.read_bytes())
        return {name: tuple((time_ms(a), time_ms(b)) for a, b in spans) for name, spans in found.items()}
    except (orjson.JSONDecodeError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(str(path), "", f"must map files to [[begin, end], ...]: {error}") from error


def is_labelled(at_ms: int, spans: Spans) -> bool:
    """Whether a moment is in a labelled span."""
    return any(begin <= at_ms <= end for begin, end in spans)


def result_path(out: Path, detector: str, series: Series) -> Path:
    """Where the scores of a series are written."""
    return out / detector / series.category / f"{detector}_{series.path.name}"


def write_result(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows of (timestamp, value, anomaly_score, label)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("timestamp", "value", "anomaly_score", "label"))
        writer.writerows(rows)
