"""Health over HTTP: ``/healthz`` alive, ``/readyz`` doing its work, ``/metrics`` in Prometheus' text format.

Served from a thread of its own, so that a busy event loop still responds, and a stuck one shows in its check.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from runtime.config import load
from runtime.counters import CONTENT_TYPE, COUNTERS, Counters
from runtime.http_server import App, HttpThread, Refused, Request, Response, Route
from runtime.runbook import Cause
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""None when well, else a sentence that says what is wrong. Called in the server's thread: must not wait."""

REQUEST_WITHIN_S = 5.0
CONNECTIONS_MAX = 16
"""At a time; a connection more is answered with 503 and closed."""
BEAT_EVERY_S = 1.0
STILL_MAX_S = 60.0
"""A loop that stood still for longer will not turn again. Far above what holds a loop up and ends: loading a state when
a partition is assigned (20 s at most), a machine that swaps."""


def fine() -> None:
    """A check that always holds."""


class Readiness:
    """What keeps a process from doing its work, by part. Set by the process, read by ``/readyz`` in another thread.

    ``parts`` are those that have to begin before the process is ready, each with what it waits for. A cause of the
    runbook is 1 in /metrics as long as it keeps any part.
    """

    def __init__(self, **parts: str) -> None:
        self._held = dict(parts)
        self._notes: dict[str, str] = {}
        self._causes: dict[str, Cause] = {}

    def note(self, part: str, what: str | None, cause: Cause | None = None) -> None:
        """Something is wrong with this part, and yet no reason to be taken out of service; None: not any more."""
        if what is None:
            self._notes.pop(part, None)
        else:
            self._notes[part] = what
        self._is_caused(f"note {part}", None if what is None else cause)

    def noted(self) -> str | None:
        """All that is wrong so in one line; None when nothing is."""
        return _line(list(self._notes.values()))

    def hold(self, part: str, why: str, cause: Cause | None = None) -> None:
        """Not ready from now on, because of this part."""
        self._held[part] = why
        self._is_caused(part, cause)

    def keeps(self, part: str) -> bool:
        """Whether this part is not ready."""
        return part in self._held

    def release(self, part: str) -> None:
        """This part does its work."""
        self._held.pop(part, None)
        self._is_caused(part, None)

    def _is_caused(self, part: str, cause: Cause | None) -> None:
        before = self._causes.pop(part, None)
        if cause is not None:
            self._causes[part] = cause
        for each in {before, cause} - {None}:
            COUNTERS.set("cause", int(each in self._causes.values()), cause=each)

    def why(self) -> str | None:
        """None when every part does its work, else one line."""
        return _line(list(self._held.values()))  # a copy: the process may change it meanwhile


def _line(texts: list[str]) -> str | None:
    return "; ".join(" ".join(text.split()) for text in texts) or None


class Heartbeat:
    """Whether an event loop turns: noted by the loop every second, read by ``/healthz`` in another thread."""

    def __init__(self, still_max_s: float = STILL_MAX_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._still_max_s = still_max_s
        self._now_s = now_s
        self._beat_s: float | None = None

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on this loop has to turn. Call in its thread, or before it runs."""
        self._beat_s = self._now_s()
        loop.call_later(BEAT_EVERY_S, self.follow, loop)

    def why_dead(self) -> str | None:
        """None while the loop turns, and before there is one."""
        if self._beat_s is None:
            return None
        still_s = self._now_s() - self._beat_s
        return f"the event loop has stood still for {still_s:.0f} s" if still_s > self._still_max_s else None

    @contextlib.contextmanager
    def of_main_loop(self) -> Iterator[None]:
        """Follow whatever loop of asyncio the main thread runs meanwhile: for who hands it to a library."""
        before = asyncio.get_event_loop_policy()
        asyncio.set_event_loop_policy(_MainFollowed(self))
        try:
            yield
        finally:
            asyncio.set_event_loop_policy(before)


class _MainFollowed(asyncio.DefaultEventLoopPolicy):
    """A loop is followed from its first turn on: many a library makes one that it never runs."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        super().__init__()
        self._heartbeat = heartbeat

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.call_soon(self._begun, loop)
        return loop

    def _begun(self, loop: asyncio.AbstractEventLoop) -> None:
        if threading.current_thread() is threading.main_thread():
            self._heartbeat.follow(loop)


class HealthServer(HttpThread):
    """Serves until closed. Port 0 takes a free one; ``port`` is the one taken; ``host`` None: as configured
    (``health_host``). ``note``: what is wrong and yet no reason to be taken out of service; ``/readyz`` says it beside
    its verdict. Use as a context manager."""

    def __init__(
        self,
        *,
        alive: Check = fine,
        ready: Check = fine,
        note: Check = fine,
        port: int = 0,
        host: str | None = None,
        port_file: Path | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        async def metrics(_request: Request) -> Response:
            return Response(200, counters.render(), CONTENT_TYPE, close=True)

        routes = {
            "/healthz": Route("GET", _verdict(alive, fine)),
            "/readyz": Route("GET", _verdict(ready, note)),
            "/metrics": Route("GET", metrics),
        }
        app = App(routes, _refuse, connections_max=CONNECTIONS_MAX, within_s=REQUEST_WITHIN_S)
        host = load().health_host if host is None else host
        try:
            super().__init__("health", host, port, app)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                "health.port", f"{host}:{port}", f"must be free to listen on ({error}); 0 takes any"
            ) from error
        if port_file is not None:
            _write_whole(port_file, f"{self.port}\n")
        _log.info("health endpoints are up", extra={"host": host, "port": self.port})


def _verdict(check: Check, note: Check) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        wrong, noted = _ask(check), _ask(note)
        verdict = {"ok": wrong is None, "why": wrong} | ({} if noted is None else {"note": noted})
        return Response(200 if wrong is None else 503, json.dumps(verdict).encode() + b"\n", close=True)

    return answer


def _refuse(refused: Refused, _request: Request) -> Response:
    return Response(refused.status, f"{refused}\n".encode(), "text/plain; charset=utf-8", close=True)


def _ask(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # a check that fails says "not well"; a response is sent all the same
        return f"the check itself failed: {type(error).__name__}: {error}"


def _write_whole(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="ascii")
    fresh.replace(path)
