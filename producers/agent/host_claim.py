"""HostClaim: one agent for each host. Two of them measure everything twice, and every sum of the host is doubled.

An agent listens at an abstract socket (Linux) that carries the host's name; the kernel frees it with the process. One
that finds it taken goes on, since nobody can tell which of the two is wanted, but says so. Agents in different network
namespaces do not see each other: ``fleetpulse doctor`` finds those by what they sent.

Any user of the host can listen there: only a process of root's, or of the user of this agent, is taken for an agent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
from dataclasses import dataclass, field

from runtime.counters import COUNTERS, Counters

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
_CREDENTIALS = struct.Struct("3i")
_CONNECT_WITHIN_S = 1.0
_ASKING_MAX = 8


@dataclass(slots=True)
class HostClaim:
    """``other`` is the process id of another agent of this host, 0 where it is in another process namespace; None:
    there is none, as far as is known."""

    host: str
    counters: Counters = field(default_factory=lambda: COUNTERS)
    other: int | None = None
    _held: socket.socket | None = None
    _uid: int | None = None
    """Of the process that was found last."""

    @property
    def why(self) -> str | None:
        """What is wrong, for readiness."""
        if self.other is None:
            return None
        return f"another agent runs on {self.host} (process {self.other}): samples are counted twice"

    def look(self) -> None:
        """Claim the host, or find who has it."""
        if self._held is not None:
            _hang_up(self._held)
        if self._held is not None or not hasattr(socket, "SO_PEERCRED"):
            return
        before, self.other = self.other, self._claim()
        self.counters.set("agent_others", 0 if self.other is None else 1)
        if before is None and self.other is not None:
            facts = {"host": self.host, "pid": self.other, "uid": self._uid}
            _log.warning("another agent runs on this host: samples are counted twice", extra=facts)

    def _claim(self) -> int | None:
        address = f"\0fleetpulse.agent.{self.host}"[:100]
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            mine.bind(address)
            mine.listen(_ASKING_MAX)
            mine.setblocking(False)
        except OSError:
            mine.close()
            return self._agent(address) if self.other is None else self.other
        self._held = mine
        return None

    def _agent(self, address: str) -> int | None:
        """The process that listens there, where it may be an agent's."""
        pid, uid = _owner(address) or (None, None)
        if uid not in (None, 0, os.geteuid()):
            if uid != self._uid:
                facts = {"host": self.host, "pid": pid, "uid": uid}
                _log.warning("a process of another user is where agents of this host would be found", extra=facts)
            pid = None
        self._uid = uid
        return pid

    def release(self) -> None:
        """Let another agent have the host."""
        if self._held is not None:
            self._held.close()
            self._held = None


def _hang_up(held: socket.socket) -> None:
    """Those who asked know already."""
    with contextlib.suppress(OSError):
        while True:
            held.accept()[0].close()


def _owner(address: str) -> tuple[int, int] | None:
    """Process and user that listen there; None when it has just gone, or has not answered those who asked before."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_CONNECT_WITHIN_S)
        try:
            asking.connect(address)
            found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return int(pid), int(uid)
