"""Directory: the engines that are known, by id and by address, and what a request learns from its engine. Pure.

An address that several engines claim is of the one that responds; of none where that does not decide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.addresses import is_this_machine
from schemas.contract.engines import Engine

JOINED = ("engine_id", "placement_group", "model_version", "precision")
"""What a request takes over from its engine, where its edge did not know better."""


class Directory:
    """``host``: the name of the machine that loopback addresses mean; None: they mean no known one."""

    def __init__(self, engines: Iterable[Engine] = (), host: str | None = None) -> None:
        self.engines = tuple(engines)
        self._host = host
        by_id: dict[str, list[Engine]] = {}
        by_address: dict[str, list[Engine]] = {}
        for engine in self.engines:
            by_id.setdefault(engine.engine_id, []).append(engine)
            for address in {each.lower() for each in engine.addresses}:
                by_address.setdefault(address, []).append(engine)
        self._by_id = {name: _one(found) for name, found in by_id.items()}
        self._by_address = {address: _one(found) for address, found in by_address.items()}

    def named(self, engine_id: str) -> Engine | None:
        """The engine with this id."""
        return self._by_id.get(engine_id)

    def at(self, address: str) -> Engine | None:
        """The engine under ``name:port``."""
        name, _, port = address.lower().rpartition(":")
        if is_this_machine(name.strip("[]")):
            if self._host is None:
                return None
            address = f"{self._host}:{port}"
        return self._by_address.get(address.lower())

    def serving(self, model: str) -> Engine | None:
        """The one engine that serves this model; None where several do."""
        return _one([engine for engine in self.engines if engine.model == model])

    def joined(self, row: Mapping[str, Any], address: str | None = None) -> tuple[dict[str, Any], Engine | None]:
        """What the row's engine adds to it, where the row has null, and the engine; nothing where it is not known.

        An ``engine_id`` in the row is an id, or else an address; so is ``address``, for a row without one.
        """
        given = row.get("engine_id")
        if isinstance(given, str):
            engine = self.named(given) or self.at(given)
        else:
            engine = (self.at(address) or self.named(address)) if address else None
        if engine is None:
            return {}, None
        known = {name: getattr(engine, name) for name in JOINED if row.get(name) is None}
        return {**known, "engine_id": engine.engine_id}, engine


def _one(found: list[Engine]) -> Engine | None:
    """The only one, or the only one that responds."""
    if len(found) == 1:
        return found[0]
    responding = [engine for engine in found if engine.responding]
    return responding[0] if len(responding) == 1 else None


class Layers(Directory):
    """Directories one behind the other: the first that knows an engine counts."""

    def __init__(self, *layers: Directory) -> None:
        super().__init__([engine for layer in layers for engine in layer.engines])
        self._layers = layers

    def named(self, engine_id: str) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.named(engine_id)) is not None), None)

    def at(self, address: str) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.at(address)) is not None), None)
