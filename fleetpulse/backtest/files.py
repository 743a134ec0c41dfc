"""Rules over series in files: one, or all below a directory, as in that of the Numenta Anomaly Benchmark; or a query's.

NAB: ``DIR/data/<category>/<file>.csv`` (or the categories right in ``DIR``), labels in ``combined_windows.json``
anywhere below ``labels`` or ``DIR``; results go to ``<detector>/<category>/<detector>_<file>.csv`` with the columns
``timestamp,value,anomaly_score,label``. Source: Lavin, Ahmad, "Evaluating Real-time Anomaly Detection Algorithms - the
Numenta Anomaly Benchmark", ICMLA 2015, and its repository.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from fleetpulse.backtest.explain import drawing, page
from fleetpulse.backtest.judging import Judged, judged, rule_of
from fleetpulse.backtest.labelled import Found, Run, compare, runs_of, together
from fleetpulse.backtest.series_file import SUFFIXES, Points, Spans, arrow, by_series, read_files, time_ms
from fleetpulse.commands.people import duration_ms
from fleetpulse.commands.progress import Progress, Report
from fleetpulse.sql.database import Answer, Database
from fleetpulse.whole_file import replacing
from runtime.config import load
from schemas.errors import ConfigError
from stream_jobs.insight.frame import Mask
from stream_jobs.rules.model import Rule

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

    @property
    def detector(self) -> str:
        """The name under which results are written."""
        return f"fleetpulse_{self.kind}"

    def rule(self, interval_ms: int) -> Rule:
        """Of series with a value so often."""
        return rule_of(self.kind, interval_ms, self.options, self.m, self.n)


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
        alerts = [
            {"since": run.since, "since_ms": run.since_ms, "until_ms": run.until_ms, "value": run.value,
             "baseline": None if run.baseline != run.baseline else run.baseline}
            for run in self.runs
        ]  # fmt: skip
        labelled = {} if self.found is None else self.found.as_dict()
        return {"series": self.name, "points": self.points, "steps_back": self.steps_back, "alerts": alerts} | {
            name: value for name, value in labelled.items() if name != "alerts"
        }


@dataclass(frozen=True, slots=True)
class Series:
    """A series and what is labelled in it; None where there are no labels."""

    name: str
    points: Points
    labelled: Spans | None = None


def backtest_files(
    file: Path | None, folder: Path | None, query: str | None, labels: Path | None, preset: Preset, results: Path,
    explain: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One file, a directory or a query, as plain values; scores of the last two are written below ``results``. The
    series named ``explain`` is drawn there."""
    given = [
        (name, str(one)) for name, one in (("--csv", file), ("--dir", folder), ("--query", query)) if one is not None
    ]
    if len(given) > 1:
        raise ConfigError(*given[1], f"give {given[0][0]} or {given[1][0]}, not both")
    with Progress() as progress:
        with progress.task("read") as report:
            if file is not None:
                spans = None if labels is None else spans_of(labels)
                every = [Series(word or file.name, one, spans) for word, one in read_files(file).items()]
            elif folder is not None:
                every = series_of(folder, report)
            else:
                assert query is not None
                every = queried(Database(load().reading).sql(query))
        drawn = None if explain is None else _named(every, explain)
        with progress.task("judge") as report:
            kept = Kept(None if file is not None else results, drawn, results)
            found = backtest(every, preset, kept, report)
    whole, drawings = total(found), {} if drawn is None else {"drawn": [str(path) for path in kept.paths(preset)]}
    return {"series": [one.as_dict() for one in found], **({} if whole is None else whole.as_dict()), **drawings}


def _named(every: Sequence[Series], name: str) -> Series:
    for one in every:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in every[:5])
    raise ConfigError("--explain", name, f"is not one of the {len(every)} series; they are called {known} ...")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is written: ``scores`` of every series below that folder, and a drawing of one in ``drawings``,
    beside the scores: NAB takes whatever stands among them for scores."""

    scores: Path | None = None
    drawn: Series | None = None
    drawings: Path = Path()

    def paths(self, preset: Preset) -> tuple[Path, ...]:
        """Of the page and the picture."""
        if self.drawn is None:
            return ()
        path = result_path(self.drawings / "drawn", preset.detector, self.drawn.name)
        return path.with_suffix(".html"), path.with_suffix(".svg")

    def write(self, series: Series, preset: Preset, said: Judged, runs: Sequence[Run]) -> None:
        """One series."""
        if self.scores is not None:
            write_result(result_path(self.scores, preset.detector, series.name), series, said)
        if series is self.drawn:
            page_at, picture_at = self.paths(preset)
            page_at.parent.mkdir(parents=True, exist_ok=True)
            points, labelled = series.points, series.labelled or ()
            drawn = {
                page_at: page(series.name, preset.kind, points, said, runs, labelled),
                picture_at: drawing(points, said, runs, labelled, slice(None), series.name),
            }
            for path, text in drawn.items():
                with replacing(path) as file:
                    file.write(text.encode())


def backtest(every: Sequence[Series], preset: Preset, kept: Kept, report: Report) -> list[SeriesResult]:
    """All series in shared frames, in the order of ``every``."""
    found: dict[int, SeriesResult] = {}
    for number, said in judged(preset.rule, [one.points for one in every], report):
        series = every[number]
        runs = runs_of(series.points, said)
        kept.write(series, preset, said, runs)
        of_labels = None if series.labelled is None else compare(runs, series.labelled)
        points = series.points
        found[number] = SeriesResult(series.name, len(points), points.steps_back, tuple(runs), of_labels)
    return [found[number] for number in range(len(every))]


def queried(answer: Answer) -> list[Series]:
    """The series of an answer with columns timestamp, value and perhaps series. Raises ``ConfigError`` for others."""
    missing = [name for name in ("timestamp", "value") if name not in answer.columns]
    if missing or not answer.rows:
        what = f"must have a column {missing[0]}" if missing else "has no rows"
        raise ConfigError("--query", ", ".join(answer.columns), f"{what}; timestamp, value and perhaps series are read")
    columns = dict(zip(answer.columns, zip(*answer.rows, strict=True), strict=True))
    texts = [one.isoformat(" ") if isinstance(one, datetime) else str(one) for one in columns["timestamp"]]
    try:
        numbers = {
            "at_ms": np.array([time_ms(one) for one in texts], np.int64),
            "values": np.array([np.nan if one is None else float(one) for one in columns["value"]]),
        }
    except ValueError as error:
        raise ConfigError("--query", "timestamp, value", f"must be moments and numbers: {error}") from error
    series = np.array([str(one) for one in columns["series"]]) if "series" in columns else None
    return [Series(word or "query", one) for word, one in by_series("--query", numbers, texts, series).items()]


def spans_of(path: Path) -> Spans:
    """Labelled spans of a file. Raises ``ConfigError`` where it holds none."""
    try:
        return tuple((time_ms(str(a)), time_ms(str(b))) for a, b in orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError, ValueError, TypeError) as error:
        raise ConfigError("--labels", str(path), f"must hold [[begin, end], ...] as JSON: {error}") from error


def total(results: list[SeriesResult]) -> Found | None:
    """Over all series with labels; None when there is none."""
    found = [result.found for result in results if result.found is not None]
    return together(found) if found else None


# the layout of NAB


def series_of(folder: Path, report: Report = lambda _done, _all: None) -> list[Series]:
    """All series below a folder, by category and name. Raises ``ConfigError`` when there is none."""
    data = folder / "data" if (folder / "data").is_dir() else folder
    paths = sorted(path for path in data.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not paths:
        raise ConfigError("--dir", str(folder), "holds no .csv and no .parquet, nor does its folder data")
    labels, found = _labels(folder), []
    for number, path in enumerate(paths):
        report(number, len(paths))
        name = path.relative_to(data).as_posix()
        for word, points in read_files(path).items():
            spans = None if labels is None else labels.get(f"{name}/{word}" if word else name, ())
            found.append(Series(f"{name}/{word}" if word else name, points, spans))
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


def are_labelled(points: Points, spans: Spans) -> Mask:
    """Which moments are in a labelled span."""
    found = np.zeros(len(points), np.bool_)
    for begin, end in spans:
        found |= (points.at_ms >= begin) & (points.at_ms <= end)
    return found


def result_path(out: Path, detector: str, name: str) -> Path:
    """Where the scores of a series are written; below ``out``, whatever it is called."""
    parts = [part for part in name.split("/") if part not in ("", ".", "..")] or ["series"]
    last = parts[-1] if parts[-1].endswith(".csv") else f"{parts[-1]}.csv"
    return out.joinpath(detector, *parts[:-1], f"{detector}_{last}")


_HEAD = ("timestamp", "value", "anomaly_score", "label")


def write_result(path: Path, series: Series, said: Judged) -> None:
    """Write timestamp, value, anomaly_score and label of every point; scores from before stay until all are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    points, marks = series.points, are_labelled(series.points, series.labelled or ()).astype(np.int8)
    columns: tuple[Any, ...] = (points.texts, points.values, said.score, marks)
    writer, lib = arrow("csv"), arrow("")
    if writer is not None:
        with contextlib.suppress(ValueError), replacing(path) as file:  # a moment with a comma is quoted below
            file.write((",".join(_HEAD) + "\n").encode())
            options = writer.WriteOptions(include_header=False, quoting_style="none")
            writer.write_csv(lib.table([lib.array(one) for one in columns], names=list(_HEAD)), file, options)
            return
    with replacing(path) as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
        rows = zip(points.texts, *(one.tolist() for one in columns[1:]), strict=True)
        csv.writer(text, lineterminator="\n").writerows([_HEAD, *rows])
