"""Engines side by side on a GPU: who is told under which labels, what each holds, and that it adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetpulse.equipment import GPU_TYPES, RUNTIME_BYTES
from lab.simulator.faults import Fault
from lab.simulator.fleet import Step
from lab.simulator.gpus import gpus_of, groups_of
from lab.simulator.plan import FleetPlan, mixed_plan, side_by_side
from schemas.errors import ConfigError
from tests.unit.lab.conftest import CHAT, CODE, START_MS

MODELS = ((CHAT, "llama@3", "fp8"), (CODE, "qwen@2", "fp8"))
Plan = Callable[..., FleetPlan]
Steps = Callable[[FleetPlan, int, int], list[Step]]
Rows = dict[str, list[dict[str, Any]]]


def shared(plan: FleetPlan) -> FleetPlan:
    """The small fleet with two more engines on the GPU of its first host that was idle."""
    first = [engine for engine in plan.engines if engine.host == "h-0"]
    rest = [engine for engine in plan.engines if engine.host != "h-0"]
    return replace(plan, engines=(*first, *side_by_side("h-0", 2, len(first), MODELS), *rest))


@pytest.fixture
def told(small_plan: Plan, steps_of: Steps, rows_by_topic: Callable[[list[Step]], Rows]) -> Rows:
    return rows_by_topic(steps_of(shared(small_plan()), 1, 30))


def test_the_gpu_names_no_engine_and_all_have_one_group(told: Rows) -> None:
    """In samples, requests and processes, named as the agent names it; other groups are engines."""
    group = "h-0/1+h-0/2"
    gpus = {(row["engine_id"], row["placement_group"]) for row in told["gpu.samples"] if row["host"] == "h-0"}
    engines = {row["engine_id"]: row["placement_group"] for row in told["llm.requests"] if row["host"] == "h-0"}

    assert gpus == {("h-0/0", "h-0/0"), (None, group)}
    assert engines == {"h-0/0": "h-0/0", "h-0/1": group, "h-0/2": group}
    assert {(row["engine_id"], row["placement_group"]) for row in told["gpu.processes"]} == {
        ("h-0/1", group),
        ("h-0/2", group),
    }


def test_processes_are_told_every_ten_seconds_and_their_memory_is_the_gpus(told: Rows) -> None:
    """What each holds adds up to what the GPU says is used at that moment."""
    by_moment: dict[int, list[dict[str, Any]]] = {}
    for row in told["gpu.processes"]:
        by_moment.setdefault(row["at_ms"], []).append(row)
    (uuid,) = {row["gpu_uuid"] for row in told["gpu.processes"]}
    used = {row["at_ms"]: row["memory_used_bytes"] for row in told["gpu.samples"] if row["gpu_uuid"] == uuid}

    assert [at_ms - START_MS for at_ms in sorted(by_moment)] == [10_000, 20_000, 30_000]
    for at_ms, rows in by_moment.items():
        assert sum(row["memory_bytes"] for row in rows) == used[at_ms]
        assert all(RUNTIME_BYTES < row["memory_bytes"] < GPU_TYPES["H100"].memory_bytes / 2 for row in rows)
    assert any(row["sm_util_pct"] > 0 for row in told["gpu.processes"])


def test_a_gpu_that_is_lost_stops_all_engines_on_it(
    small_plan: Plan, steps_of: Steps, rows_by_topic: Callable[[list[Step]], Rows]
) -> None:
    """No process is told then, and no reading of either engine."""
    lost = Fault("gpu_lost", "gpu", "h-0:2", START_MS, START_MS + 60_000, 1.0)
    found = rows_by_topic(steps_of(shared(small_plan(lost)), 1, 20))

    assert found["gpu.processes"] == []
    assert {row["engine_id"] for row in found["engine.samples"] if row["host"] == "h-0"} == {"h-0/0"}


def test_without_shared_gpus_there_are_no_processes(
    small_plan: Plan, steps_of: Steps, rows_by_topic: Callable[[list[Step]], Rows]
) -> None:
    """And every engine is its own group."""
    plan = small_plan()

    assert rows_by_topic(steps_of(plan, 1, 20))["gpu.processes"] == []
    assert groups_of(plan) == [engine.engine_id for engine in plan.engines]
    assert len(gpus_of(plan, np.random.default_rng(1)).sharing) == 0


def test_the_mixed_fleet_may_have_a_host_more_with_a_shared_gpu(small_plan: Plan) -> None:
    """Others keep their engines; without the knob nothing changes."""
    load = small_plan().load
    plain, more = mixed_plan(2, load), mixed_plan(2, load, shared_gpu=True)

    assert (more.hosts[:2], more.gpus) == (plain.hosts, plain.gpus + 1)
    assert more.engines[: len(plain.engines)] == plain.engines
    assert [(one.engine_id, one.first_gpu, one.gpu_share) for one in more.engines[len(plain.engines) :]] == [
        ("gpu-002/0", 0, 0.5),
        ("gpu-002/1", 0, 0.5),
    ]


@pytest.mark.parametrize(
    ("shares", "key"),
    [((0.5, 0.6), "first_gpu"), ((0.0, 0.5), "gpu_share"), ((1.1,), "gpu_share")],
    ids=["more than there is", "nothing", "more than a GPU"],
)
def test_shares_that_cannot_be_are_refused(small_plan: Plan, shares: tuple[float, ...], key: str) -> None:
    """Named by the key that is wrong."""
    plan = small_plan()
    both = side_by_side("h-0", 2, 1, MODELS)
    engines = [replace(engine, gpu_share=share) for engine, share in zip(both, shares, strict=False)]

    with pytest.raises(ConfigError, match=key):
        replace(plan, engines=(plan.engines[0], *engines, *plan.engines[1:]))
