"""ProxyServer: listener, limits, open requests, and the rows of requests that ended.

Bytes are forwarded in the loop turn in which they arrive. Parsing follows within 5 ms, the row of a request 5 ms after
its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from producers.otlp.request_span import span_of_request
from producers.proxy import errors, usage
from producers.proxy.background import Background, Message
from producers.proxy.claims import Claims
from producers.proxy.client_side import ClientSide
from producers.proxy.deadlines import SWEEP_S
from producers.proxy.engines import UpstreamEngines
from producers.proxy.exchange import Exchange
from producers.proxy.pool import Pool
from producers.proxy.quotas import Quotas, client_of
from producers.proxy.read_queue import ReadQueue
from producers.proxy.request_body import Held
from producers.proxy.routes import Routes
from producers.proxy.stats import ProxyStats
from producers.proxy.tenants import identity_of, tenant_headers, tenant_reader
from producers.proxy.upstream_health import UpstreamHealth
from producers.proxy.upstreams import Choice
from producers.proxy.usage import Level
from producers.proxy.watch import Watch, request_meta
from producers.proxy.wire import CREDENTIALS, Refusal
from producers.requests import reasons
from producers.requests.client_names import ClientNames
from producers.requests.counted_once import PROXY
from producers.requests.endings import How
from producers.requests.request_meta import ClientFields, client_fields
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.proxy_config import ProxyConfig
from runtime.tracing import Tracer
from schemas.errors import ConfigError

OnRow = Callable[[dict[str, Any]], None]
"""Takes one finished row of ``llm.requests``; must not block."""
_BACKLOG = 1_024
LOOK_AFTER_S = 0.005
FINISH_AFTER_S = 0.005
"""A row costs some 0.2 ms; the client's next request, which often follows at once, goes first."""
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
        self._on_row = on_row
        self._tracer = tracer
        self._begun = begun  # called for each request that gets a row
        self._clock = clock or SystemClock()
        self._tenant_of = tenant_reader(config.tenant_from, tenant_secret)
        self._engines = engines or UpstreamEngines(config.upstreams, counters=counters)
        self._claims = claims or Claims(counters=counters)
        self._labels: dict[str, str | None] = {"origin": "measured", "reported_by": PROXY}
        self._labels |= {"host": host, "cluster": config.cluster, "region": config.region}
        self._names = ClientNames(tenant_secret if config.user_hash else None)
        self._open: set[Exchange] = set()
        self._all_ended = asyncio.Event()
        self._unread = ReadQueue(self._read, LOOK_AFTER_S)
        self.background = Background(self.stats.unread, self._made_in_background, tell)
        self._ended: deque[tuple[Exchange, int, How]] = deque()
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
            head.values, secrets.token_bytes(40), sampled=self.limits.trace_sampled, followed=self._tracer is not None
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
            exchange.ended_ms = self._clock.now_ms()
            self._ended.append((exchange, time.monotonic_ns(), how))
            asyncio.get_running_loop().call_later(FINISH_AFTER_S, self._finish)

    def watch_request(self, exchange: Exchange, body: bytes) -> Mapping[str, object] | None:
        """Track the request from here. The ``stream_options`` to extend; None: the body stays as it is."""
        assert exchange.api is not None
        exchange.watched = True
        if self._begun is not None:
            self._begun()
        assert exchange.identity is not None
        self._claims.claim(exchange.identity.request_id)
        if not self.limits.ask_usage or exchange.api not in _STREAMS:
            self.look_at(exchange, 0, body)
            return None
        try:
            fields = client_fields(exchange.api, body)
            options = usage.options_to_extend(body, fields)
        except Exception:  # it must not cost the request; reading it for its row meets the same defect, and counts it
            self.look_at(exchange, 0, body)
            return None
        self.look_at(exchange, 0, fields)
        return options

    # Upstreams

    def usage_rejected(self, where: int, taken: Level) -> None:
        """This upstream answered only once less was requested: request no more of it from now on."""
        if taken < self.usage_levels[where]:
            self.usage_levels[where] = taken
            self.stats.usage_rejected(self.pools[where].name, taken)

    # Rows

    def look_at(self, exchange: Exchange, at_ns: int, what: Any) -> None:
        """Queue what was forwarded; it is parsed soon, together with what arrives until then."""
        self._unread.put(exchange, at_ns, what)

    def settle(self) -> None:
        """Finish every request that has ended, now."""
        while self._ended:
            self._look()
            self._emit()

    def _look(self) -> None:
        while not self._unread.look():
            pass

    def _read(self, exchange: Exchange, at_ns: int, what: Any) -> Iterator[int]:
        """Read what was forwarded, step by step; gives the bytes of each."""
        watch = exchange.watch
        try:
            if watch is None:
                exchange.watch = self._watch(exchange, what)
            elif type(what) is list:
                for piece in what:
                    watch.piece(at_ns, piece)
                    while watch.step_bytes:
                        yield watch.step_bytes
                        watch.step(at_ns)
                self._claim_answer(exchange, watch)
            else:
                watch.answer(at_ns, what)
        except Exception as defect:  # it must not cost other requests theirs
            self._could_not_read(exchange, defect)

    def _claim_answer(self, exchange: Exchange, watch: Watch) -> None:
        """Others report this request under the id that the engine gave to its answer, if it gave one."""
        if exchange.api is not None and watch.tracker.answer_id is not None and not watch.claimed:
            watch.claimed = True
            self._claims.claim_answer(watch.tracker.meta.request_id, watch.tracker.answer_id)

    def _could_not_read(self, exchange: Exchange, defect: Exception) -> None:
        """Its row has what was read before; the first defect of each kind is logged."""
        if exchange.watch is None:
            exchange.watch = self._watch(exchange, ClientFields(readable=False))
        exchange.watch.tracker.note(reasons.DEFECT)
        self.stats.defect("reading a request or its response failed", defect)

    def _watch(self, exchange: Exchange, source: bytes | ClientFields) -> Watch:
        """The watch of a request with this body or these fields."""
        api, identity, limits = exchange.api, exchange.identity, self.limits
        assert api is not None
        assert identity is not None
        fields = client_fields(api, source) if isinstance(source, bytes) else source
        tenant = exchange.tenant or self._tenant_of(exchange.head.values)
        labels = self._labels | {"user_hash": self._names.user_hash(fields.user)}
        meta = request_meta(fields, api, identity, tenant, limits.slo_class, labels)
        received_ns = int(exchange.began_s * 1e9)
        return Watch(meta, received_ns, limits.watched_bytes_max, limits.decoded_bytes_max)

    def _finish(self) -> None:
        """Emit the row of the request that ended first, once all that came before was read."""
        if self._ended and (self._unread.behind or not self._unread.look()):
            asyncio.get_running_loop().call_later(FINISH_AFTER_S, self._finish)
        elif self._ended:  # else it was settled before its time
            self._emit()

    def _emit(self) -> None:
        try:
            exchange, at_ns, how = self._ended.popleft()
            if (row := self._row_of(exchange, at_ns, how)) is not None:
                self._engines.take(row, exchange.where, self._taker(exchange))
        except Exception as defect:  # it costs this row, not the requests after it and not the end of the proxy
            self.stats.defect("building or publishing the row of a request failed", defect)

    def _taker(self, exchange: Exchange) -> OnRow:
        """Who takes its row; of a request that has a span, after that has ended."""
        tracer, identity = self._tracer, exchange.identity
        if exchange.api is None or tracer is None or identity is None or (span := identity.span) is None:
            return self._joined

        def taken(row: dict[str, Any]) -> None:
            tracer.end(span_of_request(row, span, identity.parent))
            self._joined(row)

        return taken

    def _joined(self, row: dict[str, Any]) -> None:
        self._claims.take(row, self._on_row)

    def _row_of(self, exchange: Exchange, at_ns: int, how: How) -> dict[str, Any] | None:
        watch = exchange.watch
        assert watch is not None
        if exchange.api is None and not self.background.finds(watch.tracker):
            return None
        try:
            watch.close(at_ns, how)
        except Exception as defect:  # the row has what was read before
            self._could_not_read(exchange, defect)
        row = watch.end(at_ns, exchange.ended_ms, how, exchange.status)
        assert row is not None
        if exchange.api is None:
            self.background.ended(watch.tracker, row, exchange.where)
            return None
        if (response_id := self.background.begins(watch.tracker)) is not None:
            self._claims.claim_answer(response_id, response_id)  # what others report of it goes to its own row
        else:
            self._claim_answer(exchange, watch)
        self.stats.unread(watch.tracker.reasons)
        self._names.judge(row)
        return row

    def _made_in_background(self, row: dict[str, Any], where: int | None) -> None:
        if self._begun is not None:
            self._begun()
        self._names.judge(row)
        self._engines.take(row, where, self._joined)


_STREAMS = frozenset({"chat", "completions"})
