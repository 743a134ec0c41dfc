from __future__ import annotations

import logging
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pynvml
import pytest

from producers.engines.placement import Placement
from producers.gpu.sampler import SCAN_MS, NvmlSampler
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.machine_events import GPU_EVENTS, GPU_SAMPLES
from tests.fake_nvml import NOT_SUPPORTED, Error, FakeNvml, gpus_of, installed, mig
from tests.unit.producers.gpu.conftest import LABELS, Open
from tests.virtual_clock import VirtualClock

ENERGY = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION

FIRST = {
    "mock_a100": {
        "gpu_model": "NVIDIA A100-SXM4-40GB",
        "power_mw": 72_000,
        "power_limit_mw": 400_000,
        "temperature_c": 33,
        "temperature_margin_c": 54,
        "clock_sm_mhz": 210,
        "clock_memory_mhz": 210,
        "memory_total_bytes": 42_949_672_960,
        "pcie_generation": 4,
    },
    "mock_h100": {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "power_mw": 95_000,
        "power_limit_mw": 700_000,
        "temperature_c": 34,
        "temperature_margin_c": 53,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 345,
        "memory_total_bytes": 85_899_345_920,
        "pcie_generation": 5,
    },
    "mock_b200": {
        "gpu_model": "NVIDIA B200",
        "power_mw": 130_000,
        "power_limit_mw": 1_000_000,
        "temperature_c": 35,
        "temperature_margin_c": 55,
        "clock_sm_mhz": 345,
        "clock_memory_mhz": 345,
        "memory_total_bytes": 206_158_430_208,
        "pcie_generation": 6,
    },
}
"""What differs between the recorded models."""
IDLE = {
    "origin": "measured",
    "gpu_uuid": "GPU-00000000",
    **LABELS,
    "util_gpu_pct": 0,
    "util_memory_pct": 0,
    "util_encoder_pct": 0,
    "util_decoder_pct": 0,
    "memory_used_bytes": 0,
    "memory_reserved_bytes": 0,
    "pcie_width": 16,
    "performance_state": 0,
    "remapped_rows": 0,
    "remapped_rows_pending": 0,
    "clock_reasons": 1,
}
SLOW = (
    "util_encoder_pct",
    "util_decoder_pct",
    "temperature_margin_c",
    "clock_memory_mhz",
    "pcie_generation",
    "pcie_width",
    "performance_state",
    "remapped_rows",
    "remapped_rows_pending",
)
GROWN = {
    "interval_ms": 1_000,
    "energy_mj": None,
    "throttled_us": None,
    "throttled_power_us": None,
    "ecc_uncorrected": 0,
    "ecc_corrected": None,
    "pcie_replays": None,
}


@pytest.mark.parametrize("model", FIRST)
def test_a_first_sample_has_levels_and_no_differences(open_on: Open, model: str) -> None:
    """The fields of each recorded model in our units; what needs two readings is not there."""
    samples, events = open_on(gpus_of(model)).sample()

    assert events == []
    assert samples == [{"at_ms": 1_000, **IDLE, **FIRST[model]}]


@pytest.mark.parametrize("model", FIRST)
def test_a_second_sample_has_differences_and_no_slow_fields(open_on: Open, model: str) -> None:
    """What changes slowly is read once in ten seconds and null between, and so are counters that are dear; the power
    limit is in every sample."""
    host = open_on(gpus_of(model))
    host.sample()

    samples, _ = host.sample()

    assert samples == [{"at_ms": 2_000, **IDLE, **FIRST[model], **dict.fromkeys(SLOW), **GROWN}]


def test_slow_fields_come_once_in_every_window(open_on: Open) -> None:
    """Spread over the GPUs, so that no second is dearer than the others."""
    host = open_on(gpus_of("mock_h100", 4))

    seen = [[row["performance_state"] is not None for row in host.sample()[0]] for _ in range(31)]

    assert [sum(gpu) for gpu in zip(*seen[1:], strict=True)] == [3, 3, 3, 3]
    assert max(sum(second) for second in seen[1:]) == 1


def test_a_sample_has_what_the_engines_on_the_gpu_may_take(open_on: Open) -> None:
    """Of its memory; null where no engine reports it, and of a GPU that does not report its memory."""
    gpus = gpus_of("mock_h100", 3)
    gpus[2].calls["nvmlDeviceGetMemoryInfo"] = Error(NOT_SUPPORTED)
    shares = {gpus[0].uuid: 920_000, gpus[2].uuid: 920_000}

    rows, _ = open_on(gpus, reserved_ppm=shares.get).sample()

    assert [row.get("memory_engine_bytes") for row in rows] == [85_899_345_920 * 92 // 100, None, None]


def test_dear_counters_come_whole_with_the_last_sample_of_a_window(open_on: Open) -> None:
    """What grew in it; null before, never 0 and never twice; of calls as of fields."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    gpu.calls["nvmlDeviceGetPcieReplayCounter"], gpu.fields[ENERGY] = 7, 600_900

    rows = [host.sample()[0][0] for _ in range(28)]

    assert [row["at_ms"] for row in rows] == [1_000 * at for at in range(2, 30)]
    for name, grown in (("pcie_replays", 7), ("energy_mj", 900)):
        assert {row["at_ms"]: row[name] for row in rows if row[name] is not None} == {
            9_000: grown,
            19_000: 0,
            29_000: 0,
        }


@pytest.mark.parametrize(
    ("period_ms", "jitter_ms"),
    [(1_000, 0), (1_000, 7), (250, 3), (2_000, 4), (5_000, 9), (10_000, 5), (16_000, 6)],
)
def test_energy_of_windows_adds_up_to_what_the_counter_moved(open_on: Open, period_ms: int, jitter_ms: int) -> None:
    """At any period, to the millijoule: and each window has that of the time its rows cover."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu], now_ms=10_000_000)
    host.sample(period_ms)
    begin_mj = gpu.fields[ENERGY] = 600_000
    first_ms, covered_ms, windows, seen_mj = host.clock.now_ms(), dict[int, int](), dict[int, int](), begin_mj
    for number in range(1, 160_000 // period_ms):
        after_ms = first_ms + number * period_ms + number * 7919 % (jitter_ms + 1) - host.clock.now_ms()
        gpu.fields[ENERGY] += after_ms * 3
        for row in host.sample(after_ms)[0]:
            window = row["at_ms"] // 10_000
            covered_ms[window] = covered_ms.get(window, 0) + row["interval_ms"]
            if row["energy_mj"] is not None:
                windows[window], seen_mj = windows.get(window, 0) + row["energy_mj"], gpu.fields[ENERGY]

    assert sum(windows.values()) == seen_mj - begin_mj
    assert windows.keys() >= set(list(covered_ms)[:-1])
    assert all(windows[window] == 3 * covered_ms[window] for window in list(windows)[:-1])


def test_a_window_whose_last_sample_was_left_out_gets_its_share(open_on: Open) -> None:
    """By time, in a row of its own that covers no further time: the next window has no more than is its own."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    rows = [host.sample(at_ms - host.clock.now_ms())[0] for at_ms in (9_000, *range(10_000, 19_000, 1_000))]
    gpu.fields[ENERGY] = 611_000

    rows += [host.sample(2_000)[0], *(host.sample()[0] for _ in range(9))]

    known = [
        (row["at_ms"], row["interval_ms"], row["energy_mj"])
        for each in rows[1:]
        for row in each
        if row["energy_mj"] is not None
    ]
    assert known == [(19_999, 0, 9_000), (20_000, 2_000, 2_000), (29_000, 1_000, 0)]


def test_a_link_that_lost_lanes_is_seen_beside_what_it_could_have(open_on: Open) -> None:
    """Width and generation now, and the most that GPU and slot allow."""
    (gpu,) = gpus_of("mock_h100")
    gpu.calls |= {
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    }

    ((row,), _) = open_on([gpu]).sample()

    assert (row["pcie_width"], row["pcie_width_max"]) == (8, 16)
    assert (row["pcie_generation"], row["pcie_generation_max"]) == (5, 5)


def test_energy_is_the_difference_of_two_readings(open_on: Open) -> None:
    """Each GPU against its own reading before."""
    gpus = gpus_of("mock_h100", 2)
    host = open_on(gpus)
    host.sample()
    gpus[0].fields[ENERGY], gpus[1].fields[ENERGY] = 600_700, 600_090
    gpus[1].fields[pynvml.NVML_FI_DEV_PERF_POLICY_POWER] = 3_000

    samples, _ = host.sample(8_000)

    assert [row["energy_mj"] for row in samples] == [700, 90]
    assert [row["throttled_us"] for row in samples] == [0, 3]
    assert [row["throttled_power_us"] for row in samples] == [0, 3]
    assert [row["interval_ms"] for row in samples] == [8_000, 8_000]


@pytest.mark.parametrize("model", FIRST)
def test_rows_of_every_model_fit_the_field_table(open_on: Open, model: str) -> None:
    """They can be encoded, and hold no name that the event does not know."""
    host = open_on(gpus_of(model, 8))
    known = {field.name for field in GPU_SAMPLES.fields}

    for _ in range(2):
        samples, _ = host.sample()
        assert block_from_rows(GPU_SAMPLES.fields, samples).rows == 8
        assert {name for row in samples for name in row} <= known


def test_what_a_gpu_does_not_support_is_null_and_not_read_again(
    open_on: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once, in one line for all GPUs, with the reason; other fields are read as ever."""
    gpus = gpus_of("mock_h100", 2)
    for gpu in gpus:
        gpu.calls["nvmlDeviceGetUtilizationRates"] = Error(NOT_SUPPORTED)
    with caplog.at_level(logging.INFO):
        host = open_on(gpus)
        host.sample()
    gpus[0].called.clear()

    (row, _), _ = host.sample()

    assert "util_gpu_pct" not in row
    assert row["power_mw"] == 95_000
    assert "nvmlDeviceGetUtilizationRates" not in gpus[0].called
    (line,) = [vars(record) for record in caplog.records if record.message == "sampling GPUs"]
    assert (line["gpus"], line["driver"], line["models"]) == (2, "580.65.06", "NVIDIA H100 80GB HBM3")
    assert line["null"].count("util_gpu_pct not supported by the GPU") == 1


def test_a_better_source_is_read_where_the_gpu_has_it(open_on: Open) -> None:
    """Field 185 instead of the call for power; field 83 instead of the call for energy."""
    (gpu,) = gpus_of("mock_h100")
    gpu.fields[pynvml.NVML_FI_DEV_POWER_AVERAGE] = 94_500
    host = open_on([gpu])

    (row,), _ = host.sample()

    assert row["power_mw"] == 94_500
    assert {"nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"}.isdisjoint(gpu.called)


def test_one_reading_makes_few_calls(open_on: Open) -> None:
    """All fields together are one call; each call costs the host some 50 us."""
    (gpu,) = gpus_of("mock_h100")
    gpu.gpm = dict.fromkeys((2, 3, 5, 10, 20, 21), 1.0)
    gpu.fields |= dict.fromkeys((3, 4, 94, 142, 143, 144, 145, 185, 186), 0)
    host = open_on([gpu])
    host.sample()
    host.sample()
    gpu.called.clear()

    host.sample()

    assert sorted(gpu.called) == [
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetUtilizationRates",
        "nvmlGpmSampleGet",
    ]


def test_a_passing_failure_is_null_once(open_on: Open) -> None:
    """It is read again, and counters go on from the last known reading before it."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    gpu.calls["nvmlDeviceGetPowerUsage"] = Error(pynvml.NVML_ERROR_TIMEOUT)
    gpu.fields[ENERGY] = Error(pynvml.NVML_ERROR_TIMEOUT)

    (failed,), _ = host.sample(8_000)
    gpu.calls["nvmlDeviceGetPowerUsage"], gpu.fields[ENERGY] = 1_000, 600_900
    (shared, again), _ = host.sample(10_000)

    assert (failed["power_mw"], failed["energy_mj"]) == (None, None)
    assert (shared["at_ms"], shared["interval_ms"], shared["energy_mj"]) == (9_999, 1_000, 450)
    assert (again["at_ms"], again["power_mw"], again["energy_mj"]) == (19_000, 1_000, 450)
    assert host.counters.value("sampler_errors", sampler="nvml", field="power") == 1


def test_a_lost_gpu_is_one_event_and_its_return_another(open_on: Open) -> None:
    """While it is lost there is no sample; afterwards differences restart."""
    lost, fine = gpus_of("mock_h100", 2)
    host = open_on([lost, fine])
    host.sample()
    lost.lost = pynvml.NVML_ERROR_GPU_IS_LOST

    seen = [host.sample() for _ in range(2)]
    lost.lost = 0
    back, events = host.sample()

    assert [[row["gpu_uuid"] for row in samples] for samples, _ in seen] == [[fine.uuid], [fine.uuid]]
    assert [events for _, events in seen] == [
        [
            {
                "at_ms": 2_000,
                "origin": "measured",
                "gpu_uuid": lost.uuid,
                "gpu_model": "NVIDIA H100 80GB HBM3",
                **LABELS,
                "kind": "gpu_lost",
                "severity": "critical",
                "action": "reboot_node",
                "message": "the GPU does not answer: the GPU has fallen off the bus or is not accessible",
            }
        ],
        [],
    ]
    assert [(row["kind"], row["at_ms"], row["severity"]) for row in events] == [("gpu_found", 4_000, "info")]
    assert [("energy_mj" in row) for row in back] == [False, True]
    assert block_from_rows(GPU_EVENTS.fields, seen[0][1] + events).rows == 2


@pytest.fixture
def others() -> frozenset[threading.Thread]:
    """Threads that earlier tests have left."""
    return frozenset(threading.enumerate())


def test_a_gpu_that_hangs_is_reported_and_does_not_take_the_others_with_it(
    open_on: Open, others: frozenset[threading.Thread]
) -> None:
    """It is left behind once, not read again, and found when its call comes back; its energy is not lost."""
    first, hangs, last = gpus_of("mock_h100", 3)
    host = open_on([first, hangs, last], limit_s=0.3)
    host.sample()
    hangs.hangs = threading.Event()
    hangs.called.clear()

    seen = [host.sample() for _ in range(3)]
    called = list(hangs.called)
    hangs.fields[ENERGY] = 600_300
    release, hangs.hangs = hangs.hangs, None
    release.set()
    _join_left_behind(others)
    back, events = host.sample(5_000)

    assert [[row["gpu_uuid"] for row in samples] for samples, _ in seen] == [[first.uuid, last.uuid]] * 3
    assert [[(row["kind"], row["severity"], row["gpu_uuid"]) for row in events] for _, events in seen] == [
        [("gpu_unresponsive", "critical", hangs.uuid)],
        [],
        [],
    ]
    assert called == ["nvmlDeviceGetUtilizationRates"]
    assert [row["gpu_uuid"] for row in back] == [first.uuid, hangs.uuid, last.uuid]
    assert (back[1]["energy_mj"], back[1]["interval_ms"]) == (300, 8_000)
    assert [(row["kind"], row["gpu_uuid"]) for row in events] == [("gpu_found", hangs.uuid)]


def test_samples_of_a_lost_gpu_are_freed_once(open_on: Open) -> None:
    """Its activity's, each time it is found and then does not answer."""
    (gpu,) = gpus_of("mock_h100")
    gpu.gpm = {2: 1.0}
    host = open_on([gpu])
    host.sample()
    gpu.calls["nvmlDeviceGetUtilizationRates"] = Error(pynvml.NVML_ERROR_GPU_IS_LOST)

    for _ in range(5):
        host.sample()

    calls = host.library.calls
    assert calls["nvmlGpmSampleAlloc"] > 2
    assert calls["nvmlGpmSampleFree"] == calls["nvmlGpmSampleAlloc"]


def test_samples_of_a_gpu_that_is_divided_are_freed(open_on: Open) -> None:
    """It is read anew, since it supports other fields than before."""
    (gpu,) = gpus_of("mock_h100")
    gpu.gpm = {2: 1.0}
    host = open_on([gpu])
    host.sample()
    allocated = host.library.calls["nvmlGpmSampleAlloc"]
    mig(gpu, "1g.10gb")
    host.sample(SCAN_MS)

    assert host.sampler.gpu_uuids == (gpu.uuid, "MIG-00000000-0")
    assert (allocated > 0, host.library.calls["nvmlGpmSampleFree"]) == (True, allocated)


def test_a_lost_gpu_that_hangs_now_and_then_is_lost_once(open_on: Open, others: frozenset[threading.Thread]) -> None:
    """Until it answers."""
    gpu, fine = gpus_of("mock_h100", 2)
    host = open_on([gpu, fine], limit_s=0.3)
    host.sample()
    seen = list[str]()
    for _ in range(2):
        gpu.lost = pynvml.NVML_ERROR_GPU_IS_LOST
        seen += [row["kind"] for row in host.sample()[1]]
        release = gpu.hangs = threading.Event()
        gpu.lost = 0
        seen += [row["kind"] for row in host.sample()[1]]
        gpu.hangs = None
        release.set()
        _join_left_behind(others)
    samples, events = host.sample()

    assert seen == ["gpu_lost"]
    assert [row["kind"] for row in events] == ["gpu_found"]
    assert [row["gpu_uuid"] for row in samples] == [gpu.uuid, fine.uuid]


def test_a_gpu_that_hangs_from_the_start_hides_no_other(
    open_on: Open, others: frozenset[threading.Thread], caplog: pytest.LogCaptureFixture
) -> None:
    """It has no name yet: that is logged, and it is found when it answers."""
    hangs, fine = gpus_of("mock_h100", 2)
    release = hangs.hangs = threading.Event()
    host = open_on([hangs, fine], limit_s=0.3)
    at_first, _ = host.sample()
    hangs.hangs = None
    release.set()
    _join_left_behind(others)

    _, events = host.sample(60_000)
    samples, _ = host.sample()

    assert [row["gpu_uuid"] for row in at_first] == [fine.uuid]
    assert "GPU not responding, not sampled" in [record.message for record in caplog.records]
    assert [(row["kind"], row["gpu_uuid"]) for row in events] == [("gpu_found", hangs.uuid)]
    assert [row["gpu_uuid"] for row in samples] == [fine.uuid, hangs.uuid]


def _join_left_behind(others: frozenset[threading.Thread]) -> None:
    """Wait for the threads that hung; the one that reads now waits for work and stays."""
    readers = [thread for thread in threading.enumerate() if thread.name == "gpu-reader" and thread not in others]
    for thread in readers[:-1]:
        thread.join(5)


@pytest.mark.parametrize("away_ms", [1_000, 4_000, 7_000, 25_000])
def test_energy_of_a_window_survives_a_kill_in_it(open_on: Open, tmp_path: Path, away_ms: int) -> None:
    """The agent after it makes up for all that was not emitted yet, each window by its time; nothing comes twice."""
    (gpu,) = gpus_of("mock_h100")
    clock, memory = VirtualClock(18_000), tmp_path / "counters"
    windows, covered_ms = Counter[int](), Counter[int]()
    for first_ms, readings in ((1_000, 6), (away_ms, 20)):
        agent = open_on([gpu], memory=memory, clock=clock)
        for after_ms in (first_ms, *[1_000] * (readings - 1)):
            gpu.fields[ENERGY] += 3 * after_ms
            for row in agent.sample(after_ms)[0]:
                window = row["at_ms"] // 10_000
                covered_ms[window] += row.get("interval_ms") or 0
                windows[window] += row.get("energy_mj") or 0
    whole = sorted(covered_ms)[1 : -1 if clock.now_ms() % 10_000 != 9_000 else None]

    assert len(whole) >= 2
    assert [windows[window] for window in whole] == [3 * covered_ms[window] for window in whole]


def test_a_driver_that_was_loaded_again_counts_from_nothing(open_on: Open) -> None:
    """What its counter shows is what was used since."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    gpu.fields[ENERGY] = 250

    (row,), _ = host.sample(8_000)

    assert row["energy_mj"] == 250


def test_a_library_that_was_shut_down_is_opened_again_at_once(open_on: Open) -> None:
    """One sample is missed; the restart is an event of every GPU."""
    gpus = gpus_of("mock_h100", 2)
    host = open_on(gpus)
    host.sample()
    host.library.gone = pynvml.NVML_ERROR_UNINITIALIZED

    missed, events = host.sample()
    samples, more = host.sample()

    assert missed == []
    assert [(row["kind"], row["gpu_uuid"], row["action"]) for row in events] == [
        ("driver_restart", gpus[0].uuid, "watch"),
        ("driver_restart", gpus[1].uuid, "watch"),
    ]
    assert (len(samples), more) == (2, [])
    assert [row["interval_ms"] for row in samples] == [2_000, 2_000]


def test_a_driver_that_is_away_loses_every_gpu_until_it_is_back(open_on: Open) -> None:
    """With another version: the event says so."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    host.library.gone = host.library.init = pynvml.NVML_ERROR_DRIVER_NOT_LOADED

    seen = [host.sample() for _ in range(2)]
    host.library.init, host.library.driver = 0, "590.48.01"
    samples, events = host.sample()

    assert [[row["kind"] for row in events] for _, events in seen] == [["gpu_lost"], []]
    assert [rows for rows, _ in seen] == [[], []]
    assert [(row["kind"], row["message"]) for row in events] == [
        ("driver_restart", "the driver was restarted: 580.65.06, now 590.48.01"),
        ("gpu_found", "the GPU answers again"),
    ]
    assert len(samples) == 1


def test_a_driver_that_is_away_is_logged_once_with_what_helps(open_on: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Mostly packages were updated, and the module of before is loaded still: a start of the agent does not help."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    host.library.gone = host.library.init = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with caplog.at_level(logging.WARNING):
        (lost,), _ = (host.sample()[1] for _ in range(2))

    why = "library and its kernel module differ (an update): reload the module or reboot the host, then"
    assert [vars(each)["why"] for each in caplog.records if each.message == "driver not responding, retrying"] == [
        lost["message"].removeprefix("the GPU does not answer: ")
    ]
    assert (lost["kind"], why in lost["message"]) == ("gpu_lost", True)


def test_counters_are_remembered_over_a_restart_of_the_agent(open_on: Open, tmp_path: Path) -> None:
    """The first sample of the new process has the energy since the last one of the old."""
    (gpu,) = gpus_of("mock_h100")
    memory, clock = tmp_path / "counters.json", VirtualClock(1_000_000)
    open_on([gpu], memory=memory, clock=clock).sample()
    gpu.fields[ENERGY] = 602_000

    (row,), events = open_on([gpu], memory=memory, clock=clock).sample(4_000)

    assert (row["energy_mj"], row["interval_ms"]) == (2_000, 4_000)
    assert events == []


def test_a_gap_over_the_edge_of_a_window_is_split_there(open_on: Open, tmp_path: Path) -> None:
    """Every row but the last holds differences only, and they add up."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu], now_ms=1_000_006_000)
    host.sample()
    gpu.fields[ENERGY] = 601_001

    samples, _ = host.sample(15_000)

    assert [(row["at_ms"], row["interval_ms"], row["energy_mj"]) for row in samples] == [
        (1_000_009_999, 3_000, 200),
        (1_000_019_999, 10_000, 667),
        (1_000_022_000, 2_000, 134),
    ]
    assert [("power_mw" in row) for row in samples] == [False, False, True]
    assert {row["gpu_uuid"] for row in samples} == {gpu.uuid}


def test_a_driver_that_changed_while_nobody_looked_is_reported(open_on: Open, tmp_path: Path) -> None:
    """Its counters are not compared."""
    (gpu,) = gpus_of("mock_h100")
    memory, clock = tmp_path / "counters.json", VirtualClock(1_000_000)
    open_on([gpu], memory=memory, clock=clock).sample()
    library = FakeNvml([gpu])
    library.driver = "590.48.01"
    with installed(library):
        sampler = NvmlSampler.open(LABELS, memory=memory, clock=clock, counters=Counters())
        assert sampler is not None
        (row,), events = sampler.sample(1_005_000)

    assert "energy_mj" not in row
    assert [(event["kind"], event["message"]) for event in events] == [
        ("driver_restart", "the driver was restarted: 580.65.06, now 590.48.01")
    ]


def test_an_older_driver_is_called_by_older_names(open_on: Open) -> None:
    """Functions that came later have a predecessor; version 1 of the memory call knows nothing of reserved."""
    missing = (
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetFieldValues",
        "nvmlGpmQueryDeviceSupport",
    )
    host = open_on(gpus_of("mock_h100"), missing)

    (row,), _ = host.sample()
    (later,), _ = host.sample(8_000)

    assert (row["temperature_c"], row["memory_total_bytes"], row["clock_reasons"]) == (34, 85_899_345_920, 1)
    assert "memory_reserved_bytes" not in row
    assert later["energy_mj"] == 0


def test_mig_instances_are_series_of_their_own(open_on: Open) -> None:
    """With their parent and profile; GPM is the only utilisation they have, and needs two readings."""
    (gpu,) = gpus_of("mock_h100")
    mig(gpu, "1g.10gb", "1c.3g.40gb")
    host = open_on([gpu], placement={gpu.uuid: {"engine_id": "engine-7"}, "MIG-00000000-1": {"engine_id": "engine-8"}})
    host.sample()

    samples, _ = host.sample()

    instance: dict[str, Any] = {
        "at_ms": 2_000,
        "interval_ms": 1_000,
        "origin": "measured",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "parent_uuid": gpu.uuid,
        **LABELS,
        "memory_used_bytes": 2**30,
        "memory_total_bytes": 10 * 2**30,
        "memory_reserved_bytes": 2**20,
    }
    assert samples[1:] == [
        instance
        | {
            "gpu_uuid": "MIG-00000000-0",
            "mig_profile": "1g.10gb",
            "sm_active_ppm": 125_000,
            "engine_id": "engine-7",
        },
        instance
        | {
            "gpu_uuid": "MIG-00000000-1",
            "mig_profile": "1c.3g.40gb",
            "sm_active_ppm": 250_000,
            "engine_id": "engine-8",
        },
    ]
    assert samples[0]["gpu_uuid"] == gpu.uuid
    assert "parent_uuid" not in samples[0]
    assert block_from_rows(GPU_SAMPLES.fields, samples).rows == 3


def test_instances_that_come_and_go_are_noticed(open_on: Open) -> None:
    """Within a minute: no fault, only information."""
    (gpu,) = gpus_of("mock_h100")
    mig(gpu, "1g.10gb", "2g.20gb")
    host = open_on([gpu])
    host.sample()
    (gone, _), gpu.instances = gpu.instances, gpu.instances[1:]
    assert isinstance(gone, type(gpu))
    gone.lost = pynvml.NVML_ERROR_NOT_FOUND

    samples, events = host.sample()
    after, more = host.sample()

    assert [row["gpu_uuid"] for row in samples] == [gpu.uuid, "MIG-00000000-1"]
    assert [(row["kind"], row["severity"], row["gpu_uuid"]) for row in events] == [("gpu_lost", "info", gone.uuid)]
    assert (len(after), more) == (2, [])
    assert host.sampler.gpu_uuids == (gpu.uuid, "MIG-00000000-1")


def test_instances_outlive_a_scan_in_which_they_could_not_be_listed(open_on: Open) -> None:
    """Their counters go on; no event."""
    (gpu,) = gpus_of("mock_h100")
    mig(gpu, "1g.10gb", "2g.20gb")
    host = open_on([gpu])
    host.sample()
    mode, gpu.calls["nvmlDeviceGetMigMode"] = gpu.calls["nvmlDeviceGetMigMode"], Error(pynvml.NVML_ERROR_UNKNOWN)
    _, events = host.sample(60_000)
    gpu.calls["nvmlDeviceGetMigMode"] = mode
    samples, more = host.sample()

    assert (events, more) == ([], [])
    assert [(row["gpu_uuid"], row["interval_ms"]) for row in samples] == [
        (gpu.uuid, 1_000),
        ("MIG-00000000-0", 1_000),
        ("MIG-00000000-1", 1_000),
    ]


def test_a_gpu_that_is_divided_is_planned_again(open_on: Open) -> None:
    """Utilisation is no more; memory and power are."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu])
    host.sample()
    mig(gpu, "1g.10gb")

    _, events = host.sample(60_000)
    samples, _ = host.sample()

    assert [(row["kind"], row["gpu_uuid"], row["parent_uuid"]) for row in events] == [
        ("gpu_found", "MIG-00000000-0", gpu.uuid)
    ]
    assert [row["gpu_uuid"] for row in samples] == [gpu.uuid, "MIG-00000000-0"]
    assert "util_gpu_pct" not in samples[0]
    assert samples[0]["energy_mj"] == 0


def test_a_gpu_whose_mig_mode_is_turned_off_has_utilisation_again(open_on: Open) -> None:
    """Also where it had no instance any more; its counters go on. A scan in which it does not say changes nothing."""
    (gpu,) = gpus_of("mock_h100")
    utilisation, unknown = gpu.calls["nvmlDeviceGetUtilizationRates"], Error(pynvml.NVML_ERROR_UNKNOWN)
    mig(gpu)
    host = open_on([gpu])
    host.sample()
    seen = list[bool]()
    for mode, rates in (([1, 1], Error(NOT_SUPPORTED)), (unknown, utilisation), ([0, 0], utilisation)):
        gpu.calls |= {"nvmlDeviceGetMigMode": mode, "nvmlDeviceGetUtilizationRates": rates}
        host.sample(60_000)
        (row,), events = host.sample()
        assert (row["interval_ms"], events) == (1_000, [])
        seen.append("util_gpu_pct" in row)

    assert seen == [False, False, True]


def test_a_gpu_that_is_added_is_found_within_a_minute(open_on: Open) -> None:
    """And sampled from the next reading on."""
    gpus = gpus_of("mock_h100", 2)
    host = open_on(gpus[:1])
    host.sample()
    host.library.gpus.append(gpus[1])

    _, events = host.sample(60_000)
    samples, _ = host.sample()

    assert [(row["kind"], row["gpu_uuid"]) for row in events] == [("gpu_found", gpus[1].uuid)]
    assert [row["gpu_uuid"] for row in samples] == [gpus[0].uuid, gpus[1].uuid]


def test_placement_goes_into_the_rows_of_its_gpu_and_may_change(open_on: Open) -> None:
    """By UUID, never by index."""
    placement = {"GPU-00000001": {"engine_id": "engine-7", "workload": "inference"}}
    host = open_on(gpus_of("mock_a100", 2), placement=placement)

    samples, _ = host.sample()
    placement["GPU-00000000"] = {"engine_id": "engine-9"}
    later, _ = host.sample()

    assert [row.get("engine_id") for row in samples] == [None, "engine-7"]
    assert [row.get("engine_id") for row in later] == ["engine-9", "engine-7"]


def test_a_placement_that_is_empty_at_first_is_the_one_that_is_followed(open_on: Open) -> None:
    """The registry's own, which learns of its first engine when samples are already taken."""
    placement = Placement({})
    host = open_on(gpus_of("mock_a100", 1), placement=placement)

    before, _ = host.sample()
    placement.replace({"GPU-00000000": {"engine_id": "h:8000", "placement_group": "h:8000", "workload": "inference"}})
    after, _ = host.sample()

    names = ("engine_id", "placement_group", "workload")
    assert [[row.get(name) for name in names] for row in before] == [[None, None, None]]
    assert [[row.get(name) for name in names] for row in after] == [["h:8000", "h:8000", "inference"]]


def test_nonsense_of_the_driver_is_null(open_on: Open) -> None:
    """A marker such as 9223372036854775794 is no measurement, and a number outside its bounds costs no sample."""
    (gpu,) = gpus_of("mock_h100")
    gpu.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = 9_223_372_036_854_775_794
    gpu.calls["nvmlDeviceGetUtilizationRates"] = {"gpu": 4_000, "memory": 3}
    host = open_on([gpu])

    (row,), _ = host.sample()

    assert (row["temperature_memory_c"], row["util_gpu_pct"]) == (None, None)
    assert (row["temperature_c"], row["util_memory_pct"]) == (34, 3)
    assert host.counters.value("sampler_errors", sampler="nvml", field="util_gpu_pct") == 1


def test_what_changes_between_samples_is_an_event(open_on: Open) -> None:
    """The driver's recovery action, with its code and what to do."""
    (gpu,) = gpus_of("mock_h100")
    gpu.fields[pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION] = 0
    host = open_on([gpu])
    host.sample()
    gpu.fields[pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION] = 4

    (row,), events = host.sample()

    assert row["recovery_action"] == 4
    assert [(each["kind"], each["code"], each["action"]) for each in events] == [("recovery", 4, "drain_and_reset")]


@pytest.mark.parametrize("grown", [1, 4])
def test_memory_errors_over_the_edge_of_a_window_are_one_event(open_on: Open, grown: int) -> None:
    """With the number that all of its rows have together."""
    (gpu,) = gpus_of("mock_h100")
    host = open_on([gpu], now_ms=1_000_008_600)
    host.sample()
    gpu.calls["nvmlDeviceGetTotalEccErrors"] = grown

    rows, events = host.sample()

    assert [row["at_ms"] for row in rows] == [1_000_009_999, 1_000_010_600]
    assert sum(row["ecc_uncorrected"] for row in rows) == grown
    assert [row["message"] for row in events if row["severity"] == "critical"] == [
        f"{grown} memory errors that could not be corrected"
    ]


def test_no_driver_is_no_sampler() -> None:
    """Most hosts have no GPU: that is no error."""
    library = FakeNvml([])
    library.init = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with installed(library):
        assert NvmlSampler.open(LABELS, counters=Counters()) is None


def test_a_driver_without_gpus_is_no_sampler() -> None:
    """There is nothing to sample."""
    with installed(FakeNvml([])):
        assert NvmlSampler.open(LABELS, counters=Counters()) is None
