"""Activity of SMs, tensor cores and memory (GPM, Hopper and newer): a mean between two samples of the driver.

The sample of the reading before serves as the first of the two, so a reading costs one sample and one comparison. On a
MIG instance this is the only measure of utilisation there is; it covers the whole GPU instance, so compute instances
that share one tell the same.
"""

from __future__ import annotations

from typing import Any

import pynvml

INTERVAL_MS_MIN = 100
"""Samples must be so far apart (NVML API reference, nvmlGpmMetricsGet)."""
PPM_PER_PERCENT = 10_000


class GpmReader:
    """Two samples of one device, used in turn. For one thread at a time; ``close`` frees them."""

    def __init__(self, handle: Any, instance_id: int | None) -> None:
        """``instance_id``: the GPU instance on ``handle`` (the whole GPU), None for the GPU itself."""
        self._handle = handle
        self._instance_id = instance_id
        self._samples = (pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc())
        self._taken_ms: int | None = None
        self._newest = 0
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._requested: tuple[int, ...] = ()

    def read(self, metrics: tuple[int, ...], now_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        """Means since the reading before, in ppm by metric, and the codes of those that failed.

        Both are empty at the first reading, and less than ``INTERVAL_MS_MIN`` after the one before. ``now_ms`` is
        monotonic.
        """
        before_ms = self._taken_ms
        if before_ms is not None and now_ms - before_ms < INTERVAL_MS_MIN:
            return {}, {}
        older, newer = self._newest, 1 - self._newest
        self._take(self._samples[newer])
        self._newest, self._taken_ms = newer, now_ms
        return ({}, {}) if before_ms is None else self._compare(self._samples[older], self._samples[newer], metrics)

    def close(self) -> None:
        """Free what the driver holds for the samples."""
        for sample in self._samples:
            pynvml.nvmlGpmSampleFree(sample)

    def _take(self, sample: Any) -> None:
        if self._instance_id is None:
            pynvml.nvmlGpmSampleGet(self._handle, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(self._handle, self._instance_id, sample)

    def _compare(self, older: Any, newer: Any, metrics: tuple[int, ...]) -> tuple[dict[int, int], dict[int, int]]:
        request = self._request
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        request.sample1, request.sample2 = older, newer
        if metrics != self._requested:
            self._requested = metrics
            for entry, metric in zip(request.metrics, metrics, strict=False):
                entry.metricId = metric
        pynvml.nvmlGpmMetricsGet(request)
        means: dict[int, int] = {}
        failed: dict[int, int] = {}
        for entry, metric in zip(request.metrics, metrics, strict=False):
            code, mean = entry.nvmlReturn, entry.value
            if code != pynvml.NVML_SUCCESS:
                failed[metric] = code
            elif mean == mean:  # a share of nothing is no number
                means[metric] = min(1_000_000, max(0, round(mean * PPM_PER_PERCENT)))
        return means, failed


def open_gpm(handle: Any, instance_id: int | None = None) -> GpmReader | None:
    """A reader; None where the GPU or the driver does not know GPM. ``handle``: of the whole GPU."""
    try:
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return GpmReader(handle, instance_id)
    except pynvml.NVMLError:
        return None
