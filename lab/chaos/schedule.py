"""What is done to the pipeline and when: a seeded list, decided before anything runs.

Kills are spread evenly over the five parts and shuffled; between them the second worker comes and goes, and workers are
frozen (SIGSTOP) longer than a group session. Gaps are random, now and then almost nothing. In a cluster brokers and
shards freeze too, longer than a broker's session, and each blow at Kafka, ClickHouse or the jobs hits one of several.
There, too, all workers are restarted one by one, topics get more partitions, and a rebalance follows on another.
Every other kill of a part waits until it works: those between may hit one that is just starting.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    FREEZE_KAFKA = "broker freezes"
    FREEZE_CLICKHOUSE = "shard freezes"
    ROLL_WORKERS = "all workers restart one by one"
    GROW_TOPICS = "topics get more partitions"
    REBALANCE_STORM = "workers join and leave one after the other"


KILLS = (Blow.KILL_PRODUCER, Blow.KILL_JOB, Blow.KILL_SINK, Blow.KILL_KAFKA, Blow.KILL_CLICKHOUSE)
GAP_S = (0.2, 5.0)
FREEZE_S = (7.0, 12.0)
EXTRA_EVERY_KILLS = 5
FREEZE_NODE_S = (4.0, 9.0)
FREEZE_EVERY_STEPS = 4
UPHEAVALS = (Blow.ROLL_WORKERS, Blow.GROW_TOPICS, Blow.REBALANCE_STORM)
UPHEAVAL_EVERY_KILLS = 15
"""All three once for every so many kills, and once at least."""


@dataclass(frozen=True, slots=True)
class Step:
    """``blow`` happens ``gap_s`` seconds after the one before, to broker, shard or job ``node``; a freeze lasts
    ``lasts_s``. ``at_work``: it waits until the part works."""

    gap_s: float
    blow: Blow
    lasts_s: float = 0.0
    node: int = 1
    at_work: bool = False


def schedule(kills: int, seed: int, brokers: int = 1, shards: int = 1, jobs: int = 1) -> tuple[Step, ...]:
    """``kills`` kill -9 spread evenly over the five parts, with doubles and freezes between. Same seed, same list."""
    steps = _steps(kills, seed)
    if (brokers, shards) == (1, 1):
        return steps
    nodes = {Blow.KILL_KAFKA: brokers, Blow.KILL_CLICKHOUSE: shards, Blow.KILL_JOB: jobs, Blow.FREEZE_WORKER: jobs}
    struck = list(_of_cluster(steps, random.Random(f"{seed} nodes"), nodes))
    upheavals = UPHEAVALS * -(-kills // UPHEAVAL_EVERY_KILLS)
    every = len(struck) / (len(upheavals) + 1)
    random_ = random.Random(f"{seed} upheavals")
    for number, blow in reversed(list(enumerate(upheavals, 1))):
        struck.insert(round(number * every), Step(random_.uniform(*GAP_S), blow))
    return tuple(struck)


def _of_cluster(steps: Iterable[Step], random_: random.Random, nodes: Mapping[Blow, int]) -> Iterator[Step]:
    """The same, each on one of the nodes, and freezes of nodes between."""
    for index, step in enumerate(steps):
        yield replace(step, node=random_.randint(1, nodes.get(step.blow, 1)))
        if index % FREEZE_EVERY_STEPS == FREEZE_EVERY_STEPS - 1:
            is_broker = random_.random() < 0.5
            blow, like = (
                (Blow.FREEZE_KAFKA, Blow.KILL_KAFKA) if is_broker else (Blow.FREEZE_CLICKHOUSE, Blow.KILL_CLICKHOUSE)
            )
            lasts_s, gap_s = random_.uniform(*FREEZE_NODE_S), random_.uniform(*GAP_S)
            yield Step(gap_s, blow, lasts_s, random_.randint(1, nodes[like]))


def _steps(kills: int, seed: int) -> tuple[Step, ...]:
    random_ = random.Random(seed)
    blows = [KILLS[index % len(KILLS)] for index in range(kills)]
    random_.shuffle(blows)
    steps: list[Step] = []
    doubled = False
    for index, blow in enumerate(blows):
        steps.append(Step(random_.uniform(*GAP_S), blow, at_work=blows[:index].count(blow) % 2 == 0))
        if index % EXTRA_EVERY_KILLS == EXTRA_EVERY_KILLS - 1:
            extra = (
                Blow.FREEZE_WORKER if random_.random() < 0.4 else Blow.SINGLE_WORKER if doubled else Blow.DOUBLE_WORKER
            )
            doubled = {Blow.DOUBLE_WORKER: True, Blow.SINGLE_WORKER: False}.get(extra, doubled)
            lasts_s = random_.uniform(*FREEZE_S) if extra is Blow.FREEZE_WORKER else 0.0
            steps.append(Step(random_.uniform(*GAP_S), extra, lasts_s))
    return tuple(steps)
