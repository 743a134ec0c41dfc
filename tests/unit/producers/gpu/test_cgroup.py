from __future__ import annotations

import pytest

from producers.gpu.cgroup import Container, container_of

ID = "3f1c" + "0123456789abcdef" * 3 + "0123456789ab"
OTHER = "a" * 64
UID = "1f3bd2c5-7c1e-4a76-9f0a-5f4f8f6a1b2c"
UNDERSCORED = UID.replace("-", "_")
STATIC = "8c1a2d3e4f5061728394a5b6c7d8e9f0"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/docker/{ID}", Container(ID)),
        (f"/system.slice/docker-{ID}.scope", Container(ID)),
        (f"/docker/{OTHER}/docker/{ID}", Container(ID)),
        (f"/docker/{ID}/init.scope", Container(ID)),
        (f"/machine.slice/libpod-{ID}.scope/container", Container(ID)),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", Container(ID)),
        (f"/libpod_parent/libpod-{ID}", Container(ID)),
        (f"/machine.slice/libpod-conmon-{ID}.scope", Container()),
        (f"/kubepods/burstable/pod{UID}/{ID}", Container(ID, UID)),
        (f"/kubepods/pod{UID}/{ID}", Container(ID, UID)),
        (f"/kubepods/besteffort/pod{STATIC}/{ID}", Container(ID, STATIC)),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope",
            Container(ID, UID),
        ),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{ID}.scope", Container(ID, UID)),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{ID}.scope/container", Container(ID, UID)),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-conmon-{ID}.scope", Container(None, UID)),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/docker-{ID}.scope", Container(ID, UID)),
        (
            f"/system.slice/containerd.service/kubepods-besteffort-pod{UNDERSCORED}.slice:cri-containerd:{ID}",
            Container(ID, UID),
        ),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope",
            Container(ID, UID),
        ),
        ("/user.slice/user-1000.slice/session-3.scope", Container()),
        ("/system.slice/vllm.service", Container()),
        (f"/docker/{ID[:-1]}", Container()),
        (f"/docker/{ID}0", Container()),
        ("/", Container()),
        ("/../../..", Container()),
        (f"/../../pod{UID}/{ID}", Container(ID, UID)),
        (f"/../{ID}", Container(ID)),
        (f"/../kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope", Container(ID, UID)),
        (f"/machine.slice/pod{UID}/{ID}", Container(ID)),
    ],
    ids=[
        "docker, cgroupfs",
        "docker, systemd",
        "docker in docker",
        "below the container",
        "podman",
        "podman without root",
        "podman, cgroupfs",
        "podman's monitor",
        "kubelet, cgroupfs",
        "kubelet, cgroupfs, guaranteed",
        "static pod",
        "kubelet, systemd, containerd",
        "cri-o",
        "cri-o, below the container",
        "cri-o's monitor",
        "docker below the kubelet",
        "containerd's own scope, with colons",
        "kubelet inside kind",
        "a session",
        "a service",
        "an id too short",
        "an id too long",
        "the root",
        "outside the reader's namespace",
        "a pod outside it",
        "of the reader's own pod",
        "a pod outside it, systemd",
        "no pod of a kubelet",
    ],
)
def test_container_and_pod_of_a_path(path: str, expected: Container) -> None:
    """The same by version 2 and by a controller of version 1."""
    assert container_of(f"0::{path}\n") == expected
    assert container_of(f"12:memory:{path}\n1:name=systemd:/\n0::/\n") == expected


def test_what_no_line_tells_is_taken_from_another() -> None:
    """Version 1 may name the pod in one hierarchy and nothing in the next."""
    text = f"3:cpu,cpuacct:/\n2:devices:/kubepods/pod{UID}/{ID}\n"

    assert container_of(text) == Container(ID, UID)


@pytest.mark.parametrize("text", ["", "\n", "no colons", "0:", "0::", "\x00:\x00:\x00"])
def test_text_that_is_no_cgroup_names_nothing(text: str) -> None:
    """Whatever it holds."""
    assert container_of(text) == Container()
