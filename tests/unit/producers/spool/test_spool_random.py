"""The spool against a perfect memory, under random programs with kills, power cuts and torn writes in between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from producers.spool.frame import Spooled, encode_frame
from producers.spool.segment import Segment, read_segment, segment_paths
from producers.spool.spool import Spool, SpoolLimits

LIMITS = SpoolLimits(
    bytes_max=16_000,
    record_bytes_max=4_000,
    segment_bytes=700,
    tail_bytes_max=1_200,
    window_records_max=6,
    window_bytes_max=3_000,
)
TOPICS = ("llm.requests", "gpu.samples")

MEMORY = Path("/dev/shm")
"""Where a file is synced at once: power cuts are played by the test, none of it has to reach a disk."""

Identity = tuple[int, int]


def record(topic: str, events: int, size: int, number: int) -> Spooled:
    value = number.to_bytes(4, "little") * (size // 4 + 1)
    return Spooled(
        0, 0, number, topic, number % 4, f"{topic}/1", "application/x-ndjson", b"h%d" % number, events, value
    )


class SpoolMachine(RuleBasedStateMachine):
    """``written`` is what was reported spooled; ``landed`` what was acknowledged; ``handed`` what left the spool."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fleetpulse-spool-", dir=MEMORY if MEMORY.is_dir() else None))
        self.spool = Spool.open(self.folder / "spool", LIMITS)
        self.source = self.spool.source
        self.written: dict[Identity, Spooled] = {}
        self.synced: set[Identity] = set()
        self.handed: set[Identity] = set()
        self.landed: set[Identity] = set()
        self.shed: dict[tuple[int, str], int] = {}
        self.number = 0

    def teardown(self) -> None:
        self.spool.abandon()
        shutil.rmtree(self.folder)

    @rule(topic=st.sampled_from(TOPICS), events=st.integers(1, 50), size=st.sampled_from([0, 10, 300, 1_500, 3_900]))
    def append(self, topic: str, events: int, size: int) -> None:
        self.number += 1
        given_record = record(topic, events, size, self.number)

        spooled = self.spool.append(given_record)

        if spooled is None:
            key = (self.spool.boot, topic)
            self.shed[key] = self.shed.get(key, 0) + events
            held_bytes = self.spool.undeliverable.of(topic)[1]
            share_is_used = held_bytes + size + 4 > LIMITS.bytes_max // 4
            assert share_is_used or self.spool.size_bytes + size + 2_000 > LIMITS.bytes_max
            return
        assert spooled[2:] == given_record[2:]
        assert spooled[:2] not in self.written
        self.written[spooled.boot, spooled.seq] = spooled

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.synced = set(self.written)

    @rule()
    def take(self) -> None:
        low, before = self.spool.low, {each[:2] for each in self.spool.taken}
        for taken in self.spool.take():
            identity = (taken.boot, taken.seq)
            assert identity >= low
            assert identity not in before
            assert taken == self.written[identity]
            assert identity in self.synced or taken.boot < self.spool.boot
            self.handed.add(identity)

    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        taken = list(self.spool.taken)
        if taken:
            some = data.draw(st.lists(st.sampled_from(taken), unique=True))
            self.spool.acknowledge(some)
            self.landed |= {(each.boot, each.seq) for each in some}

    @rule(when=st.sampled_from(["drained", "as it is"]))
    def save(self, when: str) -> None:
        if when == "drained":
            self.drain()
        self.spool.save()

    @rule(when=st.sampled_from(["before its writing", "before the segments went", "after"]), drained=st.booleans())
    def killed(self, when: str, drained: bool) -> None:
        """kill -9, also in the middle of a save."""
        if drained:
            self.drain()
        save = self.spool.begin_save()
        if save is not None and when != "before its writing":
            save.run()
            if when == "after":
                self.spool.finish_save(save)
        self.reopen()

    @rule(cut=st.integers(1, 3_000))
    def killed_while_writing(self, cut: int) -> None:
        """kill -9 with part of a frame written: it was never reported as spooled."""
        segments = sorted((self.folder / "spool" / "segments").glob("*.seg"))
        if segments:
            torn = encode_frame(record("llm.requests", 3, 3_000, 77)._replace(boot=self.spool.boot, seq=9_999))
            with segments[-1].open("ab") as file:
                file.write(torn[:cut])
        self.reopen()

    @rule(data=st.data())
    def power_cut(self, data: Any) -> None:
        """What was not synced may be lost, or torn anywhere; it was never handed out."""
        synced = set(self.synced)
        assert not (set(self.written) - synced) & self.handed
        for segment in self.spool._log._unsynced:
            safe_bytes = self.end_of_synced(segment.path)
            keep_bytes = data.draw(st.integers(safe_bytes, segment.size_bytes))
            with segment.path.open("r+b") as file:
                file.truncate(keep_bytes)
        left = {(each.boot, each.seq) for segment, each in self.on_disk()} | self.apart()
        gone_before = {identity for identity in self.written if identity in synced and identity not in left}
        self.written = {identity: r for identity, r in self.written.items() if identity in left | gone_before}
        assert gone_before <= self.landed
        self.reopen()

    def end_of_synced(self, path: Path) -> int:
        return max(
            (s.size_bytes for s, each in self.on_disk() if s.path == path and each[:2] in self.synced), default=0
        )

    def apart(self) -> set[Identity]:
        """What lies in the files of undeliverable records."""
        paths = (self.folder / "spool" / "undeliverable").rglob("*.seg")
        return {each[:2] for path in paths if (found := read_segment(path)) is not None for each in found[1]}

    def on_disk(self) -> Iterator[tuple[Segment, Spooled]]:
        """The whole records of the folder; the segment's size is that up to the record."""
        for path in segment_paths(self.folder / "spool" / "segments"):
            found = read_segment(path)
            if found is not None:
                for each in found[1]:
                    yield found[0], each

    def reopen(self) -> None:
        boot = self.spool.boot
        self.spool.abandon()
        self.spool = Spool.open(self.folder / "spool", LIMITS)
        self.synced = set(self.written)
        assert self.spool.source == self.source
        assert self.spool.boot == boot + 1

    @rule(topic=st.sampled_from(TOPICS), writes=st.integers(0, 4), then=st.sampled_from(["go on", "killed"]))
    def rejected(self, topic: str, writes: int, then: str) -> None:
        """Kafka rejects a topic: its records leave the window, as far as the disk takes them."""
        self.spool.sync()
        self.synced = set(self.written)
        self.take()
        self.spool.hold(topic)
        self.move(writes, is_killed=then == "killed")

    @rule(data=st.data(), is_killed=st.booleans())
    def rejected_alone(self, data: Any, is_killed: bool) -> None:
        """Kafka rejects one record for its size."""
        self.take()
        if taken := list(self.spool.taken):
            self.spool.undeliverable.hold_alone(data.draw(st.sampled_from(taken)))
            self.move(9, is_killed=is_killed)

    def move(self, writes: int, *, is_killed: bool) -> None:
        if (hold := self.spool.begin_hold()) is None:
            return
        hold.too_large = hold.too_large[:writes]
        hold.by_queue = [(queue, records[:writes]) for queue, records in hold.by_queue]
        hold.run()
        if is_killed:
            self.reopen()
        else:
            self.spool.finish_hold(hold)

    @rule(topic=st.sampled_from(TOPICS), data=st.data())
    def retry(self, topic: str, data: Any) -> None:
        """Kafka takes some of what it rejected."""
        held = self.spool.undeliverable
        if (queue := held.queues.get(topic)) is not None:
            queue.hand_out(queue.read())
            waiting = list(queue.window.values())
            if waiting and data.draw(st.booleans()):
                held.move_alone(waiting.pop(data.draw(st.integers(0, len(waiting) - 1))))
            self.took(waiting[: data.draw(st.integers(0, len(waiting)))])
            queue.trim()
            assert self.spool.release(topic) == (topic not in held.queues)
        alone = held.oversized.identities(topic)
        if alone and data.draw(st.booleans()):
            self.took(held.oversized.read(data.draw(st.sampled_from(alone))))

    def took(self, records: list[Spooled]) -> None:
        assert all(each == self.written[each[:2]] for each in records)
        assert self.spool.acknowledge(records) == len(records)
        self.landed |= {each[:2] for each in records}

    @rule()
    def closed(self) -> None:
        """An orderly end."""
        self.spool.close()
        self.spool = Spool.open(self.folder / "spool", LIMITS)
        self.synced = set(self.written)

    @rule()
    def drain(self) -> None:
        """Once Kafka takes everything, everything that was spooled has landed, each record as it was."""
        self.spool.sync()
        self.synced = set(self.written)
        self.landed |= {(each.boot, each.seq) for each in self.spool.taken}
        self.spool.acknowledge(list(self.spool.taken))
        while self.spool.unacknowledged_records:
            taken = self.spool.take()
            assert all(each == self.written[each.boot, each.seq] for each in taken)
            self.handed |= {(each.boot, each.seq) for each in taken}
            self.took(taken)
            if (hold := self.spool.begin_hold()) is not None:
                hold.run()
                self.spool.finish_hold(hold)
            self.spool.save()
            self.deliver_all()

        assert self.landed == set(self.written)
        assert all(tally.settled for tally in self.spool.books.values())
        assert self.spool.unacknowledged_records == 0

    def deliver_all(self) -> None:
        """Kafka takes whatever it rejected before."""
        held = self.spool.undeliverable
        for topic, queue in list(held.queues.items()):
            while queue.records:
                queue.hand_out(queue.read())
                self.took(list(queue.window.values()))
            self.spool.release(topic)
        for identity in held.oversized.identities():
            self.took(held.oversized.read(identity))

    @invariant()
    def below_low_all_landed(self) -> None:
        lows = {topic: self.spool.low_of(topic) for topic in TOPICS}
        assert all(identity in self.landed for identity, each in self.written.items() if identity < lows[each.topic])

    @invariant()
    def what_left_the_segments_landed_or_is_kept_apart(self) -> None:
        left = {identity for identity in self.written if identity < self.spool.low}
        assert left <= self.landed | self.apart()

    @invariant()
    def acknowledged_is_what_landed(self) -> None:
        acknowledged = sum(tally.acknowledged_events for tally in self.spool.books.values())
        waiting = sum(self.written[identity].events for identity in self.waiting())
        assert acknowledged + waiting == sum(each.events for each in self.written.values())

    def waiting(self) -> set[Identity]:
        """What the spool still has to deliver, by its own account."""
        held, backlog = self.spool.undeliverable, self.spool._backlog
        waiting = {each[:2] for each in self.spool.taken}
        for queue in held.queues.values():
            waiting |= queue.window.keys() | {each[:2] for each in queue._backlog.read((99_999, 0), 999, 10**9)}
        waiting |= {each[:2] for each in backlog.read((99_999, 0), 999, 10**9)} | set(held.oversized.identities())
        assert len(waiting) == self.spool.unacknowledged_records
        return waiting

    @invariant()
    def the_books_are_exact(self) -> None:
        records: dict[tuple[int, str], int] = {}
        events: dict[tuple[int, str], int] = {}
        for (boot, _), each in self.written.items():
            key = (boot, each.topic)
            records[key] = records.get(key, 0) + 1
            events[key] = events.get(key, 0) + each.events
        books = self.spool.books

        assert {key: tally.records for key, tally in books.items() if tally.records} == records
        assert {key: tally.events for key, tally in books.items() if tally.events} == events
        assert {key: tally.shed_events for key, tally in books.items() if tally.shed_events} == self.shed

    @invariant()
    def the_size_is_bounded(self) -> None:
        """A move may take a segment more, and one record, before that which it leaves is removed."""
        assert self.spool.size_bytes <= LIMITS.bytes_max + LIMITS.segment_bytes + 2 * LIMITS.record_bytes_max


TestSpool = SpoolMachine.TestCase
TestSpool.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
