"""The parent of the proxy's workers: what it says of all of them, and the port it keeps.

As processes they run in an integration test.

Covers fleetpulse.services.proxy_worker.
"""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetpulse.services import proxy_worker
from fleetpulse.services.proxy import Watched
from fleetpulse.services.proxy_workers import Worker, Workers, reserve, tell
from producers.proxy.worker_link import WAITING_BYTES_MAX
from schemas.errors import ConfigError


def workers(*states: tuple[bool, str | None]) -> Workers:
    return Workers([Worker(number, up=up, unready=unready) for number, (up, unready) in enumerate(states)])


def test_ready_is_a_worker_that_is_up_and_none_that_is_up_and_is_not() -> None:
    """One that starts again takes no connections, so it keeps nobody from being served; a note says so."""
    down = "every upstream is down"

    found = [
        (all_of_them.ready(), all_of_them.note())
        for all_of_them in (
            workers((False, None), (False, "starting")),
            workers((True, None), (False, "starting")),
            workers((True, None), (True, None)),
            workers((True, None), (True, down)),
        )
    ]

    assert found == [
        ("no worker is up", "0 of 2 workers are up"),
        (None, "1 of 2 workers are up"),
        (None, None),
        (f"worker 1: {down}", None),
    ]


def test_leaving_is_said_at_once() -> None:
    """Before any worker has heard of it."""
    leaving = workers((True, None))
    leaving.leaving = True

    assert (leaving.ready(), leaving.note()) == ("stopping", None)


@pytest.mark.enable_socket
def test_a_reserved_port_is_kept_and_serves_nobody() -> None:
    """Workers may share it, connections go to those that listen; a second proxy is refused it."""
    with reserve("127.0.0.1", 0) as reserved, socket.socket() as worker:
        where = reserved.getsockname()
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        worker.bind(where)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)
        worker.listen()
        for _ in range(20):
            socket.create_connection(where).close()
        with pytest.raises(ConfigError, match="must be free to listen on"):
            reserve(*where)


@pytest.mark.parametrize("end", ["word", "end", "error"])
async def test_a_worker_stops_by_its_parents_word_and_by_its_end_however_it_shows(end: str) -> None:
    """One that writes at that moment meets an error: it must not go on without a parent."""
    reader, stop = asyncio.StreamReader(), asyncio.Event()
    match end:
        case "word":
            reader.feed_data(b"stop\n")
        case "end":
            reader.feed_eof()
        case _:
            reader.set_exception(BrokenPipeError())

    await proxy_worker._until_told(reader, stop, Watched())

    assert stop.is_set()


class Told:
    """A writer to a worker."""

    def __init__(self, *, closing: bool = False, unread_bytes: int = 0) -> None:
        self.lines: list[bytes] = []
        self.write = self.lines.append
        self.is_closing = lambda: closing
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: unread_bytes)


async def test_workers_hear_what_one_of_them_tells_until_the_parent_s_word() -> None:
    """Those that are there and read."""
    told, late, gone = Told(), Told(unread_bytes=WAITING_BYTES_MAX + 1), Told(closing=True)
    for number in (1, 2):
        tell({"made": number}, cast("list[Any]", [told, None, late, gone]))
    reader, stop, watched, heard = asyncio.StreamReader(), asyncio.Event(), Watched(), list[object]()
    watched.server = cast(Any, SimpleNamespace(background=SimpleNamespace(hear=heard.append)))
    reader.feed_data(b"".join([*told.lines, b"stop\n"]))

    await proxy_worker._until_told(reader, stop, watched)
    await asyncio.sleep(0)

    assert stop.is_set()
    assert heard == [{"made": 1}, {"made": 2}]
    assert late.lines == gone.lines == []
