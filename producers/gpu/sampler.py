"""This host's NVIDIA GPUs once a second, by NVML.

What is read stands in two tables: calls of their own, and field values (one call for all of them). A figure that a
GPU does not support is null; it is told once and not asked again until the GPU is found anew. A GPU that is lost
becomes an event, once, and so does its return. GPUs are known by their UUID, never by their index.

Units and traps: NVIDIA NVML API reference (nvidia-ml-py 12.560). Counters are turned into differences here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pynvml

from producers.differences import INTERVAL_MS_MAX, plausible, since
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events import GPU_SAMPLES
from schemas.fields import Role

_log = logging.getLogger(__name__)

ALL_LINKS = 0xFFFF_FFFF
"""As the scope of an NVLink field: the sum over all links."""

DIFFERENCES = frozenset(field.name for field in GPU_SAMPLES.of(Role.DIFFERENCE)) - {"interval_ms"}

Figures = dict[str, int]
"""Readings by figure; parts of one figure as ``figure:part``, so that each is followed by itself."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of NVML and the figures it gives."""

    name: str
    read: Callable[[Any], Figures]


def _newest(*reads: Callable[[Any], Figures]) -> Callable[[Any], Figures]:
    """The first of these that the installed driver has, newest first."""

    def read(handle: Any) -> Figures:
        for each in reads[:-1]:
            try:
                return each(handle)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                    raise
        return reads[-1](handle)

    return read


def _one(figure: str, function: Callable[..., int], *arguments: Any) -> Callable[[Any], Figures]:
    return lambda handle: {figure: function(handle, *arguments)}


def _utilization(handle: Any) -> Figures:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"util_gpu_pct": rates.gpu, "util_memory_pct": rates.memory}


def _memory(**version: Any) -> Callable[[Any], Figures]:
    def read(handle: Any) -> Figures:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, **version)
        return {"memory_used_bytes": info.used, "memory_total_bytes": info.total}

    return read


CALLS: tuple[Call, ...] = (
    Call("utilization", _utilization),
    # Version 2 leaves what the driver reserves out of `used`.
    Call("memory", _newest(_memory(version=pynvml.nvmlMemory_v2), _memory())),
    Call(
        "temperature",
        _newest(
            _one("temperature_c", pynvml.nvmlDeviceGetTemperatureV, pynvml.NVML_TEMPERATURE_GPU),
            _one("temperature_c", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        ),
    ),
    Call("power", _one("power_mw", pynvml.nvmlDeviceGetPowerUsage)),
    Call("power limit", _one("power_limit_mw", pynvml.nvmlDeviceGetEnforcedPowerLimit)),
    Call("SM clock", _one("clock_sm_mhz", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)),
    Call("memory clock", _one("clock_memory_mhz", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM)),
    Call(
        "clock reasons",
        _newest(
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons),
            _one("clock_reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        ),
    ),
    Call("energy", _one("energy_mj", pynvml.nvmlDeviceGetTotalEnergyConsumption)),
)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One NVML field: ``value * times // per`` of the figure, or of a part of it where several name the same."""

    id: int
    figure: str
    scope: int = 0
    times: int = 1
    per: int = 1

    @property
    def name(self) -> str:
        return f"{self.figure}:{self.id}" if self.figure in DIFFERENCES else self.figure


FIELD_VALUES: tuple[FieldValue, ...] = (
    FieldValue(pynvml.NVML_FI_DEV_MEMORY_TEMP, "temperature_memory_c"),
    # Nanoseconds below the wanted clocks, by cause; low utilisation (78) is no throttling and is left out.
    FieldValue(pynvml.NVML_FI_DEV_PERF_POLICY_POWER, "throttled_us", per=1_000),
    FieldValue(pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, "throttled_us", per=1_000),
    FieldValue(pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, "throttled_us", per=1_000),
    FieldValue(pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, "throttled_us", per=1_000),
    FieldValue(pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, "pcie_tx_bytes"),
    FieldValue(pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, "pcie_rx_bytes"),
    FieldValue(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "nvlink_tx_bytes", ALL_LINKS, times=1_024),
    FieldValue(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "nvlink_rx_bytes", ALL_LINKS, times=1_024),
)
_VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_NOT_FOUND)
_UNSUPPORTED = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)


def gpu_row(before: tuple[int, Figures] | None, now: tuple[int, Figures]) -> dict[str, int | None]:
    """The figures of a GPU sample from two readings, each with its monotonic moment in ms. Pure.

    Time throttled for several causes at once is counted once per cause by NVML: it is cut to the time that passed.
    """
    row: dict[str, int | None] = {name: value for name, value in now[1].items() if _figure(name) not in DIFFERENCES}
    if row.get("temperature_memory_c") == 0:
        row["temperature_memory_c"] = None  # a card without the sensor says 0
    interval_ms = now[0] - before[0] if before is not None else None
    if before is None or interval_ms is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return row
    for name, value in now[1].items():
        grown = since(before[1].get(name), value) if _figure(name) in DIFFERENCES else None
        if grown is not None:
            row[_figure(name)] = (row.get(_figure(name)) or 0) + grown
    throttled_us = row.get("throttled_us")
    if throttled_us is not None:
        row["throttled_us"] = min(throttled_us, interval_ms * 1_000)
    return row | {"interval_ms": interval_ms}


def _figure(name: str) -> str:
    return name.partition(":")[0]


@dataclass(slots=True)
class _Gpu:
    uuid: str
    model: str | None
    handle: Any
    before: tuple[int, Figures] | None = None
    lost: bool = False
    unsupported: set[str] = field(default_factory=set)


class GpuLostError(Exception):
    """The GPU does not answer any more."""


class NvmlSampler:
    """Make it with ``open``. ``sample`` blocks (and may hang with the driver): call it in a thread of its own."""

    def __init__(
        self,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Mapping[str, str | None]] | None = None,
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        self._clock = clock or SystemClock()
        self._labels = dict(labels)
        self._placement = placement or {}
        self._counters = counters
        self._told: set[tuple[str, str]] = set()
        self._gpus = [self._found(index) for index in range(pynvml.nvmlDeviceGetCount())]

    @classmethod
    def open(
        cls,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Mapping[str, str | None]] | None = None,
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> Self | None:
        """The sampler of this host's GPUs; None where there is no NVIDIA driver or no GPU.

        ``labels`` go into every row (host, cluster, region), ``placement`` by UUID: engine_id, placement_group,
        workload.
        """
        try:
            pynvml.nvmlInit()
            sampler = cls(labels, placement, clock=clock, counters=counters)
        except pynvml.NVMLError as error:
            _log.info("no GPU is sampled", extra={"why": str(error)})
            return None
        return sampler if sampler._gpus else None

    def close(self) -> None:
        pynvml.nvmlShutdown()

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """The GPUs that are sampled."""
        return tuple(gpu.uuid for gpu in self._gpus)

    def sample(self, at_ms: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of ``gpu.samples`` and of ``gpu.events``."""
        samples, events = [], []
        for gpu in self._gpus:
            try:
                if gpu.lost:
                    gpu.handle = _handle(gpu.uuid)
                figures = dict(self._figures(gpu))
            except GpuLostError as error:
                if not gpu.lost:
                    events.append(self._event(gpu, at_ms, "gpu_lost", "critical", str(error)))
                gpu.lost, gpu.before = True, None
                continue
            if gpu.lost:
                events.append(self._event(gpu, at_ms, "gpu_found", "info", "the GPU answers again"))
                gpu.lost = False
                gpu.unsupported.clear()
            samples.append(self._row(gpu, at_ms, figures))
        return samples, events

    def _row(self, gpu: _Gpu, at_ms: int, figures: Figures) -> dict[str, Any]:
        now = (round(self._clock.monotonic_s() * 1_000), figures)
        row, wrong = plausible(GPU_SAMPLES, gpu_row(gpu.before, now))
        gpu.before = now
        for name in wrong:
            self._note(gpu, name, "it lies outside its bounds")
        return self._identity(gpu, at_ms) | row

    def _identity(self, gpu: _Gpu, at_ms: int) -> dict[str, Any]:
        known = {"at_ms": at_ms, "origin": "measured", "gpu_uuid": gpu.uuid, "gpu_model": gpu.model}
        return known | self._labels | dict(self._placement.get(gpu.uuid, {}))

    def _event(self, gpu: _Gpu, at_ms: int, kind: str, severity: str, message: str) -> dict[str, Any]:
        _log.warning("a GPU changed", extra={"gpu": gpu.uuid, "kind": kind, "why": message})
        return self._identity(gpu, at_ms) | {"kind": kind, "severity": severity, "message": message}

    def _found(self, index: int) -> _Gpu:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        try:
            model = pynvml.nvmlDeviceGetName(handle)
        except pynvml.NVMLError:
            model = None
        return _Gpu(pynvml.nvmlDeviceGetUUID(handle), model, handle)

    def _figures(self, gpu: _Gpu) -> Iterator[tuple[str, int]]:
        for call in CALLS:
            if call.name in gpu.unsupported:
                continue
            try:
                yield from call.read(gpu.handle).items()
            except pynvml.NVMLError as error:
                self._judge(gpu, call.name, error)
        yield from self._field_values(gpu).items()

    def _field_values(self, gpu: _Gpu) -> Figures:
        wanted = [value for value in FIELD_VALUES if value.name not in gpu.unsupported]
        if not wanted or "field values" in gpu.unsupported:
            return {}
        try:
            answers = pynvml.nvmlDeviceGetFieldValues(gpu.handle, [(value.id, value.scope) for value in wanted])
        except pynvml.NVMLError as error:
            self._judge(gpu, "field values", error)
            return {}
        figures: Figures = {}
        for value, answer in zip(wanted, answers, strict=True):
            if answer.nvmlReturn == pynvml.NVML_SUCCESS:
                amount = int(getattr(answer.value, _VALUE_OF_TYPE[answer.valueType]))
                figures[value.name] = amount * value.times // value.per
            else:
                self._judge(gpu, value.name, pynvml.NVMLError(answer.nvmlReturn))
        return figures

    def _judge(self, gpu: _Gpu, name: str, error: Any) -> None:
        if error.value in _LOST:
            raise GpuLostError(str(error))
        if error.value in _UNSUPPORTED:
            gpu.unsupported.add(name)
        self._note(gpu, name, str(error))

    def _note(self, gpu: _Gpu, name: str, why: str) -> None:
        self._counters.add("sampler_errors", sampler="nvml", field=name)
        if (gpu.uuid, name) not in self._told:
            self._told.add((gpu.uuid, name))
            _log.info("a figure of a GPU is null", extra={"gpu": gpu.uuid, "field": name, "why": why})


def _handle(uuid: str) -> Any:
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        raise GpuLostError(str(error)) from error
