"""Our counters by Prometheus' names: base units, and no ``_created`` series.

Inside, times are milliseconds; at this border ``edge_oldest_ms`` is ``edge_oldest_seconds`` with the value divided, as
Prometheus' naming asks (https://prometheus.io/docs/practices/naming/, 2024-05). The moments at which counters were
made are left out: they double the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

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

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            yield _renamed(family)


def _renamed(family: Metric) -> Metric:
    name = exported_name(family.name)
    scale = 1 if name == family.name else MS_PER_S
    text = family.documentation if scale == 1 else family.documentation.removesuffix("(ms)") + "(seconds)"
    renamed = Metric(name, text, family.type)
    renamed.samples = [
        Sample(name + sample.name.removeprefix(family.name), sample.labels, sample.value / scale)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    return renamed
