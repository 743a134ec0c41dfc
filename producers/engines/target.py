"""Configuration of an engine to scrape, and of other work on this host's GPUs. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from producers.engines.mappings import BY_KIND, EngineKind
from runtime.addresses import bracketed, engine_id_of, is_this_machine
from runtime.edge_config import AgentConfig, EngineConfig
from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """One serving engine. What is None or empty is fetched from the engine; it stays unknown where it is not reported.

    ``url`` is the address of its metrics, or, without a path, of the server whose usual paths are tried. ``facts_url``
    is the address of its API (None: the same server; Triton has another port for it). ``sought``: the engine is not
    configured, so an address that does not answer is no error.
    """

    engine_id: str
    url: str
    facts_url: str | None = None
    kind: str | None = None
    model: str | None = None
    model_version: str | None = None
    precision: str | None = None
    context_tokens_max: int | None = None
    tensor_parallel: int | None = None
    placement_group: str | None = None
    gpu_uuids: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    pid: int | None = None
    """Of the server's process; None: whoever listens on the address' port."""
    container_id: str | None = None
    """Of the server's container, whose first process is the server's."""
    api_key: str | None = field(default=None, repr=False)
    sought: bool = False

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in BY_KIND:
            raise ConfigError("agent.engines.kind", self.kind, f"one of {', '.join(BY_KIND)}")
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(
                "agent.engines.url", self.url, "http://host:port or https://host:port, with or without a path"
            )

    @property
    def engine(self) -> EngineKind | None:
        """The mapping to use, where it is configured."""
        return BY_KIND[self.kind] if self.kind else None

    @property
    def server(self) -> str:
        """Scheme, host and port of the engine's API."""
        parts = urlsplit(self.facts_url or self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def port(self) -> int:
        """Where its API listens, by which its process is found; the metrics' port where no other address is given."""
        return _port_of(self.facts_url or self.url)

    @property
    def metrics_port(self) -> int:
        """Where its metrics are."""
        return _port_of(self.url)

    @property
    def remote_name(self) -> str | None:
        """The machine in its address, as it stands before a port; None where that is certainly this host."""
        return None if self.local else bracketed(urlsplit(self.facts_url or self.url).hostname or "")

    @property
    def local(self) -> bool:
        """True when the address is certainly this host's own; only then its port identifies a process here."""
        return is_this_machine(urlsplit(self.facts_url or self.url).hostname or "")


def _port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def target_of(config: EngineConfig, host: str) -> EngineTarget:
    """The target of a configured engine on ``host``, whose key was read."""
    given = dict(config)
    del given["api_key_file"]
    given["engine_id"] = config.engine_id or engine_id_of(config.url, host)
    given["api_key"] = config.api_key.get_secret_value() if config.api_key else None
    return EngineTarget(**given)


def targets_of(config: AgentConfig, host: str) -> list[EngineTarget]:
    """The configured engines; without any, those sought."""
    return [target_of(engine, host) for engine in config.engines] or sought(config.engine_ports, host)


def sought(ports: Sequence[int], host: str) -> list[EngineTarget]:
    """Targets for ports of this host where an engine may be, now or later."""
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    return [EngineTarget(engine_id=engine_id_of(url, host), url=url, sought=True) for url in urls]
