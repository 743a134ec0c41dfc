"""Pods with engines, in the shape of the Kubernetes API reference (core/v1 PodList)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

RECORDED = Path(__file__).parents[3] / "data" / "pod_lists" / "kubelet_gke_1.10_two_pods.json"
ID = "0123456789abcdef" * 4


def pod_of(name: str, image: str, *, ports: Any = (), **other: Any) -> dict[str, Any]:
    """A running pod with one container. ``other``: annotations, labels, phase, ip, host_network, deleted."""
    about: dict[str, Any] = {"name": name, "namespace": "serving", "uid": f"uid-{name}"}
    about |= {part: other[part] for part in ("annotations", "labels") if part in other}
    about |= {"deletionTimestamp": "2026-11-24T00:00:00Z"} if other.get("deleted") else {}
    running = [{"name": "server", "containerID": f"containerd://{ID}", "ready": True}]
    return {
        "metadata": about,
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "server", "image": image, "ports": list(ports)}],
            "hostNetwork": other.get("host_network", False),
        },
        "status": {
            "phase": other.get("phase", "Running"),
            "podIP": other.get("ip", "10.0.0.7"),
            "containerStatuses": running,
        },
    }


def list_of(*pods: Any) -> bytes:
    """As the API answers it."""
    return orjson.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": list(pods)}
    )
