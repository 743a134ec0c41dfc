"""Every capture, as whole samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from producers.collector import Identity
from producers.differences import RowValues
from producers.nvidia_smi.collector import Answer, SmiError
from producers.nvidia_smi.fields import GpuLine, Table
from producers.rocm_smi.collector import RocmCollector
from producers.rocm_smi.fields import ARGUMENTS, SAMPLE_FIELDS, read_cards
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import GPU_SAMPLES
from tests.virtual_clock import VirtualClock

DATA = Path(__file__).parents[3] / "data" / "rocm_smi_captures"
LEVELS: RowValues = {field.name: None for field in SAMPLE_FIELDS if field.nature == "gauge"}
MI100 = {
    "gpu_model": "Arcturus GL-XL [Instinct MI100]",
    "util_gpu_pct": 0,
    "power_limit_mw": 290_000,
    "clock_sm_mhz": 300,
    "clock_memory_mhz": 1_200,
    "memory_total_bytes": 34_342_961_152,
    "memory_used_bytes": 6_750_208,
    "pcie_generation": 4,
    "pcie_width": 16,
}
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "mi100_rocm602": [
        MI100
        | {"gpu_uuid": f"AMD-{id}", "power_mw": power_mw, "temperature_c": edge_c, "temperature_memory_c": memory_c}
        for id, power_mw, edge_c, memory_c in (
            ("79ccd55167a2124a", 36_000, 53, 53),
            ("4edfb117a17a07d", 44_000, 55, 54),
            ("d4a9ec48d03d261d", 43_000, 54, 55),
            ("1b9dd972253c3736", 39_000, 51, 50),
        )
    ],
    "vega-20-WKS-GL-XE": [
        {
            "gpu_uuid": "AMD-2f048617326b1ea",
            "gpu_model": "Radeon Instinct MI50 32GB",
            "util_gpu_pct": 0,
            "power_mw": 26_000,
            "power_limit_mw": 225_000,
            "temperature_c": 36,
            "temperature_memory_c": 35,
            "clock_sm_mhz": 1_725,
            "clock_memory_mhz": 1_000,
            "memory_total_bytes": 34_342_961_152,
            "memory_used_bytes": 10_850_304,
            "pcie_generation": 4,
            "pcie_width": 16,
        }
    ],
    "rx6700xt_rocm612": [
        {
            "gpu_uuid": "AMD-here-0000:07:00.0",
            "gpu_model": "Navi 22 [Radeon RX 6700/6700 XT / 6800M]",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 6_000,
            "power_limit_mw": 211_000,
            "temperature_c": 45,
            "temperature_memory_c": 46,
            "clock_sm_mhz": 0,
            "clock_memory_mhz": 96,
            "memory_total_bytes": 12_868_124_672,
            "memory_used_bytes": 1_572_745_216,
            "pcie_generation": 4,
            "pcie_width": 16,
        }
    ],
}


class Program:
    """Prints what it is told to."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[str]] = []
        self.clock = VirtualClock()
        self.counters = Counters()
        identity = Identity({"host": "here", "cluster": None}, {"AMD-4edfb117a17a07d": {"engine_id": "e"}})
        self.collector = RocmCollector(
            "rocm-smi", identity, 1_000, run=self.run, clock=self.clock, counters=self.counters
        )

    def run(self, arguments: Sequence[str]) -> Answer:
        self.asked.append(arguments)
        return self.answers.pop(0)

    def rows(self) -> list[dict[str, Any]]:
        """Of the next run, 5 s later."""
        self.clock.advance(5_000)
        rows = [dict(row) for part in self.collector.collect(self.clock.now_ms()) for row in part.rows]
        assert block_from_rows(GPU_SAMPLES.fields, rows).rows == len(rows)
        return rows


@pytest.mark.parametrize("name", EXPECTED)
def test_a_capture_gives_these_samples(name: str) -> None:
    """One for each card; what it does not tell is null, and a card without an id is known by host and bus."""
    program = Program(Answer(0, (DATA / f"{name}.json").read_text()))

    rows = program.rows()

    common = {"at_ms": program.clock.now_ms(), "origin": "measured", "host": "here", "cluster": None}
    placed = [{"engine_id": "e"} if each["gpu_uuid"] == "AMD-4edfb117a17a07d" else {} for each in EXPECTED[name]]
    assert rows == [common | LEVELS | each | place for each, place in zip(EXPECTED[name], placed, strict=True)]
    assert program.asked == [["rocm-smi", *ARGUMENTS]]
    assert (program.collector.name, program.collector.period_ms) == ("rocm_smi", 5_000)
    assert program.counters.value("sampler_errors", sampler="rocm_smi", field="card") == 0


def test_replays_are_what_was_counted_since_the_run_before() -> None:
    """The only counter."""
    text = (DATA / "vega-20-WKS-GL-XE.json").read_text()
    more = text.replace('"PCIe Replay Count": "0"', '"PCIe Replay Count": "7"')
    program = Program(Answer(0, text), Answer(0, more))
    program.rows()

    (row,) = program.rows()

    assert (row["pcie_replays"], row["interval_ms"]) == (7, 5_000)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("", Table((), {"no JSON": 1})),
        ("ERROR: no AMD GPU", Table((), {"no JSON": 1})),
        ('WARNING: low power\n{"card0": {"PCI Bus": "b"}}', Table((GpuLine("AMD-h-b", None, {}),), {})),
        ('{"card0": {"GPU use (%)": "5"}, "card1": 7, "system": {}}', Table((), {"card": 1})),
        (
            '{"card0": {"Unique ID": "0x1", "GPU use (%)": "N/A", "pcie clock level": "1 (9.0GT/s x8)"}}',
            Table((GpuLine("AMD-1", None, {"pcie_width": 8}),), {"pcie_generation": 1}),
        ),
    ],
    ids=["nothing", "no JSON", "a warning before it", "a card that nothing identifies", "a value that cannot be"],
)
def test_what_cannot_be_read_is_left_out_and_counted(text: str, table: Table) -> None:
    """The rest of the card is there."""
    assert read_cards(text, "h") == table


def test_power_and_temperature_of_an_mi300_are_printed_under_names_of_their_own() -> None:
    """They count where the others have no value; a card that prints both keeps to the first."""
    socket, package = "Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"
    edge, junction = "Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)"
    cards = {
        "card0": {"Unique ID": "0x1", socket: "133.0", edge: "N/A", junction: "42.0"},
        "card1": {"Unique ID": "0x2", package: "90.0", socket: "133.0", edge: "40.0", junction: "42.0"},
    }

    table = read_cards(orjson.dumps(cards).decode(), "h")

    assert [gpu.values for gpu in table.gpus] == [
        {"power_mw": 133_000, "temperature_c": 42},
        {"power_mw": 90_000, "temperature_c": 40},
    ]
    assert table.left_out == {}


def test_the_partitions_of_a_gpu_are_one_gpu() -> None:
    """An Instinct in CPX mode: each is a card with the GPU's id, and the first has its values."""
    cards = {
        "card0": {"Unique ID": "0x1", "GPU use (%)": "9", "VRAM Total Memory (B)": "7"},
        "card1": {"Unique ID": "0x1", "GPU use (%)": "N/A", "VRAM Total Memory (B)": "7"},
        "card2": {"Unique ID": "0x2", "GPU use (%)": "8"},
    }

    table = read_cards(orjson.dumps(cards).decode(), "h")

    assert [(gpu.uuid, gpu.values.get("util_gpu_pct")) for gpu in table.gpus] == [("AMD-1", 9), ("AMD-2", 8)]
    assert table.left_out == {}


def test_a_program_that_fails_is_counted_and_at_last_an_error() -> None:
    """As nvidia-smi's."""
    program = Program(*[Answer(1, "no driver")] * 10)
    for _ in range(9):
        assert program.rows() == []

    with pytest.raises(SmiError, match="ended with 1: no driver"):
        program.rows()
