"""The shell of remote write.

Covers fleetpulse.commands.export.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.services.export import Posting
from runtime.remote_write_config import RemoteWriteConfig
from schemas.errors import ConfigError


def test_without_a_receiver_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The text names the setting and the flag."""
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["export", "prometheus", "--once"])

    assert isinstance(done.exception, ConfigError)
    assert "remote_write.url" in str(done.exception)
    assert "--url" in str(done.exception)


@pytest.mark.enable_socket
def test_a_body_is_posted_as_the_protocol_asks() -> None:
    """With its headers and the token; the answer comes back; who is unavailable raises OSError."""
    seen: list[tuple[str, str | None, str | None, str | None, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            names = ("content-encoding", "x-prometheus-remote-write-version", "authorization")
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, *(self.headers[name] for name in names), body))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b"out of order" + b"!" * 1_000)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    config = RemoteWriteConfig(url=f"http://127.0.0.1:{server.server_port}/api/v1/write", bearer_token="hush")  # type: ignore[arg-type]
    with Posting(config) as post:
        status, text = post(b"packed")
        thread.join()
        server.server_close()
        with pytest.raises(OSError, match="refused"):
            post(b"packed")

    assert (status, text) == (400, "out of order" + "!" * 288)
    assert seen == [("/api/v1/write", "snappy", "0.1.0", "Bearer hush", b"packed")]
