"""Which ports a stack listens on: chosen once from its folder's name, kept in ``stack.json``."""

from __future__ import annotations

import contextlib
import socket
import zlib
from collections.abc import Iterable
from pathlib import Path

import psutil

from fleetpulse.stack.report import command_for
from runtime.local_stack import Ports
from schemas.errors import StackError

HOST = "127.0.0.1"
# Below the range from which Linux takes ports for outgoing connections (32768 and up): one of those could sit on a
# stack's port while a part of it is down.
_FIRST, _LAST = 20_000, 32_000


def choose(data_dir: Path, nodes: int = 1) -> list[Ports]:
    """Free ports of each node, the same ones for the same folder unless somebody else has them."""
    found = free_ports(4 * nodes, start=zlib.crc32(str(data_dir).encode()))
    return [Ports(*found[first : first + 4]) for first in range(0, len(found), 4)]


def free_ports(count: int, *, start: int) -> list[int]:
    """``count`` free ports, looked for from a place that ``start`` decides."""
    span = _LAST - _FIRST
    found: list[int] = []
    for step in range(span):
        port = _FIRST + (start + step) % span
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise StackError(f"no {count} free ports between {_FIRST} and {_LAST} on {HOST}")


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of the loopback interface now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do no harm
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def demand_free(ports: Iterable[int], part: str, data_dir: Path) -> None:
    """Raise StackError naming the first port that is taken, by whom, and what to do about the stack in this folder."""
    for port in ports:
        if not is_free(port):
            raise StackError(
                f"port {port}, which {part} needs, is taken{_by_whom(port)}; end that, "
                f"or let the stack choose other ports: {command_for('up', data_dir)} --new-ports"
            )


def _by_whom(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return " by another process"
