"""An NVML library in Python, below the real ``pynvml``: its attributes are the C functions, by their names.

``pynvml`` calls them with ctypes arguments; each fills what it was given and returns a code. So what is measured is the
whole path of the collector, with as many calls as it makes against a real driver, each with a driver's delay.

    with installed(NvmlStub(gpus(8), delay_us=50)) as stub:
        ...
        stub.calls        # how often each function was called

``delay_us`` is slept: the driver waits for the GPU. With ``spin`` it is burnt: the driver works for the caller. Real
drivers lie between the two.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any

import pynvml

from lab.bench.nvml_compiled import installed

__all__ = ["NvmlStub", "StubGpu", "gpus", "installed"]

OK = int(pynvml.NVML_SUCCESS)
NOT_SUPPORTED = int(pynvml.NVML_ERROR_NOT_SUPPORTED)
NOT_FOUND = int(pynvml.NVML_ERROR_NOT_FOUND)
TIMEOUT = int(pynvml.NVML_ERROR_TIMEOUT)
NO_INSTANCE = 0xFFFF_FFFF
INSUFFICIENT_SIZE = int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)


class Code(Exception):
    """Stands for a return code where a value would stand."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(eq=False)
class StubGpu:
    """``calls``: values by the C function's name without version; ``fields``: by NVML field id, or by (id, scope).

    A value may be a number, a list (one per argument), a dict (members of a structure), a ``Code``, or a function of no
    arguments that gives one of these at the moment of the call. ``gpm``: per cent by metric; empty is not supported.
    """

    uuid: str
    calls: dict[str, Any]
    fields: dict[Any, Any] = field(default_factory=dict)
    field_types: dict[int, int] = field(default_factory=dict)
    gpm: dict[int, float] = field(default_factory=dict)
    instances: list[StubGpu] = field(default_factory=list)
    instance_id: int | None = None
    processes: list[tuple[int, int]] = field(default_factory=list)
    mps_processes: list[tuple[int, int]] = field(default_factory=list)
    process_samples: list[tuple[int, int, int]] = field(default_factory=list)


def gpus(count: int = 8) -> list[StubGpu]:
    """GPUs that have everything a Hopper has, and work: their counters grow with the clock."""
    return [_hopper(number) for number in range(count)]


def _hopper(number: int) -> StubGpu:
    since_s = time.monotonic()

    def growing(per_s: int) -> Callable[[], int]:
        return lambda: int((time.monotonic() - since_s) * per_s)

    quiet = (3, 4, 38, 45, 52, 59, 77, 79, 94, 142, 143, 144, 145, 230, 269, 270, 271)
    return StubGpu(
        uuid=f"GPU-5afe0000-0000-4000-8000-{number:012d}",
        calls=dict(_HOPPER_CALLS),
        fields={
            **dict.fromkeys(quiet, 0),
            74: growing(10_000_000),
            75: 0,
            82: 61,
            83: growing(650_000),
            138: growing(50_000_000),
            139: growing(50_000_000),
            185: 650_000,
            186: 655_000,
        },
        gpm={2: 83.5, 3: 41.0, 5: 37.25, 10: 64.0, 20: 1_907.0, 21: 1_907.0},
        processes=[(1, 70 * 2**30)],
        process_samples=[(1, 1, 83)],
    )


_HOPPER_CALLS: dict[str, Any] = {
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetMemoryInfo": {"total": 85_899_345_920, "free": 2**30, "used": 80 * 10**9, "reserved": 10**9},
    "nvmlDeviceGetUtilizationRates": {"gpu": 98, "memory": 61},
    "nvmlDeviceGetEncoderUtilization": [0, 100_000],
    "nvmlDeviceGetDecoderUtilization": [0, 100_000],
    "nvmlDeviceGetTemperature": 58,
    "nvmlDeviceGetMarginTemperature": {"marginTemperature": 29},
    "nvmlDeviceGetPowerUsage": 650_000,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetClockInfo": 1_755,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
    "nvmlDeviceGetSupportedEventTypes": 0xB,
}

_KNOWN_AS = {
    "nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetTemperatureV": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
}


class NvmlStub:
    """``calls`` counts by function. ``events``: what ``nvmlEventSetWait_v2`` hands out, (gpu, type, data) or a code."""

    driver = "580.65.06"

    def __init__(self, gpus: Sequence[StubGpu], delay_us: int = 0, *, spin: bool = False) -> None:
        self.gpus = list(gpus)
        self.calls: Counter[str] = Counter()
        self.events: SimpleQueue[tuple[StubGpu, int, int] | int] = SimpleQueue()
        self._delay_s = delay_us / 1_000_000
        self._spin = spin
        self._handed: list[StubGpu] = []
        self._known: dict[int, tuple[Any, StubGpu]] = {}
        self._samples: list[StubGpu | None] = []

    def entered(self, name: str, _gpu: StubGpu | None) -> int:
        """Called first by every function; another code than OK is its answer."""
        self.calls[name] += 1
        if self._delay_s and not self._spin:
            time.sleep(self._delay_s)
        elif self._delay_s:
            until_s = time.perf_counter() + self._delay_s
            while time.perf_counter() < until_s:
                pass
        return OK

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        own = getattr(type(self), f"_{name}", None)
        if own is not None:
            return partial(self._own, name, partial(own, self))
        return partial(self._device_call, name)

    def _own(self, name: str, call: Callable[..., int], *arguments: Any) -> int:
        return self.entered(name, self._named(name, arguments)) or call(*arguments)

    def _named(self, name: str, arguments: tuple[Any, ...]) -> StubGpu | None:
        takes_device = name.startswith(("nvmlDevice", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmQuery"))
        by_handle = takes_device and "GetHandleBy" not in name and name != "nvmlDeviceGetCount_v2"
        return self._gpu(arguments[0]) if by_handle else None

    def _device_call(self, name: str, handle: Any, *arguments: Any) -> int:
        gpu = self._gpu(handle)
        code = self.entered(name, gpu)
        if code:
            return code
        value = gpu.calls.get(_KNOWN_AS.get(name, name), _NOTHING)
        if callable(value):
            value = value()
        if isinstance(value, Code):
            return value.code
        _fill(arguments, value)
        return OK

    def _hand(self, target: Any, gpu: StubGpu) -> int:
        # Addresses from 1 on stand for the devices; nothing ever follows them.
        if gpu not in self._handed:
            self._handed.append(gpu)
        target._obj.contents = ctypes.cast(self._handed.index(gpu) + 1, pynvml.c_nvmlDevice_t).contents
        return OK

    def _gpu(self, handle: Any) -> StubGpu:
        known = self._known.get(id(handle))
        if known is None:
            known = self._known[id(handle)] = (handle, self._handed[_address(handle) - 1])
        return known[1]

    def _nvmlInitWithFlags(self, _flags: int) -> int:
        return OK

    def _nvmlInit_v2(self) -> int:
        return OK

    def _nvmlShutdown(self) -> int:
        return OK

    def _nvmlErrorString(self, code: Any) -> bytes:
        return b"error %d" % code

    def _nvmlSystemGetDriverVersion(self, buffer: Any, _size: Any) -> int:
        buffer.value = self.driver.encode()
        return OK

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return OK

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return self._hand(handle, self.gpus[index.value])

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        every = [each for gpu in self.gpus for each in (gpu, *gpu.instances)]
        known = [each for each in every if each.uuid.encode() == uuid.value]
        return self._hand(handle, known[0]) if known else NOT_FOUND

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7 if self._gpu(handle).instances else 0
        return OK

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, instance: Any) -> int:
        instances = self._gpu(handle).instances
        return self._hand(instance, instances[index.value]) if index.value < len(instances) else NOT_FOUND

    def _nvmlDeviceGetGpuInstanceId(self, handle: Any, id: Any) -> int:
        instance_id = self._gpu(handle).instance_id
        id._obj.value = instance_id or 0
        return NOT_SUPPORTED if instance_id is None else OK

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _size: Any) -> int:
        buffer.value = self._gpu(handle).uuid.encode()
        return OK

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, _size: Any) -> int:
        buffer.value = str(self._gpu(handle).calls["nvmlDeviceGetName"]).encode()
        return OK

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        gpu, array = self._gpu(handle), values._obj
        layout = _fields(count.value)
        entries = list(layout.unpack_from(array))
        for place in range(0, len(entries), 7):
            id, scope = entries[place], entries[place + 1]
            value = gpu.fields.get((id, scope)) if scope else None
            value = gpu.fields.get(id, _NOTHING) if value is None else value
            value = value() if callable(value) else value
            if isinstance(value, Code):
                entries[place + 5] = value.code
                continue
            kind = gpu.field_types.get(id, _ULL)
            entries[place + 4], entries[place + 5] = kind, OK
            entries[place + 6] = value if kind == _ULL else _raw(kind, value)
        layout.pack_into(array, 0, *entries)
        return OK

    def _nvmlGpmQueryDeviceSupport(self, handle: Any, support: Any) -> int:
        gpu = self._gpu(handle)
        support._obj.isSupportedDevice = int(bool(gpu.gpm) or any(each.gpm for each in gpu.instances))
        return OK

    def _nvmlGpmSampleAlloc(self, sample: Any) -> int:
        self._samples.append(None)
        sample._obj.contents = ctypes.cast(len(self._samples), pynvml.c_nvmlGpmSample_t).contents
        return OK

    def _nvmlGpmSampleFree(self, sample: Any) -> int:
        self._samples[_address(sample) - 1] = None
        return OK

    def _nvmlGpmSampleGet(self, handle: Any, sample: Any) -> int:
        self._samples[_address(sample) - 1] = self._gpu(handle)
        return OK if self._gpu(handle).gpm else NOT_SUPPORTED

    def _nvmlGpmMigSampleGet(self, handle: Any, instance_id: Any, sample: Any) -> int:
        instances = [each for each in self._gpu(handle).instances if each.instance_id == instance_id]
        self._samples[_address(sample) - 1] = instances[0] if instances else None
        return OK if instances else NOT_FOUND

    def _nvmlGpmMetricsGet(self, request: Any) -> int:
        wanted = request._obj
        gpu = self._samples[_address(wanted.sample2) - 1]
        assert gpu is not None
        assert gpu is self._samples[_address(wanted.sample1) - 1], "samples of two devices are compared"
        for entry in wanted.metrics[: wanted.numMetrics]:
            entry.nvmlReturn = OK if entry.metricId in gpu.gpm else NOT_SUPPORTED
            entry.value = gpu.gpm.get(entry.metricId, 0.0)
        return OK

    def _nvmlEventSetCreate(self, _events: Any) -> int:
        return OK

    def _nvmlEventSetFree(self, _events: Any) -> int:
        return OK

    def _nvmlDeviceRegisterEvents(self, handle: Any, _types: Any, _events: Any) -> int:
        return OK

    def _nvmlEventSetWait_v2(self, _events: Any, data: Any, timeout_ms: Any) -> int:
        try:
            event = self.events.get(timeout=timeout_ms.value / 1_000) if timeout_ms.value else self.events.get_nowait()
        except Empty:
            return TIMEOUT
        if isinstance(event, int):
            return event
        device, data._obj.eventType, data._obj.eventData = event
        whole = next(gpu for gpu in self.gpus if device is gpu or device in gpu.instances)
        data._obj.device = ctypes.cast(self._handed.index(whole) + 1, pynvml.c_nvmlDevice_t)
        data._obj.gpuInstanceId = NO_INSTANCE if device.instance_id is None else device.instance_id
        return OK

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, processes: Any) -> int:
        return _listed(self._gpu(handle).processes, count, processes, ("pid", "usedGpuMemory"))

    def _nvmlDeviceGetMPSComputeRunningProcesses_v3(self, handle: Any, count: Any, processes: Any) -> int:
        return _listed(self._gpu(handle).mps_processes, count, processes, ("pid", "usedGpuMemory"))

    def _nvmlDeviceGetProcessUtilization(self, handle: Any, samples: Any, count: Any, _since: Any) -> int:
        listed = self._gpu(handle).process_samples
        return _listed(listed, count, samples, ("pid", "timeStamp", "smUtil")) if listed else NOT_FOUND


_ULL = int(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
_NOTHING = Code(NOT_SUPPORTED)


@cache
def _fields(count: int) -> struct.Struct:
    """So many nvmlFieldValue_t (nvml.h), each value as eight bytes."""
    return struct.Struct("<" + "IIqqIIQ" * count)


def _raw(kind: int, value: float) -> int:
    if kind == pynvml.NVML_VALUE_TYPE_DOUBLE:
        return int.from_bytes(struct.pack("<d", value), "little")
    return int(value) & (2**64 - 1)


def _address(sample: Any) -> int:
    address = ctypes.cast(sample, ctypes.c_void_p).value
    assert address is not None
    return address


def _listed(rows: Sequence[tuple[int, ...]], count: Any, target: Any, members: tuple[str, ...]) -> int:
    """As NVML lists things: first the number, then into an array of at least that size."""
    room, count._obj.value = count._obj.value, len(rows)
    if not rows:
        return OK
    if target is None or room < len(rows):
        return INSUFFICIENT_SIZE
    for entry, row in zip(target, rows, strict=False):
        for member, value in zip(members, row, strict=True):
            setattr(entry, member, value)
    return OK


def _fill(arguments: tuple[Any, ...], value: Any) -> None:
    target = arguments[-1]._obj
    if isinstance(value, int):
        setattr(target, "temperature" if hasattr(target, "temperature") else "value", value)
    elif isinstance(value, dict):
        for name, part in value.items():
            setattr(target, name, part)
    else:
        for argument, part in zip(arguments[-len(value) :], value, strict=True):
            argument._obj.value = part
