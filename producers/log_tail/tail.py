"""Tail: reads a growing file from a saved position, through rotation. Blocking: for one thread at a time.

| what happens | what is read |
|---|---|
| renamed, a new file in its place | the old one to its end, ``rotated_ms`` longer for writers that hold it; the new |
| copied and cut (copytruncate) | what the copy beside it has more, then the file from its begin |
| cut, no copy found | the file from its begin; counted as ``place lost`` |
| appears later | from its begin |
| first seen, and there | what is added from now on; all of it with ``from_start`` |
| last line without newline | when the newline comes; of a renamed file, at its end |

The old file is looked for beside the new: same folder, its name begins with the name of the log. After several
rotations those in between are read in the order of their last change, as far as their names are the log's and a
number or a date. Nothing is unpacked: what is compressed before it was read is lost. A copy of a file of which
nothing was read before it was cut is not known again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from producers.log_tail.mapping import Cut, Line, cut
from schemas.errors import ConfigError

REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class LogTailSettings:
    """``path``: the log. ``position``: where it is kept how far the log is read, a file of this log alone.

    ``fields``: as ``mapping`` says. ``labels`` go into every row: host, cluster, region. ``from_start``: a log that is
    there when it is first seen is read from its begin. ``engine``: id or address of the engine whose log it is.
    """

    path: Path
    position: Path
    fields: Mapping[str, str]
    labels: Mapping[str, str | None]
    from_start: bool = False
    engine: str | None = None
    format: str = REQUESTS
    """What its lines are: requests, or steps of training in one of ``steps.FORMATS``."""
    poll_ms: int = 500
    rotated_ms: int = 3_000
    chunk_bytes: int = 1024 * 1024
    line_bytes_max: int = 256 * 1024
    """Longer lines are left out, and counted."""

    def __post_init__(self) -> None:
        if self.line_bytes_max >= self.chunk_bytes:
            raise ConfigError("line_bytes_max", self.line_bytes_max, f"must be below chunk_bytes ({self.chunk_bytes})")


HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Position:
    """``offset``: where to read on. ``head_length`` bytes at the file's begin, never beyond ``offset``, have ``head``
    as digest; ``last_length`` bytes before ``offset`` have ``last``: a file that was written anew may begin alike."""

    device: int
    inode: int
    offset: int = 0
    head_length: int = 0
    head: str = ""
    skipping: bool = False
    last_length: int = 0
    last: str = ""

    def is_of(self, head: bytes, size: int, last: bytes = b"") -> bool:
        """Whether a file that begins with ``head``, has ``size`` bytes and ``last`` before ``offset`` holds what was
        read."""
        begins = size >= self.offset and len(head) >= self.head_length and digest(head[: self.head_length]) == self.head
        return begins and digest(last[len(last) - self.last_length :]) == self.last

    def moved(self, offset: int, skipping: bool, head: bytes, last: bytes = b"") -> Position:
        """Read on to ``offset``; ``head`` are the file's first bytes, ``last`` those before ``offset``, ``HEAD_BYTES``
        at most."""
        length, last = min(len(head), offset, HEAD_BYTES), last[-HEAD_BYTES:]
        moved = replace(self, offset=offset, skipping=skipping, head_length=length, head=digest(head[:length]))
        return replace(moved, last_length=len(last), last=digest(last))


def digest(head: bytes) -> str:
    """Of the first bytes of a file; empty for none."""
    return hashlib.blake2b(head, digest_size=16).hexdigest() if head else ""


def encode(position: Position) -> bytes:
    """For the disk."""
    return orjson.dumps(asdict(position))


def decode(value: bytes | None) -> Position | None:
    """None where there is none, or none that can be read: the file is then a new one."""
    try:
        plain = orjson.loads(value or b"null")
        return Position(**plain) if isinstance(plain, dict) else None
    except (orjson.JSONDecodeError, TypeError):
        return None


SIBLINGS_MAX = 1_000
_ROTATED = re.compile(r"[._-][0-9][0-9T:._-]*")
NOTHING_YET = Position(0, 0)
"""There was no log when it was looked for first: whatever appears is read from its begin."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines, where they end, and what was left out. The file is read on after ``Tail.accept``."""

    lines: tuple[Line, ...]
    end: Position
    left_out: dict[str, int]


@dataclass(slots=True)
class _Open:
    descriptor: int
    device: int
    inode: int


class Tail:
    """``position``: what to keep. None before the first look."""

    def __init__(self, settings: LogTailSettings, position: Position | None) -> None:
        self.position = position
        self._settings = settings
        self._file: _Open | None = None
        self._first = position is None
        self._quiet: tuple[int, int] | None = None  # since when, and how many bytes of a last line there are
        self._lost = 0

    @property
    def path(self) -> Path:
        """The log."""
        return self._settings.path

    def read(self, now_ms: int) -> Chunk | None:
        """What is there, at most ``chunk_bytes``; None when there is nothing whole. ``now_ms``: monotonic.

        Raises ``OSError`` where the file cannot be read; the next call tries again.
        """
        try:
            if self._file is None and not self._find():
                return None
            return self._read(now_ms)
        except OSError:
            self.close()
            raise

    def accept(self, chunk: Chunk) -> None:
        """The chunk is taken: read on behind it."""
        self.position = chunk.end

    def close(self) -> None:
        """Let the file go; reading on finds it again."""
        if self._file is not None:
            os.close(self._file.descriptor)
            self._file = None

    # Reading

    def _read(self, now_ms: int) -> Chunk | None:
        assert self._file is not None
        assert self.position is not None
        head, size, last = _known(self._file.descriptor, self.position.offset)
        if not self.position.is_of(head, size, last):
            self.close()
            return self._read(now_ms) if self._find() else None
        settings, at = self._settings, self.position
        data = os.pread(self._file.descriptor, settings.chunk_bytes, at.offset)
        found = cut(data, at.offset, at.skipping, settings.line_bytes_max)
        if found.next_offset == at.offset:
            return self._at_the_end(data, head, now_ms)
        self._quiet = None
        return self._chunk(found, head)

    def _at_the_end(self, rest: bytes, head: bytes, now_ms: int) -> Chunk | None:
        """Nothing whole is left: go over to the new file when there is one and this one has been quiet."""
        assert self._file is not None
        assert self.position is not None
        there = _stat(self._settings.path)
        if there is None or (there.st_dev, there.st_ino) == (self._file.device, self._file.inode):
            self._quiet = None
            return None
        if self._quiet is None or self._quiet[1] != len(rest):
            self._quiet = now_ms, len(rest)
        if now_ms - self._quiet[0] < self._settings.rotated_ms:
            return None
        self._quiet = None
        if rest and not self.position.skipping:
            last = cut(rest + b"\n", self.position.offset, False, self._settings.line_bytes_max)
            return self._chunk(Cut(last.lines, self.position.offset + len(rest), False, last.too_long), head)
        self._go_over(there)
        return None

    def _go_over(self, newest: os.stat_result) -> None:
        """To the file that came after this one. Where files move meanwhile, the next call tries again."""
        assert self._file is not None
        ours, known = os.fstat(self._file.descriptor), self.position
        there, path = newest, self._settings.path
        for beside in filter(self._is_rotated, self._beside()):
            other = _stat(beside)
            if other is None or not stat.S_ISREG(other.st_mode) or other.st_mtime_ns <= ours.st_mtime_ns:
                continue
            if other.st_ino not in (ours.st_ino, newest.st_ino) and (
                there is newest or other.st_mtime_ns < there.st_mtime_ns
            ):
                there, path = other, beside
        self.close()
        if self._open(path, None) and self._file is not None and self._file.inode != there.st_ino:
            self.close()
            self.position = known

    def _is_rotated(self, beside: Path) -> bool:
        return _ROTATED.fullmatch(beside.name[len(self._settings.path.name) :]) is not None

    def _chunk(self, found: Cut, head: bytes) -> Chunk:
        assert self.position is not None
        left_out = {"too long": found.too_long, "place lost": self._lost}
        self._lost = 0
        assert self._file is not None
        last = _before(self._file.descriptor, found.next_offset)
        end = self.position.moved(found.next_offset, found.skipping, head, last)
        return Chunk(found.lines, end, {reason: times for reason, times in left_out.items() if times})

    # Finding

    def _find(self) -> bool:
        """Open the file that holds the position, else the log itself; False where there is none."""
        path, first, self._first = self._settings.path, self._first, False
        known = self.position
        if known is not None and (place := self._place_of(known)) is not None:
            return self._open(place, known)
        if not self._open(path, None):
            self.position = known or NOTHING_YET
            return False
        if known not in (None, NOTHING_YET):
            self._lost += 1
        if first and not self._settings.from_start:
            self._go_to_the_end()
        return True

    def _place_of(self, known: Position) -> Path | None:
        """The same file under whatever name; else one that begins alike and is long enough."""
        alike = None
        for path in self._candidates():
            there = _stat(path)
            if there is None or not stat.S_ISREG(there.st_mode) or there.st_size < known.offset:
                continue
            if not known.is_of(*_known_of(path, known.offset)):
                continue
            if (there.st_dev, there.st_ino) == (known.device, known.inode):
                return path
            if known.offset:
                alike = alike or path
        return alike

    def _candidates(self) -> Iterator[Path]:
        yield self._settings.path
        yield from self._beside()

    def _beside(self) -> Iterator[Path]:
        path = self._settings.path
        beside: list[str] = []  # also where the folder is to come later, with its log
        with contextlib.suppress(FileNotFoundError), os.scandir(path.parent) as entries:
            beside = [entry.name for entry in entries if entry.name.startswith(path.name) and entry.name != path.name]
        for name in sorted(beside)[:SIBLINGS_MAX]:
            yield path.parent / name

    def _open(self, path: Path, known: Position | None) -> bool:
        """``known``: the position in it, else its begin."""
        try:
            descriptor = _opened(path)
        except FileNotFoundError:
            return False
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode):
            os.close(descriptor)
            raise OSError(f"{path} is no file")
        self._file = _Open(descriptor, there.st_dev, there.st_ino)
        self.position = replace(known or NOTHING_YET, device=there.st_dev, inode=there.st_ino)
        return True

    def _go_to_the_end(self) -> None:
        """Behind the last newline, or into the long line that has none: its rest belongs to the past."""
        assert self._file is not None
        assert self.position is not None
        head, size, _ = _known(self._file.descriptor, 0)
        begin = max(0, size - self._settings.line_bytes_max)
        data = os.pread(self._file.descriptor, size - begin, begin)
        last = data.rfind(b"\n")
        if last >= 0 or begin == 0:
            self.position = self.position.moved(begin + last + 1, False, head, data[: last + 1])
        else:
            self.position = self.position.moved(size, True, head, data)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _opened(path: Path) -> int:
    """Its descriptor, at once: who opens a named pipe waits for its writer otherwise, for ever."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _known(descriptor: int, offset: int) -> tuple[bytes, int, bytes]:
    """The first bytes, the size, and the last bytes before ``offset``."""
    return os.pread(descriptor, HEAD_BYTES, 0), os.fstat(descriptor).st_size, _before(descriptor, offset)


def _before(descriptor: int, offset: int) -> bytes:
    length = min(offset, HEAD_BYTES)
    return os.pread(descriptor, length, offset - length)


def _known_of(path: Path, offset: int) -> tuple[bytes, int, bytes]:
    try:
        descriptor = _opened(path)
    except OSError:
        return b"", 0, b""
    try:
        return _known(descriptor, offset)
    except OSError:
        return b"", 0, b""
    finally:
        os.close(descriptor)
