from __future__ import annotations

import pytest

from producers.kubernetes.pods import Container, Pod, PodListError, pods_of
from tests.unit.producers.kubernetes.pod_lists import ID, RECORDED, list_of, pod_of


def test_a_recorded_list_is_read() -> None:
    """The kubelet's own; a pod whose status is not there yet runs nothing, and UDP is no port of an engine."""
    pods, left_out = pods_of(RECORDED.read_bytes(), 10)

    assert left_out == 0
    assert pods == (
        Pod(
            uid="b66c40af-997d-11e8-96a3-42010a840157",
            name="datadog-agent-pbqt2",
            namespace="default",
            ip="10.40.1.80",
            running=True,
            containers=(
                Container(
                    "datadog-agent",
                    "datadog/agent-dev:mfpierre-test-kubelet",
                    "51cba2ca229069039575750d44ed3a67e9b5ead651312ba7ff218dd9202fde64",
                ),
            ),
        ),
        Pod(
            uid="8abf1ed0-94c4-11e8-96a3-42010a840157",
            name="kube-proxy-2d2bq",
            namespace="kube-system",
            containers=(
                Container("kube-proxy", "k8s.gcr.io/kube-proxy:v1.10.5-gke.3"),
                Container("prometheus-to-sd", "gcr.io/google-containers/prometheus-to-sd:v0.2.1"),
            ),
        ),
    )


def test_what_a_pod_says_of_itself_is_kept() -> None:
    """Annotations count more than labels; others' are left aside. A static pod has a second UID on its node."""
    marks = {
        "fleetpulse-port": "9000",
        "fleetpulse-engine": "vllm",
        "other/port": "1",
        "kubernetes.io/config.hash": "h",
    }
    pod = pod_of("p", "i", annotations=marks, labels={"fleetpulse-port": "1"}, ports=[{"containerPort": 8000}])

    (read,), _ = pods_of(list_of(pod), 10)

    assert (read.marks, read.static_uid) == ({"port": "9000", "engine": "vllm"}, "h")
    assert read.containers == (Container("server", "i", ID, {"8000": 8000}),)


@pytest.mark.parametrize(
    ("pod", "running", "terminating"),
    [
        (pod_of("p", "i"), True, False),
        (pod_of("p", "i", phase="Pending"), False, False),
        (pod_of("p", "i", phase="Failed"), False, False),
        (pod_of("p", "i", deleted=True), True, True),
        (pod_of("p", "i", deleted=True, phase="Succeeded"), False, True),
    ],
    ids=["runs", "begins", "failed", "is to end", "ended"],
)
def test_a_pod_runs_from_its_start_until_it_has_ended(pod: object, running: bool, terminating: bool) -> None:
    """One that is being deleted serves what it has begun, for as long as its grace period."""
    (read,), _ = pods_of(list_of(pod), 10)

    assert (read.running, read.terminating) == (running, terminating)


def test_ports_of_the_host_that_lead_to_a_container_are_known() -> None:
    """By the container's own; what is no number is none."""
    ports = [
        {"name": "http", "containerPort": 8000, "hostPort": 30_000},
        {"containerPort": 8001},
        {"containerPort": 8002, "hostPort": "x"},
    ]

    (read,), _ = pods_of(list_of(pod_of("p", "i", ports=ports)), 10)

    assert read.containers[0].ports == {"http": 8000, "8001": 8001, "8002": 8002}
    assert read.containers[0].host_ports == {8000: 30_000}


def test_more_pods_than_wanted_and_what_is_no_pod_are_left_out_and_counted() -> None:
    """The first by namespace and name stay."""
    pods, left_out = pods_of(list_of(pod_of("b", "i"), pod_of("a", "i"), pod_of("c", "i"), 7, {"metadata": {}}), 2)

    assert ([pod.name for pod in pods], left_out) == (["a", "b"], 3)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"items": 7}', b"<html>"])
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    """It begins the text of the error."""
    with pytest.raises(PodListError, match="no list of pods"):
        pods_of(body, 10)


def test_a_node_without_pods_has_none() -> None:
    """Go writes an empty list as null."""
    assert pods_of(b'{"kind": "PodList", "items": null}', 10) == ((), 0)
