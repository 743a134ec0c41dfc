"""Rules over a deployment's ClickHouse: the records of ``history`` through the alert job's step, stretch by stretch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetpulse.backtest.alerting import Story, Transition, alert_stage, alerts_of, percentile, stories_of
from fleetpulse.backtest.history import Fetch, Stretch, stretches
from fleetpulse.backtest.series_file import time_ms
from fleetpulse.commands.people import duration_ms
from fleetpulse.commands.progress import Progress, Report
from fleetpulse.report.amounts import instant
from fleetpulse.sql.database import Database
from runtime.clock import SystemClock
from runtime.config import load
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import DAY_MS, WINDOW_MS


@dataclass(slots=True)
class Replayed:
    """What the rules said of a range. Alerts are kept, rows are not. ``covered_ms``: how long there was data, in whole
    windows, which began at ``first_ms`` and ended at ``last_ms``."""

    from_ms: int
    to_ms: int
    records: int = 0
    rows: int = 0
    covered_ms: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    stories: list[Story] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For machines: every alert, and how often which rule opened one."""
        late_s = [(one.opened_ms - one.transitions[0].alert.since_ms) / 1_000 for one in self.stories]
        rules = Counter(one.headlines()[-1].rule for one in self.stories)
        return {
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "records": self.records,
            "rows": self.rows,
            "covered_ms": self.covered_ms,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "alerts": [_alert(story) for story in self.stories],
            "alerts_per_day": len(self.stories) * DAY_MS / self.covered_ms if self.covered_ms else None,
            "by_rule": dict(rules.most_common()),
            "detect_p50_s": percentile(late_s, 0.5),
            "detect_p95_s": percentile(late_s, 0.95),
        }


def _alert(story: Story) -> dict[str, Any]:
    headline = story.headlines()[-1]
    names = ("fingerprint", "rule", "severity", "summary", "since_ms", "value", "baseline")
    moments = {"opened_ms": story.opened_ms, "resolved_ms": story.resolved_ms}
    others = {"labels": dict(headline.labels), "members": len(headline.members)}
    return {name: getattr(headline, name) for name in names} | moments | others


def backtest_history(last: str, from_: str | None, to: str | None, rules: Path | None) -> dict[str, Any]:
    """The database's history, as plain values. Raises ``FleetpulseError`` where it has none in the range."""
    to_ms = SystemClock().now_ms() if to is None else _moment("--to", to)
    from_ms = to_ms - duration_ms(last) if from_ is None else _moment("--from", from_)
    if from_ms >= to_ms:
        raise ConfigError("--from", from_ or last, "must lie before the end")
    with Progress() as progress, progress.task("history") as report:
        found = replay(Database(load().reading).native, from_ms, to_ms, rules, report)
    if not found.rows:
        raise FleetpulseError(
            f"no data between {instant(from_ms)} and {instant(to_ms)} (UTC): rules were judged over nothing;"
            " `fleetpulse status` says what arrives"
        )
    return found.as_dict()


def _moment(name: str, text: str) -> int:
    try:
        return time_ms(text)
    except ValueError as error:
        raise ConfigError(name, text, "must be ISO 8601 or seconds since 1970") from error


def replay(fetch: Fetch, from_ms: int, to_ms: int, rules: Path | None, report: Report) -> Replayed:
    """The rules over ``[from_ms, to_ms)`` of a database. Baselines begin with the range."""
    return judge(stretches(fetch, from_ms, to_ms), from_ms, to_ms, rules, report)


def judge(found: Iterable[Stretch], from_ms: int, to_ms: int, rules: Path | None, report: Report) -> Replayed:
    """The rules over records in order of time."""
    stage, result = alert_stage(rules), Replayed(from_ms, to_ms)
    transitions: list[Transition] = []
    for stretch in found:
        result.records += len(stretch.records)
        result.rows += stretch.rows
        result.covered_ms += WINDOW_MS * len(stretch.windows)
        if stretch.windows:
            result.first_ms = min(stretch.windows) if result.first_ms is None else result.first_ms
            result.last_ms = max(stretch.windows) + WINDOW_MS
        transitions += alerts_of(stage, stretch.records)
        report(stretch.to_ms - from_ms, to_ms - from_ms)
    result.stories = stories_of(transitions)
    return result
