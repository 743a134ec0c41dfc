"""RequestBody: what was read of a request's body and is still in our hands, within the limits of one and of all.

A body is either collected until it is whole, or passed on piece by piece; ``held`` is what all bodies hold together.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.proxy import errors, wire
from producers.proxy.wire import Refusal
from runtime.proxy_config import ProxyConfig

_PIECES_MAX = 1_000
"""So many pieces are joined: small ones take many times their bytes."""


@dataclass(slots=True)
class Held:
    """Bytes of all bodies in our hands."""

    bytes: int = 0


class RequestBody:
    """The body of one request. Whoever drops it gives back what it held."""

    __slots__ = ("_held", "_loose", "_pieces", "_read_bytes", "held_bytes")

    def __init__(self, held: Held) -> None:
        self.held_bytes = 0  # of this one
        self._held = held
        self._read_bytes = 0  # so far, whether held or not
        self._pieces: list[bytes] = []
        self._loose = 0  # of them, not joined yet

    def add(self, piece: bytes, limits: ProxyConfig) -> Refusal | None:
        """Keep a piece; why it is not kept, where one body or all together are too large."""
        self._read_bytes += len(piece)
        if self._read_bytes > limits.body_bytes_max:
            return errors.BODY_TOO_LARGE
        if self._held.bytes + len(piece) > limits.bodies_bytes_max:
            return errors.TOO_MANY_BODIES
        self._pieces.append(piece)
        self._hold(len(piece))
        self._loose += 1
        if self._loose == _PIECES_MAX:
            self._pieces[-_PIECES_MAX:] = [b"".join(self._pieces[-_PIECES_MAX:])]
            self._loose = 0
        return None

    def whole(self) -> bytes:
        """What was collected, in one. It counts as held until it is dropped: it may have to be sent again."""
        body = b"".join(self._pieces)
        self._forget()
        return body

    def passed_on(self, *, chunked: bool, ended: bool) -> bytes:
        """What came since the last time as it goes on the wire; of the body that has ``ended`` with its end."""
        pieces = self._pieces.copy()
        self._forget()
        self._hold(-self.held_bytes)
        if not chunked:
            return b"".join(pieces)
        return b"".join(wire.chunk(piece) for piece in pieces if piece) + (wire.last_chunk() if ended else b"")

    def drop(self) -> None:
        """Give back everything."""
        self._hold(-self.held_bytes)
        self._forget()

    def _forget(self) -> None:
        self._pieces.clear()
        self._loose = 0

    def _hold(self, more: int) -> None:
        self.held_bytes += more
        self._held.bytes += more
