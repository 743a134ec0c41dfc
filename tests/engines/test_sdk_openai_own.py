"""The tests of the ``openai`` package itself pass with tracked clients exactly where they pass without.

``make test-engines``. Its source distribution and what its tests need come from PyPI (a minute) and stay outside the
repository; nothing of them is changed but how clients are made (``openai_tracked.py``).
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.engines.environments import ROOT, Environment, cache

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1_200)]

OPENAI = "3.54.0"
BUILD = ("hatchling==1.33.0", "hatch-fancy-pypi-readme==25.1.0", "pip")
NEEDED = (
    *("pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout", "pytest-xdist", "inline-snapshot", "rich", "trio"),
    *("respx", "httpx", "aiohttp", "httpx-aiohttp", "websockets", "azure-identity", "botocore", "Pillow", "griffe"),
)
FILES = (
    *("test_streaming.py", "test_response.py", "test_legacy_response.py", "test_stream_mode.py", "test_sse_framing.py"),
    *("lib/chat", "lib/streaming", "lib/responses/test_responses.py", "lib/test_streaming_deltas.py"),
    "lib/test_azure.py",
)
"""Streams, their helpers, responses raw and parsed, and Azure's paths."""
PASSED_MIN = 600


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of each test by its name, and how many requests were reported."""

    outcomes: dict[str, str]
    reported: int

    @property
    def passed(self) -> set[str]:
        return {name for name, outcome in self.outcomes.items() if outcome == "passed"}


def _environment() -> tuple[Environment, Path]:
    made = Environment(cache() / f"openai-{OPENAI}")
    source = made.folder / f"openai-{OPENAI}"
    if not made.done.exists():
        made.create()
        made.install(*BUILD, f"openai=={OPENAI}", *NEEDED)
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "openai")
        command = [made.program("python"), "-m", "pip", "download", *options, "--dest", str(made.folder)]
        subprocess.run([*command, f"openai=={OPENAI}"], check=True, env=_found_by(made))
        with tarfile.open(made.folder / f"openai-{OPENAI}.tar.gz") as archive:
            archive.extractall(made.folder, filter="data")
        made.done.touch()
    return made, source


def _found_by(made: Environment) -> dict[str, str]:
    return {**os.environ, "PATH": f"{made.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def _run(results: Path, *plug_in: str) -> Run:
    made, source = _environment()
    options = ("-q", "-n", "0", "--tb=line", "-p", "no:cacheprovider", "--timeout", "60", f"--junit-xml={results}")
    paths = [f"tests/{name}" for name in FILES]
    settings = {**_found_by(made), "PYTHONPATH": f"{ROOT / 'sdk'}{os.pathsep}{ROOT / 'tests' / 'engines'}"}
    command = [made.program("python"), "-m", "pytest", *plug_in, *options, *paths]
    ended = subprocess.run(command, cwd=source, env=settings, check=False, capture_output=True, text=True, timeout=500)
    assert results.exists(), ended.stdout[-2_000:] + ended.stderr[-2_000:]
    outcomes = {}
    for case in ElementTree.parse(results).iter("testcase"):
        kinds = {each.tag for each in case}
        worst = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = worst
    count = re.search(r"requests reported: (\d+)", ended.stdout)
    return Run(outcomes, int(count[1]) if count else 0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Without tracking, with it."""
    folder = tmp_path_factory.mktemp("openai")
    return _run(folder / "plain.xml"), _run(folder / "tracked.xml", "-p", "openai_tracked")


def test_each_test_of_openai_ends_as_without_tracking(runs: tuple[Run, Run]) -> None:
    """Those that fail here without tracking (files that its source distribution lacks) fail with it too."""
    plain, tracked = runs

    assert len(plain.passed) >= PASSED_MIN
    assert tracked.outcomes == plain.outcomes


def test_the_clients_of_these_tests_were_tracked(runs: tuple[Run, Run]) -> None:
    """They reported requests; the plain ones none."""
    plain, tracked = runs

    assert plain.reported == 0
    assert tracked.reported >= 100
