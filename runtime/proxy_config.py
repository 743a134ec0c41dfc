"""The section ``proxy``: where the proxy listens, which engines stand behind it, who its tenants are, its limits.

Every limit says what happens when it is reached. Times are looked at four times a second, so a limit of time is kept
to a quarter of a second.
"""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
_TENANT = re.compile(r"api_key|header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|unverified_jwt:[^\s:]+|none")
MIB = 1024 * 1024


class UpstreamConfig(BaseModel):
    """One engine, or one gateway to engines."""

    model_config = _STRICT

    url: str
    """``http://host:port`` or ``https://host``; a path in it comes before the client's. A ``/v1`` at its end is the
    base URL of a client and is left out, since clients ask with it."""
    weight: int = Field(default=1, ge=1, le=1_000)
    """Share of the open requests it gets beside its healthy neighbours."""
    engine_id: str | None = Field(default=None, min_length=1, max_length=256)
    """Which engine its events name. None: ``host:port`` of the URL, a loopback address by the name of this host, as the
    agent names it."""
    placement_group: str | None = Field(default=None, min_length=1, max_length=256)
    """None: the engine's id, which is its group where it is alone on its GPUs."""

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            good = False
        if not good or parts.query or parts.fragment or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("must be http://host:port or https://host:port")
        if parts.username or parts.password:
            raise ValueError("must not hold credentials: clients send their own")
        return value.rstrip("/").removesuffix("/v1")


class ProxyConfig(BaseModel):
    """What ``fleetpulse proxy`` needs to know beyond Kafka."""

    model_config = _STRICT

    host: str = "127.0.0.1"
    """Address to listen on. There is no TLS on this side: whoever opens it to a network puts TLS before it."""
    port: int = Field(default=8800, ge=0, le=65_535)
    """0 takes a free one."""
    health_port: int | None = Field(default=None, ge=0, le=65_535)
    """/healthz /readyz /metrics on loopback. None: off; 0 takes a free port."""
    upstreams: tuple[UpstreamConfig, ...] = ()
    cluster: str | None = None
    region: str | None = None
    slo_class: str | None = None
    """Service class that events name. None: unknown."""
    ask_usage: bool = False
    """Ask the engine for token counts at the end of every stream (``stream_options.include_usage``); the chunk that
    holds them is taken out again for a client that did not ask. False: bodies are never touched."""
    log_requests: bool = False
    """One log line for each finished request of a known API: ids, tokens, latencies, never text."""

    trace_sampled: bool = True
    """Whether a trace that begins here (no ``traceparent`` from the client) asks engines to record it."""

    tenant_from: str = "api_key"
    """``api_key``: a keyed hash of it; ``header:NAME``: its value; ``unverified_jwt:CLAIM``: a claim of the bearer
    token, *read without checking the signature*, so only where the engine or a gateway checks it; ``none``."""
    tenant_secret: SecretStr | None = None
    """Key of the hash of API keys; proxies that share it name tenants alike. None: one is made and kept in the data
    directory."""

    # Limits of size
    head_bytes_max: int = Field(default=32 * 1024, ge=1_024, le=MIB)
    """Request line and headers; more: 431. Of an upstream's answer, more: 502."""
    body_bytes_max: int = Field(default=32 * MIB, ge=1_024)
    """One request's body; more: 413."""
    bodies_bytes_max: int = Field(default=512 * MIB, ge=1_024)
    """All bodies held at one time; more: 503, event ``rejected``."""
    ahead_bytes_max: int = Field(default=64 * 1024, ge=1_024)
    """Of requests that a client sent ahead of its answers; more: its bytes wait in the kernel."""
    write_buffer_bytes: int = Field(default=64 * 1024, ge=1_024)
    """Waiting for a slow reader; more: the other side is not read until a quarter of it is left."""
    decoded_bytes_max: int = Field(default=64 * MIB, ge=1_024)
    """Of one compressed answer, unpacked for measuring; more: the rest is passed on but not looked at."""
    watched_bytes_max: int = Field(default=8 * MIB, ge=1_024)
    """Of one answer that is no stream, kept to its end for its usage; more: passed on, its usage is unknown."""

    # Limits of number
    connections_max: int = Field(default=4_096, ge=1)
    """Clients' connections; more: 503 and closed."""
    open_requests_max: int = Field(default=1_024, ge=1)
    """Requests under way; more: 503, event ``rejected``."""
    tenant_open_requests_max: int = Field(default=0, ge=0)
    """Requests of one tenant under way; more: 429, event ``rejected``. 0: no such limit."""
    idle_connections_max: int = Field(default=256, ge=0)
    """Kept open to one upstream between requests; more: closed."""

    # Limits of time
    header_s: float = Field(default=10.0, gt=0)
    """For the first byte to the last of a request's head; later: 408."""
    body_quiet_s: float = Field(default=30.0, gt=0)
    """Between two pieces of a request's body; longer: 408, event ``timeout``."""
    linger_s: float = Field(default=2.0, gt=0)
    """After an answer that came before the request was read: what still comes is thrown away, then closed."""
    idle_s: float = Field(default=75.0, gt=0)
    """A client's connection between requests; longer: closed."""
    upstream_idle_s: float = Field(default=4.0, gt=0)
    """A connection to an upstream between requests; longer: closed. Below the engine's own (uvicorn: 5 s)."""
    connect_s: float = Field(default=5.0, gt=0)
    """To connect to an upstream; longer: the next one, at last 502, event ``error``."""
    upstream_quiet_s: float = Field(default=300.0, gt=0)
    """Between two pieces of an answer, the first included; longer: 504 or cut off, event ``timeout``."""
    total_s: float = Field(default=900.0, gt=0)
    """A request from its head to its last byte; longer: 504 or cut off, event ``timeout``."""
    write_quiet_s: float = Field(default=60.0, gt=0)
    """A client that takes nothing while bytes wait for it; longer: closed, event ``aborted``."""
    drain_s: float = Field(default=30.0, ge=0)
    """At the end, for requests under way; those left then are cut off, event ``error``."""

    # Health of upstreams
    failures_max: int = Field(default=2, ge=1)
    """Failures to connect in a row after which an upstream is left alone for ``down_s``."""
    down_s: float = Field(default=5.0, gt=0)
    """Then one request tries it again."""

    @field_validator("tenant_from")
    @classmethod
    def _tenant(cls, value: str) -> str:
        if not _TENANT.fullmatch(value):
            raise ValueError("must be api_key, header:NAME, unverified_jwt:CLAIM or none")
        return value

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.bodies_bytes_max < self.body_bytes_max:
            raise ValueError("bodies_bytes_max must be at least body_bytes_max, else a good body never fits")
        if self.upstream_quiet_s > self.total_s:
            raise ValueError("upstream_quiet_s must be at most total_s")
        return self
