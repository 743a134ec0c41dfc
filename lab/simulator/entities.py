"""Who emits: hosts, engines and GPUs with their labels, as dictionaries that are built once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lab.simulator.gpus import Gpus, groups_of
from lab.simulator.plan import EnginePlan, FleetPlan, HostPlan
from lab.simulator.requests import RequestLabels
from lab.simulator.wide import EntityLabel, entity_label

FEEDING_PROCESS = "VLLM::EngineCore"
"""As vLLM calls the process that schedules an engine's steps."""
LOADING_PROCESS = "python"
TRAINING = "fine_tuning"
"""What jobs of ``lab.simulator.training`` do."""
Rows = Sequence[dict[str, str | None]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Directory:
    """Labels of each kind of emitter by field name; ``host_of`` is the host of an engine."""

    hosts: tuple[str, ...]
    host: dict[str, EntityLabel]
    engine: dict[str, EntityLabel]
    engine_host: npt.NDArray[np.int64]
    gpu: dict[str, EntityLabel]
    gpu_host: npt.NDArray[np.int64]
    process: dict[str, EntityLabel]
    """Of the rows of ``Gpus.sharing``."""
    host_process: dict[str, EntityLabel]
    """Of the process that feeds each engine, and of each rank of a training job, by host."""
    host_process_order: npt.NDArray[np.int64]
    """Of these, the places of engines, then those of ranks, by host."""
    requests: RequestLabels


def directory_of(plan: FleetPlan, gpus: Gpus) -> Directory:
    """The emitters of a plan. Engines must be sorted by host."""
    number = {host.name: index for index, host in enumerate(plan.hosts)}
    engine_host = np.array([number[engine.host] for engine in plan.engines], np.int64)
    hosts = tuple(host.name for host in plan.hosts)
    groups = groups_of(plan)
    engine_rows = [
        _engine(plan.hosts[number[engine.host]], engine, group)
        for engine, group in zip(plan.engines, groups, strict=True)
    ]
    trains = trained_on(plan)
    gpu_rows = [_gpu(plan, gpus, index, groups, trains) for index in range(len(gpus.host))]
    ranks = [plan.hosts[number[one.host]] for one in plan.training for _ in range(one.ranks)]
    fed = [*map(_fed, engine_rows), *map(_loads, ranks)]
    fed_host = np.concatenate([engine_host, np.array([number[host.name] for host in ranks], np.int64)])
    order = np.argsort(fed_host, kind="stable")
    sampled = [{**row, "engine_kind": "simulated"} for row in engine_rows]
    return Directory(
        hosts=hosts,
        host=_labels([_place(host) for host in plan.hosts], np.arange(len(hosts)), len(hosts)),
        engine=_labels(sampled, engine_host, len(hosts)),
        engine_host=engine_host,
        gpu=_labels(gpu_rows, gpus.host, len(hosts)),
        gpu_host=gpus.host,
        process=_process_labels(plan, gpus, groups),
        host_process=_labels([fed[at] for at in order.tolist()], fed_host[order], len(hosts)),
        host_process_order=order,
        requests=_request_labels(plan, engine_rows, engine_host),
    )


def next_version(version: str) -> str:
    """What a deployment puts in the place of a model version."""
    return f"{version}-next"


class Directories:
    """The directory of a plan while these or those engines run their next version, each built once."""

    def __init__(self, plan: FleetPlan, gpus: Gpus) -> None:
        self._plan, self._gpus = plan, gpus
        self._built: dict[bytes, Directory] = {}

    def of(self, deployed: Mask) -> Directory:
        """``deployed``: which engines run their next version."""
        found = self._built.get(key := deployed.tobytes())
        if found is None:
            engines = tuple(
                replace(engine, model_version=next_version(engine.model_version)) if new else engine
                for engine, new in zip(self._plan.engines, deployed.tolist(), strict=True)
            )
            found = self._built[key] = directory_of(replace(self._plan, engines=engines), self._gpus)
        return found


class Workloads:
    """What each GPU is used for while these or those engines are starting, as a label, each built once."""

    def __init__(self, plan: FleetPlan, gpus: Gpus) -> None:
        self._gpus, self._hosts, self._trains = gpus, len(plan.hosts), trained_on(plan)
        self._alone = gpus.engine >= 0
        self._alone[gpus.sharing.gpu] = False
        self._built: dict[bytes, EntityLabel] = {}

    def of(self, starting: Mask) -> EntityLabel:
        """``starting``: by engine. A GPU that engines share names none that starts."""
        found = self._built.get(key := starting.tobytes())
        if found is None:
            on = self._alone & starting[self._gpus.engine]
            rows = zip(self._gpus.engine.tolist(), on.tolist(), strict=True)
            words = [_workload(engine >= 0, starts, at in self._trains) for at, (engine, starts) in enumerate(rows)]
            found = self._built[key] = entity_label(words, self._gpus.host.tolist(), self._hosts)
        return found


def _workload(serves: bool, starts: bool = False, trains: bool = False) -> str:
    return "startup" if starts else "inference" if serves else TRAINING if trains else "idle"


def trained_on(plan: FleetPlan) -> frozenset[int]:
    """GPUs of training jobs, counted host by host."""
    first, found = 0, set[int]()
    for host in plan.hosts:
        mine = (one for one in plan.training if one.host == host.name)
        found |= {first + one.first_gpu + rank for one in mine for rank in range(one.ranks)}
        first += host.gpus
    return frozenset(found)


def _labels(rows: Rows, host_of: npt.NDArray[np.int64], hosts: int) -> dict[str, EntityLabel]:
    names = list(rows[0]) if rows else []
    return {name: entity_label([row[name] for row in rows], host_of.tolist(), hosts) for name in names}


def _place(host: HostPlan) -> dict[str, str | None]:
    return {"cluster": host.cluster, "region": host.region, "host": host.name}


def _engine(host: HostPlan, engine: EnginePlan, group: str) -> dict[str, str | None]:
    return {
        **_place(host),
        "engine_id": engine.engine_id,
        "placement_group": group,
        "model": engine.model,
        "model_version": engine.model_version,
        "precision": engine.precision,
    }


def _fed(engine: dict[str, str | None]) -> dict[str, str | None]:
    names = ("cluster", "region", "host", "engine_id", "placement_group")
    return {**{name: engine[name] for name in names}, "process_name": FEEDING_PROCESS, "workload": "inference"}


def _loads(host: HostPlan) -> dict[str, str | None]:
    mine = {"engine_id": None, "placement_group": host.name}
    return {**_place(host), **mine, "process_name": LOADING_PROCESS, "workload": TRAINING}


def _gpu(
    plan: FleetPlan, gpus: Gpus, index: int, groups: Sequence[str], trains: frozenset[int] = frozenset()
) -> dict[str, str | None]:
    """A GPU that engines share names none of them."""
    host = plan.hosts[gpus.host[index]]
    engine = plan.engines[gpus.engine[index]] if gpus.engine[index] >= 0 else None
    alone = engine is not None and index not in gpus.sharing.gpu
    return {
        **_place(host),
        "engine_id": engine.engine_id if engine and alone else None,
        "placement_group": groups[gpus.engine[index]] if engine else host.name,
        "gpu_uuid": gpus.uuid[index],
        "gpu_model": gpus.type[index].name,
        "workload": _workload(engine is not None, trains=index in trains),
    }


def _process_labels(plan: FleetPlan, gpus: Gpus, groups: Sequence[str]) -> dict[str, EntityLabel]:
    sharing = gpus.sharing
    rows = [
        {**_gpu(plan, gpus, gpu, groups), "engine_id": plan.engines[engine].engine_id}
        for gpu, engine in zip(sharing.gpu.tolist(), sharing.engine.tolist(), strict=True)
    ]
    rows = [{name: value for name, value in row.items() if name != "gpu_model"} for row in rows]
    return _labels(rows, gpus.host[sharing.gpu], len(plan.hosts))


def _request_labels(plan: FleetPlan, engine_rows: Rows, engine_host: npt.NDArray[np.int64]) -> RequestLabels:
    """A request that no engine took is reported by the host of the first engine of its model."""
    models = list(dict.fromkeys(engine.model for engine in plan.engines))
    stand_ins: list[dict[str, str | None]] = []
    stand_in_hosts: list[int] = []
    for model in models:
        first = next(index for index, engine in enumerate(plan.engines) if engine.model == model)
        host = plan.hosts[engine_host[first]]
        stand_ins.append(
            {**dict.fromkeys(engine_rows[first]), **_place(host), "placement_group": host.name, "model": model}
        )
        stand_in_hosts.append(int(engine_host[first]))
    host_of = np.concatenate([engine_host, np.array(stand_in_hosts, np.int64)])
    classes = list(dict.fromkeys(tenant.slo_class for tenant in plan.tenants))
    return RequestLabels(
        by_entity=_labels([*engine_rows, *stand_ins], host_of, len(plan.hosts)),
        host_of=host_of,
        model_of=np.array([models.index(engine.model) for engine in plan.engines], np.int64),
        engines=len(plan.engines),
        tenants=[None, *(tenant.name.encode() for tenant in plan.tenants)],
        classes=[None, *(name.encode() for name in classes)],
        class_of=np.array([1 + classes.index(tenant.slo_class) for tenant in plan.tenants], np.uint8),
    )
