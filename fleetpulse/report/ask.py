"""What was asked for, from files and the command line, and the database behind it: the thin shell of a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetpulse.report.figures import Asked, Row, gather
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError
from schemas.limits import MINUTE_MS
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.budgets.model import Budgets
from stream_jobs.prices.load import load as load_prices
from stream_jobs.prices.model import instant_of
from stream_jobs.rules.load import load_set


def span(last_ms: int, from_: str | None, to: str | None, now_ms: int) -> tuple[int, int]:
    """[from, to) in ms, whole minutes: up to now, or as given."""
    to_ms = now_ms if to is None else _instant("--to", to)
    from_ms = to_ms - last_ms if from_ is None else _instant("--from", from_)
    bounds = from_ms // MINUTE_MS * MINUTE_MS, -(-to_ms // MINUTE_MS) * MINUTE_MS
    if bounds[0] >= bounds[1]:
        raise ConfigError("--from", from_ or from_ms, "must lie before --to")
    return max(0, bounds[0]), bounds[1]


def _instant(option: str, text: str) -> int:
    try:
        return instant_of(text)
    except (ValueError, OverflowError):
        raise ConfigError(option, text, "must be a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)") from None


def asked(
    bounds: tuple[int, int], now_ms: int, prices: Path, slo: Path | None = None, budgets: Path | None = None
) -> Asked:
    """The question, with its files read. Raises ``ConfigError`` with every mistake of a file."""
    return Asked(
        *bounds,
        now_ms,
        load_prices(prices),
        str(prices),
        () if slo is None else load_set(slo).slo_classes,
        Budgets() if budgets is None else load_budgets(budgets),
    )


def figures_of(config: ClickHouseConfig, question: Asked) -> dict[str, Any]:
    """The report's figures from a database, asked as the reader."""
    database = Database(config)

    def ask(name: str, parameters: Mapping[str, Any]) -> list[Row]:
        return database.named(name, parameters).records()

    try:
        return gather(ask, question)
    finally:
        database.close()
