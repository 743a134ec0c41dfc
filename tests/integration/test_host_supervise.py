"""The supervisor, with real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.integration

SUPERVISE = """
import sys
from stream_jobs.host.supervise import supervise
sys.exit(supervise([sys.executable, *sys.argv[1:]], restart_after_s=0.2))
"""


def supervised(*child: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SUPERVISE, *child], cwd=ROOT)


def lines_of(path: Path, count: int) -> list[str]:
    """The lines of a file, once there are so many."""
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        if path.exists() and len(lines := path.read_text().splitlines()) >= count:
            return lines
        time.sleep(0.05)
    pytest.fail(f"{path} does not get {count} lines")


def test_a_process_that_ends_is_started_again_until_sigterm(tmp_path: Path) -> None:
    """Whatever its exit code was."""
    told = tmp_path / "told"
    child = f"open({str(told)!r}, 'a').write('begun\\n'); raise SystemExit(70)"
    supervisor = supervised("-c", child)
    try:
        lines = lines_of(told, 3)
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(10)
    finally:
        supervisor.kill()

    assert lines[:3] == ["begun"] * 3


def test_sigterm_is_passed_on_and_the_childs_code_returned(tmp_path: Path) -> None:
    """The child gets to commit what it folded."""
    told = tmp_path / "told"
    child = (
        "import signal, sys, time\n"
        f"told = open({str(told)!r}, 'a', buffering=1)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (told.write('ended\\n'), sys.exit(3)))\n"
        "told.write('begun\\n')\n"
        "time.sleep(60)\n"
    )
    supervisor = supervised("-c", child)
    try:
        lines_of(told, 1)
        supervisor.send_signal(signal.SIGTERM)
        code = supervisor.wait(10)
    finally:
        supervisor.kill()

    assert code == 3
    assert told.read_text().splitlines() == ["begun", "ended"]
