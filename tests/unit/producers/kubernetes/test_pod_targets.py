from __future__ import annotations

from typing import Any

import pytest

from producers.engines.mappings import BY_KIND
from producers.engines.target import EngineTarget
from producers.kubernetes.engines import IMAGES, engines_among, host_ports, image_of
from producers.kubernetes.pods import Container, Pod, pods_of
from tests.unit.producers.kubernetes.pod_lists import ID, RECORDED, list_of, pod_of


def targets(*pods: Any, marked_only: bool = False) -> list[EngineTarget]:
    return engines_among(pods_of(list_of(*pods), 100)[0], marked_only=marked_only)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("vllm/vllm-openai:v0.32.0", "vllm"),
        ("registry:5000/team/vllm-openai@sha256:abc", "vllm"),
        ("docker.io/lmsysorg/sglang:latest", "sglang"),
        ("ghcr.io/huggingface/text-generation-inference:3.3", "tgi"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2", "trtllm"),
        ("registry/team/tensorrt-llm:1.2", "trtllm"),
        ("nvcr.io/nvidia/tritonserver:26.10-trtllm-python-py3", "triton"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llamacpp"),
        ("vllm/production-stack-router:v0.1", None),
        ("lmsysorg/sglang-router", None),
        ("nginx:1.29-vllm", None),
        ("registry/vllm/fluent-bit:4", None),
        ("registry/tensorrt-llm/downloader", None),
        ("busybox", None),
    ],
)
def test_an_engine_is_known_by_the_name_of_its_image(image: str, kind: str | None) -> None:
    """Wherever it is kept and however it is tagged; what stands beside engines is none."""
    found = image_of(Container("server", image))

    assert (found.kind if found else None) == kind


def test_every_known_image_is_of_an_engine_that_can_be_scraped() -> None:
    """Its kind has a mapping."""
    assert {image.kind for image in IMAGES} == set(BY_KIND) - {"simulated"}


def test_a_pod_with_a_known_image_is_an_engine() -> None:
    """At the pod's address and the port it declares, found in its container; one that does not answer is no error."""
    ports = [{"name": "metrics", "containerPort": 9000}, {"name": "http", "containerPort": 8001}]

    assert targets(pod_of("llama-0", "vllm/vllm-openai", ports=ports)) == [
        EngineTarget("serving/llama-0:8001", "http://10.0.0.7:8001", kind="vllm", container_id=ID, sought=True)
    ]


def test_of_recorded_pods_the_one_with_an_engine_s_image_is_one() -> None:
    """None as the kubelet told them; and with vLLM in place of its image the pod that runs, by its name, address and
    container."""
    recorded = RECORDED.read_bytes()
    served = recorded.replace(b'"datadog/agent-dev:mfpierre-test-kubelet"', b'"vllm/vllm-openai:v0.32.0"')

    assert engines_among(pods_of(recorded, 10)[0]) == []
    assert engines_among(pods_of(served, 10)[0]) == [
        EngineTarget(
            "default/datadog-agent-pbqt2:8000",
            "http://10.40.1.80:8000",
            kind="vllm",
            container_id="51cba2ca229069039575750d44ed3a67e9b5ead651312ba7ff218dd9202fde64",
            sought=True,
        )
    ]


@pytest.mark.parametrize("declaring", [0, 1], ids=["the first declares it", "the second declares it"])
def test_one_port_of_a_pod_is_one_engine(declaring: int) -> None:
    """Containers of a pod share their ports: a helper that has the server's image does not listen."""
    ids = ["a" * 64, "b" * 64]
    containers = tuple(
        Container(f"c{n}", "vllm/vllm-openai", ids[n], {"http": 8000} if n == declaring else {}) for n in (0, 1)
    )
    pod = Pod("u", "p", "n", "10.0.0.7", running=True, containers=containers)

    (target,) = engines_among([pod])

    assert (target.engine_id, target.container_id) == ("n/p:8000", ids[declaring])


def test_engines_at_several_ports_of_a_pod_are_several() -> None:
    """Where none declares its port, the first of those with a known image has it."""
    names = ("vllm/vllm-openai", "lmsysorg/sglang", "lmcache/vllm-openai")
    containers = tuple(Container(name, name, f"{n}" * 64) for n, name in enumerate(names))
    pod = Pod("u", "p", "n", "10.0.0.7", running=True, containers=containers)

    assert [(each.engine_id, each.container_id) for each in engines_among([pod])] == [
        ("n/p:8000", "0" * 64),
        ("n/p:30000", "1" * 64),
    ]


def test_pods_of_one_name_in_two_clusters_are_two_engines() -> None:
    """Where the cluster is named; its name changes nothing else."""
    listed, _ = pods_of(list_of(pod_of("llama-0", "vllm/vllm-openai")), 100)
    (one,), (other,) = (engines_among(listed, cluster=name) for name in ("eu-1", "eu-2"))

    assert (one.engine_id, other.engine_id) == ("eu-1/serving/llama-0:8000", "eu-2/serving/llama-0:8000")
    assert one.url == other.url == "http://10.0.0.7:8000"


@pytest.mark.parametrize(
    ("ports", "port"),
    [((), 30_000), ([{"containerPort": 9}], 9), ([{"containerPort": 9}, {"containerPort": 10}], 30_000)],
    ids=["none declared", "one", "several without a name of HTTP"],
)
def test_a_port_that_is_not_declared_is_the_server_s_own(ports: Any, port: int) -> None:
    """As it listens when nobody tells it otherwise."""
    (target,) = targets(pod_of("p", "lmsysorg/sglang", ports=ports))

    assert target.port == port


def test_triton_has_its_metrics_at_another_port() -> None:
    """Its API is asked for what it serves. An address of IPv6 stands in brackets."""
    (target,) = targets(pod_of("p", "nvcr.io/nvidia/tritonserver", ip="fd00::7"))

    assert (target.url, target.facts_url) == ("http://[fd00::7]:8002/metrics", "http://[fd00::7]:8000")


def test_a_pod_can_say_that_it_is_an_engine_and_where() -> None:
    """Whatever its image, on the host's network too; under which names clients reach it; then it has to answer."""
    marks = {
        "fleetpulse-engine": "vllm",
        "fleetpulse-port": "9000",
        "fleetpulse-metrics-port": "9001",
        "fleetpulse-addresses": "llama.serving.svc:80, llama:80 nonsense",
    }

    assert targets(pod_of("p", "own/server", annotations=marks, host_network=True), marked_only=True) == [
        EngineTarget(
            "serving/p:9000",
            "http://10.0.0.7:9001/metrics",
            "http://10.0.0.7:9000",
            kind="vllm",
            addresses=("llama.serving.svc:80", "llama:80"),
            container_id=ID,
        )
    ]


def test_an_engine_that_is_only_marked_is_known_by_its_page() -> None:
    """A kind that is not known here is no kind; the port is the first that the container has."""
    (target,) = targets(pod_of("p", "own", labels={"fleetpulse-engine": "mine"}, ports=[{"containerPort": 7}]))

    assert (target.kind, target.port, target.sought) == (None, 7, False)


@pytest.mark.parametrize("said", ["0", "65536", "80x", "²", "1" * 5_000], ids=lambda said: said[:6])
def test_a_port_that_is_none_is_as_if_it_were_not_said(said: str) -> None:
    """However long it is: a pod hides no other."""
    marks = {"fleetpulse-engine": "vllm", "fleetpulse-port": said, "fleetpulse-metrics-port": said}

    (target,) = targets(pod_of("p", "own", annotations=marks, ports=[{"containerPort": 7}]))

    assert (target.port, target.facts_url) == (7, None)


@pytest.mark.parametrize(
    "pod",
    [
        pod_of("p", "vllm/vllm-openai", annotations={"fleetpulse-engine": "none"}),
        pod_of("p", "vllm/vllm-openai", phase="Pending"),
        pod_of("p", "vllm/vllm-openai", ip=""),
        pod_of("p", "vllm/vllm-openai", host_network=True),
        pod_of("p", "postgres"),
        pod_of("p", "own", annotations={"fleetpulse-container": "server"}),
    ],
    ids=[
        "says no",
        "does not run",
        "has no address",
        "on the host's ports, which are looked at",
        "unknown",
        "unmarked",
    ],
)
def test_other_pods_are_no_engines(pod: Any) -> None:
    """None is asked for a page."""
    assert targets(pod) == []


def test_known_images_can_be_left_aside() -> None:
    """Where only marked pods are to be scraped."""
    assert targets(pod_of("p", "vllm/vllm-openai"), marked_only=True) == []


def test_ports_that_pods_on_the_host_s_network_name_are_known() -> None:
    """That of the API and that of the metrics. Other pods have ports of their own; unmarked ones name none."""
    image, marks = "nvcr.io/nvidia/tritonserver", {"fleetpulse-engine": "triton"}
    pods = [
        pod_of("a", image, annotations=marks, host_network=True),
        pod_of("b", "own", annotations={"fleetpulse-port": "9000"}),
        pod_of("c", "vllm/vllm-openai", host_network=True),
        pod_of("d", "own", annotations={"fleetpulse-port": "9001"}, host_network=True, deleted=True),
        pod_of("e", "own", annotations={"fleetpulse-port": "9002"}, host_network=True, deleted=True, phase="Failed"),
    ]

    assert host_ports(pods_of(list_of(*pods), 100)[0]) == {8000, 8002, 9001}


def test_ports_of_the_host_that_lead_to_engines_of_pods_are_known() -> None:
    """Those of the API and of the metrics of engines that are scraped as pods, and no others of theirs."""
    leading = [{"containerPort": own, "hostPort": own + 20_000} for own in (8000, 8002, 9)]
    pods = [
        pod_of("a", "nvcr.io/nvidia/tritonserver", ports=leading),
        pod_of("b", "own", ports=[{"containerPort": 7, "hostPort": 30_000}], annotations={"fleetpulse-port": "7"}),
        pod_of("c", "postgres", ports=[{"containerPort": 5, "hostPort": 8001}]),
    ]
    listed, _ = pods_of(list_of(*pods), 100)

    assert host_ports(listed) == {28_000, 28_002, 30_000}
    assert host_ports(listed, marked_only=True) == {30_000}
