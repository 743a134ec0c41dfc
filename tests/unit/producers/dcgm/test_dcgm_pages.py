"""Every captured page, as whole samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from producers.collector import Identity
from producers.dcgm.collector import DcgmCollector
from producers.dcgm.fields import FIELDS, SAMPLE_FIELDS, XID, GpuOnPage, Page, read_page
from producers.differences import RowValues
from producers.engines.fetch import FetchLimits
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import GPU_SAMPLES
from tests.virtual_clock import VirtualClock

DATA = Path(__file__).parents[3] / "data" / "dcgm_scrapes"
LEVELS: RowValues = {field.name: None for field in SAMPLE_FIELDS if field.nature == "gauge"}
LEFT_OUT = {"dcgm_L40S_viettel-ai-platform": {"line: labels": 18}}
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "dcgm_8xH100_548177fd": [
        {
            "gpu_uuid": "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 113611,
            "temperature_c": 30,
        },
        {
            "gpu_uuid": "GPU-bc5610b9-79c8-fedd-8899-07539c7f868a",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 68347,
            "temperature_c": 29,
        },
        {
            "gpu_uuid": "GPU-fbc2c554-4d37-8938-0032-f923bad0f716",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 65709,
            "temperature_c": 26,
        },
        {
            "gpu_uuid": "GPU-a65a773d-52bb-bcc1-a8ee-f78c3faa2e2d",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 67316,
            "temperature_c": 29,
        },
        {
            "gpu_uuid": "GPU-82e45d1b-1618-559f-144c-eab51545030b",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 68717,
            "temperature_c": 28,
        },
        {
            "gpu_uuid": "GPU-39e28159-8c62-ee71-64db-b748edd61e15",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 65742,
            "temperature_c": 26,
        },
        {
            "gpu_uuid": "GPU-e64d69ca-b4b3-59b2-e78c-94f26c4db365",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "power_mw": 67328,
            "temperature_c": 28,
        },
        {
            "gpu_uuid": "GPU-04d228d3-3b5a-3534-f5cf-969706647d56",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "power_mw": 66997,
            "temperature_c": 26,
        },
    ],
    "dcgm_8xH100_f04acd9d": [
        {
            "gpu_uuid": "GPU-22dbdd79-f55a-92a8-aa39-322198e72ed6",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 67268,
            "temperature_c": 26,
        },
        {
            "gpu_uuid": "GPU-289275cb-a907-ab73-9a95-058ae119f62d",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 67616,
            "temperature_c": 27,
        },
        {
            "gpu_uuid": "GPU-f814846a-9bbe-469e-97c3-d037d67c3c32",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 66477,
            "temperature_c": 27,
        },
        {
            "gpu_uuid": "GPU-3cc59718-d7df-49ac-07a3-a6cedfe263c6",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 69523,
            "temperature_c": 28,
        },
        {
            "gpu_uuid": "GPU-71fc8f21-7800-5bb9-53ad-7e6fc93ef15f",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 66297,
            "temperature_c": 28,
        },
        {
            "gpu_uuid": "GPU-dee5c16e-1d0a-cec8-a9ea-f878a4be1b3d",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "power_mw": 66324,
            "temperature_c": 26,
        },
        {
            "gpu_uuid": "GPU-ca1b8386-093b-60cc-349d-c4a38b9124c0",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "power_mw": 115220,
            "temperature_c": 31,
        },
        {
            "gpu_uuid": "GPU-b60b817a-a091-c492-4211-92b276d697e6",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "util_gpu_pct": 0,
            "power_mw": 69424,
            "temperature_c": 27,
        },
    ],
    "dcgm_A100-40C_vks": [
        {
            "gpu_uuid": "GPU-0946f70c-659b-4c39-8b78-7e7600000000",
            "gpu_model": "GRID A100-40C",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "util_encoder_pct": 0,
            "util_decoder_pct": 0,
            "clock_sm_mhz": 1410,
            "clock_memory_mhz": 1215,
            "memory_used_bytes": 0,
            "memory_total_bytes": 42948624384,
            "memory_reserved_bytes": 3376414720,
        },
    ],
    "dcgm_L40S_upcloud": [
        {
            "gpu_uuid": "GPU-5b4e07f6-3a86-4340-039d-25f2a83cdc43",
            "gpu_model": "NVIDIA L40S",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "util_encoder_pct": 0,
            "util_decoder_pct": 0,
            "power_mw": 35686,
            "temperature_c": 32,
            "clock_sm_mhz": 210,
            "clock_memory_mhz": 405,
            "tensor_active_ppm": 0,
            "dram_active_ppm": 131,
            "memory_used_bytes": 0,
            "memory_total_bytes": 48304750592,
            "memory_reserved_bytes": 637534208,
            "remapped_rows": 0,
        },
    ],
    "dcgm_L40S_viettel-ai-platform": [
        {"gpu_uuid": "GPU-a8affe7e-7930-ae20-3fc6-4b0edf3ebbf3", "gpu_model": "NVIDIA L40S", "clock_sm_mhz": 210},
        {"gpu_uuid": "GPU-72ad4d20-cfed-f08d-c894-f620962ca3e4", "gpu_model": "NVIDIA L40S", "clock_sm_mhz": 210},
    ],
    "dcgm_L4_kops": [
        {
            "gpu_uuid": "GPU-c2f76b33-7953-256e-8f33-1343419b1a1c",
            "gpu_model": "NVIDIA L4",
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "util_encoder_pct": 0,
            "util_decoder_pct": 0,
            "power_mw": 16365,
            "temperature_c": 31,
            "clock_sm_mhz": 210,
            "clock_memory_mhz": 405,
            "tensor_active_ppm": 0,
            "dram_active_ppm": 0,
            "memory_used_bytes": 0,
            "memory_total_bytes": 24151851008,
            "memory_reserved_bytes": 492830720,
            "remapped_rows": 0,
        },
    ],
    "dcgm_T4_rafay": [
        {
            "gpu_uuid": "GPU-d7cbb0cd-d4bd-c2f7-dfaf-221df5e958ea",
            "gpu_model": "Tesla T4",
            "util_gpu_pct": 0,
            "util_encoder_pct": 0,
            "util_decoder_pct": 0,
            "power_mw": 14512,
            "temperature_c": 24,
            "clock_sm_mhz": 300,
            "clock_memory_mhz": 405,
            "tensor_active_ppm": 0,
            "dram_active_ppm": 1,
            "memory_used_bytes": 0,
            "memory_total_bytes": 16105078784,
            "memory_reserved_bytes": 468713472,
        },
    ],
}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.prom")), ids=lambda path: path.stem)
def test_a_captured_page_gives_these_samples(path: Path) -> None:
    """One for each GPU, in the order of the page; what the page lacks is null. Bad lines are left out."""
    counters = Counters()
    body = path.read_bytes()

    def page(url: str, limits: FetchLimits, api_key: str | None = None) -> bytes:
        return body

    identity = Identity({"host": "here", "cluster": None, "region": None}, {})
    collector = DcgmCollector("http://h/metrics", identity, 1_000, fetch=page, clock=VirtualClock(), counters=counters)
    *events, collected = collector.collect(7)

    common = {"at_ms": 7, "origin": "measured", "host": "here", "cluster": None, "region": None}
    found = [row["gpu_uuid"] for part in events for row in part.rows if row["kind"] == "gpu_found"]
    assert found == [gpu.uuid for gpu in read_page(body.decode()).gpus.values() if gpu.values.get(XID) == 0]
    assert collected.event is GPU_SAMPLES
    assert collected.rows == [common | LEVELS | gpu for gpu in EXPECTED[path.stem]]
    assert block_from_rows(GPU_SAMPLES.fields, collected.rows).rows == len(collected.rows)
    assert read_page(body.decode()).left_out == LEFT_OUT.get(path.stem, {})
    assert counters.value("sampler_errors", sampler="dcgm", field="line: labels") == sum(
        LEFT_OUT.get(path.stem, {}).values()
    )


def test_the_exporter_s_own_list_of_fields_is_mapped() -> None:
    """All but these, which feed no field of a sample."""
    text = (DATA / "default-counters.csv").read_text()
    rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    metrics = {name.strip() for name, kind, *_ in rows if kind.strip() != "label"}

    assert metrics - set(FIELDS) == {
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    }


def test_every_field_feeds_a_column_and_every_column_has_fields() -> None:
    """But for the XID, which becomes an event. Columns are those of the sample."""
    used = {source for each in SAMPLE_FIELDS for source in (*each.sources, *each.otherwise)}

    assert used | {"DCGM_FI_DEV_XID_ERRORS"} == set(FIELDS)
    assert {each.name for each in SAMPLE_FIELDS} <= {field.name for field in GPU_SAMPLES.fields}


def test_a_pod_that_holds_a_gpu_is_named() -> None:
    """Only where the page does."""
    page = read_page((DATA / "dcgm_8xH100_548177fd.prom").read_text())

    assert [gpu.holder for gpu in page.gpus.values()] == [
        "dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5 (main)",
        *[None] * 7,
    ]


def test_parts_of_a_gpu_are_apart_and_pods_that_share_one_are_not() -> None:
    """MIG: the instance behind the UUID. A sample repeated for another pod is the same sample."""
    text = """
DCGM_FI_DEV_FB_USED{UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 1
DCGM_FI_DEV_FB_USED{UUID="GPU-a"} 3
DCGM_FI_DEV_FB_USED{UUID="GPU-a",pod="one",namespace="n"} 4
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 4
DCGM_FI_PROF_PCIE_TX_BYTES{UUID="GPU-a"} 9
other{UUID="GPU-b"} 4
"""
    used = "DCGM_FI_DEV_FB_USED"

    assert read_page(text) == Page(
        {
            "GPU-a/7": GpuOnPage("GPU-a/7", None, "GPU-a", "1g.10gb", None, {used: 1_048_576}),
            "GPU-a": GpuOnPage("GPU-a", None, None, None, "n/one", {used: 3_145_728}),
        },
        {"no UUID": 1},
    )


def test_what_belongs_to_the_whole_gpu_stands_once_whichever_instance_it_is_printed_for() -> None:
    """The exporter repeats it for each MIG instance; those have memory and shares of time, and no utilisation."""
    labels = 'UUID="GPU-a",modelName="A30",GPU_I_PROFILE="1g.6gb",pod="p{0}",namespace="n",GPU_I_ID="{0}"'
    whole = {"DEV_POWER_USAGE": 52.7, "DEV_TOTAL_ENERGY_CONSUMPTION": 9, "DEV_XID_ERRORS": 31}
    values = {**whole, "DEV_GPU_UTIL": 0, "DEV_MEM_COPY_UTIL": 0, "DEV_FB_FREE": 2, "PROF_GR_ENGINE_ACTIVE": 0.5}
    lines = [f"DCGM_FI_{name}{{{labels.format(part)}}} {value}" for name, value in values.items() for part in (3, 4)]
    own = {"DCGM_FI_DEV_FB_FREE": 2_097_152, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 50}
    shared = {"DCGM_FI_DEV_POWER_USAGE": 52_700, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 9, XID: 31}

    assert read_page("\n".join(lines)).gpus == {
        "GPU-a": GpuOnPage("GPU-a", "A30", None, None, None, shared),
        "GPU-a/3": GpuOnPage("GPU-a/3", "A30", "GPU-a", "1g.6gb", "n/p3", own),
        "GPU-a/4": GpuOnPage("GPU-a/4", "A30", "GPU-a", "1g.6gb", "n/p4", own),
    }
