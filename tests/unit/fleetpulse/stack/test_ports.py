import socket
from dataclasses import astuple
from pathlib import Path

import pytest

from fleetpulse.stack import ports
from schemas.errors import StackError

# Whether a port is free is a question to the kernel: the one thing here that needs sockets, all on loopback.
pytestmark = pytest.mark.enable_socket


def test_four_different_ports_below_those_of_outgoing_connections() -> None:
    """No outgoing connection can sit on a stack's port while a part is down."""
    chosen = astuple(ports.choose(Path("/some/where"))[0])

    assert len(set(chosen)) == 4
    assert all(20_000 <= port < 32_000 for port in chosen)


def test_a_folder_keeps_its_ports() -> None:
    """The same folder asks for the same ports, other folders for others."""
    first, again, other = (ports.free_ports(1, start=start) for start in (5, 5, 6_000))

    assert first == again
    assert first != other


def test_a_taken_port_is_passed_over() -> None:
    """Choosing takes the next free one."""
    (free,) = ports.free_ports(1, start=77)
    with socket.socket() as other:
        other.bind(("127.0.0.1", free))
        other.listen()

        assert ports.free_ports(1, start=free - 20_000) != [free]


def test_a_taken_port_is_named_with_its_owner() -> None:
    """The error names port, part, process and what to do, in the folder of this stack."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(
            StackError,
            match=rf"port {port}, which kafka needs, is taken by process \d+ .*"
            "fleetpulse up --data-dir '/a b' --new-ports$",
        ):
            ports.demand_free([port], "kafka", Path("/a b"))


def test_a_free_port_is_no_error() -> None:
    """Nothing is raised, and the port is still free afterwards."""
    (free,) = ports.free_ports(1, start=4_000)

    ports.demand_free([free], "kafka", Path("/a b"))

    assert ports.is_free(free)
