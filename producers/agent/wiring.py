"""From the configuration to collectors: probe, choose, plan."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from producers.agent.choice import Finding, Wanted, chosen
from producers.agent.cost import CostMeter
from producers.agent.probe import probe_all
from producers.agent.runner import Plan
from producers.agent.sources import SOURCES, Setting, Source
from producers.collector import Identity
from producers.engines.placement import HostPlacement
from producers.engines.target import Job
from runtime.edge_config import AgentConfig


def setting_of(config: AgentConfig, state: Path | None = None) -> Setting:
    """What sources of this host are made with: its labels in every row, and the placement of its GPUs."""
    host = config.host or socket.gethostname()
    labels = {"host": host, "cluster": config.cluster, "region": config.region}
    configured = {uuid: place.model_dump(exclude_none=True) for uuid, place in config.placement.items()}
    registry = HostPlacement(host, [Job(job.workload, job.pattern) for job in config.jobs], configured)
    return Setting(config, Identity(labels, registry.placement, registry.engine_of), registry, CostMeter(), state)


def find(setting: Setting, sources: Sequence[Source] = SOURCES) -> list[Finding]:
    """Probe every source that is not switched off, and choose. Takes up to the configured time limit."""
    config = setting.config
    wanted = [Wanted(each.name, getattr(config.collectors, each.name), each.group) for each in sources]
    probes = {
        source.name: partial(source.probe, setting)
        for source, want in zip(sources, wanted, strict=True)
        if want.switch != "off"
    }
    return chosen(wanted, probe_all(probes, config.probe_limit_ms / 1_000))


def plans_of(setting: Setting, findings: Sequence[Finding], sources: Sequence[Source] = SOURCES) -> list[Plan]:
    """A plan per collector of the chosen sources."""
    config = setting.config
    taken = {finding.name for finding in findings if finding.chosen}
    return [
        Plan(name, make, max(config.call_limit_ms, source.limit_ms_min), config.hung_threads_max)
        for source in sources
        if source.name in taken
        for name, make in source.makes(setting).items()
    ]
