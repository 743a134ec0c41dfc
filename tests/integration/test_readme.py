"""The README, followed literally: a fresh clone in a folder with a space, an empty home, an environment made anew.

Every line of its ``sh`` blocks is run in order, in bash, as a stranger would paste it. A line that serves must say what
is expected of it, and then end when it is told to. What is left out stands in ``LEFT_OUT`` with its reason; a line
that is new in the README is run.

``FLEETPULSE_TEST_PIP_CACHE`` names a folder that pip may keep its downloads in; without it nothing is cached.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.stranger, pytest.mark.timeout(3_600)]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.+?)^```", re.MULTILINE | re.DOTALL)
SQL = re.compile(r"^```sql\n(.+?)^```", re.MULTILINE | re.DOTALL)
LEFT_OUT = {
    "make test": "this test is a part of what the two run",
    "make simulator": "minutes; the suite runs fewer schedules",
    "fleetpulse chaos --kills 100 --seed 1": "minutes; test_pipeline.py runs ten kills",
}
SERVES = {
    "fleetpulse dashboard": "dashboard starting",
    "fleetpulse agent": "receiver listening",
    "fleetpulse proxy --upstream http://127.0.0.1:8000": "proxy is up",
    "fleetpulse jobs all": "jobs run",
    "fleetpulse sink": "sink group reads",
}
"""Lines that go on until they are told to end, and what they say once they serve."""
GOES_ON = ("fleetpulse jobs all", "fleetpulse sink")
"""In a terminal of its own to the end: what comes behind needs it."""
PROMISED = {
    "make demo": (
        "TTFT",
        "llama-3.1-8b",
        "Three queries to paste",
        "FROM request_windows",
        "books exact",
        "0 differences",
    ),
    "fleetpulse percentiles": ("llama-3.1-8b", "p99"),
    "fleetpulse query": ("model", "requests", "ttft_p99_ms", "llama-3.1-8b"),
}
"""What a line must print, by how it begins."""
TWO_MINUTES_S = 120
LINE_S, SERVES_S, ENDS_S = 1_200.0, 180.0, 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A line of the README, how it ended, and what it said. ``status`` None: it served, and ended as told."""

    line: str
    status: int | None
    said: str


@dataclass(frozen=True, slots=True)
class Started:
    """A line that was pasted into a terminal: a group of processes."""

    line: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def serves(self) -> bool:
        return SERVES[self.line] in self.said and self.process.poll() is None

    def ended(self, within_s: float = LINE_S) -> Ran:
        """Once it has, or had to be told to, with all that it had begun."""
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self.process.poll() is None:
                self._end_group()
        return Ran(self.line, self.process.wait(ENDS_S), self.said)

    def _end_group(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            there, until_s = self._told(number), time.monotonic() + ENDS_S
            while there and time.monotonic() < until_s:
                time.sleep(0.2)
                there = self._told(0)

    def _told(self, number: int) -> bool:
        """Whether any of its processes was there to be sent this signal; 0 is none."""
        self.process.poll()
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def told_to_end(self) -> Ran:
        """Once it serves and has ended as told; at the latest when it should have served."""
        self.wait_until_it_serves()
        served = self.serves
        self.process.terminate()
        status = self.process.wait(ENDS_S)
        return Ran(self.line, None if served and status in (0, -signal.SIGTERM) else status, self.said)

    def wait_until_it_serves(self) -> None:
        until_s = time.monotonic() + SERVES_S
        while not self.serves and self.process.poll() is None and time.monotonic() < until_s:
            time.sleep(0.2)


def lines(text: str) -> list[str]:
    """Commands of all blocks without their comments; behind the line that starts the stack the README's SQL."""
    found = [line.split("  #")[0].strip() for block in BLOCK.findall(text) for line in block.splitlines()]
    asked = [f'fleetpulse query "{sql.strip()}"' for sql in SQL.findall(text)]
    at = found.index("fleetpulse up") + 1
    return [line for line in (*found[:at], *asked, *found[at:]) if line and line not in LEFT_OUT]


class Stranger:
    """Somebody with an empty home in a fresh clone, who pastes one line after the other."""

    def __init__(self, folder: Path) -> None:
        home, self._clone, self._folder = folder / "home", folder / "a fresh folder", folder
        home.mkdir()
        ours = ("FLEETPULSE_", "VIRTUAL_ENV")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._env |= {"HOME": str(home), "PYTHON": f"{sys.base_prefix}/bin/python3", "COLUMNS": "120"}
        self._env["PIP_CACHE_DIR"] = os.environ.get("FLEETPULSE_TEST_PIP_CACHE") or str(home / "pip")
        self._before, self._pasted = "", 0
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self._clone)], check=True)

    def paste(self, line: str) -> Started:
        """Run a line in a terminal of its own."""
        if line.startswith(". "):
            self._before += f"{line} && "
        self._pasted += 1
        log = self._folder / f"{self._pasted}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", self._before + (f"exec {line}" if line in SERVES else line)],
                cwd=self._clone, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                process_group=0,
            )  # fmt: skip
        return Started(line, process, log)

    def _patient(self, started: Started) -> Ran:
        """Whoever is told to ask again in two minutes does so, once."""
        ran = started.ended()
        if ran.status == 0 or "ask again in two minutes" not in ran.said:
            return ran
        time.sleep(TWO_MINUTES_S)
        return self.paste(ran.line).ended()

    def follow(self, text: str) -> list[Ran]:
        """Paste all lines, one when the other has ended; what goes on ends last."""
        found: list[Ran] = []
        going_on: list[Started] = []
        for line in lines(text):
            started = self.paste(line)
            if line in GOES_ON:
                started.wait_until_it_serves()
                going_on.append(started)
            else:
                found.append(started.told_to_end() if line in SERVES else self._patient(started))
        return found + [started.told_to_end() for started in going_on]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Ran]]:
    """Every line of the README, run in order."""
    stranger = Stranger(tmp_path_factory.mktemp("stranger"))
    try:
        yield stranger.follow((ROOT / "README.md").read_text(encoding="utf-8"))
    finally:
        stranger.paste("fleetpulse down").ended()


def test_every_line_of_the_readme_does_what_it_says(followed: list[Ran]) -> None:
    """Exit status 0, or serving until told to end."""
    wrong = [f"{ran.line}: {ran.status}\n{ran.said[-2_000:]}" for ran in followed
             if ran.status != (None if ran.line in SERVES else 0)]  # fmt: skip

    assert not wrong, "\n\n".join(wrong)


def test_the_figures_that_the_readme_promises_are_printed(followed: list[Ran]) -> None:
    """Percentiles, queries, exact books."""
    missing = [(ran.line, word) for ran in followed for start, words in PROMISED.items() if ran.line.startswith(start)
               for word in words if word not in ran.said]  # fmt: skip

    assert missing == []
    assert {start for start in PROMISED for ran in followed if ran.line.startswith(start)} == set(PROMISED)


def test_a_line_that_takes_too_long_ends_with_all_that_it_began(tmp_path: Path) -> None:
    """What it began is told, too, and may put away what is its own."""
    began = """bash -c 'trap "echo told; exit" TERM; echo begun; sleep 600 & wait' & wait"""
    started = Stranger(tmp_path).paste(began)
    while "begun" not in started.said:
        time.sleep(0.1)

    ran = started.ended(within_s=0.1)

    assert ran.status == -signal.SIGTERM
    assert "told" in ran.said.split()
