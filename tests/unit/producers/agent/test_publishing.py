from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from producers.agent import publishing
from producers.agent.publishing import BEAT_SOON_S, Handover, Parcel, packed, publish_rows
from producers.batch import Batch
from producers.collector import Collected
from schemas.events.event_types import GPU_EVENTS, HOST_SAMPLES


class RecordingPublisher:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.shed_events: list[tuple[str, int]] = []
        self.came = asyncio.Event()

    def put_at_once(self, batch: Batch) -> bool:
        self.batches.append(batch)
        self.came.set()
        return True

    def shed(self, topic: str, events: int) -> None:
        self.shed_events.append((topic, events))


def host_row(host: str, at_ms: int = 1, **more: Any) -> dict[str, Any]:
    return {"at_ms": at_ms, "host": host, "origin": "measured"} | more


async def test_rows_of_several_keys_are_several_records() -> None:
    """In the order in which the keys came."""
    publisher = RecordingPublisher()

    await publish_rows(publisher, HOST_SAMPLES, [host_row("a"), host_row("b"), host_row("a")])  # type: ignore[arg-type]

    assert [(batch.key, batch.count) for batch in publisher.batches] == [(b"a", 2), (b"b", 1)]
    assert publisher.shed_events == []


async def test_what_no_record_can_hold_is_declared() -> None:
    """By topic; the rest goes its way."""
    publisher = RecordingPublisher()
    large = host_row("a", at_ms="x" * 9_000_000)

    await publish_rows(publisher, HOST_SAMPLES, [large, host_row("a")])  # type: ignore[arg-type]

    assert [(batch.key, batch.count) for batch in publisher.batches] == [(b"a", 1)]
    assert publisher.shed_events == [("host.samples", 1)]


def test_parts_without_rows_are_nothing() -> None:
    """A collector may have no rows of a topic."""
    assert packed([Collected(GPU_EVENTS, []), Collected(HOST_SAMPLES, [])]) == Parcel([], [])


async def test_parcels_of_another_thread_are_published() -> None:
    """As they come; those that wait when it is finished too."""
    publisher = RecordingPublisher()
    handover = Handover(publisher)  # type: ignore[arg-type]
    running = asyncio.create_task(handover.run())

    thread = threading.Thread(target=lambda: handover.give(packed([Collected(HOST_SAMPLES, [host_row("a")])])))
    thread.start()
    async with asyncio.timeout(20):
        await publisher.came.wait()
    handover.give(packed([Collected(HOST_SAMPLES, [host_row("b")])]))
    handover.finish()
    await running

    assert [(batch.topic, batch.count) for batch in publisher.batches] == [("host.samples", 1)] * 2


async def test_what_finds_no_room_is_declared_when_the_loop_moves_again() -> None:
    """One parcel waits; two more, one of them with an event that fits no batch, are shed whole."""
    publisher = RecordingPublisher()
    handover = Handover(publisher, parcels_max=1)  # type: ignore[arg-type]

    handover.give(packed([Collected(HOST_SAMPLES, [host_row("a")])]))
    handover.give(packed([Collected(HOST_SAMPLES, [host_row("a"), host_row("b")])]))
    handover.give(Parcel([], [("gpu.events", 3)]))
    handover.drain()

    assert [(batch.key, batch.count) for batch in publisher.batches] == [(b"a", 1)]
    assert publisher.shed_events == [("host.samples", 2), ("gpu.events", 3)]


async def test_a_publisher_that_fails_ends_it() -> None:
    """Nothing could be kept any more; what comes later is not tried."""
    publisher = RecordingPublisher()
    handover = Handover(publisher)  # type: ignore[arg-type]
    running = asyncio.create_task(handover.run())
    parcel = packed([Collected(HOST_SAMPLES, [host_row("a")])])

    def fails(batch: Batch) -> bool:
        raise OSError("the disk is gone")

    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(publisher, "put_at_once", fails)
        handover.give(parcel)
        handover.beat(1.0)
    handover.give(parcel)
    handover.beat(1.0)
    handover.finish()

    with pytest.raises(OSError, match="the disk is gone"):
        await running
    assert publisher.batches == []


class Loop:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def call_soon_threadsafe(self, _call: object) -> None:
        self.woken += 1


async def test_the_last_parcel_of_a_second_brings_the_beat() -> None:
    """When as many came as between the two beats before, however they were published."""
    publisher, calls = RecordingPublisher(), list[str]()
    handover = Handover(publisher)  # type: ignore[arg-type]
    handover.beat_now = lambda: calls.append("beat")
    parcel = packed([Collected(HOST_SAMPLES, [host_row("a")])])

    async def second(parcels: int) -> str:
        """What they brought; then the beat comes by itself."""
        calls.clear()
        for number in range(parcels):
            handover.give(parcel)
            await asyncio.sleep(0)
            calls.append(str(number + 1))
        handover.beat(BEAT_SOON_S)
        return " ".join(calls)

    order = [await second(parcels) for parcels in (2, 2, 3, 2, 2)]

    assert order == ["1 2", "1 beat 2", "1 beat 2 3", "1 2", "1 beat 2"]


@pytest.mark.parametrize(
    ("since_beat_s", "woken"),
    [(0.0, 1), (1.0 - BEAT_SOON_S - 0.01, 1), (1.0 - BEAT_SOON_S + 0.01, 0), (0.99, 0), (1.0, 1), (60.0, 1)],
)
async def test_a_parcel_waits_for_the_beat_that_is_near(
    since_beat_s: float, woken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next beat comes a second after the last; one that is overdue is not waited for."""
    now = SimpleNamespace(monotonic=lambda: 5_000.0)
    monkeypatch.setattr(publishing, "time", now)
    publisher, loop = RecordingPublisher(), Loop()
    handover = Handover(publisher)  # type: ignore[arg-type]
    running = asyncio.create_task(handover.run())
    handover.beat(1.0)
    now.monotonic = lambda: 5_000.0 + since_beat_s

    monkeypatch.setattr(handover, "_loop", loop)
    handover.give(packed([Collected(HOST_SAMPLES, [host_row("a")])]))
    handover.beat(1.0)
    async with asyncio.timeout(20):
        await publisher.came.wait()
    handover.finish()
    await running

    assert (loop.woken, len(publisher.batches)) == (woken, 1)
