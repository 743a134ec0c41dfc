"""What Kafka rejects leaves the segments of the spool. Random programs with kills are in test_spool_random.

Covers producers.spool.undeliverable.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.spool.books import Tally
from producers.spool.frame import Spooled
from producers.spool.segment import Segment
from producers.spool.spool import Spool, SpoolLimits

LIMITS = SpoolLimits(bytes_max=40_000, record_bytes_max=5_000, segment_bytes=4_000)
REJECTED, OTHER = "llm.requests", "gpu.samples"


def record(topic: str, size: int = 900) -> Spooled:
    return Spooled(0, 0, 5, topic, 1, f"{topic}/1", "application/x-ndjson", b"host", 10, b"v" * size)


def moved(spool: Spool) -> None:
    """What is undeliverable has left the window."""
    hold = spool.begin_hold()
    assert hold is not None
    hold.run()
    spool.finish_hold(hold)


def spooled(spool: Spool, topics: list[str], size: int = 900) -> list[Spooled]:
    """Those that are handed out, of one record for each topic."""
    for topic in topics:
        spool.append(record(topic, size))
    spool.sync()
    return spool.take()


def test_segments_are_freed_though_a_topic_is_undeliverable(tmp_path: Path) -> None:
    """Its records lie elsewhere, under their identities; the low-water mark of the others goes on."""
    spool = Spool.open(tmp_path, LIMITS)
    taken = spooled(spool, [REJECTED, OTHER] * 8)
    spool.hold(REJECTED)
    moved(spool)
    spool.acknowledge(each for each in taken if each.topic == OTHER)
    spool.save()

    assert (spool.low, spool.low_of(OTHER), spool.unacknowledged_records) == ((1, 16), (1, 16), 8)
    assert spool.low_of(REJECTED) <= (1, 0)
    assert len(list((tmp_path / "segments").iterdir())) == 1
    assert spool.begin_hold() is None
    spool.abandon()


def test_new_records_of_an_undeliverable_topic_follow_those_that_wait(tmp_path: Path) -> None:
    """It is released once none waits: neither there nor in the window, on the way there."""
    spool = Spool.open(tmp_path, LIMITS)
    spooled(spool, [REJECTED])
    spool.hold(REJECTED)
    moved(spool)
    first = delivered(spool)
    handed_out = spooled(spool, [REJECTED, OTHER])
    released = [spool.release(REJECTED)]
    moved(spool)
    released.append(spool.release(REJECTED))
    second = delivered(spool)
    released.append(spool.release(REJECTED))
    as_any_other = spooled(spool, [REJECTED])
    spool.abandon()

    assert [each.topic for each in handed_out] == [OTHER]
    assert (first, second) == ([(1, 0)], [(1, 1)])
    assert released == [False, False, True]
    assert [each[:2] for each in as_any_other] == [(1, 3)]


def delivered(spool: Spool) -> list[tuple[int, int]]:
    """Identities of what waited of the rejected topic, and does no more."""
    queue = spool.undeliverable.queues[REJECTED]
    queue.hand_out(queue.read())
    waiting = list(queue.window.values())
    assert spool.acknowledge(waiting) == len(waiting)
    return [each[:2] for each in waiting]


def test_a_record_that_left_its_queue_waits_once(tmp_path: Path) -> None:
    """A kill before the queue's segment is removed leaves two copies of it."""
    spool = Spool.open(tmp_path, LIMITS)
    spooled(spool, [REJECTED] * 3)
    spool.hold(REJECTED)
    moved(spool)
    queue = spool.undeliverable.queues[REJECTED]
    queue.hand_out(queue.read())
    spool.undeliverable.move_alone(list(queue.window.values())[1])
    spool.save()
    spool.abandon()

    again = Spool.open(tmp_path, LIMITS)
    assert again.unacknowledged_records == 3
    assert again.books == {(1, REJECTED): Tally(3, 30, 0, 0)}
    assert delivered(again) == [(1, 0), (1, 2)]
    assert again.acknowledge(again.undeliverable.oversized.read((1, 1))) == 1
    assert again.books == {(1, REJECTED): Tally(3, 30, 30, 0)}
    again.abandon()


def test_what_is_undeliverable_survives_a_kill_and_is_in_the_books(tmp_path: Path) -> None:
    """It is not acknowledged, though its segment is gone."""
    spool = Spool.open(tmp_path, LIMITS)
    taken = spooled(spool, [REJECTED, OTHER] * 8)
    spool.hold(REJECTED)
    spool.undeliverable.hold_alone(taken[1])
    moved(spool)
    spool.acknowledge(taken[3::2])
    spool.save()
    spool.abandon()

    again = Spool.open(tmp_path, LIMITS)
    assert again.unacknowledged_records == 9
    assert again.books == {(1, REJECTED): Tally(8, 80, 0, 0), (1, OTHER): Tally(8, 80, 70, 0)}
    assert again.take() == []
    assert again.undeliverable.topics() == {REJECTED, OTHER}
    assert len(delivered(again)) == 8
    assert again.acknowledge(again.undeliverable.oversized.read((1, 1))) == 1
    assert all(tally.settled for tally in again.books.values())
    assert (again.release(REJECTED), again.undeliverable.size_bytes) == (True, 0)
    again.abandon()


def test_an_undeliverable_topic_has_a_share_of_the_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A quarter; what comes then is shed before it has an identity, declared, and said once. Others have the rest."""
    spool = Spool.open(tmp_path, LIMITS)
    spool.hold(REJECTED)
    for _ in range(20):
        spooled(spool, [REJECTED], size=2_000)
        if spool.begin_hold() is not None:
            moved(spool)
        spool.save()
    others = spooled(spool, [OTHER] * 10, size=2_000)
    tally = spool.books[1, REJECTED]
    spool.abandon()

    assert (tally.records, tally.shed_events) == (4, 160)
    assert len(others) == 10
    assert spool.undeliverable.of(REJECTED)[1] <= LIMITS.bytes_max // 4
    logged = [each.__dict__ for each in caplog.records if each.message == "shedding new events"]
    assert [(each["topic"], "share" in each["why"]) for each in logged] == [(REJECTED, True)]


def test_beside_a_record_that_is_too_large_smaller_ones_have_room(tmp_path: Path) -> None:
    """Of its topic only what is as large is shed, once the share is used."""
    spool = Spool.open(tmp_path, LIMITS)
    for _ in range(2):
        (large,) = spooled(spool, [OTHER], size=4_000)
        spool.undeliverable.hold_alone(large)
        moved(spool)
    as_large, smaller = spool.append(record(OTHER, 4_000)), spool.append(record(OTHER, 3_999))
    spool.abandon()

    assert as_large is None
    assert smaller is not None


def test_a_disk_that_takes_no_move_leaves_all_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so; the next try goes on with what was not moved."""
    spool = Spool.open(tmp_path, LIMITS)
    spooled(spool, [REJECTED] * 3)
    spool.hold(REJECTED)
    hold = spool.begin_hold()
    assert hold is not None

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("producers.spool.segment.os.write", full)
    hold.run()
    spool.finish_hold(hold)
    monkeypatch.undo()
    before = (str(hold.error), spool.low, spool.undeliverable.records)
    moved(spool)
    spool.abandon()

    assert before == ("[Errno 28] No space left on device", (1, 0), 0)
    assert (spool.low, spool.undeliverable.records) == ((1, 3), 3)


def test_a_queue_does_not_pass_a_record_that_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too large, and for which the disk has no room, while its topic rejects all: none counts as
    acknowledged after a kill. What is older is moved."""
    spool = Spool.open(tmp_path, LIMITS)
    large = spooled(spool, [REJECTED] * 3)[1]
    spool.undeliverable.hold_alone(large)
    spool.hold(REJECTED)
    really = Segment.append

    def some(segment: Segment, frame: bytes) -> None:
        if segment.path.parent.name == "oversized":
            raise OSError(28, "No space left on device")
        really(segment, frame)

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", some)
        moved(spool)
    before = (spool.undeliverable.records, [each[:2] for each in spool.taken])
    spool.save()
    spool.abandon()
    again = Spool.open(tmp_path, LIMITS)
    assert again.unacknowledged_records == 3
    assert again.books == {(1, REJECTED): Tally(3, 30, 0, 0)}
    again.take()
    moved(again)
    queued = delivered(again)
    again.abandon()

    assert before == (1, [(1, 1), (1, 2)])
    assert queued == [(1, 0), (1, 1), (1, 2)]


def test_a_record_that_the_disk_does_not_take_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no descriptor, however often it is tried; with room, it is moved."""
    spool = Spool.open(tmp_path, LIMITS)
    (large,) = spooled(spool, [OTHER], size=4_000)
    spool.undeliverable.hold_alone(large)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))

    def full(_segment: Segment, _frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", full)
        for _ in range(3):
            moved(spool)
    files = list((tmp_path / "undeliverable" / "oversized").iterdir())
    left = (len(list(Path("/proc/self/fd").iterdir())), files, spool.undeliverable.records)
    moved(spool)
    now = spool.undeliverable.records
    spool.abandon()

    assert left == (descriptors, [], 0)
    assert now == 1


def test_many_undeliverable_topics_leave_room_for_the_others(tmp_path: Path) -> None:
    """A quarter each would be more than there is: together they leave one to the others, which all of it is held to."""
    spool, rejected = Spool.open(tmp_path, LIMITS), [f"rejected.{number}" for number in range(8)]
    for topic in rejected:
        spool.hold(topic)
    for _ in range(8):
        for topic in rejected:
            spool.append(record(topic, 2_000))
            spool.sync()
            spool.take()
            if spool.begin_hold() is not None:
                moved(spool)
            spool.save()
    others = [spooled(spool, [OTHER]) for _ in range(3)]
    for each in others:
        spool.acknowledge(each)
    left = len(spool.taken)
    spool.abandon()

    assert [len(each) for each in others] == [1, 1, 1]
    assert left == 0
    assert spool.undeliverable.size_bytes <= LIMITS.bytes_max * 3 // 4
    assert spool.size_bytes <= LIMITS.bytes_max
