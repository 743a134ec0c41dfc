"""Under which names other machines reach this one."""

from __future__ import annotations

import socket

from producers.agent.search import names_of_this_machine
from runtime.addresses import is_this_machine


def test_names_of_this_machine_are_reached_from_others() -> None:
    """Its name first; no loopback."""
    found = names_of_this_machine()

    assert found[0] == socket.gethostname()
    assert not any(is_this_machine(name.strip("[]")) for name in found[1:])
    assert len(set(found)) == len(found)
