from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.chaos import disk_shim
from lab.chaos.disk_shim import FaultyDisk
from schemas.errors import FleetpulseError

PROGRAM = """
import json, os, sys, time
folder = sys.argv[1]
descriptor = os.open(folder + "/kept", os.O_RDWR | os.O_CREAT)
def hits():
    path = os.environ["FAULTY_HITS"]
    return open(path).read().split().count(str(os.getpid())) if os.path.exists(path) else 0
def tried(call):
    before, began_s = hits(), time.monotonic()
    try:
        call()
    except OSError as error:
        return error.errno
    return time.monotonic() - began_s >= 0.2 and hits() > before
for _ in sys.stdin:
    calls = [
        lambda: os.write(descriptor, b"a"),
        lambda: os.pwrite(descriptor, b"a", 0),
        lambda: os.fdatasync(descriptor),
        lambda: os.close(os.open(folder + "/new", os.O_WRONLY | os.O_CREAT)),
        lambda: open(folder + "/kept", "rb").close(),
    ]
    print(json.dumps(list(map(tried, calls))), flush=True)
"""


def test_a_disk_fails_as_its_file_says_below_its_folder_alone(tmp_path: Path) -> None:
    """Write, positioned write, sync, new file, reading: whether each was slowed, or its error; good at the end."""
    disk = FaultyDisk(tmp_path / "disk", tmp_path)
    found: dict[str, dict[str, list[object]]] = {}
    pids: dict[str, int] = {}
    for name in ("disk", "other"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / name)]
        environment = os.environ | disk.environment
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for fault in ("none", "full", "read-only", "failing", "slow 200", "none"):
                disk.set(fault)
                process.stdin.write("\n")
                process.stdin.flush()
                found.setdefault(name, {})[fault] = json.loads(process.stdout.readline())
            process.stdin.close()
            pids[name] = process.pid

    good = [False] * 5
    assert found["disk"] == {
        "none": good,
        "full": [28, False, False, 28, False],
        "read-only": [30, 30, 30, 30, False],
        "failing": [False, False, 5, False, False],
        "slow 200": [False, False, True, False, False],
    }
    assert found["other"] == dict.fromkeys(found["disk"], good)
    assert {name: disk.hits(pid) for name, pid in pids.items()} == {"disk": 8, "other": 0}


def test_without_a_compiler_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started."""
    monkeypatch.setattr(disk_shim, "compiler", lambda: None)

    with pytest.raises(FleetpulseError, match="C compiler"):
        FaultyDisk(tmp_path, tmp_path)
