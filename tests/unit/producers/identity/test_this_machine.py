"""Under which names other machines reach this one."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import psutil
import pytest

from producers.agent.search import names_of_this_machine
from runtime.addresses import is_this_machine


def test_names_of_this_machine_are_reached_from_others() -> None:
    """Its name first; no loopback."""
    found = names_of_this_machine()

    assert found[0] == socket.gethostname()
    assert not any(is_this_machine(name.strip("[]")) for name in found[1:])
    assert len(set(found)) == len(found)


def test_addresses_of_a_cluster_s_services_are_no_names_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node has them: what is requested under one goes to the service's pods, whatever listens here."""
    at = {"eth0": ("10.0.0.7", socket.AF_INET), "kube-ipvs0": ("10.96.0.10", socket.AF_INET)}
    found = {name: [SimpleNamespace(family=family, address=address)] for name, (address, family) in at.items()}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)

    assert names_of_this_machine() == [socket.gethostname(), "10.0.0.7"]
