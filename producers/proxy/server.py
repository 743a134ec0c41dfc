"""ProxyServer: listener, limits, upstreams and open requests.

Bytes are forwarded in the loop turn in which they arrive; ``rows`` are made afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable

from producers.proxy import errors
from producers.proxy.background import Message
from producers.proxy.claims import Claims
from producers.proxy.client_side import ClientSide
from producers.proxy.deadlines import SWEEP_S
from producers.proxy.engines import UpstreamEngines
from producers.proxy.exchange import Exchange
from producers.proxy.pool import Pool
from producers.proxy.quotas import Quotas, client_of
from producers.proxy.request_body import Held
from producers.proxy.routes import Routes
from producers.proxy.rows import OnRow, RequestRows
from producers.proxy.stats import ProxyStats
from producers.proxy.tenants import identity_of, tenant_headers, tenant_reader
from producers.proxy.upstream_health import UpstreamHealth
from producers.proxy.upstreams import Choice
from producers.proxy.usage import Level
from producers.proxy.wire import CREDENTIALS, Refusal
from producers.requests.client_names import ClientNames
from producers.requests.endings import How
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.proxy_config import ProxyConfig
from runtime.tracing import Tracer
from schemas.errors import ConfigError

_BACKLOG = 1_024
STILL_MAX_S = 15.0
"""After so long without a turn the event loop counts as stuck."""


class ProxyServer:
    """Serves from ``start`` to ``stop``, on the running event loop."""

    def __init__(
        self,
        config: ProxyConfig,
        on_row: OnRow,
        *,
        host: str,
        tenant_secret: bytes,
        engines: UpstreamEngines | None = None,
        claims: Claims | None = None,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        tracer: Tracer | None = None,
        begun: Callable[[], object] | None = None,
        tell: Callable[[Message], object] = lambda _message: None,
    ) -> None:
        if not config.upstreams:
            raise ConfigError("proxy.upstreams", (), "must name at least one, as --upstream URL does")
        self.limits = config
        self.clients: set[ClientSide] = set()
        self.pools = [Pool(self, upstream) for upstream in config.upstreams]
        weights = [(pool.name, upstream.weight) for pool, upstream in zip(self.pools, config.upstreams, strict=True)]
        self.choice = Choice(
            weights,
            failures_max=config.failures_max,
            down_s=config.down_s,
            breaks_max=config.breaks_max,
            silent_s=config.upstream_silent_s,
        )
        self.stats = ProxyStats(counters, (pool.name for pool in self.pools))
        probes = [pool.probe for pool in self.pools]
        self.health = UpstreamHealth(self.choice, self.stats, probes, self.now_s, config.down_s)
        self.routes = Routes(config.paths)
        self.quotas = Quotas(config)
        self.once = CREDENTIALS | tenant_headers(config.tenant_from)
        self.held = Held()
        running = config.running_usage and not config.show_usage
        self.usage_levels = [Level.RUNNING if running else Level.FINAL] * len(self.pools)
        self.serving = False
        self.leaving = False  # not ready any more
        self.stopping = False
        self.port = 0
        self._tenant_of = tenant_reader(config.tenant_from, tenant_secret)
        self.rows = RequestRows(
            config,
            on_row,
            host=host,
            tenant_of=self._tenant_of,
            names=ClientNames(tenant_secret if config.user_hash else None),
            stats=self.stats,
            engines=engines or UpstreamEngines(config.upstreams, counters=counters),
            claims=claims or Claims(counters=counters),
            clock=clock or SystemClock(),
            tracer=tracer,
            begun=begun,
            tell=tell,
        )
        self.background = self.rows.background
        self.watch_request = self.rows.watch_request
        self.look_at = self.rows.look_at
        self.settle = self.rows.settle
        self._traced = tracer is not None
        self._open: set[Exchange] = set()
        self._all_ended = asyncio.Event()
        self._listener: asyncio.AbstractServer | None = None
        self._swept_s = self.now_s()
        self._sweeping: asyncio.TimerHandle | None = None

    # Life

    async def start(self) -> None:
        """Listen. Raises ConfigError where the address is not free."""
        loop = asyncio.get_running_loop()
        where = (self.limits.host, self.limits.port)
        try:
            self._listener = await loop.create_server(
                lambda: ClientSide(self), *where, backlog=_BACKLOG, reuse_port=self.limits.workers > 1 or None
            )
        except OSError as error:
            raise ConfigError("proxy.port", f"{where[0]}:{where[1]}", f"must be free to listen on ({error})") from error
        self.port = self._listener.sockets[0].getsockname()[1]
        self.serving = True
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)

    async def stop(self) -> None:
        """Fail readiness, and go on for ``grace_s``; then stop accepting, let open requests end for ``drain_s``, cut
        off the rest; each of them has its row then."""
        self.leaving = True
        await asyncio.sleep(self.limits.grace_s)
        self.serving, self.stopping = False, True
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
        self.health.close()
        for pool in self.pools:
            pool.close()
        for client in list(self.clients):
            client.close()
        self.settle()
        self.background.stop()
        await asyncio.sleep(0)

    def now_s(self) -> float:
        """Monotonic time in seconds."""
        return time.monotonic()

    def tick(self, exchange: Exchange) -> int:
        """Monotonic time in nanoseconds, noted as the last time the exchange's upstream was heard."""
        at_ns = time.monotonic_ns()
        exchange.heard_s = at_s = at_ns * 1e-9
        if exchange.upstream is not None:
            exchange.upstream.heard_s = at_s
        return at_ns

    def _sweep(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        self._swept_s = now_s = self.now_s()
        for client in list(self.clients):
            client.sweep(now_s)
        for pool in self.pools:
            pool.sweep(now_s)
        self.health.sweep(now_s)

    # Health; called from any thread

    def why_dead(self) -> str | None:
        """None while the event loop turns."""
        still_s = self.now_s() - self._swept_s
        return f"the event loop has been blocked for {still_s:.0f} s" if still_s > STILL_MAX_S else None

    def why_not_ready(self) -> str | None:
        """None while requests are accepted and an upstream may be tried for them."""
        if self._listener is None:
            return "not listening yet"
        if self.leaving:
            return "stopping"
        return "every upstream is down" if self.choice.none_to_try(self.now_s()) else None

    # Clients and their requests

    def admit(self, client: ClientSide) -> Refusal | None:
        """Take one more connection, or why it is refused."""
        self.clients.add(client)
        if self.quotas.by_address and client.transport is not None:
            client.address = client_of(client.transport.get_extra_info("peername"))
        refusal = self.quotas.connect(client.address)
        return errors.TOO_MANY_CONNECTIONS if len(self.clients) > self.limits.connections_max else refusal

    def client_left(self, client: ClientSide) -> None:
        """Its connection has ended."""
        self.clients.discard(client)
        self.quotas.disconnect(client.address)

    def open_exchange(self, exchange: Exchange) -> None:
        """Give a new request its identity and check the limits; sets ``refusal`` where one is reached."""
        head = exchange.head
        exchange.identity = identity_of(
            head.values, secrets.token_bytes(40), sampled=self.limits.trace_sampled, followed=self._traced
        )
        if self.quotas.by_tenant:
            exchange.tenant = self._tenant_of(head.values)  # else it is read when the request is under way
        if exchange.refusal is None and self.stopping:
            exchange.refusal = errors.STOPPING
        if exchange.refusal is None:
            exchange.refusal = self.quotas.arrives(exchange.client.address, exchange.tenant, self.now_s())
        if exchange.refusal is None and exchange.api is None:
            exchange.watch = self.background.reading(head, exchange.began_s, self.limits)
            exchange.watched = exchange.watch is not None
        self._open.add(exchange)
        self.stats.open_requests(self.quotas.open, len(self._open) - self.quotas.open)

    def count_exchange(self, exchange: Exchange) -> Refusal | None:
        """The request goes to an engine next: count it as open, or why it is refused."""
        refusal = self.quotas.take(exchange.client.address, exchange.tenant)
        exchange.counted = refusal is None
        self.stats.open_requests(self.quotas.open, len(self._open) - self.quotas.open)
        return refusal

    def close_exchange(self, exchange: Exchange, how: How) -> None:
        """The request has ended."""
        self._open.discard(exchange)
        if exchange.counted:
            self.quotas.release(exchange.client.address, exchange.tenant)
        self.stats.open_requests(self.quotas.open, len(self._open) - self.quotas.open)
        self.stats.ended(exchange.api, exchange.status)
        if not self._open:
            self._all_ended.set()
        if exchange.watched:
            self.rows.ended(exchange, how)

    # Upstreams

    def usage_rejected(self, where: int, taken: Level) -> None:
        """This upstream answered only once less was requested: request no more of it from now on."""
        if taken < self.usage_levels[where]:
            self.usage_levels[where] = taken
            self.stats.usage_rejected(self.pools[where].name, taken)
