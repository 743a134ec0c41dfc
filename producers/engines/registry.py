"""Which engine serves what on which GPUs: rows of ``engine.events`` and the placement of every GPU. Pure.

An engine's GPUs are the configured ones, else those on which its processes compute: the process that listens on its
port, and all its descendants (engines start a process per GPU). The *placement group* is the set of engines that share
any GPU, be it divided (MIG) or not, by however many steps; GPUs, samples and requests are joined by it. An engine whose
GPUs are not known stands in the group of its host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from producers.engines.facts import SIZES, Facts
from producers.engines.rows import Known
from producers.engines.target import EngineTarget
from runtime.edge_config import JobConfig
from schemas.contract.engines import Engine
from schemas.events.event_types import ENGINE_EVENTS

GROUP_CHARS_MAX = 200

GpuProcesses = Mapping[str, Mapping[int, str]]
"""By GPU UUID, the processes that compute on it: pid and name or command line. A GPU without processes is there too."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What is known of an engine; the names are those of ``engine.events``. None or empty: not known."""

    engine_id: str
    placement_group: str
    engine_kind: str | None = None
    model: str | None = None
    model_version: str | None = None
    precision: str | None = None
    engine_version: str | None = None
    context_tokens_max: int | None = None
    tensor_parallel: int | None = None
    gpu_uuids: tuple[str, ...] = ()
    load_ms: int | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    weight_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None


DEPLOYED = (
    "engine_kind",
    "model",
    "model_version",
    "precision",
    "engine_version",
    "context_tokens_max",
    "tensor_parallel",
)
"""A change of any of these is a deployment: requests before and after it are not to be compared blindly."""
PLACED = ("gpu_uuids", "placement_group", "load_ms", *SIZES)
"""Where it runs, how long its start took, and what it holds there: these may change with every start of the same."""


# Which GPUs an engine is on


def gpus_of(
    target: EngineTarget, listeners: Mapping[int, Iterable[int]], parents: Mapping[int, int], gpus: GpuProcesses
) -> tuple[str, ...]:
    """The engine's GPU UUIDs, sorted: configured, else by its processes. Empty: not known.

    ``listeners``: pids by the port they listen on; ``parents``: parent pid by pid.
    """
    if target.gpu_uuids:
        return tuple(sorted(set(target.gpu_uuids)))
    roots = _roots(target, listeners)
    return tuple(
        sorted(uuid for uuid, processes in gpus.items() if any(_below(pid, roots, parents) for pid in processes))
    )


def _roots(target: EngineTarget, listeners: Mapping[int, Iterable[int]]) -> set[int]:
    """Where the engine's processes begin."""
    if target.pid is not None:
        return {target.pid}
    return set(listeners.get(target.port, ())) if target.local else set()


def engines_by_pid(
    targets: Mapping[str, EngineTarget],
    listeners: Mapping[int, Iterable[int]],
    parents: Mapping[int, int],
    gpus: GpuProcesses,
) -> dict[int, str]:
    """Of the processes that compute on GPUs, whose each is: on a GPU that engines share, which of them holds what. A
    process that is nobody's, or of more than one engine, is left out."""
    roots = {name: _roots(target, listeners) for name, target in targets.items()}
    pids = {pid for processes in gpus.values() for pid in processes}
    of = {pid: [name for name, each in roots.items() if _below(pid, each, parents)] for pid in sorted(pids)}
    return {pid: names[0] for pid, names in of.items() if len(names) == 1}


def owned_processes(
    targets: Mapping[str, EngineTarget],
    listeners: Mapping[int, Iterable[int]],
    parents: Mapping[int, int],
    gpus: GpuProcesses,
    jobs: Sequence[JobConfig] = (),
) -> dict[int, tuple[str | None, str]]:
    """Engine and workload of every process that is an engine's or a job's, by pid. They are those that listen on an
    engine's port or compute for a job on a GPU, and all that descend from them. A process of two engines is nobody's.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    of: dict[int, set[tuple[str | None, str]]] = {}
    for name, target in targets.items():
        for pid in _with_descendants(_roots(target, listeners), children):
            of.setdefault(pid, set()).add((name, "inference"))
    for pid, workload in _of_jobs(gpus, jobs):
        for each in _with_descendants({pid}, children):
            of.setdefault(each, {(None, workload)})
    return {pid: next(iter(owners)) for pid, owners in of.items() if len(owners) == 1}


def _of_jobs(gpus: GpuProcesses, jobs: Sequence[JobConfig]) -> Iterator[tuple[int, str]]:
    for processes in gpus.values():
        for pid, process in processes.items():
            workload = _only({job.workload for job in jobs if job.matches(process)})
            if workload is not None:
                yield pid, workload


def _with_descendants(roots: Iterable[int], children: Mapping[int, Sequence[int]]) -> set[int]:
    """Ends on any table of children."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def computing(target: EngineTarget, gpus: GpuProcesses, jobs: Sequence[JobConfig] = ()) -> frozenset[int]:
    """Processes on the GPUs that are configured for an engine, whoever's they are but for those of ``jobs``."""
    found = (each for uuid in target.gpu_uuids for each in gpus.get(uuid, {}).items())
    return frozenset(pid for pid, process in found if not any(job.matches(process) for job in jobs))


def _below(pid: int, roots: set[int], parents: Mapping[int, int]) -> bool:
    """True when the process is one of the roots or descends from one. Ends on any table of parents."""
    seen: set[int] = set()
    while pid not in roots:
        seen.add(pid)
        parent = parents.get(pid)
        if parent is None or parent in seen:
            return False
        pid = parent
    return True


# Placement groups


def placement_groups(
    gpus: Mapping[str, Iterable[str]], host: str, named: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Placement group by engine, from each engine's GPUs. ``named``: groups that configuration gives to an engine.

    An engine alone on its GPUs is its own group; engines that share are named by all their ids in order, joined by
    ``+``. A name from configuration counts for all that share with it (the first in order where there are several).
    """
    parent = {engine: engine for engine in gpus}

    def root(engine: str) -> str:
        while parent[engine] != engine:
            parent[engine] = parent[parent[engine]]
            engine = parent[engine]
        return engine

    first_on: dict[str, str] = {}
    for engine, uuids in gpus.items():
        for uuid in uuids:
            parent[root(engine)] = root(first_on.setdefault(uuid, engine))
    members: dict[str, list[str]] = {}
    for engine in sorted(gpus):
        members.setdefault(root(engine), []).append(engine)
    known = {engine for engine, uuids in gpus.items() if any(True for _ in uuids)}
    return {engine: _name(each, known, host, named or {}) for each in members.values() for engine in each}


def _name(members: Sequence[str], known: set[str], host: str, named: Mapping[str, str]) -> str:
    given = sorted(named[engine] for engine in members if engine in named)
    if given:
        return given[0]
    if members[0] not in known:
        return host
    name = "+".join(members)
    if len(name) <= GROUP_CHARS_MAX:
        return name
    return f"{members[0][: GROUP_CHARS_MAX - 34]}+{hashlib.sha256(name.encode()).hexdigest()[:32]}"


# Placement of each GPU


def placement_of(
    registrations: Iterable[Registration],
    jobs: Sequence[JobConfig],
    gpus: GpuProcesses,
    host: str,
    gpu_of: Mapping[str, str] | None = None,
    starting: Collection[str] = (),
    kept: Mapping[str, str] | None = None,
) -> dict[str, dict[str, str | None]]:
    """By GPU UUID: engine_id, placement_group, workload, each None where it is not known or not one.

    A GPU of several engines has their group and no engine_id. A GPU whose work is of several kinds has no workload; one
    that is known to compute nothing, and that no engine holds, is idle. ``gpu_of``: GPU by MIG device; a divided GPU
    and all its devices have one group, as they have one bill. ``kept``: group of GPUs that nobody holds any more.
    """
    whole, before = gpu_of or {}, kept or {}
    by_gpu: dict[str, list[Registration]] = {}
    groups: dict[str, set[str]] = {}
    for registration in registrations:
        for uuid in registration.gpu_uuids:
            by_gpu.setdefault(uuid, []).append(registration)
            groups.setdefault(whole.get(uuid, uuid), set()).add(registration.placement_group)
    known = sorted({*by_gpu, *gpus, *whole.values(), *before})
    return {
        uuid: {
            "engine_id": _only({each.engine_id for each in by_gpu.get(uuid, ())}),
            "placement_group": _only(groups.get(gpu, set())) or before.get(gpu, host),
            "workload": _workload([each.engine_id in starting for each in by_gpu.get(uuid, ())], jobs, gpus.get(uuid)),
        }
        for uuid, gpu in ((uuid, whole.get(uuid, uuid)) for uuid in known)
    }


def _workload(starts: Sequence[bool], jobs: Sequence[JobConfig], processes: Mapping[int, str] | None) -> str | None:
    """``starts``: of each engine on the GPU whether it is starting."""
    found: set[str] = {job.workload for process in (processes or {}).values() for job in jobs if job.matches(process)}
    if starts:
        found.add("startup" if all(starts) else "inference")
    if not found and processes is not None and not processes:
        return "idle"
    return _only(found)


def _only(values: set[str]) -> str | None:
    return next(iter(values)) if len(values) == 1 else None


# Registration


def registration_of(
    target: EngineTarget,
    kind: str | None,
    facts: Facts,
    gpu_uuids: tuple[str, ...],
    placement_group: str,
    load_ms: int | None = None,
) -> Registration:
    """What is known of the engine now; what is configured comes first."""
    return Registration(
        engine_id=target.engine_id,
        placement_group=placement_group,
        engine_kind=kind or target.kind,
        model=target.model or facts.model,
        model_version=target.model_version or facts.model_version,
        precision=target.precision or facts.precision,
        engine_version=facts.engine_version,
        context_tokens_max=target.context_tokens_max or facts.context_tokens_max,
        tensor_parallel=target.tensor_parallel or facts.tensor_parallel,
        gpu_uuids=gpu_uuids,
        load_ms=load_ms,
        **{name: getattr(facts, name) for name in SIZES},
    )


def remembered(before: Registration | None, now: Registration) -> Registration:
    """``now``, with unknown values kept from before: an engine that did not answer has not changed.

    Nothing of another model or another engine is carried over, nor how long an earlier start took.
    """
    if before is None or _differ(before, now, "model") or _differ(before, now, "engine_kind"):
        return now
    kept = {each.name: getattr(before, each.name) for each in fields(Registration) if not getattr(now, each.name)}
    return replace(now, **kept | {"load_ms": now.load_ms})


def load_ms_of(started_at_s: float | None, silent_ms: int | None, ready_ms: int) -> int | None:
    """How long the start of a process took that answered first at ``ready_ms``, where it was seen not to answer before,
    at ``silent_ms`` (both since 1970): then too early by nothing, and too late by what lies between the two, a fifth of
    it at most or ``LOAD_ERROR_MS``. Else None."""
    if started_at_s is None or silent_ms is None:
        return None
    took_ms, late_ms = ready_ms - round(started_at_s * 1_000), ready_ms - silent_ms
    seen = 0 < took_ms <= LOAD_MS_MAX and late_ms <= max(LOAD_ERROR_MS, took_ms // 5)
    return took_ms if seen and late_ms <= took_ms + LOAD_ERROR_MS else None


LOAD_ERROR_MS = 2_500
LOAD_MS_MAX = ENGINE_EVENTS.field("load_ms").high or 0


def _differ(before: Registration, now: Registration, name: str) -> bool:
    was, becomes = getattr(before, name), getattr(now, name)
    return bool(was) and bool(becomes) and was != becomes


def announcement(before: Registration | None, now: Registration) -> tuple[str, str] | None:
    """The event's kind and message, None when nothing changed.

    ``changed`` is a deployment: the message says from what to what. New or moved knowledge (facts that were not known,
    other GPUs, another group) registers the engine again.
    """
    if before is None:
        return "registered", _introduction(now)
    changes = [_change(before, now, name) for name in DEPLOYED if _differ(before, now, name)]
    moves = [_change(before, now, name) for name in PLACED if _differ(before, now, name)]
    if changes:
        return "changed", "; ".join(changes + moves)
    learned = [
        f"{name} is {_text(getattr(now, name))}"
        for name in (*DEPLOYED, *PLACED)
        if getattr(now, name) and not getattr(before, name)
    ]
    if moves or learned:
        return "registered", "; ".join(moves + learned)
    return None


def _introduction(now: Registration) -> str:
    software = " ".join(part for part in (now.engine_kind, now.engine_version) if part) or "an engine"
    return f"{software} serves {now.model or 'a model it does not name'}"


def _change(before: Registration, now: Registration, name: str) -> str:
    return f"{name} {_text(getattr(before, name))} -> {_text(getattr(now, name))}"


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def engine_of(
    registration: Registration, addresses: tuple[str, ...], known: Known, before: Engine | None, at_ms: int
) -> Engine:
    """The engine as edges know it, seen at ``at_ms``; host labels apart. ``before``: as it was known."""
    same = {name: getattr(registration, name) for name in _SHARED}
    started_ms, warm_ms = _start(known, before, at_ms)
    return Engine(host="", addresses=addresses, started_ms=started_ms, warm_ms=warm_ms, **same)


def started_anew(before: Engine, known: Known, at_ms: int) -> Engine:
    """The engine as it was known, with the start of the process that answers now."""
    started_ms, warm_ms = _start(known, before, at_ms)
    return replace(before, started_ms=started_ms, warm_ms=warm_ms, responding=True)


def _start(known: Known, before: Engine | None, at_ms: int) -> tuple[int | None, int | None]:
    """When the process started, and from when on it is known to have served."""
    started_ms = None if known.started_at_s is None else round(known.started_at_s * 1_000)
    if started_ms is None or not known.has_served:
        return started_ms, None
    if before is not None and before.started_ms == started_ms:
        return started_ms, at_ms if before.warm_ms is None else before.warm_ms
    # when it began to serve was not seen
    return started_ms, at_ms if at_ms - started_ms < FRESH_MS else started_ms


FRESH_MS = 60_000
"""An engine that has served already when it is seen first, so soon after its start, has only just begun to."""


_SHARED = tuple({each.name for each in fields(Registration)} & {each.name for each in fields(Engine)})


def event_row(registration: Registration, kind: str, message: str) -> dict[str, Any]:
    """A row of ``engine.events``; time, host labels and origin apart."""
    row: dict[str, Any] = {each.name: getattr(registration, each.name) for each in fields(Registration)}
    return row | {"gpu_uuids": ",".join(registration.gpu_uuids) or None, "kind": kind, "message": message}
