"""A GPU that idles while requests wait, and what is likely in its way."""

from __future__ import annotations

import numpy as np
import pytest

from stream_jobs.insight.detectors.starved import Starved
from stream_jobs.insight.firing import SILENT, SILENT_MS
from tests.unit.stream_jobs.insight.detectors.cases import WINDOW_MS, ended, frame, rule

RULE = rule("starved", "waiting", "cpu", "pcie", below=0.3, leave=0.5, waiting_above=4, cpu_above=0.9, pcie_above=2e10)


@pytest.mark.parametrize(
    ("value", "waiting", "beyond", "within"),
    [
        (0.1, 10, True, False),
        (0.3, 10, False, False),
        (0.1, 4, False, True),
        (0.4, 10, False, False),
        (0.5, 10, False, True),
        (np.nan, 10, False, False),
        (0.1, np.nan, False, False),
        (np.nan, 0, False, True),
    ],
    ids=["idle", "on the level", "few wait", "between", "busy again", "unknown", "queue unknown", "nobody waits"],
)
def test_fires_when_idle_and_requests_wait(value: float, waiting: float, beyond: bool, within: bool) -> None:
    """Both must be known; nobody waiting is well whatever the GPU does."""
    said = Starved(RULE).detect(frame(0, {"value": [value], "waiting": [waiting], "cpu": [0.5], "pcie": [0]}))

    assert (said.beyond.tolist(), said.within.tolist()) == ([beyond], [within])


def test_while_the_queue_is_unknown_it_is_not_judged_and_clears() -> None:
    """An idle GPU alone is no reason to go on; a busy one is well."""
    idle = [frame(number, {"value": [0.1], "waiting": [np.nan], "cpu": [0.5], "pcie": [0]}) for number in range(40)]
    busy = [frame(number, {"value": [0.9], "waiting": [np.nan], "cpu": [0.5], "pcie": [0]}) for number in range(40)]

    assert ended(Starved(RULE), idle) == (SILENT_MS // WINDOW_MS, SILENT)
    assert ended(Starved(RULE), busy) == (3, "")


@pytest.mark.parametrize(
    ("cpu", "pcie", "note"),
    [
        (0.95, 3e10, "likely cause: CPU or tokenisation"),
        (0.5, 3e10, "likely cause: PCIe transfers"),
        (0.5, 0, "likely cause: batching (neither CPU nor PCIe is busy)"),
        (np.nan, 0, "likely cause: batching (neither CPU nor PCIe is busy)"),
        (np.nan, np.nan, "requests wait while the GPU idles"),
    ],
)
def test_names_the_likely_cause(cpu: float, pcie: float, note: str) -> None:
    """Processors first, then PCIe, then batching; nothing where nothing is known."""
    said = Starved(RULE).detect(frame(0, {"value": [0.1], "waiting": [9], "cpu": [cpu], "pcie": [pcie]}))

    assert said.note is not None
    assert said.notes[said.note[0]] == note


@pytest.mark.parametrize(
    ("thread", "core", "note"),
    [
        (0.97, 0.2, "likely cause: one thread of the engine is saturated (tokenisation or scheduling)"),
        (0.6, 0.97, "likely cause: one core of the host is saturated (tokenisation or scheduling?)"),
        (np.nan, 0.97, "likely cause: one core of the host is saturated (tokenisation or scheduling?)"),
        (0.6, 0.6, "likely cause: CPU or tokenisation"),
    ],
)
def test_one_saturated_core_is_named_before_the_mean_of_all(thread: float, core: float, note: str) -> None:
    """The engine's own thread first, whatever the host's mean says."""
    one = rule(
        "starved", "waiting", "thread", "core", "cpu", below=0.3, thread_above=0.9, core_above=0.9, cpu_above=0.9
    )
    values = {"value": [0.1], "waiting": [9], "thread": [thread], "core": [core], "cpu": [0.95]}

    said = Starved(one).detect(frame(0, values))

    assert said.note is not None
    assert said.notes[said.note[0]] == note


def test_works_without_further_measures() -> None:
    """Measures and levels of causes are optional; the leaving level is the entering one."""
    detector = Starved(rule("starved", "waiting", below=0.3))

    said = detector.detect(frame(0, {"value": [0.1, 0.31], "waiting": [2, 2]}))

    assert (said.beyond.tolist(), said.within.tolist()) == ([True, False], [False, True])
    assert said.note is not None
    assert [said.notes[code] for code in said.note] == ["requests wait while the GPU idles", ""]
    assert detector.dump() == {}
