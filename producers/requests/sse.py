"""Reader of server-sent events from a stream of bytes in pieces of any size.

The rules are those of the WHATWG HTML standard, section 9.2.6 (lines end in CR LF, LF or CR; one BOM may open the
stream; a colon opens a comment; ``data`` lines are joined by LF; a blank line ends the event), with one liberty:
``close`` gives an event that the stream ended in without its blank line, because servers leave that out after the last.
Bytes stay bytes: a character cut between two pieces is whole again when its event is. Wherever a stream is cut, the
same events come out. Memory is bounded by ``event_bytes_max``: a larger event is skipped and counted.
"""

from __future__ import annotations

import re

EVENT_BYTES_MAX = 1024 * 1024
"""Default bound of one event: its lines without their ends."""
_BOM = b"\xef\xbb\xbf"
_HEAD, _TAIL = b"data: ", b"\n\n"
_BLANK_LINES = re.compile(rb"\n{3,}")


class SseReader:
    """``feed`` pieces in order, ``close`` at the end. ``oversize_events`` counts events that were skipped."""

    __slots__ = ("_after_cr", "_bytes_max", "_data", "_line", "_opening", "_size", "_skipping", "oversize_events")

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = event_bytes_max
        self._line = bytearray()  # an unfinished line; in an event that is skipped, no more than "there is one"
        self._data: list[bytes] = []
        self._size = 0  # bytes of the finished lines of this event
        self._after_cr = False
        self._opening = True
        self._skipping = False
        self.oversize_events = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that this piece completes, in order."""
        if (
            piece.endswith(_TAIL)
            and piece.startswith(_HEAD)
            and self._idle
            and piece.count(b"\n") == 2
            and b"\r" not in piece
            and len(piece) - 2 <= self._bytes_max
        ):  # one whole event, as engines send them
            self._opening = False
            return [piece[6:-2]]
        return self._walk(piece)

    @property
    def _idle(self) -> bool:
        return not (self._line or self._size or self._data or self._after_cr or self._skipping)

    def close(self) -> list[bytes]:
        """The event that the stream ended in, if it holds data."""
        out = self._walk(b"\n\n") if self._line or self._data else []
        self._line.clear()
        self._data, self._size, self._after_cr, self._skipping = [], 0, False, False
        return out

    def _walk(self, piece: bytes) -> list[bytes]:
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if self._opening:
            piece = self._without_bom(piece)
        out: list[bytes] = []
        text = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n\n\n" in text:  # a second blank line says nothing; an adversary sends them by the million
            text = _BLANK_LINES.sub(b"\n\n", text)
        lines = text.split(b"\n")
        self._after_cr = piece.endswith(b"\r") or (self._after_cr and not piece)
        last = lines.pop()
        for line in lines:
            self._end_line(line, out)
        self._grow(last)
        return out

    def _without_bom(self, piece: bytes) -> bytes:
        """The piece after the bytes kept before it; nothing while they may still be the start of a BOM."""
        piece = bytes(self._line) + piece
        self._line.clear()
        if len(piece) < len(_BOM) and _BOM.startswith(piece):
            self._line += piece
            return b""
        self._opening = False
        return piece.removeprefix(_BOM)

    def _grow(self, rest: bytes) -> None:
        """Keep the unfinished line, unless its event is too large by now."""
        if self._skipping:
            self._line += rest[:1] if not self._line else b""
        elif self._size + len(self._line) + len(rest) > self._bytes_max:
            self._skip()
            self._line[:] = b"."
        else:
            self._line += rest

    def _skip(self) -> None:
        self._skipping = True
        self._data = []
        self.oversize_events += 1

    def _end_line(self, rest: bytes, out: list[bytes]) -> None:
        line = rest
        if self._line:
            line = bytes(self._line + rest)
            self._line.clear()
        if not line:
            self._end_event(out)
            return
        self._size += len(line)
        if self._skipping:
            return
        if self._size > self._bytes_max:
            self._skip()
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._data.append(b"")

    def _end_event(self, out: list[bytes]) -> None:
        if self._data:
            out.append(b"\n".join(self._data) if len(self._data) > 1 else self._data[0])
            self._data = []
        self._size = 0
        self._skipping = False
