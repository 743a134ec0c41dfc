"""Turns at ClickHouse: so many queries of one kind at once in this process; more wait, and beyond that one fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from schemas.errors import UnavailableError


class Turns:
    """``at_once`` have a turn, ``waiting_max`` more wait for one. Belongs to the event loop it is used in."""

    def __init__(self, at_once: int, waiting_max: int, refusal: str) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most = at_once + waiting_max
        self._refusal = refusal
        self._taken = 0

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn and have it while inside. Raises ``UnavailableError`` where too many wait."""
        if self._taken >= self._most:
            raise UnavailableError(self._refusal)
        self._taken += 1
        try:
            async with self._free:
                yield
        finally:
            self._taken -= 1
