"""The parent of the proxy's workers: what it says of all of them, and the port it keeps.

As processes they run in an integration test.

Covers fleetpulse.services.proxy_worker.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from fleetpulse.services import proxy_worker
from fleetpulse.services.proxy_workers import Worker, Workers, reserve
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

    await proxy_worker._until_told(reader, stop)

    assert stop.is_set()
