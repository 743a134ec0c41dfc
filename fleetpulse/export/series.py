"""Rows of the queries ``windows_by_*`` as series of Prometheus, by one table. Pure.

A value is of one window and stands at its end. All are gauges: a rate is the window's own, so that nothing is lost
where the export pauses, and nothing is counted twice where it repeats itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

WINDOW_MS = 10_000
Labels = tuple[tuple[str, str], ...]
"""Sorted by name, as remote write asks."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a query as the metric ``name``, with a quantile where it is one."""

    name: str
    quantile: str | None = None


def _quantiles(name: str, column: str, *percents: int) -> dict[str, Column]:
    return {f"{column}_p{percent}_s": Column(name, f"{percent / 100:g}") for percent in percents}


COLUMNS: Mapping[str, Mapping[str, Column]] = MappingProxyType(
    {
        "windows_by_model": {
            "requests_per_s": Column("fleetpulse_model_requests_per_second"),
            "failed_per_s": Column("fleetpulse_model_failed_requests_per_second"),
            "input_tokens_per_s": Column("fleetpulse_model_input_tokens_per_second"),
            "output_tokens_per_s": Column("fleetpulse_model_output_tokens_per_second"),
            **_quantiles("fleetpulse_model_ttft_seconds", "ttft", 50, 95, 99),
            **_quantiles("fleetpulse_model_itl_seconds", "itl", 50, 99),
            **_quantiles("fleetpulse_model_e2e_seconds", "e2e", 50, 99),
            **_quantiles("fleetpulse_model_queue_seconds", "queue", 99),
        },
        "windows_by_engine": {
            "running": Column("fleetpulse_window_engine_requests_running"),
            "waiting": Column("fleetpulse_window_engine_requests_waiting"),
            "kv_used": Column("fleetpulse_window_engine_kv_cache_used_ratio"),
            "preemptions_per_s": Column("fleetpulse_window_engine_preemptions_per_second"),
            "generation_tokens_per_s": Column("fleetpulse_window_engine_generation_tokens_per_second"),
        },
        "windows_by_gpu": {
            "utilisation": Column("fleetpulse_window_gpu_utilization_ratio"),
            "power_w": Column("fleetpulse_window_gpu_power_watts"),
            "temperature_max_c": Column("fleetpulse_window_gpu_temperature_max_celsius"),
            "memory_used_max_bytes": Column("fleetpulse_window_gpu_memory_used_max_bytes"),
            "throttled_s": Column("fleetpulse_window_gpu_throttled_seconds"),
        },
    }
)
"""By query. Its other columns but ``window_ms`` are labels."""


@dataclass(slots=True)
class Collected:
    """Samples (ms, value) by series, and how many were left out because there were ``series_max`` already."""

    series_max: int
    series: dict[Labels, list[tuple[int, float]]] = field(default_factory=dict)
    dropped: int = 0
    seen_ms: int = 0
    """Where the newest window ends of which there was a row."""

    @property
    def samples(self) -> int:
        """Of all series."""
        return sum(map(len, self.series.values()))

    def windows(self) -> Iterator[dict[Labels, list[tuple[int, float]]]]:
        """The series of each window, oldest first."""
        found = defaultdict[int, dict[Labels, list[tuple[int, float]]]](dict)
        for labels, samples in self.series.items():
            for at_ms, value in samples:
                found[at_ms].setdefault(labels, []).append((at_ms, value))
        return (found[at_ms] for at_ms in sorted(found))

    def add(self, query: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """The rows of a query, in order of their windows. A value that is unknown is no sample."""
        columns = COLUMNS[query]
        for row in rows:
            values = dict(zip(names, row, strict=True))
            at_ms = int(str(values.pop("window_ms"))) + WINDOW_MS
            self.seen_ms = max(self.seen_ms, at_ms)
            labels = {name: str(value) for name, value in values.items() if name not in columns and value is not None}
            for name, column in columns.items():
                value = values[name]
                if isinstance(value, int | float) and math.isfinite(value):
                    self._sample(_labels(column, labels), at_ms, float(value))

    def _sample(self, labels: Labels, at_ms: int, value: float) -> None:
        if labels not in self.series and len(self.series) >= self.series_max:
            self.dropped += 1
            return
        self.series.setdefault(labels, []).append((at_ms, value))


def _labels(column: Column, labels: Mapping[str, str]) -> Labels:
    own = {"__name__": column.name} | ({} if column.quantile is None else {"quantile": column.quantile})
    return tuple(sorted({**own, **labels}.items()))
