"""Deadlines of connections: which time limit has passed. Pure: a sweep passes the time in, four times a second."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from runtime.proxy_config import ProxyConfig

SWEEP_S = 0.25


class Phase(Enum):
    """What a client's connection is doing."""

    IDLE = "waiting for a request"
    HEAD = "reading a head"
    BODY = "reading a body"
    ANSWER = "waiting for the upstream, or passing on its answer"
    LINGER = "answered before the request was read; what still comes is thrown away"
    CLOSING = "the last bytes are on their way to the client"


class Overdue(Enum):
    """The limit that was passed."""

    IDLE = "idle_s"
    HEADER = "header_s"
    BODY = "body_quiet_s"
    RATE = "body_bytes_per_s_min"
    UPSTREAM = "upstream_quiet_s"
    TOTAL = "total_s"
    WRITE = "write_quiet_s"
    LINGER = "linger_s"


@dataclass(slots=True)
class Arrival:
    """How fast a body comes, in windows of ``body_quiet_s``. Only time in which it is read counts."""

    read_s: float = 0.0
    bytes: int = 0

    def is_slow(self, limits: ProxyConfig) -> bool:
        """At each sweep in which the body was awaited: whether a window has ended in which too little came.

        A sweep counts for its interval however late it is: a loop that was held up is not the client's fault.
        """
        self.read_s += SWEEP_S
        if self.read_s < limits.body_quiet_s:
            return False
        slow = self.bytes < limits.body_bytes_per_s_min * self.read_s
        self.read_s, self.bytes = 0.0, 0
        return slow


def overdue(
    phase: Phase,
    now_s: float,
    *,
    since_s: float,
    began_s: float,
    heard_s: float,
    stuck_s: float | None,
    whole: bool = False,
    limits: ProxyConfig,
) -> Overdue | None:
    """The first limit passed at ``now_s``; None while all hold.

    ``since_s``: begin of the phase, or of the last piece of a body; ``began_s``: begin of the request; ``heard_s``:
    last byte of the upstream; ``stuck_s``: since when the client takes nothing, None while nothing waits for it;
    ``whole``: an answer is awaited of which no byte comes before it is made, so that its silence says nothing.
    """
    waited_s = now_s - since_s
    if phase is Phase.IDLE:
        return Overdue.IDLE if waited_s > limits.idle_s else None
    if phase is Phase.HEAD:
        return Overdue.HEADER if waited_s > limits.header_s else None
    if phase is Phase.LINGER:
        return Overdue.LINGER if waited_s > limits.linger_s else None
    if phase is Phase.CLOSING:
        return Overdue.WRITE if now_s - (stuck_s or since_s) > limits.write_quiet_s else None
    if now_s - began_s > limits.total_s:
        return Overdue.TOTAL
    if phase is Phase.BODY:
        return Overdue.BODY if waited_s > limits.body_quiet_s else None
    if stuck_s is not None:
        return Overdue.WRITE if now_s - stuck_s > limits.write_quiet_s else None
    return Overdue.UPSTREAM if not whole and now_s - heard_s > limits.upstream_quiet_s else None
