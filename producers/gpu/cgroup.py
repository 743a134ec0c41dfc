"""The container and the pod of a process, from its cgroup paths. Pure.

Shapes (cgroup v1 has a line per controller, v2 one line ``0::/path``), from the sources of the runtimes:

| runtime | path ends like |
|---|---|
| docker | ``/docker/ID`` or ``/system.slice/docker-ID.scope`` |
| podman | ``/machine.slice/libpod-ID.scope`` (``/container`` below it), ``/libpod_parent/libpod-ID`` |
| kubelet, cgroupfs | ``/kubepods/burstable/podUID/ID`` (guaranteed pods: without the middle part) |
| kubelet, systemd | ``/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID`` |
| cri-o, systemd | ``.../kubepods-podUID_.slice/crio-ID.scope`` (``crio-conmon-ID`` is the monitor) |
| containerd, cgroupfs with its own scope | ``/kubepods-besteffort-podUID_.slice:cri-containerd:ID`` |

Version 2 shows a process outside the reader's cgroup namespace by a path that begins at the root of that: with
``/..``, and without the ``kubepods`` above (``/../../podUID/ID``).

Systemd's scopes end in ``.scope``, and the dashes of a UID are underscores in its names. Static pods have a UID of 32
hex digits without dashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ID = r"[0-9a-f]{64}"
_CONTAINER = re.compile(rf"(?:^|[/:-])(?P<id>{_ID})(?:\.scope)?(?:$|/)")
_MONITOR = re.compile(rf"(?:crio-conmon|libpod-conmon|conmon)-{_ID}")
_POD = re.compile(r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")
_KUBE, _OUTSIDE = "kubepods", "/../"


@dataclass(frozen=True, slots=True)
class Container:
    """``container_id``: 64 hex digits; ``pod_uid``: with dashes, as Kubernetes writes it. None: none, or not known."""

    container_id: str | None = None
    pod_uid: str | None = None


def container_of(cgroup: str) -> Container:
    """From the text of ``/proc/PID/cgroup``: the innermost container and pod that any line names."""
    container_id = pod_uid = None
    for path in _paths(cgroup):
        ids = [] if _MONITOR.search(path) else [match.group("id") for match in _CONTAINER.finditer(path)]
        of_kubelet = _KUBE in path or path.startswith(_OUTSIDE)
        pods = [match.group("uid") for match in _POD.finditer(path)] if of_kubelet else []
        container_id = container_id or (ids[-1] if ids else None)
        pod_uid = pod_uid or (pods[-1].replace("_", "-") if pods else None)
    return Container(container_id, pod_uid)


def _paths(cgroup: str) -> Iterator[str]:
    """The third part of each line ``id:controllers:path``; a path may hold colons."""
    for line in cgroup.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[2]
