"""nvidia-smi collector: runs one process per tick, never a shell, and emits rows of ``gpu.samples``.

It is slow (each run opens the driver) and reports no energy, and no traffic over PCIe or NVLink. With MIG it prints one
line for the whole GPU, whose utilization is unknown.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from producers.collector import Collected, FieldErrors, Identity, Row, reserved_bytes
from producers.gpu.scraped_rows import Reading, SampleField, counters, sample_rows
from producers.nvidia_smi.fields import QUERY_COLUMNS, SAMPLE_FIELDS, GpuLine, Table, query, read_table, refused_column
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.errors import FleetpulseError
from schemas.events.event_types import GPU_SAMPLES

LIMIT_S = 8.0
"""Below the agent's own limit, so that the process ends rather than the thread is given up."""
PERIOD_MS_MIN = 5_000
FAILURES_MAX = 10
OUTPUT_CHARS_MAX = 1024 * 1024
WARNED = 14
"""Exit status when the infoROM of a GPU is corrupted (nvidia-smi's manual): a warning, with the table of all GPUs."""


class SmiError(FleetpulseError):
    """nvidia-smi gave no table."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Answer:
    """Exit status and what was printed, errors included (nvidia-smi prints them to standard output)."""

    status: int
    output: str


Run = Callable[[Sequence[str]], Answer]


def run_program(arguments: Sequence[str], limit_s: float | None = None) -> Answer:
    """Run it to its end, within ``LIMIT_S`` or so long. Raises ``SmiError`` where it cannot be run or does not end in
    time."""
    limit_s = LIMIT_S if limit_s is None else limit_s
    try:
        done = subprocess.run(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise SmiError(f"{arguments[0]} did not end within {limit_s} s") from error
    except (OSError, ValueError) as error:
        raise SmiError(f"{arguments[0]} cannot be run: {error}") from error
    return Answer(done.returncode, done.stdout[:OUTPUT_CHARS_MAX].decode("utf-8", "replace"))


class SmiCollector:
    """Raises ``SmiError`` after ``FAILURES_MAX`` failures in a row; else they are counted."""

    name = "nvidia_smi"
    fields: Sequence[SampleField] = SAMPLE_FIELDS

    def __init__(
        self,
        program: str,
        identity: Identity,
        period_ms: int,
        *,
        run: Run = run_program,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        self.period_ms = max(period_ms, PERIOD_MS_MIN)
        self._program = program
        self._identity = identity
        self._run = run
        self._clock = clock or SystemClock()
        self._errors = FieldErrors(self.name, GPU_SAMPLES, counters)
        self._refused: frozenset[str] = frozenset()
        self._before: dict[str, Reading] = {}
        self._failures = 0

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """A sample for each GPU."""
        moment_ms = round(self._clock.monotonic_s() * 1_000)
        try:
            table = self._table()
        except SmiError:
            self._failures += 1
            self._errors.count("program")
            if self._failures >= FAILURES_MAX:
                raise
            return []
        self._failures = 0
        for reason, times in table.left_out.items():
            self._errors.count(reason, times)
        rows = [row for gpu in table.gpus for row in self._rows(gpu, Reading(at_ms, moment_ms, gpu.values))]
        return [Collected(GPU_SAMPLES, rows)] if rows else []

    def close(self) -> None:
        """Nothing runs between two ticks."""

    def _table(self) -> Table:
        """Columns that this driver does not know are left out of later queries."""
        for _ in range(2 * len(QUERY_COLUMNS)):
            names = query(self._refused)
            answer = self._run([self._program, f"--query-gpu={','.join(names)}", "--format=csv"])
            table = read_table(answer.output)
            if answer.status == 0 or (answer.status == WARNED and table.gpus):
                return table
            column = refused_column(answer.output)
            if column not in names:
                break
            self._refused |= {column}
        raise SmiError(f"{self._program} ended with {answer.status}: {answer.output[:200].strip()}")

    def _rows(self, gpu: GpuLine, now: Reading) -> list[Row]:
        before = self._before.get(gpu.uuid)
        self._before[gpu.uuid] = counters(before, now)
        labels = {"origin": "measured", "gpu_uuid": gpu.uuid, "gpu_model": gpu.model}
        identity = labels | dict(self._identity.labels) | dict(self._identity.placement.get(gpu.uuid, {}))
        share_ppm = self._identity.reserved_ppm(gpu.uuid)
        rows = sample_rows(self.fields, before, now)
        return [identity | reserved_bytes(row, share_ppm) | self._errors.checked(row) for row in rows]
