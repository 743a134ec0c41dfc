"""What a stream came to, by what its server does, and in which phase it is counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from lab.chaos import edge_load
from lab.chaos.edge_load import Fate, Phase, stream, under_load
from lab.chaos.edge_parts import Part

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def sends(data: bytes, over: asyncio.Event, *, hangs: bool) -> Serve:
    """A server that answers so and ends, or goes on in silence until the client ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        if hangs:
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    return serve


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("data", "hangs", "fate"),
    [
        pytest.param(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False, Fate.REFUSED, id="503"),
        pytest.param(b"", False, Fate.CUT, id="ended before the first byte"),
        pytest.param(b"", True, Fate.CUT, id="accepted and silent"),
        pytest.param(HEAD + b"5\r\nabc", False, Fate.CUT, id="ended early"),
        pytest.param(HEAD + b"3\r\nabc" + edge_load.END, False, Fate.CHANGED, id="other bytes"),
    ],
)
async def test_what_a_server_does_is_named(data: bytes, hangs: bool, fate: Fate) -> None:
    """Whoever is accepted and gets nothing is cut."""
    over = asyncio.Event()
    async with await asyncio.start_server(sends(data, over, hangs=hangs), "127.0.0.1", 0) as server:
        assert await stream(server.sockets[0].getsockname()[1], silent_s=0.2) is fate
        await over.wait()


@pytest.mark.enable_socket
async def test_who_gets_no_connection_is_reset() -> None:
    """Nobody listens any more."""
    server = await asyncio.start_server(sends(b"", asyncio.Event(), hangs=False), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    assert await stream(port) is Fate.RESET


async def test_a_stream_is_of_the_phase_in_which_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fault all are whole, while it lasts none, and after it they are again."""
    state = {"fault": "none"}

    class Faulty:
        def set(self, fault: str) -> None:
            state["fault"] = fault

    class Quiet:
        port = 0

        def look(self) -> str | None:
            return None if state["fault"] == "none" else "shedding"

    async def served(_port: int) -> Fate:
        fate = Fate.WHOLE if state["fault"] == "none" else Fate.CUT
        await asyncio.sleep(0.01)
        return fate

    for name, seconds in (("BEFORE_S", 0.1), ("AFTER_S", 0.1), ("AGAIN_S", 0.01), ("LOOK_EVERY_S", 0.01)):
        monkeypatch.setattr(edge_load, name, seconds)
    monkeypatch.setattr(edge_load, "stream", served)

    found = await under_load({"proxy": cast(Part, Quiet())}, Faulty(), "full", 1, 0.1, noted=True)

    assert found.notes == {"proxy": "shedding"}
    assert all(found.phases[phase][Fate.WHOLE] > 0 for phase in (Phase.BEFORE, Phase.AFTER))
    assert found.phases[Phase.DURING][Fate.CUT] > 0
    assert found.phases[Phase.DURING][Fate.WHOLE] <= 1
    assert found.count(*Fate) == sum(sum(one.values()) for one in found.phases.values())
