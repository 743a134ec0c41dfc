"""The shim that steps the wall clock of one process: each way to ask for the time, and no other clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from lab.chaos.clock_shim import SteppedClock
from schemas.limits import MINUTE_MS

PROGRAM = """
import datetime, json, sys, time
for _ in sys.stdin:
    time.sleep(0.2)  # the file is read anew by now
    wall = [time.time(), time.time_ns() / 1e9, datetime.datetime.now().timestamp(), time.clock_gettime(0)]
    print(json.dumps([wall, time.monotonic()]), flush=True)
"""


def test_the_wall_clock_steps_both_ways_and_the_monotonic_one_goes_on(tmp_path: Path) -> None:
    """Forward, back, and home again, within a process that runs."""
    clock = SteppedClock(tmp_path)
    command, steps = [sys.executable, "-c", PROGRAM], (0, 5 * MINUTE_MS, -5 * MINUTE_MS - 1, 0)
    with subprocess.Popen(
        command, env=os.environ | clock.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step_ms in steps:
            clock.set(str(step_ms) if step_ms else "none")
            asked_s, asked_at = time.time(), time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            wall, at = json.loads(process.stdout.readline())
            answered_s, answered_at = time.time(), time.monotonic()
            stepped = [each - step_ms / 1_000 for each in wall]

            assert asked_s <= min(stepped) <= max(stepped) <= answered_s, (step_ms, stepped)
            assert asked_at <= at <= answered_at
        process.stdin.close()
