"""From the configuration to collectors: probe, choose, plan; later again for sources that were missing at the start.

Running collectors are never stopped, so a source whose group already has a collector is not probed. A probe that still
hangs is not started a second time: a broken driver costs one thread, not one every few minutes. While it hangs no other
source that is worse than its own is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import psutil

from producers.agent.choice import Finding, Wanted, chosen
from producers.agent.life import CostMeter
from producers.agent.runner import Plan
from producers.agent.sources import SOURCES, Late, Setting, Source, probe_all
from producers.collector import Identity
from producers.engines.placement import HostPlacement
from producers.identity.host_engines import HostEngines
from producers.kubernetes.listing import Pods
from producers.publish.reconnect import comes
from producers.requests.client_names import ClientNames
from runtime.addresses import bracketed
from runtime.counters import COUNTERS
from runtime.edge_config import AgentConfig
from runtime.runbook import Cause

_log = logging.getLogger(__name__)
GPU_GROUP = "gpu"
NO_RIGHT = "needs more rights"
"""What ``producers.gpu.library`` makes of NVML's NO_PERMISSION; it is loaded by its probe alone."""
_OF_SERVICES = frozenset({"kube-ipvs0"})
"""Interfaces that have the addresses of all services of a cluster, at each of its nodes: that of kube-proxy's IPVS."""


class Search:
    """``look`` as often as wanted: each time only for what was not found before."""

    def __init__(self, setting: Setting, sources: Sequence[Source] = SOURCES) -> None:
        self._setting = setting
        self._sources = sources
        self._chosen: frozenset[str] = frozenset()
        self._looked = False
        self._probing: set[str] = set()

    def look(self) -> list[Plan]:
        """Plans of what is there now and was not before. Blocks for up to the probes' time limit."""
        missing = self._missing()
        findings = find(self._setting, [replace(each, probe=self._once_at_a_time(each)) for each in missing])
        plans = plans_of(self._setting, findings, missing)
        self._log_findings(findings)
        self._chosen |= {finding.name for finding in findings if finding.chosen}
        self._judge_rights(findings)
        return plans

    async def run(self, stop: asyncio.Event, every_s: float, start: Callable[[Sequence[Plan]], None]) -> None:
        """Look every so often until ``stop``, and ``start`` what is found."""
        while not stop.is_set():
            if not await comes(stop, every_s) and self._missing() and (plans := await asyncio.to_thread(self.look)):
                start(plans)

    def _missing(self) -> list[Source]:
        switches = self._setting.config.collectors
        groups = {each.group for each in self._sources if each.name in self._chosen} - {None}
        return [
            each
            for each in self._sources
            if each.name not in self._chosen
            and each.group not in groups
            and (not self._looked or getattr(switches, each.name) != "off")
        ]

    def _once_at_a_time(self, source: Source) -> Callable[[Setting], str]:
        def probe(setting: Setting) -> str:
            if source.name in self._probing:
                raise Late("a probe of before has not answered")
            self._probing.add(source.name)
            try:
                return source.probe(setting)
            finally:
                self._probing.discard(source.name)

        return probe

    def _log_findings(self, findings: Sequence[Finding]) -> None:
        """All of the first look; of later ones only what came."""
        for finding in findings:
            if finding.chosen or not self._looked:
                facts = {"source": finding.name, "switch": finding.switch, "reason": finding.reason}
                _log.info("source is collected" if finding.chosen else "source is not collected", extra=facts)
        self._looked = True

    def _judge_rights(self, findings: Sequence[Finding]) -> None:
        """A driver that is there and turns the agent away needs somebody, unless another source of its group reads the
        GPUs; a host without a driver does not."""
        group = {each.name for each in self._sources if each.group == GPU_GROUP}
        refused = [one for one in findings if one.name in group and NO_RIGHT in one.reason]
        refused = [] if group & self._chosen else refused
        COUNTERS.set("cause", int(bool(refused)), cause=Cause.GPU)
        for one in refused:
            _log.warning("GPUs of this host may not be read", extra={"why": one.reason, "cause": Cause.GPU})


def setting_of(config: AgentConfig, state: Path | None = None, user_secret: bytes | None = None) -> Setting:
    """What sources of this host are made with: its labels in every row, the placement of its GPUs, names of clients."""
    host = config.host_name
    labels = {"host": host, "cluster": config.cluster, "region": config.region}
    configured = {uuid: place.model_dump(exclude_none=True) for uuid, place in config.placement.items()}
    engines = HostEngines(host, names_of_this_machine, region=config.region, cluster=config.cluster)
    registry = HostPlacement(host, config.jobs, configured, engines)
    pods = Pods()
    identity = Identity(labels, registry.placement, registry.engine_of, pods.labels_of, registry.reserved_ppm)
    return Setting(config, identity, registry, CostMeter(), pods, state, ClientNames(user_secret))


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


def names_of_this_machine() -> list[str]:
    """What clients reach it by: its name and its addresses beyond loopback, as they stand before a port; what cannot be
    read is missing."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError, psutil.Error):
        of_machine = (several for name, several in psutil.net_if_addrs().items() if name not in _OF_SERVICES)
        for each in (one for several in of_machine for one in several):
            if each.family in (socket.AF_INET, socket.AF_INET6):
                name = each.address.partition("%")[0]
                address = ip_address(name)
                if not (address.is_loopback or address.is_link_local or address.is_unspecified):
                    found.append(bracketed(name))
    return list(dict.fromkeys(found))
