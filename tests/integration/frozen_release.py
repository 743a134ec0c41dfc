"""0.1.0 as its users have it: built as a wheel from its source and installed, on the packages of this environment."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "6b5fd39a84e8810348b00d7935e0ce546f0b361a"
SOURCE = ROOT / "tests" / "data" / "releases" / "0.1.0" / "source.tar.xz"
KEPT = ROOT / ".fleetpulse" / "releases"
"""Kept between sessions with what numba compiles: half a minute of processor time."""
COMPILE = "import sinks.warm, stream_jobs.windows.warm; stream_jobs.windows.warm.warm(); sinks.warm.warm()"


def installed() -> dict[str, str]:
    """The environment in which ``python -m fleetpulse`` is 0.1.0. Built where it is not there yet."""
    what = "\n".join((hashlib.sha256(SOURCE.read_bytes()).hexdigest(), sys.version, sys.prefix))
    folder = KEPT / f"0.1.0-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(folder)
            _run([sys.executable, "-c", COMPILE], folder, _environment(folder))
            (folder / "complete").touch()
    return _environment(folder)


def _environment(folder: Path) -> dict[str, str]:
    # Without the safe path a module in the working folder, which is today's, would come first.
    return {"PYTHONPATH": str(folder / "installed"), "PYTHONSAFEPATH": "1"}


def _build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(SOURCE) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder / "source", filter="data")
        else:  # Python 3.11.2 of Debian: what is unpacked is our own
            archive.extractall(folder / "source")
    wheels = folder / "wheels"
    _run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)], folder / "source"
    )
    (wheel,) = wheels.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    _run([*pip, "--target", str(folder / "installed"), str(wheel)], folder)


def _run(command: Sequence[str], cwd: Path, environment: Mapping[str, str] = MappingProxyType({})) -> None:
    full = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=full, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
