"""Which alert is about which trouble, and what that is worth. Pure.

An alert is about a trouble when they overlap in time (until it has settled) and share a label; of two the one that
began later. A trouble takes the first such alert; a further one is a *double*; the rest are false alarms. The cause is
right when the most specific label of the headline, or what explains most of the change, is what was hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.backtest.alerting import Story, Transition, stories_of
from lab.evaluate.scenario import Trouble
from schemas.contract.alerts import Alert

SPECIFIC = ("gpu_uuid", "engine_id", "rank", "host", "model_version", "model", "tenant", "cluster", "region")
"""Dimensions, the most specific first: a GPU has an engine, which has a host, as a rank of training has."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one trouble. ``late_s`` is onset to opening; None where nothing opened."""

    trouble: Trouble
    story: Story | None
    doubles: tuple[Story, ...]
    late_s: float | None
    cause_first: bool
    resolved: bool

    @property
    def found(self) -> bool:
        """An alert was about it."""
        return self.story is not None

    @property
    def on_time(self) -> bool:
        """The alert came soon enough."""
        return self.late_s is not None and self.late_s <= self.trouble.case.within_s


@dataclass(frozen=True, slots=True)
class Score:
    """One run. ``false_alarms`` are alerts about no trouble."""

    seed: int
    outcomes: tuple[Outcome, ...]
    false_alarms: tuple[Story, ...]


def score(seed: int, troubles: Sequence[Trouble], transitions: Iterable[Transition]) -> Score:
    """Match alerts to troubles: each to the one that began last before it, of those it may be about."""
    mine: list[list[Story]] = [[] for _ in troubles]
    left: list[Story] = []
    for story in stories_of(transitions):
        about = [number for number, trouble in enumerate(troubles) if _about(trouble, story)]
        last = max(about, key=lambda number: troubles[number].fault.from_ms, default=None)
        (left if last is None else mine[last]).append(story)
    pairs = [pair for pair in zip(troubles, mine, strict=True) if pair[0].case.cause is not None]
    return Score(seed, tuple(_outcome(trouble, stories) for trouble, stories in pairs), tuple(left))


def _about(trouble: Trouble, story: Story) -> bool:
    fault = trouble.fault
    in_time = fault.from_ms <= story.opened_ms <= fault.to_ms + trouble.case.settles_s * 1_000
    return in_time and bool(story.labels() & trouble.touched)


def _outcome(trouble: Trouble, mine: list[Story]) -> Outcome:
    if not mine:
        return Outcome(trouble, None, (), None, False, False)
    story = mine[0]
    by_ms = trouble.fault.to_ms + trouble.case.settles_s * 1_000
    return Outcome(
        trouble=trouble,
        story=story,
        doubles=tuple(mine[1:]),
        late_s=(story.opened_ms - trouble.fault.from_ms) / 1_000,
        cause_first=names(story.headlines()[-1], trouble),
        resolved=story.resolved_ms is not None and story.resolved_ms <= by_ms,
    )


def names(alert: Alert, trouble: Trouble) -> bool:
    """True when the alert names what was hit before anything else."""
    expected = (trouble.case.cause, trouble.value)
    return cause_of(alert) == expected or explained_by(alert) == expected


def cause_of(alert: Alert) -> tuple[str, str] | None:
    """The most specific label of the headline."""
    return next(((name, alert.labels[name]) for name in SPECIFIC if name in alert.labels), None)


def explained_by(alert: Alert) -> tuple[str, str] | None:
    """The dimension and value that explain most of the change; None where the alert does not say."""
    found: Any = alert.evidence.get("explained_by")
    if not found:
        return None
    first = found[0]
    return str(first["dimension"]), str(first["elements"][0]["value"])
