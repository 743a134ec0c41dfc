"""Registry shared by the collectors of a host: its engines, their GPUs, and the placement of each GPU.

Writers take a lock; ``placement`` and ``engine_of`` are read without one by the GPU collectors, and are always
consistent.

An engine is *starting* while its scrapes fail and processes compute on the GPUs configured for it, none of which was
there when it last answered: a process that stopped answering is no start, and neither is an engine without one. A
start before the first process table that followed an answer is unknown, and not reported.

An engine that is *lost* may answer again: its GPUs are not its own any more, but keep its group for ``KEPT_S``, and so
do engines that shared them. What a GPU does in a minute is billed by group: in two, gaps between its readings would be
billed twice. An engine that comes to these GPUs meanwhile ends that, and so do the processes of one that answers again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from producers.collector import Collected
from producers.engines.networks import engines_by_network, published_network
from producers.engines.processes import HOST_PID, RIGHTS, ProcessTable, sees_host_pids
from producers.engines.processes import read_processes as read_table
from producers.engines.registry import (
    Registration,
    computing,
    engines_by_pid,
    gpus_of,
    owned_processes,
    placement_groups,
    placement_of,
)
from producers.engines.target import EngineTarget
from producers.gpu.watchdog import LIMIT_S, Watchdog
from producers.identity.host_engines import HostEngines
from producers.identity.network import OURS
from runtime.clock import Clock, SystemClock
from runtime.edge_config import JobConfig

_log = logging.getLogger(__name__)

GpuPlacement = Mapping[str, str | None]
KEPT_S = 120
"""How long the group of a lost engine stays that of its GPUs: the minute of its last reading, and one more."""


class Placement(Mapping[str, GpuPlacement]):
    """Placement of each GPU by UUID: engine_id, placement_group, workload. Its content is replaced as a whole.

    ``configured`` wins over what was found, field by field.
    """

    def __init__(self, configured: Mapping[str, GpuPlacement]) -> None:
        self._configured = {
            uuid: {k: v for k, v in place.items() if v is not None} for uuid, place in configured.items()
        }
        self._by_uuid: Mapping[str, GpuPlacement] = dict(self._configured)

    def __getitem__(self, uuid: str) -> GpuPlacement:
        return self._by_uuid[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uuid)

    def __len__(self) -> int:
        return len(self._by_uuid)

    def replace(self, found: Mapping[str, GpuPlacement]) -> None:
        """Use these placements; configured ones take precedence."""
        uuids = {**found, **self._configured}
        self._by_uuid = {uuid: {**found.get(uuid, {}), **self._configured.get(uuid, {})} for uuid in uuids}


@dataclass(frozen=True, slots=True)
class _Lost:
    """An engine that is gone: its GPUs or MIG devices, engines of its group (itself too), and until when that group is
    kept (monotonic)."""

    target: EngineTarget
    gpu_uuids: tuple[str, ...]
    beside: frozenset[str]
    until_s: float


class HostPlacement:
    """The registry of one host. ``placement`` stays the same object for as long as the agent runs."""

    def __init__(
        self,
        host: str,
        jobs: Sequence[JobConfig] = (),
        configured: Mapping[str, GpuPlacement] | None = None,
        engines: HostEngines | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.placement = Placement(configured or {})
        self._clock = clock or SystemClock()
        self.engines = engines or HostEngines(host)
        self._host = host
        self._jobs = tuple(jobs)
        self._lock = threading.Lock()
        self._processes = ProcessTable()
        self._begun_ns = 0
        self._targets: dict[str, EngineTarget] = {}
        self._silent: dict[str, EngineTarget] = {}
        self._lost: dict[str, _Lost] = {}
        self._served: dict[str, frozenset[int] | None] = {}
        self._unmatched: set[str] = set()
        self._gpus: dict[str, tuple[str, ...]] = {}
        self._groups: dict[str, str] = {}
        self._by_pid: Mapping[int, str] = {}
        self._owners: Mapping[int, GpuPlacement] = {}
        self._by_network: Mapping[int, str] = {}
        self._published: int | None = None
        self._shares: dict[str, int | None] = {}
        self._reserved: Mapping[str, int] = {}

    def saw_processes(self, processes: ProcessTable, begun_ns: int = 0) -> None:
        """A new process table: match engines to GPUs again. ``begun_ns``: monotonic, when it was begun to be read; one
        that comes late, after one that was begun later, says nothing."""
        with self._lock:
            if begun_ns < self._begun_ns:
                return
            self._begun_ns = begun_ns
            self._processes = processes
            self._unmatched.clear()
            self._lost = {name: one for name, one in self._lost.items() if name not in self._targets}
            for name, target in self._targets.items():
                if name not in self._silent:
                    self._served[name] = computing(target, processes.gpus)
            self._match()

    def saw_engine(self, target: EngineTarget) -> None:
        """The engine is there; one that was only sought counts from here on."""
        with self._lock:
            answers_again = self._silent.pop(target.engine_id, None) is not None
            if answers_again or self._targets.get(target.engine_id) != target:
                self._served.setdefault(target.engine_id, None)
                self._unmatched.add(target.engine_id)
                self._targets[target.engine_id] = target
                self._match()

    def saw_reservation(self, engine_id: str, share_ppm: int | None) -> None:
        """What share of the memory of each of its GPUs the engine may take; None: it does not report it."""
        with self._lock:
            if self._shares.get(engine_id) != share_ppm:
                self._shares[engine_id] = share_ppm
                self._reserve()

    def silent_engine(self, target: EngineTarget) -> None:
        """A scrape of the engine failed. If GPUs are configured for it, it may be starting on them."""
        with self._lock:
            if target.gpu_uuids and target.engine_id not in self._silent:
                self._silent[target.engine_id] = target
                self._match()

    def lost_engine(self, engine_id: str) -> None:
        """The engine is gone: its GPUs belong to others, or to nobody, and keep its group for a while."""
        with self._lock:
            self._unmatched.discard(engine_id)
            target = self._targets.pop(engine_id, None)
            if target is None:
                return
            if uuids := self._gpus.get(engine_id):
                beside = frozenset(name for name, group in self._groups.items() if group == self._groups[engine_id])
                until_s = self._clock.monotonic_s() + KEPT_S
                self._lost[engine_id] = _Lost(target, uuids, beside, until_s)
            self._match()

    @property
    def awaited(self) -> bool:
        """Whether the next look at processes is wanted soon: an engine with configured GPUs does not answer, or one
        answers that was not there at the last look. Read without a lock."""
        return bool(self._silent or self._unmatched)

    def is_matched(self, engine_id: str) -> bool:
        """Whether processes were looked at since the engine answered first: before, its GPUs and group are not known.
        Read without a lock."""
        return engine_id not in self._unmatched

    def of(self, engine_id: str) -> tuple[tuple[str, ...], str]:
        """The engine's GPUs and its placement group (the host where none is known)."""
        with self._lock:
            return self._gpus.get(engine_id, ()), self._groups.get(engine_id, self._host)

    def engine_of(self, pid: int) -> str | None:
        """The engine that a process on a GPU is of; None where that is not known. Read without a lock."""
        return self._by_pid.get(pid)

    def owners(self) -> Mapping[int, GpuPlacement]:
        """Whose every process of an engine or a job is, by pid; replaced as a whole. Read without a lock."""
        return self._owners

    def engine_elsewhere(self, pid: int, network: int | None) -> str | None:
        """The engine that a loopback address leads to in another network namespace, by a process there that names it:
        that whose process it is, else the only one there; None: not known. Read without a lock."""
        owner = self._owners.get(pid)
        if owner is not None:
            return owner["engine_id"]
        return None if network is None else self._by_network.get(network)

    def means_here(self, network: int | None) -> bool:
        """Whether loopback addresses that are said in this network namespace mean what they mean to the agent: in its
        own, and in that of the container behind the port of the only engine. Read without a lock."""
        return network is not None and network in (OURS, self._published)

    def reserved_ppm(self, uuid: str) -> int | None:
        """What share of the GPU's memory the engines on it may take together; None where it has no engine, or one that
        does not report it. Read without a lock."""
        return self._reserved.get(uuid)

    @property
    def in_containers(self) -> bool:
        """Whether an engine is known by its container alone. Read without a lock."""
        return any(target.container_id for target in tuple(self._targets.values()))

    @property
    def has_engines(self) -> bool:
        """Whether any engine was seen: its processes are to be found, on a GPU or not. Read without a lock."""
        return bool(self._targets)

    def _match(self) -> None:
        table = self._processes
        known = {name: self._with_process(target) for name, target in self._targets.items()}
        self._by_pid = engines_by_pid(known, table.listeners, table.parents, table.gpus)
        begins = self._starting()
        targets = {**known, **begins}
        self._gpus = {
            name: gpus_of(target, table.listeners, table.parents, table.gpus) for name, target in targets.items()
        }
        whole = {name: self._whole(uuids) for name, uuids in self._gpus.items()}
        lost = self._lost_from(whole)
        every = {**targets, **{name: one.target for name, one in lost.items()}}
        named = {name: target.placement_group for name, target in every.items() if target.placement_group}
        gone = {name: self._whole(one.gpu_uuids) for name, one in lost.items()}
        groups = placement_groups({**whole, **gone}, self._host, named)
        self._groups = {name: groups[name] for name in self._gpus}
        kept = {uuid: groups[name] for name, one in lost.items() for uuid in (*one.gpu_uuids, *gone[name])}
        registrations = [Registration(name, self._groups[name], gpu_uuids=gpus) for name, gpus in self._gpus.items()]
        found = placement_of(registrations, self._jobs, table.gpus, self._host, table.gpu_of, frozenset(begins), kept)
        self.placement.replace(found)
        owned = owned_processes(known, table.listeners, table.parents, table.gpus, self._jobs)
        self._by_network = engines_by_network(known, owned, table.gpus, table.networks, self._jobs)
        published = published_network(known, table.gpus, table.networks, self._jobs)
        self._published = None if self._by_network else published
        self._owners = {
            pid: {
                "engine_id": engine_id,
                "placement_group": self._groups.get(engine_id or "", self._host),
                "workload": workload,
            }
            for pid, (engine_id, workload) in owned.items()
        }
        self._reserve()

    def _whole(self, uuids: Iterable[str]) -> set[str]:
        """The GPUs that these are, or are devices of."""
        return {self._processes.gpu_of.get(uuid, uuid) for uuid in uuids}

    def _lost_from(self, whole: Mapping[str, set[str]]) -> dict[str, _Lost]:
        """Lost engines whose group stays: not for long, and none whose GPUs another engine took, or that has GPUs
        again. ``whole``: GPUs of the engines that are there."""
        now_s = self._clock.monotonic_s()
        self._lost = {name: one for name, one in self._lost.items() if now_s < one.until_s}
        taken = {
            name
            for name, one in self._lost.items()
            for other, gpus in whole.items()
            if other not in one.beside and gpus & self._whole(one.gpu_uuids)
        }
        return {name: one for name, one in self._lost.items() if name not in taken and not whole.get(name)}

    def _reserve(self) -> None:
        shares: dict[str, list[int | None]] = {}
        for engine_id, uuids in self._gpus.items():
            for uuid in uuids:
                shares.setdefault(uuid, []).append(self._shares.get(engine_id))
        known = {uuid: [share for share in each if share is not None] for uuid, each in shares.items()}
        self._reserved = {uuid: sum(each) for uuid, each in known.items() if len(each) == len(shares[uuid])}

    def _with_process(self, target: EngineTarget) -> EngineTarget:
        """The server in a container is its first process, all others there descend from that."""
        pid = self._processes.containers.get(target.container_id or "")
        return target if pid is None else replace(target, pid=pid)

    def _starting(self) -> dict[str, EngineTarget]:
        """Silent engines on whose GPUs a process works that is nobody else's, and none that has served."""
        found = {}
        for name, target in self._silent.items():
            served = self._served.get(name, frozenset())
            pids = computing(target, self._processes.gpus, self._jobs) - self._by_pid.keys()
            if pids and served is not None and not pids & served:
                found[name] = target
        return found


WAITING_MS = 5_000
"""Between two looks while an engine may be starting: its first process on a GPU is to be seen soon."""


class ProcessMatcher:
    """Reads the table of processes every ``every_ms`` (seconds apart: it looks at every process of the host), and at
    every tick while an engine with configured GPUs does not answer."""

    name = "placement"

    def __init__(
        self,
        registry: HostPlacement,
        every_ms: int,
        *,
        read_processes: Callable[[bool, bool], ProcessTable] | None = None,
        sees_host_pids: Callable[[], bool] = sees_host_pids,
    ) -> None:
        self.period_ms = min(every_ms, WAITING_MS)
        self._every_ms = every_ms
        self._registry = registry
        self._watchdog: Watchdog[Any] = Watchdog(LIMIT_S, "placement")
        self._read = read_processes or partial(read_table, watchdog=self._watchdog)
        self._sees_host_pids = sees_host_pids
        self._read_at_ms: int | None = None
        self._warned = False

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """No rows."""
        before_ms = self._read_at_ms
        if (
            before_ms is None
            or abs(at_ms - before_ms) >= self._every_ms - self.period_ms // 2
            or self._registry.awaited
        ):
            self._read_at_ms = at_ms
            begun_ns = time.monotonic_ns()
            table = self._read(self._registry.has_engines, self._registry.in_containers)
            self._warn_once(table)
            self._registry.saw_processes(table, begun_ns)
        return []

    def _warn_once(self, table: ProcessTable) -> None:
        if self._warned:
            return
        if not self._sees_host_pids() and (table.gpus or self._registry.has_engines):
            self._warned = True
            facts: dict[str, object] = {"grant": HOST_PID}
            _log.warning("the host's processes are not visible in this container; engines match no GPU", extra=facts)
        elif table.hidden_sockets:
            self._warned = True
            facts = {"hidden_sockets": table.hidden_sockets, "grant": RIGHTS}
            _log.warning("processes behind sockets of other users are hidden; their engines match no GPU", extra=facts)

    def close(self) -> None:
        """Let the reading thread end."""
        self._watchdog.close()
