"""Training jobs: their steps, and what GPUs and processors show of them.

A job trains adapters of a model that each rank holds whole; its ranks average what they learned every ``SYNC_STEPS``
steps (local SGD; Douillard et al., "DiLoCo", 2023). In between nobody waits, so a rank that is slow shows in its own
steps; at the end of each round the others wait for it, their GPUs busy with waiting. A job stops with its host or one
of its GPUs, and begins again at its last checkpoint. Each rank has its own randomness: trouble of one stirs no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetpulse.equipment import GPU_TYPES, MODELS
from lab.simulator.plan import PRECISION_BYTES, FleetPlan, TrainingPlan
from lab.simulator.wide import (
    EntityLabel,
    Of,
    Wide,
    WideColumn,
    completed,
    constant_label,
    entity_label,
    number,
    optional,
)
from schemas.events.event_types import TRAINING_STEPS

SYNC_STEPS, SYNC_US = 50, 400_000
CHECKPOINT_ROUNDS, CHECKPOINT_US = 20, 6_000_000
FLOPS_SHARE = 0.4
"""Of the peak in 16 bit; assumed, in the middle of what is reported for training (Jiang et al., "MegaScale", 2024)."""
OPERATIONS_PER_PARAMETER = 4.0
"""A token's: forward, and backward without the gradients of weights that stay as they are."""
JITTER, JITTER_MAX = 0.03, 0.1
SAMPLES, TOKENS = 8, 8_192
"""A step and rank."""
ROOM_BYTES = 24 * 1024**3
"""Activations, adapters and their optimizer beside the weights. Assumed."""
THREAD_BUSY = 0.6
"""Of a core: what loads batches and launches kernels for a rank that is well. Assumed."""
PRECISION = "bf16"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Row = tuple[int, int, int | None, int, int | None]
"""Rank, end of the step, end of the one before, its number, end of the latest checkpoint; times in microseconds."""


@dataclass(slots=True)
class _Rank:
    """``before_us``: end of the step before; None: this process had none. ``compute_us``: what of the step in hand,
    which lasts until ``computed_us``, its GPU computes."""

    random: np.random.Generator
    step_us: float
    number: int = 0
    begun_us: int = 0
    computed_us: int = 0
    before_us: int | None = None
    compute_us: float = 0.0

    def begin(self, at_us: int, slow: float) -> None:
        """A step begins."""
        self.compute_us = self.step_us * (
            1.0 + float(np.clip(self.random.normal(0.0, JITTER), -JITTER_MAX, JITTER_MAX))
        )
        self.begun_us, self.computed_us = at_us, at_us + round(self.compute_us * (1.0 + slow))

    @property
    def closes(self) -> bool:
        """Its step in hand is the last of a round."""
        return (self.number + 1) % SYNC_STEPS == 0

    def spent_us(self, from_us: int, to_us: int) -> tuple[float, float]:
        """Of ``[from_us, to_us)`` what the step in hand computed, and what it waited for the others then."""
        inside = max(min(self.computed_us, to_us) - max(self.begun_us, from_us), 0)
        computed = self.compute_us * inside / (self.computed_us - self.begun_us)
        return computed, float(max(to_us - max(self.computed_us, from_us), 0)) if self.closes else 0.0


class _Job:
    def __init__(self, plan: TrainingPlan, gpu_type: str, random: Sequence[np.random.Generator]) -> None:
        flops = GPU_TYPES[gpu_type].tflops_16_bit * 1e12 * FLOPS_SHARE
        step_us = OPERATIONS_PER_PARAMETER * MODELS[plan.model].parameters * TOKENS / flops * 1e6
        self._ranks = [_Rank(one, step_us) for one in random]
        self._runs, self._saved, self._saved_us = False, 0, None
        self.held_bytes = round(MODELS[plan.model].parameters * PRECISION_BYTES[PRECISION]) + ROOM_BYTES
        self.computed_us, self.waited_us = np.zeros(plan.ranks), np.zeros(plan.ranks)

    _saved_us: int | None

    def stop(self) -> None:
        """Its host or a GPU is gone."""
        self._runs = False
        self.computed_us[:] = self.waited_us[:] = 0.0

    def run(self, from_us: int, to_us: int, slow: Floats) -> Iterator[Row]:
        """The steps that end in ``[from_us, to_us)``, rank by rank between two meetings."""
        self.computed_us[:] = self.waited_us[:] = 0.0
        if not self._runs:
            self._runs = True
            for rank, level in zip(self._ranks, slow.tolist(), strict=True):
                rank.number, rank.before_us = self._saved, None
                rank.begin(from_us, level)
        while True:
            for index, rank in enumerate(self._ranks):
                while not rank.closes and rank.computed_us < to_us:
                    yield self._end(index, from_us, rank.computed_us, slow)
            met_us = self._met_us()
            if met_us is None or met_us >= to_us:
                break
            for index in range(len(self._ranks)):
                yield self._end(index, from_us, met_us, slow)
            if self._saves(self._ranks[0].number):
                self._saved, self._saved_us = self._ranks[0].number, met_us
        for index, rank in enumerate(self._ranks):
            self._book(index, rank.spent_us(from_us, to_us))

    def _met_us(self) -> int | None:
        """When all have finished their round; None while one has steps before its last."""
        if not all(rank.closes for rank in self._ranks):
            return None
        saves = self._saves(self._ranks[0].number + 1)
        return max(rank.computed_us for rank in self._ranks) + SYNC_US + CHECKPOINT_US * saves

    @staticmethod
    def _saves(steps: int) -> bool:
        return steps % (SYNC_STEPS * CHECKPOINT_ROUNDS) == 0

    def _end(self, index: int, from_us: int, at_us: int, slow: Floats) -> Row:
        rank = self._ranks[index]
        self._book(index, rank.spent_us(from_us, at_us))
        rank.number += 1
        row = (index, at_us, rank.before_us, rank.number, self._saved_us)
        rank.before_us = at_us
        rank.begin(at_us, float(slow[index]))
        return row

    def _book(self, index: int, spent_us: tuple[float, float]) -> None:
        self.computed_us[index] += spent_us[0]
        self.waited_us[index] += spent_us[1]


class Training:
    """All jobs of a plan; one row for each rank, job by job. ``computed_us`` and ``waited_us`` are of the interval that
    was run last, ``held_bytes`` at its end."""

    def __init__(self, plan: FleetPlan, random: np.random.Generator) -> None:
        hosts = {host.name: (index, host) for index, host in enumerate(plan.hosts)}
        first = np.cumsum([0, *(host.gpus for host in plan.hosts)])
        places = [(hosts[one.host][0], one.first_gpu + offset) for one in plan.training for offset in range(one.ranks)]
        self.host = np.array([host for host, _ in places], np.int64)
        self.gpu = np.array([first[host] + slot for host, slot in places], np.int64)
        self._hosts = len(plan.hosts)
        self._jobs = [_Job(one, hosts[one.host][1].gpu_type, random.spawn(one.ranks)) for one in plan.training]
        self._ends = np.cumsum([one.ranks for one in plan.training], dtype=np.int64)
        self._labels = _labels_of(plan, self.host.tolist())
        self.computed_us, self.waited_us = np.zeros(len(places)), np.zeros(len(places))
        self.held_bytes = np.zeros(len(places), np.int64)

    def run(self, from_ms: int, to_ms: int, slow: Floats, gone: npt.NDArray[np.bool_]) -> Wide | None:
        """The steps that end in ``[from_ms, to_ms)``; None where none do. By rank: ``slow``, the added share of the
        time of steps that begin now, and ``gone``, whether its GPU is lost or its host down."""
        rows: list[tuple[int, Row]] = []
        for job, end in zip(self._jobs, self._ends.tolist(), strict=True):
            mine = slice(end - len(job.computed_us), end)
            if gone[mine].any():
                job.stop()
            else:
                rows += ((mine.start, row) for row in job.run(from_ms * 1_000, to_ms * 1_000, slow[mine]))
            self.computed_us[mine], self.waited_us[mine] = job.computed_us, job.waited_us
            self.held_bytes[mine] = 0 if gone[mine].any() else job.held_bytes
        return self._wide(rows) if rows else None

    def _wide(self, rows: list[tuple[int, Row]]) -> Wide:
        rows.sort(key=lambda row: (self.host[row[0] + row[1][0]], row[1][1], row[0] + row[1][0]))
        entity = np.array([first + row[0] for first, row in rows], np.int64)
        end_us, step = (np.array([row[at] for _, row in rows], np.int64) for at in (1, 3))
        before_us, saved_us = (np.array([-1 if row[at] is None else row[at] for _, row in rows]) for at in (2, 4))
        values: dict[str, tuple[Ints, npt.NDArray[np.bool_] | None]] = {
            "at_ms": (end_us // 1_000, None),
            "step_us": (end_us - before_us, before_us >= 0),
            "loss_micro": (np.rint(1e6 * (0.6 + 2.0 / np.sqrt(1.0 + step / 500.0))).astype(np.int64), None),
            "checkpoint_age_ms": ((end_us - saved_us) // 1_000, saved_us >= 0),
            "samples": (np.full(len(entity), SAMPLES), None),
            "tokens": (np.full(len(entity), TOKENS), None),
            "step": (step, None),
        }
        given: dict[str, WideColumn] = {name: Of(label) for name, label in self._labels.items()}
        for name, (column, known) in values.items():
            dtype = TRAINING_STEPS.field(name).kind.numpy
            given[name] = number(column, dtype) if known is None else optional(column, known, dtype)
        given["origin"] = constant_label("simulated", len(entity))
        ends = np.cumsum(np.bincount(self.host[entity], minlength=self._hosts))
        return Wide(TRAINING_STEPS.topic, entity, ends, completed(TRAINING_STEPS, given, len(entity)))


def _labels_of(plan: FleetPlan, host: list[int]) -> dict[str, EntityLabel]:
    """As the SDK and its agent label steps: without engine and group."""
    of = {each.name: each for each in plan.hosts}
    rows = [
        {
            "cluster": of[one.host].cluster,
            "region": of[one.host].region,
            "host": one.host,
            "job": one.job,
            "rank": str(rank),
            "model": one.model,
        }
        for one in plan.training
        for rank in range(one.ranks)
    ]
    names = list(rows[0]) if rows else []
    return {name: entity_label([row[name] for row in rows], host, len(plan.hosts)) for name in names}
