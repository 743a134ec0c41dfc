"""The shell of ``fleetpulse proxy``: configuration and a spool in, requests through, events out, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fleetpulse.services.edge import DRAIN_S, secret_of, supervised
from producers.identity.host_file import claims_beside, found_by, path_beside
from producers.identity.topic_reader import TopicEngines
from producers.proxy.claims import Claims
from producers.proxy.engines import UpstreamEngines
from producers.proxy.publishing import RowPublisher, with_request_log
from producers.proxy.server import ProxyServer
from producers.publish.supervised import SupervisedPublisher
from runtime import logs
from runtime.addresses import is_this_machine
from runtime.clock import SystemClock
from runtime.config import Config, load
from runtime.health import HealthServer
from runtime.process import on_stop_signal, raise_descriptors, run_to_the_end, settle
from runtime.tracing import Tracer, tracing
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

_DESCRIPTORS_OF_OTHERS = 64
"""The spool, Kafka, health, logs."""
_QUIET_GC = (50_000, 20, 100)
"""Thresholds of the collector of cycles: a collection stops every stream, and requests leave next to no cycles."""


def upstream_of(text: str) -> dict[str, object]:
    """``URL`` or ``URL=WEIGHT`` of the command line as the section's fields. Raises ConfigError on a bad weight."""
    url, mark, weight = text.rpartition("=")
    if not mark:
        return {"url": text}
    if not weight.isdecimal():
        raise ConfigError("--upstream", text, "must be URL or URL=WEIGHT, with a whole number for a weight")
    return {"url": url, "weight": int(weight)}


class Watched:
    """The proxy's checks, before and after there is one; read from another thread."""

    def __init__(self) -> None:
        self.server: ProxyServer | None = None
        self.publisher: SupervisedPublisher | None = None

    def alive(self) -> str | None:
        """None while the proxy's loop turns."""
        return None if self.server is None else self.server.why_dead()

    def ready(self) -> str | None:
        """None while requests are taken and an upstream may be tried for them."""
        return "starting" if self.server is None else self.server.why_not_ready()

    def note(self) -> str | None:
        """None while events are kept: a proxy that cannot keep them still serves."""
        return None if self.publisher is None else self.publisher.why


def run_proxy(upstreams: Sequence[str], flags: dict[str, object], spool: Path | None) -> None:
    """Serve until SIGTERM. Ready while at least one upstream is not known to be down.

    ``flags`` are settings of the section ``proxy``; None: not given.
    """
    logs.configure("proxy")
    config = settings_of(upstreams, flags)
    watched, port = Watched(), config.proxy.health_port
    checks = partial(HealthServer, alive=watched.alive, ready=watched.ready, note=watched.note)
    with contextlib.nullcontext() if port is None else checks(port=port):
        run_on_fast_loop(_serve(config, spool, watched))


def settings_of(upstreams: Sequence[str], flags: Mapping[str, object]) -> Config:
    """The configuration with what the command line says, its connections fitted to this process' descriptors, which are
    raised as far as may be."""
    given = tuple(upstream_of(upstream) for upstream in upstreams) or None
    config = load({**{f"proxy.{key}": value for key, value in flags.items()}, "proxy.upstreams": given})
    if not config.proxy.upstreams:
        raise ConfigError("--upstream", (), "is needed at least once, as http://host:port")
    return fitted(config, raise_descriptors())


def fitted(config: Config, descriptors: int) -> Config:
    """With no more connections than there are descriptors for: each may need one more to its engine."""
    most = max(1, (descriptors - _DESCRIPTORS_OF_OTHERS) // 2)
    if config.proxy.connections_max <= most:
        return config
    _log.warning(
        "too few file descriptors for proxy.connections_max; fewer connections are taken",
        extra={"descriptors": descriptors, "connections_max": config.proxy.connections_max, "taken": most},
    )
    return config.model_copy(update={"proxy": config.proxy.model_copy(update={"connections_max": most})})


def run_on_fast_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on uvloop, or on asyncio's own loop where there is none (it takes about twice the time)."""
    run_to_the_end(main, _loop_factory())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        _log.warning("uvloop is missing; serving on asyncio's loop, at about half the speed")
        return None
    return uvloop.new_event_loop


async def _serve(config: Config, spool: Path | None, watched: Watched) -> None:
    """Until the signal. A publisher that fails is opened again beside it: serving never depends on it."""
    stop = on_stop_signal(asyncio.get_running_loop())
    secret = secret_of(config.proxy, config.data_dir)
    folder = spool or config.data_dir / "spool" / "proxy"
    with tracing(config.tracing, "proxy") as tracer:
        async with supervised(config, folder, DRAIN_S, tracer) as publisher:
            watched.publisher = publisher
            of_requests = tracer if config.tracing.requests else None
            await serve_into(RowPublisher(publisher), config, secret, watched, stop, of_requests)


async def serve_into(
    rows: RowPublisher,
    config: Config,
    secret: bytes,
    watched: Watched,
    stop: asyncio.Event,
    tracer: Tracer | None = None,
    **hooks: Callable[..., object],
) -> None:
    """Serve until the signal; then every request has its row. ``hooks``: those of ``ProxyServer``, of a worker."""
    take = with_request_log(rows.take) if config.proxy.log_requests else rows.take
    host = config.agent.host_name
    engines = upstream_engines(config, os.environ)
    claims = claims_of(engines)
    joins: dict[str, Any] = {"engines": engines, "claims": claims, "tracer": tracer, **hooks}
    server = ProxyServer(config.proxy, take, host=host, tenant_secret=secret, **joins)
    await server.start()
    watched.server = server
    quiet_collector()
    urls = [upstream.url for upstream in config.proxy.upstreams]
    _log.info("proxy is up", extra={"host": server.limits.host, "port": server.port, "upstreams": urls})
    running = [asyncio.create_task(rows.run()), asyncio.create_task(engines.run()), asyncio.create_task(claims.run())]
    await stop.wait()
    await server.stop()
    engines.release(all_of_them=True)  # to the claims, which may hold them again
    claims.end()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    rows.flush()


def upstream_engines(config: Config, environment: Mapping[str, str]) -> UpstreamEngines:
    """What the proxy knows of its upstreams' engines: of this host by its agent's file, of others by the topic."""
    upstreams, where = config.proxy.upstreams, config.proxy.engines
    if where == "off":
        return UpstreamEngines(upstreams)
    socket_path = config.agent.receiver.socket
    path_of = partial(path_beside, socket_path) if socket_path else partial(found_by, environment)
    elsewhere = any(not is_this_machine(urlsplit(upstream.url).hostname or "") for upstream in upstreams)
    readable = where == "auto" and elsewhere and config.kafka.unset is None
    topic = TopicEngines(config.kafka, SystemClock().now_ms) if readable else None
    return UpstreamEngines(upstreams, path_of, topic)


def claims_of(engines: UpstreamEngines) -> Claims:
    """Made at the agent whose file of engines the proxy reads."""
    path_of = engines.path_of
    return Claims(None if path_of is None else lambda: claims_beside(path_of()))


def quiet_collector() -> None:
    """Leave what start-up made out of every collection, and collect seldom."""
    settle(_QUIET_GC)
