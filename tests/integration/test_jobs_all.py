"""``fleetpulse jobs all`` as a process: every job a child that is ready, comes back, and ends with it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fleetpulse.services.jobs_and_sink import JOBS
from runtime.config import KafkaConfig
from tests.integration.installation import variables_of
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

READY_WITHIN_S = 200.0


def is_ready(port: int) -> bool:
    """Whether a job answers that every partition it has is live."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def eventually(holds: Callable[[], object], within_s: float, what: str) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until_s:
            pytest.fail(f"not within {within_s} s: {what}")
        time.sleep(0.1)


class Jobs:
    """The process, its children by job, and their ports."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.first_port = consecutive_ports(len(JOBS))
        words = ["jobs", "all", "--shell", "bare", "--name", f"w{secrets.token_hex(4)}"]
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fleetpulse", *words, "--health-port", str(self.first_port)],
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stderr=said,
            )

    @property
    def ports(self) -> list[int]:
        return [self.first_port + place for place in range(len(JOBS))]

    def children(self) -> dict[str, psutil.Process]:
        """By job; what has just ended has no command line any more."""
        found = [(child, _words(child)) for child in psutil.Process(self.process.pid).children()]
        return {words[words.index("jobs") + 1]: child for child, words in found if "jobs" in words}

    def logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-2_000:]}" for path in self.folder.glob("log/*.log"))


def _words(child: psutil.Process) -> list[str]:
    try:
        return child.cmdline()
    except psutil.Error:
        return []


def consecutive_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(1_000):
        first, *rest = unused_ports(count)
        if rest == [first + place for place in range(1, count)]:
            return first
    pytest.fail(f"no {count} free ports in a row")


@pytest.fixture
def jobs(own_kafka: KafkaConfig, tmp_path: Path) -> Iterator[Jobs]:
    """Running on topics of their own; ended for good whatever a test does."""
    settings = {"FLEETPULSE_DATA_DIR": str(tmp_path), **variables_of(own_kafka)}
    running = Jobs(tmp_path, settings)
    try:
        yield running
    finally:
        for process in [*running.children().values()] if running.process.poll() is None else []:
            process.kill()
        running.process.kill()
        running.process.wait()


def test_all_jobs_are_ready_come_back_and_end_together(jobs: Jobs) -> None:
    """Ports one after the other; a job that was killed is started again, the others go on; SIGTERM ends all, none
    of them has to be killed, and 0."""
    eventually(lambda: all(map(is_ready, jobs.ports)), READY_WITHIN_S, f"all ready\n{jobs.logs()}")
    before = jobs.children()
    before["alerts"].send_signal(signal.SIGKILL)
    eventually(
        lambda: jobs.children().get("alerts") not in (None, before["alerts"]),
        READY_WITHIN_S,
        "the job is started again",
    )
    eventually(lambda: all(map(is_ready, jobs.ports)), READY_WITHIN_S, f"ready again\n{jobs.logs()}")
    after = jobs.children()

    jobs.process.send_signal(signal.SIGTERM)
    code = jobs.process.wait(READY_WITHIN_S)
    said = jobs.said.read_text()

    assert sorted(before) == sorted(after) == sorted(JOBS)
    assert [job for job in JOBS if before[job].pid != after[job].pid] == ["alerts"]
    assert code == 0, jobs.logs()
    assert "jobs run" in said
    assert "is killed" not in said
    assert [job for job, child in after.items() if child.is_running()] == []
    assert [port for port in jobs.ports if is_ready(port)] == []
