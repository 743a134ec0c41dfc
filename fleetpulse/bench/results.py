"""Results that can be compared later: figures with the machine, the versions, the seed and the command beside them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psutil

RESULTS = Path("bench") / "results"
_FOLDERS = ("--data-dir", "--results")
_PACKAGES = ("aiokafka", "chdb-core", "clickhouse-connect", "faust-streaming", "numba", "numpy", "orjson")


def surroundings(seed: int) -> dict[str, Any]:
    """What a figure depends on beside the code."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_of(sys.argv[1:]),
        "seed": seed,
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
            "load_1m": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def command_of(arguments: Sequence[str]) -> str:
    """The command as another machine would give it: without the folders of this one."""
    kept, left = [], iter(arguments)
    for one in left:
        if one in _FOLDERS:
            next(left, None)
        elif not one.startswith(tuple(f"{name}=" for name in _FOLDERS)):
            kept.append(one)
    return " ".join(("fleetpulse", *kept))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down; keys as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _key(key: Any) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def keep(name: str, result: dict[str, Any], folder: Path | None) -> Path | None:
    """Write a result to ``folder`` (None: ``bench/results`` of a checkout, elsewhere nothing is kept)."""
    if folder is None and not RESULTS.parent.is_dir():
        return None
    folder = folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_bytes(orjson.dumps(plain(result), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    return path
