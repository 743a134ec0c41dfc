"""A process is recognised by its id and its start."""

from __future__ import annotations

import os
import subprocess
import sys

from runtime.live_process import Process, alive, boot_id, started


def test_a_running_process_is_alive_and_one_that_had_its_id_before_is_not() -> None:
    """The moment of the start is part of the identity."""
    mark = started(os.getpid())

    assert mark is not None
    assert alive(Process(os.getpid(), mark))
    assert not alive(Process(os.getpid(), "earlier"))
    assert not alive(None)


def test_an_ended_process_is_gone_though_nobody_has_waited_for_it() -> None:
    """A child of ours that is dead is no running process."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(child.pid, started(child.pid) or "gone")
    assert alive(process)
    child.communicate(b"\n")

    assert started(child.pid) is None
    assert not alive(process)


def test_this_start_of_the_machine_has_an_id() -> None:
    """The same each time, where the system has one; it has no end of line."""
    boot = boot_id()

    assert boot == boot_id()
    assert boot is None or boot == boot.strip() != ""
