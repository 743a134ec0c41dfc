"""Directory: the engines that are known, by id and by address, and what a request learns from its engine. Pure.

An address that several engines claim is of the one that responds; of none where that does not decide it. A record that
says so and is no longer repeated, as the others are, says nothing: its host is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.addresses import says_this_machine
from schemas.contract.engines import REPEATED_EVERY_MS, Engine

JOINED = ("engine_id", "placement_group", "model_version", "precision")
"""What a request takes over from its engine, where its edge did not know better."""


class Directory:
    """``host``: the name of the machine that loopback addresses mean; None: they mean no known one."""

    def __init__(self, engines: Iterable[Engine] = (), host: str | None = None) -> None:
        self._host = host
        self._engines: dict[bytes, Engine] = {}
        self._by_id: dict[str, tuple[Engine, ...]] = {}
        self._by_address: dict[str, tuple[Engine, ...]] = {}
        for engine in engines:
            self.put(engine)

    def put(self, engine: Engine) -> None:
        """The engine as it is from now on. Takes as long as it has addresses, however many engines are known."""
        self.forget(engine.key)
        self._engines[engine.key] = engine
        for index, name in self._entries(engine):
            index[name] = (*index.get(name, ()), engine)

    def forget(self, key: bytes) -> None:
        """Know the engine with this ``key`` no more, if it was known."""
        engine = self._engines.pop(key, None)
        for index, name in self._entries(engine) if engine is not None else ():
            left = tuple(each for each in index[name] if each is not engine)
            if left:
                index[name] = left
            else:
                del index[name]

    def _entries(self, engine: Engine) -> Iterator[tuple[dict[str, tuple[Engine, ...]], str]]:
        yield self._by_id, engine.engine_id
        for address in {each.lower() for each in engine.addresses}:
            yield self._by_address, address

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All of them."""
        return tuple(self._engines.values())

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._engines)

    def keyed(self, key: bytes) -> Engine | None:
        """The engine with this ``key``."""
        return self._engines.get(key)

    def named(self, engine_id: str) -> Engine | None:
        """The engine with this id."""
        return _one(self._by_id.get(engine_id, ()))

    def at(self, address: str) -> Engine | None:
        """The engine under ``name:port``."""
        if says_this_machine(address):
            if self._host is None:
                return None
            address = f"{self._host}:{address.rpartition(':')[2]}"
        return _one(self._by_address.get(address.lower(), ()))

    def serving(self, model: str) -> Engine | None:
        """The one engine that serves this model; None where several do."""
        return _one([engine for engine in self._engines.values() if engine.model == model])

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


def _one(found: Sequence[Engine]) -> Engine | None:
    """The only one, or the only one that responds. One whose ``reported_ms`` is 0 is new."""
    if len(found) == 1:
        return found[0]
    responding = [engine for engine in found if engine.responding]
    oldest_ms = max((engine.reported_ms for engine in responding), default=0) - 2 * REPEATED_EVERY_MS
    repeated = [engine for engine in responding if not engine.reported_ms or engine.reported_ms >= oldest_ms]
    return repeated[0] if len(repeated) == 1 else None


class Layers(Directory):
    """Directories one behind the other: the first that knows an engine counts. It has no index of its own, and so is
    made in no time."""

    def __init__(self, *layers: Directory) -> None:
        super().__init__()
        self._layers = layers

    @property
    def engines(self) -> tuple[Engine, ...]:
        return tuple(engine for layer in self._layers for engine in layer.engines)

    @property
    def count(self) -> int:
        return sum(layer.count for layer in self._layers)

    def keyed(self, key: bytes) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.keyed(key)) is not None), None)

    def named(self, engine_id: str) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.named(engine_id)) is not None), None)

    def at(self, address: str) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.at(address)) is not None), None)

    def serving(self, model: str) -> Engine | None:
        return next((found for layer in self._layers if (found := layer.serving(model)) is not None), None)
