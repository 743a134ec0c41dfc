"""Intake: reads the datagrams of a socket into a buffer, without copying them, and says who sent each."""

from __future__ import annotations

import mmap
import socket
import struct

from producers.identity.network import network_of
from producers.receiver.datagram import DATAGRAM_BYTES_MAX


class Intake:
    """Datagrams one behind the other in one of two buffers: the one fills while the other is looked at. The kernel says
    who sent each: its process, as this one sees it, 0 where it sees none (another PID namespace)."""

    def __init__(self, opened: socket.socket, buffer_bytes: int) -> None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket = opened
        # Maps, not arrays of bytes: what was never filled takes no memory.
        self._buffers = [mmap.mmap(-1, buffer_bytes), mmap.mmap(-1, buffer_bytes)]
        self._view = memoryview(self._buffers[0])
        self._filled = 0
        self._ends: list[int] = []
        self._pids: list[int] = []
        self._networks: dict[int, int | None] = {}
        self.networks: dict[int, int | None] = {}
        """Network namespace of each sender of what was taken last (``network_of``), looked up as it came: a program
        that ends with its request is gone soon. One that is gone was where it was the time before."""
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
        view, ends, pids, networks, filled = self._view, self._ends, self._pids, self._networks, self._filled
        receive = self._socket.recvmsg_into
        room = len(view) - DATAGRAM_BYTES_MAX
        read = 0
        try:
            while read < datagrams_max and filled <= room:
                place = view[filled : filled + DATAGRAM_BYTES_MAX]
                size, about, _, _ = receive((place,), _CREDENTIALS_BYTES, socket.MSG_TRUNC)
                read += 1
                if size > DATAGRAM_BYTES_MAX:
                    self.too_long += 1
                    continue
                filled += size
                ends.append(filled)
                pid = _PID.unpack_from(about[0][2])[0] if about else 0
                pids.append(pid)
                if pid not in networks:
                    network = network_of(pid)
                    networks[pid] = self.networks.get(pid) if network is None else network
        except (BlockingIOError, ConnectionError):
            pass
        self._filled = filled
        return read

    def take(self) -> tuple[mmap.mmap, list[int], list[int]]:
        """What has gathered: the buffer, and end and sender of each datagram in it; valid until the next ``take``."""
        buffer, ends, pids = self._buffers[0], self._ends, self._pids
        self._buffers.reverse()
        self._view = memoryview(self._buffers[0])
        self._filled, self._ends, self._pids = 0, [], []
        self.networks, self._networks = self._networks, {}
        return buffer, ends, pids


_PID = struct.Struct("=i")
_CREDENTIALS_BYTES = socket.CMSG_SPACE(struct.calcsize("=iII"))
"""``struct ucred``: pid, uid and gid. No other ancillary data has room beside it, so no sender can hand over files."""
