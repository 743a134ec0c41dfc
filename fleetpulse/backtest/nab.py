"""The layout of the Numenta Anomaly Benchmark: which files, which labels, and how scores are written.

``DIR/data/<category>/<file>.csv`` (or the categories right in ``DIR``), labels in ``combined_windows.json`` anywhere
below ``labels`` or ``DIR``; results go to ``<detector>/<category>/<detector>_<file>.csv`` with the columns
``timestamp,value,anomaly_score,label``. Source: Lavin, Ahmad, "Evaluating Real-time Anomaly Detection Algorithms - the
Numenta Anomaly Benchmark", ICMLA 2015, and its repository.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from fleetpulse.backtest.series_file import time_ms
from schemas.errors import ConfigError

Spans = tuple[tuple[int, int], ...]
"""Begin and end (both included) in ms of what is labelled."""


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
