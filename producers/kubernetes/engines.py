"""Which pods of this node are serving engines, and where they answer: targets for the engine collector. Pure.

A pod says so itself (annotations or labels ``fleetpulse-engine`` and ``fleetpulse-port``), or a container of it has an
image that is known. Images as their projects publish them, and ports those that the servers listen on unless set
otherwise: vLLM ``vllm/vllm-openai`` 8000; SGLang ``lmsysorg/sglang`` 30000; TGI
``ghcr.io/huggingface/text-generation-inference`` 80; TensorRT-LLM ``nvcr.io/nvidia/tensorrt-llm/release`` 8000; Triton
``nvcr.io/nvidia/tritonserver`` 8000, metrics 8002; llama.cpp ``ghcr.io/ggml-org/llama.cpp`` 8080. Read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from producers.engines.mappings import BY_KIND
from producers.engines.target import EngineTarget
from producers.kubernetes.pods import Container, Pod
from runtime.addresses import bracketed


@dataclass(frozen=True, slots=True)
class KnownImage:
    """``part`` is in the last segment of the image's name, registry and tag left aside, or is its end, where it holds
    more than that. ``metrics_port``: where it is another."""

    part: str
    kind: str
    port: int
    metrics_port: int | None = None


IMAGES: tuple[KnownImage, ...] = (
    KnownImage("vllm", "vllm", 8000),
    KnownImage("sglang", "sglang", 30_000),
    KnownImage("text-generation-inference", "tgi", 80),
    KnownImage("tensorrt-llm", "trtllm", 8000),
    KnownImage("tensorrt-llm/release", "trtllm", 8000),
    KnownImage("tritonserver", "triton", 8000, 8002),
    KnownImage("llama.cpp", "llamacpp", 8080),
    KnownImage("llama-server", "llamacpp", 8080),
)
NOT_SERVING = ("router", "operator", "controller", "gateway", "exporter", "epp")
"""Words in names of images that stand beside engines."""


def engines_among(pods: Iterable[Pod], *, marked_only: bool = False, cluster: str | None = None) -> list[EngineTarget]:
    """A target for each engine of a running pod, in order of the pods. ``marked_only``: of those that say so.
    ``cluster``: the name of the pods' cluster, which begins their engines' ids; None: they are of the only one."""
    found = [target for pod in pods if pod.running and pod.ip for target in _engines_in(pod, pod.ip, marked_only)]
    return found if cluster is None else [replace(each, engine_id=f"{cluster}/{each.engine_id}") for each in found]


def host_ports(pods: Iterable[Pod], *, marked_only: bool = False) -> frozenset[int]:
    """Ports of this host where ``engines_among`` the pods answer: those that pods on its network name, and those that
    lead to a pod's own."""
    return frozenset(port for pod in pods for port in _host_ports_of(pod, marked_only))


def _host_ports_of(pod: Pod, marked_only: bool) -> Iterator[int]:
    own = {port for each in engines_among([pod], marked_only=marked_only) for port in (each.port, each.metrics_port)}
    if pod.host_network:
        yield from own
    else:
        yield from (of_host for each in pod.containers for port, of_host in each.host_ports.items() if port in own)


def _engines_in(pod: Pod, ip: str, marked_only: bool) -> Iterator[EngineTarget]:
    said = pod.marks.get("engine")
    if said == "none":
        return
    if said is not None or "port" in pod.marks:
        container = _named(pod, pod.marks.get("container"))
        image = image_of(container) if container else None
        kind = said if said in BY_KIND else image.kind if image else None
        port = _number(pod.marks.get("port")) or _port(container, _default_port(kind, image))
        if port is not None:
            yield _target(pod, container, ip, kind, port, image, sought=False)
    elif not marked_only and not pod.host_network:  # one on the host's network answers on its ``engine_ports``
        for port, (container, image) in _known_by_port(pod).items():
            yield _target(pod, container, ip, image.kind, port, image, sought=True)


def _known_by_port(pod: Pod) -> dict[int, tuple[Container, KnownImage]]:
    """Containers with a known image, by port. Of several at one port only one can listen: the one that declares it,
    else the first."""
    found: dict[int, tuple[Container, KnownImage]] = {}
    for container in pod.containers:
        image = image_of(container)
        if image is None:
            continue
        port = _port(container, image.port)
        if port not in found or (_declares(container, port) and not _declares(found[port][0], port)):
            found[port] = container, image
    return found


def _declares(container: Container, port: int) -> bool:
    return port in container.ports.values()


def image_of(container: Container) -> KnownImage | None:
    """What is known of the container's image by its name: ``registry:5000/team/vllm-openai:v0.32@sha256:...``."""
    folders, _, last = container.image.partition("@")[0].lower().rpartition("/")
    if any(word in last for word in NOT_SERVING):
        return None
    name = last.partition(":")[0]
    whole = f"/{folders}/{name}"
    return next((image for image in IMAGES if image.part in name or whole.endswith(f"/{image.part}")), None)


def _named(pod: Pod, name: str | None) -> Container | None:
    """The container that the pod names, else the one with a known image, else the first."""
    if name is not None:
        return next((each for each in pod.containers if each.name == name), None)
    return next((each for each in pod.containers if image_of(each)), pod.containers[0] if pod.containers else None)


def _default_port(kind: str | None, image: KnownImage | None) -> int | None:
    known = image or next((each for each in IMAGES if each.kind == kind), None)
    return known.port if known else None


def _port(container: Container | None, default: int | None) -> int:
    """The one that the container declares under a name of HTTP; its only one; else the server's own."""
    ports = container.ports if container else {}
    for name in ("http", "api", "server"):
        if name in ports:
            return ports[name]
    if len(ports) == 1:
        return next(iter(ports.values()))
    return default or next(iter(ports.values()), 8000)


def _target(
    pod: Pod,
    container: Container | None,
    ip: str,
    kind: str | None,
    port: int,
    image: KnownImage | None,
    *,
    sought: bool,
) -> EngineTarget:
    host = bracketed(ip)
    metrics_port = _number(pod.marks.get("metrics-port")) or (image.metrics_port if image else None)
    api = f"http://{host}:{port}"
    return EngineTarget(
        engine_id=f"{pod.namespace}/{pod.name}:{port}",
        url=f"http://{host}:{metrics_port}/metrics" if metrics_port else api,
        facts_url=api if metrics_port else None,
        kind=kind,
        addresses=tuple(part for part in pod.marks.get("addresses", "").replace(",", " ").split() if ":" in part),
        container_id=container.container_id if container else None,
        sought=sought,
    )


def _number(text: str | None) -> int | None:
    if not text or len(text) > 5 or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if 0 < int(text) < 65_536 else None
