"""How much of one kind goes at once in one process: places, beyond which one is refused; turns, which one waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from schemas.errors import UnavailableError


class Places:
    """``places_max`` are taken at once; whoever comes then gets an error with ``refusal``."""

    def __init__(self, places_max: int, refusal: str) -> None:
        self.taken = 0
        self._max = places_max
        self._refusal = refusal

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Have a place while inside. Raises ``UnavailableError`` where all are taken."""
        if self.taken >= self._max:
            raise UnavailableError(self._refusal)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Turns:
    """``at_once`` have a turn, ``waiting_max`` more wait for one. Belongs to the event loop it is used in."""

    def __init__(self, at_once: int, waiting_max: int, refusal: str) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._places = Places(at_once + waiting_max, refusal)

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn and have it while inside. Raises ``UnavailableError`` where too many wait."""
        with self._places.one():
            async with self._free:
                yield
