"""The agent of a host: its own figures and its GPUs', once a second on the second, into the spool.

Host and GPUs are read by tasks of their own. A driver that hangs holds its thread, and the GPUs' samples, until it
answers; the host's samples and the agent's end go on without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from producers.batch import BatchBuilder
from producers.host_sampler import HostSampler
from producers.nvml_sampler import NvmlSampler
from producers.publisher import Publisher
from runtime.clock import Clock, SystemClock
from schemas.events import GPU_EVENTS, GPU_SAMPLES, HOST_SAMPLES
from schemas.fields import Event

_log = logging.getLogger(__name__)

PERIOD_MS = 1_000
Row = dict[str, Any]
Answer = TypeVar("Answer")


def next_tick_ms(now_ms: int, period_ms: int = PERIOD_MS) -> int:
    """The next moment on the grid, above ``now_ms``: a late reading skips ticks, it is never made up for."""
    return (now_ms // period_ms + 1) * period_ms


async def run_agent(
    publisher: Publisher,
    stop: asyncio.Event,
    *,
    host: str | None = None,
    cluster: str | None = None,
    region: str | None = None,
    placement: Mapping[str, Mapping[str, str | None]] | None = None,
    clock: Clock | None = None,
) -> None:
    """Sample this host and its GPUs until ``stop``.

    ``placement`` tells by GPU UUID what the agent knows of it: engine_id, placement_group, workload.
    """
    clock = clock or SystemClock()
    labels = {"host": host or socket.gethostname(), "cluster": cluster, "region": region}
    hosts = HostSampler(labels, clock=clock)

    async def sample_host(at_ms: int) -> None:
        await publish_rows(publisher, HOST_SAMPLES, [await asyncio.to_thread(hosts.sample, at_ms)])

    async with asyncio.TaskGroup() as tasks:
        gpus = tasks.create_task(_sample_gpus(publisher, labels, placement or {}, clock, stop))
        await every_tick(sample_host, clock, stop)
        gpus.cancel()


async def _sample_gpus(
    publisher: Publisher,
    labels: Mapping[str, str | None],
    placement: Mapping[str, Mapping[str, str | None]],
    clock: Clock,
    stop: asyncio.Event,
) -> None:
    sampler = await in_daemon_thread(lambda: NvmlSampler.open(labels, placement, clock=clock))
    if sampler is None:
        return
    _log.info("GPUs are sampled", extra={"gpus": len(sampler.gpu_uuids)})

    async def sample(at_ms: int) -> None:
        samples, events = await in_daemon_thread(lambda: sampler.sample(at_ms))
        await publish_rows(publisher, GPU_EVENTS, events)
        await publish_rows(publisher, GPU_SAMPLES, samples)

    await every_tick(sample, clock, stop)


async def publish_rows(publisher: Publisher, event: Event, rows: list[Row]) -> None:
    """Spool rows of one event now, one record per key."""
    builder = BatchBuilder(event)
    batches = [batch for row in rows for batch in builder.add(row, 0.0)]
    for batch in batches + builder.flush():
        await publisher.put(batch.topic, batch.key, batch)
    if builder.oversized_events:
        publisher.shed(event.topic, builder.oversized_events)


async def every_tick(act: Callable[[int], Awaitable[None]], clock: Clock, stop: asyncio.Event) -> None:
    """Call ``act`` with the time, on every tick of the grid, until ``stop``; ticks missed meanwhile are left out."""
    while await _reached(next_tick_ms(clock.now_ms()), clock, stop):
        await act(clock.now_ms())


async def _reached(at_ms: int, clock: Clock, stop: asyncio.Event) -> bool:
    """True when the moment has come, False when ``stop`` was set before."""
    while not stop.is_set():
        left_ms = at_ms - clock.now_ms()
        if left_ms <= 0:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(left_ms, PERIOD_MS) / 1_000)
    return False


async def in_daemon_thread(call: Callable[[], Answer]) -> Answer:
    """The call's result. Its thread never holds up the end of the process, whatever the call hangs on."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def tell(result: Answer | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def body() -> None:
        result, failed = None, None
        try:
            result = call()
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, failed)

    threading.Thread(target=body, name="nvml", daemon=True).start()
    return await future
