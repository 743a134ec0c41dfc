"""``fleetpulse proxy --workers N``: the parent. It owns spool, health endpoints and workers, and serves none itself.

The port is reserved here, by a socket that does not listen; every worker listens on it by SO_REUSEPORT, and the kernel
spreads connections. A worker that dies is started again, with back-off; its open requests are declared as shed. One
whose event loop is stuck is killed. On SIGTERM all of them drain at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fleetpulse.services.edge import DRAIN_S, secret_of, supervised
from fleetpulse.services.proxy import run_on_fast_loop, settings_of
from producers.proxy.server import STILL_MAX_S
from producers.proxy.worker_link import LINE_BYTES_MAX, WAITING_BYTES_MAX, Begun, MergedCounts, items_of
from producers.publish.supervised import SupervisedPublisher
from runtime import logs
from runtime.backoff import Backoff
from runtime.config import Config
from runtime.counters import COUNTERS
from runtime.health import HealthServer, Heartbeat
from runtime.process import on_stop_signal
from runtime.tracing import tracing
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS

_log = logging.getLogger(__name__)

RESTART = Backoff(0.5, 30.0)
"""Pauses begin at the first again for a worker that was up for longer than the longest of them."""
BEYOND_DRAIN_S = 15.0
"""So long after its drain a worker that is still there is killed."""


@dataclass(slots=True)
class Worker:
    """What is known of one worker now. ``heard_s``: its last report."""

    number: int
    process: asyncio.subprocess.Process | None = None
    writer: asyncio.StreamWriter | None = None
    up: bool = False
    unready: str | None = None
    heard_s: float = 0.0
    failures: int = 0


@dataclass(slots=True)
class Workers:
    """All of them; its checks are read from another thread."""

    all: list[Worker]
    leaving: bool = False
    publisher: SupervisedPublisher | None = None
    merged: MergedCounts = field(default_factory=MergedCounts)

    def ready(self) -> str | None:
        """None while a worker is up, and each that is up takes requests."""
        if self.leaving:
            return "stopping"
        up = [worker for worker in self.all if worker.up]
        whys = [f"worker {worker.number}: {worker.unready}" for worker in up if worker.unready is not None]
        return "; ".join(whys) or (None if up else "no worker is up")

    def note(self) -> str | None:
        """None while events are kept and every worker is up."""
        up = sum(worker.up for worker in self.all)
        missing = None if up == len(self.all) or self.leaving else f"{up} of {len(self.all)} workers are up"
        kept = None if self.publisher is None else self.publisher.why
        return "; ".join(why for why in (kept, missing) if why) or None


def run_workers(upstreams: Sequence[str], flags: dict[str, object], spool: Path | None) -> None:
    """Serve until SIGTERM, as ``run_proxy`` does alone. Raises ConfigError where the address is not free."""
    logs.configure("proxy")
    config = settings_of(upstreams, flags)
    workers = Workers([Worker(number) for number in range(config.proxy.workers)])
    heartbeat, port = Heartbeat(STILL_MAX_S), config.proxy.health_port
    checks = partial(HealthServer, alive=heartbeat.why_dead, ready=workers.ready, note=workers.note)
    with contextlib.ExitStack() as serving:
        reserved = serving.enter_context(reserve(config.proxy.host, config.proxy.port))
        if port is not None:
            serving.enter_context(checks(port=port))
        given = {"upstreams": list(upstreams), "flags": flags, "port": reserved.getsockname()[1]}
        run_on_fast_loop(_run(config, given, spool, workers, heartbeat))


def reserve(host: str, port: int) -> socket.socket:
    """A socket that holds the address without listening there. Raises ConfigError where another process has it."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as alone:  # another proxy's workers would share it
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(where)
            bound = alone.getsockname()
        shared = socket.socket(family, kind, protocol)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(bound)
    except OSError as error:
        raise ConfigError("proxy.port", f"{host}:{port}", f"must be free to listen on ({error})") from error
    return shared


async def _run(
    config: Config, given: dict[str, Any], spool: Path | None, workers: Workers, heartbeat: Heartbeat
) -> None:
    stop = on_stop_signal(asyncio.get_running_loop())
    heartbeat.follow(asyncio.get_running_loop())
    secret = secret_of(config.proxy, config.data_dir)
    folder = spool or config.data_dir / "spool" / "proxy"
    facts = {"host": config.proxy.host, "port": given["port"], "workers": len(workers.all)}
    _log.info("proxy workers start", extra=facts)
    with tracing(config.tracing, "proxy") as tracer:
        async with supervised(config, folder, DRAIN_S, tracer) as publisher:
            workers.publisher = publisher
            keeping = [asyncio.create_task(_keep(worker, workers, given, secret, stop)) for worker in workers.all]
            watching = asyncio.create_task(_kill_stuck(workers))
            await stop.wait()
            workers.leaving = True
            for worker in workers.all:
                if worker.writer is not None:
                    worker.writer.write(b"stop\n")
            patience_s = config.proxy.grace_s + config.proxy.drain_s + BEYOND_DRAIN_S
            _, late = await asyncio.wait(keeping, timeout=patience_s)
            watching.cancel()
            if late:
                _kill(workers)
                await asyncio.wait(late)


async def _keep(worker: Worker, workers: Workers, given: dict[str, Any], secret: bytes, stop: asyncio.Event) -> None:
    """Run the worker, again and again, until the end."""
    while not stop.is_set():
        began_s = time.monotonic()
        try:
            code = await _live(worker, workers, given, secret)
        except OSError as error:  # no descriptors, no memory: like one that died at once
            code = f"{type(error).__name__}: {error}"
        worker.up, worker.process, worker.writer = False, None, None
        if stop.is_set():
            return
        worker.failures = 1 if time.monotonic() - began_s > RESTART.max_s else worker.failures + 1
        pause_s = RESTART.pause_s(worker.failures, random.random())
        facts = {"worker": worker.number, "exit": code, "retry_in_s": round(pause_s, 1)}
        _log.error("proxy worker ended, restarting; its open requests are declared as shed", extra=facts)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_s)


async def _live(worker: Worker, workers: Workers, given: dict[str, Any], secret: bytes) -> int | str:
    """One life of a worker; its exit code. What it had begun and not handed over is declared behind it."""
    ours, theirs = socket.socketpair()
    cell = Begun.fresh()
    try:
        begun = Begun(cell)
        about = {**given, "worker": worker.number, "link": theirs.fileno(), "begun": cell}
        worker.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fleetpulse.services.proxy_worker", json.dumps(about)),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), cell),
        )
    finally:
        theirs.close()
        os.close(cell)
    reader, worker.writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES_MAX)
    worker.writer.write(secret.hex().encode("ascii") + b"\n")
    worker.heard_s = time.monotonic() + STILL_MAX_S  # it has to start first
    if workers.leaving:
        worker.writer.write(b"stop\n")
    had = await _take(worker, workers, reader)
    worker.writer.close()
    workers.merged.forget(worker.number)
    code = await worker.process.wait()
    assert workers.publisher is not None
    if lost := begun.count() - had:
        workers.publisher.shed(LLM_REQUESTS.topic, lost)
    return code


async def _take(worker: Worker, workers: Workers, reader: asyncio.StreamReader) -> int:
    """Take what the worker sends, to its end; how many of its events were put or declared."""
    publisher, had = workers.publisher, 0
    assert publisher is not None
    async for item in items_of(reader):
        if "report" in item:
            worker.heard_s, worker.up, worker.unready = time.monotonic(), item["up"], item["unready"] or item["dead"]
            workers.merged.take(worker.number, item["report"])
            continue
        if "others" in item:
            tell(item["others"], [other.writer for other in workers.all if other is not worker])
            continue
        had += item["count"]
        if "shed" in item:
            publisher.shed(item["shed"], item["count"])
        else:
            publisher.put_at_once(item["batch"])
    return had


def tell(message: dict[str, Any], writers: Iterable[asyncio.StreamWriter | None]) -> None:
    """Pass on what one worker tells the others; one that does not read is told no more."""
    line = json.dumps(message).encode("ascii") + b"\n"
    for writer in writers:
        if writer is None or writer.is_closing():
            continue
        if writer.transport.get_write_buffer_size() <= WAITING_BYTES_MAX:
            writer.write(line)


async def _kill_stuck(workers: Workers) -> None:
    """A loop that does not turn reports nothing; the process is started again."""
    while True:
        await asyncio.sleep(1.0)
        for worker in workers.all:
            if worker.process is not None and time.monotonic() - worker.heard_s > 2 * STILL_MAX_S:
                _log.error("proxy worker is stuck, killed", extra={"worker": worker.number})
                COUNTERS.add("errors", where="proxy", error="stuck")
                _kill_one(worker)


def _kill(workers: Workers) -> None:
    for worker in workers.all:
        _kill_one(worker)


def _kill_one(worker: Worker) -> None:
    if worker.process is not None:
        with contextlib.suppress(ProcessLookupError):
            worker.process.kill()
