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
            assert self.spool.size_bytes + size + 2_000 > LIMITS.bytes_max
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
        left = {(each.boot, each.seq) for segment, each in self.on_disk()}
        gone_before = {identity for identity in self.written if identity in synced and identity not in left}
        self.written = {identity: r for identity, r in self.written.items() if identity in left | gone_before}
        assert gone_before <= self.landed
        self.reopen()

    def end_of_synced(self, path: Path) -> int:
        return max(
            (s.size_bytes for s, each in self.on_disk() if s.path == path and each[:2] in self.synced), default=0
        )

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
        while taken := self.spool.take():
            assert all(each == self.written[each.boot, each.seq] for each in taken)
            self.handed |= {(each.boot, each.seq) for each in taken}
            self.landed |= {(each.boot, each.seq) for each in taken}
            self.spool.acknowledge(taken)

        assert self.landed == set(self.written)
        assert all(tally.settled for tally in self.spool.books.values())
        assert self.spool.unacknowledged_records == 0

    @invariant()
    def below_low_all_landed(self) -> None:
        assert all(identity in self.landed for identity in self.written if identity < self.spool.low)

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
        assert self.spool.size_bytes <= LIMITS.bytes_max


TestSpool = SpoolMachine.TestCase
TestSpool.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
