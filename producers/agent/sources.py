"""All that an agent can collect, as a table: the switch, the probe, and how a collector is made.

The order is that of preference inside a group. What costs memory is imported by the functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from producers.agent.builtin import HostCollector, NvmlCollector
from producers.agent.cost import CostMeter
from producers.agent.probe import Missing
from producers.collector import Collector, Identity
from runtime.edge_config import AgentConfig


@dataclass(frozen=True, slots=True)
class Setting:
    """What a source is made with."""

    config: AgentConfig
    identity: Identity
    meter: CostMeter


@dataclass(frozen=True, slots=True)
class Source:
    """``name`` is its switch in ``CollectorSwitches`` too. ``makes`` gives one factory per collector, by name."""

    name: str
    what: str
    probe: Callable[[Setting], str]
    makes: Callable[[Setting], dict[str, Callable[[], Collector]]]
    group: str | None = None


def _always(what: str) -> Callable[[Setting], str]:
    return lambda _setting: what


def _host(setting: Setting) -> dict[str, Callable[[], Collector]]:
    return {"host": lambda: HostCollector(setting.identity, setting.config.period_ms, setting.meter)}


def _probe_nvml(_setting: Setting) -> str:
    from producers.gpu.sampler import NvmlSampler

    sampler = NvmlSampler.open({}, {})
    if sampler is None:
        raise Missing("the NVIDIA driver does not answer")
    return f"{len(sampler.gpu_uuids)} GPUs by the driver's library"


def _nvml(setting: Setting) -> dict[str, Callable[[], Collector]]:
    return {"nvml": lambda: NvmlCollector(setting.identity, setting.config.period_ms)}


SOURCES: tuple[Source, ...] = (
    Source("host", "processors, memory, disks, network", _always("this host"), _host),
    Source("nvml", "GPUs by the driver's library", _probe_nvml, _nvml, "gpu"),
)
