"""RequestRows: what was forwarded is read, and each request that ended has its row.

Parsing follows within 5 ms of the forwarding, the row of a request 5 ms after its end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from producers.otlp.request_span import span_of_request
from producers.proxy import usage
from producers.proxy.background import Background, Message
from producers.proxy.claims import Claims
from producers.proxy.engines import UpstreamEngines
from producers.proxy.exchange import Exchange
from producers.proxy.read_queue import ReadQueue
from producers.proxy.stats import ProxyStats
from producers.proxy.tenants import TenantOf
from producers.proxy.watch import Watch, request_meta
from producers.requests import reasons
from producers.requests.client_names import ClientNames
from producers.requests.counted_once import PROXY
from producers.requests.endings import How
from producers.requests.request_meta import ClientFields, client_fields
from runtime.clock import Clock
from runtime.proxy_config import ProxyConfig
from runtime.tracing import Tracer

OnRow = Callable[[dict[str, Any]], None]
"""Takes one finished row of ``llm.requests``; must not block."""
LOOK_AFTER_S = 0.005
FINISH_AFTER_S = 0.005
"""A row costs some 0.2 ms; the client's next request, which often follows at once, goes first."""
_STREAMS = frozenset({"chat", "completions"})
_ROW_LOST = "building or publishing the row of a request failed"


class RequestRows:
    """Follows requests that have a ``watch``, or are given to ``watch_request``; ``on_row`` takes the row of each that
    has ``ended``. ``begun`` is called for each that gets one; ``tell`` as of ``Background``."""

    def __init__(
        self,
        config: ProxyConfig,
        on_row: OnRow,
        *,
        host: str,
        tenant_of: TenantOf,
        names: ClientNames,
        stats: ProxyStats,
        engines: UpstreamEngines,
        claims: Claims,
        clock: Clock,
        tracer: Tracer | None,
        begun: Callable[[], object] | None,
        tell: Callable[[Message], object],
    ) -> None:
        self._limits = config
        self._tenant_of = tenant_of
        self._names = names
        self._stats = stats
        self._on_row = self._sparing(on_row)
        self._engines = engines
        self._claims = claims
        self._clock = clock
        self._tracer = tracer
        self._begun = begun
        self._labels: dict[str, str | None] = {"origin": "measured", "reported_by": PROXY}
        self._labels |= {"host": host, "cluster": config.cluster, "region": config.region}
        self._unread = ReadQueue(self._read, LOOK_AFTER_S)
        self._ended: deque[tuple[Exchange, int, How]] = deque()
        self.background = Background(stats.unread, self._made_in_background, tell)

    def watch_request(self, exchange: Exchange, body: bytes) -> Mapping[str, object] | None:
        """Track the request from here. The ``stream_options`` to extend; None: the body stays as it is."""
        assert exchange.api is not None
        exchange.watched = True
        if self._begun is not None:
            self._begun()
        assert exchange.identity is not None
        self._claims.claim(exchange.identity.request_id)
        if not self._limits.ask_usage or exchange.api not in _STREAMS:
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

    def ended(self, exchange: Exchange, how: How) -> None:
        """The request, which is watched, has ended: its row follows."""
        exchange.ended_ms = self._clock.now_ms()
        self._ended.append((exchange, time.monotonic_ns(), how))
        asyncio.get_running_loop().call_later(FINISH_AFTER_S, self._finish)

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
        self._stats.defect("reading a request or its response failed", defect)

    def _watch(self, exchange: Exchange, source: bytes | ClientFields) -> Watch:
        """The watch of a request with this body or these fields."""
        api, identity, limits = exchange.api, exchange.identity, self._limits
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
                self._engines.take(row, exchange.where, self._sparing(self._taker(exchange)))
        except Exception as defect:  # it costs this row, not the requests after it and not the end of the proxy
            self._stats.defect(_ROW_LOST, defect)

    def _sparing(self, on_row: OnRow) -> OnRow:
        """The same, but for a defect in it, which costs its row: rows that were held pass on together."""

        def take(row: dict[str, Any]) -> None:
            try:
                on_row(row)
            except Exception as defect:
                self._stats.defect(_ROW_LOST, defect)

        return take

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
        self._stats.unread(watch.tracker.reasons)
        self._names.judge(row)
        return row

    def _made_in_background(self, row: dict[str, Any], where: int | None) -> None:
        if self._begun is not None:
            self._begun()
        self._names.judge(row)
        self._engines.take(row, where, self._sparing(self._joined))
