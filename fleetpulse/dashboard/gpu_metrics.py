"""What GPUs can be coloured and charted by: columns, scale, unit. Data; one more metric is one more line."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """value = ``total`` / ``known`` * ``scale``, in ``unit`` (as ``charts.number_js`` names them). ``most`` ends the
    colour scale; None: the greatest value seen."""

    title: str
    total: str
    known: str
    scale: float
    unit: str
    most: float | None


def _gauge(title: str, column: str, scale: float, unit: str, most: float | None = None) -> GpuMetric:
    return GpuMetric(title, f"{column}_sum", f"{column}_count", scale, unit, most)


GPU_METRICS: dict[str, GpuMetric] = {
    "busy": _gauge("Utilization", "util_gpu_pct", 0.01, "share", 1.0),
    "memory": GpuMetric("Memory in use", "memory_used_bytes_sum", "memory_total_bytes_sum", 1.0, "share", 1.0),
    "power": GpuMetric("Power of its limit", "power_mw_sum", "power_limit_mw_sum", 1.0, "share", 1.0),
    "power_w": _gauge("Power", "power_mw", 1e-3, "W"),
    "temperature": _gauge("Temperature", "temperature_c", 1.0, "°C", 95.0),
    "memory_temperature": _gauge("Memory temperature", "temperature_memory_c", 1.0, "°C", 105.0),
    "throttled": GpuMetric("Throttled by heat or power", "throttled_us_sum", "interval_ms_sum", 1e-3, "share", 1.0),
    "clock": _gauge("SM clock", "clock_sm_mhz", 1.0, "MHz"),
    "sm_active": _gauge("SMs active", "sm_active_ppm", 1e-6, "share", 1.0),
    "tensor_active": _gauge("Tensor cores active", "tensor_active_ppm", 1e-6, "share", 1.0),
    "memory_busy": _gauge("Memory busy", "util_memory_pct", 0.01, "share", 1.0),
}
