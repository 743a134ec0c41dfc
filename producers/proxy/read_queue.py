"""ReadQueue: what was forwarded and is yet to be read for rows, read in turns of the event loop, so much in each.

A piece of a compressed answer may hold a thousand times its size: read at once it would hold up every other request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from producers.proxy.exchange import Exchange

LOOK_MOST = 8
"""Pieces read in one turn of the loop, which takes some 40 us."""
LOOK_BYTES_MAX = 256 * 1024
"""Read in one turn, give or take a step: the most that may be 100,000 lines, which take some 50 ms."""

Read = Callable[[Exchange, int, Any], Iterator[int]]


class ReadQueue:
    """``read`` reads one of what was put, step by step, and gives the bytes of each step; ``after_s``: how long the
    first waits for others.

    ``behind``: a turn has left something, and another goes on with it soon.
    """

    def __init__(self, read: Read, after_s: float) -> None:
        self._read = read
        self._after_s = after_s
        self._waiting: deque[tuple[Exchange, int, Any]] = deque()
        self._begun: Iterator[int] = iter(())  # what is being read
        self._due: asyncio.Handle | None = None
        self.behind = False

    def put(self, exchange: Exchange, at_ns: int, what: Any) -> None:
        """It is read soon, together with what is put until then."""
        self._waiting.append((exchange, at_ns, what))
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(self._after_s, self._turn)
        elif len(self._waiting) == LOOK_MOST:
            self._due.cancel()
            self._due = asyncio.get_running_loop().call_soon(self._turn)

    def look(self) -> bool:
        """Read on, in the order of putting, as much as one turn may. Whether that was all."""
        left = LOOK_BYTES_MAX
        while True:
            for size in self._begun:
                left -= size
                if left <= 0:
                    self._go_on_soon()
                    return False
            if not self._waiting:
                self.behind = False
                return True
            self._begun = self._read(*self._waiting.popleft())

    def _turn(self) -> None:
        self._due = None
        self.look()

    def _go_on_soon(self) -> None:
        self.behind = True
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_soon(self._turn)
