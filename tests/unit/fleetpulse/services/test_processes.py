"""Children are started, watched, restarted and stopped by their own ids."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetpulse.services.processes import STOP_WITHIN_S, Command, Processes
from runtime import priority
from sinks.service import SinkSettings

ROOT = Path(__file__).resolve().parents[4]


def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    """A child that may be restarted comes back under a new id; one that may not stays down."""
    with Processes(tmp_path) as processes:
        first = processes.start(Command("a", ("--help",)))
        processes.start(Command("b", ("--help",), restart=False))
        processes._children["a"].process.wait(30)
        processes._children["b"].process.wait(30)
        processes._children["a"].started_s -= 10

        started = processes.tend()

        assert started == ["a"]
        assert processes.pid("a") != first
        assert processes.restarts("a") == 1
        assert processes.pid("b") is None
        assert processes.exit_code("b") == 0


def test_a_signal_to_a_dead_child_goes_nowhere(tmp_path: Path) -> None:
    """Only a running child is signalled, so that a recycled process id is never hit."""
    with Processes(tmp_path) as processes:
        processes.start(Command("a", ("--help",), restart=False))
        processes._children["a"].process.wait(30)

        assert processes.signal("a", signal.SIGKILL) is False


DRAINS = """
import asyncio
from runtime.process import on_stop_signal

async def body():
    stop = on_stop_signal(asyncio.get_running_loop())
    print("ready", flush=True)
    await stop.wait()
    await asyncio.sleep(1.0)
    print("committed", flush=True)

asyncio.run(body())
"""
PARENT = """
import signal, sys, time
from pathlib import Path
from fleetpulse.services.processes import Command, Processes

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
with Processes(Path(sys.argv[1]), python=sys.argv[2]) as processes:
    processes.start(Command("a", (), restart=False))
    try:
        while processes.tail("a") != "ready":
            time.sleep(0.02)
        print("ready", flush=True)
        while True:
            time.sleep(0.02)
    except KeyboardInterrupt:
        processes.stop("a")
    print(processes.exit_code("a"), *processes.tail("a").split())
"""


def test_a_child_commits_on_ctrl_c_in_the_terminal(tmp_path: Path) -> None:
    """Ctrl-C is a signal to a whole group; what the parent then sends would be the second one, which ends at once."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(DRAINS)}\n")
    python.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log"), str(python)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)

        assert process.stdout.read().split() == ["0", "ready", "committed"]


def test_what_a_child_says_is_in_its_log(tmp_path: Path) -> None:
    """Each child writes to one log file whose end can be shown."""
    with Processes(tmp_path) as processes:
        processes.start(Command("a", ("no-such-command",), restart=False))
        processes._children["a"].process.wait(30)

        assert "No such command" in processes.tail("a")


def test_a_child_that_is_struck_off_stays_down(tmp_path: Path) -> None:
    """A child killed for good is no longer tended."""
    with Processes(tmp_path) as processes:
        processes.start(Command("a", ("--help",)))

        processes.strike_off("a")

        assert processes.names() == ()
        assert processes.tend() == []


def test_a_child_that_does_not_end_in_time_is_killed_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that ends is not."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ntest "$3" != deaf || exec sleep 600\n')
    python.chmod(0o755)
    heard = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as children have it from their parent
    try:
        with Processes(tmp_path / "log", python=str(python)) as processes:
            for name in ("deaf", "quick"):
                processes.start(Command(name, (name,), restart=False))
            processes._children["quick"].process.wait(30)

            processes.stop("deaf", "quick", within_s=0.0)

            assert [processes.exit_code(name) for name in ("deaf", "quick")] == [-signal.SIGKILL, 0]
    finally:
        signal.signal(signal.SIGTERM, heard)
    assert [(one.message, one.__dict__["process_name"]) for one in caplog.records] == [
        ("process did not end in time and is killed", "deaf")
    ]


@pytest.mark.parametrize(
    ("arguments", "nice"),
    [
        (("sink", "--raw"), priority.BULK),
        (("simulate", "--load", "bulk"), priority.BULK),
        (("jobs", "windows", "--name", "a"), priority.BEHIND),
        (("jobs", "costs"), priority.BEHIND),
        (("jobs", "finals"), 0),
        (("jobs", "alerts"), 0),
        (("agent",), 0),
    ],
)
def test_what_nobody_waits_for_steps_back(arguments: tuple[str, ...], nice: int) -> None:
    """Finals, alerts and edges are what somebody waits for."""
    assert Command("a", arguments).nice == nice


def test_a_child_steps_back_when_it_is_started_and_started_again(tmp_path: Path) -> None:
    """The parent does not."""
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    with Processes(tmp_path) as processes:
        first = os.getpriority(os.PRIO_PROCESS, processes.start(Command("a", ("sink", "--help"))))
        processes.signal("a", signal.SIGKILL)  # at this niceness its own end takes long on a busy machine
        processes._children["a"].process.wait(30)
        processes._children["a"].started_s -= 10
        processes.tend()
        pid = processes.pid("a")
        assert pid is not None

        assert (first, os.getpriority(os.PRIO_PROCESS, pid)) == (max(mine, priority.BULK),) * 2
        assert os.getpriority(os.PRIO_PROCESS, 0) == mine


def test_a_sink_that_waits_for_clickhouse_is_not_killed() -> None:
    """It ends by itself after its drain."""
    assert SinkSettings().drain_s < STOP_WITHIN_S
