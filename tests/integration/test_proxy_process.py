"""``fleetpulse proxy`` as a process: flags in, requests through, events on the disk spool, an end on request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.proxy_rig import ANSWER
from tests.integration.spools import rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


class Engine(BaseHTTPRequestHandler):
    """Answers every POST alike."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def environment(folder: Path) -> dict[str, str]:
    """Without Kafka, and without whatever agent this machine has or had: its file of engines, left by one that was
    killed, holds the first rows back until an engine's agent can have found it."""
    ours = {"DATA_DIR": str(folder), "KAFKA__BOOTSTRAP": "127.0.0.1:9", "SOCKET": str(folder / "agent.sock")}
    return {**os.environ, **{f"FLEETPULSE_{name}": value for name, value in ours.items()}}


def lines_of(process: subprocess.Popen[str], until: str) -> dict[str, Any]:
    """The facts of the first log line with this event."""
    assert process.stderr is not None
    for line in process.stderr:
        told: dict[str, Any] = json.loads(line)
        if told["event"] == until:
            return told
    pytest.fail(f"the proxy ended before it said {until!r}")


def text_of(url: str) -> str:
    """What is told there, in good health."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_events_are_on_disk_when_the_proxy_is_asked_to_end(tmp_path: Path) -> None:
    """Without Kafka they wait in the spool; a log line was told of each; Ctrl-C does not wait for Kafka."""
    engine = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{engine.server_address[1]}/v1"
    words = ["proxy", "--upstream", f"{url}=2", "--port", "0", "--log-requests", "--health-port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetpulse", *words, "--spool", str(tmp_path / "spool")],
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        health = lines_of(process, "health endpoints are up")["port"]
        port = lines_of(process, "proxy is up")["port"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            b'{"model":"m","messages":[{"content":"my secret"}]}',
            {"Authorization": "Bearer sk-secret", "X-Request-ID": "asked-1"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            body = answer.read()
        told = lines_of(process, "request")["request"]
        ready, figures = (text_of(f"http://127.0.0.1:{health}/{page}") for page in ("readyz", "metrics"))
        process.send_signal(signal.SIGTERM)
        lines_of(process, "stopping")
        wait_for_end(process, tmp_path / "spool")
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        engine.shutdown()
        engine.server_close()

    (row,) = rows_in(tmp_path / "spool")["llm.requests"]
    assert body == ANSWER
    assert (row["request_id"], row["status"], row["input_tokens"], row["output_tokens"]) == ("asked-1", "ok", 7, 3)
    assert (told["request_id"], told["tenant"], told["output_tokens"]) == ("asked-1", row["tenant"], 3)
    assert json.loads(ready) == {"ok": True, "why": None}
    assert 'fleetpulse_proxy_requests_total{api="chat",status="200"} 1.0' in figures
    assert "secret" not in json.dumps(told) + repr(row)


def wait_for_end(process: subprocess.Popen[str], spool: Path) -> None:
    """The first signal puts the events on disk, Ctrl-C ends the wait for Kafka."""
    assert process.stderr is not None
    for _ in range(100):
        if any(b"asked-1" in file.read_bytes() for file in spool.rglob("*") if file.is_file()):
            break
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 128 + signal.SIGINT
