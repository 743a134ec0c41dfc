"""The segments of a spool in order: appended at the end, removed at the front; and the records not handed out yet.

Those are kept in memory while they are few, else read from disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from producers.spool.frame import HEADER_BYTES, Spooled, encode_frame
from producers.spool.segment import Segment, SegmentReader, create_segment, read_segment, segment_paths
from producers.spool.slots import sync_data, sync_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sync:
    """Makes what was written before ``through_seq`` safe against a power cut. ``run`` may block: use a thread."""

    through_seq: int
    segments: tuple[Segment, ...]

    def run(self) -> None:
        for segment in self.segments:
            assert segment.descriptor is not None
            sync_data(segment.descriptor)


class SegmentLog:
    """``size_bytes`` is what all segments take on disk. Records of a boot go into segments of their own."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments: deque[Segment] = deque()
        self._current: Segment | None = None
        self._unsynced: list[Segment] = []
        self._last_number = -1
        self.size_bytes = 0

    def recover(self, first_number: int) -> Iterator[Spooled]:
        """All records from segment ``first_number`` on, in order; older segments and empty ones are removed."""
        self._last_number = first_number - 1
        for path in segment_paths(self._folder):
            self._last_number = max(self._last_number, int(path.stem))
            found = read_segment(path) if int(path.stem) >= first_number else None
            if found is None:
                path.unlink()
                continue
            segment, records = found
            sync_file(path)  # what a killed process wrote is sent now: it must be safe first
            self._segments.append(segment)
            yield from records
            self.size_bytes += segment.size_bytes

    def report_damage(self) -> None:
        """Log what could not be read behind the last record of a segment that another of its boot follows: that one was
        begun when it was full, so it was written to its end."""
        for segment, following in pairwise(self._segments):
            if segment.unread_bytes and segment.boot == following.boot:
                place = {"path": str(segment.path), "at": segment.size_bytes, "bytes": segment.unread_bytes}
                _log.error("the rest of a spool segment is unreadable: its records are lost", extra=place)

    def append(self, record: Spooled) -> None:
        """Write the record. After an OSError nothing has changed."""
        frame = encode_frame(record)
        segment = self._room_for(len(frame), record.boot)
        segment.append(frame)
        segment.note(record)
        self.size_bytes += len(frame)

    def _room_for(self, frame_bytes: int, boot: int) -> Segment:
        current = self._current
        if (
            current is not None
            and current.boot == boot
            and (current.size_bytes == HEADER_BYTES or current.size_bytes + frame_bytes <= self._segment_bytes)
        ):
            return current
        fresh = create_segment(self._folder, self._last_number + 1, boot)
        self._last_number += 1
        self.size_bytes += HEADER_BYTES
        self._segments.append(fresh)
        self._unsynced.append(fresh)
        self._current = fresh
        return fresh

    def begin_sync(self, through_seq: int) -> Sync:
        """What must be synced for the records below ``through_seq`` to be safe."""
        return Sync(through_seq, tuple(self._unsynced))

    def finish_sync(self, sync: Sync) -> None:
        """Close what was synced and is full."""
        for segment in sync.segments:
            if segment is not self._current:
                self._unsynced.remove(segment)
                segment.close()

    def after(self, number: int) -> Segment | None:
        """The first segment with a higher number. A copy is searched: a thread may be writing the next."""
        return next((segment for segment in tuple(self._segments) if segment.number > number), None)

    def below(self, low: tuple[int, int]) -> tuple[Segment, ...]:
        """The oldest segments, closed, whose records all lie below ``low``."""
        done = []
        for segment in self._segments:
            if segment.descriptor is not None or segment.last >= low:
                break
            done.append(segment)
        return tuple(done)

    def remove(self, segments: tuple[Segment, ...]) -> None:
        """Remove these, the oldest."""
        for segment in segments:
            assert self._segments[0] is segment
            self._segments.popleft()
            self.size_bytes -= segment.size_bytes
            segment.path.unlink(missing_ok=True)

    def boots(self) -> set[int]:
        """Boots that still have a segment."""
        return {segment.boot for segment in self._segments}

    def ends(self) -> dict[int, int]:
        """Of each boot that has a segment, the seq behind its last record."""
        return {segment.boot: segment.last_seq + 1 for segment in self._segments}

    def finish(self) -> None:
        """Write no more; all must be synced before."""
        self._current = None
        for segment in self._unsynced:
            segment.close()
        self._unsynced.clear()

    def abandon(self) -> None:
        """Let go of every descriptor, as the end of the process would."""
        for segment in self._segments:
            segment.close()


class Backlog:
    """``records`` wait. ``through`` is the (boot, seq) below which everything was handed out. Of what lies on disk,
    records that ``is_elsewhere`` are passed over, and not among those that wait."""

    def __init__(
        self,
        log: SegmentLog,
        through: tuple[int, int],
        records: int,
        bytes_max: int,
        is_elsewhere: Callable[[Spooled], bool] | None = None,
    ) -> None:
        self._log = log
        self._bytes_max = bytes_max
        self._is_elsewhere = is_elsewhere
        self._memory: deque[Spooled] = deque()
        self._memory_bytes = 0
        self.on_disk = records > 0  # memory is not in use: every record is read from disk, which may block
        self._reader: SegmentReader | None = None
        self._read: deque[Spooled] = deque()  # read from disk and not handed out
        self._read_all = False
        self.records = records
        self.through = through

    def push(self, record: Spooled) -> None:
        """Take note of a record that was appended to the log."""
        self.records += 1
        if self.on_disk:
            return
        self._memory.append(record)
        self._memory_bytes += len(record.value)
        if self._memory_bytes > self._bytes_max:
            self._memory.clear()
            self._memory_bytes = 0
            self.on_disk = True

    def read(self, end: tuple[int, int], records_max: int, bytes_max: int) -> list[Spooled]:
        """The next records below ``end``, until one of the bounds is reached. They still wait: ``handed_out`` is next.
        Any thread may call it, while no other method is called."""
        out: list[Spooled] = []
        size_bytes = 0
        self._read_all = False
        source = self._from_disk() if self.on_disk else iter(self._memory)
        while len(out) < records_max and size_bytes < bytes_max:
            record = next(source, None)
            if record is None or record[:2] >= end:
                break
            out.append(record)
            size_bytes += len(record.value)
        return out

    def handed_out(self, records: Iterable[Spooled]) -> None:
        """Take note that what was read is not waiting any more."""
        waiting = self._read if self.on_disk else self._memory
        for record in records:
            first = waiting.popleft()
            assert first is record
            self.records -= 1
            self.through = (record.boot, record.seq + 1)
            if not self.on_disk:
                self._memory_bytes -= len(record.value)
        if self.on_disk and (not self.records or (self._read_all and not self._read)):
            self._back_to_memory()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _from_disk(self) -> Iterator[Spooled]:
        yield from tuple(self._read)
        while (record := self._next_on_disk()) is not None:
            self._read.append(record)
            yield record
        self._read_all = True

    def _next_on_disk(self) -> Spooled | None:
        """The next record at or above ``through`` that was not read; None when the disk holds no more."""
        begin = (self._read[-1].boot, self._read[-1].seq + 1) if self._read else self.through
        number = -1
        while True:
            if self._reader is None:
                segment = self._log.after(number)
                while segment is not None and segment.last < begin:
                    segment = self._log.after(segment.number)
                if segment is None:
                    return None
                self._reader = SegmentReader(segment)
            record = self._reader.next()
            if record is None:
                number = self._reader.segment.number
                self.close()
            elif record[:2] >= begin and not (self._is_elsewhere and self._is_elsewhere(record)):
                return record

    def _back_to_memory(self) -> None:
        if self.records:
            _log.error("spooled records unreadable: they are lost", extra={"records": self.records})
            self.records = 0
        self.close()
        self.on_disk = self._read_all = False


@dataclass(slots=True)
class Take:
    """Reads the next records, which may block while many wait."""

    backlog: Backlog
    end: tuple[int, int]
    records_max: int
    bytes_max: int
    records: list[Spooled] = field(default_factory=list)

    @property
    def blocks(self) -> bool:
        """Whether they are on disk alone."""
        return self.backlog.on_disk

    def run(self) -> None:
        self.records = self.backlog.read(self.end, self.records_max, self.bytes_max)
