"""Activity of SMs, tensor cores and memory (GPM, Hopper and newer): a mean between two samples of the driver.

The sample of the reading before serves as the first of the two, so a reading costs one sample and one comparison. On a
MIG instance this is the only measure of utilisation there is; it covers the whole GPU instance, so compute instances
that share one tell the same.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import pynvml

INTERVAL_MS_MIN = 100
"""Samples must be so far apart (NVML API reference, nvmlGpmMetricsGet)."""
PPM_PER_PERCENT = 10_000


_METRICS_AT = pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
_METRIC = struct.Struct("<IId24x")
"""nvmlGpmMetric_t (nvml.h): metricId, nvmlReturn, value, and three pointers to names."""


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
        self._requests: tuple[Any, Any] | None = None

    def read(self, metrics: tuple[int, ...], now_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        """Means since the reading before, in ppm by metric, and the codes of those that failed.

        Both are empty at the first reading, and less than ``INTERVAL_MS_MIN`` after the one before. ``now_ms`` is
        monotonic.
        """
        before_ms = self._taken_ms
        if before_ms is not None and now_ms - before_ms < INTERVAL_MS_MIN:
            return {}, {}
        newer = 1 - self._newest
        self._take(self._samples[newer])
        self._newest, self._taken_ms = newer, now_ms
        return ({}, {}) if before_ms is None else self._compare(newer, metrics)

    def close(self) -> None:
        """Free what the driver holds for the samples."""
        for sample in self._samples:
            pynvml.nvmlGpmSampleFree(sample)

    def _take(self, sample: Any) -> None:
        if self._instance_id is None:
            code = pynvml._nvmlGetFunctionPointer("nvmlGpmSampleGet")(self._handle, sample)
            if code != pynvml.NVML_SUCCESS:
                raise pynvml.NVMLError(code)
        else:
            pynvml.nvmlGpmMigSampleGet(self._handle, self._instance_id, sample)

    def _compare(self, newer: int, metrics: tuple[int, ...]) -> tuple[dict[int, int], dict[int, int]]:
        if self._requests is None or metrics != self._metrics:
            self._metrics = metrics
            self._requests = (self._request(0, metrics), self._request(1, metrics))
        request = pynvml.nvmlGpmMetricsGet(self._requests[newer])
        means: dict[int, int] = {}
        failed: dict[int, int] = {}
        for place, metric in enumerate(metrics):
            _, code, mean = _METRIC.unpack_from(request, _METRICS_AT + place * _METRIC.size)
            if code != pynvml.NVML_SUCCESS:
                failed[metric] = code
            elif math.isfinite(mean):  # a share of nothing is no number
                means[metric] = min(1_000_000, max(0, round(mean * PPM_PER_PERCENT)))
        return means, failed

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
