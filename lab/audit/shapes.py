"""Ways of holding GPUs that the simulated fleet does not have by itself, put upon what it emits. Pure.

A tensor-parallel group over two hosts, a GPU in MIG mode, and one that two engines take turns on: readings of GPUs that
the fleet left idle get another name. Engines that share a GPU get one placement group, as the agent reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lab.simulator.wide import EntityLabel, Of, Wide, WideColumn, entity_label, select
from schemas.codec.block import Labels, Numbers

GPU_SAMPLES = "gpu.samples"
Doing = Mapping[str | None, str | None]
TURN_MS = 20_000
"""So long an engine has a GPU that it takes turns on."""
IDLE, UNKNOWN_EVERY = "idle", 3
"""In every third turn nothing is known of GPUs that are idle in the others, as while an agent starts."""


@dataclass(frozen=True, slots=True)
class Device:
    """A MIG device: its UUID, its size, the engine on it (None: nobody)."""

    uuid: str
    profile: str
    engine_id: str | None


@dataclass(frozen=True, slots=True)
class Shapes:
    """By UUID of a GPU: the engine it is ``lent`` to, its MIG ``devices``, the engines that take ``turns``.

    ``groups``: the placement group of an engine, where it is not its own name.
    """

    lent: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    turns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def group_of(self, engine_id: str) -> str:
        """Where readings and requests of an engine belong."""
        return self.groups.get(engine_id, engine_id)


class Shaped:
    """Puts shapes upon wide batches; a batch of GPU readings may become two."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._gpus: dict[str, list[str | None]] | None = None
        self._parents: list[tuple[int, Device]] = []

    def apply(self, wide: Wide, at_ms: int) -> Iterator[Wide]:
        """The batch as it is sent; ``at_ms`` decides whose turn it is."""
        if wide.topic != GPU_SAMPLES:
            yield self._regrouped(wide)
            return
        labels = self._labels(wide, at_ms)
        yield replace(wide, columns={**wide.columns, **{name: Of(label) for name, label in labels.items()}})
        for number, (parent, device) in enumerate(self._parents):
            rows = wide.entity == parent
            if rows.any():
                yield self._device(select(wide, rows), len(self._entities(wide)["gpu_uuid"]) + number, device, labels)

    def _regrouped(self, wide: Wide) -> Wide:
        column = wide.columns.get("placement_group")
        if not isinstance(column, Of) or not self._shapes.groups:
            return wide
        words = [self._shapes.group_of(word.decode()) if word else None for word in column.label.words]
        label = _label([words[code] for code in column.label.codes.tolist()])
        return replace(wide, columns={**wide.columns, "placement_group": Of(label)})

    def _entities(self, wide: Wide) -> dict[str, list[str | None]]:
        """Labels of every GPU, by name; read off the first batch."""
        if self._gpus is None:
            self._gpus = {name: _words(column) for name, column in wide.columns.items() if isinstance(column, Of)}
            uuids = self._gpus["gpu_uuid"]
            self._parents = [
                (uuids.index(uuid), one) for uuid, devices in self._shapes.devices.items() for one in devices
            ]
        return self._gpus

    def _labels(self, wide: Wide, at_ms: int) -> dict[str, EntityLabel]:
        """Labels of GPUs and behind them of MIG devices, as they are at that moment."""
        found = {name: list(values) for name, values in self._entities(wide).items()}
        found["workload"] = _words(wide.columns["workload"])
        doing = dict(zip(found["engine_id"], found["workload"], strict=True))
        turn = at_ms // TURN_MS
        if turn % UNKNOWN_EVERY == 0:
            found["workload"] = [None if word == IDLE else word for word in found["workload"]]
        holder = dict(self._shapes.lent)
        holder |= {uuid: engines[turn % len(engines)] for uuid, engines in self._shapes.turns.items()}
        for index, uuid in enumerate(found["gpu_uuid"]):
            if uuid in holder:
                self._give(found, index, holder[uuid], doing)
        for parent, device in self._parents:
            for values in found.values():
                values.append(values[parent])
            found["gpu_uuid"][-1] = device.uuid
            if device.engine_id is not None:
                self._give(found, len(found["gpu_uuid"]) - 1, device.engine_id, doing)
                found["placement_group"][parent] = self._shapes.group_of(device.engine_id)
        return {name: _label(values) for name, values in found.items()}

    def _give(self, found: dict[str, list[str | None]], index: int, engine_id: str, doing: Doing) -> None:
        """``doing``: what the engine's own GPUs are used for."""
        found["engine_id"][index] = engine_id
        found["placement_group"][index] = self._shapes.group_of(engine_id)
        found["workload"][index] = doing[engine_id]

    def _device(self, rows: Wide, entity: int, device: Device, labels: Mapping[str, EntityLabel]) -> Wide:
        """A MIG device's reading: no energy of its own, as NVML reports none."""
        count = rows.rows
        energy = rows.columns["energy_mj"]
        assert isinstance(energy, Numbers)
        none = Numbers(np.zeros_like(energy.values), np.zeros(count, np.bool_))
        parent = next(uuid for uuid, devices in self._shapes.devices.items() if device in devices)
        columns = {**rows.columns, **{name: Of(label) for name, label in labels.items()}, "energy_mj": none}
        columns |= {"parent_uuid": _constant(parent, count), "mig_profile": _constant(device.profile, count)}
        return replace(rows, entity=np.full(count, entity, np.int64), columns=columns)


def _label(values: Sequence[str | None]) -> EntityLabel:
    return entity_label(values, [0] * len(values), 1)


def _words(column: WideColumn) -> list[str | None]:
    """By entity."""
    assert isinstance(column, Of)
    return [_text(column.label.words[code]) for code in column.label.codes.tolist()]


def _text(word: bytes | None) -> str | None:
    return None if word is None else word.decode()


def _constant(word: str | None, rows: int) -> Labels:
    return Labels(np.ones(rows, np.uint8), [None, (word or "").encode()])
