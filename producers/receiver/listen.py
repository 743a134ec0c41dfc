"""Listener: opens, drains and closes the agent's Unix datagram socket without losing accepted datagrams."""

from __future__ import annotations

import contextlib
import grp
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from producers.receiver.datagram import DATAGRAM_BYTES_MAX
from schemas.errors import ConfigError

SYSTEM_PATH = Path("/run/fleetpulse/agent.sock")
_PATH_BYTES_MAX = 100
"""Of 107 that the kernel takes; the socket has a longer name while it is made."""


def default_path(environment: Mapping[str, str]) -> Path:
    """The socket path that the SDK and the agent use when none is configured."""
    if path := environment.get("FLEETPULSE_SOCKET"):
        return Path(path)
    folder = environment.get("XDG_RUNTIME_DIR")
    if folder and not os.access(SYSTEM_PATH.parent, os.W_OK):
        return Path(folder) / "fleetpulse.sock"
    return SYSTEM_PATH


def listen(path: Path, group: str | None = None) -> socket.socket:
    """A socket that owner and group may send to. A stale socket, on which nothing listens any more, is replaced.

    Raises ConfigError when it cannot be made there or another process listens.
    """
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise ConfigError("agent.receiver.socket", str(path), f"must be at most {_PATH_BYTES_MAX} bytes long")
    if _answers(path):
        raise ConfigError("agent.receiver.socket", str(path), "must be free: another process listens there")
    making = path.with_name(f".{os.getpid()}")
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        making.unlink(missing_ok=True)
        opened.bind(str(making))
        making.chmod(0o660)
        if group is not None:
            os.chown(making, -1, grp.getgrnam(group).gr_gid)
        making.rename(path)  # from here on it is found, with its permissions
    except (OSError, KeyError) as error:
        opened.close()
        making.unlink(missing_ok=True)
        raise ConfigError("agent.receiver.socket", str(path), f"must be a place for a socket ({error})") from error
    opened.setblocking(False)
    return opened


def _answers(path: Path) -> bool:
    if not path.is_socket():
        if path.exists():
            raise ConfigError("agent.receiver.socket", str(path), "must not be another kind of file")
        return False
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def refuse_more(opened: socket.socket, path: Path) -> None:
    """Stop accepting: senders get an error; datagrams accepted before can still be read."""
    with contextlib.suppress(OSError):
        path.unlink()
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RD)


class Intake:
    """Datagrams one behind the other in one of two buffers: the one fills while the other is looked at."""

    def __init__(self, opened: socket.socket, buffer_bytes: int) -> None:
        self._socket = opened
        self._buffers = [bytearray(buffer_bytes), bytearray(buffer_bytes)]
        self._view = memoryview(self._buffers[0])
        self._filled = 0
        self._ends: list[int] = []
        self.too_long = 0
        """Datagrams that the kernel cut, since ``take``."""

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def full(self) -> bool:
        """Whether another datagram might not fit."""
        return self._filled + DATAGRAM_BYTES_MAX > len(self._view)

    def drain(self, datagrams_max: int) -> int:
        """Read what the socket holds, at most so many and as far as there is room; how many were read."""
        view, ends, filled = self._view, self._ends, self._filled
        receive = self._socket.recv_into
        room = len(view) - DATAGRAM_BYTES_MAX
        read = 0
        try:
            while read < datagrams_max and filled <= room:
                size = receive(view[filled : filled + DATAGRAM_BYTES_MAX], 0, socket.MSG_TRUNC)
                read += 1
                if size > DATAGRAM_BYTES_MAX:
                    self.too_long += 1
                    continue
                filled += size
                ends.append(filled)
        except (BlockingIOError, ConnectionError):
            pass
        self._filled = filled
        return read

    def take(self) -> tuple[bytearray, list[int]]:
        """What has gathered: the buffer and the ends of the datagrams in it; valid until the next ``take``."""
        buffer, ends = self._buffers[0], self._ends
        self._buffers.reverse()
        self._view = memoryview(self._buffers[0])
        self._filled, self._ends = 0, []
        return buffer, ends
