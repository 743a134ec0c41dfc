"""One segment file of a spool: an append-only run of frames of one boot; read again after any kill.

A frame that is not whole at the end of a boot's last segment is a write that never returned: it was never reported as
spooled. At the end of another it is disk damage (``SegmentLog.report_damage``). A broken checksum
in the middle is, too: that frame is lost and logged as an error; reading goes on behind it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from producers.spool.books import Books, tally_of
from producers.spool.frame import (
    FRAME_BYTES_MIN,
    HEADER_BYTES,
    BadFrame,
    Spooled,
    decode_frame,
    decode_header,
    encode_header,
    frame_end,
)
from producers.spool.identity import sync_folder

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024
NOTHING = -1
"""``last_seq`` of a segment without records."""


@dataclass(slots=True, eq=False)
class Segment:
    """``size_bytes`` counts up to the end of the last whole frame, ``unread_bytes`` what lay behind it when it was read
    to its end. ``descriptor`` is None once it was closed."""

    number: int
    boot: int
    path: Path
    size_bytes: int
    descriptor: int | None = None
    last_seq: int = NOTHING
    unread_bytes: int = 0
    books: Books = field(default_factory=dict)

    @property
    def last(self) -> tuple[int, int]:
        """(boot, seq) of the last record."""
        return self.boot, self.last_seq

    def note(self, record: Spooled) -> None:
        """Count a record of this segment."""
        tally = tally_of(self.books, record.boot, record.topic)
        tally.records += 1
        tally.events += record.events
        self.last_seq = record.seq

    def append(self, frame: bytes) -> None:
        """Write a frame at the end. After an OSError the segment is as it was."""
        assert self.descriptor is not None
        try:
            written = os.write(self.descriptor, frame)
            if written != len(frame):
                raise OSError(f"only {written} of {len(frame)} bytes were written")
        except OSError:
            os.ftruncate(self.descriptor, self.size_bytes)
            os.lseek(self.descriptor, self.size_bytes, os.SEEK_SET)
            raise
        self.size_bytes += len(frame)

    def close(self) -> None:
        """Write no more."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def segment_paths(folder: Path) -> list[Path]:
    """The segment files of a folder, oldest first. Others that lie there are none of ours."""
    named = (path for path in folder.glob("*.seg") if path.stem.isascii() and path.stem.isdigit())
    return sorted(named, key=lambda path: int(path.stem))


def create_segment(folder: Path, number: int, boot: int) -> Segment:
    """A new, empty segment, open for writing."""
    path = folder / f"{number:012d}.seg"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        header = encode_header(boot, number)
        if os.write(descriptor, header) != len(header):
            raise OSError(f"{path} was not written whole")
        sync_folder(folder)
    except BaseException:  # an interrupt too: no half segment stays
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return Segment(number, boot, path, HEADER_BYTES, descriptor)


def read_segment(path: Path) -> tuple[Segment, Iterator[Spooled]] | None:
    """The segment in this file and its records; its size and its books grow while they are read.

    None when the file holds no record: the kill came while its header was being written.
    """
    data = path.read_bytes()
    header = decode_header(data)
    if header is None:
        if len(data) > HEADER_BYTES:
            _log.error("spool segment unreadable: its records are lost", extra={"path": str(path)})
        return None
    segment = Segment(header[1], header[0], path, HEADER_BYTES)
    return segment, _records(segment, data)


def _records(segment: Segment, data: bytes) -> Iterator[Spooled]:
    at = HEADER_BYTES
    while at + FRAME_BYTES_MIN <= len(data):
        try:
            found = decode_frame(data, at, segment.boot)
        except BadFrame as bad:
            if bad.end == len(data) or frame_end(data, bad.end) is None:
                break  # the last frame: torn by a power cut while it was written
            _log.error(
                "a frame of the spool is damaged: its record is lost", extra={"path": str(segment.path), "at": at}
            )
            at = bad.end
            continue
        if found is None:
            break
        record, at = found
        segment.note(record)
        segment.size_bytes = at
        yield record
    segment.unread_bytes = len(data) - at


class SegmentReader:
    """Reads a segment from its begin, in bounded chunks, also while it grows."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._position = HEADER_BYTES  # where in the file ``_data`` begins
        self._descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        self._data = b""
        self._at = 0

    def next(self) -> Spooled | None:
        """The next record, or None at the segment's present end."""
        while True:
            try:
                found = decode_frame(self._data, self._at, self.segment.boot)
            except BadFrame as bad:
                self._at = bad.end
                continue
            if found is not None:
                self._at = found[1]
                return found[0]
            if not self._fill():
                return None

    def _fill(self) -> bool:
        """Read on from the frame that is not whole yet; False when the segment holds no more."""
        self._position += self._at
        self._data, self._at = self._data[self._at :], 0
        known = len(self._data)
        left = self.segment.size_bytes - self._position - known
        if left <= 0:
            return False
        end = frame_end(self._data, 0)
        wanted = max(_CHUNK_BYTES, 0 if end is None else end - known)
        more = os.pread(self._descriptor, min(left, wanted), self._position + known)
        self._data += more
        return bool(more)

    def close(self) -> None:
        os.close(self._descriptor)
