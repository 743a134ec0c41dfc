from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from producers.agent import one_processor
from producers.agent.one_processor import GATHER_EVERY, OneProcessor
from tests.unit.producers.agent.collectors import PATIENCE_S


class Threads:
    """``begin`` starts one more that waits; it is known by the system's number."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._threads = list[threading.Thread]()

    def begin(self) -> int:
        thread = threading.Thread(target=self._ended.wait, args=(PATIENCE_S,))
        thread.start()
        self._threads.append(thread)
        assert thread.native_id is not None
        return thread.native_id

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Threads that end with the test."""
    threads = Threads()
    yield threads
    threads.end()


def test_others_follow_the_thread_that_looks(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come later too; it stays free itself, and in the end they are."""
    allowed = os.sched_getaffinity(0)
    first, last = min(allowed), max(allowed)
    processor = [first]
    monkeypatch.setattr(one_processor, "_processor_now", lambda: lambda: processor[0])
    place, thread = OneProcessor(), threads.begin()

    place.look()
    at_first = os.sched_getaffinity(thread)
    another = threads.begin()
    place.look()
    of_another = os.sched_getaffinity(another)
    processor[0] = last
    place.look()
    followed = [os.sched_getaffinity(each) for each in (thread, another)]
    place.leave()

    assert (at_first, of_another) == ({first}, {first})
    assert followed == [{last}] * 2
    assert [os.sched_getaffinity(each) for each in (0, thread, another)] == [allowed] * 3


def test_threads_that_nobody_counts_are_found_after_a_while(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done while nothing changes."""
    gathered = list[set[int]]()
    monkeypatch.setattr(one_processor, "_processor_now", lambda: lambda: 0)
    monkeypatch.setattr(one_processor, "_gather", gathered.append)
    place = OneProcessor()

    for _ in range(2 * GATHER_EVERY):
        place.look()

    assert gathered == [{0}] * 3


def test_a_processor_that_is_not_ours_is_no_failure(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads stay where they were."""
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(one_processor, "_processor_now", lambda: lambda: 100_000)
    thread = threads.begin()

    place = OneProcessor()
    place.look()

    assert os.sched_getaffinity(thread) == allowed


def test_without_affinity_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems other than Linux."""
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.setattr(one_processor, "_gather", lambda _processor: pytest.fail("nothing can be moved"))

    OneProcessor().look()


def test_the_processor_of_this_thread_is_one_of_those_it_may_use() -> None:
    """Wherever that is now."""
    now = one_processor._processor_now()

    assert now is not None
    assert now() in os.sched_getaffinity(0)
