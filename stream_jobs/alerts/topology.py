"""What stands on what: GPU -> engine -> host, engine -> model, tenant -> model; learned from windows and events.

Bounded: at ``topology_max`` entries of a kind later ones are not learned, and what was not seen for ``forget_ms`` is
forgotten. A placement group that is only the host's name (nothing better was known) connects nothing.

A dump is the graph as the last window left it, when each of its entries was seen, and what events reported since: every
alert takes a snapshot with it, a fleet's graph is large and nearly always the same, and is packed only when it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import orjson

from schemas.limits import HOUR_MS, MINUTE_MS
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.readings import READINGS, Word, combinations
from stream_jobs.insight.frame import Window
from stream_jobs.parts import compress, decompress

SINCE_MAX = 1_000
"""Of events between two windows; then the graph is packed again."""
MODEL_UNSEEN_MS = 15 * MINUTE_MS
"""An engine that serves another model now and has not reported one for so long serves that one no more."""
_LABELS = ("gpu_uuid", "host", "engine_id", "placement_group", "cluster", "region", "model", "model_version")
"""What an event says of the graph."""


@dataclass(slots=True)
class Gpu:
    """Where a GPU is."""

    host: Word
    engine: Word
    group: Word
    cluster: Word
    region: Word
    seen_ms: int


@dataclass(slots=True)
class Engine:
    """Where an engine is and what it serves: models by when they were seen, and the version seen last."""

    host: Word
    group: Word
    cluster: Word
    region: Word
    seen_ms: int
    models: dict[str, int] = field(default_factory=dict)
    version: Word = None


@dataclass(slots=True)
class Host:
    """``seen_ms``: end of the last window in which anything came from it."""

    cluster: Word
    region: Word
    seen_ms: int


@dataclass(slots=True)
class Tenant:
    """The models a tenant requested, by when."""

    models: dict[str, int]
    seen_ms: int


E = TypeVar("E")


class Topology:
    """The graph, and questions to it. Learning the same again changes only when it was seen."""

    def __init__(self, policy: AlertPolicy) -> None:
        self._policy = policy
        self.gpus: dict[str, Gpu] = {}
        self.engines: dict[str, Engine] = {}
        self.hosts: dict[str, Host] = {}
        self.tenants: dict[str, Tenant] = {}
        self.swept_ms = 0
        self._on_host: dict[str, set[str]] = {}
        self._gpus_on: dict[str, set[str]] = {}
        self._serving: dict[str, set[str]] = {}
        self._versions: dict[str, Counter[Word]] = {}
        """Engines of a model by version, counted at the first query and until one changes."""
        self._graph: bytes | None = None
        """What stands on what, once it was packed and until it changes."""
        self._base: list[bytes] | None = None
        """As the last window left it, once it was packed: graph, and when each entry was seen."""
        self._since: list[list[Any]] = []
        """What events reported since, each with its time."""

    # learning

    def learn(self, window: Window, end_ms: int) -> None:
        """Take over what the rows of a window say about who is where."""
        self._base, self._since = None, []
        takers = (self._learn_gpu, self._learn_engine, self._learn_served, self._learn_host, self._learn_tenant)
        for reading, take in zip(READINGS, takers, strict=True):
            block = window.tables.get(reading.topic)
            for combination in combinations(block, reading) if block is not None else ():
                take(combination, end_ms)
        if end_ms - self.swept_ms >= HOUR_MS:
            self.swept_ms = end_ms
            self.forget(end_ms - self._policy.forget_ms)

    def learn_row(self, row: Mapping[str, Any], at_ms: int) -> None:
        """Take over what an event of a GPU or engine says."""
        if len(self._since) >= SINCE_MAX:
            self._base, self._since = None, []
        self._base = self._base or self._packed()
        labels = [row.get(name) for name in _LABELS]
        self._since.append([*labels, at_ms])
        self._learn_labels(labels, at_ms)

    def _learn_labels(self, labels: Sequence[Word], at_ms: int) -> None:
        uuid, host, engine, group, cluster, region, *models = labels
        if uuid is not None:
            self._learn_gpu((uuid, host, engine, group, cluster, region), at_ms)
        if engine is not None:
            self._learn_engine((engine, host, group, cluster, region, *models), at_ms)

    def _known(self, entries: dict[str, E], name: Word, make: Callable[[], E]) -> E | None:
        """The entry of that name, a new one where there is room; None without a name."""
        if name is None:
            return None
        found = entries.get(name)
        if found is None and len(entries) < self._policy.topology_max:
            found = entries[name] = make()
            self._graph = None
        return found

    def _stands(self, known: Gpu | Engine | Host, cluster: Word, region: Word, at_ms: int) -> None:
        if (cluster and cluster != known.cluster) or (region and region != known.region):
            known.cluster, known.region, self._graph = cluster or known.cluster, region or known.region, None
        if at_ms > known.seen_ms:
            known.seen_ms = at_ms

    def _learn_gpu(self, labels: Sequence[Word], at_ms: int) -> None:
        uuid, host, engine, group, cluster, region = labels
        known = self._known(self.gpus, uuid, lambda: Gpu(None, None, None, cluster, region, at_ms))
        if known is None or uuid is None:
            return
        if known.host != host:
            _move(self._gpus_on, uuid, known.host, host)
            known.host, self._graph = host, None
            if host is not None:
                known.engine = known.group = None
        if (engine and engine != known.engine) or (group and group != known.group):
            known.engine, known.group, self._graph = engine or known.engine, group or known.group, None
        self._stands(known, cluster, region, at_ms)
        self._learn_host((host, cluster, region), at_ms)

    def _learn_engine(self, labels: Sequence[Word], at_ms: int) -> None:
        name, host, group, cluster, region, model, version = labels
        known = self._known(self.engines, name, lambda: Engine(None, None, cluster, region, at_ms))
        if known is None or name is None:
            return
        if host is not None and known.host != host:
            _move(self._on_host, name, known.host, host)
            known.host, self._graph = host, None
        if group and group != known.group:
            known.group, self._graph = group, None
        self._stands(known, cluster, region, at_ms)
        self._serves(name, model, version, at_ms)
        self._learn_host((host, cluster, region), at_ms)

    def _learn_served(self, labels: Sequence[Word], at_ms: int) -> None:
        """Requests are measured where they pass: of their host nothing is learned about an engine that is known, and
        they are no sign of life of it."""
        name, _, _, _, _, model, version = labels
        known = self.engines.get(name or "")
        if known is None or name is None:
            self._learn_engine((name, None, *labels[2:]), at_ms)
        elif model is not None:
            known.seen_ms = max(known.seen_ms, at_ms)
            self._serves(name, model, version, at_ms)

    def _serves(self, name: str, model: Word, version: Word, at_ms: int) -> None:
        known = self.engines[name]
        if version and version != known.version:
            known.version, self._graph = version, None
            for served in known.models:
                self._versions.pop(served, None)
        if model is None:
            return
        before_ms = known.models.get(model)
        if before_ms is None:
            self._graph = None
            self._versions.pop(model, None)
            self._serving.setdefault(model, set()).add(name)
        if before_ms is None or before_ms < at_ms:
            known.models[model] = at_ms
        for old in [one for one, seen_ms in known.models.items() if seen_ms <= at_ms - MODEL_UNSEEN_MS]:
            del known.models[old]
            self._graph = None
            self._versions.pop(old, None)
            _move(self._serving, name, old, None)

    def _learn_host(self, labels: Sequence[Word], at_ms: int) -> None:
        name, cluster, region = labels
        known = self._known(self.hosts, name, lambda: Host(cluster, region, at_ms))
        if known is not None:
            self._stands(known, cluster, region, at_ms)

    def _learn_tenant(self, labels: Sequence[Word], at_ms: int) -> None:
        name, model = labels
        known = None if model is None else self._known(self.tenants, name, lambda: Tenant({}, at_ms))
        if known is not None and model is not None:
            if model not in known.models:
                self._graph = None
            known.models[model] = known.seen_ms = at_ms

    # forgetting

    def forget(self, before_ms: int) -> None:
        """Forget what was last seen before this."""
        self._graph = None
        serving: list[Engine | Tenant] = [*self.engines.values(), *self.tenants.values()]
        for one in serving:
            one.models = {model: at_ms for model, at_ms in one.models.items() if at_ms >= before_ms}
        for kind in _KINDS:
            entries = getattr(self, kind)
            setattr(self, kind, {name: one for name, one in entries.items() if one.seen_ms >= before_ms})
        self._index()

    def _index(self) -> None:
        self._on_host, self._gpus_on, self._serving, self._versions = {}, {}, {}, {}
        for uuid, gpu in self.gpus.items():
            if gpu.host is not None:
                self._gpus_on.setdefault(gpu.host, set()).add(uuid)
        for name, engine in self.engines.items():
            if engine.host is not None:
                self._on_host.setdefault(engine.host, set()).add(name)
            for model in engine.models:
                self._serving.setdefault(model, set()).add(name)

    # questions

    def engines_on(self, host: str) -> list[str]:
        """The engines of a host, sorted."""
        return sorted(self._on_host.get(host, ()))

    def gpus_on(self, host: str) -> list[str]:
        """The GPUs of a host, sorted."""
        return sorted(self._gpus_on.get(host, ()))

    def engines_of(self, model: str) -> list[str]:
        """The engines that serve a model, sorted."""
        return sorted(self._serving.get(model, ()))

    def peers_on(self, host: str, *, gpus: bool) -> int:
        """How many GPUs, or engines, a host has."""
        return len((self._gpus_on if gpus else self._on_host).get(host, ()))

    def peers_of(self, model: str) -> int:
        """How many engines serve a model."""
        return len(self._serving.get(model, ()))

    def peers_with(self, model: str, version: str) -> int:
        """How many engines of a model serve this version of it."""
        if model not in self._versions:
            self._versions[model] = Counter(self.engines[name].version for name in self._serving.get(model, ()))
        return self._versions[model][version]

    def hosts_with(self, model: str, version: str) -> int:
        """On how many hosts engines serve this version of a model."""
        serving = (self.engines[name] for name in self._serving.get(model, ()))
        return len({engine.host for engine in serving if engine.version == version and engine.host is not None})

    def is_silent(self, host: str, since_ms: int) -> bool:
        """No sample at all came from the host in windows that end after this."""
        known = self.hosts.get(host)
        return known is not None and known.seen_ms <= since_ms

    def where(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels and what follows from them: of a GPU its engine, of that its host, model and version."""
        found: dict[str, Word] = dict(labels)
        gpu = self.gpus.get(labels.get("gpu_uuid", ""))
        if gpu is not None:
            _add(found, engine_id=gpu.engine, placement_group=gpu.group, host=gpu.host)
            _add(found, cluster=gpu.cluster, region=gpu.region)
        engine = self.engines.get(found.get("engine_id") or "")
        if engine is not None:
            _add(found, placement_group=engine.group, host=engine.host)
            if len(engine.models) == 1:
                _add(found, model=next(iter(engine.models)), model_version=engine.version)
            _add(found, cluster=engine.cluster, region=engine.region)
        host = self.hosts.get(found.get("host") or "")
        if host is not None:
            _add(found, cluster=host.cluster, region=host.region)
        return {name: value for name, value in found.items() if value is not None}

    # state

    def dump(self) -> list[bytes]:
        """The graph in three parts; equal for equal graphs that heard the same since the last window."""
        self._base = self._base or self._packed()
        return [*self._base, orjson.dumps(self._since)]

    def _packed(self) -> list[bytes]:
        """Entries in the order of learning, each its name and its fields but for times. And the times."""
        self._graph = self._graph or compress(orjson.dumps({kind: self._named(kind) for kind in _KINDS}))
        seen = [one.seen_ms for kind in _KINDS for one in getattr(self, kind).values()]
        serving: list[Engine | Tenant] = [*self.engines.values(), *self.tenants.values()]
        served = [at_ms for one in serving for at_ms in one.models.values()]
        return [self._graph, compress(np.array([self.swept_ms, *seen, *served], np.int64).tobytes())]

    def _named(self, kind: str) -> list[list[Any]]:
        fields = attrgetter(*_KINDS[kind].__slots__)
        return [[name, *_timeless(fields(one), _KINDS[kind])] for name, one in getattr(self, kind).items()]

    def load(self, parts: Sequence[bytes]) -> None:
        """Restore a dump. One of 0.1.0 has a single part before what events reported, with the times in it."""
        *base, since = parts
        found = orjson.loads(decompress(base[0]))
        if len(base) > 1:
            found = _timed(found, np.frombuffer(decompress(base[1]), np.int64).tolist())
        for kind, of in _KINDS.items():
            setattr(self, kind, {name: of(*values) for name, *values in found[kind]})
        self.swept_ms = found["swept_ms"]
        self._index()
        self._graph, self._base = (bytes(base[0]), [bytes(one) for one in base]) if len(base) > 1 else (None, None)
        self._base = self._base or self._packed()
        self._since = orjson.loads(since)
        for *labels, at_ms in self._since:
            self._learn_labels(labels, at_ms)


_KINDS: Mapping[str, Any] = {"gpus": Gpu, "engines": Engine, "hosts": Host, "tenants": Tenant}
"""What the graph is made of, by the attribute that holds it; dumped as the name and the fields of each entry."""


def _timeless(values: Sequence[Any], of: type) -> list[Any]:
    """The fields of an entry without times: of models their names."""
    named = zip(of.__slots__, values, strict=True)  # type: ignore[attr-defined]
    return [list(value) if name == "models" else value for name, value in named if name != "seen_ms"]


def _timed(graph: Mapping[str, Any], times: Sequence[int]) -> dict[str, Any]:
    """The graph with its times, as ``_packed`` put them behind one another."""
    swept_ms, *rest = times
    entries = [(kind, entry) for kind in _KINDS for entry in graph[kind]]
    seen, served = rest[: len(entries)], iter(rest[len(entries) :])
    found: dict[str, Any] = {**{kind: [] for kind in _KINDS}, "swept_ms": swept_ms}
    for (kind, (name, *values)), seen_ms in zip(entries, seen, strict=True):
        fields = [one for one in _KINDS[kind].__slots__ if one != "seen_ms"]
        entry = {**dict(zip(fields, values, strict=True)), "seen_ms": seen_ms}
        if "models" in entry:
            entry["models"] = {model: next(served) for model in entry["models"]}
        found[kind].append([name, *(entry[one] for one in _KINDS[kind].__slots__)])
    return found


def _move(index: dict[str, set[str]], name: str, before: Word, now: Word) -> None:
    """``name`` stands at ``now``, no longer at ``before``."""
    if before is not None:
        index.get(before, set()).discard(name)
    if now is not None:
        index.setdefault(now, set()).add(name)


def _add(found: dict[str, Word], **more: Word) -> None:
    for name, value in more.items():
        if value is not None:
            found.setdefault(name, value)
