"""The first yardstick: a bare ``orjson.loads`` loop over the same events as columnar JSON.

Machines change their speed by a factor of two within an hour; a number beside this loop, from the same run, is a ratio
that survives that.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from statistics import median

import orjson

from lab.bench.workload import Workload
from schemas.codec import wire
from schemas.contract.headers import JSON_COLUMNS
from schemas.events.event_types import BY_TOPIC

_EVENTS_MIN = 60_000
_TIMES = 7


@dataclass(frozen=True, slots=True)
class Calibration:
    """Events, records and bytes looped over, and the median CPU time per event."""

    events: int
    records: int
    json_bytes: int
    us_per_event: float


def sample(workload: Workload, from_ms: int) -> tuple[list[bytes], int]:
    """Records of the workload as columnar JSON, whole seconds of it, and how many events they hold."""
    texts: list[bytes] = []
    events = 0
    for step in workload.steps(from_ms, workload.profile.seconds):
        for emission in step:
            texts.append(wire.encode(JSON_COLUMNS, BY_TOPIC[emission.topic].fields, emission.block))
            events += emission.block.rows
        if events >= _EVENTS_MIN:
            break
    return texts, events


def calibrate(texts: list[bytes], events: int, core: int) -> Calibration:
    """Loop over the records on one core, several times."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        taken_s = [_loop(texts) for _ in range(_TIMES)]
    finally:
        os.sched_setaffinity(0, before)
    return Calibration(events, len(texts), sum(map(len, texts)), 1e6 * median(taken_s) / events)


def _loop(texts: list[bytes]) -> float:
    begun_s = time.thread_time()
    for text in texts:
        orjson.loads(text)
    return time.thread_time() - begun_s
