"""NVML calls that are not fields: what each returns, by key, and how often it is made.

Every call costs some 50 us of the driver, so slow values are read once in ten seconds, spread over the GPUs: eight GPUs
take some seven calls each a second.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pynvml

from producers.gpu.library import REFUSED
from producers.gpu.ready import Raw, Together, function_of

Values = dict[str, int]
Read = Callable[[Any], Values]
Pace = Literal["every", "slow", "setting"]


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """``pace``: made at every reading; once in ten seconds; or once in ten seconds, its value in every reading.

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
    _call("energy", "nvmlDeviceGetTotalEnergyConsumption"),
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
    _call("pcie_replays", "nvmlDeviceGetPcieReplayCounter", pace="slow"),
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
