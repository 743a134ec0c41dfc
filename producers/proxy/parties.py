"""The parties of an exchange: what it needs of server, client and upstream.

Each of them knows ``exchange.Exchange``, which is ``E`` here: no module may need one that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from producers.proxy.request_body import Held
from producers.proxy.stats import ProxyStats
from producers.proxy.upstream_health import UpstreamHealth
from producers.proxy.upstreams import Choice
from producers.proxy.usage import Level
from producers.proxy.wire import Refusal
from producers.requests.endings import How
from runtime.proxy_config import ProxyConfig

E = TypeVar("E", contravariant=True)


class Server(Protocol[E]):
    """``server.ProxyServer``."""

    limits: ProxyConfig
    choice: Choice
    health: UpstreamHealth
    stats: ProxyStats
    held: Held
    usage_levels: list[Level]
    """By upstream."""

    @property
    def pools(self) -> Sequence[UpstreamPool[E]]: ...

    def now_s(self) -> float: ...

    def tick(self, exchange: E) -> int: ...

    def open_exchange(self, exchange: E) -> None: ...

    def count_exchange(self, exchange: E) -> Refusal | None: ...

    def close_exchange(self, exchange: E, how: How) -> None: ...

    def watch_request(self, exchange: E, body: bytes) -> Mapping[str, object] | None: ...

    def look_at(self, exchange: E, at_ns: int, what: Any) -> None: ...

    def usage_rejected(self, where: int, taken: Level) -> None: ...


class Client(Protocol[E]):
    """``client_side.ClientSide``."""

    keep_alive: bool
    address: str | None

    def write(self, data: bytes) -> None: ...

    def hold_reading(self) -> None: ...

    def may_read(self) -> None: ...

    def cut_off(self) -> None: ...

    def exchange_ended(self, exchange: E) -> None: ...


class UpstreamPool(Protocol[E]):
    """``pool.Pool``: connections to one upstream."""

    authority: bytes

    def target(self, requested: bytes) -> bytes: ...

    def ask(self, exchange: E, *, fresh: bool = False) -> None: ...

    def forget(self, exchange: E) -> None: ...


class Side(Protocol[E]):
    """``upstream_side.UpstreamSide``: a connection to an upstream."""

    @property
    def pool(self) -> UpstreamPool[E]: ...

    def write(self, data: bytes) -> None: ...

    def hold_reading(self) -> None: ...

    def may_read(self) -> None: ...

    def drop(self) -> None: ...
