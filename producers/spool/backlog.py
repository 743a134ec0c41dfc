"""Records that were spooled and not handed out yet, in order: in memory while they are few, else read from disk."""

from __future__ import annotations

import logging
from collections import deque

from producers.spool.frame import Spooled
from producers.spool.segment import SegmentReader
from producers.spool.segment_log import SegmentLog

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
