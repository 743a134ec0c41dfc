"""Client: hands requests to the agent over a non-blocking Unix datagram socket, numbered, with a short buffer.

- Every finished request takes the next number of its process's sequence, whether it can be handed over or not.
- Datagrams that the agent does not accept at once (its queue is full, it is unavailable) wait, at most ``waiting_max``
  and ``WAITING_BYTES_MAX``. Requests beyond are dropped and counted; every later datagram carries how many, since the
  one before it and in all: the agent declares them, and the books balance.
- A request that arrives while another is being handed over, by another thread or by a finaliser in the middle of it,
  is left to that one: nobody ever waits for a lock.
- A fork begins a sequence of its own; what the parent had waiting stays the parent's.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import socket
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

HEADER = struct.Struct("<4sBBHIIIIQQQQQQ")
"""magic, kind, flags, JSON bytes, times, chunks, pid, lost since the one before, start of the client (ns), number in
its sequence, lost since its start, end (ms since the epoch), begin and end (ns of the clock of the times)."""
MAGIC = b"FPD1"
REQUEST, FAREWELL, STEP, METRIC, CLAIM = 1, 2, 3, 4, 5
"""What a datagram holds. Steps of training and metrics have sequences, and so clients, of their own; claims have no
number in any."""
_KIND_AT = 4
MARKED, MERGED = 1, 2
WAITING_MAX = 256
WAITING_BYTES_MAX = 1024 * 1024
CLOSE_WITHIN_S = 0.1
SYSTEM_SOCKET = "/run/fleetpulse/agent.sock"

_UINT32_MAX = 2**32 - 1
_AWAY = {errno.ECONNREFUSED, errno.ENOTCONN, errno.EPIPE, errno.ECONNRESET}
"""The agent at the other end is gone; its successor has a new socket under the same name."""


class Finished(NamedTuple):
    """A request that has ended. ``times`` are kept of its ``chunks``; clocks in ns, ``at_ms`` since the epoch."""

    flags: int
    times: int
    chunks: int
    at_ms: int
    begin_ns: int
    end_ns: int
    body: bytes
    """Times, marks where flags say so, JSON."""
    json_bytes: int


def default_paths() -> tuple[str, ...]:
    """Where an agent may listen, the first one that does counts: ``FLEETPULSE_SOCKET`` alone, else the runtime folder,
    then ``SYSTEM_SOCKET``. An agent that was killed leaves its socket behind."""
    if named := os.environ.get("FLEETPULSE_SOCKET"):
        return (named,)
    folder = os.environ.get("XDG_RUNTIME_DIR")
    own = (os.path.join(folder, "fleetpulse.sock"),) if folder else ()  # noqa: PTH118 (pathlib takes 10 ms to import)
    return (*own, SYSTEM_SOCKET)


class Client:
    """One sequence to one agent. Any thread may use it; ``path`` None follows ``default_paths`` at each connection."""

    def __init__(self, path: str | None = None, *, waiting_max: int = WAITING_MAX, kind: int = REQUEST) -> None:
        self.path = path
        self.kind = kind
        self._waiting_max = waiting_max
        self.generation = 0
        """Grows with every fork that this object lives through."""
        self.fields_left_out = 0
        """Fields whose values JSON does not have, such as NaN; their requests went without them."""
        self._begin_sequence()
        _CLIENTS.add(self)

    def _begin_sequence(self) -> None:
        self._lock = threading.Lock()
        self._work: deque[Finished] = deque()
        self._who = (os.getpid(), time.time_ns())
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._socket: socket.socket | None = None
        self.finished = 0
        """Requests that took a number."""
        self.lost = 0
        """Those of them that were dropped."""
        self._lost_run = 0
        self._farewell = 0  # requests up to the last farewell

    def after_fork(self) -> None:
        """In a child: leave the parent's sequence and line to the parent."""
        self._hang_up()
        self.generation += 1
        self._begin_sequence()

    def hand_over(self, finished: Finished) -> None:
        """Number a request and send it, or let it wait, or count it as lost."""
        self._work.append(finished)
        self._work_off()

    def _work_off(self) -> None:
        """Deliver what is to be delivered, unless somebody is at it: that one looks again before it leaves."""
        while self._work and self._lock.acquire(blocking=False):
            try:
                while self._work:
                    self._deliver(self._work.popleft())
            finally:
                self._lock.release()

    def claim(self, text: bytes) -> None:
        """Say that a request will be reported, by JSON that names it. Not said where the line is busy: it is of use at
        once or not at all."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._waiting:
                self._sent(self._head(CLAIM, Finished(0, 0, 0, 0, 0, 0, text, len(text))) + text)
        finally:
            self._lock.release()
        self._work_off()

    def close(self, within_s: float = CLOSE_WITHIN_S) -> None:
        """Send what waits and say good-bye with the last counts. The next request opens the socket again.

        The one method that may wait: at most ``within_s``, and only for an agent that is there and busy.
        """
        if not self._lock.acquire(timeout=within_s):
            return
        try:
            while self._work:
                self._deliver(self._work.popleft())
            if self.finished > self._farewell:
                until_s = time.monotonic() + within_s
                self._flush()
                while self._waiting and self._sent_in_time(self._waiting[0], until_s):
                    self._waiting_bytes -= len(self._waiting.popleft())
                self._drop(len(self._waiting))
                self._waiting.clear()
                self._waiting_bytes = 0
                if self.kind == REQUEST and self._sent_in_time(self._head(FAREWELL, _NOTHING), until_s):
                    self._lost_run, self._farewell = 0, self.finished
            self._hang_up()
        finally:
            self._lock.release()
        self._work_off()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close(0.0)

    def _head(self, kind: int, it: Finished) -> bytes:
        pid, start_ns = self._who
        run = min(self._lost_run, _UINT32_MAX)
        sizes = (MAGIC, kind, it.flags, it.json_bytes, it.times, it.chunks, pid, run)
        return HEADER.pack(*sizes, start_ns, self.finished, self.lost, it.at_ms, it.begin_ns, it.end_ns)

    def _deliver(self, it: Finished) -> None:
        if self._waiting:
            self._flush()
        datagram = self._head(self.kind, it) + it.body
        self.finished += 1
        lost = self.lost
        if self._waiting or not self._sent(datagram):
            room = self._waiting_bytes + len(datagram) <= WAITING_BYTES_MAX
            if not room or len(self._waiting) >= self._waiting_max:
                self._drop(1)
                return
            self._waiting.append(datagram)
            self._waiting_bytes += len(datagram)
        if self.lost == lost:
            self._lost_run = 0

    def _drop(self, requests: int) -> None:
        self.lost += requests
        self._lost_run += requests

    def _flush(self) -> None:
        while self._waiting and self._sent(self._waiting[0]):
            self._waiting_bytes -= len(self._waiting.popleft())

    def _sent(self, datagram: bytes) -> bool:
        """False when the agent cannot take it now. One that no buffer of this host holds is dropped; a claim is no
        request that was lost."""
        for _ in range(2):
            fresh = self._socket is None
            try:
                if self._socket is None:
                    self._socket = _connected_to_one_of((self.path,) if self.path else default_paths())
                self._socket.send(datagram)
                return True
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    self._drop(0 if datagram[_KIND_AT] == CLAIM else 1)
                    return True
                self._hang_up()
                if fresh or error.errno not in _AWAY:
                    return False
        return False

    def _sent_in_time(self, datagram: bytes, until_s: float) -> bool:
        """As ``_sent``, but wait for an agent that is there and busy."""
        if self._sent(datagram):
            return True
        left_s = until_s - time.monotonic()
        if self._socket is None or left_s <= 0:
            return False
        self._socket.settimeout(left_s)
        try:
            self._socket.send(datagram)
        except OSError:
            return False
        finally:
            self._socket.setblocking(False)
        return True

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_NOTHING = Finished(0, 0, 0, 0, 0, 0, b"", 0)
_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()
_default: Client | None = None
_others: dict[tuple[int, str | None], Client] = {}


def client() -> Client:
    """The client that requests use unless they are given another."""
    global _default
    if _default is None:
        _default = Client()
    return _default


def hand_over_json(kind: int, text: bytes, at_ms: int | None = None, client: Client | None = None) -> None:
    """Hand over what is a JSON object alone, by a client of its kind: the one given, else one to the same agent.
    ``at_ms`` None: now."""
    if client is None or client.kind != kind:
        other = (kind, client.path if client is not None else None)
        client = _others.get(other) or _others.setdefault(other, Client(other[1], kind=kind))
    ended_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    client.hand_over(Finished(0, 0, 0, ended_ms, 0, 0, text, len(text)))


def _connected_to_one_of(paths: tuple[str, ...]) -> socket.socket:
    *others, last = paths
    for path in others:
        with contextlib.suppress(OSError):
            return _connected(path)
    return _connected(last)


def _connected(path: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.connect(path)
    except BaseException:  # an interrupt too: nobody else would close it
        opened.close()
        raise
    return opened


def _each_client(act: Callable[[Client], None]) -> None:
    for each in list(_CLIENTS):
        with contextlib.suppress(Exception):
            act(each)


def _close_all(*_: object) -> None:
    _each_client(Client.close)


def _close_with_multiprocessing(*_: object) -> None:
    """Its children end by ``os._exit``: no ``atexit``, but finalisers of its own."""
    sys.modules["multiprocessing.util"].Finalize(None, _close_all, exitpriority=0)


def _after_fork() -> None:
    _each_client(Client.after_fork)
    _tell_multiprocessing()


def _tell_multiprocessing() -> None:
    """Where a child of it begins to run, it forgets what finalisers there are, and runs this: once for each process and
    those that it forks."""
    global _told
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _told:
        with contextlib.suppress(Exception):
            util.register_after_fork(_CLIENTS, _close_with_multiprocessing)
            _told = True


_told = False
_tell_multiprocessing()  # a child of the fork server imports its program, and so this, before it begins to run
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
if getattr(sys.modules.get("multiprocessing.process"), "parent_process", lambda: None)() is not None:
    _close_with_multiprocessing()
