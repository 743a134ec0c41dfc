"""The search itself: it finds what is planted, keeps it, and comes through all harnesses for a moment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

PLANTED = """
import sys
from pathlib import Path

import atheris
from tests.fuzz.__main__ import fuzzed
from tests.fuzz.harnesses import Harness

@atheris.instrument_func
def breaks(data):
    if data[:1] == b"b" and data[1:2] == b"u" and data[2:3] == b"g" and data[3:4] == b"!":
        raise IndexError("planted")

for found in fuzzed([Harness("planted", breaks, lambda: [b"a"])], 60, 0, 1, Path(sys.argv[1])):
    print(found.word, "planted" in (found.crash or ""))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_what_is_planted_is_found_and_kept(tmp_path: Path) -> None:
    """The input lies where the corpus would keep it, and breaks the reader again."""
    ended = run("-c", PLANTED, str(tmp_path))

    assert ended.stdout.split() == ["CRASH", "True"], ended.stderr
    (kept,) = (tmp_path / "planted").iterdir()
    assert kept.read_bytes()[:4] == b"bug!"


def test_a_moment_of_searching_finds_nothing() -> None:
    """Every harness runs and takes inputs, the same ones at every run: none is broken by a change of its reader."""
    ended = run("-m", "tests.fuzz", "--inputs", "500", "--seed", "1", "--seconds", "60", "--input-seconds", "20")

    assert ended.returncode == 0, ended.stderr[-3_000:]
    inputs = [int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) inputs", ended.stderr)]
    assert len(inputs) > 20
    assert min(inputs) > 50
