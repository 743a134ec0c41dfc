"""Activity of SMs, tensor cores and memory (GPM, Hopper and newer): a mean between two samples of the driver.

The sample of the reading before serves as the first of the two, so a reading costs one sample and one comparison. On a
MIG instance this is the only measure of utilization there is; it covers the whole GPU instance, so compute instances
that share one report the same.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import pynvml

from producers.gpu.ready import CCall, function_of

INTERVAL_MS_MIN = 100
"""Samples must be so far apart (NVML API reference, nvmlGpmMetricsGet)."""
PPM_PER_PERCENT = 10_000


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
        """Means since the reading before, in ppm by metric, and the codes of those that failed; both empty where
        nothing was compared. After calls that went well as a whole; else the sample before goes on to be the newest."""
        means: dict[int, int] = {}
        failed: dict[int, int] = {}
        if self._taking is not None:
            self._newest, self._taken_ms = self._taking
        if self._compared is None:
            return means, failed
        unpacked = self._layout.unpack_from(self._compared)
        for metric, code, mean in zip(self._metrics, unpacked[::2], unpacked[1::2], strict=True):
            if code != pynvml.NVML_SUCCESS:
                failed[metric] = code
            elif math.isfinite(mean):  # a share of nothing is no number
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
