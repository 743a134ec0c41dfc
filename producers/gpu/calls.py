"""The calls of NVML that are no fields: what each returns, by key, and how often it is worth asking.

Every call costs some 50 us of the driver: what changes slowly is asked once in ten seconds, spread over the GPUs, so
that eight GPUs are read with some seven calls each a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pynvml

from producers.gpu.library import REFUSED

Values = dict[str, int]
Read = Callable[[Any], Values]


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """``pace``: asked at every reading; once in ten seconds; or once in ten seconds and told with every reading."""

    name: str
    keys: tuple[str, ...]
    read: Read
    pace: Literal["every", "slow", "setting"] = "every"


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
    NvmlCall("nvmlDeviceGetUtilizationRates", ("util_gpu", "util_memory"), _utilization),
    NvmlCall(
        "nvmlDeviceGetMemoryInfo", ("memory_used", "memory_total", "memory_reserved"), _newest(_memory_2, _memory_1)
    ),
    NvmlCall(
        "nvmlDeviceGetTemperatureV",
        ("temperature",),
        _newest(
            _one("temperature", pynvml.nvmlDeviceGetTemperatureV, pynvml.NVML_TEMPERATURE_GPU),
            _one("temperature", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        ),
    ),
    NvmlCall(
        "nvmlDeviceGetClockInfo(SM)",
        ("clock_sm",),
        _one("clock_sm", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
    ),
    NvmlCall(
        "nvmlDeviceGetCurrentClocksEventReasons",
        ("clock_reasons",),
        _newest(
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons),
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        ),
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
