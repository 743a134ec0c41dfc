from __future__ import annotations

import asyncio
import threading

import pytest

from producers.agent.runner import Plan, Runner
from producers.agent.supervisor import Service, Supervisor
from producers.publish.reconnect import BEAT_MS
from runtime.counters import Counters
from tests.unit.producers.agent.collectors import PATIENCE_S, Given, Plain, QuickClock, surroundings
from tests.virtual_clock import VirtualClock


async def test_one_that_hangs_and_one_that_raises_stop_no_other() -> None:
    """The third goes on reading, and the end is bounded."""
    hangs, woken, given, stop = threading.Event(), threading.Event(), Given(), asyncio.Event()

    def hang(_number: int) -> None:
        hangs.set()
        woken.wait(PATIENCE_S)

    def fail(_number: int) -> None:
        raise RuntimeError

    around, counters = surroundings(given), Counters()
    runners = [
        Runner(Plan(name, lambda act=act: Plain(act), 5_000), around, counters=counters)  # type: ignore[misc]
        for name, act in (("hangs", hang), ("fails", fail), ("good", lambda _number: None))
    ]
    supervisor = Supervisor(runners, [], QuickClock(), counters=counters)

    running = asyncio.create_task(supervisor.run(stop))
    assert await asyncio.to_thread(hangs.wait, PATIENCE_S)
    await asyncio.to_thread(given.wait, 20)
    woken.set()
    stop.set()
    await running

    by_name = {report.name: report for report in supervisor.reports()}
    assert by_name["good"].readings >= 20
    assert [report.state for report in by_name.values()] == ["stopped"] * 3


async def test_a_service_that_fails_is_restarted_and_reported() -> None:
    """It rests for a second; the others go on, and the agent is not ready meanwhile."""
    stop, counters, failed = asyncio.Event(), Counters(), asyncio.Event()

    async def fails(_stop: asyncio.Event) -> None:
        failed.set()
        raise OSError("the port is taken")

    async def serves(stop: asyncio.Event) -> None:
        await stop.wait()

    services = [Service("receiver", fails), Service("otlp", serves)]
    supervisor = Supervisor([], services, VirtualClock(), chance=lambda: 0.0, counters=counters)
    before = supervisor.why_not_ready()

    running = asyncio.create_task(supervisor.run(stop))
    await failed.wait()
    await asyncio.sleep(0)
    meanwhile = supervisor.why_not_ready()
    stop.set()
    await running

    assert (before, meanwhile) == (None, "receiver is down: OSError: the port is taken")
    assert counters.value("errors", where="service-receiver", error="OSError") == 1


def test_a_loop_that_stands_still_is_reported() -> None:
    """After 15 s without a look."""
    clock = VirtualClock()
    supervisor = Supervisor([], [], clock)

    fresh = supervisor.why_dead()
    clock.advance(14_999)
    before = supervisor.why_dead()
    clock.advance(1)

    assert (fresh, before, supervisor.why_dead()) == (None, None, "the event loop has stood still for 15 s")


async def test_who_ends_is_not_dead() -> None:
    """What is spooled is sent for longer than a loop may stand still: nobody need restart the agent for it."""
    stop, clock = asyncio.Event(), VirtualClock()
    supervisor = Supervisor([], [], clock)
    stop.set()
    await supervisor.run(stop)
    clock.advance(15_000)

    assert supervisor.why_dead() is None


async def test_what_is_added_is_tended_like_the_others() -> None:
    """The first goes on; both are reported, and both end."""
    first, second, stop = Given(), Given(), asyncio.Event()

    def runner(name: str, given: Given) -> Runner:
        return Runner(Plan(name, Plain, 5_000), surroundings(given), counters=Counters())

    supervisor = Supervisor([runner("first", first)], [], QuickClock(), counters=Counters())
    running = asyncio.create_task(supervisor.run(stop))
    await asyncio.to_thread(first.wait, 1)
    supervisor.add([runner("second", second)])
    await asyncio.to_thread(second.wait, 1)
    stop.set()
    await running

    assert [(report.name, report.state, report.restarts) for report in supervisor.reports()] == [
        ("first", "stopped", 0),
        ("second", "stopped", 0),
    ]


async def test_a_look_may_come_a_moment_earlier() -> None:
    """It is the beat; the one that it stands for does not come."""
    beats, stop, clock = list[float](), asyncio.Event(), VirtualClock(7_000 + BEAT_MS)

    def on_beat(next_s: float) -> None:
        beats.append(next_s)
        if len(beats) == 1:
            clock.advance(990)
            asyncio.get_running_loop().call_soon(supervisor.look_now)
            timers.append(asyncio.get_running_loop().call_later(0, stop.set))

    timers = list[asyncio.TimerHandle]()
    supervisor = Supervisor([], [], clock, on_beat=on_beat)
    supervisor.look_now()
    await supervisor.run(stop)

    assert beats == [pytest.approx(1.0), pytest.approx(1.01)]


async def test_each_look_is_a_beat() -> None:
    """The callback learns when the next comes: nearly a second, at the same moment of every second."""
    beats, stop = list[float](), asyncio.Event()

    def on_beat(next_s: float) -> None:
        beats.append(next_s)
        stop.set()

    await Supervisor([], [], VirtualClock(7_000 + BEAT_MS + 20), on_beat=on_beat).run(stop)

    assert beats == [pytest.approx(0.98)]
