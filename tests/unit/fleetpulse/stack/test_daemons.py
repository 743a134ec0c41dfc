import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetpulse.stack import clickhouse, daemons
from runtime.live_process import Process, alive, started
from schemas.errors import StackError

SLEEP = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = daemons.spawn([sys.executable, "-c", SLEEP, str(tmp_path)], tmp_path / "log")
    yield process
    daemons.kill(process)


def test_a_daemon_lives_in_a_session_of_its_own(sleeper: Process) -> None:
    """Closing the terminal does not end it."""
    assert os.getsid(sleeper.pid) == sleeper.pid


def test_a_running_daemon_is_recognised(sleeper: Process) -> None:
    """By id and moment of start."""
    assert alive(sleeper)


def test_another_process_with_the_same_id_is_not_ours(sleeper: Process) -> None:
    """An id that was given to somebody else is never touched."""
    assert not alive(replace(sleeper, started="earlier"))


def test_nobody_is_not_alive() -> None:
    """A part that never started has no process."""
    assert not alive(None)


def test_a_daemon_is_found_by_its_mark(sleeper: Process, tmp_path: Path) -> None:
    """When its starter died before it could note the id. It goes on before the arguments of what it runs are there."""
    assert daemons.wait_until(lambda: daemons.find(str(tmp_path)) == sleeper, 10.0)
    assert daemons.find(f"{tmp_path}-other") is None


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("python -I -S /opt/a/serve_clickhouse.py /opt/a/_chdb.abi3.so /data/clickhouse", True),
        ("python -I -S /opt/a/serve_clickhouse.py /opt/a/_chdb.abi3.so /data/other/clickhouse", False),
        ("rsync -a /data/clickhouse backup:", False),
        ("du -sh /data/clickhouse", False),
    ],
)
def test_a_folder_in_a_command_line_makes_nobody_a_server(line: str, ours: bool) -> None:
    """What copies or measures the folder is not ended with the stack; a server of a former version is."""
    mark = clickhouse.mark(Path("/data"))

    assert daemons.is_marked(line.split(), mark, clickhouse.PROGRAM) == ours


def test_a_process_of_another_user_is_not_ours(
    sleeper: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be ended either."""
    assert daemons.wait_until(lambda: daemons.find(str(tmp_path)) == sleeper, 10.0)

    monkeypatch.setattr(os, "getuid", lambda: 12_345)

    assert daemons.find(str(tmp_path)) is None


def test_a_stopped_daemon_is_gone(sleeper: Process) -> None:
    """SIGTERM is enough for one that listens, and no zombie is left."""
    assert daemons.stop(sleeper, 10.0)
    assert not alive(sleeper)


def test_a_frozen_daemon_is_stopped_too(sleeper: Process) -> None:
    """SIGSTOP does not keep it."""
    os.kill(sleeper.pid, 19)

    assert daemons.stop(sleeper, 10.0)


def test_a_deaf_daemon_is_killed(tmp_path: Path) -> None:
    """What does not end in time is ended, and the caller knows."""
    process = daemons.spawn([sys.executable, "-c", DEAF], tmp_path / "log")
    assert daemons.wait_until(lambda: "deaf" in daemons.tail(tmp_path / "log"), 10.0)

    assert not daemons.stop(process, 0.2)
    assert not alive(process)


def test_a_daemon_gets_no_secrets_of_its_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment holds what is needed and nothing else."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    code = "import os; print(sorted(os.environ), flush=True)"

    process = daemons.spawn([sys.executable, "-I", "-c", code], tmp_path / "log", {"MORE": "1"})
    assert daemons.wait_until(lambda: not alive(process), 10.0)

    assert "SECRET" not in daemons.tail(tmp_path / "log")
    assert "MORE" in daemons.tail(tmp_path / "log")


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(StackError, match="/no/such/program"):
        daemons.spawn(["/no/such/program"], tmp_path / "log")


def test_a_dead_child_is_not_alive() -> None:
    """A zombie has an id but does not run."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    moment = started(child.pid)
    child.wait()

    assert not alive(Process(child.pid, moment or "gone"))


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    """For an error message; a missing log has none."""
    (tmp_path / "log").write_text("\n".join(str(number) for number in range(100)))

    assert daemons.tail(tmp_path / "log", 3) == "97\n98\n99"
    assert daemons.tail(tmp_path / "none") == ""
