"""Alerts over a change of rules: what stands on the topic is what the job believes, from the last word it told on."""

from __future__ import annotations

import asyncio

import pytest

from schemas.contract.alerts import decode
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC, WINDOW_FINALS
from stream_jobs.alerts.changes import State
from stream_jobs.alerts.step import AlertStep
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Rule, RuleSet
from tests.unit.stream_jobs.alerts.cases import RULESET, at
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


async def _writes(step: AlertStep, records: list[Record]) -> tuple[list[int], State]:
    """Pieces of a snapshot by commit, and the state of the next owner."""
    scene = Scene(step, WINDOW_FINALS)
    owner, state, before, found = await scene.owner(step), scene.memory.log("state.alerts.window.finals"), 0, []
    for record in records:
        await owner.feed([scene.log.add(record)])
        await scene.pass_by(owner, 1)
        before, written = len(state.records), len(state.records) - before
        found += [written] if written else []
    return found, (await scene.owner(step))._state


def test_an_alert_between_windows_writes_of_the_snapshot_only_what_it_changed() -> None:
    """The head, and of the topology what the event added: the detector's and the evidence's pieces are referred to, and
    the next owner has the same state."""
    log = Log()
    log.rows(0, 0, {"e-0": 900}, through=1)
    for number in range(4):
        log.gpu_event("gpu_lost", f"g-{number}", at(1) + number)

    written, state = asyncio.run(_writes(WITH, log.records))

    undisturbed = WITH.new(WINDOW_FINALS, 0)
    WITH.fold(undisturbed, log.records, WITH.changes())
    whole = len(WITH.dump(undisturbed))
    assert written == [whole, *[2] * 4]
    assert whole == 7
    assert WITH.dump(state) == WITH.dump(undisturbed)


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
