"""Many NVML fields in one call, and GPM metrics, read out of the driver's arrays without an object per field.

``pynvml.nvmlDeviceGetFieldValues`` builds the array and its entries at each call; here it is built once per plan.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pynvml

from producers.gpu.calls import CCall, function_of
from producers.gpu.fields import GROWING, Value

_ENTRY = "IIqqIIQ"
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (nvml.h). Little-endian, as
every machine with such a driver is."""
_HEADS, _RAWS = "24xQ8x", "32xQ"
"""Of an entry: valueType and nvmlReturn as one number, which hardly ever changes; value."""
_MARKERS_FROM = 2**62
"""Values from here on are markers for "not available" (nvml.h and DCGM use several), never amounts."""
_NOT_AVAILABLE_32 = 0xFFFF_FFFF


class FieldValues:
    """An array for ``values``, used again at each reading. For one thread at a time."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.keys, self._scaled, self._heads, self._raws = _layout(tuple(values))
        self._array = (pynvml.c_nvmlFieldValue_t * len(values))()
        self._arguments = (ctypes.c_int(len(values)), ctypes.byref(self._array))
        self._c_calls: tuple[CCall, ...] = ()
        self._heads_seen: tuple[int, ...] = ()
        self._odd: tuple[tuple[str, int], ...] = ()
        self._failed: dict[str, int] = {}
        for entry, value in zip(self._array, values, strict=True):
            entry.fieldId, entry.scopeId = value.id, value.scope

    def c_calls(self, handle: Any) -> tuple[CCall, ...]:
        """The call, of always the same device; none where there is nothing to ask for. ``NVMLError`` when the driver
        lacks it."""
        if self.keys and not self._c_calls:
            self._c_calls = ((function_of("nvmlDeviceGetFieldValues"), (handle, *self._arguments)),)
        return self._c_calls

    def decode(self) -> tuple[dict[str, int], dict[str, int]]:
        """Amounts in our units by key, and the codes of those that failed; what the driver does not have is in
        neither. After a call that went well as a whole."""
        heads, raws = self._heads.unpack(self._array), self._raws.unpack(self._array)
        if heads != self._heads_seen:
            self._take_heads(heads)
        values = dict(zip(self.keys, raws, strict=True))
        for key in self._failed:
            del values[key]
        for key, kind in self._odd:
            _put(values, key, _amount(kind, values[key]))
        if max(raws, default=0) >= _MARKERS_FROM:
            values = {key: value for key, value in values.items() if value < _MARKERS_FROM}
        for key, times, per in self._scaled:
            if key in values:
                values[key] = values[key] * times // per
        return values, self._failed

    def _take_heads(self, heads: tuple[int, ...]) -> None:
        """Which values failed, and which are no plain 64 bits; that hardly ever changes."""
        self._heads_seen = heads
        entries = [(key, head & 0xFFFF_FFFF, head >> 32) for key, head in zip(self.keys, heads, strict=True)]
        self._failed = {key: code for key, _, code in entries if code}
        plain = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        self._odd = tuple((key, kind) for key, kind, code in entries if not code and kind != plain)


@lru_cache(maxsize=64)
def _layout(
    values: tuple[Value, ...],
) -> tuple[tuple[str, ...], tuple[tuple[str, int, int], ...], struct.Struct, struct.Struct]:
    """Keys, those that are scaled, and what the array is read with: the same memory for all devices of a plan."""
    keys = tuple(value.key for value in values)
    scaled = tuple((value.key, value.times, value.per) for value in values if value.times != value.per)
    return keys, scaled, struct.Struct("<" + _HEADS * len(values)), struct.Struct("<" + _RAWS * len(values))


def _put(values: dict[str, int], key: str, amount: int | None) -> None:
    if amount is None:
        del values[key]
    else:
        values[key] = amount


def _amount(kind: int, raw: int) -> int | None:
    """The number in the union's 8 bytes, by nvmlValueType_t; None when it is not one."""
    if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        low = raw & 0xFFFF_FFFF
        return None if low == _NOT_AVAILABLE_32 else low
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    number = struct.unpack_from(layout, raw.to_bytes(8, "little"))[0]
    return int(number) if math.isfinite(number) else None


_LAYOUTS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "<d",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "<Q",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "<q",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "<i",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "<H",
}


INTERVAL_MS_MIN = 100
"""Samples must be so far apart (NVML API reference, nvmlGpmMetricsGet)."""
PPM_PER_PERCENT = 10_000
BYTES_PER_MIB = 2**20


_METRICS_AT = pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
_METRIC = "4xId24x"
"""nvmlGpmMetric_t (nvml.h): metricId (skipped), nvmlReturn, value, and three pointers to names (skipped)."""


class GpmReader:
    """Two samples of one device, used in turn. For one thread at a time; ``close`` frees them."""

    def __init__(self, handle: Any, instance_id: int | None) -> None:
        """``instance_id``: the GPU instance on ``handle`` (the whole GPU), None for the GPU itself."""
        self._handle = handle
        self._instance_id = instance_id
        self._samples = (pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc())
        self._taken_ms: int | None = None
        self._newest = 0
        self._metrics: tuple[int, ...] = ()
        self._layout = struct.Struct("")
        self._requests: tuple[Any, Any] | None = None
        self._compared: Any = None
        self._taking: tuple[int, int] | None = None

    def c_calls(self, metrics: tuple[int, ...], now_ms: int) -> tuple[CCall, ...]:
        """A sample; none less than ``INTERVAL_MS_MIN`` after the one before. ``now_ms`` is monotonic.

        ``NVMLError`` when the driver lacks a function.
        """
        before_ms, self._compared, self._taking = self._taken_ms, None, None
        if before_ms is not None and now_ms - before_ms < INTERVAL_MS_MIN:
            return ()
        newer = 1 - self._newest
        self._taking = newer, now_ms
        if before_ms is not None:
            if self._requests is None or metrics != self._metrics:
                self._metrics, self._layout = metrics, struct.Struct(f"<{_METRICS_AT}x" + _METRIC * len(metrics))
                self._requests = (self._request(0, metrics), self._request(1, metrics))
            self._compared = self._requests[newer]
        return (self._sample(self._samples[newer]),)

    def compares(self) -> tuple[CCall, ...]:
        """The comparison of a sample that was taken with the one before; none at the first time."""
        if self._compared is None:
            return ()
        return ((function_of("nvmlGpmMetricsGet"), (ctypes.byref(self._compared),)),)

    def decode(self) -> tuple[dict[int, int], dict[int, int]]:
        """By metric the mean since the reading before in ppm, or the bytes since then; and the codes of those that
        failed. Both empty where nothing was compared. After calls that went well as a whole; else the sample before
        goes on to be the newest."""
        means: dict[int, int] = {}
        failed: dict[int, int] = {}
        before_ms = self._taken_ms
        if self._taking is not None:
            self._newest, self._taken_ms = self._taking
        if self._compared is None:
            return means, failed
        assert self._taken_ms is not None
        assert before_ms is not None, "what was compared has a sample before"
        span_ms = self._taken_ms - before_ms
        unpacked = self._layout.unpack_from(self._compared)
        for metric, code, mean in zip(self._metrics, unpacked[::2], unpacked[1::2], strict=True):
            if code != pynvml.NVML_SUCCESS:
                failed[metric] = code
            elif not math.isfinite(mean):  # a share of nothing is no number
                continue
            elif metric in GROWING:
                means[metric] = max(0, round(mean * BYTES_PER_MIB * span_ms / 1_000))
            else:
                means[metric] = min(1_000_000, max(0, round(mean * PPM_PER_PERCENT)))
        return means, failed

    def close(self) -> None:
        """Free what the driver holds for the samples."""
        for sample in self._samples:
            pynvml.nvmlGpmSampleFree(sample)

    def _sample(self, sample: Any) -> CCall:
        if self._instance_id is None:
            return function_of("nvmlGpmSampleGet"), (self._handle, sample)
        return function_of("nvmlGpmMigSampleGet"), (self._handle, self._instance_id, sample)

    def _request(self, newer: int, metrics: tuple[int, ...]) -> Any:
        """Asks for all metrics between the two samples, of which ``newer`` is the later one."""
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        request.sample1, request.sample2 = self._samples[1 - newer], self._samples[newer]
        for entry, metric in zip(request.metrics, metrics, strict=False):
            entry.metricId = metric
        return request


def open_gpm(handle: Any, instance_id: int | None = None) -> GpmReader | None:
    """A reader; None where the GPU or the driver does not know GPM. ``handle``: of the whole GPU."""
    try:
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return GpmReader(handle, instance_id)
    except pynvml.NVMLError:
        return None
