"""SIGTERM on the command line: a command ends as on Ctrl-C, a service as it sees fit."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]

COMMAND = """
import asyncio, contextlib, multiprocessing, os, signal, sys, time
from fleetpulse import cli
from runtime.process import on_stop_signal

def say(word):
    print(word, flush=True)

def wait():
    while True:  # signal.pause() sleeps through a signal that came just before it
        time.sleep(0.02)

@contextlib.contextmanager
def a_stack():
    try:
        yield
    finally:
        say("stopped")

@cli.app.command()
def measure():
    with a_stack():
        say("ready")
        wait()

@cli.app.command()
def early():
    try:
        say("ready")
        wait()
    except KeyboardInterrupt:
        say("the books follow")

def idle(said):
    said.send_bytes(b"up")
    wait()

@cli.app.command()
def pool():
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=idle, args=(theirs,))
    with a_stack():
        child.start()
        ours.recv_bytes()
        try:
            say("ready")
            wait()
        finally:
            child.join()
            say(f"worker {child.exitcode}")

@cli.app.command()
def service():
    async def body():
        stop = on_stop_signal(asyncio.get_running_loop())
        say("ready")
        await stop.wait()
        say("committed")
    asyncio.run(body())

sys.argv = ["fleetpulse", sys.argv[1]]
cli.main()
"""


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        ("measure", ["stopped"], -signal.SIGTERM),
        ("early", ["the books follow"], 0),
        ("pool", [f"worker {-signal.SIGTERM}", "stopped"], -signal.SIGTERM),
        ("service", ["committed"], 0),
    ],
)
def test_sigterm_ends_a_command_on_the_way_of_ctrl_c(command: str, said: list[str], code: int) -> None:
    """What it started is stopped, then the signal shows in the exit; what a command catches itself is its own; nobody
    waits for workers; a service that listens is not disturbed."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        printed, complained = process.stdout.read().splitlines(), process.stderr.read()

    assert (printed, process.returncode) == (said, code)
    assert "Traceback" not in complained


@pytest.mark.parametrize(
    ("command", "said"),
    [("measure", "stopped"), ("early", "the books follow"), ("pool", "stopped"), ("service", "committed")],
)
def test_the_end_of_the_terminal_ends_a_command_as_sigterm_does(command: str, said: str, tmp_path: Path) -> None:
    """What it has to say finds no terminal, which stops nothing. Shell and kernel both say that it is gone."""
    ours, theirs = pty.openpty()
    done = tmp_path / "done"
    kept = f"print(word, flush=True)\n    with open({str(done)!r}, 'ab', 0) as file:\n        file.write(word.encode())"
    code = COMMAND.replace("print(word, flush=True)", kept)  # at once: what a destructor writes or raises comes late
    with subprocess.Popen(
        [sys.executable, "-c", "from signal import *; signal(SIGHUP, SIG_DFL)" + code, command],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        assert os.read(ours, 100).strip() == b"ready"
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)

    assert done.read_text().endswith(said)
    assert process.returncode in (0, -signal.SIGTERM)


def test_nohup_keeps_a_command_going() -> None:
    """It has SIGHUP ignored before the command begins."""
    with subprocess.Popen(
        [sys.executable, "-c", "from signal import *; signal(SIGHUP, SIG_IGN)" + COMMAND, "early"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "the books follow\n"

    assert process.returncode == 0


BUILDING = """
import signal, sys, time
from fleetpulse import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

def building(**_given):
    print("ready", flush=True)
    while True:
        time.sleep(0.02)

cli.app = building
cli.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_while_the_command_line_is_built_ends_it_without_a_traceback(
    number: signal.Signals, code: int
) -> None:
    """On a busy machine building takes seconds, and a supervisor may stop what it has just started."""
    with subprocess.Popen(
        [sys.executable, "-c", BUILDING], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        complained = process.stderr.read()

    assert (process.returncode, complained) == (code, "")
