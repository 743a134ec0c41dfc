"""The day of a seed: every fault once, apart from one another, in reach of what the alert must name."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lab.evaluate.scenario import ALONE, BEGIN_MS, HOSTS, JOB, STEP_MS, engines, scenario
from lab.evaluate.table import BESIDE, BY_NAME, CASES, REST_S, WARM_UP_S
from lab.simulator.entities import next_version
from lab.simulator.faults import KINDS
from schemas.errors import ConfigError


def test_every_kind_of_fault_has_its_case() -> None:
    """Nothing that the fleet can suffer is left out of the table."""
    assert {case.fault for case in CASES} == set(KINDS)
    assert len(BY_NAME) == len(CASES)
    assert all(case.within_s > 0 for case in CASES if case.cause is not None)


def test_a_seed_decides_the_day() -> None:
    """The same seed gives the same faults, another one others."""
    one, again, other = scenario(3), scenario(3), scenario(4)

    assert one.plan.faults == again.plan.faults
    assert [trouble.value for trouble in one.troubles] == [trouble.value for trouble in again.troubles]
    assert one.plan.faults != other.plan.faults


@pytest.mark.parametrize("seed", [1, 2, 17])
def test_faults_stand_apart(seed: int) -> None:
    """All cases but those beside, after the warm-up, on whole steps, with a rest between, done before the day is."""
    day = scenario(seed)

    serial = [trouble for trouble in day.troubles if trouble.case.name not in BESIDE]
    faults = [trouble.fault for trouble in serial]
    assert sorted(trouble.case.name for trouble in day.troubles) == sorted(BY_NAME)
    assert faults[0].from_ms >= BEGIN_MS + WARM_UP_S * 1_000
    for before, later in pairwise(serial):
        rest_ms = (before.case.settles_s + REST_S) * 1_000
        assert later.fault.from_ms - before.fault.to_ms >= rest_ms - STEP_MS
    assert all((fault.from_ms - BEGIN_MS) % STEP_MS == 0 for fault in faults)
    assert faults[-1].to_ms + REST_S * 1_000 <= day.end_ms + STEP_MS


@pytest.mark.parametrize("seed", [1, 2, 17])
def test_a_case_beside_the_others_changes_none_of_them(seed: int) -> None:
    """Kinds, places and times of all others are drawn as if it were not there, and it shares its host with none."""
    cases = [case for case in CASES if case.name not in BESIDE]
    without, day = scenario(seed, cases=cases), scenario(seed)

    (beside,) = day.troubles[len(cases) :]
    assert (day.troubles[: len(cases)], day.plan.faults[: len(cases)]) == (without.troubles, without.plan.faults)
    assert beside.fault.value == f"{JOB.job}:{beside.value}"
    assert (beside.fault.from_ms - BEGIN_MS) % STEP_MS == 0
    assert beside.fault.from_ms >= BEGIN_MS + WARM_UP_S * 1_000
    assert beside.fault.to_ms + (beside.case.settles_s + REST_S) * 1_000 <= day.end_ms
    near = [trouble for trouble in without.troubles if ("host", JOB.host) in trouble.touched]
    assert near
    for other in near:
        first, second = sorted((beside, other), key=lambda trouble: trouble.fault.from_ms)
        assert second.fault.from_ms >= first.fault.to_ms + (first.case.settles_s + REST_S) * 1_000


def test_a_day_without_room_beside_the_others_is_refused() -> None:
    """Nothing is set where its alert could be another's."""
    with pytest.raises(ConfigError, match="leave no time at which training_straggler stands apart"):
        scenario(1, hours=2.5, cases=[BY_NAME["training_straggler"]])


def test_trouble_of_a_gpu_shows_in_what_stands_on_it() -> None:
    """The GPU itself, its group, its engine, its model and its host, and nothing of another host."""
    day = scenario(1, cases=[BY_NAME["straggler"]])
    (trouble,) = day.troubles
    host = trouble.fault.value.split(":")[0]
    engine = next(e for e in engines() if e.host == host and e.tensor_parallel == 4)

    assert trouble.case.cause == "gpu_uuid"
    assert ("gpu_uuid", trouble.value) in trouble.touched
    assert len([1 for name, _ in trouble.touched if name == "gpu_uuid"]) == 4
    assert {("engine_id", engine.engine_id), ("model", engine.model), ("host", host)} <= trouble.touched
    assert {value for name, value in trouble.touched if name == "host"} == {host}


def test_a_deployment_is_named_by_its_new_version() -> None:
    """On all engines of a model that has one version; the old one is not what the alert must name."""
    (trouble,) = scenario(1, cases=[BY_NAME["deployment"]]).troubles
    hit = [engine for engine in engines() if engine.model == trouble.fault.value]

    assert len({engine.host for engine in hit}) == 2
    assert {next_version(engine.model_version) for engine in hit} == {trouble.value}
    assert {("model_version", trouble.value), ("model", trouble.fault.value)} <= trouble.touched
    assert {value for name, value in trouble.touched if name == "engine_id"} == {engine.engine_id for engine in hit}


def test_a_healthy_case_touches_nothing() -> None:
    """Whatever opens while it lasts is a false alarm."""
    (trouble,) = scenario(1, cases=[BY_NAME["traffic_surge"]]).troubles

    assert (trouble.value, trouble.touched) == ("", frozenset())


def test_a_day_that_is_too_short_is_refused() -> None:
    """The text says how long it must be."""
    with pytest.raises(ConfigError, match="must be at least 2"):
        scenario(1, hours=1.0, cases=[BY_NAME["host_down"]])


def test_every_model_has_a_second_engine_elsewhere() -> None:
    """So that a lost host moves load and refuses none; one model is alone, so that its cold start is felt."""
    for model in {engine.model for engine in engines()} - {ALONE}:
        assert len({engine.host for engine in engines() if engine.model == model}) >= 2
    assert {engine.host for engine in engines()} == {host.name for host in HOSTS}
