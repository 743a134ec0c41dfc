"""A second host on this machine: a network namespace with an address of its own, for a gateway that is elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from lab.bench.counterparts import child

ROOT = Path(__file__).resolve().parents[2]
NAME = "fleetpulse-gateway"
HERE, THERE = "10.213.77.1", "10.213.77.2"
"""Addresses of this machine and of the namespace, as the other sees them."""
_CLONE_NEWNET = 0x40000000
_BUFFER_BYTES = 65_536


@contextlib.contextmanager
def second_host() -> Iterator[tuple[str, ...]]:
    """The namespace, joined to this one; what a command begins with that runs there. Needs the rights of root."""
    _ip("netns", "add", NAME)
    try:
        _ip("link", "add", "fp-here", "type", "veth", "peer", "name", "fp-there", "netns", NAME)
        _ip("addr", "add", f"{HERE}/30", "dev", "fp-here")
        _ip("link", "set", "fp-here", "up")
        _ip("-n", NAME, "addr", "add", f"{THERE}/30", "dev", "fp-there")
        _ip("-n", NAME, "link", "set", "fp-there", "up")
        _ip("-n", NAME, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", NAME)
    finally:
        _ip("netns", "del", NAME)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def reachable(port: int, log: Path) -> Iterator[None]:
    """A loopback port of this machine under the same number on the loopback of the namespace (the local broker names
    itself by a loopback address)."""
    with child([sys.executable, str(Path(__file__)), str(port)], log, {"PYTHONPATH": str(ROOT)}):
        yield


def _listener_there(port: int) -> socket.socket:
    made: list[socket.socket] = []

    def make() -> None:
        with Path("/var/run/netns", NAME).open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        made.append(socket.create_server(("127.0.0.1", port)))

    thread = threading.Thread(target=make)  # it alone moves there
    thread.start()
    thread.join()
    return made[0]


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_BUFFER_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def main(port: int) -> None:
    listener = _listener_there(port)
    while True:
        there, _ = listener.accept()
        here = socket.create_connection(("127.0.0.1", port))
        for source, target in ((there, here), (here, there)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
