"""The segments of a spool in order: appended at the end, removed at the front; and the records not handed out yet.

Those are kept in memory while they are few, else read from disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from producers.spool.frame import HEADER_BYTES, Spooled, encode_frame
from producers.spool.segment import Segment, SegmentReader, create_segment, read_segment, segment_paths
from producers.spool.slots import sync_data, sync_file


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
    """``size_bytes`` is what all segments take on disk. Records of this boot go into segments of their own."""

    def __init__(self, folder: Path, boot: int, segment_bytes: int) -> None:
        self._folder = folder
        self._boot = boot
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

    def append(self, record: Spooled) -> None:
        """Write the record. After an OSError nothing has changed."""
        frame = encode_frame(record)
        segment = self._room_for(len(frame))
        segment.append(frame)
        segment.note(record)
        self.size_bytes += len(frame)

    def _room_for(self, frame_bytes: int) -> Segment:
        current = self._current
        if current is not None and (
            current.size_bytes == HEADER_BYTES or current.size_bytes + frame_bytes <= self._segment_bytes
        ):
            return current
        fresh = create_segment(self._folder, self._last_number + 1, self._boot)
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


_log = logging.getLogger(__name__)


class Backlog:
    """``records`` wait. ``through`` is the (boot, seq) below which everything was handed out."""

    def __init__(self, log: SegmentLog, through: tuple[int, int], records: int, bytes_max: int) -> None:
        self._log = log
        self._bytes_max = bytes_max
        self._memory: deque[Spooled] = deque()
        self._memory_bytes = 0
        self._on_disk = records > 0  # memory is not in use: every record is read from disk
        self._reader: SegmentReader | None = None
        self._read: Spooled | None = None  # read from disk and not handed out
        self.records = records
        self.through = through

    def push(self, record: Spooled) -> None:
        """Take note of a record that was appended to the log."""
        self.records += 1
        if self._on_disk:
            return
        self._memory.append(record)
        self._memory_bytes += len(record.value)
        if self._memory_bytes > self._bytes_max:
            self._memory.clear()
            self._memory_bytes = 0
            self._on_disk = True

    def pop(self, end: tuple[int, int]) -> Spooled | None:
        """The next record below ``end``; None when there is none."""
        if self._on_disk:
            return self._pop_from_disk(end)
        if not self._memory or self._memory[0][:2] >= end:
            return None
        record = self._memory.popleft()
        self._memory_bytes -= len(record.value)
        return self._hand_out(record)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _hand_out(self, record: Spooled) -> Spooled:
        self.records -= 1
        self.through = (record.boot, record.seq + 1)
        return record

    def _pop_from_disk(self, end: tuple[int, int]) -> Spooled | None:
        record = self._read or self._next_on_disk()
        if record is None:
            self._back_to_memory()
            return None
        if record[:2] >= end:
            self._read = record
            return None
        self._read = None
        self._hand_out(record)
        if not self.records:
            self._back_to_memory()
        return record

    def _next_on_disk(self) -> Spooled | None:
        """The next record at or above ``through``; None when the disk holds no more."""
        number = -1
        while True:
            if self._reader is None:
                segment = self._log.after(number)
                while segment is not None and segment.last < self.through:
                    segment = self._log.after(segment.number)
                if segment is None:
                    return None
                self._reader = SegmentReader(segment)
            record = self._reader.next()
            if record is None:
                number = self._reader.segment.number
                self.close()
            elif record[:2] >= self.through:
                return record

    def _back_to_memory(self) -> None:
        if self.records:
            _log.error("spooled records unreadable: they are lost", extra={"records": self.records})
            self.records = 0
        self.close()
        self._on_disk = False
