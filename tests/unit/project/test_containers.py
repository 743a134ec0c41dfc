"""Whether integration tests run in containers."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests import containers

# A Docker engine is asked over a Unix socket.
pytestmark = pytest.mark.enable_socket


class Engine(BaseHTTPRequestHandler):
    """As much of one as says that it is there."""

    def do_GET(self) -> None:
        body = b"OK" if self.path.endswith("/_ping") else b'{"ApiVersion": "1.51"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a Unix socket"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine would listen; a `docker` that answers is there, as podman brings one."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    return tmp_path / "socket"


@pytest.fixture
def engine(place: Path) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(str(place), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.usefixtures("engine")
def test_an_engine_that_answers_is_one() -> None:
    """At the address at which containers would be asked for."""
    assert containers.engine_answers()


def test_a_docker_without_an_engine_is_none() -> None:
    """What the command says does not count."""
    assert not containers.engine_answers()
