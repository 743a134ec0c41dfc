"""The proxy as a whole: its listener, its limits, what is open, and the figures of what has ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from producers.proxy import errors, usage
from producers.proxy.client_side import ClientSide
from producers.proxy.deadlines import SWEEP_S
from producers.proxy.exchange import Exchange
from producers.proxy.figures import Figures
from producers.proxy.identity import identity_of
from producers.proxy.pool import Pool
from producers.proxy.tenants import tenant_reader
from producers.proxy.upstreams import Choice, Upstream
from producers.proxy.watch import Watch, asked_of
from producers.proxy.wire import Answer, Refusal
from producers.requests.asking import wanted_of
from producers.requests.endings import How
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.proxy_config import ProxyConfig
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

OnRow = Callable[[dict[str, Any]], None]
"""Takes one finished row of ``llm.requests``; must not block."""
_BACKLOG = 1_024
STILL_MAX_S = 15.0
"""A loop that has not turned for so long is stuck."""


class ProxyServer:
    """Serves from ``start`` to ``stop``, on the running event loop."""

    def __init__(
        self,
        config: ProxyConfig,
        on_row: OnRow,
        *,
        host: str,
        tenant_secret: bytes,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        if not config.upstreams:
            raise ConfigError("proxy.upstreams", (), "must name at least one, as --upstream URL does")
        self.limits = config
        self.clients: set[ClientSide] = set()
        self.pools = [Pool(self, upstream) for upstream in config.upstreams]
        weights = [(pool.name, upstream.weight) for pool, upstream in zip(self.pools, config.upstreams, strict=True)]
        self.choice = Choice(weights, failures_max=config.failures_max, down_s=config.down_s)
        self.figures = Figures(counters, (pool.name for pool in self.pools))
        self.held_bytes = 0
        self.stopping = False
        self.port = 0
        self._on_row = on_row
        self._clock = clock or SystemClock()
        self._tenant_of = tenant_reader(config.tenant_from, tenant_secret)
        self._labels: dict[str, str | None] = {
            "host": host,
            "cluster": config.cluster,
            "region": config.region,
            "origin": "measured",
        }
        self._open: set[Exchange] = set()
        self._all_ended = asyncio.Event()
        self._open_by_tenant: dict[str, int] = {}
        self._arrived: list[tuple[Exchange, int, Any]] = []
        self._listener: asyncio.AbstractServer | None = None
        self._swept_s = self.now_s()
        self._sweeping: asyncio.TimerHandle | None = None

    # Life

    async def start(self) -> None:
        """Listen. Raises ConfigError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        where = (self.limits.host, self.limits.port)
        try:
            self._listener = await loop.create_server(lambda: ClientSide(self), *where, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigError("proxy.port", f"{where[0]}:{where[1]}", f"must be free to listen on ({error})") from error
        self.port = self._listener.sockets[0].getsockname()[1]
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)

    async def stop(self) -> None:
        """Take no more, let open requests end for ``drain_s``, cut off the rest; every one of them has its row then."""
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        for client in list(self.clients):
            if client.idle:
                client.close()
        self._all_ended.clear()
        if self._open:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), self.limits.drain_s)
        for exchange in list(self._open):
            exchange.fail(errors.STOPPING, How.FAILED)
        if self._sweeping is not None:
            self._sweeping.cancel()
        for pool in self.pools:
            pool.close()
        for client in list(self.clients):
            client.close()
        self._look()
        await asyncio.sleep(0)

    def now_s(self) -> float:
        """Monotonic time in seconds."""
        return time.monotonic()

    def tick(self, exchange: Exchange) -> int:
        """Monotonic time in nanoseconds, noted as the last time the exchange's upstream was heard."""
        at_ns = time.monotonic_ns()
        exchange.heard_s = at_ns * 1e-9
        return at_ns

    def _sweep(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        self._swept_s = now_s = self.now_s()
        for client in list(self.clients):
            client.sweep(now_s)
        for pool in self.pools:
            pool.sweep(now_s)

    # How it fares; asked from any thread

    def why_dead(self) -> str | None:
        """None while the loop turns."""
        still_s = self.now_s() - self._swept_s
        return f"the event loop has stood still for {still_s:.0f} s" if still_s > STILL_MAX_S else None

    def why_not_ready(self) -> str | None:
        """None while requests are taken and an upstream may be tried for them."""
        if self._listener is None:
            return "not listening yet"
        if self.stopping:
            return "stopping"
        return "every upstream is down" if self.choice.none_to_try(self.now_s()) else None

    # Clients and their requests

    def admit(self, client: ClientSide) -> bool:
        """Whether one more connection is taken."""
        self.clients.add(client)
        return len(self.clients) <= self.limits.connections_max

    def open_exchange(self, exchange: Exchange) -> None:
        """Name a request that begins and hold it to the limits: it carries its refusal from here."""
        head = exchange.head
        exchange.identity = identity_of(head.values, secrets.token_bytes(40), sampled=self.limits.trace_sampled)
        exchange.tenant = self._tenant_of(head.values)
        exchange.refusal = exchange.refusal or self._over_limit(exchange.tenant)
        self._open.add(exchange)
        self.figures.open_requests(len(self._open))
        if exchange.tenant is not None:
            self._open_by_tenant[exchange.tenant] = self._open_by_tenant.get(exchange.tenant, 0) + 1

    def _over_limit(self, tenant: str | None) -> Refusal | None:
        if self.stopping:
            return errors.STOPPING
        if len(self._open) >= self.limits.open_requests_max:
            return errors.TOO_MANY_OPEN
        most = self.limits.tenant_open_requests_max
        if most and tenant is not None and self._open_by_tenant.get(tenant, 0) >= most:
            return errors.TENANT_BUSY
        return None

    def close_exchange(self, exchange: Exchange, how: How) -> None:
        """The request has ended."""
        self._open.discard(exchange)
        self.figures.open_requests(len(self._open))
        self.figures.ended(exchange.api, exchange.status)
        if not self._open:
            self._all_ended.set()
        if exchange.tenant is not None:
            left = self._open_by_tenant[exchange.tenant] - 1
            if left:
                self._open_by_tenant[exchange.tenant] = left
            else:
                del self._open_by_tenant[exchange.tenant]
        if exchange.watch is not None:
            self.look_at(exchange, time.monotonic_ns(), how)

    def watch_request(self, exchange: Exchange, body: bytes) -> tuple[bytes | None, Watch]:
        """What to send instead of the body (None: the body), and what follows the request."""
        assert exchange.api is not None
        assert exchange.identity is not None
        wanted = wanted_of(exchange.api, body)
        asked = usage.with_usage_asked(body, wanted) if self.limits.ask_usage and exchange.api in _STREAMS else None
        told = asked_of(
            wanted, exchange.api, exchange.identity, exchange.tenant, self.limits.slo_class, dict(self._labels)
        )
        received_ns = int(exchange.began_s * 1e9)
        return asked, Watch(told, received_ns, self.limits.watched_bytes_max, self.limits.decoded_bytes_max)

    # Upstreams

    def upstream_connected(self, upstream: Upstream) -> None:
        """It was reached."""
        if self.choice.connected(upstream):
            self.figures.upstream_down(upstream.name, down=False)
            _log.info("an upstream is back", extra={"upstream": upstream.name})

    def upstream_failed(self, upstream: Upstream, error: Exception) -> None:
        """It was not reached."""
        if self.choice.failed(upstream, self.now_s()):
            self.figures.upstream_down(upstream.name, down=True)
            told = f"{type(error).__name__}: {error}"
            _log.warning("an upstream is down", extra={"upstream": upstream.name, "error": told})

    # Figures

    def look_at(self, exchange: Exchange, at_ns: int, what: Any) -> None:
        """Note what arrived; it is looked at when this turn of the loop has passed everything on."""
        arrived = self._arrived
        arrived.append((exchange, at_ns, what))
        if len(arrived) == 1:
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        arrived, self._arrived = self._arrived, []
        for exchange, at_ns, what in arrived:
            watch = exchange.watch
            assert watch is not None
            if type(what) is list:
                for piece in what:
                    watch.piece(at_ns, piece)
            elif isinstance(what, Answer):
                watch.answer(at_ns, what)
            else:
                self._finish(exchange, watch, at_ns, what)

    def _finish(self, exchange: Exchange, watch: Watch, at_ns: int, how: How) -> None:
        row = watch.end(at_ns, self._clock.now_ms(), how, exchange.status)
        if row is None:
            return
        self.figures.unread(watch.tracker.reasons)
        where = exchange.where
        if where is not None:
            upstream = self.limits.upstreams[where]
            row["engine_id"] = upstream.engine_id or self.pools[where].name
            row["placement_group"] = upstream.placement_group
        self._on_row(row)


_STREAMS = frozenset({"chat", "completions"})
