from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pynvml
import pytest

from producers.gpu import inventory
from producers.gpu.calls import CALLS, codes_of
from producers.gpu.device import Device, Found
from producers.gpu.field_values import _HEADS, _METRIC, _RAWS, INTERVAL_MS_MIN, FieldValues, GpmReader, open_gpm
from producers.gpu.fields import Value
from producers.gpu.inventory import GpuIdentity
from producers.gpu.library import DriverGoneError, GpuLostError, answered, open_library, raise_if_gone, why
from producers.gpu.transitions import Happening
from tests.fake_nvml import Error, FakeGpu, FakeNvml, gpus_of, installed, mig

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
LOST = pynvml.NVML_ERROR_GPU_IS_LOST


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    """One H100 on an installed library."""
    (made,) = gpus_of("mock_h100")
    with installed(FakeNvml([made])):
        yield made


def found() -> Found:
    return inventory.found()[0]


def read(values: FieldValues) -> tuple[dict[str, int], dict[str, int]]:
    assert codes_of(values.c_calls(found().handle)) == [0]
    return values.decode()


def means(reader: GpmReader, metrics: tuple[int, ...], at_ms: int) -> tuple[dict[int, int], dict[int, int]]:
    assert not any(codes_of(reader.c_calls(metrics, at_ms)))
    assert not any(codes_of(reader.compares()))
    return reader.decode()


def test_an_entry_has_the_size_of_the_driver_s() -> None:
    """It is read as bytes: the layout must be that of nvml.h."""
    assert struct.calcsize(f"<{_METRIC}") == ctypes.sizeof(pynvml.c_nvmlGpmMetric_t)
    assert (pynvml.c_nvmlGpmMetric_t.nvmlReturn.offset, pynvml.c_nvmlGpmMetric_t.value.offset) == (4, 8)
    assert struct.calcsize(f"<{_HEADS}") == struct.calcsize(f"<{_RAWS}") == ctypes.sizeof(pynvml.c_nvmlFieldValue_t)
    for name, offset in (("valueType", 24), ("nvmlReturn", 28), ("value", 32)):
        assert getattr(pynvml.c_nvmlFieldValue_t, name).offset == offset


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pynvml.NVML_VALUE_TYPE_DOUBLE, 12.9, 12),
        (pynvml.NVML_VALUE_TYPE_DOUBLE, float("nan"), None),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 7, 7),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 0xFFFF_FFFF, None),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, 2**40, 2**40),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 2**62 - 1, 2**62 - 1),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 2**62, None),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 2**64 - 1, None),
        (pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, -5, -5),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, -40, -40),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, 65_535, 65_535),
        (77, 5, None),
    ],
)
def test_a_value_is_read_by_its_type(gpu: FakeGpu, kind: int, value: float, expected: int | None) -> None:
    """The driver's words for "not available" are no amounts."""
    gpu.fields[82], gpu.field_types[82] = value, kind

    values, failed = read(FieldValues([Value(82)]))

    assert (values.get("field 82"), failed) == (expected, {})


def test_values_are_scaled_and_failures_returned(gpu: FakeGpu) -> None:
    """Each field by itself; scopes are passed on."""
    gpu.fields |= {74: 5_999, (202, 3): 11, 230: Error(NOT_SUPPORTED)}
    wanted = FieldValues([Value(74, per=1_000), Value(202, 3, times=1_024), Value(202, 4), Value(230)])

    assert read(wanted) == (
        {"field 74": 5, "field 202 link 3": 11_264},
        {"field 202 link 4": NOT_SUPPORTED, "field 230": NOT_SUPPORTED},
    )


def test_no_fields_are_no_call(gpu: FakeGpu) -> None:
    """Nor do they return anything."""
    assert FieldValues([]).c_calls(found().handle) == ()
    assert FieldValues([]).decode() == ({}, {})


def test_a_driver_may_change_its_mind_about_a_field(gpu: FakeGpu) -> None:
    """From one reading to the next: its type, and whether it has a value."""
    wanted, kinds = FieldValues([Value(82), Value(83)]), gpu.field_types
    gpu.fields |= {82: 5, 83: 6}
    seen = [read(wanted)]
    gpu.fields[82], kinds[83] = Error(NOT_SUPPORTED), pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    seen.append(read(wanted))
    gpu.fields[82], kinds[82] = 7.9, pynvml.NVML_VALUE_TYPE_DOUBLE
    seen.append(read(wanted))

    assert seen == [
        ({"field 82": 5, "field 83": 6}, {}),
        ({"field 83": 6}, {"field 82": NOT_SUPPORTED}),
        ({"field 82": 7, "field 83": 6}, {}),
    ]


def test_activity_is_the_mean_since_the_sample_before(gpu: FakeGpu) -> None:
    """In ppm; the first reading has none, nor has one that comes too soon."""
    gpu.gpm = {2: 83.25, 3: 100.001, 5: -0.5, 10: float("nan"), 11: float("inf")}
    reader = open_gpm(found().handle)
    assert reader is not None

    seen = [means(reader, (2, 3, 5, 10, 11, 99), at_ms) for at_ms in (1_000, 1_000 + INTERVAL_MS_MIN - 1, 2_000)]
    reader.close()

    assert seen == [({}, {}), ({}, {}), ({2: 832_500, 3: 1_000_000, 5: 0}, {99: NOT_SUPPORTED})]


def test_traffic_over_pcie_is_bytes_since_the_sample_before(gpu: FakeGpu) -> None:
    """NVML gives MiB a second; half a second has half of them, a sample that failed leaves its time to the next."""
    gpu.gpm = {20: 57_399.75, 21: float("nan")}
    reader = GpmReader(found().handle, None)

    seen = [means(reader, (20, 21), at_ms) for at_ms in (1_000, 1_500, 3_500)]

    assert seen == [({}, {}), ({20: 30_094_000_128}, {}), ({20: 120_376_000_512}, {})]


def test_an_instance_is_read_through_its_gpu(gpu: FakeGpu) -> None:
    """By its number."""
    mig(gpu, "1g.10gb", "2g.20gb")
    reader = GpmReader(found().handle, gpu.instances[1].instance_id)
    means(reader, (2,), 1_000)

    assert means(reader, (2,), 2_000) == ({2: 250_000}, {})


def test_after_a_sample_that_failed_the_one_before_is_compared(gpu: FakeGpu) -> None:
    """With the next that is taken: the time between belongs to it."""
    gpu.gpm = {2: 50.0}
    reader = GpmReader(found().handle, None)
    means(reader, (2,), 1_000)
    kept = reader._samples[reader._newest]
    gpu.gpm = {}
    failed = codes_of(reader.c_calls((2,), 2_000))
    gpu.gpm = {2: 25.0}
    reader.c_calls((2,), 2_050)

    assert failed == [NOT_SUPPORTED]
    assert reader._compared.sample1.contents is not None
    assert ctypes.addressof(reader._compared.sample1.contents) == ctypes.addressof(kept.contents)


@pytest.mark.parametrize("missing", [(), ("nvmlGpmQueryDeviceSupport",), ("nvmlGpmSampleAlloc",)])
def test_gpus_before_hopper_have_no_activity(missing: tuple[str, ...]) -> None:
    """Nor have drivers that do not know it."""
    (old,) = gpus_of("mock_a100")
    with installed(FakeNvml([old], missing)):
        assert open_gpm(found().handle) is None


def test_a_device_finds_out_what_it_can_and_says_what_not(gpu: FakeGpu) -> None:
    """By the end of the first reading."""
    gpu.fields[230] = Error(pynvml.NVML_ERROR_NO_PERMISSION)
    device = Device(found())

    reading = device.read(1_000, 5)

    assert (reading.at_ms, reading.monotonic_ms) == (1_000, 5)
    assert reading.values["field 83"] == 600_000
    assert reading.values["power"] == 95_000
    assert device.missing()["recovery_action"] == "needs more rights"
    assert device.missing()["sm_active_ppm"] == "not supported by the GPU"
    assert "power_mw" not in device.missing()
    device.close()


@pytest.mark.parametrize(("code", "error"), [(LOST, GpuLostError), (pynvml.NVML_ERROR_UNINITIALIZED, DriverGoneError)])
def test_a_device_that_does_not_answer_raises(gpu: FakeGpu, code: int, error: type[Exception]) -> None:
    """At any call."""
    device = Device(found())
    gpu.lost = code

    with pytest.raises(error):
        device.read(1_000, 5)


def test_a_device_that_tells_nothing_at_all_is_lost(gpu: FakeGpu) -> None:
    """Whatever the reason of each call is: a handle that went stale looks like that."""
    device = Device(found())
    device.read(1_000, 5)
    gpu.lost = pynvml.NVML_ERROR_INVALID_ARGUMENT

    with pytest.raises(GpuLostError, match="returns no values"):
        device.read(2_000, 1_005)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_field_that_is_not_found_is_no_lost_gpu(gpu: FakeGpu, code: int) -> None:
    """A card without links says so of its link fields; all else is read."""
    gpu.fields[138] = Error(code)

    assert Device(found()).read(1_000, 5).values["field 83"] == 600_000


def test_a_field_may_be_the_first_to_say_that_the_gpu_is_lost(gpu: FakeGpu) -> None:
    """Then it is."""
    gpu.fields[83] = Error(LOST)

    with pytest.raises(GpuLostError):
        Device(found()).read(1_000, 5)


def test_calls_are_named_once() -> None:
    """No key comes from two calls."""
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert sum(len(call.keys) for call in CALLS) == len({key for call in CALLS for key in call.keys})


def test_devices_are_listed_with_their_instances(gpu: FakeGpu) -> None:
    """An instance that cannot be named has no profile, one that is not there is skipped."""
    mig(gpu, "1g.10gb", "2g.20gb", "3g.40gb")
    gpu.instances[1].calls["nvmlDeviceGetName"] = "odd"
    gone = gpu.instances[2]
    assert isinstance(gone, FakeGpu)
    gone.lost = pynvml.NVML_ERROR_NOT_FOUND

    listed = inventory.found()

    assert [(each.uuid, each.parent_uuid, each.mig_profile, each.instance_id) for each in listed] == [
        (gpu.uuid, None, None, None),
        ("MIG-00000000-0", gpu.uuid, "1g.10gb", 7),
        ("MIG-00000000-1", gpu.uuid, None, 8),
    ]
    assert {each.model for each in listed} == {"NVIDIA H100 80GB HBM3"}


@pytest.mark.parametrize(
    ("code", "lists_all"), [(pynvml.NVML_ERROR_NOT_FOUND, True), (pynvml.NVML_ERROR_UNKNOWN, False), (LOST, False)]
)
def test_a_gpu_says_whether_it_lists_all_its_instances(gpu: FakeGpu, code: int, lists_all: bool) -> None:
    """Not when one fails that may be there the next time; the others are listed."""
    mig(gpu, "1g.10gb", "2g.20gb")
    failing = gpu.instances[0]
    assert isinstance(failing, FakeGpu)
    failing.lost = code

    whole, instance = inventory.found()

    assert (whole.lists_all, instance.uuid) == (lists_all, "MIG-00000000-1")


def test_a_gpu_that_cannot_be_named_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """And logged; the others are listed under their own numbers."""
    gpus = gpus_of("mock_h100", 3)
    gpus[1].lost = LOST
    with installed(FakeNvml(list(gpus))):
        listed = inventory.found()

    assert [(each.uuid, each.number) for each in listed] == [(gpus[0].uuid, 0), (gpus[2].uuid, 2)]
    assert [record.message for record in caplog.records] == ["GPU has no readable UUID, not sampled"]


def test_a_device_is_looked_up_by_its_uuid(gpu: FakeGpu) -> None:
    """With the handle of its GPU where it is an instance; one that is gone is lost."""
    mig(gpu, "1g.10gb")
    whole, instance = inventory.found()

    assert inventory.looked_up(whole).uuid == gpu.uuid
    assert inventory.looked_up(instance).parent_handle is not None
    gpu.instances.clear()
    with pytest.raises(GpuLostError, match="not there"):
        inventory.looked_up(instance)


def test_without_a_driver_nothing_is_listed() -> None:
    """It is the driver that is gone, not a GPU."""
    library = FakeNvml(list(gpus_of("mock_h100")))
    with installed(library):
        library.gone = pynvml.NVML_ERROR_UNINITIALIZED
        with pytest.raises(DriverGoneError, match="shut down"):
            inventory.found()


def test_errors_are_distinguished(gpu: FakeGpu) -> None:
    """Those of one field, of one GPU, of the driver."""
    raise_if_gone(NOT_SUPPORTED)
    with pytest.raises(GpuLostError):
        raise_if_gone(LOST)
    with pytest.raises(DriverGoneError, match="restart the agent"):
        raise_if_gone(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert why(pynvml.NVML_ERROR_TIMEOUT) == "Timeout"
    assert answered(pynvml.nvmlDeviceGetFanSpeed, found().handle) is None
    assert open_library() == "580.65.06"


def test_a_row_says_where_its_gpu_belongs() -> None:
    """An instance has the place of its GPU, unless it has one of its own; a code stands where there is one."""
    instance = Found("MIG-1", "H100", None, 0, "GPU-1", None, "1g.10gb", 7)
    places: dict[str, dict[str, str | None]] = {"GPU-1": {"engine_id": "of the GPU"}}
    identity = GpuIdentity({"host": "h"}, places)
    who = {"gpu_uuid": "MIG-1", "gpu_model": "H100", "host": "h", "parent_uuid": "GPU-1", "mig_profile": "1g.10gb"}

    row = identity.row(instance, {"at_ms": 5, "power_mw": None})
    places["MIG-1"] = {"engine_id": "its own"}
    event = identity.event(instance, 7, Happening("xid", "info", "none", "nothing", 43))

    assert row == {"at_ms": 5, "power_mw": None, "origin": "measured", **who, "engine_id": "of the GPU"}
    assert event == {
        "at_ms": 7,
        "origin": "measured",
        **who,
        "engine_id": "its own",
        "kind": "xid",
        "severity": "info",
        "action": "none",
        "message": "nothing",
        "code": 43,
    }
