"""What seeds came to: numbers by kind, what broke a bound, every false alarm with its evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetpulse.backtest.alerting import Story, percentile
from lab.evaluate.score import Outcome, Score
from lab.evaluate.table import CASES, CAUSE_FIRST_MIN, ON_TIME_SHARE, OVERRUN, PRECISION_MIN, RECALL_MIN, Case


@dataclass(frozen=True, slots=True)
class Bound:
    """Something that must hold, and what was measured."""

    name: str
    value: float
    bound: float
    at_least: bool

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Kind:
    """All troubles of one kind, over all seeds."""

    case: Case
    outcomes: tuple[Outcome, ...]

    def late_s(self) -> list[float]:
        """Onset to opening of those that were found."""
        return [outcome.late_s for outcome in self.outcomes if outcome.late_s is not None]

    def as_dict(self) -> dict[str, Any]:
        """Numbers of the kind."""
        outcomes = self.outcomes
        return {
            "fault": self.case.name,
            "count": len(outcomes),
            "found": sum(outcome.found for outcome in outcomes),
            "within_s": self.case.within_s,
            "late_p50_s": percentile(self.late_s(), 0.5),
            "late_p95_s": percentile(self.late_s(), 0.95),
            "on_time": sum(outcome.on_time for outcome in outcomes),
            "cause_first": sum(outcome.cause_first for outcome in outcomes),
            "doubles": sum(len(outcome.doubles) for outcome in outcomes),
            "resolved": sum(outcome.resolved for outcome in outcomes),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Of all seeds of one evaluation."""

    scores: tuple[Score, ...]

    def kinds(self) -> list[Kind]:
        """By kind, in the order of the table."""
        found = []
        for case in (*CASES, OVERRUN):
            mine = tuple(o for score in self.scores for o in score.outcomes if o.trouble.case.name == case.name)
            if mine:
                found.append(Kind(case, mine))
        return found

    def bounds(self) -> list[Bound]:
        """Everything that must hold."""
        outcomes = [outcome for score in self.scores for outcome in score.outcomes]
        found = [outcome for outcome in outcomes if outcome.found]
        doubles = sum(len(outcome.doubles) for outcome in outcomes)
        false_alarms = sum(len(score.false_alarms) for score in self.scores)
        bounds = [
            Bound("precision", _share(len(found), len(found) + doubles + false_alarms), PRECISION_MIN, True),
            Bound("recall", _share(len(found), len(outcomes)), RECALL_MIN, True),
            Bound("cause first", _share(sum(o.cause_first for o in found), len(found)), CAUSE_FIRST_MIN, True),
            Bound("second alerts for one fault", doubles, 0, False),
            Bound("alerts not resolved", sum(not o.resolved for o in found), 0, False),
        ]
        for kind in self.kinds():
            late_s = percentile(kind.late_s(), ON_TIME_SHARE)
            if late_s is not None:
                bounds.append(Bound(f"p95 to detect {kind.case.name}, s", late_s, kind.case.within_s, False))
        return bounds

    @property
    def holds(self) -> bool:
        """Whether every bound does."""
        return all(bound.holds for bound in self.bounds())

    def as_dict(self) -> dict[str, Any]:
        return {
            "seeds": [score.seed for score in self.scores],
            "holds": self.holds,
            "bounds": [{"name": b.name, "value": b.value, "bound": b.bound, "holds": b.holds} for b in self.bounds()],
            "kinds": [kind.as_dict() for kind in self.kinds()],
            "missed": [_missed(s.seed, o) for s in self.scores for o in s.outcomes if not o.found],
            "wrong_cause": [
                _alert(s.seed, o.story) | _missed(s.seed, o) for s, o in self._found() if not o.cause_first
            ],
            "late": [_missed(s.seed, o) | {"late_s": o.late_s} for s, o in self._found() if not o.on_time],
            "doubles": [_alert(s.seed, story) | _missed(s.seed, o) for s, o in self._found() for story in o.doubles],
            "unresolved": [_alert(s.seed, o.story) | _missed(s.seed, o) for s, o in self._found() if not o.resolved],
            "false_alarms": [_alert(s.seed, story) for s in self.scores for story in s.false_alarms],
        }

    def _found(self) -> list[tuple[Score, Outcome]]:
        return [(score, outcome) for score in self.scores for outcome in score.outcomes if outcome.found]


def _share(part: int, whole: int) -> float:
    """1 of nothing: no alert is wrong where there is none."""
    return part / whole if whole else 1.0


def _missed(seed: int, outcome: Outcome) -> dict[str, Any]:
    fault = outcome.trouble.fault
    return {
        "seed": seed,
        "fault": outcome.trouble.case.name,
        "where": {fault.field: fault.value},
        "expected": {outcome.trouble.case.cause: outcome.trouble.value},
        "from_ms": fault.from_ms,
        "to_ms": fault.to_ms,
    }


def _alert(seed: int, story: Story | None) -> dict[str, Any]:
    assert story is not None
    headline = story.headlines()[-1]
    return {
        "seed": seed,
        "rule": headline.rule,
        "labels": dict(headline.labels),
        "opened_ms": story.opened_ms,
        "resolved_ms": story.resolved_ms,
        "opened_by": {"rule": story.transitions[0].alert.rule, "labels": dict(story.transitions[0].alert.labels)},
        "value": headline.value,
        "baseline": headline.baseline,
        "low": headline.low,
        "high": headline.high,
        "count": headline.count,
        "note": headline.note,
        "members": [
            {"rule": one.rule, "labels": dict(one.labels), "since_ms": one.since_ms} for one in headline.members
        ],
        "evidence": dict(headline.evidence),
    }
