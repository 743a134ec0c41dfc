"""The last reading of each GPU, engine and of the host as Prometheus metrics, for ``/metrics`` of the agent.

Names and base units are Prometheus' (https://prometheus.io/docs/practices/naming/). What collectors read as a
difference adds up to a counter that begins with the agent. A reading older than ``stale_ms`` is left out, so that a GPU
or an engine that is gone has no value instead of its last. At most ``series_max`` of them are kept.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from producers.collector import Collected, Row
from runtime.counters import COUNTERS, Counters
from runtime.edge_config import ExpositionConfig


@dataclass(frozen=True, slots=True)
class ExposedMetric:
    """``field`` of a topic as the metric ``name``: ``scale`` of ours are one of its unit. ``total``: it adds up."""

    name: str
    field: str
    scale: float
    meaning: str
    total: bool = False


PLACE = ("cluster", "region", "host")
LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpu.samples": ("gpu_uuid", "gpu_model", "engine_id", "placement_group", "workload", *PLACE),
        "engine.samples": ("engine_id", "model", "placement_group", *PLACE),
        "host.samples": PLACE,
    }
)
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"gpu.samples": ("gpu_uuid",), "engine.samples": ("engine_id", "model"), "host.samples": ("host",)}
)
"""What tells the series of a topic apart; a label that changes goes on with the same totals."""
PPM, MILLI, MICRO = 1_000_000, 1_000, 1_000_000
EXPOSED: Mapping[str, tuple[ExposedMetric, ...]] = MappingProxyType(
    {
        "gpu.samples": (
            ExposedMetric(
                "fleetpulse_gpu_utilization_ratio", "util_gpu_pct", 100, "share of time with a kernel running"
            ),
            ExposedMetric("fleetpulse_gpu_sm_active_ratio", "sm_active_ppm", PPM, "multiprocessors with a warp"),
            ExposedMetric("fleetpulse_gpu_tensor_active_ratio", "tensor_active_ppm", PPM, "tensor cores at work"),
            ExposedMetric("fleetpulse_gpu_dram_active_ratio", "dram_active_ppm", PPM, "memory transferring"),
            ExposedMetric("fleetpulse_gpu_memory_used_bytes", "memory_used_bytes", 1, "memory in use"),
            ExposedMetric("fleetpulse_gpu_memory_total_bytes", "memory_total_bytes", 1, "memory there is"),
            ExposedMetric("fleetpulse_gpu_power_watts", "power_mw", MILLI, "power drawn"),
            ExposedMetric("fleetpulse_gpu_power_limit_watts", "power_limit_mw", MILLI, "power limit in force"),
            ExposedMetric("fleetpulse_gpu_temperature_celsius", "temperature_c", 1, "temperature of the chip"),
            ExposedMetric("fleetpulse_gpu_sm_clock_hertz", "clock_sm_mhz", 1e-6, "clock of the multiprocessors"),
            ExposedMetric("fleetpulse_gpu_energy_joules", "energy_mj", MILLI, "energy used", total=True),
            ExposedMetric("fleetpulse_gpu_throttled_seconds", "throttled_us", MICRO, "time throttled", total=True),
            ExposedMetric("fleetpulse_gpu_pcie_tx_bytes", "pcie_tx_bytes", 1, "sent by PCIe", total=True),
            ExposedMetric("fleetpulse_gpu_pcie_rx_bytes", "pcie_rx_bytes", 1, "received by PCIe", total=True),
            ExposedMetric("fleetpulse_gpu_nvlink_tx_bytes", "nvlink_tx_bytes", 1, "sent by NVLink", total=True),
            ExposedMetric("fleetpulse_gpu_nvlink_rx_bytes", "nvlink_rx_bytes", 1, "received by NVLink", total=True),
        ),
        "engine.samples": (
            ExposedMetric("fleetpulse_engine_requests_running", "running", 1, "requests in the running batch"),
            ExposedMetric("fleetpulse_engine_requests_waiting", "waiting", 1, "requests that wait for the engine"),
            ExposedMetric("fleetpulse_engine_kv_cache_used_ratio", "kv_used_ppm", PPM, "KV cache in use"),
            ExposedMetric("fleetpulse_engine_preemptions", "preemptions", 1, "requests preempted", total=True),
            ExposedMetric("fleetpulse_engine_prompt_tokens", "prompt_tokens", 1, "tokens of prompts", total=True),
            ExposedMetric(
                "fleetpulse_engine_prefix_hit_tokens", "prefix_hit_tokens", 1, "found in the cache", total=True
            ),
            ExposedMetric(
                "fleetpulse_engine_generation_tokens", "generation_tokens", 1, "tokens generated", total=True
            ),
            ExposedMetric(
                "fleetpulse_engine_requests_finished", "finished_requests", 1, "requests that ended", total=True
            ),
        ),
        "host.samples": (
            ExposedMetric("fleetpulse_host_cpu_busy_ratio", "cpu_busy_ppm", PPM, "processors busy"),
            ExposedMetric("fleetpulse_host_memory_used_bytes", "memory_used_bytes", 1, "memory in use"),
            ExposedMetric("fleetpulse_host_memory_total_bytes", "memory_total_bytes", 1, "memory there is"),
        ),
    }
)


@dataclass(slots=True)
class _Series:
    row: Row
    totals: dict[str, int] = field(default_factory=dict)


class Exposition(Collector):
    """Takes rows from the collectors' threads; read by the thread that answers ``/metrics``."""

    def __init__(self, config: ExpositionConfig, now_ms: Callable[[], int], counters: Counters = COUNTERS) -> None:
        self._config = config
        self._now_ms = now_ms
        self._counters = counters
        self._series: dict[tuple[str, ...], _Series] = {}
        self._lock = threading.Lock()

    def take(self, collected: Sequence[Collected]) -> None:
        """Keep the last row of each GPU, engine and host, and add up what they are differences of."""
        for part in collected:
            metrics = EXPOSED.get(part.event.topic)
            if metrics is not None:
                for row in part.rows:
                    self._take(part.event.topic, metrics, row)

    def _take(self, topic: str, metrics: Sequence[ExposedMetric], row: Row) -> None:
        key = (topic, *(str(row.get(name)) for name in KEYS[topic]))
        with self._lock:
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= self._config.series_max and not self._forget_stale():
                    self._counters.add("agent_exposition_dropped", topic=topic)
                    return
                series = self._series[key] = _Series(row)
            series.row = row
            for metric in metrics:
                if metric.total and (more := row.get(metric.field)) is not None:
                    series.totals[metric.field] = series.totals.get(metric.field, 0) + more

    def _forget_stale(self) -> bool:
        """Whether there is room now."""
        since_ms = self._now_ms() - self._config.stale_ms
        self._series = {key: kept for key, kept in self._series.items() if kept.row["at_ms"] >= since_ms}
        return len(self._series) < self._config.series_max

    def describe(self) -> Iterator[Metric]:
        """Nothing yet: a registry that asks would otherwise collect."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """The families, with what is known now."""
        since_ms = self._now_ms() - self._config.stale_ms
        with self._lock:
            kept = [
                (key[0], series.row, dict(series.totals))
                for key, series in self._series.items()
                if series.row["at_ms"] >= since_ms
            ]
        for topic, metrics in EXPOSED.items():
            of_topic = [(row, totals) for where, row, totals in kept if where == topic]
            for metric in metrics:
                yield from _family(topic, metric, of_topic)


def _family(topic: str, metric: ExposedMetric, kept: Sequence[tuple[Row, Mapping[str, int]]]) -> Iterator[Metric]:
    make = CounterMetricFamily if metric.total else GaugeMetricFamily
    family = make(metric.name, metric.meaning, labels=LABELS[topic])
    for row, totals in kept:
        value: Any = (totals if metric.total else row).get(metric.field)
        if value is not None:
            family.add_metric([str(row.get(name) or "") for name in LABELS[topic]], value / metric.scale)
    if family.samples:
        yield family


@contextlib.contextmanager
def exposed(
    config: ExpositionConfig, now_ms: Callable[[], int], counters: Counters = COUNTERS
) -> Iterator[Callable[[Sequence[Collected]], None]]:
    """Who takes what collectors read; ``/metrics`` shows it while inside, where the configuration says so."""
    if not config.enabled:
        yield lambda _collected: None
        return
    exposition = Exposition(config, now_ms, counters)
    counters.registry.register(exposition)
    try:
        yield exposition.take
    finally:
        counters.registry.unregister(exposition)
