"""Which engine a network namespace is of: there a loopback address that a client names is that engine's. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from producers.engines.registry import GpuProcesses, computing
from producers.engines.target import EngineTarget
from producers.identity.network import OURS
from runtime.edge_config import JobConfig


def engines_by_network(
    targets: Mapping[str, EngineTarget],
    owned: Mapping[int, tuple[str | None, str]],
    gpus: GpuProcesses,
    networks: Mapping[int, int],
    jobs: Sequence[JobConfig] = (),
) -> dict[int, str]:
    """By network namespace other than the agent's the engine whose processes are there, and nowhere else; a namespace
    of several has none. An engine's processes are those that compute on the GPUs configured for it, as behind a port
    that a container publishes, where what listens on this host is not the engine; else those that are its own.

    ``owned``: engine and workload by pid; ``networks``: namespace by pid, of those that were looked at.
    """
    found = dict[str, set[int]]()
    for name, target in targets.items():
        pids = computing(target, gpus, jobs) or {pid for pid, (engine_id, _) in owned.items() if engine_id == name}
        found[name] = {networks[pid] for pid in pids if pid in networks}
    every = [network for several in found.values() for network in several]
    return {
        network: name
        for name, several in found.items()
        for network in several
        if network != OURS and len(several) == every.count(network) == 1
    }


def published_network(
    targets: Mapping[str, EngineTarget],
    gpus: GpuProcesses,
    networks: Mapping[int, int],
    jobs: Sequence[JobConfig] = (),
) -> int | None:
    """The network namespace, other than the agent's, of the container that publishes the port of the host's only
    engine, as far as that shows: all that computes on the host's GPUs, but for ``jobs``, is there. None: not known, or
    the engine's processes are known otherwise."""
    if len(targets) != 1:
        return None
    (only,) = targets.values()
    if not only.local or only.gpu_uuids or only.container_id:
        return None
    found = {networks.get(pid) for pid in computing(replace(only, gpu_uuids=tuple(gpus)), gpus, jobs)}
    return found.pop() if len(found) == 1 and OURS not in found else None
