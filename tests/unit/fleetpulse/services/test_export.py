"""The shell of remote write.

Covers fleetpulse.commands.export.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.export.remote import RemoteWrite, Rows
from fleetpulse.export.series import COLUMNS, WINDOW_MS
from fleetpulse.services import export
from fleetpulse.services.export import Asking, Posting, SamplesRejectedError, _send_once, _until_stopped
from runtime.config import Config
from runtime.counters import Counters
from runtime.health import Readiness
from runtime.remote_write_config import RemoteWriteConfig
from runtime.runbook import Cause
from schemas.errors import ConfigError, UnavailableError


class EveryWindow:
    """One row of each query in every window."""

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        names = ("window_ms", *COLUMNS[query])
        return names, [(at_ms, *range(len(COLUMNS[query]))) for at_ms in range(from_ms, to_ms, WINDOW_MS)]

    def first_ms(self, query: str, from_ms: int, to_ms: int) -> int | None:
        return from_ms


def test_without_a_receiver_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The text names the setting and the flag."""
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["export", "prometheus", "--once"])

    assert isinstance(done.exception, ConfigError)
    assert "remote_write.url" in str(done.exception)
    assert "--url" in str(done.exception)


def test_without_the_file_of_its_token_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The export alone needs it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETPULSE_REMOTE_WRITE__BEARER_TOKEN_FILE", "absent")

    done = CliRunner().invoke(app, ["export", "prometheus", "--once", "--url", "http://prometheus:9090/api/v1/write"])

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("remote_write.bearer_token_file = 'absent': must be a readable file")


def test_an_answer_that_was_cut_short_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows would be taken for done."""
    short = SimpleNamespace(column_names=("n",), result_rows=[(1,)], summary={"result_rows": "2"})
    client = SimpleNamespace(query=lambda *_asked, **_more: short)
    monkeypatch.setattr("fleetpulse.services.export.connect", lambda _config: client)

    with pytest.raises(UnavailableError, match="1 of 2 rows came"):
        Asking(Config())(next(iter(COLUMNS)), 0, 1)


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


async def test_a_receiver_that_lets_nobody_in_is_no_readiness(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong token shows at once, and no window is given up for it."""
    held, counters = asyncio.Event(), Counters()

    class Noticed(Readiness):
        def hold(self, part: str, why: str, cause: Cause | None = None) -> None:
            super().hold(part, why, cause)
            held.set()

    readiness = Noticed(export="nothing sent yet")
    writer = RemoteWrite(RemoteWriteConfig(), EveryWindow(), lambda _: (401, "who?"), tmp_path / "position", counters)

    running = asyncio.create_task(_until_stopped(writer, readiness))
    await held.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert readiness.why() == "status 401: who?"
    assert [record.message for record in caplog.records] == ["export failing, retrying"]
    assert counters.value("export_samples", outcome="rejected") == 0
    assert not (tmp_path / "position").exists()


def _behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int = 204, series_max: int = 100) -> RemoteWrite:
    """With two minutes and a half to send, by a clock that stands still."""
    monkeypatch.setattr(export, "SystemClock", lambda: SimpleNamespace(now_ms=lambda: 1_000_000))
    (tmp_path / "position").write_text("830000")
    config = RemoteWriteConfig(series_max=series_max)
    return RemoteWrite(config, EveryWindow(), lambda _: (status, "why"), tmp_path / "position", Counters())


def test_once_sends_all_that_has_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Round by round."""
    caplog.set_level(logging.INFO)

    _send_once(_behind(tmp_path, monkeypatch))

    (line,) = (record for record in caplog.records if record.message == "windows exported")
    samples = 15 * sum(map(len, COLUMNS.values()))
    assert (line.__dict__["from_ms"], line.__dict__["to_ms"], line.__dict__["samples"]) == (830_000, 980_000, samples)
    assert (tmp_path / "position").read_text() == "980000\n"


def test_once_says_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Samples that were rejected fail the command once all was sent; those beyond ``series_max`` are in the log."""
    caplog.set_level(logging.INFO)
    of_a_window = sum(map(len, COLUMNS.values()))

    with pytest.raises(SamplesRejectedError, match=f"rejected {15 * (of_a_window - 1)} of {15 * (of_a_window - 1)} "):
        _send_once(_behind(tmp_path, monkeypatch, 400, series_max=of_a_window - 1))

    (line,) = (record.__dict__ for record in caplog.records if record.message == "windows exported")
    assert (line["samples"], line["rejected"], line["dropped"]) == (0, 15 * (of_a_window - 1), 15)
    assert (tmp_path / "position").read_text() == "980000\n"


async def test_the_rounds_of_a_pause_are_not_a_window_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export waits once it has caught up."""
    pauses = list[float]()
    waited = asyncio.Event()

    async def wait_for(stopped: Coroutine[Any, Any, bool], pause_s: float) -> None:
        stopped.close()
        pauses.append(pause_s)
        if len(pauses) == 3:
            waited.set()
            await asyncio.Event().wait()
        raise TimeoutError

    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    running = asyncio.create_task(_until_stopped(_behind(tmp_path, monkeypatch), Readiness()))
    await waited.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert pauses == [0.0, 0.0, 10.0]
