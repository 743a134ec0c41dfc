"""What is done to the pipeline and when: a seeded list, decided before anything runs.

Kills are spread evenly over the five parts and shuffled; between them the second worker comes and goes, and workers are
frozen (SIGSTOP) longer than a group session. Gaps are random, now and then almost nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum


class Blow(Enum):
    """One thing that goes wrong. The first five are kill -9."""

    KILL_PRODUCER = "kill producer"
    KILL_JOB = "kill job"
    KILL_SINK = "kill sink"
    KILL_KAFKA = "kill kafka"
    KILL_CLICKHOUSE = "kill clickhouse"
    DOUBLE_WORKER = "second worker joins"
    SINGLE_WORKER = "second worker is killed"
    FREEZE_WORKER = "worker freezes and wakes as a zombie"


KILLS = (Blow.KILL_PRODUCER, Blow.KILL_JOB, Blow.KILL_SINK, Blow.KILL_KAFKA, Blow.KILL_CLICKHOUSE)
GAP_S = (0.2, 5.0)
FREEZE_S = (7.0, 12.0)
EXTRA_EVERY_KILLS = 5


@dataclass(frozen=True, slots=True)
class Step:
    """``blow`` happens ``gap_s`` seconds after the one before; a freeze lasts ``lasts_s``."""

    gap_s: float
    blow: Blow
    lasts_s: float = 0.0


def schedule(kills: int, seed: int) -> tuple[Step, ...]:
    """``kills`` kill -9 spread evenly over the five parts, with doubles and freezes between. Same seed, same list."""
    random_ = random.Random(seed)
    blows = [KILLS[index % len(KILLS)] for index in range(kills)]
    random_.shuffle(blows)
    steps: list[Step] = []
    doubled = False
    for index, blow in enumerate(blows):
        steps.append(Step(random_.uniform(*GAP_S), blow))
        if index % EXTRA_EVERY_KILLS == EXTRA_EVERY_KILLS - 1:
            extra = (
                Blow.FREEZE_WORKER if random_.random() < 0.4 else Blow.SINGLE_WORKER if doubled else Blow.DOUBLE_WORKER
            )
            doubled = {Blow.DOUBLE_WORKER: True, Blow.SINGLE_WORKER: False}.get(extra, doubled)
            lasts_s = random_.uniform(*FREEZE_S) if extra is Blow.FREEZE_WORKER else 0.0
            steps.append(Step(random_.uniform(*GAP_S), extra, lasts_s))
    return tuple(steps)
