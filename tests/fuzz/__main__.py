"""Fuzz every reader of bytes that others wrote: ``make fuzz SECONDS=60``, or ``python -m tests.fuzz stream proxy``.

libFuzzer (https://llvm.org/docs/LibFuzzer.html) has each harness in a process of its own, guided by coverage, from
sound captures and from the inputs that were found before. A crash, an input that takes over a second, and memory beyond
1 GiB end it; the input is kept as ``tests/fuzz/corpus/NAME/crash-...``, where ``test_corpus.py`` runs it with the unit
tests, so that it fails until it is mended and stays a test afterwards. Exit 1 when any was found.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import atheris
from rich.console import Console
from rich.table import Table

PACKAGES = ("producers", "runtime", "schemas", "stream_jobs", "fleetpulse")
ROOT = Path(__file__).resolve().parents[2]
COMPILED = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for file in sorted((ROOT / package).rglob("*.py"))
    if re.search(r"^(?:from|import) numba\b", file.read_text(encoding="utf-8"), re.MULTILINE)
]
"""What imports numba: loops that it compiles cannot be instrumented. The rest shows which input takes a new way."""

with (
    contextlib.redirect_stderr(io.StringIO()),  # a line for each module
    atheris.instrument_imports(include=list(PACKAGES), exclude=COMPILED),
):
    from tests.fuzz.harnesses import CORPUS, HARNESSES, Harness

INPUT_S_MAX = 1
"""By the clock: on a machine that does other work as well, an input may seem to take so long (``--input-seconds``)."""
MEMORY_MB_MAX = 1_024
_FORK = multiprocessing.get_context("fork")
_Folder = tempfile.TemporaryDirectory[str]


@dataclass(slots=True)
class Run:
    """One harness in the fuzzer's hands."""

    harness: Harness
    seconds: int
    inputs: int
    corpus: Path = CORPUS
    input_s: int = INPUT_S_MAX
    seed: int = 0
    folder: _Folder = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="fleetpulse-fuzz-"))
    began_s: float = field(default_factory=time.monotonic)
    process: BaseProcess = field(init=False)

    def __post_init__(self) -> None:
        self.process = _FORK.Process(target=self._fuzz, daemon=True)
        self.process.start()

    def _fuzz(self) -> None:
        """Does not return: the process is libFuzzer's from here on."""
        printed = os.open(Path(self.folder.name) / "printed", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        for seed in self.harness.seeds():  # what numba compiles is compiled before time counts
            self.harness(seed[: self.harness.bytes_max])
        atheris.Setup(self._arguments(Path(self.folder.name)), self.harness)
        try:
            atheris.Fuzz()
        finally:
            ctypes.CDLL(None).exit(1)  # not the exit of a forked Python: libFuzzer keeps the input when C's is called

    def _arguments(self, folder: Path) -> list[str]:
        kept, words = self.corpus / self.harness.name, folder / "words"
        for each in (kept, folder / "seeds", folder / "new"):
            each.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(self.harness.seeds()):
            (folder / "seeds" / str(number)).write_bytes(seed[: self.harness.bytes_max])
        escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in self.harness.words)
        words.write_text("".join(f'"{word}"\n' for word in escaped))
        return [
            *("fuzz", f"-max_total_time={self.seconds}", f"-runs={self.inputs or -1}"),
            *(f"-max_len={self.harness.bytes_max}", f"-timeout={self.input_s}", f"-rss_limit_mb={MEMORY_MB_MAX}"),
            *(f"-seed={self.seed}", "-report_slow_units=3600", "-print_final_stats=1", f"-artifact_prefix={kept}/"),
            *([f"-dict={words}"] if self.harness.words else []),
            *(str(folder / "new"), str(folder / "seeds"), str(kept)),
        ]

    def ended(self) -> Found:
        """What came of it, once the process has ended."""
        printed = (Path(self.folder.name) / "printed").read_text(errors="replace")
        self.folder.cleanup()
        kept = self.corpus / self.harness.name
        if kept.is_dir() and not any(kept.iterdir()):
            kept.rmdir()
        numbers = [
            _stat(printed, name) for name in ("number_of_executed_units", "slowest_unit_time_sec", "peak_rss_mb")
        ]
        crash = printed[-3_000:] if self.process.exitcode else None
        return Found(self.harness.name, *numbers, time.monotonic() - self.began_s, crash)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one harness. ``crash`` is the end of what it printed, None when nothing was found."""

    name: str
    inputs: int
    slowest_s: int
    memory_mb: int
    seconds: float
    crash: str | None

    def cells(self) -> tuple[str, ...]:
        """As shown."""
        took = f"{self.seconds:.0f}"
        return (self.name, f"{self.inputs:,}", str(self.slowest_s), str(self.memory_mb), took, self.word)

    @property
    def word(self) -> str:
        """Whether something was found."""
        return "CRASH" if self.crash else "nothing"


def _stat(printed: str, name: str) -> int:
    found = re.search(rf"stat::{name}:\s*(\d+)", printed)
    return int(found[1]) if found else 0


def fuzzed(
    harnesses: Sequence[Harness],
    seconds: int,
    inputs: int,
    jobs: int,
    corpus: Path = CORPUS,
    input_s: int = INPUT_S_MAX,
    seed: int = 0,
) -> Iterator[Found]:
    """Each harness for so long, and for so many inputs at most (0: no such bound); as they end. ``seed`` 0: any."""
    waiting, running = list(reversed(harnesses)), dict[int, Run]()
    while waiting or running:
        while waiting and len(running) < jobs:
            run = Run(waiting.pop(), seconds, inputs, corpus, input_s, seed)
            running[run.process.sentinel] = run
        for sentinel in wait(list(running)):
            run = running.pop(sentinel)  # type: ignore[call-overload]
            run.process.join()
            yield run.ended()


def main() -> int:
    names = [one.name for one in HARNESSES]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each harness (60)")
    parser.add_argument("--inputs", type=int, default=0, help="for each harness at most; 0 is without bound (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="harnesses at a time")
    parser.add_argument("--input-seconds", type=int, default=INPUT_S_MAX, help="one input takes at most (1)")
    parser.add_argument("--seed", type=int, default=0, help="with --inputs the same seed tries the same; 0 is any (0)")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; must be of {', '.join(names)}")
    harnesses = [one for one in HARNESSES if not chosen.names or one.name in chosen.names]
    table = Table("harness", "inputs", "slowest s", "memory MB", "took s", "found")
    crashes: list[Found] = []
    for found in fuzzed(
        harnesses, chosen.seconds, chosen.inputs, chosen.jobs, input_s=chosen.input_seconds, seed=chosen.seed
    ):
        table.add_row(*found.cells())
        sys.stderr.write(f"{found.name}: {found.inputs:,} inputs, {found.word} found\n")
        crashes += [found] if found.crash else []
    Console(width=100).print(table)
    for found in crashes:
        sys.stderr.write(f"\n--- {found.name}\n{found.crash}\n")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
