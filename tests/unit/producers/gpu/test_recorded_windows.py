"""Readings of real GPUs through the windows job: what the shipped rules say of them, and what they are billed.

A phase of a recording is repeated, a reading a second, as long as a rule or a bill looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

import pytest

from schemas.limits import DEFAULT_LIMITS
from stream_jobs.costs.account import Prices
from stream_jobs.costs.step import CostStep
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.rules.load import load
from tests.unit.producers.gpu.conftest import Open
from tests.unit.producers.gpu.test_recorded_gpu import PHASES, Recorded, of_each, rows_of, rows_through, smi_of
from tests.unit.stream_jobs.costs import cases as costs
from tests.unit.stream_jobs.costs.test_step import told_at_once
from tests.unit.stream_jobs.insight.cases import BASE_MS, GPU, GRAIN_MS, Row, a_block, a_row
from tests.unit.stream_jobs.windows.cases import a_record, a_step, fold_all, partials

ENGINES, PROCESSES = "engine.samples", "host.processes"
PLACED = {"engine_id": "e", "placement_group": "e", "workload": "inference"}
WINDOWS = 8 * 6
SECONDS = GRAIN_MS // 1_000
HEALTHY = [phase for phase in PHASES if phase != "copy"]
POWER_LIMIT, POWER_BRAKE = 74, 271
"""NVML's counters of the time that either held clocks down."""
PRICES = Prices(3_600_000_000, 0, 0, 1_200_000, 300_000_000)

Readings = list[tuple[dict[str, Any], dict[str, Any]]]


def repeated(readings: Readings) -> Readings:
    """One for each second of a window."""
    return [readings[second % len(readings)] for second in range(SECONDS)]


def window_of(readings: Readings) -> Row:
    """The one row of windows that a window of these readings makes: of a GPU that serves an engine."""
    events = [row | PLACED | {"at_ms": BASE_MS + 1_000 * second} for second, (_, row) in enumerate(repeated(readings))]
    step = a_step()
    (row,) = partials(step, *fold_all(step, [a_record(GPU, events)], GPU))
    return row


def fired(tables: Mapping[str, Sequence[Row]]) -> set[str]:
    """Shipped rules that fire when this window comes again for eight minutes."""
    detector = FleetDetector(load())
    blocks = {topic: a_block(topic, rows) for topic, rows in tables.items()}
    windows = [Window(BASE_MS + number * GRAIN_MS, blocks) for number in range(WINDOWS)]
    return {finding.rule for window in windows for finding in detector.detect(window) if finding.firing}


@of_each
@pytest.mark.parametrize("phase", HEALTHY)
def test_a_healthy_gpu_at_rest_and_at_work_is_no_alarm(recorded: Recorded, phase: str, open_on: Open) -> None:
    """At its power limit and with its PCIe link in full use, too; the link's lanes and replays are known."""
    row = window_of(rows_of(recorded, phase, open_on))

    assert fired({GPU: [row]}) == set()
    assert row["pcie_width_sum"] == row["pcie_width_max_sum"] == 16 * SECONDS
    assert row["pcie_replays_sum"] == 0


@of_each
def test_memory_whose_bandwidth_is_used_up_is_told(recorded: Recorded, open_on: Open) -> None:
    """Copies back to back: 89 to 90 % of the time."""
    assert fired({GPU: [window_of(rows_of(recorded, "copy", open_on))]}) == {"memory_bandwidth"}


@of_each
def test_bursts_at_the_power_limit_are_no_fault(recorded: Recorded, open_on: Open) -> None:
    """A tenth of a second of work, another of rest: at the limit in each, at 70 % of it by the second."""
    row = window_of(rows_of(recorded, "duty", open_on))

    assert row["throttled_us_sum"] > 0.4 * row["interval_ms_sum"] * 1_000
    assert row["throttled_fault_us_sum"] == 0
    assert row["power_mw_sum"] / row["power_limit_mw_sum"] == pytest.approx(0.7, abs=0.05)


@of_each
@pytest.mark.parametrize(
    ("field", "told"),
    [(POWER_BRAKE, {"gpu_throttled", "gpu_power_brake"}), (POWER_LIMIT, set())],
    ids=["power brake", "power limit"],
)
def test_a_brake_is_told_from_the_limit(recorded: Recorded, field: int, told: set[str], open_on: Open) -> None:
    """The counter of either grows by 600 ms a second beside what was recorded of a GPU at rest."""
    at_rest = [reading for reading in recorded.readings if reading["phase"] == "idle1"]
    held = [
        reading | {"fields": [[*of[:3], 600_000_000 * number] if of[0] == field else of for of in reading["fields"]]}
        for number, reading in enumerate(at_rest)
    ]

    row = window_of(rows_through(held, open_on))

    assert row["throttled_us_sum"] == 600_000 * SECONDS
    assert fired({GPU: [row]}) == told


@of_each
@pytest.mark.parametrize(
    ("phase", "told"), [("copy", {"tensor_cores_idle"}), ("fp8", set()), ("duty", set())], ids=["copy", "fp8", "duty"]
)
def test_tensor_cores_that_rest_beside_prompts_in_8_bit_are_told(
    recorded: Recorded, phase: str, told: set[str], open_on: Open
) -> None:
    """By the name that the driver gives the GPU. Copies use none of them, products of fp8 do; prompts are made up."""
    prompts = a_row(
        ENGINES, "engine_sample", event_count=2, prompt_tokens_sum=20_000, engine_id="e", placement_group="e",
        host="host-1", model="m", precision="fp8", origin="measured",
    )  # fmt: skip
    rules = fired({GPU: [window_of(rows_of(recorded, phase, open_on))], ENGINES: [prompts]})

    assert {name for name in rules if name.startswith("tensor_cores_idle")} == told


@of_each
@pytest.mark.parametrize(
    ("phase", "told"), [("idle1", {"gpu_starved", "gpu_starved_by_core"}), ("bf16", set())], ids=["idle", "busy"]
)
def test_a_gpu_that_rests_while_requests_wait_is_starved(
    recorded: Recorded, phase: str, told: set[str], open_on: Open
) -> None:
    """By SM activity, and by utilization where a thread of the engine is saturated; queue and thread are made up."""
    engine = {"engine_id": "e", "placement_group": "e", "host": "host-1", "origin": "measured", "event_count": 2}
    queue = a_row(ENGINES, "engine_sample", model="m", waiting_count=2, waiting_sum=20, **engine)
    thread = a_row(
        PROCESSES, "process", process_name="tokenizer", workload="inference",
        cpu_thread_max_ppm_count=2, cpu_thread_max_ppm_sum=1_940_000, cpu_thread_max_ppm_max=970_000, **engine,
    )  # fmt: skip
    gpu = window_of(rows_of(recorded, phase, open_on))

    rules = fired({GPU: [gpu], ENGINES: [queue], PROCESSES: [thread]})

    assert {name for name in rules if name.startswith("gpu_starved")} == told


@of_each
@pytest.mark.parametrize("phase", ["idle1", "bf16"])
def test_a_minute_is_billed_what_the_gpu_drew(recorded: Recorded, phase: str, open_on: Open) -> None:
    """Energy is the counter's, to 2 % what nvidia-smi said of power; CO2e follows from it; all parts add up to both."""
    readings = rows_of(recorded, phase, open_on)
    row, log = window_of(readings), costs.Log()
    for window in range(6):
        log.gpu(window, [row | {"window_ms": costs.BASE_MS + window * GRAIN_MS}], through=window + 1)
        log.usage(window, [costs.a_line(tenant, group="e") for tenant in ("a", "b")], through=window)
    log.usage(6, through=6)

    (bill,) = told_at_once(CostStep(DEFAULT_LIMITS, costs.SOURCES, lambda *_: PRICES, "p1"), log.records)

    energy_mj = 6 * row["energy_mj_sum"]
    smi_mw = fmean(smi_of(recorded, reading)["power.draw"] for reading, _ in repeated(readings))
    assert (bill["gpu_ms"], bill["energy_mj"]) == (60_000, energy_mj)
    assert energy_mj == pytest.approx(60 * smi_mw, rel=0.02)
    assert bill["carbon_ug"] == round(Fraction(energy_mj * 300_000_000 * 12, 3_600_000_000 * 10))
    assert [costs.added(part[place] for part in bill["parts"]) for place in (8, 9)] == [energy_mj, bill["carbon_ug"]]
