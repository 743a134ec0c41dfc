"""Network namespaces of processes: this one's, and trees of files in which hard links stand for one namespace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from producers.identity.network import OURS, network_of


def test_this_process_is_in_its_own_network() -> None:
    """By the system's own files; what is gone or was never there is in none that is known."""
    assert network_of(os.getpid()) == OURS
    assert network_of(2**22 + 1) is None
    assert network_of(0) is None


def shows(proc: Path, process: str, **like: str | None) -> None:
    """A process shows ``ns`` and ``net`` as another does, None: as nobody else; it hides the others."""
    for name, other in like.items():
        path = proc / process / {"ns": "ns/net", "net": "net/dev"}[name]
        path.parent.mkdir(parents=True)
        if other is None:
            path.touch()
        else:
            path.hardlink_to(proc / other / path.relative_to(proc / process))


@pytest.mark.parametrize(
    ("like", "is_ours"),
    [
        pytest.param({"ns": "self", "net": "self"}, True, id="both are shown"),
        pytest.param({"net": "self"}, True, id="another user's"),
        pytest.param({"ns": "self", "net": None}, True, id="each process has a file of its own, as in gVisor"),
        pytest.param({"ns": "10", "net": "10"}, False, id="another one, both are shown"),
        pytest.param({"net": "10"}, False, id="another one, of another user"),
    ],
)
def test_a_network_is_known_with_and_without_rights(like: dict[str, str | None], is_ours: bool, tmp_path: Path) -> None:
    """Processes of one that is not ours have one number."""
    shows(tmp_path, "self", ns=None, net=None)
    shows(tmp_path, "10", ns=None, net=None)
    shows(tmp_path, "11", **like)

    other = network_of(10, tmp_path)
    assert other not in (OURS, None)
    assert network_of(11, tmp_path) == (OURS if is_ours else other)


def test_our_own_network_is_read_once(tmp_path: Path) -> None:
    """It does not change, and every sender is compared with it."""
    shows(tmp_path, "self", ns=None, net=None)
    shows(tmp_path, "10", ns="self", net="self")
    before = network_of(10, tmp_path)
    shutil.rmtree(tmp_path / "self")

    assert (before, network_of(10, tmp_path)) == (OURS, OURS)
