import asyncio
import os
import resource
import signal

import pytest

from runtime.process import on_stop_signal, raise_descriptors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    """The event is set and nobody is ended."""
    ended: list[int] = []
    stopping = on_stop_signal(asyncio.get_running_loop(), exit_now=ended.append)

    os.kill(os.getpid(), number)
    await asyncio.wait_for(stopping.wait(), 5)

    assert ended == []


async def test_the_second_signal_ends_the_process() -> None:
    """With 128 + signal, as a shell would see it; the first signal may be another one."""
    ended: asyncio.Queue[int] = asyncio.Queue()
    stopping = on_stop_signal(asyncio.get_running_loop(), exit_now=ended.put_nowait)

    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(stopping.wait(), 5)
    os.kill(os.getpid(), signal.SIGTERM)

    assert await asyncio.wait_for(ended.get(), 5) == 143


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    """And may be lowered again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        raised = raise_descriptors()

        assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
