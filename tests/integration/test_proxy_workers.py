"""``fleetpulse proxy --workers 2`` as processes: one port, one spool, one answer about health; deaths are declared."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.proxy_rig import (
    ANSWER,
    DONE,
    EVENTS,
    STREAM_HEAD,
    Engine,
    Got,
    chat,
    chunk,
    engines_of,
    parts_of,
    post,
    until,
    whole,
)
from tests.integration.spools import rows_beside, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
WITHIN_S = 60.0


class Proxy:
    """The parent as a process; ``lines`` are what it and its workers log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.port = self.health = 0
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    async def ready(self, up: int) -> None:
        """So many workers have begun to listen."""
        await until(lambda: len(self.said("proxy is up")) >= up, WITHIN_S)
        self.port = self.said("proxy workers start")[0]["port"]
        self.health = self.said("health endpoints are up")[0]["port"]

    def workers(self) -> list[int]:
        return sorted(child.pid for child in psutil.Process(self.process.pid).children())

    async def ask(self, request: bytes, port: int | None = None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        with contextlib.closing(writer):
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 30)

    async def page(self, path: str) -> str:
        return parts_of(await self.ask(b"GET %b HTTP/1.0\r\n\r\n" % path.encode(), self.health))[1].decode()


@contextlib.asynccontextmanager
async def workers_before(engine: Engine, folder: Path, *more: str) -> AsyncIterator[Proxy]:
    ours = {"DATA_DIR": folder, "KAFKA__BOOTSTRAP": "127.0.0.1:9", "SOCKET": folder / "agent.sock"}
    words = ["proxy", "--workers", "2", "--upstream", engine.url, "--port", "0", "--health-port", "0", *more]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fleetpulse", *words, "--spool", str(folder / "spool")),
        env={**os.environ, "FLEETPULSE_PROXY__GRACE_S": "0.5"} | {f"FLEETPULSE_{k}": str(v) for k, v in ours.items()},
        stderr=subprocess.PIPE,
    )
    proxy = Proxy(process)
    try:
        await proxy.ready(2)
        yield proxy
    finally:
        left = psutil.Process(process.pid).children() if process.returncode is None else []
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        for child in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        await proxy._reading


def counted(page: str, name: str) -> float:
    """The sum of a metric's samples."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"fleetpulse_{name}"))


async def answers(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(whole(ANSWER))


async def test_workers_share_a_port_a_spool_and_their_metrics(tmp_path: Path) -> None:
    """Every request is served by one of both, all are in one page of metrics and one spool; SIGTERM ends all."""
    count = 40
    async with engines_of(answers) as (engine,), workers_before(engine, tmp_path) as proxy:
        served = [await proxy.ask(post(chat(stream=False))) for _ in range(count)]
        page = ""
        while counted(page, "proxy_requests_total") < count:
            await asyncio.sleep(0.2)
            page = await proxy.page("/metrics")
        ready = json.loads(await proxy.page("/readyz"))
        pids, connections = proxy.workers(), engine.connections
        for pid in (proxy.process.pid, *pids):  # as systemd and terminals do
            os.kill(pid, signal.SIGTERM)
        await until(lambda: not any(psutil.pid_exists(pid) for pid in pids), WITHIN_S)
        await until(lambda: len(rows_beside(tmp_path / "spool").get("llm.requests", [])) == count, WITHIN_S)
        proxy.process.send_signal(signal.SIGTERM)  # not to wait for Kafka
        await asyncio.wait_for(proxy.process.wait(), WITHIN_S)

    assert {parts_of(raw)[1] for raw in served} == {ANSWER}
    assert len(rows_in(tmp_path / "spool")["llm.requests"]) == count
    assert counted(page, "proxy_requests_total") == count
    assert ready == {"ok": True, "why": None}
    assert (len(pids), connections >= 2) == (2, True)


async def test_a_response_in_the_background_is_counted_whichever_worker_reads_it(tmp_path: Path) -> None:
    """Read once, after all workers know of it; a second reading counts nothing."""
    count, numbers = 16, itertools.count()
    usage = {"input_tokens": 7, "output_tokens": 5}

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        reads = got.line.startswith(b"GET ")
        name = got.line.split()[1].decode().rpartition("/")[2] if reads else f"resp_{next(numbers)}"
        response = {"id": name, "object": "response", "model": "m", "status": "queued", "output": [], "usage": None}
        if reads:
            response |= {"status": "completed", "usage": usage}
        writer.write(whole(json.dumps(response).encode()))

    def read_rows() -> list[str]:
        rows = rows_beside(tmp_path / "spool").get("llm.requests", [])
        return sorted(row["request_id"] for row in rows if row["api"] == "responses")

    async with engines_of(script) as (engine,), workers_before(engine, tmp_path) as proxy:
        for _ in range(count):
            await proxy.ask(post(b'{"model":"m","background":true}', b"/v1/responses"))
        page = ""
        while counted(page, 'proxy_unread_total{reason="background"}') < count:
            await asyncio.sleep(0.2)
            page = await proxy.page("/metrics")
        for number in (*range(count), *range(count)):
            await proxy.ask(b"GET /v1/responses/resp_%d HTTP/1.0\r\n\r\n" % number)
        await until(lambda: len(read_rows()) >= count, WITHIN_S)
        proxy.process.send_signal(signal.SIGTERM)
        await until(lambda: proxy.workers() == [], WITHIN_S)
        rows = read_rows()

    assert rows == sorted(f"resp_{number}" for number in range(count))


async def test_a_clients_quota_holds_over_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers let in what one would: of many requests at once four, wherever the kernel sent them."""
    most, count = 4, 30
    monkeypatch.setenv("FLEETPULSE_PROXY__ADDRESS_OPEN_REQUESTS_MAX", str(most))
    begun, go_on = list[int](), asyncio.Event()

    async def hold(_got: Got, writer: asyncio.StreamWriter) -> None:
        begun.append(1)
        await go_on.wait()
        writer.write(whole(ANSWER))

    async with engines_of(hold) as (engine,), workers_before(engine, tmp_path) as proxy:
        asking = [asyncio.create_task(proxy.ask(post(chat(stream=False)))) for _ in range(count)]
        try:
            await until(lambda: sum(task.done() for task in asking) >= count - most, WITHIN_S)
            await until(lambda: len(begun) >= most, WITHIN_S)  # who is let in reaches the engine a moment later
        finally:
            go_on.set()
        answered = [parts_of(raw)[0].split(b" ")[1] for raw in await asyncio.gather(*asking)]

    assert sorted(answered) == [b"200"] * most + [b"429"] * (count - most)
    assert len(begun) == most


async def test_a_worker_that_dies_is_restarted_and_its_requests_declared(tmp_path: Path) -> None:
    """SIGKILL in the middle of streams: the other's go on, those of the dead one are shed in the books, exactly."""

    async def hold(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(EVENTS[0]))
        await asyncio.sleep(1_000)

    count = 16
    async with engines_of(hold) as (engine,), workers_before(engine, tmp_path) as proxy:
        clients = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(count)]
        for reader, writer in clients:
            writer.write(post(chat()))
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"}\n\n\r\n")
        victim = proxy.workers()[0]
        open_there = psutil.Process(victim).net_connections()
        on_victim = sum(each.status == "ESTABLISHED" and each.laddr.port == proxy.port for each in open_there)
        os.kill(victim, signal.SIGKILL)
        await proxy.ready(3)
        cut = [reader for reader, _ in clients if await ended(reader)]
        page = ""
        while counted(page, "edge_events_shed_total") < on_victim:
            await asyncio.sleep(0.2)
            page = await proxy.page("/metrics")
        died = proxy.said("proxy worker ended, restarting; its open requests are declared as shed")

        assert 0 < on_victim < count, "the kernel spread the connections"
        assert len(cut) == on_victim
        assert counted(page, "edge_events_shed_total") == on_victim
        assert [line["exit"] for line in died] == [-signal.SIGKILL]
        assert len(proxy.workers()) == 2
        for _, writer in clients:
            writer.close()


async def test_sigterm_to_all_lets_open_streams_end(tmp_path: Path) -> None:
    """A terminal and systemd signal workers too: not ready at once, every stream whole, every request spooled."""
    go_on, count = asyncio.Event(), 8

    async def hold(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(EVENTS[0]))
        await go_on.wait()
        writer.write(chunk(EVENTS[2]) + chunk(DONE) + b"0\r\n\r\n")

    async with engines_of(hold) as (engine,), workers_before(engine, tmp_path) as proxy:
        asked = [asyncio.ensure_future(proxy.ask(post(chat()))) for _ in range(count)]
        await until(lambda: len(engine.got) == count, WITHIN_S)
        pids = proxy.workers()
        for pid in (proxy.process.pid, *pids):
            os.kill(pid, signal.SIGTERM)
        await until(lambda: proxy.said("stopping"), WITHIN_S)
        ready = {"ok": True}
        while ready["ok"]:
            ready = json.loads(await proxy.page("/readyz"))
        await until(lambda: refused(proxy.port), WITHIN_S)
        go_on.set()
        streams = await asyncio.gather(*asked)
        await until(lambda: not any(psutil.pid_exists(pid) for pid in pids), WITHIN_S)
        await until(lambda: len(rows_beside(tmp_path / "spool").get("llm.requests", [])) == count, WITHIN_S)
        proxy.process.send_signal(signal.SIGTERM)  # not to wait for Kafka
        await asyncio.wait_for(proxy.process.wait(), WITHIN_S)

    assert (ready["ok"], ready["why"]) == (False, "stopping")
    assert {parts_of(raw)[1] for raw in streams} == {chunk(EVENTS[0]) + chunk(EVENTS[2]) + chunk(DONE) + b"0\r\n\r\n"}
    assert [row["status"] for row in rows_in(tmp_path / "spool")["llm.requests"]] == ["ok"] * count


def refused(port: int) -> bool:
    """Whether nobody listens there any more."""
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) != 0


async def test_workers_without_their_parent_let_streams_end_and_go(tmp_path: Path) -> None:
    """SIGKILL of the parent cuts nobody; nothing is left behind that would hold the port."""
    go_on = asyncio.Event()

    async def hold(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(EVENTS[0]))
        await go_on.wait()
        writer.write(chunk(EVENTS[1]) + b"0\r\n\r\n")

    async with engines_of(hold) as (engine,), workers_before(engine, tmp_path) as proxy:
        pids = proxy.workers()
        asked = asyncio.ensure_future(proxy.ask(post(chat())))
        await until(lambda: engine.got, WITHIN_S)
        proxy.process.kill()
        await until(lambda: len(proxy.said("the proxy's parent is gone; stopping, its events are lost")) == 2, WITHIN_S)
        go_on.set()
        raw = await asked
        await until(lambda: not any(psutil.pid_exists(pid) for pid in pids), WITHIN_S)

    assert parts_of(raw)[1] == chunk(EVENTS[0]) + chunk(EVENTS[1]) + b"0\r\n\r\n"


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection is gone."""
    try:
        await asyncio.wait_for(reader.read(1), 0.2)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
