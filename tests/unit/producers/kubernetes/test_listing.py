from __future__ import annotations

import logging
from pathlib import Path

import pytest

from producers.engines.fetch import FetchError
from producers.kubernetes.listing import PAUSE_MS_MAX, PodLister, Pods, url_of
from producers.kubernetes.pods import Pod
from runtime.counters import Counters
from runtime.pod_config import KubernetesConfig

POD, STATIC = Pod("u-1", "llama-0", "serving"), Pod("u-2", "etcd", "kube-system", static_uid="hash")
CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_is_named_by_its_uid() -> None:
    """A static pod by that of its node too; one that is not known has no name, and neither has what is no pod."""
    pods = Pods()
    before = pods.labels_of("u-1")
    pods.replace([POD, STATIC])

    unknown = {"pod_name": None, "pod_namespace": None}
    assert before == pods.labels_of("other") == pods.labels_of(None) == unknown
    assert pods.labels_of("u-1") == {"pod_name": "llama-0", "pod_namespace": "serving"}
    assert pods.labels_of("hash") == pods.labels_of("u-2") == {"pod_name": "etcd", "pod_namespace": "kube-system"}


def test_pods_are_listed_where_the_pod_s_environment_says() -> None:
    """Those of this node alone; elsewhere where it is configured, else nowhere."""
    api = "https://10.96.0.1:443/api/v1/pods?fieldSelector=spec.nodeName%3Dn%2F1&resourceVersion=0"
    kubelet = KubernetesConfig(pods_url="http://127.0.0.1:10255/pods")

    assert url_of(KubernetesConfig(), "n/1", CLUSTER) == api
    assert url_of(KubernetesConfig(node="n/1"), "other", CLUSTER) == api
    assert url_of(KubernetesConfig(), "n", {"KUBERNETES_SERVICE_HOST": "fd00::1"}) == (
        "https://[fd00::1]:443/api/v1/pods?fieldSelector=spec.nodeName%3Dn&resourceVersion=0"
    )
    assert url_of(kubelet, "n", CLUSTER) == "http://127.0.0.1:10255/pods"
    assert url_of(KubernetesConfig(), "n", {}) is None


def test_a_list_that_cannot_be_had_leaves_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    """Warned of once, with what to grant; pauses grow to five minutes, and end with the next list."""
    answers: list[tuple[tuple[Pod, ...], int] | Exception] = [((POD,), 0)]
    answers += [FetchError("status", "https://api", "answered 403", 403)] * 5 + [((STATIC,), 2), ((STATIC,), 2)]

    def listed() -> tuple[tuple[Pod, ...], int]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    pods, counters = Pods(), Counters()
    lister = PodLister(pods, 30_000, listed, counters)
    seen = []
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            assert lister.collect(0) == []
            seen.append((pods.all, lister.period_ms))
    lister.close()

    kept = [((POD,), pause) for pause in (60_000, 120_000, 240_000, PAUSE_MS_MAX, PAUSE_MS_MAX)]
    assert seen == [((POD,), 30_000), *kept, ((STATIC,), 30_000), ((STATIC,), 30_000)]
    assert counters.value("errors", where="collector-pods", error="FetchError") == 5
    assert [record.getMessage() for record in caplog.records] == [
        "pods of this node cannot be listed; they stay without names",
        "too many pods on this node; the rest has no names",
    ]
    assert vars(caplog.records[0])["grant"].startswith("list of pods")


def test_the_files_of_a_pod_s_account_are_where_kubernetes_puts_them() -> None:
    """Unless configured."""
    config = KubernetesConfig()

    assert config.token_file == Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert config.ca_file.parent == config.token_file.parent
