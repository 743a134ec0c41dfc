"""The calls of NVML that are no fields: what each returns, by key, and how often it is worth asking.

Every call costs some 50 us of the driver: what changes slowly is asked once in ten seconds, spread over the GPUs, so
that eight GPUs are read with some seven calls each a second.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pynvml

from producers.gpu.library import REFUSED

Values = dict[str, int]
Read = Callable[[Any], Values]


@dataclass(frozen=True, slots=True)
class Raw:
    """The C function behind a call, and where its answer lies. ``made`` makes the buffer it fills; ``before`` stands
    between handle and buffer. ``layout``: of the buffer (nvml.h), as ``struct`` reads it, a number for every key.
    """

    function: str
    made: Callable[[], Any]
    layout: struct.Struct
    before: tuple[Any, ...] = ()


class Prepared:
    """A call of one device, made ready: what pynvml makes anew each time is made once. For one thread at a time."""

    __slots__ = ("_arguments", "_buffer", "_function", "_keys", "_unpack")

    def __init__(self, raw: Raw, keys: tuple[str, ...], handle: Any) -> None:
        """``NVMLError`` where the driver lacks the function."""
        self._function = pynvml._nvmlGetFunctionPointer(raw.function)
        self._buffer = raw.made()
        self._arguments = (handle, *raw.before, ctypes.byref(self._buffer))
        self._keys, self._unpack = keys, raw.layout.unpack

    def into(self, values: Values) -> int:
        """Ask, and put what it tells into ``values``; the driver's code."""
        code = int(self._function(*self._arguments))
        if code == 0:
            values.update(zip(self._keys, self._unpack(self._buffer), strict=True))
        return code


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """``pace``: asked at every reading; once in ten seconds; or once in ten seconds and told with every reading.

    ``raw``: the newest way to ask, where that is worth being made ready.
    """

    name: str
    keys: tuple[str, ...]
    read: Read
    pace: Literal["every", "slow", "setting"] = "every"
    raw: Raw | None = None

    def prepared(self, handle: Any) -> Prepared | None:
        """Made ready for a device; None where there is only ``read``."""
        try:
            return None if self.raw is None else Prepared(self.raw, self.keys, handle)
        except pynvml.NVMLError:
            return None


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


def _first_of(key: str, function: Callable[[Any], list[int]]) -> Read:
    return lambda handle: {key: function(handle)[0]}


def _remapped(handle: Any) -> Values:
    corrected, uncorrected, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_corrected": corrected,
        "remapped_uncorrected": uncorrected,
        "remapped_pending": pending,
        "remapped_failed": failed,
    }


def _ecc(key: str, kind: int) -> Read:
    return _one(key, pynvml.nvmlDeviceGetTotalEccErrors, kind, pynvml.NVML_VOLATILE_ECC)


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
    NvmlCall(
        "nvmlDeviceGetTemperatureV",
        ("temperature",),
        _newest(
            _one("temperature", pynvml.nvmlDeviceGetTemperatureV, pynvml.NVML_TEMPERATURE_GPU),
            _one("temperature", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        ),
        raw=Raw("nvmlDeviceGetTemperatureV", _temperature_buffer, struct.Struct("=8xi")),
    ),
    NvmlCall(
        "nvmlDeviceGetClockInfo(SM)",
        ("clock_sm",),
        _one("clock_sm", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        raw=Raw("nvmlDeviceGetClockInfo", ctypes.c_uint, struct.Struct("=I"), (ctypes.c_uint(pynvml.NVML_CLOCK_SM),)),
    ),
    NvmlCall(
        "nvmlDeviceGetCurrentClocksEventReasons",
        ("clock_reasons",),
        _newest(
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons),
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        ),
        raw=Raw("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong, struct.Struct("=Q")),
    ),
    NvmlCall("nvmlDeviceGetPowerUsage", ("power",), _one("power", pynvml.nvmlDeviceGetPowerUsage)),
    NvmlCall(
        "nvmlDeviceGetTotalEnergyConsumption",
        ("energy",),
        _one("energy", pynvml.nvmlDeviceGetTotalEnergyConsumption),
    ),
    NvmlCall(
        "nvmlDeviceGetClockInfo(MEM)",
        ("clock_memory",),
        _one("clock_memory", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetPerformanceState",
        ("performance_state",),
        _one("performance_state", pynvml.nvmlDeviceGetPerformanceState),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetMarginTemperature",
        ("temperature_margin",),
        _newest(_one("temperature_margin", pynvml.nvmlDeviceGetMarginTemperature), _margin_by_threshold),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetEncoderUtilization",
        ("util_encoder",),
        _first_of("util_encoder", pynvml.nvmlDeviceGetEncoderUtilization),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetDecoderUtilization",
        ("util_decoder",),
        _first_of("util_decoder", pynvml.nvmlDeviceGetDecoderUtilization),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetPcieReplayCounter",
        ("pcie_replays",),
        _one("pcie_replays", pynvml.nvmlDeviceGetPcieReplayCounter),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetTotalEccErrors(CORRECTED)",
        ("ecc_corrected",),
        _ecc("ecc_corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetTotalEccErrors(UNCORRECTED)",
        ("ecc_uncorrected",),
        _ecc("ecc_uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    ),
    NvmlCall(
        "nvmlDeviceGetRemappedRows",
        ("remapped_corrected", "remapped_uncorrected", "remapped_pending", "remapped_failed"),
        _remapped,
        "slow",
    ),
    NvmlCall(
        "nvmlDeviceGetEnforcedPowerLimit",
        ("power_limit",),
        _one("power_limit", pynvml.nvmlDeviceGetEnforcedPowerLimit),
        "setting",
    ),
)
"""In the order they are made. The figures made of them stand in ``producers.gpu.fields``."""
