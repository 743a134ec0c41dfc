"""A training job in the fleet: its steps, what its GPUs and processes show, and what a slow rank changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet, Step
from lab.simulator.plan import FleetPlan, HostPlan, TrainingPlan
from lab.simulator.training import SYNC_STEPS
from schemas.errors import ConfigError

Rows = dict[str, list[dict[str, Any]]]
START_MS = 1_790_000_000_000
ON_MS, OFF_MS, SECONDS = START_MS + 20_000, START_MS + 80_000, 100
CHAT = "llama-3.1-8b-instruct"
JOB = TrainingPlan("adapters", "h-2", CHAT, 0, 3)
SLOW = "adapters:1"


@pytest.fixture
def plan(small_plan: Callable[..., FleetPlan]) -> Callable[..., FleetPlan]:
    """The small fleet with a job on a host of its own."""

    def build(*faults: Fault) -> FleetPlan:
        plan = small_plan(*faults)
        return replace(plan, hosts=(*plan.hosts, HostPlan("h-2", "eu-1", "eu-central", "H200", 4)), training=(JOB,))

    return build


@pytest.fixture
def run(
    plan: Callable[..., FleetPlan],
    steps_of: Callable[[FleetPlan, int, int], list[Step]],
    rows_by_topic: Callable[[list[Step]], Rows],
) -> Callable[..., Rows]:
    return lambda *faults: rows_by_topic(steps_of(plan(*faults), 9, SECONDS))


def of_rank(rows: Rows, rank: int, *, during: bool = True) -> list[dict[str, Any]]:
    """Steps of a rank but the last of each round, in which it waits for the others."""
    steps = [row for row in rows["training.steps"] if row["rank"] == str(rank) and row["step"] % SYNC_STEPS]
    return [row for row in steps if (ON_MS + 2_000 <= row["at_ms"] < OFF_MS) == during]


def test_every_rank_reports_each_step_once(run: Callable[..., Rows]) -> None:
    """Numbers without a gap, each step as long as the time between two ends; only a process's first is unknown."""
    rows = run()["training.steps"]

    for rank in ("0", "1", "2"):
        mine = [row for row in rows if row["rank"] == rank]
        assert [row["step"] for row in mine] == list(range(1, len(mine) + 1))
        assert mine[0]["step_us"] is None
        ends = [row["at_ms"] for row in mine]
        lengths = [row["step_us"] / 1_000 for row in mine[1:]]
        assert lengths == pytest.approx([b - a for a, b in pairwise(ends)], abs=1.01)
    assert {(r["job"], r["host"], r["cluster"], r["model"], r["engine_id"], r["placement_group"]) for r in rows} == {
        ("adapters", "h-2", "eu-1", CHAT, None, None)
    }


def test_ranks_meet_at_the_end_of_a_round(run: Callable[..., Rows]) -> None:
    """The last step of a round ends for all at one moment; the others each when they are done."""
    rows = run()["training.steps"]

    last = {row["at_ms"] for row in rows if row["step"] == SYNC_STEPS}
    before = {row["at_ms"] for row in rows if row["step"] == SYNC_STEPS - 1}
    assert (len(last), len(before)) == (1, 3)


def test_a_slow_rank_alone_has_slower_steps_and_the_others_wait(run: Callable[..., Rows]) -> None:
    """A fifth longer a step, its peers' as without it, until the round ends: there they wait for it."""
    healthy, ill = run(), run(Fault("training_straggler", "rank", SLOW, ON_MS, OFF_MS, 0.2))

    def typical(rows: Rows, rank: int, *, during: bool) -> float:
        return median(row["step_us"] for row in of_rank(rows, rank, during=during) if row["step_us"] is not None)

    assert typical(ill, 1, during=True) == pytest.approx(1.2 * typical(healthy, 1, during=True), rel=0.01)
    assert typical(ill, 1, during=False) == pytest.approx(typical(healthy, 1, during=False), rel=0.02)
    for rank in (0, 2):
        assert typical(ill, rank, during=True) == pytest.approx(typical(healthy, rank, during=True), rel=0.02)
    met = [
        next(r["step_us"] for r in rows["training.steps"] if (r["rank"], r["step"]) == ("0", SYNC_STEPS))
        for rows in (healthy, ill)
    ]
    assert met[1] > met[0] + 1_000_000


def test_gpu_and_processor_of_a_slow_rank_agree_with_its_steps(run: Callable[..., Rows]) -> None:
    """Its GPU computes and draws less in the same time, one core is saturated by its process and its host's; those of
    its peers are as they were before the first of them waits."""
    healthy, ill = run(), run(Fault("training_straggler", "rank", SLOW, ON_MS, OFF_MS, 1.0))
    uuids = [row["gpu_uuid"] for row in ill["gpu.samples"] if row["host"] == "h-2"][:3]
    until_ms = START_MS + 30_000

    def mean(rows: Rows, name: str, rank: int) -> float:
        mine = [
            r for r in rows["gpu.samples"] if r["gpu_uuid"] == uuids[rank] and ON_MS + 2_000 < r["at_ms"] <= until_ms
        ]
        return sum(row[name] for row in mine) / len(mine)

    def threads(rows: Rows) -> list[int]:
        """The busiest thread of each process of the host, and its busiest core, at a moment of the trouble."""
        mine = [r for r in rows["host.processes"] if (r["host"], r["at_ms"]) == ("h-2", until_ms)]
        core = [r for r in rows["host.samples"] if (r["host"], r["at_ms"]) == ("h-2", until_ms)]
        assert {(r["engine_id"], r["placement_group"], r["workload"]) for r in mine} == {(None, "h-2", "fine_tuning")}
        return [*(r["cpu_thread_max_ppm"] for r in mine), core[0]["cpu_core_busy_max_ppm"]]

    for name, share in (("util_gpu_pct", 0.5), ("sm_active_ppm", 0.5)):
        assert mean(ill, name, 1) == pytest.approx(share * mean(healthy, name, 1), rel=0.1)
    assert mean(ill, "power_mw", 1) < 0.75 * mean(healthy, "power_mw", 1)
    for rank in (0, 2):
        assert mean(ill, "util_gpu_pct", rank) == mean(healthy, "util_gpu_pct", rank)
    assert threads(healthy) == [600_000, 600_000, 600_000, 600_000]
    assert threads(ill) == [600_000, 1_000_000, 600_000, 1_000_000]
    assert {r["workload"] for r in ill["gpu.samples"] if r["gpu_uuid"] in uuids} == {"fine_tuning"}


def test_a_slow_rank_stirs_nothing_else(run: Callable[..., Rows]) -> None:
    """Requests, engines and GPUs of other hosts are the same with and without it, and with and without a job."""
    healthy, ill = run(), run(Fault("training_straggler", "rank", SLOW, ON_MS, OFF_MS, 1.0))

    assert [ill[topic] for topic in ("llm.requests", "engine.samples", "gpu.events")] == [
        healthy[topic] for topic in ("llm.requests", "engine.samples", "gpu.events")
    ]
    others = [[row for row in rows["gpu.samples"] if row["host"] != "h-2"] for rows in (healthy, ill)]
    assert others[0] == others[1]


def test_a_job_draws_from_randomness_of_its_own(
    plan: Callable[..., FleetPlan],
    steps_of: Callable[[FleetPlan, int, int], list[Step]],
    rows_by_topic: Callable[[list[Step]], Rows],
) -> None:
    """A fleet without a job emits what the same fleet with one does, but for its steps, GPUs and host."""
    alone = rows_by_topic(steps_of(replace(plan(), training=()), 9, 30))
    beside = rows_by_topic(steps_of(plan(), 9, 30))

    for topic in ("llm.requests", "engine.samples", "gpu.samples", "host.samples"):
        mine = [[row for row in rows[topic] if row["host"] != "h-2"] for rows in (alone, beside)]
        assert mine[0] == mine[1] != []
    assert [row["gpu_uuid"] for row in alone["gpu.samples"]] == [row["gpu_uuid"] for row in beside["gpu.samples"]]


@pytest.mark.parametrize(("kind", "field", "value"), [("host_down", "host", "h-2"), ("gpu_lost", "gpu", "h-2:2")])
def test_a_job_stops_with_its_host_or_gpu_and_begins_again(
    run: Callable[..., Rows], kind: str, field: str, value: str
) -> None:
    """No step while it is gone; then each rank begins at the first, whose length nobody knows."""
    rows = run(Fault(kind, field, value, ON_MS, OFF_MS))["training.steps"]

    assert not [row for row in rows if ON_MS <= row["at_ms"] < OFF_MS]
    again = [row for row in rows if row["at_ms"] >= OFF_MS]
    assert sorted((row["rank"], row["step_us"]) for row in again if row["step"] == 1) == [
        ("0", None), ("1", None), ("2", None)
    ]  # fmt: skip


def test_a_checkpoint_makes_all_wait_and_is_where_a_job_begins_again(
    plan: Callable[..., FleetPlan], rows_by_topic: Callable[[list[Step]], Rows]
) -> None:
    """Every twentieth round ends with one: its age counts from there on, unknown before; a restart goes back to it."""
    down = Fault("host_down", "host", "h-2", START_MS + 800_000, START_MS + 820_000)
    fleet = Fleet(replace(plan(down), host_samples=False), 9)
    rows = rows_by_topic(list(fleet.steps(START_MS, START_MS + 840_000, 5_000)))["training.steps"]

    (saved_ms,) = {row["at_ms"] for row in rows if row["step"] == 20 * SYNC_STEPS}
    ages = [(row["at_ms"], row["checkpoint_age_ms"]) for row in rows]
    assert {age for at_ms, age in ages if at_ms <= saved_ms} == {None}
    assert all(age == pytest.approx(at_ms - saved_ms, abs=1) for at_ms, age in ages if at_ms > saved_ms)
    assert min(row["step"] for row in rows if row["at_ms"] > START_MS + 820_000) == 20 * SYNC_STEPS + 1


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (TrainingPlan("a", "h-9", CHAT, 0, 1), "training.host"),
        (TrainingPlan("a", "h-0", "gpt", 2, 1), "training.model"),
        (TrainingPlan("a", "h-0", CHAT, 1, 1), "training.first_gpu"),
        (TrainingPlan("a", "h-0", CHAT, 2, 2), "training.first_gpu"),
        (TrainingPlan("a", "h-0", CHAT, 2, 0), "training.first_gpu"),
    ],
)
def test_a_job_needs_free_gpus_of_a_host(small_plan: Callable[..., FleetPlan], job: TrainingPlan, key: str) -> None:
    """What cannot be meant is refused by its key."""
    with pytest.raises(ConfigError) as raised:
        replace(small_plan(), training=(job,))

    assert raised.value.key == key


def test_a_job_has_a_name_of_its_own(plan: Callable[..., FleetPlan]) -> None:
    """Two of one name would be one group of ranks."""
    with pytest.raises(ConfigError, match="each job once"):
        replace(plan(), training=(JOB, replace(JOB, first_gpu=3, ranks=1)))
