"""The segments of a spool in order: appended at the end, removed at the front."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from producers.spool.frame import HEADER_BYTES, Spooled, encode_frame
from producers.spool.segment import Segment, create_segment, read_segment, segment_paths
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
        """The first segment with a higher number."""
        return next((segment for segment in self._segments if segment.number > number), None)

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
