from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pynvml
import pytest

from producers.gpu.sampler import CALLS, FIELD_VALUES, NvmlSampler, gpu_row
from runtime.clock import VirtualClock
from runtime.counters import Counters
from schemas.build import block_from_rows
from schemas.events import GPU_EVENTS, GPU_SAMPLES
from schemas.fields import Role
from tests.fake_nvml import NOT_SUPPORTED, Error, FakeGpu, FakeNvml, gpus_of, installed

LABELS = {"host": "host-1", "cluster": None, "region": None}
Open = Callable[..., NvmlSampler]


@pytest.fixture
def open_on() -> Iterator[Open]:
    """Opens a sampler on fake GPUs; a second passes before each of its samples."""
    with ExitStack() as stack:

        def opened(gpus: list[FakeGpu], missing: tuple[str, ...] = (), **options: Any) -> NvmlSampler:
            stack.enter_context(installed(FakeNvml(gpus, missing)))
            clock = VirtualClock()
            sampler = NvmlSampler.open(LABELS, clock=clock, counters=Counters(), **options)
            assert sampler is not None
            read = sampler.sample

            def sample(at_ms: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
                clock.advance(1_000)
                return read(at_ms)

            sampler.sample = sample  # type: ignore[method-assign]
            return sampler

        yield opened


def test_a_first_sample_has_levels_and_no_differences(open_on: Open) -> None:
    """The H100's figures in our units; what needs two readings is unknown."""
    sampler = open_on(gpus_of("mock_h100"))

    samples, events = sampler.sample(at_ms=5_000)

    assert events == []
    assert samples == [
        {
            "at_ms": 5_000,
            "origin": "measured",
            "gpu_uuid": "GPU-00000000",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            **LABELS,
            "util_gpu_pct": 0,
            "util_memory_pct": 0,
            "memory_used_bytes": 0,
            "memory_total_bytes": 85_899_345_920,
            "temperature_c": 34,
            "power_mw": 95_000,
            "power_limit_mw": 700_000,
            "clock_sm_mhz": 345,
            "clock_memory_mhz": 345,
            "clock_reasons": 1,
        }
    ]


def test_energy_is_the_difference_of_two_readings(open_on: Open) -> None:
    """Each GPU against its own reading before."""
    gpus = gpus_of("mock_h100", 2)
    sampler = open_on(gpus)
    sampler.sample(0)
    gpus[0].calls["nvmlDeviceGetTotalEnergyConsumption"] = 600_700
    gpus[1].calls["nvmlDeviceGetTotalEnergyConsumption"] = 600_090
    gpus[1].fields[pynvml.NVML_FI_DEV_PERF_POLICY_POWER] = 3_000

    samples, _ = sampler.sample(1_000)

    assert [row["energy_mj"] for row in samples] == [700, 90]
    assert [row["throttled_us"] for row in samples] == [0, 3]
    assert [row["interval_ms"] for row in samples] == [1_000, 1_000]


@pytest.mark.parametrize("model", ["mock_a100", "mock_h100", "mock_b200"])
def test_rows_of_every_model_fit_the_field_table(open_on: Open, model: str) -> None:
    """They can be encoded, and no number is outside its bounds."""
    sampler = open_on(gpus_of(model, 8))

    for at_ms in (1_000, 2_000):
        samples, _ = sampler.sample(at_ms)
        block = block_from_rows(GPU_SAMPLES.fields, samples)
        assert block.rows == 8


def test_what_a_gpu_does_not_support_is_null_and_not_asked_again(open_on: Open) -> None:
    """Told once; other figures are read as ever."""
    (gpu,) = gpus_of("mock_h100")
    gpu.calls["nvmlDeviceGetUtilizationRates"] = Error(NOT_SUPPORTED)
    sampler = open_on([gpu])
    sampler.sample(0)
    gpu.asked.clear()

    (row,), _ = sampler.sample(1_000)

    assert "util_gpu_pct" not in row
    assert row["power_mw"] == 95_000
    assert "nvmlDeviceGetUtilizationRates" not in gpu.asked


def test_a_passing_failure_is_null_once(open_on: Open) -> None:
    """It is asked again, and counters go on from the last known reading before it."""
    (gpu,) = gpus_of("mock_h100")
    sampler = open_on([gpu])
    sampler.sample(0)
    gpu.calls["nvmlDeviceGetPowerUsage"] = Error(pynvml.NVML_ERROR_TIMEOUT)

    (failed,), _ = sampler.sample(1_000)
    gpu.calls["nvmlDeviceGetPowerUsage"] = 1_000
    (again,), _ = sampler.sample(2_000)

    assert failed.get("power_mw") is None
    assert again["power_mw"] == 1_000
    assert sampler._counters.value("sampler_errors", sampler="nvml", field="power") == 1


def test_a_lost_gpu_is_one_event_and_its_return_another(open_on: Open) -> None:
    """While it is lost there is no sample; afterwards differences begin anew."""
    lost, fine = gpus_of("mock_h100", 2)
    sampler = open_on([lost, fine])
    sampler.sample(0)
    lost.lost = pynvml.NVML_ERROR_GPU_IS_LOST

    seen = [sampler.sample(at_ms) for at_ms in (1_000, 2_000)]
    lost.lost = 0
    back, events = sampler.sample(3_000)

    assert [[row["gpu_uuid"] for row in samples] for samples, _ in seen] == [[fine.uuid], [fine.uuid]]
    assert [[(row["kind"], row["severity"], row["gpu_uuid"]) for row in told] for _, told in seen] == [
        [("gpu_lost", "critical", lost.uuid)],
        [],
    ]
    assert [(row["kind"], row["at_ms"]) for row in events] == [("gpu_found", 3_000)]
    assert [("energy_mj" in row) for row in back] == [False, True]
    assert block_from_rows(GPU_EVENTS.fields, seen[0][1] + events).rows == 2


def test_a_driver_that_was_loaded_again_counts_from_nothing(open_on: Open) -> None:
    """What its counter shows is what was used since."""
    (gpu,) = gpus_of("mock_h100")
    sampler = open_on([gpu])
    sampler.sample(0)
    gpu.calls["nvmlDeviceGetTotalEnergyConsumption"] = 250

    (row,), _ = sampler.sample(1_000)

    assert row["energy_mj"] == 250


def test_an_older_driver_is_asked_by_older_names(open_on: Open) -> None:
    """Functions that came later have a predecessor."""
    missing = (
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
    )
    sampler = open_on(gpus_of("mock_h100"), missing)

    (row,), _ = sampler.sample(0)

    assert (row["temperature_c"], row["memory_total_bytes"], row["clock_reasons"]) == (34, 85_899_345_920, 1)


def test_placement_goes_into_the_rows_of_its_gpu(open_on: Open) -> None:
    """By UUID, never by index."""
    placement = {"GPU-00000001": {"engine_id": "engine-7", "workload": "inference"}}
    sampler = open_on(gpus_of("mock_a100", 2), placement=placement)

    samples, _ = sampler.sample(0)

    assert [row.get("engine_id") for row in samples] == [None, "engine-7"]


def test_nonsense_of_the_driver_is_null(open_on: Open) -> None:
    """A marker such as 9223372036854775794 is no measurement, and does not cost the sample."""
    (gpu,) = gpus_of("mock_h100")
    gpu.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = 9_223_372_036_854_775_794
    sampler = open_on([gpu])

    (row,), _ = sampler.sample(0)

    assert row["temperature_memory_c"] is None
    assert row["temperature_c"] == 34


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((0, {"throttled_us:74": 5}), (1_000, {"throttled_us:74": 15, "throttled_us:75": 900}), 10),
        (
            (0, {"throttled_us:74": 0, "throttled_us:75": 0}),
            (10, {"throttled_us:74": 9_000, "throttled_us:75": 9_000}),
            10_000,
        ),
        ((0, {"throttled_us:75": 0}), (1_000, {"throttled_us:74": 9_000}), None),
        (None, (1_000, {"throttled_us:74": 9_000}), None),
        ((0, {"throttled_us:74": 0}), (3_600_001, {"throttled_us:74": 9_000}), None),
        ((0, {"throttled_us:74": 0}), (3_600_000, {"throttled_us:74": 9_000}), 9_000),
    ],
    ids=[
        "a cause seen for the first time counts from its second reading",
        "causes at the same time are cut to the time that passed",
        "no cause known in both readings",
        "a first reading",
        "more than an hour apart",
        "an hour apart",
    ],
)
def test_throttled_time_is_the_sum_of_its_causes(
    before: tuple[int, dict[str, int]] | None, now: tuple[int, dict[str, int]], expected: int | None
) -> None:
    """Each cause is followed by itself."""
    assert gpu_row(before, now).get("throttled_us") == expected


def test_a_memory_without_sensor_has_no_temperature() -> None:
    """Cards without one say 0."""
    assert gpu_row(None, (0, {"temperature_memory_c": 0})) == {"temperature_memory_c": None}


def test_the_tables_name_fields_of_the_event() -> None:
    """Every figure is a gauge, a difference or an attribute of gpu.samples."""
    known = {field.name for field in GPU_SAMPLES.of(Role.GAUGE, Role.DIFFERENCE, Role.ATTRIBUTE)}

    assert {value.figure for value in FIELD_VALUES} <= known
    assert len({call.name for call in CALLS}) == len(CALLS)


def test_no_driver_is_no_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most hosts have no GPU: that is no error."""

    def none(_flags: int = 0) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", none)

    assert NvmlSampler.open(LABELS, counters=Counters()) is None
    monkeypatch.undo()
    with installed(FakeNvml([])):
        assert NvmlSampler.open(LABELS, counters=Counters()) is None
