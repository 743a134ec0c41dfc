"""A small fleet for tests: two hosts, three engines of two models, one GPU without an engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet, Step
from lab.simulator.load import Load, PoissonLoad, Share
from lab.simulator.plan import EnginePlan, FleetPlan, Habits, HostPlan
from tests.unit.lab.simulator.emitted import emissions

START_MS = 1_790_000_000_000
CHAT, CODE = "llama-3.1-8b-instruct", "qwen2.5-coder-7b-instruct"
HOSTS = (HostPlan("h-0", "eu-1", "eu-central", "H100", 3), HostPlan("h-1", "us-1", "us-east", "L40S", 2))
ENGINES = (
    EnginePlan("h-0/0", "h-0", CHAT, "llama@1", "fp8", 0, 2),
    EnginePlan("h-1/0", "h-1", CHAT, "llama@2", "fp8", 0),
    EnginePlan("h-1/1", "h-1", CODE, "qwen@1", "fp8", 1),
)


@pytest.fixture
def start_ms() -> int:
    return START_MS


@pytest.fixture
def small_plan() -> Callable[..., FleetPlan]:
    """A plan of the small fleet; faults, load and habits as told."""

    def build(
        *faults: Fault, load: Load | None = None, habits: Habits | None = None, host_samples: bool = True
    ) -> FleetPlan:
        poisson = PoissonLoad(12.0, (Share(CHAT, 2.0), Share(CODE, 1.0)))
        return FleetPlan(
            HOSTS, ENGINES, load or poisson, habits=habits or Habits(), faults=faults, host_samples=host_samples
        )

    return build


@pytest.fixture
def steps_of() -> Callable[[FleetPlan, int, int], list[Step]]:
    """The steps of the first seconds of a fleet."""

    def run(plan: FleetPlan, seed: int, seconds: int) -> list[Step]:
        return list(Fleet(plan, seed).steps(START_MS, START_MS + seconds * 1_000))

    return run


@pytest.fixture
def rows_by_topic() -> Callable[[list[Step]], dict[str, list[dict[str, object]]]]:
    """All events of some steps as dictionaries."""
    from schemas.codec.build import rows_of
    from schemas.events.event_types import BY_TOPIC

    def rows(steps: list[Step]) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {topic: [] for topic in BY_TOPIC}
        for step in steps:
            for emission in emissions(step):
                found[emission.topic] += rows_of(BY_TOPIC[emission.topic].fields, emission.block)
        return found

    return rows
