"""Configuration of the proxy before engines (section ``proxy``).

Addresses hold no credentials; secrets are ``SecretStr`` and never stand in a repr. Every limit says what happens when
it is reached. The proxy looks at times four times a second, so a limit of time is kept to a quarter of a second.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from runtime.addresses import http_address
from runtime.config_keys import Section

_TENANT = re.compile(r"api_key|header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|unverified_jwt:[^\s:]+|none")
MIB = 1024 * 1024
_QUOTAS_OPEN = ("tenant_open_requests_max", "address_connections_max", "address_open_requests_max")
_QUOTAS_RATE = ("tenant_requests_per_s", "address_requests_per_s")
"""What one tenant or client address may have, of several workers all together."""
_DIFFERENT_MIN = 6
_GUESSED = ("change", "secret", "passw", "example", "default", "tenant", "fleetpulse", "qwerty", "abcdef", "012345")
"""Nothing random has fewer different characters, or one of these in it."""


def can_be_guessed(secret: str) -> bool:
    """Whether a ``tenant_secret`` is no random one, however long it is."""
    return len(set(secret)) < _DIFFERENT_MIN or any(word in secret.lower() for word in _GUESSED)


class UpstreamConfig(Section):
    """One engine, or one gateway to engines."""

    url: str
    """``http://host:port`` or ``https://host``; a path in it comes before the client's. A ``/v1`` at its end is the
    base URL of a client and is left out, since clients ask with it."""
    weight: int = Field(default=1, ge=1, le=1_000)
    """Share of the open requests it gets beside its healthy neighbours."""
    engine_id: str | None = Field(default=None, min_length=1, max_length=256)
    """Which engine its events name. None: the one that the agent of its host knows under this address."""
    placement_group: str | None = Field(default=None, min_length=1, max_length=256)
    """None: as that agent knows it."""

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        if not value.isascii() or not value.isprintable() or set(" ?#") & set(value):
            raise ValueError("must be http://host:port or https://host:port")
        return http_address(value, instead=": clients send their own").removesuffix("/v1")


class ProxyConfig(Section):
    """What ``fleetpulse proxy`` needs to know beyond Kafka."""

    host: str = "127.0.0.1"
    """Address to listen on. There is no TLS on this side: whoever opens it to a network puts TLS before it."""
    port: int = Field(default=8800, ge=0, le=65_535)
    """0 takes a free one."""
    health_port: int | None = Field(default=None, ge=0, le=65_535)
    """/healthz /readyz /metrics on loopback. None: off; 0 takes a free port."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that serve, by SO_REUSEPORT; with more than one a parent owns the spool and starts again what dies.
    Quotas of tenants and addresses hold over all of them: each worker has an equal part. Limits of number and size, and
    what is known of upstreams, are each worker's own."""
    upstreams: tuple[UpstreamConfig, ...] = ()
    paths: tuple[Annotated[str, Field(pattern=r"^(/[!-~]*|\*)$", max_length=256)], ...] = Field(
        default=(), max_length=256
    )
    """Paths that are passed on beside those of known APIs, such as an engine's ``/tokenize`` or ``/metrics``: ``/*`` at
    an end stands for all below, ``*`` for every path. POSTs to them are counted as ``other``."""
    engines: Literal["auto", "host", "off"] = "auto"
    """Where the engine behind an upstream is looked up: ``host`` in what the agent of this host knows, ``auto`` for
    upstreams of other hosts in the topic ``engines`` too (which needs the right to read it), ``off`` nowhere."""
    cluster: str | None = None
    region: str | None = None
    slo_class: str | None = None
    """Service class that events name. None: unknown."""
    ask_usage: bool = True
    """Ask the engine for token counts at the end of every stream (``stream_options.include_usage``); the chunk that
    holds them is taken out again for a client that did not ask. An upstream that rejects the option gets it never
    again. False: bodies are never touched, and tokens of such streams are counted by chunks."""
    running_usage: bool = True
    """With ``ask_usage``, ask for the counts so far in every chunk (``continuous_usage_stats`` of vLLM and SGLang),
    taken out again likewise: streams that are given up have their counts, chunks of several tokens their number. False:
    counts come at the end alone."""
    show_usage: bool = False
    """With ``ask_usage``, ask for the counts at the end alone and take nothing out: clients see them. For engines that
    send usage unasked (vLLM's ``--enable-force-include-usage``) to clients that count on it, where it cannot be told
    from what was asked for."""
    log_requests: bool = False
    """One log line for each finished request of a known API: ids, tokens, latencies, never text."""

    trace_sampled: bool = True
    """Whether a trace that begins here (no ``traceparent`` from the client) asks engines to record it."""

    tenant_from: str = "api_key"
    """``api_key``: a keyed hash of it; ``header:NAME``: its value; ``unverified_jwt:CLAIM``: a claim of the bearer
    token, *read without checking the signature*, so only where the engine or a gateway checks it; ``none``."""
    tenant_secret: SecretStr | None = Field(default=None, min_length=16)
    """Key of the hash of API keys, hard to guess: who has it can test names and keys. Proxies that share it name
    tenants alike. None: one is made and kept in the data directory."""
    tenant_secret_file: Path | None = None
    """Holds it in place of ``tenant_secret``; proxies read it, and agents where ``user_hash`` is on."""
    user_hash: bool = False
    """Whether events have ``user_hash``, a hash under the same key of the user that a request names (``user``,
    ``safety_identifier``, ``metadata.user_id``). The agent reads this too. False: users are not kept in any form."""

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
    """Of one answer that is no stream, or of one event of a stream, kept to its end for its usage (which the last event
    of a response holds, beside all of its text); more: passed on, its usage is unknown."""

    # Limits of number
    connections_max: int = Field(default=4_096, ge=1)
    """Clients' connections; more: 503 and closed."""
    open_requests_max: int = Field(default=1_024, ge=1)
    """Requests under way, from when their body is here; more: 503, event ``rejected``."""
    tenant_open_requests_max: int = Field(default=0, ge=0)
    """Requests of one tenant under way; more: 429, event ``rejected``. 0: no such limit."""
    tenant_requests_per_s: float = Field(default=0.0, ge=0, le=1_000_000)
    """Requests of one tenant; faster: 429, event ``rejected``. 0: no such limit."""
    address_connections_max: int = Field(default=0, ge=0)
    """Connections of one client address (of IPv6, one network of 64 bits); more: 429 and closed. 0, the default, for no
    such limit: behind a gateway or load balancer all clients have its address."""
    address_open_requests_max: int = Field(default=0, ge=0)
    """Requests of one client address under way; more: 429, event ``rejected``. 0: no such limit."""
    address_requests_per_s: float = Field(default=0.0, ge=0, le=1_000_000)
    """Requests of one client address; faster: 429, event ``rejected``. 0: no such limit."""
    rate_burst_s: float = Field(default=5.0, ge=0, le=3_600)
    """Who was silent for so long may send what both rates allow in that time at once. 0: one request at a time."""
    idle_connections_max: int = Field(default=256, ge=0)
    """Kept open to one upstream between requests; more: closed."""

    # Limits of time
    header_s: float = Field(default=10.0, gt=0)
    """For the first byte to the last of a request's head; later: 408."""
    body_quiet_s: float = Field(default=30.0, gt=0)
    """Between two pieces of a request's body; longer: 408, event ``timeout``."""
    body_bytes_per_s_min: int = Field(default=500, ge=0, le=MIB)
    """Of a request's body, over every ``body_quiet_s`` in which it is read; slower: 408, event ``timeout``. 0: no such
    limit."""
    linger_s: float = Field(default=2.0, gt=0)
    """After an answer that came before the request was read: what still comes is thrown away, then closed."""
    idle_s: float = Field(default=75.0, gt=0)
    """A client's connection between requests; longer: closed."""
    upstream_idle_s: float = Field(default=4.0, gt=0)
    """A connection to an upstream between requests; longer: closed. Below the engine's own (uvicorn: 5 s)."""
    connect_s: float = Field(default=5.0, gt=0)
    """To connect to an upstream, all addresses of its name together; longer: the next one, at last 502, event
    ``error``."""
    upstream_quiet_s: float = Field(default=300.0, gt=0)
    """Between two pieces of an answer, the first included; longer: 504 or cut off, event ``timeout``. Not before the
    first of an answer that is no stream, which comes when all of it is made: ``total_s`` alone ends that wait."""
    total_s: float = Field(default=900.0, gt=0)
    """A request from its head to its last byte; longer: 504 or cut off, event ``timeout``."""
    write_quiet_s: float = Field(default=60.0, gt=0)
    """A client that takes nothing while bytes wait for it; longer: closed, event ``aborted``."""
    grace_s: float = Field(default=5.0, ge=0)
    """At the end, before that: requests are still taken while ``/readyz`` fails, until load balancers have seen it."""
    drain_s: float = Field(default=30.0, ge=0)
    """At the end, for requests under way; those left then are cut off, event ``error``."""

    # Health of upstreams
    failures_max: int = Field(default=2, ge=1)
    """Failures to connect in a row after which an upstream is left alone for ``down_s``."""
    down_s: float = Field(default=5.0, gt=0)
    """Then one request tries it again."""
    upstream_silent_s: float = Field(default=60.0, ge=0, le=3_600)
    """An upstream of which no byte came for so long while requests wait for their first is taken out: where another is
    healthy, new requests go there. A mistake (one engine, one long answer that is no stream) costs no request. 0: none
    is."""
    breaks_max: int = Field(default=5, ge=0, le=1_000)
    """Requests in a row that ended without an answer (the connection broke, nonsense came, ``upstream_quiet_s``) after
    which an upstream is taken out. 0: none is."""
    probe_path: str = Field(default="/health", pattern=r"^/[!-~]*$", max_length=256)
    """GET this of an upstream that is out before a request tries it, below the path of its address; any status below
    500 within ``connect_s`` will do. SGLang's ``/health_generate`` makes it generate a token."""

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
        for name in _QUOTAS_OPEN:
            if 0 < getattr(self, name) < self.workers:
                raise ValueError(f"{name} must be 0 or at least workers ({self.workers}): each has an equal part of it")
        return self

    def of_one_worker(self) -> Self:
        """These settings for one of ``workers``: its part of every quota, rounded down, so that all of them together
        never let more in. A client whose connections the kernel gave to few workers has the quotas of those alone."""
        whole = {name: getattr(self, name) // self.workers for name in _QUOTAS_OPEN}
        rates = {name: getattr(self, name) / self.workers for name in _QUOTAS_RATE}
        return self.model_copy(update=whole | rates)
