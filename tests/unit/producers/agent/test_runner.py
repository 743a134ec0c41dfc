from __future__ import annotations

import threading
from collections.abc import Sequence

from producers.agent.runner import Plan, Report, Runner
from producers.collector import Collected
from runtime.counters import Counters
from tests.unit.producers.agent.collectors import PATIENCE_S, Given, Plain, QuickClock, surroundings


def runner_of(make: object, given: Given, clock: QuickClock, *, hung_max: int = 3) -> tuple[Runner, Counters]:
    counters = Counters()
    plan = Plan("plain", make, limit_ms=5_000, hung_max=hung_max)  # type: ignore[arg-type]
    return Runner(plan, surroundings(given, clock), chance=lambda: 0.0, counters=counters), counters


def ended(runner: Runner) -> None:
    """Wait until the life it tends has ended."""
    assert runner.join(PATIENCE_S)


def test_a_collector_runs_until_it_is_stopped() -> None:
    """And is reported as running once it has read."""
    given, clock = Given(), QuickClock()
    runner, _ = runner_of(Plain, given, clock)

    before = runner.report()
    runner.tend(0.0)
    given.wait(2)
    during = runner.report()
    runner.stop()
    ended(runner)
    runner.tend(1.0)

    assert before == Report("plain", "resting", None, 0, 0, 0, None, None)
    assert (during.state, during.why, during.restarts) == ("running", None, 0)
    assert (runner.report().state, runner.report().readings) == ("stopped", len(given.parcels))


def test_a_collector_that_raises_is_made_again_after_a_rest() -> None:
    """1 s the first time, 2 s the second; each failure is counted by its kind."""
    given, clock, made = Given(), QuickClock(), list[Plain]()

    def raises(_number: int) -> None:
        raise ValueError("bad reading")

    def make() -> Plain:
        made.append(Plain(raises))
        return made[-1]

    runner, counters = runner_of(make, given, clock)
    moments = {}
    for now_s in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5):
        runner.tend(now_s)
        ended(runner)
        moments[now_s] = len(made)

    assert moments == {0.0: 1, 0.5: 1, 1.0: 1, 1.5: 2, 2.0: 2, 2.5: 2, 3.0: 2, 3.5: 2, 4.0: 3, 4.5: 3}
    assert counters.value("errors", where="collector-plain", error="ValueError") == 3
    assert runner.report() == Report("plain", "resting", "ValueError: bad reading", 0, 3, 0, None, None)
    assert all(each.closed.is_set() for each in made)


def test_a_hung_thread_is_abandoned_and_the_next_life_reads() -> None:
    """After the limit, not on it."""
    given, clock, hangs, woken = Given(), QuickClock(), threading.Event(), threading.Event()
    lives = 0

    def act(_number: int) -> None:
        if lives == 1:
            hangs.set()
            assert woken.wait(PATIENCE_S)

    def make() -> Plain:
        nonlocal lives
        lives += 1
        return Plain(act)

    runner, counters = runner_of(make, given, clock)
    runner.tend(0.0)
    assert hangs.wait(PATIENCE_S)
    runner.tend(5.0)
    on_the_limit = runner.report().hung_threads
    runner.tend(5.1)
    after = runner.report()
    runner.tend(6.1)
    given.wait(1)
    running = runner.report()
    woken.set()
    runner.stop()
    ended(runner)

    assert on_the_limit == 0
    assert (after.state, after.why, after.hung_threads) == ("resting", "hung for more than 5000 ms", 1)
    assert (running.state, running.restarts) == ("running", 1)
    assert counters.value("errors", where="collector-plain", error="hung") == 1


def test_it_stays_off_while_too_many_threads_hang_and_comes_back_with_them() -> None:
    """Two may hang: there is no third life before one of them wakes."""
    given, clock = Given(), QuickClock()
    hangs, woken, made = threading.Semaphore(0), threading.Event(), 0

    def act(_number: int) -> None:
        hangs.release()
        assert woken.wait(PATIENCE_S)

    def make() -> Plain:
        nonlocal made
        made += 1
        return Plain(act) if made <= 2 else Plain()

    runner, _ = runner_of(make, given, clock, hung_max=2)
    runner.tend(0.0)
    assert hangs.acquire(timeout=PATIENCE_S)
    clock.s = 10.0
    runner.tend(10.0)  # given up: the rest is 1 s
    clock.s = 12.0
    runner.tend(12.0)
    assert hangs.acquire(timeout=PATIENCE_S)
    clock.s = 20.0
    runner.tend(20.0)
    clock.s = 900.0
    runner.tend(900.0)
    off, made_then = runner.report(), made
    woken.set()
    for life in runner._hung:
        life.join(PATIENCE_S)
    runner.tend(901.0)
    given.wait(1)
    runner.stop()
    ended(runner)

    assert (off.state, off.hung_threads, made_then) == ("off", 2, 2)
    assert (made, runner.report().hung_threads) == (3, 0)


def test_failures_are_forgiven_after_healthy_readings() -> None:
    """The rest after ten good readings is that of a first failure."""
    given, clock, fails = Given(), QuickClock(), threading.Event()

    def act(_number: int) -> None:
        if fails.is_set():
            raise OSError

    runner, _ = runner_of(lambda: Plain(act), given, clock)
    fails.set()
    for now_s in (0.0, 1.0, 2.0, 3.0):  # begun, failed, begun, failed: the next rest would be 4 s
        runner.tend(now_s)
        ended(runner)
    fails.clear()
    clock.s = 5.0
    runner.tend(5.0)
    given.wait(10)
    runner.tend(6.0)
    fails.set()
    ended(runner)
    runner.tend(7.0)
    runner.tend(7.9)
    resting = runner.report().state
    fails.clear()
    clock.s = 8.0
    runner.tend(8.0)
    begun = runner.report().state
    runner.stop()
    ended(runner)

    assert (resting, begun in ("starting", "running")) == ("resting", True)


def test_one_that_waits_for_something_to_happen_does_not_hold_up_the_end() -> None:
    """It is given up: what it still reads is dropped."""
    given, happens, waits = Given(), threading.Event(), threading.Event()

    class Waiting(Plain):
        def wait(self, timeout_s: float) -> Sequence[Collected]:
            waits.set()
            assert happens.wait(PATIENCE_S)
            return self.collect(5)

    waiting = Waiting()
    runner, _ = runner_of(lambda: waiting, given, QuickClock())
    runner.tend(0.0)
    assert waits.wait(PATIENCE_S)
    runner.stop()
    at_once = runner.join(0.0)
    happens.set()

    assert (at_once, waiting.closed.wait(PATIENCE_S), given.parcels) == (True, True, [])
