"""All that an agent can collect, as a table: the switch, the probe, and how a collector is made.

The order is that of preference inside a group. What costs memory is imported by the functions that need it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from producers.agent.builtin import HostCollector, NvmlCollector, SoughtEngines
from producers.agent.cost import CostMeter
from producers.agent.probe import Missing
from producers.collector import Collector, Identity
from producers.engines.places import Places
from producers.engines.target import EngineTarget, sought, target_of
from runtime.edge_config import AgentConfig, EngineConfig

_CONNECT_WITHIN_S = 0.5
SEEK_REST_MS = 30_000
"""Between two looks at ports where no engine answers."""

Make = Callable[[], Collector]


@dataclass(frozen=True, slots=True)
class Setting:
    """What sources are made with. ``places`` is the registry of engines; it keeps ``identity.placement`` up to date."""

    config: AgentConfig
    identity: Identity
    places: Places
    meter: CostMeter

    @property
    def host(self) -> str:
        """Name of this host."""
        return self.identity.labels["host"] or ""

    def group_of(self, engine_id: str) -> str | None:
        """The engine's placement group; the host where the engine is not known."""
        return self.places.of(engine_id)[1]


@dataclass(frozen=True, slots=True)
class Source:
    """``name`` is its switch in ``CollectorSwitches`` too. ``makes`` gives one factory per collector, by name."""

    name: str
    what: str
    probe: Callable[[Setting], str]
    makes: Callable[[Setting], dict[str, Make]]
    group: str | None = None


def _always(what: str) -> Callable[[Setting], str]:
    return lambda _setting: what


def _host(setting: Setting) -> dict[str, Make]:
    return {"host": lambda: HostCollector(setting.identity, setting.config.period_ms, setting.meter)}


def _probe_nvml(_setting: Setting) -> str:
    from producers.gpu.sampler import NvmlSampler

    sampler = NvmlSampler.open({}, {})
    if sampler is None:
        raise Missing("the NVIDIA driver does not answer")
    return f"{len(sampler.gpu_uuids)} GPUs by the driver's library"


def _nvml(setting: Setting) -> dict[str, Make]:
    return {"nvml": lambda: NvmlCollector(setting.identity, setting.config.period_ms)}


def _probe_engines(setting: Setting) -> str:
    """Configured engines count whether they answer or not; on the well-known ports one may come up later."""
    config = setting.config
    if config.engines:
        return ", ".join(engine.url for engine in config.engines)
    if not config.engine_ports:
        raise Missing("no engine is configured, and no port to look at")
    answering = [port for port in config.engine_ports if _answers(f"http://127.0.0.1:{port}")]
    watched = "ports " + ", ".join(map(str, config.engine_ports)) + " are looked at twice a minute"
    return f"something answers on {', '.join(map(str, answering))}; {watched}" if answering else watched


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), _CONNECT_WITHIN_S):
            return True
    except OSError:
        return False


def _engines(setting: Setting) -> dict[str, Make]:
    config, host = setting.config, setting.host
    if config.engines:
        targets = [engine_target(engine, host) for engine in config.engines]
        return {f"engine {target.engine_id}": _engine(setting, target) for target in targets}
    makes = [_engine(setting, target) for target in sought(config.engine_ports, host)]
    period_ms, rest_ms = config.engine_period_ms, max(SEEK_REST_MS, config.engine_period_ms)
    return {"engines sought": lambda: SoughtEngines([make() for make in makes], period_ms, rest_ms)}


def engine_target(engine: EngineConfig, host: str) -> EngineTarget:
    """A configured engine with all that its configuration says."""
    return replace(
        target_of(engine, host),
        facts_url=engine.facts_url,
        kind=engine.kind,
        context_tokens_max=engine.context_tokens_max,
        tensor_parallel=engine.tensor_parallel,
        api_key=engine.api_key.get_secret_value() if engine.api_key else None,
    )


def _engine(setting: Setting, target: EngineTarget) -> Make:
    def make() -> Collector:
        from producers.engines.collector import EngineCollector

        return EngineCollector(target, setting.identity, setting.places, setting.config.engine_period_ms)

    return make


SOURCES: tuple[Source, ...] = (
    Source("host", "processors, memory, disks, network", _always("this host"), _host),
    Source("nvml", "GPUs by the driver's library", _probe_nvml, _nvml, "gpu"),
    Source("engines", "serving engines by their metrics", _probe_engines, _engines),
)
