"""Flink for ``bench peers``: its jars (``peers-flink.sha256``, 180 MB, from Maven Central) and its compiled program."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleetpulse.stack.java import find_java
from schemas.errors import FleetpulseError

HERE = Path(__file__).resolve().parent
LOCK = HERE / "peers-flink.sha256"
PROGRAM = "PeersFlink"
FETCHED_AT_ONCE = 4
OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.nio", "java.base/java.time")
"""What Flink's own start script opens to reflection."""


def lock() -> dict[str, str]:
    """SHA-256 by Maven coordinates."""
    lines = (line.split() for line in LOCK.read_text().splitlines())
    return {coordinates: digest for digest, coordinates in lines}


def command(environments: Path, say: Callable[[str], None]) -> list[str]:
    """What runs the program but for its settings; jars and program are made where they are not there yet."""
    made, java = environments / "peers-flink", find_java(os.environ)
    if not (made / "complete").exists():
        say("fetching Flink and compiling its program")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        fetch(made / "repository")
        compiler = shutil.which("javac", path=f"{java.parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if compiler is None:
            raise FleetpulseError("Flink's program needs javac, of a JDK")
        source = str(HERE / f"{PROGRAM}.java")
        subprocess.run([compiler, "-nowarn", "-cp", class_path(made), "-d", str(made), source], check=True)
        (made / "complete").touch()
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    return [str(java), "-Xmx2g", *opened, "-cp", f"{class_path(made)}{os.pathsep}{made}", PROGRAM]


def class_path(made: Path) -> str:
    """All jars."""
    return os.pathsep.join(sorted(map(str, (made / "repository").rglob("*.jar"))))


def fetch(repository: Path) -> None:
    """Every pinned jar. Raises ``FleetpulseError`` where one is not what it was."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver
    from jgo.parse import Endpoint

    context = MavenContext(
        repo_cache=repository,
        local_repos=[],
        remote_repos={"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories,
        resolver=PythonResolver(),
        timeout=60,
    )
    pinned = lock()
    wanted = [context.create_dependency(Endpoint.parse(each).coordinates[0]).artifact for each in pinned]
    with ThreadPoolExecutor(FETCHED_AT_ONCE) as fetching:
        found = list(fetching.map(lambda artifact: artifact.resolve(), wanted))
    for (coordinates, digest), jar in zip(pinned.items(), found, strict=True):
        if hashlib.sha256(Path(jar).read_bytes()).hexdigest() != digest:
            raise FleetpulseError(f"{coordinates} is not what it was when it was pinned")
