"""Alerts over a change of rules: what stands on the topic is what the job believes, from the last word it told on."""

from __future__ import annotations

import asyncio

import pytest

from schemas.contract.alerts import decode
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC, WINDOW_FINALS
from stream_jobs.alerts.step import AlertStep
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Rule, RuleSet
from tests.unit.stream_jobs.alerts.cases import RULESET
from tests.unit.stream_jobs.alerts.log import QUICK, Detector, Evidence, Log
from tests.unit.stream_jobs.runner.memory_broker import Scene


class Obedient(Detector):
    """Says nothing where there is no rule for it."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        super().__init__(rules)
        self._is_ruled = bool(rules)

    def detect(self, window: Window) -> list[Finding]:
        return super().detect(window) if self._is_ruled else []


WITH = AlertStep(1, RULESET, Obedient, Evidence, QUICK)
WITHOUT = AlertStep(1, RuleSet(()), Obedient, Evidence, QUICK)


def windows(count: int, hot: range) -> list[Record]:
    log = Log()
    for window in range(count):
        log.rows(0, window, {"e-0": 900 if window in hot else 1}, through=window + 1)
    return log.records


async def _runs(scene: Scene, steps: list[AlertStep], records: list[list[Record]]) -> None:
    """One release after the other; each ends by a kill."""
    for step, share in zip(steps, records, strict=True):
        owner = await scene.owner(step)
        for record in share:
            await owner.feed([scene.log.add(record)])
            await scene.pass_by(owner, 1)
        await owner.commit()


def told(steps: list[AlertStep], hot: range, count: int = 120, cut: int = 8) -> list[tuple[str, int]]:
    """Transitions on the topic when the second release takes over after ``cut`` windows, and a third much later."""
    scene, log = Scene(steps[0], WINDOW_FINALS), windows(count, hot)
    asyncio.run(_runs(scene, [*steps, steps[-1]], [log[:cut], log[cut : count - 3], log[count - 3 :]]))
    alerts = [decode(record.value or b"") for record in scene.memory.log(ALERTS_TOPIC).records]
    return [(alert.transition, alert.number) for alert in alerts]


@pytest.mark.parametrize("hot", [range(1, 5), range(2, 20), range(5, 20), range(6, 20)])
def test_with_the_same_rules_a_takeover_shows_nowhere(hot: range) -> None:
    """Whatever was told before it, and wherever the last snapshot was."""
    assert told([WITH, WITH], hot) == [("opened", 1), ("resolved", 2)]


@pytest.mark.parametrize("hot", [range(2, 20), range(5, 20), range(6, 20)])
def test_what_was_opened_under_a_rule_that_is_no_more_is_resolved(hot: range) -> None:
    """Once, though the rule would not have opened it, and though no regular snapshot came after it was told."""
    assert told([WITH, WITHOUT], hot) == [("opened", 1), ("resolved", 2)]


@pytest.mark.parametrize("hot", [range(2, 20), range(5, 20), range(6, 20)])
def test_what_only_a_new_rule_sees_is_told(hot: range) -> None:
    """Also when it began before the takeover, in what had been read and of which nothing had been told."""
    assert told([WITHOUT, WITH], hot) == [("opened", 1), ("resolved", 2)]
