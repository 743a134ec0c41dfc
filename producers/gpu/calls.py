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


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """``pace``: made at every reading; once in ten seconds; or once in ten seconds, its value in every reading.

    ``raw``: the newest version of the call, where preparing it is worth it.
    """

    name: str
    keys: tuple[str, ...]
    read: Read
    pace: Literal["every", "slow", "setting"] = "every"
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


_SAMPLING_PERIOD = (ctypes.byref(ctypes.c_uint()),)
"""The second output of the calls for video engines; not used."""


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
        raw=_number("nvmlDeviceGetClockInfo", ctypes.c_uint(pynvml.NVML_CLOCK_SM)),
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
        _number("nvmlDeviceGetClockInfo", ctypes.c_uint(pynvml.NVML_CLOCK_MEM)),
    ),
    NvmlCall(
        "nvmlDeviceGetPerformanceState",
        ("performance_state",),
        _one("performance_state", pynvml.nvmlDeviceGetPerformanceState),
        "slow",
        _number("nvmlDeviceGetPerformanceState"),
    ),
    NvmlCall(
        "nvmlDeviceGetMarginTemperature",
        ("temperature_margin",),
        _newest(_one("temperature_margin", pynvml.nvmlDeviceGetMarginTemperature), _margin_by_threshold),
        "slow",
        Raw("nvmlDeviceGetMarginTemperature", _margin_buffer, struct.Struct("=4xi")),
    ),
    NvmlCall(
        "nvmlDeviceGetEncoderUtilization",
        ("util_encoder",),
        _first_of("util_encoder", pynvml.nvmlDeviceGetEncoderUtilization),
        "slow",
        _number("nvmlDeviceGetEncoderUtilization", after=_SAMPLING_PERIOD),
    ),
    NvmlCall(
        "nvmlDeviceGetDecoderUtilization",
        ("util_decoder",),
        _first_of("util_decoder", pynvml.nvmlDeviceGetDecoderUtilization),
        "slow",
        _number("nvmlDeviceGetDecoderUtilization", after=_SAMPLING_PERIOD),
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
        _number("nvmlDeviceGetEnforcedPowerLimit"),
    ),
)
"""In the order they are made. ``producers.gpu.fields`` maps them to fields of a sample."""
