"""What the agent costs a GPU host: its share of one core and its memory, second by second, as a process of its own.

The driver is a compiled stub below ``pynvml`` (``nvml_compiled``): as many calls as the collector makes, each with a
driver's delay. Falling asleep and waking for every delay is part of the number, and stands beside it. Processor time
comes from the process' own clock in nanoseconds, so that a second of little work is not rounded to a tick.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.cpu import memory_bytes, stop
from lab.bench.nvml_compiled import CompiledNvml, compiled, installed
from schemas.errors import FleetpulseError

GPUS = 8
DELAY_US = 50
WARM_UP_S = 10.0
"""Imports, probes and first readings are over by then."""
CPU_SHARE_MAX = 0.005
"""In the mean: twice a minute a second costs more than others."""
MEMORY_MAX_BYTES = 120 * 2**20
NOWHERE = "127.0.0.1:1"
_CPUCLOCK_SCHED = 2

Say = Callable[[str], None]
Beside = Callable[[Path], AbstractContextManager[Mapping[str, str]]]
"""Starts what runs beside an agent with this socket; what the agent's environment has for it."""


def measure(
    seconds: int, say: Say, kafka: str | None = None, gpus: int = GPUS, beside: Beside | None = None
) -> dict[str, Any]:
    """Run the agent at 1 Hz for ``seconds`` and watch it. ``kafka``: None leaves everything in the spool. ``beside``:
    what runs at its side."""
    with tempfile.TemporaryDirectory(prefix="fleetpulse-bench-agent-") as folder, contextlib.ExitStack() as running:
        report, library, environment = Path(folder) / "report.json", compiled(Path(folder)), _environment(folder, kafka)
        if beside is not None:
            environment |= running.enter_context(beside(socket_in(Path(folder))))
        process = _start(Path(folder), report, environment, library, gpus, WARM_UP_S + seconds + 5)
        try:
            say(f"the agent warms up for {WARM_UP_S:g} s")
            time.sleep(WARM_UP_S)
            say(f"watching the agent for {seconds} s")
            spent_s = [_second(process) for _ in range(seconds)]
            memory = memory_bytes(process.pid)
        finally:
            stop(process, 30)
        reported = json.loads(report.read_bytes()) if report.exists() else {}
        log = (Path(folder) / "agent.log").read_text(errors="replace")
    if process.returncode != 0 or not reported:
        raise FleetpulseError(f"the agent ended with {process.returncode}: {log[-2_000:]}")
    return _result(spent_s, memory, reported, kafka is not None, gpus)


def _result(
    spent_s: list[float], memory: dict[str, int], reported: dict[str, Any], with_kafka: bool, gpus: int
) -> dict[str, Any]:
    ordered, mean = sorted(spent_s), sum(spent_s) / len(spent_s)
    delays = reported["nvml_calls_per_s"] * reported["delay_cpu_us"] / 1e6
    return {
        "gpus": gpus,
        "nvml_delay_us": DELAY_US,
        "kafka": "local" if with_kafka else "away",
        "seconds": len(spent_s),
        "cpu_share_median": median(spent_s),
        "cpu_share_p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        "cpu_share_max": ordered[-1],
        "cpu_share_mean": mean,
        "cpu_share_of_delays": delays,
        "cpu_share_median_without_delays": median(spent_s) - delays,
        "cpu_us": [round(each * 1e6) for each in spent_s],
        **memory,
        **reported,
        "within": {
            "cpu": mean <= CPU_SHARE_MAX,
            "memory": memory["resident_peak_bytes"] <= MEMORY_MAX_BYTES,
        },
    }


def socket_in(folder: Path) -> Path:
    """Where the agent of this folder takes requests."""
    return folder / "agent.sock"


def _environment(folder: str, kafka: str | None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("FLEETPULSE_")}
    return own | {
        "FLEETPULSE_KAFKA__BOOTSTRAP": kafka or NOWHERE,
        "FLEETPULSE_AGENT__RECEIVER__SOCKET": str(socket_in(Path(folder))),
        "FLEETPULSE_AGENT__DRAIN_MS": "0",
        "FLEETPULSE_DATA_DIR": folder,
    }


def _start(
    folder: Path, report: Path, environment: Mapping[str, str], library: Path, gpus: int, seconds: float
) -> subprocess.Popen[bytes]:
    arguments = (str(folder), str(report), str(library), gpus, seconds)
    code = f"from lab.bench.agent import child; child{arguments!r}"
    with (folder / "agent.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )


def _second(process: subprocess.Popen[bytes]) -> float:
    """Processor seconds per second over the next second."""
    if process.poll() is not None:
        raise FleetpulseError(f"the agent ended by itself, with {process.returncode}")
    clock = (~process.pid << 3) | _CPUCLOCK_SCHED
    begun_s, before_s = time.monotonic(), time.clock_gettime(clock)
    time.sleep(1.0)
    return (time.clock_gettime(clock) - before_s) / (time.monotonic() - begun_s)


def child(folder: str, report: str, library: str, gpus: int, seconds: float) -> None:
    """The agent of this process, on GPUs of the stub's ``library``, until SIGTERM; then what it did, as JSON."""
    import fleetpulse.cli  # noqa: F401 -- the command has it in memory
    from fleetpulse.services.edge import run_agent_service

    stub = CompiledNvml(Path(library), gpus, DELAY_US)
    with installed(stub.library):
        begun_s = time.monotonic()
        reports = run_agent_service(Path(folder) / "spool", seconds)
        ran_s = time.monotonic() - begun_s
    reported = {
        "delay_cpu_us": _delay_cpu_us(),
        "nvml_calls_per_s": sum(stub.calls.values()) / ran_s,
        "collectors": [
            {"name": each.name, "readings": each.readings, "restarts": each.restarts, "cost_us": each.cost_us}
            for each in reports
        ],
        "heavy_modules": [
            name for name in ("numba", "scipy", "pandas", "google.protobuf", "grpc") if name in sys.modules
        ],
    }
    Path(report).write_text(json.dumps(reported))


def _delay_cpu_us() -> float:
    """Processor time of one delay that is slept, in bursts as a reading of GPUs makes them."""
    spent_s, bursts, calls = 0.0, 10, 9 * GPUS
    for _ in range(bursts):
        time.sleep(0.2)
        begun_s = time.thread_time()
        for _ in range(calls):
            time.sleep(DELAY_US / 1e6)
        spent_s += time.thread_time() - begun_s
    return spent_s / (bursts * calls) * 1e6
