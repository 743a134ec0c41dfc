"""The agent on the GPU of this machine, beside what nvidia-smi says of it. ``pytest -m gpu``, where there is one."""

from __future__ import annotations

import time
from typing import Any

import pytest

from producers.agent.search import find, plans_of, setting_of
from producers.collector import Identity
from producers.gpu.collector import GpuCollector
from producers.nvidia_smi.collector import SmiCollector
from runtime.edge_config import AgentConfig, CollectorSwitches
from schemas.codec.build import block_from_rows
from schemas.events.event_types import GPU_SAMPLES

pytestmark = pytest.mark.gpu

SAME = ("gpu_model", "memory_total_bytes", "power_limit_mw", "pcie_width", "pcie_width_max", "pcie_generation_max")
"""What does not change within a second."""
ALIKE = {"temperature_c": 3, "memory_used_bytes": 256 * 2**20}
"""What may, by so much."""
IDENTITY = Identity({"host": "here", "cluster": None, "region": None}, {})


def samples(collected: Any) -> dict[str, dict[str, Any]]:
    """By GPU."""
    return {row["gpu_uuid"]: dict(row) for part in collected if part.event is GPU_SAMPLES for row in part.rows}


def test_the_driver_s_library_and_nvidia_smi_say_the_same() -> None:
    """Of every GPU that is not divided; a second reading has what grew, within what a GPU can do."""
    smi = SmiCollector("nvidia-smi", IDENTITY, 1_000)
    gpus = GpuCollector(IDENTITY, 1_000)
    try:
        first = samples(gpus.collect(8_000))
        told = samples(smi.collect(1_000))
        time.sleep(1.1)
        second = samples(gpus.collect(9_000))
    finally:
        gpus.close()

    whole = {uuid for uuid, row in first.items() if not row.get("parent_uuid")}
    assert whole == set(told)
    for uuid in whole:
        known = [name for name in SAME if first[uuid].get(name) is not None and told[uuid].get(name) is not None]
        assert {name: first[uuid][name] for name in known} == {name: told[uuid][name] for name in known}
        assert {"gpu_model", "memory_total_bytes"} <= set(known)
        for name, apart in ALIKE.items():
            assert abs(first[uuid][name] - told[uuid][name]) <= apart, name
        assert 900 <= second[uuid]["interval_ms"] <= 2_500
        assert second[uuid]["energy_mj"] is None or 0 < second[uuid]["energy_mj"] < 5_000_000
    assert block_from_rows(GPU_SAMPLES.fields, [*first.values(), *second.values()]).rows == 2 * len(first)


def test_the_agent_finds_the_gpu_by_itself() -> None:
    """As the first of the sources of samples, with the processes on it."""
    switches = dict.fromkeys(CollectorSwitches.model_fields, "off")
    switches |= dict.fromkeys(("nvml", "dcgm", "nvidia_smi", "gpu_processes"), "auto")
    setting = setting_of(AgentConfig.model_validate({"host": "here", "collectors": switches}))

    chosen = {each.name for each in find(setting) if each.chosen}

    assert chosen == {"nvml", "gpu_processes"}
    assert {plan.name for plan in plans_of(setting, find(setting))} == {"nvml", "gpu_events", "gpu_processes"}
