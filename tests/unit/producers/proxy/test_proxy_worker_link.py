"""What workers hand to their parent: batches as they were, counts as of one process, and a number that outlives one."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from producers.batch import Batch
from producers.proxy import worker_link
from producers.proxy.worker_link import Begun, MergedCounts, WorkerLink, items_of
from runtime.counters import Counters

BATCHES = st.builds(
    Batch, st.just("llm.requests"), st.just("s"), st.just("t"), st.binary(max_size=9), st.integers(1, 9), st.binary()
)


class Pipe:
    """A writer into a reader; ``waiting`` bytes are said to be unread."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.transport = self
        self.waiting = 0
        self.closing = False

    def write(self, data: bytes) -> None:
        self.reader.feed_data(data)

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def link(self, counters: Counters | None = None) -> WorkerLink:
        return WorkerLink(cast(asyncio.StreamWriter, self), counters=counters or Counters())

    async def items(self) -> list[dict[str, Any]]:
        self.reader.feed_eof()
        return [item async for item in items_of(self.reader)]


@given(st.lists(BATCHES, max_size=5), st.integers(0, 60))
def test_batches_arrive_as_they_were_up_to_a_death(batches: list[Batch], cut: int) -> None:
    """Whatever bytes they hold; one that a death cut off is left out, none before it."""

    async def run() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        whole, short = Pipe(), Pipe()
        link = whole.link()
        for batch in batches:
            assert link.put_at_once(batch)
        sent = bytes(whole.reader._buffer)  # type: ignore[attr-defined]
        short.write(sent[: max(0, len(sent) - cut)])
        return await whole.items(), await short.items()

    all_of_them, some = asyncio.run(run())

    assert [item["batch"] for item in all_of_them] == batches
    assert [item["count"] for item in all_of_them] == [batch.count for batch in batches]
    assert [item["batch"] for item in some] == batches[: len(some)]
    assert len(some) == len(batches) or cut


async def test_what_the_parent_does_not_read_is_shed() -> None:
    """And declared, by the few bytes that always fit; to a parent that is gone nothing is said."""
    pipe = Pipe()
    link, batch = pipe.link(), Batch("llm.requests", "s", "t", b"", 3, b"v")
    pipe.waiting = worker_link.WAITING_BYTES_MAX + 1

    taken = link.put_at_once(batch)
    pipe.closing = True
    after = link.put_at_once(batch)

    assert (taken, after) == (False, False)
    assert await pipe.items() == [{"shed": "llm.requests", "count": 3}]


async def test_what_a_worker_tells_the_others_goes_to_its_parent() -> None:
    """While that reads."""
    pipe = Pipe()
    link = pipe.link()
    link.tell_others({"made": {"request_id": "resp_1"}})
    pipe.waiting = worker_link.WAITING_BYTES_MAX + 1
    link.tell_others({"made": {"request_id": "resp_2"}})

    assert await pipe.items() == [{"others": {"made": {"request_id": "resp_1"}}}]


async def test_a_report_has_everything_that_is_counted() -> None:
    """By name and labels, with what the worker says of itself."""
    pipe, counters = Pipe(), Counters()
    counters.add("proxy_requests", 2, api="chat", status=200)
    counters.set("proxy_open_requests", 5)

    pipe.link(counters).report(dead=None, unready="every upstream is down", up=True)
    (item,) = await pipe.items()

    assert sorted(map(tuple, (each[::2] for each in item.pop("report")))) == [
        ("proxy_open_requests", 5.0),
        ("proxy_requests", 2.0),
    ]
    assert item == {"dead": None, "unready": "every upstream is down", "up": True}


def test_counts_of_workers_are_those_of_one_process() -> None:
    """Counters add up and stay; numbers of things go with their worker; of marks on an upstream the worst counts."""
    counters = Counters()
    merged, labels, where = MergedCounts(counters), {"api": "chat", "status": "200"}, {"upstream": "e:1"}

    def seen() -> tuple[float, ...]:
        return (
            counters.value("proxy_requests", **labels),
            counters.value("proxy_open_requests"),
            counters.value("proxy_upstream_down", **where),
        )

    def report(worker: int, requests: float, are_open: float, down: float) -> tuple[float, ...]:
        readings = [("proxy_requests", labels, requests), ("proxy_open_requests", {}, are_open)]
        merged.take(worker, [*readings, ("proxy_upstream_down", where, down)])
        return seen()

    found = [report(0, 3, 2, 1), report(1, 4, 5, 0), report(0, 6, 1, 1)]
    merged.forget(0)
    found.append(seen())
    found.append(report(0, 1, 1, 0))  # a new life, which counts from 0

    assert found == [(3, 2, 1), (7, 7, 1), (10, 6, 1), (10, 5, 0), (11, 6, 0)]


def test_workers_do_not_name_themselves_in_their_parents_metrics() -> None:
    """Of one instance, rules match the one process that it is: several names end the evaluation."""
    counters = Counters()
    counters.set("process_info", 1, process="proxy")
    merged = MergedCounts(counters)

    for worker in range(2):
        of_worker = {"process": f"proxy-{worker}"}
        merged.take(worker, [("process_info", of_worker, 1), ("process_start_ms", of_worker, 9e12)])
        merged.forget(worker)

    assert counters.readings() == [("process_info", {"process": "proxy"}, 1)]


def test_what_a_worker_has_begun_outlives_it() -> None:
    """The parent reads what was written last; a fresh one holds 0."""
    descriptor = Begun.fresh()
    parents, workers = Begun(descriptor), Begun(os.dup(descriptor))
    os.close(descriptor)

    before = parents.count()
    for _ in range(300):
        workers.one_more()
    del workers

    assert (before, parents.count()) == (0, 300)
