"""The shell of ``fleetpulse proxy``: configuration and a spool in, requests through, events out, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from fleetpulse.edge import publishing
from producers.proxy.publishing import RowPublisher, telling
from producers.proxy.server import ProxyServer
from runtime import logs
from runtime.config import Config, load
from runtime.garbage import settle
from runtime.health import HealthServer
from runtime.proxy_config import ProxyConfig, UpstreamConfig
from runtime.shutdown import on_stop_signal
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

SECRET_BYTES = 32
_QUIET_GC = (50_000, 20, 100)
"""Thresholds of the collector of cycles: a collection stops every stream, and requests leave next to no cycles."""


def upstream_of(told: str) -> dict[str, object]:
    """``URL`` or ``URL=WEIGHT`` of the command line as the section's fields. Raises ConfigError on a bad weight."""
    url, mark, weight = told.rpartition("=")
    if not mark:
        return {"url": told}
    if not weight.isdigit():
        raise ConfigError("--upstream", told, "must be URL or URL=WEIGHT, with a whole number for a weight")
    return {"url": url, "weight": int(weight)}


class Watched:
    """The proxy's checks, before and after there is one; asked from another thread."""

    def __init__(self) -> None:
        self.server: ProxyServer | None = None

    def alive(self) -> str | None:
        """None while the proxy's loop turns."""
        return None if self.server is None else self.server.why_dead()

    def ready(self) -> str | None:
        """None while requests are taken and an upstream may be tried for them."""
        return "starting" if self.server is None else self.server.why_not_ready()


@contextlib.contextmanager
def _health(port: int | None, watched: Watched) -> Iterator[None]:
    if port is None:
        yield
        return
    with HealthServer(port=port, alive=watched.alive, ready=watched.ready):
        yield


def run_proxy(upstreams: Sequence[str], flags: dict[str, object], spool: Path | None) -> None:
    """Serve until SIGTERM. Ready while at least one upstream is not known to be down.

    ``flags`` are settings of the section ``proxy``; None: not told.
    """
    told = tuple(upstream_of(upstream) for upstream in upstreams) or None
    config = load({**{f"proxy.{key}": value for key, value in flags.items()}, "proxy.upstreams": told})
    if not config.proxy.upstreams:
        raise ConfigError("--upstream", (), "is needed at least once, as http://host:port")
    logs.configure("proxy")
    watched = Watched()
    with _health(config.proxy.health_port, watched):
        run_on_fast_loop(_serve(config, spool, watched))


def run_on_fast_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on uvloop, or on asyncio's own loop where there is none (it takes about twice the time)."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        _log.warning("uvloop is missing; asyncio's own loop serves, at about half the speed")
        return None
    return uvloop.new_event_loop


async def _serve(config: Config, spool: Path | None, watched: Watched) -> None:
    stop = on_stop_signal(asyncio.get_running_loop())
    secret = secret_of(config.proxy, config.data_dir)
    async with publishing(config, spool, "proxy") as publisher:
        rows = RowPublisher(publisher)
        take = telling(rows.take) if config.proxy.log_requests else rows.take
        server = ProxyServer(config.proxy, take, host=socket.gethostname(), tenant_secret=secret)
        await server.start()
        watched.server = server
        quiet_collector()
        _tell(server, config.proxy.upstreams)
        running = asyncio.create_task(rows.run())
        await _until(stop, running)
        await server.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await rows.flush()


async def _until(stop: asyncio.Event, running: asyncio.Task[None]) -> None:
    """Wait for the signal; a failure of the publisher ends the process too, since nothing would be counted."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((stopped, running), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if running.done():
        running.result()


def quiet_collector() -> None:
    """Leave what start-up made out of every collection, and collect seldom."""
    settle(_QUIET_GC)


def _tell(server: ProxyServer, upstreams: Sequence[UpstreamConfig]) -> None:
    urls = [upstream.url for upstream in upstreams]
    _log.info("proxy is up", extra={"host": server.limits.host, "port": server.port, "upstreams": urls})


def secret_of(config: ProxyConfig, data_dir: Path) -> bytes:
    """The key of the tenants' hash: the configured one, else the one in the data directory, made where missing."""
    if config.tenant_secret is not None:
        return config.tenant_secret.get_secret_value().encode()
    path = data_dir / "proxy.tenant-secret"
    data_dir.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_hex(SECRET_BYTES), encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another proxy was first: its secret counts
            path.hardlink_to(fresh)
        fresh.unlink()
    return path.read_bytes()
