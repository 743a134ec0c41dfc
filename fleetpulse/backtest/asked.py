"""What a backtest was asked for on the command line, carried out; results as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleetpulse.backtest.files import Preset, SeriesResult, backtest_csv, backtest_nab, total
from fleetpulse.backtest.series_file import time_ms
from fleetpulse.commands.people import duration_ms
from fleetpulse.commands.progress import Progress
from schemas.errors import ConfigError

DETECTORS = ("deviation", "moving_average")


def preset(detector: str, sigmas: float, percent: float, half_life: str | None, m: int, n: int) -> Preset:
    """The detector of a file. Raises ``ConfigError`` for one there is not."""
    if detector not in DETECTORS:
        raise ConfigError("--detector", detector, f"must be one of {', '.join(DETECTORS)}")
    if m > n:
        raise ConfigError("--m", m, "must be at most --n")
    options: dict[str, Any] = {"percent": percent} if detector == "moving_average" else {"enter_sigmas": sigmas}
    if half_life is not None:
        options["half_life_s"] = duration_ms(half_life) / 1_000
    return Preset(detector, options, m, n)


def files(csv: Path | None, nab: Path | None, labels: Path | None, preset: Preset, results: Path) -> dict[str, Any]:
    """One file or a directory."""
    if csv is not None and nab is not None:
        raise ConfigError("--nab", str(nab), "give --csv or --nab, not both")
    with Progress() as progress, progress.task("series") as tell:
        if csv is not None:
            found: list[SeriesResult] = [backtest_csv(csv, preset, labels)]
        else:
            assert nab is not None
            found = backtest_nab(nab, preset, f"fleetpulse_{preset.kind}", results, tell)
    whole = total(found)
    return {"series": [one.as_dict() for one in found], **({} if whole is None else whole.as_dict())}


def history(last: str, from_: str | None, to: str | None, rules: Path | None) -> dict[str, Any]:
    """The database's history."""
    from fleetpulse.backtest.database import fetch_from
    from fleetpulse.backtest.replay import replay
    from runtime.clock import SystemClock
    from runtime.config import load

    to_ms = SystemClock().now_ms() if to is None else _moment("--to", to)
    from_ms = to_ms - duration_ms(last) if from_ is None else _moment("--from", from_)
    if from_ms >= to_ms:
        raise ConfigError("--from", from_ or last, "must lie before the end")
    with Progress() as progress, progress.task("history") as tell:
        return replay(fetch_from(load().reading), from_ms, to_ms, rules, tell).as_dict()


def _moment(name: str, text: str) -> int:
    try:
        return time_ms(text)
    except ValueError as error:
        raise ConfigError(name, text, "must be ISO 8601 or seconds since 1970") from error
