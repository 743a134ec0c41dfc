"""Which incident a signal belongs to. Keys connect: what an incident *holds* and what a signal *seeks* must meet.

============ ==================================== ============================================
key          held by                              sought by
============ ==================================== ============================================
gpu, engine, the GPU or engine it is about, the   the same
group        engine and group a GPU stands in
under        host of a GPU or engine              what is about the whole host
host         what is about the whole host         its GPUs, its engines, the host itself
serves       machines: models of their engines    models, tenants that ask them
model        models, tenants                      models, tenants; machines, if no machine is in it
like         one rule; one host, model, version   the same, once half of the machines there have it
silent       what fell silent, by host; hosts by  the same, when the whole host is silent; hosts
             cluster                              that fell silent together
============ ==================================== ============================================

So a model that two faulty engines serve glues nothing: an engine never seeks another engine through it, unless half of
the model's engines show the same (``like``): then the cause is what they share. Among several incidents that a symptom
could belong to it joins the one whose newest cause began nearest to it. Budgets hold and seek nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_jobs.alerts.incidents import Incident
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.signals import MACHINE, Level, Rank, Signal, plain
from stream_jobs.alerts.topology import Topology

LIKE_MIN = 2
"""So many machines with the same trouble are the least that is taken for a shared cause."""


@dataclass(frozen=True, slots=True)
class Keys:
    """``holds`` go into the incident; the others find one. ``weak`` find only incidents without a machine."""

    holds: tuple[str, ...]
    seeks: tuple[str, ...]
    weak: tuple[str, ...] = ()
    like: tuple[str, ...] = ()


def keys_of(signal: Signal, topology: Topology) -> Keys:
    """The keys of a signal by what it is about."""
    if signal.level is Level.BUDGET:
        return Keys((), ())
    if signal.level in MACHINE:
        return _host_keys(signal, topology) if signal.level is Level.HOST else _engine_keys(signal, topology)
    if signal.level is Level.FLEET:
        return Keys(("fleet",), ("fleet",))
    models = models_of(signal, topology)
    own = tuple(f"model\x1f{model}" for model in models)
    if signal.level is Level.TENANT and "tenant" in signal.labels:
        own += (f"tenant\x1f{signal.labels['tenant']}",)
    return Keys(own, (*own, *(f"serves\x1f{model}" for model in models)))


def models_of(signal: Signal, topology: Topology) -> list[str]:
    """The models a signal is about: named, served by its machines or requested by its tenant; sorted."""
    labels = signal.labels
    if "model" in labels:
        return [labels["model"]]
    if signal.level is Level.HOST:
        engines = topology.engines_on(labels.get("host", ""))
        return sorted({model for name in engines for model in topology.engines[name].models})
    if signal.level is Level.TENANT:
        tenant = topology.tenants.get(labels.get("tenant", ""))
        return sorted(tenant.models) if tenant is not None else []
    engine = topology.engines.get(labels.get("engine_id", ""))
    return sorted(engine.models) if engine is not None else []


def _host_keys(signal: Signal, topology: Topology) -> Keys:
    labels = signal.labels
    host = labels.get("host")
    models = models_of(signal, topology)
    seeks = [f"host\x1f{host}", f"under\x1f{host}"] if host is not None else []
    holds = [*seeks, *(f"serves\x1f{model}" for model in models)]
    like = []
    if signal.rank is Rank.LOST and host is not None:
        holds.append(f"silent\x1f{host}")
        like.append(f"silent-cluster\x1f{labels.get('cluster', '')}")
    return Keys((*holds, *like), tuple(seeks), tuple(f"model\x1f{model}" for model in models), tuple(like))


def _engine_keys(signal: Signal, topology: Topology) -> Keys:
    labels = signal.labels
    host, group = labels.get("host"), labels.get("placement_group")
    own = [f"gpu\x1f{labels['gpu_uuid']}"] if "gpu_uuid" in labels else []
    if "engine_id" in labels:
        own.append(f"engine\x1f{labels['engine_id']}")
    if group is not None and group != host:
        own.append(f"group\x1f{group}")
    models = models_of(signal, topology)
    like = [f"like\x1f{signal.rule}\x1f{shared}" for shared, _ in shared_of(signal, topology)]
    holds = [*own, *(f"serves\x1f{model}" for model in models), *like]
    seeks = list(own)
    if host is not None:
        holds.append(f"under\x1f{host}")
        seeks.append(f"host\x1f{host}")
        if signal.kind == "no_data":
            holds.append(f"silent\x1f{host}")
            seeks += [f"silent\x1f{host}"] if signal.rank is Rank.SYMPTOM else []
    return Keys(tuple(holds), tuple(seeks), tuple(f"model\x1f{model}" for model in models), tuple(like))


def shared_of(signal: Signal, topology: Topology) -> list[tuple[str, int]]:
    """What a GPU or engine shares with others of its kind, and how many there are: its host, model, version."""
    host = signal.labels.get("host")
    found = []
    if host is not None:
        found.append((f"host\x1f{host}", topology.peers_on(host, gpus=signal.level is Level.GPU)))
    if signal.level is Level.ENGINE:
        found += [(f"model\x1f{m}", topology.peers_of(m)) for m in models_of(signal, topology)]
        found += _version_of(signal, topology)
    return found


def _version_of(signal: Signal, topology: Topology) -> list[tuple[str, int]]:
    """The version of its model that an engine serves, and how many engines serve that: a new one is on few at first."""
    model, version = signal.labels.get("model"), signal.labels.get("model_version")
    if model is None or version is None:
        return []
    return [(f"version\x1f{plain(model)}\x1f{version}", topology.peers_with(model, version))]


def is_wide(having: int, known: int) -> bool:
    """So many of those known have the same trouble that what they share is the likelier cause."""
    return having >= LIKE_MIN and 2 * having >= known


def may_join(signal: Signal, incident: Incident, policy: AlertPolicy) -> bool:
    """Whether the signal began close enough to what the incident is about.

    Something may be open for days; it must not take in every later trouble of its machine. So both begin within
    ``join_ms`` of one another, but for these: the same measure of the same machine (a leak, then full memory), what
    follows from an event or a silent host, and requests that get slow or fail where others do already.
    """
    if incident.head.signal.level is Level.BUDGET:
        return False
    apart_ms = abs(signal.since_ms - incident.joined_ms)
    if signal.id in incident.parts or _same_measure(signal, incident):
        return True
    if incident.severity == "info" and signal.severity != "info":
        return apart_ms <= policy.join_ms
    if signal.kind == "burn_rate":
        return apart_ms <= policy.join_burn_ms
    if incident.hard and signal.machine:
        return True
    if signal.weight and incident.felt:
        return True
    return apart_ms <= policy.join_ms


def _same_measure(signal: Signal, incident: Incident) -> bool:
    return bool(signal.machine and signal.measure and signal.place) and incident.shows(signal.measure, signal.place)


def nearest(signal: Signal, incidents: Iterable[Incident]) -> Incident | None:
    """The incident whose newest cause began nearest to the signal; then the one opened first."""
    return min(
        incidents, key=lambda one: (abs(signal.since_ms - one.joined_ms), one.opened_ms, one.fingerprint), default=None
    )
