from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from producers.agent import every_tick, in_daemon_thread, next_tick_ms, publish_rows, run_agent
from producers.batch import Batch
from schemas.build import rows_of
from schemas.events import BY_TOPIC, HOST_SAMPLES
from schemas.native import decode
from tests.fake_nvml import FakeNvml, gpus_of, installed


class RecordingPublisher:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.shed_events = 0
        self.when_both = asyncio.Event()

    async def put(self, topic: str, key: bytes, batch: Batch) -> bool:
        self.batches.append(batch)
        if {each.topic for each in self.batches} >= {"host.samples", "gpu.samples"}:
            self.when_both.set()
        return True

    def shed(self, topic: str, events: int) -> None:
        self.shed_events += events


class SteppingClock:
    """Jumps to the next tick whenever it is asked three times: as if the waiting were over."""

    def __init__(self) -> None:
        self.ms = 10_400

    def now_ms(self) -> int:
        self.ms += 300
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1_000


@pytest.mark.parametrize(("now_ms", "tick_ms"), [(0, 1_000), (999, 1_000), (1_000, 2_000), (1_001, 2_000)])
def test_ticks_lie_on_the_grid_of_the_wall_clock(now_ms: int, tick_ms: int) -> None:
    """A moment on the grid is past: the next one counts."""
    assert next_tick_ms(now_ms) == tick_ms


async def test_ticks_end_with_stop() -> None:
    """Nothing is done after it was set."""
    stop, seen = asyncio.Event(), list[int]()

    async def act(at_ms: int) -> None:
        seen.append(at_ms)
        if len(seen) == 3:
            stop.set()

    await every_tick(act, SteppingClock(), stop)

    assert len(seen) == 3
    assert len({at_ms // 1_000 for at_ms in seen}) == 3


async def test_a_host_with_gpus_publishes_both() -> None:
    """One record of the host and one of its GPUs a tick."""
    publisher, stop = RecordingPublisher(), asyncio.Event()

    publisher.when_both = stop
    with installed(FakeNvml(gpus_of("mock_h100", 8))):
        async with asyncio.timeout(20):
            await run_agent(publisher, stop, host="host-1", clock=SteppingClock())  # type: ignore[arg-type]

    by_topic = {batch.topic: batch for batch in publisher.batches}
    assert by_topic["gpu.samples"].count == 8
    assert by_topic["host.samples"].count == 1
    for topic, batch in by_topic.items():
        assert batch.key == b"host-1"
        assert {
            row["host"] for row in rows_of(BY_TOPIC[topic].fields, decode(batch.value, BY_TOPIC[topic].fields))
        } == {"host-1"}


async def test_rows_of_several_keys_are_several_records() -> None:
    """What no record can hold is declared."""
    publisher = RecordingPublisher()
    rows: list[dict[str, Any]] = [{"at_ms": 1, "host": host, "origin": "measured"} for host in ("a", "b", "a")]

    await publish_rows(publisher, HOST_SAMPLES, rows)  # type: ignore[arg-type]

    assert [(batch.key, batch.count) for batch in publisher.batches] == [(b"a", 2), (b"b", 1)]
    assert publisher.shed_events == 0


async def test_a_call_in_a_daemon_thread_gives_its_result_or_its_error() -> None:
    """And its thread never holds up the end of the process."""

    def body() -> bool:
        return threading.current_thread().daemon

    def failing() -> None:
        raise ZeroDivisionError

    assert await in_daemon_thread(body) is True
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(failing)
