"""Undeliverable: records that Kafka rejects, kept apart from the spool's segments, so that these can be removed.

Rules
- A record keeps its identity; here it is on disk before the spool's own low-water mark passes it.
- Records of a topic that rejects all of them are a ``TopicQueue``, in order. While there is one, every record of the
  topic that was not acknowledged goes through it: one that is older than its last and not in it was acknowledged.
- A record that is too large alone is a file of its own: others of its topic are delivered meanwhile.
- A topic whose records here take ``share_bytes``, or all of them ``bytes_max``, gets no new ones: they are shed before
  they have an identity.

Its ``low``, as far as a topic is concerned, stands below its records here: consumers drop duplicates by partition.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from producers.spool.frame import Spooled, encode_frame
from producers.spool.segment import Segment, create_segment, read_segment, segment_paths
from producers.spool.segment_log import Backlog, SegmentLog, Sync
from producers.spool.slots import sync_data, sync_file

WINDOW_RECORDS_MAX = 256
WINDOW_BYTES_MAX = 4 * 1024 * 1024
"""Of one topic, handed out and not acknowledged; one record at least."""
_TAIL_BYTES_MAX = 1024 * 1024
_BEFORE_ALL, _AFTER_ALL = (0, -1), (2**64, 0)

Identity = tuple[int, int]
"""(boot, seq)."""


class TopicQueue:
    """Records of one topic in the order of their identities. ``last`` is the identity of the newest that ever came.
    Those of ``elsewhere`` lie in its files, and are not here any more."""

    def __init__(self, folder: Path, segment_bytes: int, elsewhere: Collection[Identity] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._log = SegmentLog(folder, segment_bytes)
        self.last: Identity = _BEFORE_ALL
        self.found: list[tuple[int, int]] = []  # boot and events of each record that lay there
        for record in self._log.recover(0):
            if record[:2] > self.last:  # else written twice, around an error of the disk
                self.last = record[:2]
                if record[:2] not in elsewhere:
                    self.found.append((record.boot, record.events))
        waiting = len(self.found)
        self._backlog = Backlog(self._log, (0, 0), waiting, _TAIL_BYTES_MAX, lambda record: record[:2] in elsewhere)
        self.window: OrderedDict[Identity, Spooled] = OrderedDict()

    @property
    def records(self) -> int:
        """Not acknowledged."""
        return self._backlog.records + len(self.window)

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return self._log.size_bytes

    @property
    def low(self) -> Identity:
        """Nothing here lies below."""
        return next(iter(self.window), self._backlog.through)

    def write(self, records: Sequence[Spooled]) -> tuple[list[Spooled], Sync, OSError | None]:
        """Make records safe on disk; may block. Those that are, what made them so, and why the next one is not."""
        written: list[Spooled] = []
        failure = None
        for record in records:
            try:
                self._log.append(record)
            except OSError as error:
                failure = error
                break
            written.append(record)
        sync = self._log.begin_sync(0)
        sync.run()
        return written, sync, failure

    def took(self, records: Iterable[Spooled], sync: Sync) -> None:
        """Take note of what was written."""
        self._log.finish_sync(sync)
        for record in records:
            self.last = record[:2]
            self._backlog.push(record)

    def read(self) -> list[Spooled]:
        """The next records, as many as the window has room for; may block."""
        room_bytes = WINDOW_BYTES_MAX - sum(len(record.value) for record in self.window.values())
        end = (self.last[0], self.last[1] + 1)
        return self._backlog.read(end, WINDOW_RECORDS_MAX - len(self.window), room_bytes)

    def hand_out(self, records: Iterable[Spooled]) -> None:
        """Take note that what was read is handed out."""
        for record in records:
            self.window[record[:2]] = record
        self._backlog.handed_out(records)

    def acknowledge(self, record: Spooled) -> bool:
        """Whether it waited here, and does no more."""
        return self.window.pop(record[:2], None) is not None

    def trim(self) -> None:
        """Remove segments whose records are all acknowledged."""
        self._log.remove(self._log.below(self.low))

    def boots(self) -> set[int]:
        """Boots whose records may be here."""
        return self._log.boots()

    def end(self) -> None:
        """Let go of an empty queue, and of its files."""
        self.close()
        for path in segment_paths(self._folder):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something of others lies there
            self._folder.rmdir()

    def close(self) -> None:
        """Let go of every descriptor."""
        self._backlog.close()
        self._log.abandon()


class Oversized:
    """Records that are too large for their topics, each in a file of its own. Nothing of their values is in memory."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = -1
        self._files: dict[Identity, tuple[Segment, str]] = {}
        self.found: list[tuple[str, int, int]] = []  # topic, boot and events of each record that lay there
        self._smallest: dict[str, int] = {}
        self._bytes: Counter[str] = Counter()
        for path in segment_paths(folder):
            self._number = int(path.stem)
            read = read_segment(path)
            records = [] if read is None else list(read[1])
            if read is None or not records or records[0][:2] in self._files:
                path.unlink()
                continue
            sync_file(path)
            self._add(read[0], records[0])
            self.found.append((records[0].topic, records[0].boot, records[0].events))

    def _add(self, segment: Segment, record: Spooled) -> None:
        self._files[record[:2]] = (segment, record.topic)
        self._bytes[record.topic] += segment.size_bytes
        self._smallest[record.topic] = min(len(record.value), self._smallest.get(record.topic, len(record.value)))

    def __len__(self) -> int:
        return len(self._files)

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return sum(tuple(self._bytes.values()))

    def topics(self) -> set[str]:
        """Topics that have records here."""
        return {topic for _, topic in self._files.values()}

    def identities(self, topic: str | None = None) -> list[Identity]:
        """Of all records, or of a topic's."""
        return [identity for identity, (_, its) in self._files.items() if topic in (None, its)]

    def of(self, topic: str) -> tuple[int, int | None]:
        """Bytes on disk, and the size of the smallest value that was too large; None when there is none."""
        return self._bytes[topic], self._smallest.get(topic)

    def write(self, records: Sequence[Spooled]) -> tuple[list[tuple[Segment, Spooled]], OSError | None]:
        """Make records safe on disk; may block. Those that are, and why the next one is not."""
        written: list[tuple[Segment, Spooled]] = []
        for record in records:
            try:
                segment = self._file_of(record)
            except OSError as error:
                return written, error
            assert segment.descriptor is not None
            sync_data(segment.descriptor)
            segment.note(record)
            segment.close()
            written.append((segment, record))
        return written, None

    def _file_of(self, record: Spooled) -> Segment:
        segment = create_segment(self._folder, self._number + 1, record.boot)
        self._number += 1
        try:
            segment.append(encode_frame(record))
        except BaseException:  # as when it is created: no file without its record stays
            segment.close()
            segment.path.unlink(missing_ok=True)
            raise
        return segment

    def took(self, written: Iterable[tuple[Segment, Spooled]]) -> None:
        """Take note of what was written."""
        for segment, record in written:
            self._add(segment, record)

    def read(self, identity: Identity) -> list[Spooled]:
        """The record; may block. Empty when the disk has lost it."""
        found = read_segment(self._files[identity][0].path)
        return [] if found is None else list(found[1])

    def forget(self, identity: Identity) -> bool:
        """Whether it was here; its file is removed."""
        found = self._files.pop(identity, None)
        if found is None:
            return False
        segment, topic = found
        segment.path.unlink(missing_ok=True)
        self._bytes[topic] -= segment.size_bytes
        if not self._bytes[topic]:
            self._smallest.pop(topic, None)
        return True

    def boots(self) -> set[int]:
        """Boots whose records are here."""
        return {boot for boot, _ in self._files}


@dataclass(slots=True)
class Hold:
    """Writes records of the spool's window here. ``run`` may block: use a thread."""

    by_queue: Sequence[tuple[TopicQueue, Sequence[Spooled]]]
    oversized: Oversized
    too_large: Sequence[Spooled]
    queued: list[tuple[TopicQueue, list[Spooled], Sync]] = field(default_factory=list)
    alone: list[tuple[Segment, Spooled]] = field(default_factory=list)
    error: OSError | None = None
    """Why not all of them are written; the rest stays where it is."""

    def run(self) -> None:
        self.alone, self.error = self.oversized.write(self.too_large)
        left: dict[str, Identity] = {}  # the first of each topic that is not written: its queue may not pass it
        for record in self.too_large[len(self.alone) :]:
            left.setdefault(record.topic, record[:2])
        for queue, records in self.by_queue:
            older = [record for record in records if record[:2] < left.get(record.topic, _AFTER_ALL)]
            written, sync, error = queue.write(older)
            self.queued.append((queue, written, sync))
            self.error = self.error or error


class Undeliverable:
    """All of them. ``folder`` is made on first use; ``share_bytes`` bounds what a topic takes of the disk,
    ``bytes_max`` what all of them take."""

    def __init__(self, folder: Path, segment_bytes: int, share_bytes: int, bytes_max: int) -> None:
        self._folder = folder / "topics"
        self._segment_bytes = segment_bytes
        self._share_bytes = share_bytes
        self._bytes_max = bytes_max
        self.oversized = Oversized(folder / "oversized")
        self._too_large: dict[Identity, str] = {}  # and its topic, of what is to come
        self._found_alone = alone = frozenset(self.oversized.identities())
        found = sorted(path for path in self._folder.glob("*") if path.is_dir())
        self.queues = {path.name: TopicQueue(path, segment_bytes, alone) for path in found}
        self._found_last = {topic: queue.last for topic, queue in self.queues.items()}

    def found(self) -> Iterator[tuple[str, int, int]]:
        """(topic, boot, events) of each record that lay here at the start."""
        for topic, queue in self.queues.items():
            yield from ((topic, boot, events) for boot, events in queue.found)
            queue.found = []
        yield from self.oversized.found

    def knew(self, record: Spooled) -> bool:
        """Whether a record of the spool's own segments lay here at the start, or had left here before."""
        identity = record[:2]
        return identity <= self._found_last.get(record.topic, _BEFORE_ALL) or identity in self._found_alone

    @property
    def records(self) -> int:
        """Not acknowledged."""
        return sum(queue.records for queue in self.queues.values()) + len(self.oversized)

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return sum(queue.size_bytes for queue in tuple(self.queues.values())) + self.oversized.size_bytes

    def topics(self) -> set[str]:
        """Topics of which something is here, or is to come here."""
        return self.queues.keys() | self.oversized.topics() | set(self._too_large.values())

    def of(self, topic: str) -> tuple[int, int]:
        """Records and bytes of a topic."""
        queue = self.queues.get(topic)
        records, size_bytes = (0, 0) if queue is None else (queue.records, queue.size_bytes)
        return records + len(self.oversized.identities(topic)), size_bytes + self.oversized.of(topic)[0]

    def low(self, topic: str) -> Identity | None:
        """Nothing of this topic here lies below; None when there is nothing of it."""
        queue = self.queues.get(topic)
        lows = [] if queue is None else [queue.low]
        return min(lows + self.oversized.identities(topic), default=None)

    def hold(self, topic: str) -> None:
        """From now on all records of this topic come here."""
        if topic not in self.queues:
            self.queues[topic] = TopicQueue(self._folder / topic, self._segment_bytes)

    def hold_alone(self, record: Spooled) -> None:
        """This one comes here, because it is too large."""
        self._too_large[record[:2]] = record.topic

    def holds(self, record: Spooled) -> bool:
        """Whether a record of the spool's window is to come here."""
        return record.topic in self.queues or record[:2] in self._too_large

    def has_share(self, topic: str, value_bytes: int) -> bool:
        """Whether a new record of this topic may be spooled."""
        queue = self.queues.get(topic)
        size_bytes, smallest = self.oversized.of(topic)
        if queue is None and (smallest is None or value_bytes < smallest):
            return True
        its_bytes = size_bytes + (0 if queue is None else queue.size_bytes)
        return its_bytes + value_bytes <= self._share_bytes and self.size_bytes + value_bytes <= self._bytes_max

    def move_alone(self, record: Spooled) -> None:
        """Let a record of its topic's queue lie by itself, because it is too large; may block."""
        written, error = self.oversized.write([record])
        if error is not None:
            raise error
        self.oversized.took(written)
        self.queues[record.topic].acknowledge(record)

    def begin(self, window: Iterable[Spooled], room_bytes: int) -> Hold | None:
        """What of the window, in order, must come here, as far as there is room; None when there is nothing."""
        by_topic: dict[str, list[Spooled]] = {}
        too_large: list[Spooled] = []
        for record in filter(self.holds, window):
            if room_bytes <= 0:
                break
            room_bytes -= len(record.value)
            (too_large if record[:2] in self._too_large else by_topic.setdefault(record.topic, [])).append(record)
        if not by_topic and not too_large:
            return None
        return Hold([(self.queues[topic], its) for topic, its in by_topic.items()], self.oversized, too_large)

    def finish(self, hold: Hold) -> list[Spooled]:
        """Take note that ``hold`` has run; the records that are here now."""
        self.oversized.took(hold.alone)
        held = [record for _, record in hold.alone]
        for record in held:
            self._too_large.pop(record[:2], None)
        for queue, records, sync in hold.queued:
            queue.took(records, sync)
            held += records
        return held

    def acknowledge(self, record: Spooled) -> bool:
        """Whether it waited here, and does no more."""
        queue = self.queues.get(record.topic)
        return (queue is not None and queue.acknowledge(record)) or self.oversized.forget(record[:2])

    def release(self, topic: str) -> bool:
        """Let an empty queue go: the topic is delivered as any other again. False while it has records."""
        queue = self.queues[topic]
        if queue.records:
            return False
        del self.queues[topic]
        queue.end()
        return True

    def boots(self) -> set[int]:
        """Boots whose records are here."""
        return self.oversized.boots().union(*(queue.boots() for queue in self.queues.values()))

    def close(self) -> None:
        """Let go of every descriptor."""
        for queue in self.queues.values():
            queue.close()
