"""The writer: a disk that stalls or fails, and a loop that goes on."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from producers.batch import Batch
from producers.publish import writer as writer_module
from producers.publish.writer import SpoolWriter, finished
from producers.spool.frame import Spooled
from producers.spool.segment_log import SegmentLog
from producers.spool.slots import Slots
from producers.spool.spool import Spool, SpoolLimits
from runtime.counters import Counters
from runtime.runbook import Cause
from schemas.errors import RejectedError

TOPIC = "llm.requests"
NO_WRITE = OSError(errno.EROFS, "Read-only file system")


def batch(events: int = 1, value: bytes = b"v" * 100) -> Batch:
    return Batch(TOPIC, "s/1", "t", b"h", events, value)


class Rig:
    """A writer on a spool of its own, and what became of each batch."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool.open(folder, SpoolLimits(record_bytes_max=1_000))
        self.outcomes: list[tuple[int, bool]] = []
        self.disk = asyncio.Lock()
        self.counters = Counters()
        self.writer = SpoolWriter(self.spool, self.disk, self._outcome, self.counters)

    def _outcome(self, record: Spooled, spooled: bool) -> None:
        self.outcomes.append((record.events, spooled))

    def offer(self, *batches: Batch) -> list[bool]:
        return [self.writer.offer(each, 0, 5) for each in batches]

    def events(self) -> list[int]:
        """Of the records in the spool, in order of their numbers, without a gap."""
        self.spool.sync()
        taken = self.spool.take()
        assert [record.seq for record in taken] == list(range(len(taken)))
        return [record.events for record in taken]

    def shed(self) -> int:
        return sum(tally.shed_events for tally in self.spool.books.values())


async def test_a_disk_that_stalls_holds_up_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes meanwhile waits up to the bound; beyond, it is shed; with the disk back, written and declared."""
    rig, hangs, moves, really = Rig(tmp_path), threading.Event(), threading.Event(), SegmentLog.append

    def slow(log: SegmentLog, record: Spooled) -> None:
        hangs.set()
        moves.wait(120)
        really(log, record)

    monkeypatch.setattr(SegmentLog, "append", slow)
    monkeypatch.setattr(writer_module, "WAITING_BYTES_MAX", 300)
    first = rig.writer.put(batch(1), 0, 5)
    assert await asyncio.to_thread(hangs.wait, 120)
    taken = rig.offer(batch(2), batch(3), batch(4))
    meanwhile = (first.done(), list(rig.outcomes), rig.shed())
    moves.set()
    await rig.writer.drain()

    assert taken == [True, True, False]
    assert meanwhile == (False, [(4, False)], 0)
    assert (first.result(), rig.events(), rig.shed()) == (True, [1, 2, 3], 4)
    assert sorted(rig.outcomes) == [(1, True), (2, True), (3, True), (4, False)]
    rig.spool.abandon()


async def test_a_batch_that_the_disk_does_not_take_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is declared; those around it have numbers without a gap."""
    rig, really = Rig(tmp_path), SegmentLog.append

    def some(log: SegmentLog, record: Spooled) -> None:
        if record.events == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(log, record)

    monkeypatch.setattr(SegmentLog, "append", some)
    rig.offer(batch(1), batch(2), batch(3))
    await rig.writer.drain()

    assert (rig.events(), rig.shed()) == ([1, 3], 2)
    assert rig.outcomes == [(1, True), (2, False), (3, True)]
    rig.spool.abandon()


async def test_a_disk_that_takes_no_declaration_ends_the_writer_which_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written stays spooled; who waits is told why; the rest, and what is to be declared, is for the next."""
    rig, really = Rig(tmp_path), SegmentLog.append

    def one(log: SegmentLog, record: Spooled) -> None:
        if record.events > 1:
            raise NO_WRITE
        really(log, record)

    def none(_slots: Slots, _value: bytes, *, durable: bool = True) -> None:
        raise NO_WRITE

    monkeypatch.setattr(SegmentLog, "append", one)
    monkeypatch.setattr(Slots, "write", none)
    rig.writer.declare(TOPIC, 7)
    rig.offer(batch(1), batch(2))
    asked = rig.writer.put(batch(3), 0, 5)
    await rig.writer.drain()
    batches, shed = rig.writer.left()

    assert asked.exception() is NO_WRITE
    assert ([each.count for each in batches], dict(shed)) == ([2], {TOPIC: 7})
    assert rig.outcomes == [(1, True)]
    assert rig.events() == [1]
    rig.spool.abandon()


async def test_what_is_on_its_way_to_the_disk_cannot_be_taken_back(tmp_path: Path) -> None:
    """Who is cancelled meanwhile learns that it is spooled."""
    rig = Rig(tmp_path)
    waiting = asyncio.create_task(finished(rig.writer.put(batch(1), 0, 5)))
    await asyncio.sleep(0)
    waiting.cancel()

    assert (await waiting, rig.events()) == (True, [1])
    rig.spool.abandon()


@pytest.mark.parametrize("steps", [0, 2], ids=["before its first step", "while it waits for the disk"])
async def test_a_writer_that_is_ended_before_it_has_the_disk_leaves_all_of_it(tmp_path: Path, steps: int) -> None:
    """Who waits is told; the rest, and what is to be declared, is for the next."""
    rig = Rig(tmp_path)
    async with rig.disk:
        rig.writer.declare(TOPIC, 7)
        rig.offer(batch(1), batch(2))
        asked = rig.writer.put(batch(3), 0, 5)
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in rig.writer.tasks:
            task.cancel()
        await asyncio.gather(*rig.writer.tasks, return_exceptions=True)
        batches, shed = rig.writer.left()

    assert asked.done()
    assert str(asked.exception()) == "the spool was closed"
    assert ([each.count for each in batches], dict(shed)) == ([1, 2], {TOPIC: 7})
    assert (rig.events(), rig.outcomes) == ([], [])
    rig.spool.abandon()


async def test_what_can_never_be_sent_is_refused_at_once(tmp_path: Path) -> None:
    """And the writer goes on."""
    rig = Rig(tmp_path)

    with pytest.raises(RejectedError):
        rig.offer(batch(1, b"v" * 1_001))
    rig.offer(batch(2))
    await rig.writer.drain()

    assert rig.events() == [2]
    rig.spool.abandon()


class Room:
    """Says when there may be room: every time it is asked, after what ``then`` does."""

    def __init__(self, *then: Callable[[], object]) -> None:
        self.then = list(then)

    async def comes(self) -> None:
        self.then.pop(0)()
        await asyncio.sleep(0)


async def test_who_keeps_a_batch_waits_for_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is shed, declared or counted; others are shed meanwhile. The gauge says so, for as long."""
    rig, really, full = Rig(tmp_path), SegmentLog.append, [True]
    causes: list[float] = []

    def append(log: SegmentLog, record: Spooled) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(log, record)

    monkeypatch.setattr(SegmentLog, "append", append)

    def look() -> None:
        causes.append(rig.counters.value("cause", cause=Cause.SPOOL))

    room = Room(look, lambda: rig.offer(batch(3)), full.clear)
    await rig.writer.put_unshed(batch(2), 0, lambda: 5, room.comes)
    look()

    assert (rig.events(), rig.shed(), rig.outcomes) == ([2], 3, [(3, False), (2, True)])
    assert causes == [1, 0]
    rig.spool.abandon()


async def test_the_gauge_is_set_when_it_changes_not_for_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first record on it is there, so that an alert on it sees what changes."""
    rig, really, full, told = Rig(tmp_path), SegmentLog.append, [True], []
    monkeypatch.setattr(rig.counters, "set", lambda _name, value, **_labels: told.append(value))

    def append(log: SegmentLog, record: Spooled) -> None:
        if full and record.events == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(log, record)

    async def written(*events: int) -> list[float]:
        rig.offer(*map(batch, events))
        await rig.writer.drain()
        return told[:]

    monkeypatch.setattr(SegmentLog, "append", append)
    steps = [await written(1, 2, 1), await written(3), await written(3, 3)]
    full.clear()
    steps += [await written(3), await written(1, 2)]

    assert steps == [[0], [0, 1], [0, 1], [0, 1, 0], [0, 1, 0]]
    rig.spool.abandon()


async def test_who_keeps_a_batch_waits_for_the_share_of_its_topic(tmp_path: Path) -> None:
    """An undeliverable topic whose share is used has no room, though the spool has."""
    rig = Rig(tmp_path)
    share = rig.spool.undeliverable
    share.hold(TOPIC)
    share._share_bytes = 0
    room = Room(lambda: setattr(share, "_share_bytes", 10_000))
    await rig.writer.put_unshed(batch(2), 0, lambda: 5, room.comes)

    assert (rig.events(), rig.shed(), room.then) == ([], 0, [])
    assert rig.spool.books[1, TOPIC].records == 1
    rig.spool.abandon()


async def test_who_stops_waiting_for_a_disk_keeps_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither on disk nor shed; what is on disk by then is taken."""
    rig, moves, fails = Rig(tmp_path), threading.Event(), [True]
    really = SegmentLog.append

    def append(log: SegmentLog, record: Spooled) -> None:
        moves.wait(120)
        if fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(log, record)

    async def cancelled() -> bool:
        waiting = asyncio.create_task(rig.writer.put_unshed(batch(2), 0, lambda: 5, Room().comes))
        await asyncio.sleep(0)
        waiting.cancel()
        moves.set()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    monkeypatch.setattr(SegmentLog, "append", append)
    first = await cancelled()
    fails.clear()

    assert (first, await cancelled()) == (True, False)
    assert (rig.events(), rig.shed()) == ([2], 0)
    rig.spool.abandon()
