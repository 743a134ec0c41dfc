"""Files of page *SQL* on their way to browsers: so many of this process at once, each fetched once by who wanted it.

They go by HTTP: what goes over the web socket of a page is kept to be sent again, and a file there would be held for a
minute after it came. From its query until its last byte is sent a file counts among those under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fleetpulse.dashboard.turns import Places
from fleetpulse.dashboard.users import User

PATH = "/download"
AT_ONCE_MAX = 4
FETCHED_WITHIN_S = 60.0
"""Browsers fetch a file as soon as they have its address."""
SENT_WITHIN_S = 600.0
_PIECE_BYTES = 64 * 1024
"""The server takes no more before the browser took most of it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    name: str
    data: bytes
    user: User
    place: contextlib.ExitStack
    """Its place among the files under way, until this is closed."""
    expiry: asyncio.TimerHandle


class Downloads:
    """The files of one process. Belongs to the event loop it is used in."""

    def __init__(self) -> None:
        self._places = Places(AT_ONCE_MAX, f"{AT_ONCE_MAX} files are under way to browsers; try again in a minute")
        self._waiting: dict[str, _Waiting] = {}

    @property
    def under_way(self) -> int:
        """Files that are made, wait to be fetched or are sent."""
        return self._places.taken

    async def offer(self, user: User, name: str, ask: Callable[[], Awaitable[bytes]]) -> str:
        """The path at which this user can fetch, once and soon, what ``ask`` answers. Raises ``UnavailableError`` while
        too many are under way, and what asking raises."""
        with contextlib.ExitStack() as asking:
            asking.enter_context(self._places.one())
            data = await ask()
            place = asking.pop_all()
        key = secrets.token_urlsafe(32)
        expiry = asyncio.get_running_loop().call_later(FETCHED_WITHIN_S, self._expire, key)
        self._waiting[key] = _Waiting(name, data, user, place, expiry)
        return f"{PATH}/{key}"

    def fetch(self, key: str, user: User) -> StreamingResponse | None:
        """The answer with the file; None for one that was fetched, is too old, or is another user's."""
        found = self._waiting.get(key)
        if found is None or (found.user.name, found.user.proof_hash) != (user.name, user.proof_hash):
            return None
        del self._waiting[key]
        found.expiry.cancel()
        return _Sending(found)

    def _expire(self, key: str) -> None:
        self._waiting.pop(key).place.close()


class _Sending(StreamingResponse):
    """The file in pieces, as fast as the browser takes them; whatever ends it, its place is free."""

    def __init__(self, file: _Waiting) -> None:
        headers = {
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(file.name)}",
            "Content-Length": str(len(file.data)),
            "Cache-Control": "no-store",
        }
        super().__init__(_pieces(file.data), headers=headers, media_type="application/octet-stream")
        self._place = file.place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place, contextlib.suppress(TimeoutError):  # the connection ends without the rest
            async with asyncio.timeout(SENT_WITHIN_S):
                await super().__call__(scope, receive, send)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _PIECE_BYTES):
        yield data[begin : begin + _PIECE_BYTES]
