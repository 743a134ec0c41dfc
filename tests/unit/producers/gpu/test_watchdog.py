from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from producers.gpu.watchdog import Done, Failed, Hung, Watchdog

LIMIT_S = 0.2
Make = Callable[..., Watchdog[str]]


@pytest.fixture
def watchdog(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes watchdogs whose workers are named like the test and end with it."""
    with ExitStack() as stack:

        def make(limit_s: float = 5.0) -> Watchdog[str]:
            made: Watchdog[str] = Watchdog(limit_s, request.node.name)
            stack.callback(made.close)
            return made

        yield make


def readers(request: pytest.FixtureRequest) -> list[threading.Thread]:
    """The workers of this test, in the order they were begun."""
    return [thread for thread in threading.enumerate() if thread.name == request.node.name]


def test_steps_run_in_order_in_one_thread_that_stays(watchdog: Make) -> None:
    """Round after round."""
    runs = watchdog()
    seen: list[tuple[str, int]] = []

    def step(name: str) -> Callable[[], str]:
        return lambda: (seen.append((name, threading.get_ident())), name)[1]

    outcomes = [runs.run({name: step(name) for name in ("b", "a")}) for _ in range(2)]

    assert outcomes == [{"b": Done("b"), "a": Done("a")}] * 2
    assert [name for name, _ in seen] == ["b", "a", "b", "a"]
    assert len({thread for _, thread in seen}) == 1
    assert {thread for _, thread in seen} != {threading.get_ident()}


def test_a_step_that_raises_costs_no_other(watchdog: Make) -> None:
    """Its error is handed over."""
    error = ValueError("bad")

    def bad() -> str:
        raise error

    assert watchdog().run({"bad": bad, "good": lambda: "fine"}) == {"bad": Failed(error), "good": Done("fine")}


def test_nothing_to_do_is_done_at_once(watchdog: Make, request: pytest.FixtureRequest) -> None:
    """Without a thread."""
    assert watchdog().run({}) == {}
    assert readers(request) == []


def test_a_step_that_hangs_is_left_behind_once_and_taken_up_when_it_is_back(
    watchdog: Make, request: pytest.FixtureRequest
) -> None:
    """Others go on in a fresh thread; what the late step brings is thrown away."""
    runs = watchdog(LIMIT_S)
    release = threading.Event()
    begun: list[str] = []

    def hangs() -> str:
        begun.append("hangs")
        release.wait(30)
        return "late"

    steps = {"first": lambda: "1", "hangs": hangs, "last": lambda: "2"}

    at_first = runs.run(steps)
    meanwhile = runs.run(steps)
    left_behind, _ = readers(request)
    release.set()
    left_behind.join(5)
    after = runs.run(steps)

    assert at_first == {"first": Done("1"), "hangs": Hung(newly=True), "last": Done("2")}
    assert meanwhile == {"first": Done("1"), "hangs": Hung(newly=False), "last": Done("2")}
    assert after == {"first": Done("1"), "hangs": Done("late"), "last": Done("2")}
    assert begun == ["hangs", "hangs"]


def test_there_is_one_lost_thread_per_step_that_hangs(watchdog: Make, request: pytest.FixtureRequest) -> None:
    """However many rounds go by; none is left when nothing else is to be done."""
    runs = watchdog(0.05)
    release = threading.Event()
    steps = {name: lambda: str(release.wait(30)) for name in ("a", "b")}

    seen = [runs.run(steps) for _ in range(4)]
    threads = readers(request)
    release.set()
    for thread in threads:
        thread.join(5)

    assert seen == [{"a": Hung(True), "b": Hung(True)}] + [{"a": Hung(False), "b": Hung(False)}] * 3
    assert len(threads) == 2
    assert readers(request) == []


def test_the_worker_s_processor_time_is_returned_once(watchdog: Make) -> None:
    """It is no part of the caller's own time."""
    runs = watchdog()

    runs.run({"work": lambda: str(sum(range(200_000)))})

    assert runs.cpu_s() > 0
    assert runs.cpu_s() == 0
