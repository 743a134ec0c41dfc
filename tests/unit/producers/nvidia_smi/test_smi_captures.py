"""Every capture, idle and under load, as whole samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from producers.collector import Identity
from producers.differences import RowValues
from producers.nvidia_smi.collector import Answer, SmiCollector
from producers.nvidia_smi.fields import COLUMNS, QUERY_COLUMNS, SAMPLE_FIELDS, read_table
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import GPU_SAMPLES
from tests.virtual_clock import VirtualClock

DATA = Path(__file__).parents[3] / "data" / "nvidia_smi_captures"
CAPTURES = {path.stem.split("__")[1]: path for path in sorted(DATA.glob("*.txt"))}
LEVELS: RowValues = {field.name: None for field in SAMPLE_FIELDS if field.nature == "gauge"}
EXPECTED: dict[tuple[str, str], dict[str, Any]] = {
    ("nvidia-h100-80gb-hbm3", "idle"): {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "util_gpu_pct": 0,
        "util_memory_pct": 0,
        "util_encoder_pct": 0,
        "util_decoder_pct": 0,
        "power_mw": 69850,
        "power_instant_mw": 69620,
        "power_limit_mw": 700000,
        "temperature_c": 41,
        "temperature_memory_c": 48,
        "temperature_margin_c": 46,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 2619,
        "performance_state": 0,
        "clock_reasons": 1,
        "memory_used_bytes": 0,
        "memory_total_bytes": 85520809984,
        "memory_reserved_bytes": 502267904,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
    ("nvidia-h100-80gb-hbm3", "load"): {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "util_gpu_pct": 100,
        "util_memory_pct": 11,
        "util_encoder_pct": 0,
        "util_decoder_pct": 0,
        "power_mw": 631950,
        "power_instant_mw": 625680,
        "power_limit_mw": 700000,
        "temperature_c": 59,
        "temperature_memory_c": 54,
        "temperature_margin_c": 26,
        "clock_sm_mhz": 1980,
        "clock_memory_mhz": 2619,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 20780679168,
        "memory_total_bytes": 85520809984,
        "memory_reserved_bytes": 502267904,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
    ("nvidia-h100-mig", "idle"): {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "power_mw": 71150,
        "power_instant_mw": 70720,
        "power_limit_mw": 700000,
        "temperature_c": 42,
        "temperature_memory_c": 48,
        "temperature_margin_c": 45,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 2619,
        "performance_state": 0,
        "clock_reasons": 1,
        "memory_used_bytes": 61865984,
        "memory_total_bytes": 85520809984,
        "memory_reserved_bytes": 502267904,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "recovery_action": 0,
    },
    ("nvidia-h100-mig", "load"): {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "power_mw": 433780,
        "power_instant_mw": 447350,
        "power_limit_mw": 700000,
        "temperature_c": 53,
        "temperature_memory_c": 59,
        "temperature_margin_c": 24,
        "clock_sm_mhz": 1980,
        "clock_memory_mhz": 2619,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 11665408000,
        "memory_total_bytes": 85520809984,
        "memory_reserved_bytes": 502267904,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "recovery_action": 0,
    },
    ("nvidia-h200-mig", "idle"): {
        "gpu_model": "NVIDIA H200",
        "power_mw": 78280,
        "power_instant_mw": 78210,
        "power_limit_mw": 700000,
        "temperature_c": 28,
        "temperature_memory_c": 32,
        "temperature_margin_c": 59,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 3201,
        "performance_state": 0,
        "clock_reasons": 1,
        "memory_used_bytes": 57671680,
        "memory_total_bytes": 150754820096,
        "memory_reserved_bytes": 643825664,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "recovery_action": 0,
    },
    ("nvidia-h200-mig", "load"): {
        "gpu_model": "NVIDIA H200",
        "power_mw": 295010,
        "power_instant_mw": 294140,
        "power_limit_mw": 700000,
        "temperature_c": 36,
        "temperature_memory_c": 39,
        "temperature_margin_c": 46,
        "clock_sm_mhz": 1980,
        "clock_memory_mhz": 3201,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 17782800384,
        "memory_total_bytes": 150754820096,
        "memory_reserved_bytes": 643825664,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "recovery_action": 0,
    },
    ("nvidia-h200", "idle"): {
        "gpu_model": "NVIDIA H200",
        "util_gpu_pct": 0,
        "util_memory_pct": 0,
        "util_encoder_pct": 0,
        "util_decoder_pct": 0,
        "power_mw": 77710,
        "power_instant_mw": 78210,
        "power_limit_mw": 700000,
        "temperature_c": 28,
        "temperature_memory_c": 32,
        "temperature_margin_c": 59,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 3201,
        "performance_state": 0,
        "clock_reasons": 1,
        "memory_used_bytes": 0,
        "memory_total_bytes": 150754820096,
        "memory_reserved_bytes": 643825664,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
    ("nvidia-h200", "load"): {
        "gpu_model": "NVIDIA H200",
        "util_gpu_pct": 100,
        "util_memory_pct": 7,
        "util_encoder_pct": 0,
        "util_decoder_pct": 0,
        "power_mw": 627400,
        "power_instant_mw": 626260,
        "power_limit_mw": 700000,
        "temperature_c": 52,
        "temperature_memory_c": 40,
        "temperature_margin_c": 35,
        "clock_sm_mhz": 1980,
        "clock_memory_mhz": 3201,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 33934016512,
        "memory_total_bytes": 150754820096,
        "memory_reserved_bytes": 643825664,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
    ("nvidia-l40s", "idle"): {
        "gpu_model": "NVIDIA L40S",
        "util_gpu_pct": 100,
        "util_memory_pct": 9,
        "util_encoder_pct": 0,
        "util_decoder_pct": 0,
        "power_mw": 144970,
        "power_instant_mw": 127670,
        "power_limit_mw": 350000,
        "temperature_c": 63,
        "temperature_margin_c": 25,
        "clock_sm_mhz": 2520,
        "clock_memory_mhz": 9001,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 0,
        "memory_total_bytes": 48305799168,
        "memory_reserved_bytes": 638582784,
        "pcie_generation": 4,
        "pcie_generation_max": 4,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
    ("nvidia-l40s", "load"): {
        "gpu_model": "NVIDIA L40S",
        "util_gpu_pct": 9,
        "util_memory_pct": 2,
        "util_encoder_pct": 60,
        "util_decoder_pct": 0,
        "power_mw": 110230,
        "power_instant_mw": 112380,
        "power_limit_mw": 350000,
        "temperature_c": 54,
        "temperature_margin_c": 34,
        "clock_sm_mhz": 2520,
        "clock_memory_mhz": 9001,
        "performance_state": 0,
        "clock_reasons": 0,
        "memory_used_bytes": 1294991360,
        "memory_total_bytes": 48305799168,
        "memory_reserved_bytes": 638582784,
        "pcie_generation": 4,
        "pcie_generation_max": 4,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "remapped_rows": 0,
        "remapped_rows_pending": 0,
        "recovery_action": 0,
    },
}


def section(path: Path, title: str) -> str:
    """The output of a command in a capture."""
    lines = path.read_text().split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith(f"# {title}")) + 3
    return "\n".join(lines[start : lines.index("", start)])


@pytest.mark.parametrize("phase", ["idle", "load"])
@pytest.mark.parametrize("gpu", CAPTURES)
def test_a_capture_gives_this_sample(gpu: str, phase: str) -> None:
    """With MIG the utilisation is unknown; a sensor that is missing is null. Nothing else is left out."""
    counters = Counters()
    text = section(CAPTURES[gpu], f"{phase} :: query-gpu (csv")

    def run(arguments: Sequence[str]) -> Answer:
        assert arguments == ["nvidia-smi", f"--query-gpu={','.join(QUERY_COLUMNS)}", "--format=csv"]
        return Answer(0, text)

    identity = Identity({"host": "here", "cluster": None, "region": None}, {})
    collector = SmiCollector("nvidia-smi", identity, 1_000, run=run, clock=VirtualClock(), counters=counters)
    (collected,) = collector.collect(7)

    common = {"at_ms": 7, "origin": "measured", "host": "here", "cluster": None, "region": None}
    uuid = {"gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000"}
    assert collected.event is GPU_SAMPLES
    assert collected.rows == [common | uuid | LEVELS | EXPECTED[gpu, phase]]
    assert block_from_rows(GPU_SAMPLES.fields, collected.rows).rows == 1
    assert read_table(text).left_out == {}


def test_idle_and_load_of_one_gpu_are_two_readings() -> None:
    """The power limit throttled the L40S in between."""
    texts = [section(CAPTURES["nvidia-l40s"], f"{phase} :: query-gpu (csv") for phase in ("idle", "load")]
    answers = iter(texts)
    clock = VirtualClock()
    collector = SmiCollector(
        "smi", Identity({}, {}), 5_000, run=lambda _: Answer(0, next(answers)), clock=clock, counters=Counters()
    )
    collector.collect(20_000)
    clock.advance(10_000)
    (collected,) = collector.collect(30_000)

    (row,) = collected.rows
    assert {
        name: row.get(name)
        for name in ("interval_ms", "throttled_us", "throttled_fault_us", "throttled_thermal_us", "ecc_corrected")
    } == {
        "interval_ms": 10_000,
        "throttled_us": 204_642_816 - 200_740_215,
        "throttled_fault_us": 0,
        "throttled_thermal_us": 0,
        "ecc_corrected": 0,
    }


@pytest.mark.parametrize("gpu", CAPTURES)
def test_every_column_is_one_that_the_driver_names(gpu: str) -> None:
    """In its own list of columns."""
    listed = section(CAPTURES[gpu], "capabilities :: query-gpu field list").split("\n")

    assert set(QUERY_COLUMNS) <= set(listed)


def test_older_names_stand_in_the_driver_s_help() -> None:
    """As names that it still takes."""
    text = CAPTURES["nvidia-h200"].read_text()

    assert all(f'"{column.older}"' in text for column in COLUMNS.values() if column.older)


def test_every_column_feeds_a_field() -> None:
    """And every field is a column of the sample."""
    assert {source for each in SAMPLE_FIELDS for source in each.sources} == set(COLUMNS)
    assert {each.name for each in SAMPLE_FIELDS} <= {field.name for field in GPU_SAMPLES.fields}
