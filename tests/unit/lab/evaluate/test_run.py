"""Small fleets through the real steps on a virtual clock: faults found in time, both paths alike, nothing else told.

Covers lab.evaluate.shortcut.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer

from fleetpulse.cli import app
from lab.evaluate.command import seeds_of
from lab.evaluate.pipeline import Spent, block_of, records_of
from lab.evaluate.report import Report
from lab.evaluate.run import Options, case_of, chosen, run, run_seed, short_path, whole_path
from lab.evaluate.scenario import BEGIN_MS, CHAT, Scenario, Trouble
from lab.evaluate.table import BY_NAME
from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet
from lab.simulator.load import PoissonLoad, Share
from lab.simulator.plan import EnginePlan, FleetPlan, HostPlan
from schemas.codec import native
from schemas.errors import ConfigError
from schemas.events.event_types import GPU_SAMPLES, LLM_REQUESTS

MINUTE_MS = 60_000


def a_day(minutes: float, *cases: tuple[str, float, float]) -> Scenario:
    """One host, two engines of one model; cases as (name, begin, end) in minutes, on the first engine's GPU."""
    host = HostPlan("h", "c", "r", "H100", 2)
    engines = tuple(EnginePlan(f"h/{slot}", "h", CHAT, "chat@1", "bf16", slot) for slot in range(2))
    load = PoissonLoad(4.0, (Share(CHAT, 1.0),))
    uuid = Fleet(FleetPlan((host,), engines, load), 5).gpu_uuids[0]
    touched = frozenset({("gpu_uuid", uuid), ("engine_id", "h/0"), ("host", "h"), ("model", CHAT)})
    troubles = []
    for name, begin, end in cases:
        case = BY_NAME[name]
        times = (BEGIN_MS + round(begin * MINUTE_MS), BEGIN_MS + round(end * MINUTE_MS))
        troubles.append(Trouble(case, Fault(case.fault, "gpu", "h:0", *times, case.strength), uuid, touched))
    plan = FleetPlan((host,), engines, load, faults=tuple(trouble.fault for trouble in troubles), host_samples=True)
    return Scenario(5, BEGIN_MS, BEGIN_MS + round(minutes * MINUTE_MS), plan, tuple(troubles))


def test_two_faults_make_two_alerts() -> None:
    """Each found within its bound, the GPU named first, one alert each, resolved; nothing else is told."""
    ran = run(a_day(13, ("gpu_lost", 1, 3), ("thermal_throttle", 7, 8.5)))

    lost, throttled = ran.score.outcomes
    report = Report((ran.score,))
    assert (lost.late_s, lost.cause_first, lost.resolved, lost.doubles) == (0.0, True, True, ())
    assert throttled.late_s is not None
    assert throttled.late_s <= 20
    assert (throttled.cause_first, throttled.resolved, throttled.doubles) == (True, True, ())
    assert ran.score.false_alarms == ()
    assert report.holds
    assert set(ran.spent_s) == {"fleet", "windows", "alerts"}


def test_both_paths_tell_the_same() -> None:
    """Through every job and codec, and without the wire: the same transitions but for the requests in the evidence."""
    day = a_day(4, ("gpu_lost", 1, 2))

    whole = [one.alert for one in whole_path(day, None, Spent())]
    short = [one.alert for one in short_path(day, None, Spent())]

    assert whole[0].transition == "opened"
    assert [(one.transition_id, one.rule, one.labels, one.members, one.at_ms) for one in whole] == [
        (one.transition_id, one.rule, one.labels, one.members, one.at_ms) for one in short
    ]


COMPARED = """
rules:
  - name: slower
    kind: regression
    metric: p50(tpot_us)
    by: [model, model_version]
    for: 3
    clear_after: 3
    min_count: 10
    severity: warning
    summary: "{model} is slower since version {model_version} on {hosts}"
    options: {min_relative: 15%}
"""


def test_a_deployment_that_slows_is_told_by_version_and_hosts(tmp_path: Path) -> None:
    """A fifth slower on both engines of a host: told two windows after the 200 requests that are asked for (50 s), over
    once it is taken back."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(COMPARED)
    begin_ms, end_ms = BEGIN_MS + 6 * MINUTE_MS, BEGIN_MS + 9 * MINUTE_MS
    day = a_day(15)
    deployed = replace(day.plan, faults=(Fault("deployment", "model", CHAT, begin_ms, end_ms, 0.2),))

    told = [one.alert for one in run(replace(day, plan=deployed), Options(rules=rules)).transitions]

    assert [one.transition for one in told] == ["opened", "resolved"]
    assert {one.summary for one in told} == {f"{CHAT} is slower since version chat@1-next on 1 host"}
    assert told[0].labels["model_version"] == "chat@1-next"
    assert begin_ms < told[0].opened_ms <= begin_ms + 70_000
    assert end_ms < (told[1].resolved_ms or 0) <= end_ms + 3 * MINUTE_MS


@pytest.mark.parametrize(
    ("kind", "precision", "rule"),
    [("starved", "bf16", "gpu_starved_by_core"), ("slow_kernels", "fp8", "tensor_cores_idle")],
)
def test_what_slows_an_engine_from_within_is_named(kind: str, precision: str, rule: str) -> None:
    """The alert holds the rule that tells why, whatever else shows it."""
    begin_ms, end_ms = BEGIN_MS + 2 * MINUTE_MS, BEGIN_MS + 8 * MINUTE_MS
    fault = Fault(kind, "engine_id", "h/0", begin_ms, end_ms, 0.95)
    host, engine = HostPlan("h", "c", "r", "H100", 1), EnginePlan("h/0", "h", CHAT, "chat@1", precision, 0)
    load = PoissonLoad(4.0, (Share(CHAT, 1.0),))
    plan = FleetPlan((host,), (engine,), load, faults=(fault,), host_samples=True)

    told = [one.alert for one in short_path(Scenario(5, BEGIN_MS, end_ms, plan, ()), None, Spent())]

    assert rule in {alert.rule for alert in told} | {one.rule for alert in told for one in alert.members}


def test_a_quiet_seed_holds() -> None:
    """No fault, no alert; times are those that were asked for."""
    ran = run(a_day(2))

    assert (ran.transitions, ran.score.outcomes, Report((ran.score,)).holds) == ((), (), True)


def test_records_carry_every_event_of_a_batch() -> None:
    """Rows of all hosts and steps in one record, and cut where a record would hold too many."""
    steps = list(a_day(1).fleet().steps(BEGIN_MS, BEGIN_MS + 30_000, 1_000))
    samples = [wide for step in steps for wide in step.wides if wide.topic == "gpu.samples"]

    (record,) = records_of("gpu.samples", samples)
    many = list(records_of("gpu.samples", samples * 20))

    decoded = native.decode(record[0], GPU_SAMPLES.fields)
    assert decoded.rows == sum(block_of(wide).rows for wide in samples) == 60
    assert dict(record[1])["count"] == b"60"
    assert [native.decode(value, GPU_SAMPLES.fields).rows for value, _ in many] == [1_000, 200]
    assert LLM_REQUESTS.topic in {wide.topic for step in steps for wide in step.wides}


@pytest.mark.parametrize(
    ("text", "expected"), [(None, [9]), ("1-3", [1, 2, 3]), ("4,7", [4, 7]), ("1-2, 5", [1, 2, 5]), ("0", [0])]
)
def test_seeds_are_numbers_and_ranges(text: str | None, expected: list[int]) -> None:
    """One seed where none are given."""
    assert seeds_of(9, text) == expected


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-3", "1,,2"])
def test_wrong_seeds_are_refused(text: str) -> None:
    """The text says what they must be."""
    with pytest.raises(ConfigError, match="must be numbers or ranges"):
        seeds_of(9, text)


@pytest.mark.parametrize(
    ("options", "hours"),
    [
        (Options(), 24),
        (Options(hours=30), 30),
        (Options(healthy="thousand"), 24),
        (Options(healthy="azure"), 6),
        (Options(healthy="azure", hours=24), 24),
    ],
)
def test_a_day_is_as_long_as_it_was_asked_for(options: Options, hours: int) -> None:
    """A healthy one too; else as long as such a day is."""
    case = case_of(1, options)

    assert case.end_ms - case.begin_ms == hours * 60 * MINUTE_MS


@pytest.mark.parametrize("more", [["--hours", "6"], ["--faults", "gpu_lost"], ["--healthy", "azure"], ["--whole"]])
def test_days_of_budgets_take_no_other_shape(more: list[str]) -> None:
    """What would be passed over is refused."""
    with pytest.raises(ConfigError, match="goes with --seed, --seeds"):
        typer.main.get_command(app)(["evaluate", "--budgets", *more], standalone_mode=False)


def test_unknown_names_are_refused() -> None:
    """Of faults and of healthy days."""
    assert [case.name for case in chosen(["gpu_lost"])] == ["gpu_lost"]
    assert len(chosen([])) == len(BY_NAME)
    with pytest.raises(ConfigError, match="must be one of gpu_lost"):
        chosen(["gremlins"])
    with pytest.raises(ConfigError, match="must be one of azure"):
        run_seed(1, Options(healthy="sunday"))
