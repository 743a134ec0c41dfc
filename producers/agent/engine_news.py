"""Service of the agent that lets other edges know the host's engines: the host's file, and the topic ``engines``.

Both are written when something changes and every ``REPEATED_EVERY_MS``. Engines of the file before a restart are known
from the start, until their first scrape says what they are now. One that has not responded for a day is forgotten:
it leaves the file, and its record on the topic is withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from producers.identity import host_file
from producers.identity.host_engines import HostEngines
from producers.publish.reconnect import comes
from runtime.clock import Clock, SystemClock
from schemas.contract.engines import FORGOTTEN_AFTER_MS, REPEATED_EVERY_MS, SCHEMA, Engine, encode
from schemas.contract.topics import ENGINES_TOPIC
from schemas.errors import RejectedError

_log = logging.getLogger(__name__)

GATHER_S = 0.2
"""Changes of one tick travel together."""


class Announces(Protocol):
    """The part of the publisher's states that is used here."""

    def announce(self, topic: str, key: bytes, value: bytes, schema: str) -> None:
        """Publish the state of a key."""
        ...

    def withdraw(self, topic: str, key: bytes, schema: str) -> None:
        """Publish that the key has no state any more."""
        ...


async def run_engine_news(
    states: Announces, engines: HostEngines, path: Path, stop: asyncio.Event, clock: Clock | None = None
) -> None:
    """Until ``stop``, and hold the file as long. One that cannot be written is logged, and tried again with the next
    change."""
    with host_file.held(path):
        await _run(states, engines, path, stop, clock or SystemClock())


async def _run(states: Announces, engines: HostEngines, path: Path, stop: asyncio.Event, clock: Clock) -> None:
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    engines.restore(_before(path, clock.now_ms()))
    engines.on_change = _waker(loop, changed)
    while not stop.is_set():
        changed.clear()
        for key in engines.report(clock.now_ms()):
            states.withdraw(ENGINES_TOPIC.name, key, SCHEMA)
        known = list(engines.directory.engines)
        await asyncio.to_thread(_write, path, engines.host, known)
        for engine in known:
            states.announce(ENGINES_TOPIC.name, engine.key, encode(engine), SCHEMA)
        if await _either(stop, changed, REPEATED_EVERY_MS / 1_000):
            await comes(stop, GATHER_S)


def _waker(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> Callable[[], None]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(changed.set)
        except RuntimeError:  # the loop has ended: what a collector finds now is of no use to anybody
            return

    return wake


async def _either(stop: asyncio.Event, changed: asyncio.Event, within_s: float) -> bool:
    """Wait for one of both; whether one came."""
    waits = [asyncio.ensure_future(each.wait()) for each in (stop, changed)]
    try:
        done, _ = await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
    return bool(done)


def _before(path: Path, now_ms: int) -> list[Engine]:
    try:
        found = host_file.read(path).engines
    except (OSError, RejectedError):
        return []
    return [replace(each, responding=False) for each in found if now_ms - each.reported_ms < FORGOTTEN_AFTER_MS]


def _write(path: Path, host: str, known: list[Engine]) -> None:
    try:
        host_file.write(path, host, known)
    except OSError as error:
        facts = {"path": str(path), "error": str(error)}
        _log.warning("file of the host's engines not written; edges of this host cannot name engines", extra=facts)
