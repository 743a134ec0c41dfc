"""Processes for the faults at the edge: a mock engine, and a proxy and an agent as they are shipped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from lab.chaos.clock_shim import SteppedClock
from lab.chaos.disk_shim import FaultyDisk
from schemas.errors import FleetpulseError

TOKENS, GAP_MS = 60, 50.0
"""A stream of three seconds: each fault begins and ends in the middle of many."""
START_WITHIN_S, BACK_WITHIN_S, STOP_WITHIN_S = 90.0, 60.0, 60.0
LOOK_EVERY_S = 0.2


class Part:
    """One process with health checks; its log is a file, whose lines say where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, *, serves: bool) -> None:
        self.process, self._log, self._serves = process, log, serves
        self._health = 0
        self.port = 0
        self.memory_bytes_max = 0

    def wait_until_up(self) -> None:
        """Raises FleetpulseError when it does not come up."""
        until_s = time.monotonic() + START_WITHIN_S
        while time.monotonic() < until_s and self.process.poll() is None:
            for line in self._log.read_text().splitlines():
                found = json.loads(line) if line.startswith("{") else {}
                if found.get("event") == "health endpoints are up":
                    self._health = found["port"]
                if found.get("event") == "proxy is up":
                    self.port = found["port"]
            if self._health and (self.port or not self._serves) and self._ask() == (True, None):
                return
            time.sleep(LOOK_EVERY_S)
        raise FleetpulseError(f"a part does not come up; the end of its log:\n{self._log.read_text()[-2_000:]}")

    def _ask(self) -> tuple[bool, str | None]:
        """Whether it is ready, and its note."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=5) as response:
                found = json.loads(response.read())
        except urllib.error.HTTPError as error:
            return False, error.read().decode()
        except OSError as error:
            return False, str(error)
        return bool(found["ok"]), found.get("note")

    def look(self) -> str | None:
        """What readiness says that is not as it should be; takes note of the memory too."""
        with contextlib.suppress(psutil.Error):
            self.memory_bytes_max = max(self.memory_bytes_max, psutil.Process(self.process.pid).memory_info().rss)
        ok, note = self._ask()
        return note if note is not None or ok else "not ready"

    def is_back(self) -> bool:
        """Whether all is well again, within a time."""
        until_s = time.monotonic() + BACK_WITHIN_S
        while time.monotonic() < until_s:
            if self.look() is None:
                return True
            time.sleep(LOOK_EVERY_S)
        return False

    def logged(self, text: str) -> bool:
        """Whether the text stands in its log."""
        return text in self._log.read_text()

    def stop(self) -> None:
        """End it by SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_WITHIN_S)


@contextlib.contextmanager
def engine() -> Iterator[int]:
    """The port of a mock engine."""
    pace = json.dumps({"tokens": TOKENS, "first_ms": GAP_MS, "gap_ms": GAP_MS})
    command = [sys.executable, "-m", "lab.bench.proxy_engine", pace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextlib.contextmanager
def _part(
    words: Sequence[str],
    folder: Path,
    shim: FaultyDisk | SteppedClock | None,
    more: Mapping[str, str],
    descriptors: int | None = None,
) -> Iterator[Part]:
    log = folder / f"{words[0]}.log"
    environment = {
        **os.environ,
        **({} if shim is None else shim.environment),
        "FLEETPULSE_DATA_DIR": str(folder / "disk"),
        **more,
    }
    spool = ("--spool", str(folder / "disk" / words[0]), "--health-port", "0")

    with log.open("wb") as errors:
        limited = () if descriptors is None else ("sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors))
        command = [*limited, sys.executable, "-m", "fleetpulse", *words, *spool]
        process = subprocess.Popen(command, env=environment, stderr=errors)
    try:
        yield Part(process, log, serves=words[0] == "proxy")
    finally:
        process.kill()
        process.wait()


def proxy(
    folder: Path, shim: FaultyDisk | SteppedClock | None, kafka: Mapping[str, str], descriptors: int | None, engine: int
) -> contextlib.AbstractContextManager[Part]:
    words = ("proxy", "--upstream", f"http://127.0.0.1:{engine}/v1", "--port", "0")
    more = {"FLEETPULSE_PROXY__ENGINES": "off", **kafka}
    return _part(words, folder, shim, more, descriptors)


@contextlib.contextmanager
def agent(folder: Path, shim: FaultyDisk | SteppedClock | None, kafka: Mapping[str, str]) -> Iterator[Part]:
    """Its socket is in a folder with a short name: the system takes 100 bytes, and ``folder`` may be anywhere. Its host
    has the same name: another agent of one host is a fault of its own, and several runs may go on beside each other."""
    with tempfile.TemporaryDirectory(prefix="fleetpulse-") as short:
        more = {
            "FLEETPULSE_AGENT__DRAIN_MS": "0",
            "FLEETPULSE_AGENT__HOST": Path(short).name,
            **kafka,
            "FLEETPULSE_AGENT__RECEIVER__SOCKET": f"{short}/agent.sock",
        }
        with _part(("agent",), folder, shim, more) as part:
            yield part
