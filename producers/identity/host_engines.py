"""HostEngines: what the agent knows of its host's engines, from any thread, and that something of it changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from producers.identity.directory import Directory
from runtime.addresses import bracketed, is_loopback, unmapped
from runtime.clock import Clock, SystemClock
from schemas.contract.engines import ADDRESSES_MAX, FORGOTTEN_AFTER_MS, Engine

NAMES_EVERY_S = 60.0
"""Names of this machine are read again so often: addresses come and go."""


class HostEngines:
    """``names``: reads host names and IP addresses under which clients reach this machine. ``cluster``, ``region``:
    where it is."""

    def __init__(
        self,
        host: str,
        names: Callable[[], Iterable[str]] = tuple,
        region: str | None = None,
        cluster: str | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.host = host
        self.on_change: Callable[[], None] = lambda: None
        """Called from whatever thread noticed the change."""
        self._read_names = names
        self._clock = clock or SystemClock()
        self._names: tuple[float, tuple[str, ...]] | None = None  # and until when they stand
        self._region = region
        self.cluster = cluster
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self._directory = Directory((), host)

    @property
    def directory(self) -> Directory:
        """The engines as they are now. Read without a lock; never changes once given."""
        return self._directory

    def addresses(self, name: str | None, port: int, more: Iterable[str] = ()) -> tuple[str, ...]:
        """Of an engine on this port of the machine ``name``, None for this one; ``more``: those configured."""
        names = self._names_now() if name is None else (name,)
        return tuple(dict.fromkeys((*more, *(f"{each}:{port}" for each in names))))[:ADDRESSES_MAX]

    def is_here(self, peer: str) -> bool:
        """Whether a connection from this IP address is of this machine: of its own network namespace."""
        return is_loopback(peer) or bracketed(str(unmapped(peer))) in self._names_now()

    def _names_now(self) -> tuple[str, ...]:
        known, now_s = self._names, self._clock.monotonic_s()
        if known is None or now_s >= known[0]:
            known = self._names = (now_s + NAMES_EVERY_S, tuple(dict.fromkeys((self.host, *self._read_names()))))
        return known[1]

    def saw(self, engine: Engine) -> None:
        """What is known of the engine now."""
        engine = replace(engine, host=self.host, region=self._region, cluster=self.cluster)
        with self._lock:
            before = self._engines.get(engine.engine_id)
            reported_ms = 0 if before is None else before.reported_ms
            engine = replace(engine, reported_ms=reported_ms)
            if engine == before:
                return
            self._engines[engine.engine_id] = engine
            self._directory = Directory(self._engines.values(), self.host)
        self.on_change()

    def restore(self, engines: Iterable[Engine]) -> None:
        """Engines of this host that were known before; what is known now counts more."""
        with self._lock:
            before = {each.engine_id: each for each in engines if each.host == self.host}
            self._engines = before | self._engines
            self._directory = Directory(self._engines.values(), self.host)

    def silent(self, engine_id: str) -> None:
        """The engine does not respond: it keeps its identity, for requests that fail and for when it is back."""
        known = self._engines.get(engine_id)
        if known is not None and known.responding:
            self.saw(replace(known, responding=False))

    def report(self, now_ms: int) -> list[bytes]:
        """Put the time on the engines, but for those that do not respond and have one: theirs stays when they last did.
        The keys of those whose time is a day ago, which are known no more."""
        with self._lock:
            dated = [
                replace(each, reported_ms=now_ms) if each.responding or not each.reported_ms else each
                for each in self._engines.values()
            ]
            kept = [each for each in dated if now_ms - each.reported_ms < FORGOTTEN_AFTER_MS]
            self._engines = {each.engine_id: each for each in kept}
            self._directory = Directory(kept, self.host)
        return [each.key for each in dated if each.engine_id not in self._engines]
