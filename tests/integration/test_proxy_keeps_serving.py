"""``fleetpulse proxy`` while its events cannot be kept: requests are served, ``/readyz`` and a metric say so, and what
waits is kept when the disk takes it again."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.services import proxy
from fleetpulse.services.proxy import Watched
from producers.spool import segment_log
from runtime.config import load
from tests.integration.proxy_rig import ANSWER, CHAT, EVENTS, STREAM_HEAD, Got, chat, chunk, engines_of, post, until
from tests.integration.spools import rows_in
from tests.integration.test_proxy_process import Engine, lines_of, text_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@contextmanager
def proxy_process(spool: Path, data: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, the address of its health and its own; without Kafka."""
    engine = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{engine.server_address[1]}/v1"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fleetpulse", "proxy", "--upstream", url, "--port", "0", "--health-port", "0"),
            *("--spool", str(spool)),
        ],
        env={**os.environ, "FLEETPULSE_DATA_DIR": str(data), "FLEETPULSE_KAFKA__BOOTSTRAP": "127.0.0.1:9"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        health = lines_of(process, "health endpoints are up")["port"]
        port = lines_of(process, "proxy is up")["port"]
        yield process, f"http://127.0.0.1:{health}", f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        engine.shutdown()
        engine.server_close()


def asked(url: str, name: str) -> bytes:
    request = urllib.request.Request(f"{url}{CHAT.decode()}", chat(stream=False), {"X-Request-ID": name})
    with urllib.request.urlopen(request, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def ready(health: str) -> dict[str, Any]:
    """The verdict, whatever it is."""
    try:
        text = text_of(f"{health}/readyz")
    except urllib.error.HTTPError as unready:
        text = unready.read().decode()
    found: dict[str, Any] = json.loads(text)
    return found


def eventually(holds: Callable[[], object], within_s: float = 90.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s, "it never came to hold"
        time.sleep(0.05)


def test_an_unwritable_spool_at_the_start_is_tried_again(tmp_path: Path) -> None:
    """A file stands where its folder should: requests are served; with the file away, their events are kept."""
    blocked = tmp_path / "disk"
    blocked.touch()
    with proxy_process(blocked / "spool", tmp_path) as (process, health, url):
        body = asked(url, "r-1")
        down, figures = ready(health), text_of(f"{health}/metrics")
        blocked.unlink()
        eventually(lambda: "note" not in ready(health))
        asked(url, "r-2")
        after = text_of(f"{health}/metrics")
        process.send_signal(signal.SIGTERM)
        lines_of(process, "stopping")
        eventually(lambda: b"r-2" in b"".join(file.read_bytes() for file in (blocked / "spool/segments").iterdir()))
        process.send_signal(signal.SIGTERM)  # Kafka need not be waited for
        process.wait(90)

    assert body == ANSWER
    assert (down["ok"], down["why"]) == (True, None)
    assert "NotADirectoryError" in down["note"]
    assert "fleetpulse_edge_publisher_down 1.0" in figures
    assert 'fleetpulse_edge_publisher_failures_total{error="NotADirectoryError"}' in figures
    assert "fleetpulse_edge_publisher_down 0.0" in after
    assert [row["request_id"] for row in rows_in(blocked / "spool")["llm.requests"]] == ["r-1", "r-2"]


def test_a_proxy_whose_events_were_never_kept_ends_well(tmp_path: Path) -> None:
    """After its drain, with 0; the log says how many events are lost."""
    blocked = tmp_path / "disk"
    blocked.touch()
    with proxy_process(blocked / "spool", tmp_path) as (process, _, url):
        body = asked(url, "r-1")
        process.send_signal(signal.SIGTERM)
        lost = lines_of(process, "events lost: the spool was unusable at shutdown")
        status = process.wait(90)

    assert (body, lost["events"], status) == (ANSWER, 1, 0)


def test_a_data_directory_that_cannot_be_used_ends_no_start(tmp_path: Path) -> None:
    """It holds the spool and the secret of tenants: requests are served, and ``/readyz`` says what is wrong."""
    (tmp_path / "disk").touch()
    with proxy_process(tmp_path / "disk" / "spool", tmp_path / "disk") as (process, health, url):
        body, verdict = asked(url, "r-1"), ready(health)
        process.send_signal(signal.SIGTERM)
        status = process.wait(90)

    assert (body, verdict["ok"], status) == (ANSWER, True, 0)
    assert "NotADirectoryError" in verdict["note"]


def test_an_agent_measures_and_answers_while_its_spool_cannot_be_used(tmp_path: Path) -> None:
    """What it measured meanwhile is spooled as soon as the disk takes it."""
    blocked = tmp_path / "disk"
    blocked.touch()
    environment = {
        "FLEETPULSE_DATA_DIR": str(blocked),
        "FLEETPULSE_KAFKA__BOOTSTRAP": "127.0.0.1:9",
        "FLEETPULSE_AGENT__DRAIN_MS": "0",
        "FLEETPULSE_AGENT__HOST": f"host-{os.getpid()}",  # another agent of this machine would be noted, too
        "FLEETPULSE_AGENT__RECEIVER__SOCKET": str(tmp_path / "a.sock"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetpulse", "agent", "--health-port", "0"],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        health = f"http://127.0.0.1:{lines_of(process, 'health endpoints are up')['port']}"
        eventually(lambda: "note" in ready(health))
        note, figures = ready(health)["note"], text_of(f"{health}/metrics")
        blocked.unlink()
        eventually(lambda: "note" not in ready(health), within_s=60.0)
        eventually(lambda: 'fleetpulse_edge_events_total{topic="host.samples"}' in text_of(f"{health}/metrics"))
        process.send_signal(signal.SIGTERM)
        status = process.wait(90)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()

    assert "NotADirectoryError" in note
    assert "fleetpulse_edge_publisher_down 1.0" in figures
    assert status == 0


async def test_a_stream_outlives_a_disk_that_cannot_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened before the failure, ended after it, byte for byte; both requests are in the spool in the end."""
    go_on = asyncio.Event()

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        if got.header("x-request-id") == b"short":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))
            return
        writer.write(STREAM_HEAD + chunk(EVENTS[0]))
        await go_on.wait()
        writer.write(b"".join(map(chunk, EVENTS[1:])) + b"0\r\n\r\n")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(proxy, "quiet_collector", lambda: None)
    monkeypatch.setattr(proxy, "DRAIN_S", 0.0)
    watched = Watched()
    async with engines_of(script) as (engine,):
        config = load(
            {
                "proxy.upstreams": ({"url": engine.url},),
                "proxy.port": 0,
                "kafka.bootstrap": "127.0.0.1:9",
                "proxy.engines": "off",
            }
        )
        serving = asyncio.create_task(proxy._serve(config, tmp_path / "spool", watched))
        await until(lambda: serving.done() or (watched.server and watched.server.serving))
        reader, writer = await asyncio.open_connection("127.0.0.1", watched.server.port)  # type: ignore[union-attr]
        writer.write(post(chat(), headers=b"X-Request-ID: long\r\nConnection: close\r\n"))
        began = await reader.readuntil(EVENTS[0] + b"\r\n")
        with monkeypatch.context() as broken:
            broken.setattr(segment_log, "sync_data", fail)
            short = await exchange(watched, b"X-Request-ID: short\r\nConnection: close\r\n")
            await until(watched.note)
            note, why = watched.note(), watched.ready()
            go_on.set()
            rest = await asyncio.wait_for(reader.read(), 10)
        await until(lambda: watched.note() is None)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 30)
        writer.close()

    assert short.endswith(ANSWER)
    assert (began + rest).partition(b"\r\n\r\n")[2] == b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
    assert note is not None
    assert "Input/output error" in note
    assert why is None
    assert {row["request_id"] for row in rows_in(tmp_path / "spool")["llm.requests"]} == {"short", "long"}


async def exchange(watched: Watched, headers: bytes) -> bytes:
    """A whole answer of the proxy."""
    assert watched.server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", watched.server.port)
    writer.write(post(chat(stream=False), headers=headers))
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer
