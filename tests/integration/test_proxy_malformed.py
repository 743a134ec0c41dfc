"""A corpus of malformed HTTP against the proxy as a process: a 4xx and a count for each, nothing for the engine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.test_proxy_process import environment, lines_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
CASES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parents[1] / "data" / "malformed_http.yaml").read_text(), yaml.CSafeLoader
)
GOOD = b"GET /v1/models HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n"


class Recording:
    """In an engine's place: keeps every byte that comes, and answers what ends like a head."""

    def __init__(self) -> None:
        self.bytes = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                self.bytes += data
                if data.endswith(b"\r\n\r\n"):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> None:
        self._listening.close()


@dataclass
class Target:
    """A proxy before the recording."""

    port: int
    health: int
    engine: Recording

    def send(self, data: bytes, piece_bytes: int | None = None) -> bytes:
        """What comes back until the proxy closes; sent in pieces of so many bytes, or in one."""
        got, size = b"", piece_bytes or len(data)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(ConnectionError):  # it was answered before its end, and closed
                for at in range(0, len(data), size):
                    client.sendall(data[at : at + size])
            with contextlib.suppress(ConnectionError):
                while part := client.recv(65_536):
                    got += part
        return got

    def counted(self) -> dict[str, float]:
        """``proxy_refused`` by reason."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
        mark = 'fleetpulse_proxy_refused_total{reason="'
        parts = [line.removeprefix(mark).split('"} ') for line in lines if line.startswith(mark)]
        return {reason: float(value) for reason, value in parts}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder, engine = tmp_path_factory.mktemp("malformed"), Recording()
    words = ["proxy", "--upstream", f"http://127.0.0.1:{engine.port}", "--port", "0", "--health-port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetpulse", *words, "--spool", str(folder / "spool")],
        env={**os.environ, **environment(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        health = lines_of(process, "health endpoints are up")["port"]
        yield Target(lines_of(process, "proxy is up")["port"], health, engine)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        engine.close()


@pytest.mark.parametrize("piece_bytes", [None, 1], ids=["in one", "byte by byte"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_malformed_requests_end_here(target: Target, case: dict[str, Any], piece_bytes: int | None) -> None:
    """One response, of the status that the case names, then the end; one count more; not a byte to the engine."""
    before = target.counted().get(case["reason"], 0)
    raw = target.send(case["send"].encode("latin-1"), piece_bytes)
    head = raw.partition(b"\r\n\r\n")[0]

    assert head.startswith(b"HTTP/1.1 %d " % case["status"])
    assert 400 <= case["status"] < 500
    assert raw.count(b"\r\nContent-Type: application/json\r\n") == 1
    assert target.counted()[case["reason"]] == before + 1
    assert target.engine.bytes == b""


def test_the_corpus_is_large() -> None:
    """The 38 that were known to be sound, and as many again; no case twice."""
    assert len({case["send"] for case in CASES}) == len(CASES) >= 76


def test_a_good_request_does_reach_the_engine(target: Target) -> None:
    """The recording records: else it would prove nothing."""
    target.engine.bytes = b""
    raw = target.send(GOOD)
    seen, target.engine.bytes = target.engine.bytes, b""

    assert raw.startswith(b"HTTP/1.1 200 ")
    assert seen.startswith(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % target.engine.port)
