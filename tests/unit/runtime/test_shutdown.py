import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest

from runtime.process import end_tasks, on_stop_signal, raise_descriptors, run_to_the_end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    """The event is set and nobody is ended."""
    ended: list[int] = []
    stopping = on_stop_signal(asyncio.get_running_loop(), exit_now=ended.append)

    os.kill(os.getpid(), number)
    await asyncio.wait_for(stopping.wait(), 5)

    assert ended == []


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_ctrl_c_ends_a_process_that_is_stopping(first: signal.Signals) -> None:
    """With 128 + signal, as a shell would see it."""
    ended: asyncio.Queue[int] = asyncio.Queue()
    stopping = on_stop_signal(asyncio.get_running_loop(), exit_now=ended.put_nowait)

    os.kill(os.getpid(), first)
    await asyncio.wait_for(stopping.wait(), 5)
    os.kill(os.getpid(), signal.SIGINT)

    assert await asyncio.wait_for(ended.get(), 5) == 130


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_second_sigterm_cuts_nothing_short(first: signal.Signals) -> None:
    """Supervisors send it to a whole group and to the parent, which sends it on; what ends is the Ctrl-C behind it."""
    ended: asyncio.Queue[int] = asyncio.Queue()
    stopping = on_stop_signal(asyncio.get_running_loop(), exit_now=ended.put_nowait)

    os.kill(os.getpid(), first)
    await asyncio.wait_for(stopping.wait(), 5)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)

    assert await asyncio.wait_for(ended.get(), 5) == 130
    assert ended.empty()


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    """And may be lowered again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        raised = raise_descriptors()

        assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_ends_though_a_thread_goes_on() -> None:
    """With its code and what it had said; Python alone would wait for the thread for ever."""
    line = "import threading; from runtime.process import leave; print('said', end='')"
    line += "; threading.Thread(target=threading.Event().wait).start(); leave(70)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (70, "said")


def test_a_process_without_such_a_thread_ends_as_ever() -> None:
    """What was opened is closed on the way."""
    line = "import atexit; from runtime.process import leave; atexit.register(print, 'closed', end=''); leave(70)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (70, "closed")


async def test_every_task_ends_before_its_loop() -> None:
    """Also one that another begins as it is cancelled."""
    begun: list[asyncio.Task[bool]] = []

    async def first() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            begun.append(asyncio.create_task(asyncio.Event().wait()))

    beginning = asyncio.create_task(first())
    await asyncio.sleep(0)
    await end_tasks()

    assert [task.cancelled() for task in (beginning, *begun)] == [True, True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_task_that_will_not_end_is_left() -> None:
    """The process has to end."""
    free = asyncio.Event()

    async def stay() -> None:
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    staying = asyncio.create_task(stay())
    await asyncio.sleep(0)
    left = await end_tasks(0.01)
    free.set()
    await staying

    assert left == {staying}


RESISTS = """
import asyncio
import contextlib
from runtime.process import run_to_the_end

async def resist():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

async def main():
    global resisting
    resisting = asyncio.create_task(resist())
    await asyncio.sleep(0)
    return 7

code = run_to_the_end(main(), within_s=0.01)
print("ended", end="")
raise SystemExit(code)
"""


def test_a_process_ends_though_a_task_resists() -> None:
    """It says so, and goes on behind its loop; ``asyncio.run`` would wait for the task for ever."""
    done = subprocess.run([sys.executable, "-c", RESISTS], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (7, "ended")
    assert "cancelled tasks do not end" in done.stderr


@pytest.mark.parametrize("fails", [False, True], ids=["it ends well", "it raises"])
def test_a_service_that_is_done_leaves_no_task_and_no_loop(fails: bool) -> None:
    """What it began is cancelled, its loop closed; what it returns or raises stands."""
    begun: list[asyncio.Task[bool]] = []

    async def main() -> str:
        begun.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.sleep(0)
        if fails:
            raise ValueError("its own")
        return "its own"

    try:
        said = run_to_the_end(main())
    except ValueError as error:
        said = str(error)

    assert said == "its own"
    assert begun[0].cancelled()
    assert begun[0].get_loop().is_closed()
