"""NVML calls that are not fields: what each returns, by key, and how often it is made.

Every call costs some 50 us of the driver, so slow values are read once in ten seconds, spread over the GPUs: eight GPUs
take some six calls each a second. Counters that are dear (energy: 3.5 ms of a spinning driver) are read once a window,
at its last reading, so that a window has all of its growth. In most calls the driver waits, and a thread that wakes
finds its caches cold. So what pynvml builds at each call is built once, all calls are made back to back, and their
results are read together.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import pynvml

from producers.gpu.library import REFUSED

CCall = tuple[Callable[..., int], tuple[Any, ...]]
"""A C function and its arguments, the buffers that it fills among them."""

_ALIGNED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """The C function behind a call, and the layout of its result. ``made`` makes the buffer it fills; ``before`` stands
    between handle and buffer, ``after`` behind it. ``layout``: of the buffer (nvml.h), as ``struct`` reads it, a number
    for every key.
    """

    function: str
    made: Callable[[], Any]
    layout: struct.Struct
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


def function_of(name: str) -> Callable[..., int]:
    """The C function; ``NVMLError`` where the driver lacks it."""
    function: Callable[..., int] = pynvml._nvmlGetFunctionPointer(name)
    return function


def codes_of(calls: Iterable[CCall]) -> list[int]:
    """The codes that the driver gives to these, in turn."""
    return [function(*arguments) for function, arguments in calls]


@lru_cache(maxsize=64)
def _layout(raws: tuple[tuple[Raw, tuple[str, ...]], ...]) -> tuple[tuple[str, ...], tuple[int, ...], struct.Struct]:
    """Keys, the bytes each buffer takes, and what all of them are read with: the same memory for all devices."""
    sizes = tuple(-(-raw.layout.size // _ALIGNED) * _ALIGNED for raw, _ in raws)
    padded = [f"{raw.layout.format[1:]}{size - raw.layout.size}x" for (raw, _), size in zip(raws, sizes, strict=True)]
    return tuple(key for _, keys in raws for key in keys), sizes, struct.Struct("=" + "".join(padded))


class Together:
    """Calls of one device that are made together. Their buffers lie in one piece. For one thread at a time."""

    def __init__(self, raws: Sequence[tuple[Raw, tuple[str, ...]]], handle: Any) -> None:
        """Each with the keys of its numbers. ``NVMLError`` where the driver lacks a function."""
        self._keys, sizes, self._layout = _layout(tuple(raws))
        self._memory = (ctypes.c_char * max(1, sum(sizes)))()
        calls, at = list[CCall](), 0
        for (raw, _), size in zip(raws, sizes, strict=True):
            first = raw.made()
            buffer = type(first).from_buffer(self._memory, at)
            ctypes.pointer(buffer)[0] = first
            calls.append((function_of(raw.function), (handle, *raw.before, ctypes.byref(buffer), *raw.after)))
            at += size
        self.c_calls: tuple[CCall, ...] = tuple(calls)

    def decode(self) -> dict[str, int]:
        """The values in the buffers, by key; of a call that failed, an old one."""
        return dict(zip(self._keys, self._layout.unpack_from(self._memory), strict=True))


Values = dict[str, int]
Read = Callable[[Any], Values]
Pace = Literal["every", "window", "slow", "setting"]


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """``pace``: made at every reading; at the last of a window; once in ten seconds; or once in ten seconds, its value
    in every reading.

    ``raw``: the newest version of the call, where preparing it is worth it.
    """

    name: str
    keys: tuple[str, ...]
    read: Read
    pace: Pace = "every"
    raw: Raw | None = None

    def is_ready(self) -> bool:
        """Whether the driver has the function of ``raw``."""
        try:
            return self.raw is not None and function_of(self.raw.function) is not None
        except pynvml.NVMLError:
            return False


def together(calls: Sequence[NvmlCall], handle: Any) -> Together:
    """Calls that are ready, of one device."""
    return Together([(call.raw, call.keys) for call in calls if call.raw is not None], handle)


def _newest(*reads: Read) -> Read:
    """The first of these that the installed driver has for the GPU, newest first."""

    def read(handle: Any) -> Values:
        for each in reads[:-1]:
            try:
                return each(handle)
            except pynvml.NVMLError as error:
                if error.value not in REFUSED:
                    raise
        return reads[-1](handle)

    return read


def _one(key: str, function: Callable[..., int], *arguments: Any) -> Read:
    return lambda handle: {key: function(handle, *arguments)}


def _utilization(handle: Any) -> Values:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"util_gpu": rates.gpu, "util_memory": rates.memory}


def _memory_2(handle: Any) -> Values:
    info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return {"memory_used": info.used, "memory_total": info.total, "memory_reserved": info.reserved}


def _memory_1(handle: Any) -> Values:
    info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_used": info.used, "memory_total": info.total}


def _memory_buffer() -> Any:
    return pynvml.c_nvmlMemory_v2_t(version=pynvml.nvmlMemory_v2)


def _temperature_buffer() -> Any:
    return pynvml.c_nvmlTemperature_v1_t(version=pynvml.nvmlTemperature_v1, sensorType=pynvml.NVML_TEMPERATURE_GPU)


def _margin_by_threshold(handle: Any) -> Values:
    """Drivers before the call: what is left to the threshold at which the GPU slows down."""
    slowdown_c = pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    now_c = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
    return {"temperature_margin": slowdown_c - now_c}


def _margin_buffer() -> Any:
    return pynvml.c_nvmlMarginTemperature_v1_t(version=pynvml.nvmlMarginTemperature_v1)


def _number(function: str, *before: Any, after: tuple[Any, ...] = ()) -> Raw:
    """A function that returns one number of 32 bits."""
    return Raw(function, ctypes.c_uint, struct.Struct("=I"), before, after)


def _remapped(handle: Any) -> Values:
    corrected, uncorrected, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_corrected": corrected,
        "remapped_uncorrected": uncorrected,
        "remapped_pending": pending,
        "remapped_failed": failed,
    }


def _call(
    key: str,
    name: str,
    *before: Any,
    pace: Pace = "every",
    raw: Raw | None = None,
    older: Read | None = None,
    note: str = "",
) -> NvmlCall:
    """A call that returns one number."""
    read = _one(key, getattr(pynvml, name), *before)
    return NvmlCall(f"{name}{note}", (key,), _newest(read, older) if older else read, pace, raw)


def _clock(key: str, name: str, pace: Pace) -> NvmlCall:
    kind = getattr(pynvml, f"NVML_CLOCK_{name}")
    raw = _number("nvmlDeviceGetClockInfo", ctypes.c_uint(kind))
    return _call(key, "nvmlDeviceGetClockInfo", kind, pace=pace, raw=raw, note=f"({name})")


def _link(key: str, name: str) -> NvmlCall:
    """Of the PCIe link, whose width changes once in a month, and its generation with every rest of the GPU."""
    return _call(key, name, pace="slow", raw=_number(name))


def _video(key: str, name: str) -> NvmlCall:
    """Its second output, the sampling period, is not used."""
    function = getattr(pynvml, name)
    raw = _number(name, after=(ctypes.byref(ctypes.c_uint()),))
    return NvmlCall(name, (key,), lambda handle: {key: function(handle)[0]}, "slow", raw)


def _ecc(key: str, kind: str, pace: Pace) -> NvmlCall:
    of = getattr(pynvml, f"NVML_MEMORY_ERROR_TYPE_{kind}")
    name = "nvmlDeviceGetTotalEccErrors"
    return _call(key, name, of, pynvml.NVML_VOLATILE_ECC, pace=pace, note=f"({kind})")


CALLS: tuple[NvmlCall, ...] = (
    NvmlCall(
        "nvmlDeviceGetUtilizationRates",
        ("util_gpu", "util_memory"),
        _utilization,
        raw=Raw("nvmlDeviceGetUtilizationRates", pynvml.c_nvmlUtilization_t, struct.Struct("=II")),
    ),
    NvmlCall(
        "nvmlDeviceGetMemoryInfo",
        ("memory_total", "memory_reserved", "memory_used"),
        _newest(_memory_2, _memory_1),
        raw=Raw("nvmlDeviceGetMemoryInfo_v2", _memory_buffer, struct.Struct("=8xQQ8xQ")),
    ),
    _call(
        "temperature",
        "nvmlDeviceGetTemperatureV",
        pynvml.NVML_TEMPERATURE_GPU,
        raw=Raw("nvmlDeviceGetTemperatureV", _temperature_buffer, struct.Struct("=8xi")),
        older=_one("temperature", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
    ),
    _clock("clock_sm", "SM", "every"),
    _call(
        "clock_reasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
        raw=Raw("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong, struct.Struct("=Q")),
        older=_one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
    ),
    _call("power", "nvmlDeviceGetPowerUsage"),
    _call("energy", "nvmlDeviceGetTotalEnergyConsumption", pace="window"),
    _clock("clock_memory", "MEM", "slow"),
    _call(
        "performance_state", "nvmlDeviceGetPerformanceState", pace="slow", raw=_number("nvmlDeviceGetPerformanceState")
    ),
    _call(
        "temperature_margin",
        "nvmlDeviceGetMarginTemperature",
        pace="slow",
        raw=Raw("nvmlDeviceGetMarginTemperature", _margin_buffer, struct.Struct("=4xi")),
        older=_margin_by_threshold,
    ),
    _video("util_encoder", "nvmlDeviceGetEncoderUtilization"),
    _video("util_decoder", "nvmlDeviceGetDecoderUtilization"),
    _link("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _link("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
    _link("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _link("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    _call("pcie_replays", "nvmlDeviceGetPcieReplayCounter", pace="window"),
    _ecc("ecc_corrected", "CORRECTED", "slow"),
    _ecc("ecc_uncorrected", "UNCORRECTED", "every"),
    NvmlCall(
        "nvmlDeviceGetRemappedRows",
        ("remapped_corrected", "remapped_uncorrected", "remapped_pending", "remapped_failed"),
        _remapped,
        "slow",
    ),
    _call(
        "power_limit", "nvmlDeviceGetEnforcedPowerLimit", pace="setting", raw=_number("nvmlDeviceGetEnforcedPowerLimit")
    ),
)
"""In the order they are made. ``producers.gpu.fields`` maps them to fields of a sample."""
