"""Exchange: one request between a client and an upstream, from its head to its end.

A request of a known API is collected whole (it names its model, and can be sent again as long as nothing of it was
answered); anything else is passed on piece by piece. Bytes are forwarded first and parsed for the row afterwards.
Every exchange ends exactly once, with one of ``endings.How``.

Those it works with import this module; ``parties`` says what it needs of them.
"""

from __future__ import annotations

from producers.proxy import errors, wire
from producers.proxy.parties import Client, Server, Side
from producers.proxy.request_body import RequestBody
from producers.proxy.tenants import Identity
from producers.proxy.upstreams import Upstream
from producers.proxy.usage import UsageRequest
from producers.proxy.watch import ENCODINGS, Watch
from producers.proxy.wire import Answer, Framing, Head, Headers, Refusal
from producers.requests.endings import How

_SAFE = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_ENGINES_FAULT = frozenset({errors.UPSTREAM_BROKE, errors.UPSTREAM_MALFORMED, errors.UPSTREAM_SLOW})


class Exchange:
    """Made when a head was read, ``start``-ed when it is its turn on the connection."""

    __slots__ = (
        "_body", "_chunked_up", "_outgoing", "_tried", "_usage", "answered", "api",
        "began_s", "client", "complete", "counted", "ended", "ended_ms", "framing", "head", "heard_s", "identity",
        "refusal", "server", "side", "started", "status", "tenant", "upstream", "waits", "watch", "watched", "where",
    )  # fmt: skip

    def __init__(
        self, server: Server[Exchange], client: Client[Exchange], head: Head, api: str | None, now_s: float
    ) -> None:
        self.server = server
        self.client = client
        self.head = head
        self.api = api
        self.began_s = now_s
        self.heard_s = now_s
        self.complete = False  # the request was read to its end
        self.started = False
        self.counted = False  # as an open request
        self.answered = False  # something of an answer went to the client
        self.ended = False
        self.status: int | None = None  # that the client was answered
        self.refusal: Refusal | None = None
        self.identity: Identity | None = None
        self.tenant: str | None = None
        self.upstream: Upstream | None = None
        self.side: Side[Exchange] | None = None
        self.waits = False  # for the first byte of an answer, the request being sent
        self.watched = False  # gets a row
        self.watch: Watch | None = None  # when that was looked at
        self.ended_ms = 0  # since the epoch
        self.where: int | None = None  # the upstream tried last
        self.framing = Framing.NONE
        self._usage = UsageRequest()
        self._body = RequestBody(server.held)
        self._outgoing: bytes | None = None
        self._chunked_up = False
        self._tried: set[int] = set()

    # The request

    def body(self, piece: bytes) -> None:
        """A piece of the body was read. No I/O here: ``advance`` follows when the whole read was parsed."""
        if self.refusal is None:
            self.refusal = self._body.add(piece, self.server.limits)

    def advance(self) -> None:
        """It is this request's turn, and more of it may have come."""
        if not self.started:
            self.started = True
            self.server.open_exchange(self)
        if self.ended:
            return
        if self.refusal is None and not self.counted and (self.complete or self.api is None):
            self.refusal = self.server.count_exchange(self)
        if self.refusal is not None:
            self.fail(self.refusal, _how(self.refusal))
        elif self.api is None:
            if self.upstream is None:
                self._dispatch()
            elif self.side is not None:
                self._send_pieces(self.side)
        elif self.complete and self.upstream is None:
            self._outgoing = self._request()
            self._dispatch()

    def _request(self) -> bytes:
        body = self._body.whole()
        self._usage = UsageRequest(self.server.watch_request(self, body), shown=self.server.limits.show_usage)
        return body

    def _send_pieces(self, side: Side[Exchange]) -> None:
        out = self._body.passed_on(chunked=self._chunked_up, ended=self.complete)
        if out:
            side.write(out)
        if self.complete and not self.waits and not self.answered:
            self._wait()

    @property
    def waiting_bytes(self) -> int:
        """Of a body that is passed on: read, and not taken by the upstream yet."""
        return self._body.held_bytes if self.api is None else 0

    # The upstream

    def _dispatch(self) -> None:
        self.upstream = self.server.choice.take(self.server.now_s(), self._tried)
        if self.upstream is None:
            self._end_unanswered(errors.UPSTREAM_DOWN, How.UNREACHABLE)
            return
        self.where = self.upstream.index
        self.server.pools[self.where].ask(self)

    def connected(self, side: Side[Exchange]) -> None:
        """A connection is ours: send what there is of the request."""
        self.side = side
        self.heard_s = self.server.now_s()
        outgoing = self._outgoing
        if outgoing is not None and self.where is not None:
            outgoing = self._usage.body(outgoing, self.server.usage_levels[self.where])
        length = len(outgoing) if outgoing is not None else self.head.length
        self._chunked_up = length is None
        assert self.identity is not None
        without, added = self.identity.without, self.identity.added
        if self.api is not None or self.watched:
            without = without | {b"accept-encoding"}
            added = added + ([] if self._usage.added else wire.accept_encoding(self.head, ENCODINGS))
        pool = side.pool
        head = wire.request_head(self.head, pool.target(self.head.target), pool.authority, length, added, without)
        self.client.may_read()
        side.write(head + outgoing if outgoing else head)
        if outgoing is None:
            self._send_pieces(side)
        elif not self.waits:
            self._wait()

    def _wait(self) -> None:
        assert self.upstream is not None
        self.waits = True
        self.server.choice.sent(self.upstream, self.server.now_s())

    def first_byte(self) -> None:
        """Something of an answer has come."""
        assert self.upstream is not None
        self._wait_no_more()
        self.server.health.answered(self.upstream)

    def _wait_no_more(self) -> None:
        if self.waits and self.upstream is not None:
            self.waits = False
            self.server.choice.settled(self.upstream)

    def not_connected(self) -> None:
        """The upstream cannot be reached: another one, or none is left."""
        assert self.upstream is not None
        self._tried.add(self.upstream.index)
        self._leave_upstream()
        self._dispatch()

    def upstream_lost(self, *, untouched: bool, unseen: bool) -> None:
        """The connection ended before the answer did. ``untouched``: a kept one, and no byte came back. ``unseen``:
        the engine had closed it before, and took nothing of this request.

        The request is sent again where that runs nothing twice: its method is safe (RFC 9110, 9.2.1), or the engine
        never had any of it.
        """
        self.side = None
        bare = not self.head.has_body
        again = bare if self.head.method in _SAFE else unseen and (bare or self._outgoing is not None)
        if untouched and again and not self.answered:
            assert self.upstream is not None
            self.server.pools[self.upstream.index].ask(self, fresh=True)
            return
        self.fail(errors.UPSTREAM_BROKE, How.ENGINE_LOST)

    def _leave_upstream(self) -> None:
        self._wait_no_more()
        if self.upstream is not None:
            self.server.choice.release(self.upstream)
            self.upstream = None

    # The answer

    def answer(self, answer: Answer) -> None:
        """The answer's head was read: send ours, unless it may reject what was added."""
        if self._usage.holds(answer):
            self.framing = Framing.CHUNKED
            return
        taken = self._usage.proven(answer)
        if taken is not None and self.where is not None:
            self.server.usage_rejected(self.where, taken)
        self._begin_answer(answer, reframed=self._usage.filter is not None)

    def _begin_answer(self, answer: Answer, *, reframed: bool) -> None:
        self.drop_request()
        self.answered = True
        self.status = answer.status
        client, version = self.client, self.head.version
        self.framing = wire.framing_of(answer, self.head.method, version, reframed)
        if self.framing is Framing.UNTIL_CLOSE or not self.complete:
            client.keep_alive = False
        extra = self.identity.echo if self.identity and b"x-request-id" not in answer.values else []
        client.write(wire.answer_head(answer, self.framing, client.keep_alive, version, extra))
        if self.watched:
            self.server.look_at(self, self.server.tick(self), answer)

    @property
    def holds_answer(self) -> bool:
        """Whether nothing of the answer is passed on or looked at yet."""
        return self._usage.answer is not None

    def pieces(self, pieces: list[bytes]) -> None:
        """Pieces of the body, to be framed again."""
        if self.holds_answer:
            if not self._usage.hold(pieces):
                self._release_answer(whole=False)
            return
        if self._usage.filter is not None:
            pieces = [self._usage.filter.feed(piece) for piece in pieces]
        self._write_pieces(pieces)

    def _write_pieces(self, pieces: list[bytes]) -> None:
        if self.framing is Framing.CHUNKED:
            pieces = [wire.chunk(piece) for piece in pieces if piece]
        out = b"".join(pieces)
        if out:
            self.client.write(out)

    def answer_ends(self, trailers: Headers) -> None:
        """The last byte of the answer was passed on, or is held."""
        if self.holds_answer:
            if self._usage.withdraw():
                self._ask_again()
                return
            self._release_answer(whole=True)
        if self._usage.filter is not None:
            self._write_pieces([self._usage.filter.finish()])
        if self.framing is Framing.CHUNKED:
            self.client.write(wire.last_chunk(trailers))
        self._end(How.COMPLETE)

    def _release_answer(self, *, whole: bool) -> None:
        answer, pieces = self._usage.release()
        self._begin_answer(answer, reframed=not whole or answer.chunked)
        self._write_pieces(pieces)
        if self.watched:
            self.server.look_at(self, self.server.tick(self), pieces)

    def _ask_again(self) -> None:
        side, self.side = self.side, None
        assert self.upstream is not None
        if side is not None:
            side.drop()
        self.server.pools[self.upstream.index].ask(self)

    # The end

    def fail(self, refusal: Refusal, how: How) -> None:
        """The answer cannot be completed: send an error while nothing was sent, else cut the connection."""
        if self.ended:
            return
        if not self.answered:
            if self.upstream is not None and refusal in _ENGINES_FAULT:
                self.server.health.broke(self.upstream, refusal.code)
            self._end_unanswered(refusal, how)
            return
        self.client.cut_off()
        self._end(how)

    def client_gone(self) -> None:
        """The client disconnected: end the exchange and drop the upstream connection."""
        if not self.ended:
            self._end(How.CLIENT_GONE)

    def _end_unanswered(self, refusal: Refusal, how: How) -> None:
        if self.ended:
            return
        self.answered = True
        self.status = refusal.status
        self.server.stats.refused(refusal)
        client = self.client
        if not self.complete or how in (How.FAILED, How.BAD_REQUEST):
            client.keep_alive = False
        extra = self.identity.echo if self.identity else []
        version, bare = self.head.version, self.head.method == b"HEAD"
        client.write(
            errors.error_answer(refusal, keep_alive=client.keep_alive, version=version, extra=extra, bare=bare)
        )
        self._end(how)

    def _end(self, how: How) -> None:
        self.ended = True
        if not self.started:
            self.started = True
            self.server.open_exchange(self)
        if self.api is not None and not self.watched:
            self.server.watch_request(self, self._body.whole() if self.complete else b"")
        self.drop_request()
        side, self.side = self.side, None
        if side is not None:
            side.drop()
        elif self.upstream is not None:
            self.server.pools[self.upstream.index].forget(self)
        self._leave_upstream()
        self.server.close_exchange(self, how)
        self.client.exchange_ended(self)

    def drop_request(self) -> None:
        """Give back what is held of it: it is answered, or never will be."""
        self._body.drop()
        self._outgoing = None


def _how(refusal: Refusal) -> How:
    return How.REFUSED if refusal.status in (429, 503) else How.BAD_REQUEST
