"""All that an agent can collect, as a table: the switch, the probe, and how a collector is made.

Probes run side by side, each in a daemon thread with a time limit: a driver that hangs delays the start, no more.

The order is that of preference inside a group. What costs memory is imported by the functions that need it.
"""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from producers.agent.choice import Probed
from producers.agent.life import CostMeter, Make
from producers.agent.sought import SEEK_REST_MS, SoughtEngines, UnlessNamed
from producers.collector import Collected, Collector, Identity
from producers.engines.placement import HostPlacement
from producers.engines.target import EngineTarget, targets_of
from producers.host.sampler import HostSampler
from producers.identity.joiner import Joiner
from producers.kubernetes.listing import Pods
from producers.requests.client_names import ClientNames
from runtime.edge_config import AgentConfig
from schemas.events.event_types import HOST_SAMPLES


class Missing(Exception):
    """What a probe looked for is not there; the text says why, for people."""


class Late(Exception):
    """What a probe looked for has not answered yet."""


Probe = Callable[[], str]
"""Says what it found, or raises ``Missing`` (or anything else)."""


def probe_all(probes: Mapping[str, Probe], limit_s: float) -> dict[str, Probed]:
    """What each probe found within the time limit, which they share."""
    found: dict[str, Probed] = {}

    def ask(name: str, probe: Probe) -> None:
        found[name] = _probed(probe)

    threads = {
        name: threading.Thread(target=ask, args=(name, probe), name=f"probe-{name}", daemon=True)
        for name, probe in probes.items()
    }
    for thread in threads.values():
        thread.start()
    until_s = time.monotonic() + limit_s
    for thread in threads.values():
        thread.join(max(0.0, until_s - time.monotonic()))
    late = Probed(None, f"no answer within {limit_s:g} s", late=True)
    return {name: found.get(name, late) for name in probes}


def _probed(probe: Probe) -> Probed:
    try:
        return Probed(probe())
    except (Missing, Late) as missing:
        return Probed(None, str(missing), late=isinstance(missing, Late))
    except Exception as error:
        return Probed(None, f"{type(error).__name__}: {error}")


_CONNECT_WITHIN_S = 0.5
PAGE_BYTES_MAX = 8 * 1024 * 1024
ROCM_PROGRAMS = "/opt/rocm/bin"
GPU_LIMIT_MS = 60_000
"""A driver may newly hang on one GPU after the other; each has a time limit of its own."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What sources are made with. ``registry`` holds engines and keeps ``identity.placement`` up to date."""

    config: AgentConfig
    identity: Identity
    registry: HostPlacement
    meter: CostMeter
    pods: Pods = field(default_factory=Pods)
    """Of this node, where Kubernetes reports them; ``identity`` reads their names there."""
    state: Path | None = None
    """Folder for what is kept over a restart (counters, positions in files). None: nothing is kept."""
    names: ClientNames = field(default_factory=ClientNames)
    """Models and users that clients named, whoever reports their requests."""

    @property
    def host(self) -> str:
        """Name of this host."""
        return self.identity.labels["host"] or ""

    def joiner(self, edge: str) -> Joiner:
        """Gives requests what the agent knows of their engines."""
        return Joiner(edge, lambda: self.registry.engines.directory)


@dataclass(frozen=True, slots=True)
class Source:
    """``name`` is its switch in ``CollectorSwitches`` too. ``makes`` gives one factory per collector, by name."""

    name: str
    what: str
    probe: Callable[[Setting], str]
    makes: Callable[[Setting], dict[str, Make]]
    group: str | None = None
    limit_ms_min: int = 0
    """For a source that watches its own calls: the agent's time limit is at least this."""


class HostCollector:
    """One host sample a period; ``agent_collect_us`` is what all collectors cost since the sample before."""

    name = "host"

    def __init__(self, identity: Identity, period_ms: int, meter: CostMeter) -> None:
        self.period_ms = period_ms
        self._sampler = HostSampler(identity.labels)
        self._meter = meter

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """The host's row."""
        return [Collected(HOST_SAMPLES, [self._sampler.sample(at_ms) | {"agent_collect_us": self._meter.take()}])]

    def close(self) -> None:
        """Nothing is held."""


def _always(what: str) -> Callable[[Setting], str]:
    return lambda _setting: what


def _host(setting: Setting) -> dict[str, Make]:
    return {"host": lambda: HostCollector(setting.identity, setting.config.period_ms, setting.meter)}


def _probe_nvml(setting: Setting) -> str:
    from producers.gpu.inventory import found
    from producers.gpu.library import DriverGoneError, open_library

    try:
        driver, gpus = open_library(), found()
    except DriverGoneError as error:
        raise Missing(f"the NVIDIA driver does not answer ({error})") from error
    if not gpus:
        raise Missing("the NVIDIA driver lists no GPU")
    return f"{len(gpus)} GPUs by the driver's library, driver {driver}"


def _nvml(setting: Setting) -> dict[str, Make]:
    from producers.gpu.collector import EventLives, GpuCollector

    identity, period_ms = setting.identity, setting.config.period_ms
    events = EventLives(identity)  # one for both: samples do not report again what an event reported
    memory = None if setting.state is None else setting.state / "gpu_counters"
    return {
        "nvml": lambda: GpuCollector(identity, period_ms, memory=memory, events=events),
        "gpu_events": events.begin,
    }


def _gpu_processes(setting: Setting) -> dict[str, Make]:
    from producers.gpu.collector import GpuProcessCollector

    return {"gpu_processes": lambda: GpuProcessCollector(setting.identity, setting.config.slow_period_ms)}


def _probe_dcgm(setting: Setting) -> str:
    from producers.dcgm.fields import read_page
    from producers.engines.fetch import FetchError, FetchLimits, fetch

    url = setting.config.dcgm_url
    try:
        body = fetch(url, FetchLimits(setting.config.probe_limit_ms // 2, PAGE_BYTES_MAX))
    except FetchError as error:
        raise Missing(f"no dcgm-exporter: {error}") from error
    gpus = len(read_page(body.decode("utf-8", "replace")).gpus)
    if not gpus:
        raise Missing(f"{url} reports no GPU")
    return f"{gpus} GPUs at {url}"


def _dcgm(setting: Setting) -> dict[str, Make]:
    from producers.dcgm.collector import DcgmCollector, SeenGpu

    config, seen = setting.config, dict[str, SeenGpu]()  # one for all lives: counters go on over the exporter's silence
    return {"dcgm": lambda: DcgmCollector(config.dcgm_url, setting.identity, config.period_ms, seen=seen)}


def _program(name: str) -> str | None:
    """Where a program is: its package puts rocm-smi in a folder that services do not have on PATH."""
    return shutil.which(name) or shutil.which(name, path=ROCM_PROGRAMS)


def _probe_program(name: str) -> str:
    path = _program(name)
    if path is None:
        raise Missing(f"no program {name}")
    return path


def _probe_nvidia_smi(setting: Setting) -> str:
    """It is there without a driver too: then it says so, once it is run."""
    return _printed(setting, setting.config.nvidia_smi_path, "--list-gpus")[0]


def _printed(setting: Setting, name: str, *arguments: str) -> tuple[str, str]:
    """Where a program is, and what it prints, where it ends well, or with no more than a warning."""
    from producers.nvidia_smi.collector import WARNED, SmiError, run_program

    path = _probe_program(name)
    try:
        answer = run_program([path, *arguments], setting.config.probe_limit_ms / 1_000)
    except SmiError as error:
        raise Missing(str(error)) from error
    if answer.status not in (0, WARNED):
        raise Missing(f"{path} ended with {answer.status}: {answer.output[:200].strip()}")
    return path, answer.output


def _nvidia_smi(setting: Setting) -> dict[str, Make]:
    from producers.nvidia_smi.collector import SmiCollector

    return {"nvidia_smi": _of_program(setting, SmiCollector, setting.config.nvidia_smi_path)}


def _probe_rocm_smi(setting: Setting) -> str:
    """It is there without a driver, or a GPU, too."""
    from producers.rocm_smi.fields import ARGUMENTS, read_cards

    path, printed = _printed(setting, setting.config.rocm_smi_path, *ARGUMENTS)
    if not read_cards(printed, setting.host).gpus:
        raise Missing(f"{path} lists no GPU")
    return path


def _rocm_smi(setting: Setting) -> dict[str, Make]:
    from producers.rocm_smi.collector import RocmCollector

    return {"rocm_smi": _of_program(setting, RocmCollector, setting.config.rocm_smi_path)}


def _of_program(setting: Setting, make: Callable[[str, Identity, int], Collector], name: str) -> Make:
    return lambda: make(_program(name) or name, setting.identity, setting.config.period_ms)


def _host_devices(setting: Setting) -> dict[str, Make]:
    from producers.host.devices import HostDevices

    return {"host_devices": lambda: HostDevices(setting.identity, setting.config.slow_period_ms)}


def _probe_processes(_setting: Setting) -> str:
    from producers.engines.processes import RIGHTS, sees_all
    from producers.host.processes import PROC

    if not Path(PROC, "self", "stat").exists():
        raise Missing(f"no {PROC} here")
    found = "once an engine or a job is known"
    return found if sees_all() else f"{found}; what other users' processes read and write is hidden without {RIGHTS}"


def _host_processes(setting: Setting) -> dict[str, Make]:
    from producers.host.processes import HostProcesses, ProcessLimits

    config, owners = setting.config, setting.registry.owners
    limits = ProcessLimits(config.processes_max, config.threads_max)
    return {"host_processes": lambda: HostProcesses(setting.identity, config.process_period_ms, owners, limits)}


def _probe_kubernetes(setting: Setting) -> str:
    from producers.engines.fetch import FetchError
    from producers.kubernetes.engines import engines_among
    from producers.kubernetes.listing import RIGHT, list_pods, url_of

    config = setting.config.kubernetes
    url = url_of(config, setting.host)
    if url is None:
        raise Missing("not in a cluster, and no agent.kubernetes.pods_url")
    try:
        pods, _ = list_pods(url, config)
    except FetchError as error:
        refused = error.status in (401, 403)
        raise Missing(f"{error}: grant {RIGHT}" if refused else str(error)) from error
    engines = engines_among(pods, marked_only=config.engines == "marked") if config.engines != "off" else []
    return f"{len(pods)} pods of this node, {len(engines)} of them engines"


def _kubernetes(setting: Setting) -> dict[str, Make]:
    from producers.kubernetes.listing import lister_of, url_of
    from producers.kubernetes.pod_engines import PodEngines

    config, listing = setting.config, setting.config.kubernetes
    url = url_of(listing, setting.host)
    if url is None:
        return {}

    def pod_engines() -> PodEngines:
        return PodEngines(
            setting.pods,
            setting.registry,
            lambda target: _engine(setting, target)(),
            config.engine_period_ms,
            engines_max=listing.engines_max,
            marked_only=listing.engines == "marked",
        )

    lister: dict[str, Make] = {"pods": lambda: lister_of(setting.pods, listing, url)}
    return lister if listing.engines == "off" else lister | {"pod engines": pod_engines}


def _probe_gpu_processes(setting: Setting) -> str:
    from producers.engines.processes import HOST_PID, sees_host_pids

    found = _probe_nvml(setting)
    return found if sees_host_pids() else f"{found}; which processes they are is hidden without {HOST_PID}"


def _probe_engines(setting: Setting) -> str:
    """Configured engines count whether they answer or not; on the well-known ports one may come up later."""
    from producers.engines.processes import HOST_PID, RIGHTS, read_listeners, sees_host_pids

    watched = _watched(setting)
    if not sees_host_pids():
        return f"{watched}; engines outside this container match no GPU without {HOST_PID}"
    _, hidden_sockets = read_listeners()
    if not hidden_sockets:
        return watched
    hidden = f"whose {hidden_sockets} listening sockets are is hidden: engines of other users match no GPU"
    return f"{watched}; {hidden} without {RIGHTS}, or gpu_uuids in agent.engines"


def _watched(setting: Setting) -> str:
    config = setting.config
    if config.engines:
        return ", ".join(engine.url for engine in config.engines)
    if not config.engine_ports:
        raise Missing("no engine is configured, and no port to look at")
    answering = [port for port in config.engine_ports if _answers(port)]
    watched = "ports " + ", ".join(map(str, config.engine_ports)) + " are looked at every five seconds"
    return f"something answers on {', '.join(map(str, answering))}; {watched}" if answering else watched


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), _CONNECT_WITHIN_S):
            return True
    except OSError:
        return False


def _engines(setting: Setting) -> dict[str, Make]:
    from producers.engines.placement import ProcessMatcher

    config, pods, targets = setting.config, setting.config.kubernetes.engines, targets_of(setting.config, setting.host)
    matcher: dict[str, Make] = {"placement": lambda: ProcessMatcher(setting.registry, config.slow_period_ms)}
    if config.engines:
        return {f"engine {target.engine_id}": _engine(setting, target) for target in targets} | matcher

    def by_pods() -> frozenset[int]:
        from producers.kubernetes.engines import host_ports

        return host_ports(setting.pods.all, marked_only=pods == "marked") if pods != "off" else frozenset()

    def sought() -> SoughtEngines:
        engines = [UnlessNamed(_engine(setting, each)(), each, setting.registry, by_pods) for each in targets]
        return SoughtEngines(engines, config.engine_period_ms, max(SEEK_REST_MS, config.engine_period_ms))

    return {"engines sought": sought} | matcher


def _engine(setting: Setting, target: EngineTarget) -> Callable[[], Collector]:
    def make() -> Collector:
        from producers.engines.collector import EngineCollector

        period_ms, state = setting.config.engine_period_ms, setting.state
        return EngineCollector(target, setting.identity, setting.registry, period_ms, state=state)

    return make


SOURCES: tuple[Source, ...] = (
    Source("host", "processors, memory, disks, network", _always("this host"), _host),
    Source("host_devices", "each interface, disk, NUMA node and RDMA port", _always("this host"), _host_devices),
    Source("nvml", "GPUs by the driver's library", _probe_nvml, _nvml, "gpu", GPU_LIMIT_MS),
    Source("dcgm", "GPUs by dcgm-exporter", _probe_dcgm, _dcgm, "gpu"),
    Source("nvidia_smi", "GPUs by nvidia-smi", _probe_nvidia_smi, _nvidia_smi, "gpu"),
    Source("rocm_smi", "AMD GPUs by rocm-smi", _probe_rocm_smi, _rocm_smi, "gpu"),
    Source("gpu_processes", "processes on GPUs", _probe_gpu_processes, _gpu_processes),
    Source("host_processes", "processes of engines and jobs", _probe_processes, _host_processes),
    Source("kubernetes", "names of pods, and engines in them", _probe_kubernetes, _kubernetes),
    Source("engines", "serving engines by their metrics", _probe_engines, _engines),
)
