"""Counters and gauges, kept in one Prometheus registry per process.

A name outside the catalogue cannot be counted. Books balance with these: received = sent + rejected + waiting.

Inside, times are milliseconds; at the border ``edge_oldest_ms`` is ``edge_oldest_seconds`` with the value divided, as
Prometheus' naming asks (https://prometheus.io/docs/practices/naming/, 2024-05). The moments at which counters were
made are left out: they double the page.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from runtime.metric_catalogue import CATALOGUE, Metric

PREFIX = "fleetpulse_"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SERIES_MAX = 1_000
"""Sets of label values per metric; those that come later are counted as ``__other__``."""
OTHER = "__other__"


@dataclass(slots=True)
class _Kept:
    metric: Metric
    collector: Counter | Gauge
    seen: set[tuple[str, ...]] = field(default_factory=set)


class Counters:
    """The counters of one process. ``add`` and ``set`` may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kept: dict[str, _Kept] = {}
        self._keeping = threading.Lock()

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        """Increase a counter by ``by`` (0 or more)."""
        self._labelled(name, "counter", labels).inc(by)

    def set(self, name: str, value: float, **labels: object) -> None:
        """Set a gauge."""
        gauge = self._labelled(name, "gauge", labels)
        assert isinstance(gauge, Gauge)
        gauge.set(value)

    def record(self, name: str, value: float, **labels: object) -> None:
        """Add ``value`` to a counter, or set a gauge to it: whichever ``name`` is."""
        (self.add if CATALOGUE[name].kind == "counter" else self.set)(name, value, **labels)

    def forget(self, label: str, but: Collection[str]) -> None:
        """Drop all values of gauges that have this label, except those named ``but``: another process reports them
        from now on. Counters stay: they never fall."""
        for name, kept in list(self._kept.items()):
            if kept.metric.kind == "gauge" and label in kept.metric.labels and name not in but:
                kept.collector.clear()
                kept.seen.clear()

    def value(self, name: str, **labels: object) -> float:
        """What was counted so far under these labels; 0 when nothing was."""
        kind = CATALOGUE[name].kind
        sample = f"{PREFIX}{name}" + ("_total" if kind == "counter" else "")
        values = {label: str(value) for label, value in labels.items()}
        return self.registry.get_sample_value(sample, values) or 0.0

    def readings(self) -> list[tuple[str, dict[str, str], float]]:
        """Name, labels and value of everything that was counted or set, in no order."""
        return [
            (name, sample.labels, sample.value)
            for name, kept in list(self._kept.items())
            for family in kept.collector.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]

    def render(self) -> bytes:
        """All of them in the Prometheus text format, under Prometheus' names and in its units."""
        return exposition(self.registry)

    def _labelled(self, name: str, kind: str, labels: Mapping[str, object]) -> Counter | Gauge:
        kept = self._kept.get(name) or self._keep(name)
        metric = kept.metric
        assert metric.kind == kind, f"{name} is a {metric.kind}"
        if not metric.labels:
            return kept.collector
        values = tuple(str(labels[label]) for label in metric.labels)
        if values not in kept.seen:
            if len(kept.seen) >= SERIES_MAX:
                values = (OTHER,) * len(values)
            else:
                kept.seen.add(values)
        return kept.collector.labels(*values)

    def _keep(self, name: str) -> _Kept:
        assert name in CATALOGUE, f"{name} is not in the catalogue of counters"
        metric = CATALOGUE[name]
        make = Counter if metric.kind == "counter" else Gauge
        with self._keeping:
            if name not in self._kept:
                text = f"{metric.meaning} ({metric.unit})"
                self._kept[name] = _Kept(metric, make(PREFIX + name, text, metric.labels, registry=self.registry))
            return self._kept[name]


COUNTERS = Counters()
"""This process's counters."""


MS_PER_S = 1_000


def exposition(registry: CollectorRegistry) -> bytes:
    """The text that ``/metrics`` answers."""
    return bytes(generate_latest(_Border(registry)))


def exported_name(name: str) -> str:
    """Prometheus' name of one of our counters, without prefix and ``_total``."""
    return f"{name.removesuffix('_ms')}_seconds" if name.endswith("_ms") else name


class _Border:
    """What ``generate_latest`` needs of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            yield _renamed(family)


def _renamed(family: Family) -> Family:
    name = exported_name(family.name)
    scale = 1 if name == family.name else MS_PER_S
    text = family.documentation if scale == 1 else family.documentation.removesuffix("(ms)") + "(seconds)"
    renamed = Family(name, text, family.type)
    renamed.samples = [
        Sample(name + sample.name.removeprefix(family.name), sample.labels, sample.value / scale)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    return renamed
