"""One of several workers of ``fleetpulse proxy``, a child of ``proxy_workers``: serves, and hands its events over.

Signals are its parent's: a terminal and systemd send them to children too, and the second one would end the draining.
It stops when its parent says so, and when its parent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from typing import Any

from fleetpulse.services.proxy import Watched, run_on_fast_loop, serve_into, settings_of
from producers.proxy.publishing import RowPublisher
from producers.proxy.worker_link import LINE_BYTES_MAX, Begun, WorkerLink
from runtime import logs
from runtime.config import Config
from runtime.process import SIGNALS
from runtime.tracing import tracing

_log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0


def main(argument: str) -> None:
    """Serve until told to stop. ``argument``: JSON of the command line's settings, the port and the descriptors."""
    for number in (*SIGNALS, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    given: dict[str, Any] = json.loads(argument)
    logs.configure(f"proxy-{given['worker']}")
    config = settings_of(given["upstreams"], {**given["flags"], "port": given["port"]})
    config = config.model_copy(update={"proxy": config.proxy.of_one_worker()})
    run_on_fast_loop(_work(config, given["link"], Begun(given["begun"])))


async def _work(config: Config, descriptor: int, begun: Begun) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor), limit=LINE_BYTES_MAX)
    secret = bytes.fromhex((await reader.readuntil(b"\n")).decode("ascii"))
    stop, watched, link = asyncio.Event(), Watched(), WorkerLink(writer)
    told, reports = _until_told(reader, stop, watched), _report(link, watched)
    beside = [asyncio.create_task(told), asyncio.create_task(reports)]
    with tracing(config.tracing, "proxy") as tracer:
        of_requests = tracer if config.tracing.requests else None
        rows, begins, tell = RowPublisher(link), begun.one_more, link.tell_others
        await serve_into(rows, config, secret, watched, stop, of_requests, begun=begins, tell=tell)
    for task in beside:
        task.cancel()
    link.report(dead=None, unready="stopped", up=False)
    writer.close()
    with contextlib.suppress(ConnectionError):  # the parent is gone
        await writer.wait_closed()


async def _until_told(reader: asyncio.StreamReader, stop: asyncio.Event, watched: Watched) -> None:
    """Hand on what other workers tell, until the parent's only word; without it its end, which a worker that was
    writing to it meets as an error."""
    try:
        while (told := await reader.readline()) and told != b"stop\n":
            if watched.server is not None:  # a defect there must not cost the parent's word
                asyncio.get_running_loop().call_soon(watched.server.background.hear, json.loads(told))
    except ConnectionError:
        told = b""
    if not told:
        _log.error("the proxy's parent is gone; stopping, its events are lost")
    stop.set()


async def _report(link: WorkerLink, watched: Watched) -> None:
    while True:
        server = watched.server
        up = server is not None and server.why_not_ready() != "not listening yet"
        link.report(dead=watched.alive(), unready=watched.ready(), up=up)
        await asyncio.sleep(REPORT_EVERY_S if up else REPORT_EVERY_S / 10)


if __name__ == "__main__":
    main(sys.argv[1])
