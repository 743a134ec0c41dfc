"""Readings of real GPUs through the whole collector, against nvidia-smi and against work that was counted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetpulse.report.compute import compute_of
from producers.agent.exposition import exposed
from producers.collector import Collected
from producers.nvidia_smi.fields import read_table
from runtime.counters import Counters
from runtime.edge_config import ExpositionConfig
from schemas.events.event_types import GPU_SAMPLES
from tests.fake_nvml import Error, FakeGpu
from tests.unit.producers.gpu.conftest import Open

FOLDER = Path(__file__).parents[3] / "data" / "nvml_recordings"


@dataclass(frozen=True)
class Recorded:
    """A GPU's recording. ``bus_bits``: width of its memory's bus; ``of_peak``, ``tensor_active_ppm``: what products of
    bf16 matrices reached of the data sheet's arithmetic, and their tensor activity; ``lasts_ms`` from first to last."""

    name: str
    file: str
    memory_mhz: int
    bus_bits: int
    of_peak: float
    tensor_active_ppm: int
    lasts_ms: int

    @cached_property
    def readings(self) -> list[dict[str, Any]]:
        """In order."""
        return [json.loads(line) for line in (FOLDER / self.file).read_text().splitlines()]

    @property
    def dram_bytes_per_s(self) -> int:
        """Both edges of the memory clock, by the width of the bus."""
        return 2 * self.memory_mhz * 1_000_000 * self.bus_bits // 8

    def __str__(self) -> str:
        return self.name


H200 = Recorded("NVIDIA H200", "nvidia-h200__580.159.04.jsonl", 3_201, 6_016, 0.664, 934_000, 71_000)
H100 = Recorded(
    "NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3__580.159.04.jsonl", 2_619, 5_120, 0.676, 928_000, 66_000
)
of_each = pytest.mark.parametrize("recorded", [H200, H100], ids=str)
PHASES = ("idle1", "bf16", "fp8", "copy", "h2d", "d2h", "duty", "idle2")
UUID = "GPU-5afe0000-0000-4000-8000-000000000000"
STUB_NAMES = {
    "nvmlDeviceGetClockInfo(SM)": "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
}

MULTIPROCESSORS, FLOP_PER_CYCLE = 132, {"bf16": 4_096, "fp8": 8_192}
"""Dense, of one multiprocessor of a Hopper."""
SAME = ("power_limit_mw", "clock_reasons", "performance_state", "pcie_generation", "pcie_width", "recovery_action")
APART = {
    "util_gpu_pct": 2,
    "util_memory_pct": 2,
    "util_encoder_pct": 0,
    "temperature_c": 1,
    "temperature_memory_c": 1,
    "temperature_margin_c": 1,
    "memory_total_bytes": 2**20,
    "memory_used_bytes": 2**20,
    "memory_reserved_bytes": 2**20,
}
"""What nvidia-smi, within half a second, may differ by."""


def give(gpu: FakeGpu, reading: dict[str, Any]) -> None:
    """Let the fake GPU return what the real one did."""
    for name, value in reading["calls"].items():
        gpu.calls[STUB_NAMES.get(name, name)] = value
    gpu.calls["nvmlDeviceGetMarginTemperature"] = {
        "marginTemperature": reading["calls"]["nvmlDeviceGetMarginTemperature"]
    }
    gpu.fields = {id: Error(code) if code else value for id, _, code, value in reading["fields"]}
    gpu.field_types = {id: kind for id, kind, code, _ in reading["fields"] if not code}
    gpu.gpm = {metric: value for metric, code, value in reading["gpm"] if not code}


def rows_of(recorded: Recorded, phase: str, open_on: Open) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each reading of a phase but the first, with the agent's row of it."""
    return rows_through([each for each in recorded.readings if each["phase"] == phase], open_on)


def rows_through(readings: list[dict[str, Any]], open_on: Open) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each of these readings but the first, with the agent's row of it; slow values are read in every one."""
    gpu = FakeGpu(UUID, {})
    give(gpu, readings[0])
    host = open_on([gpu], now_ms=readings[0]["at_ms"] - 1_000)
    host.sample()
    found = []
    for before, reading in pairwise(readings):
        give(gpu, reading)
        host.sampler._tracked[UUID].device._slow_slot = host.sampler._tracked[UUID].device._read_ms = None
        (row,), _ = host.sample(reading["at_ms"] - before["at_ms"])
        found.append((reading, row))
    return found


def smi_of(recorded: Recorded, reading: dict[str, Any]) -> dict[str, int]:
    """What nvidia-smi printed, read by the project's own table."""
    cells = {"uuid": UUID, "name": recorded.name} | reading["nvidia_smi"]
    (gpu,) = read_table(f"{','.join(cells)}\n{','.join(cells.values())}\n").gpus
    return dict(gpu.values)


SMI = {
    "util_gpu_pct": "utilization.gpu",
    "util_memory_pct": "utilization.memory",
    "util_encoder_pct": "utilization.encoder",
    "temperature_c": "temperature.gpu",
    "temperature_memory_c": "temperature.memory",
    "temperature_margin_c": "temperature.gpu.tlimit",
    "memory_total_bytes": "memory.total",
    "memory_used_bytes": "memory.used",
    "memory_reserved_bytes": "memory.reserved",
    "power_limit_mw": "enforced.power.limit",
    "clock_reasons": "clocks_event_reasons.active",
    "performance_state": "pstate",
    "pcie_generation": "pcie.link.gen.gpucurrent",
    "pcie_width": "pcie.link.width.current",
}
STEADY = [phase for phase in PHASES if phase != "duty"]


@of_each
@pytest.mark.parametrize("phase", STEADY)
def test_a_row_says_what_nvidia_smi_said_in_the_same_second(recorded: Recorded, phase: str, open_on: Open) -> None:
    """Settings to the bit, temperatures to a degree, power to 3 %, clocks to 10 % while power is capped."""
    for reading, row in rows_of(recorded, phase, open_on):
        smi = smi_of(recorded, reading)
        known = [name for name in SMI if SMI[name] in smi]

        assert {name: row[name] for name in SAME if name in known} == {
            name: smi[SMI[name]] for name in SAME if name in known
        }
        far = {
            name: (row[name], smi[SMI[name]]) for name, most in APART.items() if abs(row[name] - smi[SMI[name]]) > most
        }
        assert far == {}
        assert row["power_mw"] == pytest.approx(smi["power.draw"], rel=0.03)
        assert row["clock_sm_mhz"] == pytest.approx(smi["clocks.current.sm"], rel=0.1)


@of_each
def test_the_agent_s_page_shows_what_nvidia_smi_said(recorded: Recorded, open_on: Open) -> None:
    """The last reading in Prometheus' base units, by the driver's name of the GPU; energy added up."""
    readings = rows_of(recorded, "bf16", open_on)
    counters, (reading, last) = Counters(), readings[-1]
    with exposed(ExpositionConfig(enabled=True), lambda: last["at_ms"], counters) as take:
        take([Collected(GPU_SAMPLES, [row for _, row in readings])])
        page = counters.render().decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    shown = {sample.name.removeprefix("fleetpulse_gpu_"): sample.value for sample in samples}
    smi = smi_of(recorded, reading)

    assert {sample.labels["gpu_model"] for sample in samples} == {recorded.name}
    assert shown["power_watts"] == pytest.approx(smi["power.draw"] / 1_000, rel=0.03)
    assert shown["temperature_celsius"] == pytest.approx(smi["temperature.gpu"], abs=1)
    assert shown["memory_used_bytes"] == pytest.approx(smi["memory.used"], abs=2**20)
    assert shown["energy_joules_total"] == pytest.approx(sum(row["energy_mj"] for _, row in readings) / 1_000)


@of_each
@pytest.mark.parametrize("phase", STEADY)
def test_energy_is_power_by_time(recorded: Recorded, phase: str, open_on: Open) -> None:
    """Over a phase: the counter moves every 100 ms."""
    rows = [row for _, row in rows_of(recorded, phase, open_on)]

    energy_mj, interval_ms = (sum(row[name] for row in rows) for name in ("energy_mj", "interval_ms"))

    assert interval_ms == 1_000 * len(rows)
    assert energy_mj / interval_ms == pytest.approx(sum(row["power_mw"] for row in rows) / len(rows) / 1_000, rel=0.05)


DEAR = {
    83: "energy",
    74: "power",
    271: "power brake",
    269: "heat",
    270: "heat",
    77: "board",
    79: "reliability",
    94: "replays",
}


class Counted(dict[int, Any]):
    """Fields of a GPU, and how often each was read."""

    def __init__(self, values: dict[int, Any], reads: Counter[int]) -> None:
        super().__init__(values)
        self._reads = reads

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        self._reads[key] += 1
        return super().get(key, default)


@of_each
def test_energy_of_all_windows_is_what_the_counter_moved_over_the_recording(recorded: Recorded, open_on: Open) -> None:
    """To the millijoule, over seconds and over gaps between phases, each with its share of the windows in it."""
    readings = recorded.readings
    gpu = FakeGpu(UUID, {})
    give(gpu, readings[0])
    host = open_on([gpu], now_ms=readings[0]["at_ms"] - 1_000)
    host.sample()
    windows, last_mj = dict[int, int](), readings[0]["calls"]["nvmlDeviceGetTotalEnergyConsumption"]
    first_mj = last_mj
    for before, reading in pairwise(readings):
        give(gpu, reading)
        for row in host.sample(reading["at_ms"] - before["at_ms"])[0]:
            if row["energy_mj"] is not None:
                window = row["at_ms"] // 10_000
                windows[window] = windows.get(window, 0) + row["energy_mj"]
                last_mj = reading["calls"]["nvmlDeviceGetTotalEnergyConsumption"]

    assert reading["at_ms"] - readings[0]["at_ms"] == recorded.lasts_ms
    assert sum(windows.values()) == last_mj - first_mj > 12_000_000
    assert set(windows) == set(range(min(windows), min(windows) + recorded.lasts_ms // 10_000 + 1))
    assert all(1_200_000 * 0.4 <= mj <= 7_000_000 for mj in list(windows.values())[1:-1]), "120 to 700 W for 10 s"


@of_each
def test_what_keeps_a_processor_busy_is_read_six_times_a_minute(recorded: Recorded, open_on: Open) -> None:
    """Of a minute's sixty readings; before, each of them read it. All other fields are read in every one."""
    gpu, reads = FakeGpu(UUID, {}), Counter[int]()
    give(gpu, recorded.readings[0])
    gpu.fields = Counted(gpu.fields, reads)
    host = open_on([gpu], now_ms=0)
    for _ in range(10):
        host.sample()
    reads.clear()
    calls = len(gpu.called)

    rows = [host.sample()[0][0] for _ in range(60)]

    assert {id: reads[id] for id in DEAR} == dict.fromkeys(DEAR, 6)
    assert {count for id, count in reads.items() if id not in DEAR} == {60}
    assert sum(row["energy_mj"] is not None for row in rows) == 6
    assert (len(gpu.called) - calls) / 60 == pytest.approx(10, abs=2)


@of_each
@pytest.mark.parametrize("phase", FLOP_PER_CYCLE)
def test_tensor_cores_are_as_active_as_the_products_need(recorded: Recorded, phase: str, open_on: Open) -> None:
    """Counted operations are 0.8 to 1.15 of what active tensor cores could do: clocks move within a second."""
    for reading, row in rows_of(recorded, phase, open_on):
        possible = MULTIPROCESSORS * FLOP_PER_CYCLE[phase] * row["clock_sm_mhz"] * 1_000_000
        assert 0.8 <= reading["done"]["amount"] / possible / (row["tensor_active_ppm"] / 1_000_000) <= 1.15
        assert row["tensor_active_ppm"] <= row["sm_active_ppm"] + 20_000


@of_each
def test_half_of_the_time_is_half_of_the_activity(recorded: Recorded, open_on: Open) -> None:
    """A mean between two readings, not a moment."""
    for _, row in rows_of(recorded, "duty", open_on):
        assert 400_000 <= row["tensor_active_ppm"] <= 500_000


@of_each
def test_a_model_s_share_of_the_arithmetic_is_below_its_tensor_activity(recorded: Recorded, open_on: Open) -> None:
    """Dense products at the power limit: two thirds of the data sheet's arithmetic, 93 % tensor activity; as many
    operations as the tokens of a model of 1 B parameters take."""
    for reading, row in rows_of(recorded, "bf16", open_on):
        tokens = {"generated_tokens": reading["done"]["amount"] / 2e9, "prompt_tokens": 0, "hit_tokens": 0}
        gpu = {"gpu_type": row["gpu_model"], "part_of_gpu": None, "tensor_active": row["tensor_active_ppm"] / 1e6}
        found = compute_of([tokens | {"covered_for_ms": 1_000}], [gpu], {"parameters": 10**9}, None, "bf16")
        assert found.utilisation == pytest.approx(recorded.of_peak, abs=0.01)
        assert row["tensor_active_ppm"] == pytest.approx(recorded.tensor_active_ppm, abs=5_000)
        assert row["throttled_power_us"] >= 990_000


@of_each
def test_memory_activity_is_the_share_of_its_bandwidth(recorded: Recorded, open_on: Open) -> None:
    """Bytes read and written, within 1 %."""
    for reading, row in rows_of(recorded, "copy", open_on):
        assert row["dram_active_ppm"] / 1e6 == pytest.approx(
            reading["done"]["amount"] / recorded.dram_bytes_per_s, rel=0.01
        )
        assert row["tensor_active_ppm"] == 0


@of_each
@pytest.mark.parametrize(
    ("phase", "name", "headers"), [("h2d", "pcie_rx_bytes", 0.07), ("d2h", "pcie_tx_bytes", 0.088)]
)
def test_bytes_over_pcie_are_those_copied_and_their_headers(
    recorded: Recorded, phase: str, name: str, headers: float, open_on: Open
) -> None:
    """At 55 GB a second: fields 197 and 198 pass their 32 bits thirteen times in it."""
    for reading, row in rows_of(recorded, phase, open_on):
        assert row[name] == pytest.approx(reading["done"]["amount"] * (1 + headers), rel=0.03)


@of_each
def test_what_this_gpu_has_not_is_null(recorded: Recorded, open_on: Open) -> None:
    """It has no NVLink; everything else of a sample is known."""
    ((_, row), *_) = rows_of(recorded, "bf16", open_on)

    unknown = {name for name, value in row.items() if value is None and name not in ("cluster", "region")}

    assert {
        name for name in ("nvlink_tx_bytes", "nvlink_rx_bytes", "nvlink_errors") if row.get(name) is not None
    } == set()
    assert unknown == set()
