from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from producers.agent.exposition import EXPOSED, KEYS, LABELS, exposed
from producers.collector import Collected
from runtime.counters import Counters
from runtime.edge_config import ExpositionConfig
from schemas.events.event_types import ENGINE_SAMPLES, GPU_EVENTS, GPU_SAMPLES, HOST_SAMPLES

EVENTS = {event.topic: event for event in (GPU_SAMPLES, ENGINE_SAMPLES, HOST_SAMPLES)}
ON = ExpositionConfig(enabled=True, stale_ms=1_000, series_max=2)
PLACE = {"cluster": "c", "region": "", "host": "h"}
GPU = {"gpu_uuid": "GPU-1", "gpu_model": "H100", "engine_id": "e", "placement_group": "", "workload": "inference"}


def gpu(at_ms: int, uuid: str = "GPU-1", **values: Any) -> Collected:
    row = GPU | {"cluster": "c", "host": "h", "placement_group": None, "at_ms": at_ms, "gpu_uuid": uuid}
    return Collected(GPU_SAMPLES, [row | values])


def shown(counters: Counters) -> dict[str, list[tuple[dict[str, str], float]]]:
    families = text_string_to_metric_families(counters.render().decode())
    return {
        sample.name: [(one.labels, one.value) for one in family.samples if one.name == sample.name]
        for family in families
        for sample in family.samples
    }


def test_the_last_reading_is_shown_in_base_units() -> None:
    """With the GPU's, the engine's and the host's names; what is unknown is not shown."""
    counters = Counters()
    with exposed(ON, lambda: 5_000, counters) as take:
        take([gpu(4_000, power_mw=1), gpu(5_000, power_mw=350_500, util_gpu_pct=93, clock_sm_mhz=1_980)])
        found = shown(counters)

    labels = GPU | PLACE
    assert found == {
        "fleetpulse_gpu_power_watts": [(labels, 350.5)],
        "fleetpulse_gpu_utilization_ratio": [(labels, 0.93)],
        "fleetpulse_gpu_sm_clock_hertz": [(labels, 1.98e9)],
    }
    assert shown(counters) == {}


def test_differences_add_up() -> None:
    """To a counter, under the labels of the last reading; a difference that is unknown adds nothing."""
    counters = Counters()
    with exposed(ON, lambda: 3_000, counters) as take:
        for at_ms, energy_mj, engine_id in ((1_000, 1_500, "e"), (2_000, None, "e"), (3_000, 250, "f")):
            take([gpu(at_ms, energy_mj=energy_mj, engine_id=engine_id)])
        found = shown(counters)

    assert found == {"fleetpulse_gpu_energy_joules_total": [(GPU | PLACE | {"engine_id": "f"}, 1.75)]}


def test_an_engine_shows_its_queue_and_its_cache() -> None:
    """What an autoscaler looks at; topics that are not exposed are passed over."""
    counters = Counters()
    row = {"at_ms": 1, "host": "h", "engine_id": "e", "model": "m", "running": 3, "waiting": 9, "kv_used_ppm": 870_000}
    with exposed(ON, lambda: 1, counters) as take:
        take([Collected(ENGINE_SAMPLES, [row]), Collected(GPU_EVENTS, [{"at_ms": 1}])])
        found = shown(counters)

    labels = PLACE | {"cluster": "", "engine_id": "e", "model": "m", "placement_group": ""}
    assert found == {
        "fleetpulse_engine_requests_running": [(labels, 3)],
        "fleetpulse_engine_requests_waiting": [(labels, 9)],
        "fleetpulse_engine_kv_cache_used_ratio": [(labels, 0.87)],
    }


def test_what_is_gone_has_no_value() -> None:
    """One reading at the bound is shown, one beyond is not."""
    counters, now_ms = Counters(), [2_000]
    with exposed(ON, lambda: now_ms[0], counters) as take:
        take([gpu(1_000, power_mw=1_000)])
        at_the_bound = shown(counters)
        now_ms[0] = 2_001
        beyond = shown(counters)

    assert [list(at_the_bound), list(beyond)] == [["fleetpulse_gpu_power_watts"], []]


def test_the_number_of_series_is_bounded() -> None:
    """One too many is left out and counted, until one that is gone leaves room."""
    counters, now_ms = Counters(), [1_000]
    with exposed(ON, lambda: now_ms[0], counters) as take:
        for uuid in ("a", "b", "c"):
            take([gpu(1_000, uuid, power_mw=1_000)])
        full = [labels["gpu_uuid"] for labels, _ in shown(counters)["fleetpulse_gpu_power_watts"]]
        now_ms[0] = 3_000
        take([gpu(3_000, "c", power_mw=1_000)])
        later = [labels["gpu_uuid"] for labels, _ in shown(counters)["fleetpulse_gpu_power_watts"]]

    assert (full, later) == (["a", "b"], ["c"])
    assert counters.value("agent_exposition_dropped", topic="gpu.samples") == 1


def test_nothing_is_kept_where_it_is_off() -> None:
    """The default."""
    counters = Counters()
    with exposed(ExpositionConfig(), lambda: 1, counters) as take:
        take([gpu(1, power_mw=1_000)])

        assert shown(counters) == {}


@pytest.mark.parametrize("topic", EXPOSED)
def test_the_table_names_fields_of_the_topic(topic: str) -> None:
    """Its labels and keys too; no two metrics have one name."""
    fields = {each.name for each in EVENTS[topic].fields}
    names = [one.name for fields in EXPOSED.values() for one in fields]

    assert {one.field for one in EXPOSED[topic]} | set(LABELS[topic]) | set(KEYS[topic]) <= fields
    assert len(set(names)) == len(names)
