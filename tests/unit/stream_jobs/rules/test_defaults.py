"""The shipped rules against what the simulated fleet and real machines show."""

from __future__ import annotations

import re

import pytest

from fleetpulse.equipment import GPU_TYPES, MEMORY_SHARE
from lab.simulator.gpus import DEGREES_PER_MW, INLET_C
from lab.simulator.plan import Habits
from producers.gpu.faults import RECOVERY_ACTIONS, XIDS
from schemas.events.event_fields import GPU_EVENT_KINDS
from schemas.events.event_types import ERROR_KINDS
from stream_jobs.alerts.events import ADVICE
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.rules.load import load, load_set
from tests.unit.stream_jobs.insight.cases import BASE_MS, GPU, GRAIN_MS, a_block, a_row

COLD = ("cold_starts", "cold_start_slow")
RULES = {rule.name: rule for rule in (*load_set().rules, *load_set().disabled)}


def test_the_judge_takes_them() -> None:
    """Measures, views and detectors of all of them are there; none is left to others."""
    rules = load()

    assert set(FleetDetector(rules).detectors) == {rule.name for rule in rules}


def test_each_says_what_to_do_unless_it_only_informs() -> None:
    """Who is woken reads what happened, where, and what to do."""
    for rule in RULES.values():
        assert rule.advice or rule.severity == "info", rule.name
        assert all(
            f"{{{label}}}" in rule.summary for label in rule.by if label in ("gpu_uuid", "tenant", "engine_id")
        ), rule.name


def test_who_is_to_reset_a_gpu_is_told_what_has_it_open() -> None:
    """The driver refuses a reset while a process has the GPU open, as the agent and DCGM have."""
    rules = load_set()
    advice = [each.advice for each in (*rules.rules, *rules.gpu_events)] + list(ADVICE.values())
    resets = [each for each in advice if re.search(r"\breset\b", each)]

    assert [each for each in resets if "stop agent and DCGM" not in each] == []
    assert len(resets) == 9


def test_requests_are_judged_by_half_minutes_at_least_and_only_where_enough_came() -> None:
    """Ten seconds of requests are few; burn rates count their own events."""
    for rule in RULES.values():
        if rule.value.topic == "llm.requests" and rule.name not in COLD:
            assert rule.window_ms >= 30_000, rule.name
            assert rule.min_count >= 10 or rule.kind == "burn_rate", rule.name


def test_latencies_are_of_warm_requests_that_succeeded() -> None:
    """A cold start or a failure is no latency."""
    for rule in RULES.values():
        if rule.value.field.endswith("_us") and rule.value.topic == "llm.requests" and rule.name not in COLD:
            assert {where.dimension: where.one_of for where in rule.value.where} == {
                "status": ("ok",),
                "start": ("warm", None),
            }, rule.name


def test_thresholds_leave_room_to_leave() -> None:
    """No value that trembles around a level rings all night; a count of cold starts has no other level."""
    bare = [name for name, rule in RULES.items() if rule.kind == "threshold" and rule.options["leave"] is None]

    assert bare == ["cold_starts"]


def test_a_fault_that_begins_at_once_fires_at_the_second_window() -> None:
    """The rules that find step faults of GPUs, engines and requests."""
    quick = ("gpu_throttled", "gpu_straggler_clock", "vram_full", "kv_pressure", "errors_server", "itl_load_adjusted")

    assert {RULES[name].m for name in quick} == {2}


def test_a_gpu_at_its_limit_in_a_warm_room_is_not_hot() -> None:
    """The hottest healthy GPU of the simulated fleet stays below what is watched; a throttled one reaches 87 C."""
    hottest_c = max(INLET_C + 6.0 + DEGREES_PER_MW * one.limit_mw for one in GPU_TYPES.values())

    assert hottest_c < RULES["gpu_hot"].options["leave"]
    assert RULES["gpu_hot"].options["above"] < 87.0


def test_memory_that_engines_reserve_is_no_alarm() -> None:
    """They take 90 %: GPUs that serve nothing are watched at 85 %, engines at what comes on top of what they had, and
    5 % above what they may take where they report it."""
    reserved, above = RULES["vram_beyond_reserved"], RULES["vram_above_reserved"]

    assert RULES["vram_full"].options["leave"] > MEMORY_SHARE
    assert [(where.dimension, where.negated) for where in RULES["vram_high"].value.where] == [("workload", True)]
    assert (reserved.options["only_above"], reserved.options["percent"]) == (0.85, 3.0)
    assert RULES["vram_full"].options["above"] > MEMORY_SHARE * 1.03
    assert (above.value.text, above.options["above"]) == ("ratio(memory_used_bytes, memory_engine_bytes)", 1.05)


@pytest.mark.parametrize(
    ("may_take", "rules"),
    [(None, {"vram_beyond_reserved"}), (76 * 2**30, {"vram_above_reserved"})],
    ids=["an engine that reports no reservation", "an engine that reports one"],
)
def test_memory_beyond_a_reservation_is_one_sign(may_take: int | None, rules: set[str]) -> None:
    """An engine of 80 GiB that takes four more than it had: by the level that it had, or by what it may take where it
    reports that, never by both."""
    place = {"cluster": "c", "region": "r", "host": "h", "origin": "measured", "workload": "inference"}

    def window(number: int, used: int) -> Window:
        levels = {"memory_used_bytes": used, "memory_total_bytes": 84 * 2**30, "memory_engine_bytes": may_take}
        measures = {
            f"{name}_{end}": value
            for name, level in levels.items()
            for end, value in (("count", 10 * (level is not None)), ("sum", 10 * (level or 0)))
        }
        row = a_row(GPU, "gpu", event_count=10, gpu_uuid="g", engine_id="e", placement_group="e", **measures, **place)
        return Window(BASE_MS + number * GRAIN_MS, {GPU: a_block(GPU, [row])})

    detector = FleetDetector([rule for rule in load() if rule.name.startswith("vram_") and "reserved" in rule.name])
    hours = 2 * 360
    levels = [76 * 2**30] * hours + [80 * 2**30] * 60
    found = [detector.detect(window(number, used)) for number, used in enumerate(levels)]

    assert {one.rule for findings in found[:hours] for one in findings if one.firing} == set()
    assert {one.rule for findings in found for one in findings if one.firing} == rules


@pytest.mark.parametrize(
    ("fault_s", "limit_s", "found"),
    [(3.0, 0.0, {"g2"}), (1.0, 0.0, set()), (0.0, 3.0, set())],
    ids=["a third of the time", "a tenth of it", "by its power limit"],
)
def test_one_of_three_that_is_throttled_more_than_its_peers_is_a_straggler(
    fault_s: float, limit_s: float, found: set[str]
) -> None:
    """By 15 points of its time, of which its peers lose none; what silicon does at the power limit is none."""
    place = {"cluster": "c", "region": "r", "host": "h", "origin": "measured", "workload": "inference"}

    def row(gpu: str, fault_s: float = 0.0, limit_s: float = 0.0) -> dict[str, object]:
        throttled, fault = round(1e6 * (fault_s + limit_s)), round(1e6 * fault_s)
        measures = {"interval_ms_sum": 10_000, "throttled_us_sum": throttled, "throttled_fault_us_sum": fault}
        return a_row(GPU, "gpu", gpu_uuid=gpu, engine_id="e", placement_group="e", event_count=10, **measures, **place)

    detector = FleetDetector([RULES["gpu_straggler_throttled"]])
    fired = set()
    for number in range(20):
        rows = [row("g0"), row("g1"), row("g2", fault_s, limit_s) if number >= 10 else row("g2")]
        window = Window(BASE_MS + number * GRAIN_MS, {GPU: a_block(GPU, rows)})
        fired |= {dict(one.labels)["gpu_uuid"] for one in detector.detect(window) if one.firing}

    assert fired == found


def test_no_engine_that_uses_its_tensor_cores_lies_below_their_floor() -> None:
    """Half of what 7 B parameters on eight GPUs need for the tokens at which the rule begins to look, at peak rate."""
    rates = {"tensor_cores_idle": "H100", "tensor_cores_idle_blackwell": "B200", "tensor_cores_idle_a100": "A100"}
    rates["tensor_cores_idle_l40s"] = "L40S"
    for name, gpu in rates.items():
        (prompts,) = RULES[name].only_while
        least_share = prompts.low * 2 * 7e9 / (8 * GPU_TYPES[gpu].tflops_8_bit * 1e12)
        assert 0.45 < RULES[name].options["below"] / (least_share * 1e6) < 0.52, name
        assert GPU_TYPES[gpu].name in RULES[name].value.where[0].one_of


def test_the_usual_share_of_failures_is_no_alarm() -> None:
    """What goes wrong on a good day stays far below every level, and within the error budget."""
    habits = Habits()

    assert 10 * habits.server_error < RULES["errors_server"].options["leave"]
    assert 5 * habits.aborted < RULES["errors_aborted"].options["leave"]
    assert 2 * habits.server_error < 1.0 - RULES["slo_errors"].options["objective"]


def test_every_kind_of_error_but_the_clients_own_is_watched() -> None:
    """By kind, or by the status that goes with it."""
    watched = {
        value
        for rule in RULES.values()
        if rule.value.match and rule.value.match.dimension == "error_kind"
        for value in rule.value.match.one_of
    }

    assert watched == set(ERROR_KINDS) - {"client", "timeout", "overload"}
    assert {"errors_timeout", "errors_rejected"} <= set(RULES)


def test_gpu_events_keep_the_severity_of_their_code() -> None:
    """XIDs and recovery actions: critical stays critical, a warning stays one, what needs nobody wakes nobody."""
    found = load_set()
    expected = {"critical": "critical", "warning": "warning", "info": None}

    for code, fault in XIDS.items():
        event = found.gpu_event("xid", code, fault.severity)
        assert event is not None
        assert event.severity == expected[fault.severity], code
    for code, fault in RECOVERY_ACTIONS.items():
        event = found.gpu_event("recovery", code, fault.severity)
        assert event is not None
        assert event.severity == expected[fault.severity], code


def test_every_kind_of_gpu_event_is_covered() -> None:
    """Whatever its severity but for an XID without one."""
    found = load_set()

    assert [
        (kind, told)
        for kind in GPU_EVENT_KINDS
        for told in ("info", "warning", "critical")
        if found.gpu_event(kind, None, told) is None
    ] == []
