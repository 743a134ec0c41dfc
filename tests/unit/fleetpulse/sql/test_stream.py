"""Answers of any size as the server writes them: where they go, and what is said of one that is cut off.

Covers fleetpulse.sql.server_error.
"""

from __future__ import annotations

import io
import os
import threading
from http.client import HTTPResponse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.sql import database as databases
from fleetpulse.sql import query as asking
from fleetpulse.sql.query import Query, stream
from fleetpulse.sql.server_error import said
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
ERROR = b"Code: 395. DB::Exception: Value passed to 'throwIf' is non-zero. (FUNCTION_THROW) (version 26.5.1)\n"
CUT = b"\r\n__exception__\r\nabcdef\r\n" + ERROR + b"93 abcdef\r\n__exception__\r\n"
WHOLE = b'"n"\n1\n2\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def response(*sent: bytes) -> urllib3.HTTPResponse:
    """These bytes as a client reads them."""
    received = HTTPResponse(SimpleNamespace(makefile=lambda _mode: io.BytesIO(HEAD + b"".join(sent))))  # type: ignore[arg-type]
    received.begin()
    return urllib3.HTTPResponse(received, headers=dict(received.getheaders()), preload_content=False)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sends the bytes of an answer through a real client."""

    def to(output: Path | None, *sent: bytes) -> None:
        client = SimpleNamespace(raw_stream=lambda *_, **__: response(*sent), close=lambda: None)
        monkeypatch.setattr(asking, "connect", lambda _login: client)
        stream(ClickHouseConfig(), Query("SELECT 1", {}), "CSVWithNames", output)

    return to


def test_a_file_appears_when_it_is_whole(answer: Any, tmp_path: Path) -> None:
    """One that was there is replaced; nothing else is left."""
    file = tmp_path / "rows.csv"
    file.write_text("old")

    answer(file, chunk(WHOLE[:4]), chunk(WHOLE[4:]), b"0\r\n\r\n")

    assert file.read_bytes() == WHOLE
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("end", "says"),
    [(chunk(CUT), r"Code: 395. DB::Exception: Value .* \(FUNCTION_THROW\)$"), (b"fff\r\n", "stopped in the middle")],
    ids=["said", "not said"],
)
def test_what_the_server_says_behind_its_rows_is_the_error(answer: Any, tmp_path: Path, end: bytes, says: str) -> None:
    """In a sentence; no file is left, and an older one stays."""
    file = tmp_path / "rows.csv"
    file.write_text("old")

    with pytest.raises(FleetpulseError, match=says):
        answer(file, chunk(WHOLE), end)

    assert (file.read_text(), [*tmp_path.iterdir()]) == ("old", [file])


def test_no_name_in_a_csv_file_is_a_formula(answer: Any, tmp_path: Path) -> None:
    """Wherever the pieces end in which it comes."""
    file = tmp_path / "rows.csv"

    answer(file, chunk(b'"tenant","n"\n"'), chunk(b'=1+1",-1\n'), b"0\r\n\r\n")

    assert file.read_bytes() == b'"tenant","n"\n"\'=1+1",-1\n'


def test_an_answer_as_native_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for its end in a file of the server's may be short; what is cut off is an error."""
    sent = [chunk(b"\x01\x02"), chunk(b"\x03"), b"0\r\n\r\n"]
    client = SimpleNamespace(raw_stream=lambda *_, **__: response(*sent), raw_query=lambda *_, **__: b"")
    monkeypatch.setattr(databases, "connect", lambda *_, **__: client)
    database = databases.Database(ClickHouseConfig())

    assert database.native("SELECT 1") == b"\x01\x02\x03"

    sent[-1] = chunk(CUT)
    with pytest.raises(FleetpulseError, match=r"^Code: 395. DB::Exception: Value .* \(FUNCTION_THROW\)$"):
        database.native("SELECT 1")


def test_an_error_is_found_behind_rows() -> None:
    """Without it there is none."""
    assert said(WHOLE + CUT).startswith("Code: 395. DB::Exception: Value passed")
    assert said(WHOLE) == ""


def test_a_link_stays_and_what_it_leads_to_is_replaced(answer: Any, tmp_path: Path) -> None:
    """Also where nothing is there yet."""
    link, file = tmp_path / "link.csv", tmp_path / "rows.csv"
    link.symlink_to(file)

    answer(link, chunk(WHOLE), b"0\r\n\r\n")

    assert (link.is_symlink(), file.read_bytes()) == (True, WHOLE)


def test_a_pipe_is_written_and_stays(answer: Any, tmp_path: Path) -> None:
    """As a device is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()

    answer(pipe, chunk(WHOLE), b"0\r\n\r\n")

    reader.join(10)
    assert (read, pipe.is_fifo()) == ([WHOLE], True)


def test_a_dash_is_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no file of that name."""
    outputs: list[Path | None] = []
    monkeypatch.setattr(asking, "stream", lambda _login, _query, _format, output: outputs.append(output))

    done = CliRunner().invoke(app, ["query", "SELECT 1", "--format", "csv", "-o", "-"])

    assert (done.exit_code, outputs) == (0, [None])
