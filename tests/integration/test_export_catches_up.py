"""After a long pause the export catches up in a real Prometheus (Debian's), which has newer samples of its own."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from fleetpulse.export.remote import RemoteWrite, Rows
from fleetpulse.export.series import COLUMNS, WINDOW_MS
from fleetpulse.services.export import Posting
from fleetpulse.stack import ports
from runtime.clock import SystemClock
from runtime.counters import Counters
from runtime.remote_write_config import RemoteWriteConfig
from schemas.limits import HOUR_MS

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

READY_WITHIN_S = 120.0
SCRAPES_ITSELF = """
global: {scrape_interval: 1s}
scrape_configs: [{job_name: self, static_configs: [{targets: ["127.0.0.1:%d"]}]}]
"""


class Windows:
    """One GPU in every window."""

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        times = range(from_ms, to_ms, WINDOW_MS) if query == "windows_by_gpu" else ()
        return ("window_ms", "gpu_uuid", *COLUMNS[query]), [(at_ms, "g", *[1] * len(COLUMNS[query])) for at_ms in times]

    def first_ms(self, query: str, from_ms: int, to_ms: int) -> int | None:
        return from_ms


def value_of(port: int, expression: str) -> float | None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}", timeout=5) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else None


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[int]:
    """Its port, once it has a sample of now."""
    program = shutil.which("prometheus")
    assert program is not None, "no Prometheus here: install Debian's prometheus"
    (port,) = ports.free_ports(1, start=secrets.randbelow(10_000))
    (tmp_path / "prometheus.yaml").write_text(SCRAPES_ITSELF % port)
    command = (
        program,
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
    )
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until_s = time.monotonic() + READY_WITHIN_S
            while not _scraped(port):
                assert time.monotonic() < until_s, (tmp_path / "log").read_text()
                time.sleep(0.2)
            yield port
        finally:
            process.terminate()


def _scraped(port: int) -> bool:
    try:
        return value_of(port, "up") == 1
    except OSError:
        return False


def test_every_window_of_a_pause_is_taken(prometheus: int, tmp_path: Path) -> None:
    """As many as are caught up by default; none is rejected."""
    now_ms = SystemClock().now_ms()
    (tmp_path / "position").write_text(str(now_ms // WINDOW_MS * WINDOW_MS - 2 * HOUR_MS))
    config = RemoteWriteConfig(url=f"http://127.0.0.1:{prometheus}/api/v1/write")

    with Posting(config) as post:
        writer = RemoteWrite(config, Windows(), post, tmp_path / "position", Counters())
        rounds = [writer.round(now_ms)]
        while writer.behind:
            rounds.append(writer.round(now_ms))

    windows = config.catch_up_ms // WINDOW_MS
    assert sum(done.sent for done in rounds) == windows * len(COLUMNS["windows_by_gpu"])
    assert sum(done.rejected for done in rounds) == 0
    assert value_of(prometheus, "count_over_time(fleetpulse_window_gpu_power_watts[2h])") == windows
