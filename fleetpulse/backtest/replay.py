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
from fleetpulse.sql.database import Database
from runtime.clock import SystemClock
from runtime.config import load
from schemas.errors import ConfigError
from schemas.limits import HOUR_MS


@dataclass(slots=True)
class Replayed:
    """What the rules said of a range. Alerts are kept, rows are not."""

    from_ms: int
    to_ms: int
    records: int = 0
    stories: list[Story] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For machines: every alert, and how often which rule opened one."""
        hours = max((self.to_ms - self.from_ms) / HOUR_MS, 1e-9)
        late_s = [(one.opened_ms - one.transitions[0].alert.since_ms) / 1_000 for one in self.stories]
        rules = Counter(one.headlines()[-1].rule for one in self.stories)
        return {
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "records": self.records,
            "alerts": [_alert(story) for story in self.stories],
            "alerts_per_day": len(self.stories) / hours * 24,
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
    """The database's history, as plain values."""
    to_ms = SystemClock().now_ms() if to is None else _moment("--to", to)
    from_ms = to_ms - duration_ms(last) if from_ is None else _moment("--from", from_)
    if from_ms >= to_ms:
        raise ConfigError("--from", from_ or last, "must lie before the end")
    with Progress() as progress, progress.task("history") as report:
        return replay(Database(load().reading).native, from_ms, to_ms, rules, report).as_dict()


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
        transitions += alerts_of(stage, stretch.records)
        report(stretch.to_ms - from_ms, to_ms - from_ms)
    result.stories = stories_of(transitions)
    return result
