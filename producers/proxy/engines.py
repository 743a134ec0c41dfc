"""UpstreamEngines: gives each request the engine behind its upstream, as the engine's own agent knows it.

An upstream of this host is looked up in the host's file, any other in the topic ``engines``; its name is resolved where
agents know only the address. An agent finds an engine within half a minute, so the rows of an upstream without one are
held for ``HELD_S`` from the first of them on, where an agent lives that may find it: that of this host, and for
upstreams of others any that has reported lately. After that they pass without an engine, are counted, and what to do is
logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from producers.identity import host_file
from producers.identity.directory import Directory, Layers
from producers.identity.joiner import Joiner
from producers.identity.topic_reader import TopicEngines
from runtime.addresses import address_of, bracketed, is_this_machine
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.proxy_config import UpstreamConfig
from schemas.contract.engines import Engine
from schemas.errors import RejectedError

_log = logging.getLogger(__name__)

HELD_S = 40.0
HELD_ROWS_MAX = 10_000
LOOK_EVERY_S = 1.0
NAMES_EVERY_S = 60.0
NAMES_AGAIN_S = 5.0
"""After a lookup that failed."""

Row = dict[str, Any]
OnRow = Callable[[Row], None]
Resolve = Callable[[str], Iterable[str]]
"""IP addresses of a host name; raises OSError, and ValueError for what is no name."""


def resolve(name: str) -> list[str]:
    """By the system's resolver."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})


class UpstreamEngines:
    """``path_of``: where the host's file is now; ``topic``: engines of all hosts. None: not looked at."""

    def __init__(
        self,
        upstreams: Sequence[UpstreamConfig],
        path_of: Callable[[], Path] | None = None,
        topic: TopicEngines | None = None,
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        resolve: Resolve = resolve,
    ) -> None:
        self._upstreams = upstreams
        self._addresses = [address_of(upstream.url) for upstream in upstreams]
        self._more: list[tuple[str, ...]] = [() for _ in upstreams]
        self.path_of = path_of
        self._topic = topic
        self._clock = clock or SystemClock()
        self._resolve = resolve
        self._elsewhere = [not is_this_machine(urlsplit(upstream.url).hostname or "") for upstream in upstreams]
        self._of_host = Directory()
        self._file_id: tuple[int, int] | None = None
        self._agent_lives = path_of is not None  # nobody has looked yet, and requests may come before somebody does
        self._names_due_s = [0.0 for _ in upstreams]
        self._joiner = Joiner("proxy", self._directory, counters)
        self._held: list[deque[tuple[Row, OnRow]]] = [deque() for _ in upstreams]
        self._waits_until_s: list[float | None] = [None for _ in upstreams]

    def take(self, row: Row, where: int | None, on_row: OnRow) -> None:
        """Complete the row of a request that went to upstream ``where`` (None: to none), and pass it on, now or when
        its engine is known."""
        if where is None:
            on_row(row)
            return
        upstream = self._upstreams[where]
        row["engine_id"], row["placement_group"] = upstream.engine_id, upstream.placement_group
        if upstream.engine_id is None and self._engine(where) is None and self._waits(where):
            self._held[where].append((row, on_row))
        else:
            self._release(where)  # requests of an engine pass in their order: the first one is cold
            self._pass(row, where, on_row)

    async def run(self) -> None:
        """Keep what is known up to date, until cancelled."""
        async with contextlib.AsyncExitStack() as ending:
            if self._topic is not None:
                following = asyncio.create_task(self._topic.run())
                ending.callback(following.cancel)
            failed = False
            while True:
                try:
                    await asyncio.to_thread(self.look)
                    failed = False
                except Exception as error:  # without this task no row would ever be joined again
                    if not failed:
                        facts = {"error": f"{type(error).__name__}: {error}"}
                        _log.warning("looking for the engines of upstreams failed, retrying", extra=facts)
                    failed = True
                try:
                    self.release()
                except Exception:  # in joining one: who takes rows spares the others itself
                    _log.exception("publishing rows failed, please report it; these rows are lost")
                await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Read the host's file where it changed, and resolve names now and then. Blocks; for a thread."""
        self._read_file()
        for where, upstream in enumerate(self._upstreams):
            if self._clock.monotonic_s() < self._names_due_s[where]:
                continue
            found = self._resolved(upstream.url)
            if found is not None:
                self._more[where] = found
            again_s = NAMES_AGAIN_S if found is None else NAMES_EVERY_S
            self._names_due_s[where] = self._clock.monotonic_s() + again_s

    def release(self, *, all_of_them: bool = False) -> None:
        """Pass on held rows whose engine is known by now, or that have waited long enough."""
        for where, held in enumerate(self._held):
            if held and (all_of_them or self._engine(where) is not None or not self._waits(where, more=0)):
                self._release(where)

    def _release(self, where: int) -> None:
        held = self._held[where]
        while held:
            row, on_row = held.popleft()
            self._pass(row, where, on_row)

    # What is known

    def _directory(self) -> Directory:
        return self._of_host if self._topic is None else Layers(self._of_host, self._topic.directory)

    def _engine(self, where: int) -> Engine | None:
        """The one engine under the upstream's address, or under those that its name stands for."""
        directory = self._directory()
        if (found := directory.at(self._addresses[where])) is not None:
            return found
        several = {directory.at(address) for address in self._more[where]}
        return several.pop() if len(several) == 1 else None

    def _pass(self, row: Row, where: int, on_row: OnRow) -> None:
        engine = self._engine(where)
        self._joiner.join(row, engine.engine_id if engine is not None else self._addresses[where])
        on_row(row)

    def _waits(self, where: int, more: int = 1) -> bool:
        """Whether rows of this upstream are held, and ``more`` can be. An upstream without an engine is waited for once
        by an agent's life: while none lives nothing is waited for."""
        until_s, now_s = self._waits_until_s[where], self._clock.monotonic_s()
        if not (self._agent_lives or (self._elsewhere[where] and self._topic is not None and self._topic.fresh)):
            self._waits_until_s[where] = None
            return False
        if until_s is None:
            until_s = self._waits_until_s[where] = now_s + HELD_S
        if now_s < until_s and sum(map(len, self._held)) + more <= HELD_ROWS_MAX:
            return True
        if until_s != float("-inf"):
            self._waits_until_s[where] = float("-inf")
            address = self._addresses[where]
            _log.warning("engine of an upstream unknown; its requests join no GPU", extra={"upstream": address})
        return False

    def _read_file(self) -> None:
        if self.path_of is not None:
            path = self.path_of()
            lives = host_file.is_held(path)
            self._read(path)
            self._agent_lives = lives  # once its engines are known: rows may come at any moment

    def _read(self, path: Path) -> None:
        try:
            found = path.stat()
            if self._file_id == (found.st_ino, found.st_mtime_ns):
                return
            self._of_host = host_file.read(path)
            self._file_id = (found.st_ino, found.st_mtime_ns)
        except FileNotFoundError:
            return  # what was known stays known: its agent may be restarting
        except (OSError, RejectedError) as error:
            facts = {"path": str(path), "error": str(error)}
            _log.debug("file of the host's engines not read, retrying", extra=facts)

    def _resolved(self, url: str) -> tuple[str, ...] | None:
        """None where the lookup failed: what was known stays known."""
        parts = urlsplit(url)
        name, port = parts.hostname or "", address_of(url).rpartition(":")[2]
        if is_this_machine(name):
            return ()
        try:
            return tuple(f"{bracketed(address)}:{port}" for address in self._resolve(name))
        except (OSError, ValueError):  # or a name that no resolver takes
            return None
