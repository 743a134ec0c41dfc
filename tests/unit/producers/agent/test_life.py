from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import pytest

from producers.agent import life as life_module
from producers.agent.life import CostMeter, Life, _Stop
from producers.collector import Collected
from tests.unit.producers.agent.collectors import PATIENCE_S, Given, Plain, QuickClock, surroundings


def test_readings_are_handed_over_until_it_is_stopped() -> None:
    """Each as a parcel; the collector is closed by the thread that read."""
    given, collector = Given(), Plain()

    life = Life("plain", lambda: collector, surroundings(given))
    given.wait(3)
    life.stop()
    life.join(PATIENCE_S)

    assert not life.alive
    assert collector.closed.is_set()
    assert life.error is None
    assert life.readings == collector.readings == len(given.parcels)
    assert [parcel.events() for parcel in given.parcels[:2]] == [[("host.samples", 1)], [("host.samples", 1)]]


def test_an_error_ends_it_and_is_kept() -> None:
    """In a reading, after the good ones before."""
    given = Given()

    def act(number: int) -> None:
        if number == 2:
            raise ZeroDivisionError

    collector = Plain(act)
    life = Life("plain", lambda: collector, surroundings(given))
    life.join(PATIENCE_S)

    assert isinstance(life.error, ZeroDivisionError)
    assert (life.alive, life.readings, len(given.parcels), collector.closed.is_set()) == (False, 1, 1, True)


def test_a_collector_that_cannot_be_made_is_an_error_too() -> None:
    """Nothing was read."""

    def make() -> Plain:
        raise OSError("no driver")

    life = Life("plain", make, surroundings(Given()))
    life.join(PATIENCE_S)

    assert (repr(life.error), life.readings) == ("OSError('no driver')", 0)


def test_what_an_abandoned_life_reads_is_thrown_away() -> None:
    """It comes back, closes what it held and ends."""
    given, hangs, woken = Given(), threading.Event(), threading.Event()

    def act(_number: int) -> None:
        hangs.set()
        assert woken.wait(PATIENCE_S)

    collector, clock = Plain(act), QuickClock()
    life = Life("plain", lambda: collector, surroundings(given, clock))
    assert hangs.wait(PATIENCE_S)
    clock.s = 7.0
    busy_s = life.busy_s(clock.s)
    life.abandon()
    woken.set()
    life.join(PATIENCE_S)

    assert busy_s == 7.0
    assert (life.alive, life.readings, given.parcels, collector.closed.is_set()) == (False, 0, [], True)
    assert life.busy_s(clock.s) == 0.0


def test_the_cost_is_metered_and_lengthens_the_interval() -> None:
    """The first reading, which finds out what there is, changes nothing; the second does."""
    given, cpu_s = Given(), itertools.count(0.0, 0.1)
    around = surroundings(given, cpu_s=lambda: next(cpu_s))

    life = Life("plain", Plain, around)
    given.wait(2)
    life.stop()
    life.join(PATIENCE_S)

    assert life.cost_us == 100_000
    assert isinstance(around.meter, CostMeter)
    assert around.meter.take() == 100_000 * life.readings
    assert around.meter.take() is None
    assert life.interval_ms == 8_192  # the first power of two of which 100 ms are at most 2 %


def test_a_collector_may_change_its_period() -> None:
    """The next tick lies on the new grid."""
    given = Given()

    def act(_number: int) -> None:
        collector.period_ms = 8

    collector = Plain(act)
    life = Life("plain", lambda: collector, surroundings(given))
    given.wait(2)
    life.stop()
    life.join(PATIENCE_S)

    assert life.interval_ms == 8


def test_what_a_collector_spends_in_threads_of_its_own_is_counted() -> None:
    """Beside what its reading cost."""

    class Spending(Plain):
        def cpu_s(self) -> float:
            return 0.002

    given = Given()
    life = Life("plain", Spending, surroundings(given))
    given.wait(2)
    life.stop()
    life.join(PATIENCE_S)

    assert life.cost_us == 2_000


def test_who_reads_in_its_own_thread_comes_behind_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector with threads of its own begins on it. The clock moves by a millisecond at each call."""
    monkeypatch.setattr(life_module, "BEHIND_MS", 3)
    moments: dict[str, list[int]] = {"plain": [], "spending": []}

    class Reading(Plain):
        period_ms = 8
        name = "plain"

        def collect(self, at_ms: int) -> Sequence[Collected]:
            moments[self.name].append(at_ms % 8)
            return super().collect(at_ms)

    class Spending(Reading):
        name = "spending"

        def cpu_s(self) -> float:
            return 0.0

    for make in (Reading, Spending):
        given = Given()
        life = Life(make.name, make, surroundings(given))
        given.wait(3)
        life.stop()
        life.join(PATIENCE_S)

    assert (moments["plain"][:3], moments["spending"][:3]) == ([4] * 3, [1] * 3)


def test_what_a_waiter_tells_is_handed_over_at_once() -> None:
    """It has no ticks; nothing is handed over while nothing happens; it is closed by the thread that waited."""

    class Waiting(Plain):
        def wait(self, timeout_s: float) -> Sequence[Collected]:
            return self.collect(5) if self.read._value < 2 else []

    given, waiting = Given(), Waiting()

    life = Life("waiting", lambda: waiting, surroundings(given))
    given.wait(2)
    life.stop()
    life.join(PATIENCE_S)

    assert (len(given.parcels), waiting.closed.is_set(), life.interval_ms, life.error) == (2, True, None, None)


def test_a_stop_is_noticed_by_who_waits_and_by_who_comes_later() -> None:
    """Set twice, it stays set; before, a wait ends by itself."""
    stop, noticed = _Stop(), list[bool]()
    before = (stop.wait(0.0), stop.is_set)
    waiting = threading.Thread(target=lambda: noticed.append(stop.wait(PATIENCE_S)))
    waiting.start()
    stop.set()
    stop.set()
    waiting.join(PATIENCE_S)

    assert (before, noticed, stop.wait(PATIENCE_S), stop.wait(0.0), stop.is_set) == (
        (False, False),
        [True],
        True,
        True,
        True,
    )
