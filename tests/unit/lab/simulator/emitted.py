"""A step of the simulated fleet as records: one block per topic and host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.simulator.fleet import RECORD_ROWS_MAX, Step
from schemas.codec.block import Block

NOT_SIMULATED = frozenset({"training.steps", "custom.metrics"})
"""What applications report of themselves; the simulated fleet has none."""


@dataclass(frozen=True, slots=True)
class Emission:
    """One record's worth of events."""

    topic: str
    host: str
    block: Block


def emissions(step: Step, rows_max: int = RECORD_ROWS_MAX) -> Iterator[Emission]:
    """The step as records, topic by topic and host by host."""
    for wide in step.wides:
        for host, block in wide.blocks(rows_max):
            yield Emission(wide.topic, step.hosts[host], block)
