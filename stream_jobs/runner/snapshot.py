"""Snapshots: how a state stands in the state topic, and how a committed offset points to it.

A snapshot is the state at one source offset, its *position*: parts from ``Step.dump``, cut into pieces of at most
512 KiB, one record each. A small one goes out whole with the commit of its position. A large one is frozen there and
written a few pieces per commit; only the commit that writes its last piece moves the pointer, so the pointer always
names a snapshot that is complete. It stands in the metadata of the committed offset, hence in the same transaction::

    v1 number=1234 snapshot=567        records written so far; state-topic offset of the snapshot's first piece

The state topic is compacted. A snapshot's keys end in a slot, and the next one uses the other slot, so compaction
never takes a piece of the snapshot that is pointed to, not even when an owner dies half-way through the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.contract.record import Headers, Output, Record
from schemas.errors import PartitionError
from stream_jobs.runner.job import Names

PIECE_BYTES_MAX = 512 * 1024
SLOTS = 2


@dataclass(frozen=True, slots=True)
class Pointer:
    """The metadata of a committed offset."""

    number: int
    snapshot: int

    def encode(self) -> str:
        return f"v1 number={self.number} snapshot={self.snapshot}"

    @classmethod
    def decode(cls, metadata: str, where: str) -> Pointer:
        """Raises ``PartitionError`` for an offset that something else has committed."""
        version, *pairs = metadata.split(" ") or [""]
        found = dict(pair.partition("=")[::2] for pair in pairs)
        if version != "v1" or not all(found.get(name, "").isdigit() for name in ("number", "snapshot")):
            raise PartitionError(
                "foreign_offset", f"{where}: the committed offset was not written by this job (metadata {metadata!r})"
            )
        return cls(int(found["number"]), int(found["snapshot"]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a complete snapshot is. ``offset`` is that of its first piece in the state topic; ``number`` counts what
    had been written when the state was dumped."""

    position: int
    offset: int
    slot: int
    number: int


@dataclass(slots=True)
class Round:
    """A snapshot on its way out: frozen at ``position``, ``written`` of its pieces are in committed transactions."""

    position: int
    slot: int
    number: int
    pieces: list[Output] = field(repr=False)
    written: int = 0
    offset: int | None = None

    def next_pieces(self, pieces_max: int | None) -> list[Output]:
        """Pieces for the next commit; all that are left when ``pieces_max`` is None."""
        stop = len(self.pieces) if pieces_max is None else self.written + pieces_max
        return self.pieces[self.written : stop]

    def wrote(self, offsets: Sequence[int]) -> None:
        """Note the offsets of the pieces last returned by ``next_pieces``, whose transaction is not committed yet."""
        if self.offset is None:
            self.offset = offsets[0]
        self.written += len(offsets)

    def complete(self) -> Snapshot | None:
        if self.offset is None or self.written < len(self.pieces):
            return None
        return Snapshot(self.position, self.offset, self.slot, self.number)


def begin(
    names: Names, topic: str, partition: int, position: int, slot: int, number: int, parts: Sequence[bytes]
) -> Round:
    """A round for a state that was dumped at ``position``, after ``number`` outputs."""
    cut = [piece for part in parts for piece in _pieces(part)] or [(b"", b"none")]
    pieces = []
    for piece, (value, ends) in enumerate(cut):
        headers: Headers = (
            ("position", b"%d" % position),
            ("piece", b"%d/%d" % (piece, len(cut))),
            ("ends", ends),
            ("number", b"%d" % number),
        )
        key = names.state_key(slot, piece)
        pieces.append(Output(names.state_topic(topic), partition, key, value, headers))
    return Round(position, slot, number, pieces)


def _pieces(part: bytes) -> list[tuple[bytes, bytes]]:
    """The part cut to size; the second of each pair says what ends with the piece: the part or nothing yet."""
    starts = range(0, max(len(part), 1), PIECE_BYTES_MAX)
    return [(part[s : s + PIECE_BYTES_MAX], b"part" if s == starts[-1] else b"piece") for s in starts]


class Assembly:
    """Puts a snapshot together from the records that follow a pointer. Raises ``PartitionError`` when it can't."""

    def __init__(self, names: Names, offset: int, where: str) -> None:
        self._prefix = names.state_prefix
        self._where = where
        self._offset = offset
        self._begun = False
        self._position = 0
        self._slot = 0
        self._number = 0
        self._pieces_due = 1
        self._pieces_seen = 0
        self.parts: list[bytes] = []
        self._open: list[bytes] = []

    def add(self, record: Record) -> Snapshot | None:
        """The snapshot, once its last piece was added. Records of other deployments are passed over."""
        if record.key is None or not record.key.startswith(self._prefix):
            return None
        headers = dict(record.headers)
        piece, _, pieces = headers["piece"].partition(b"/")
        if not self._begun:
            self._first(record, int(headers["position"]), int(pieces))
            self._number = int(headers["number"])
        if int(headers["position"]) != self._position or int(piece) != self._pieces_seen:
            raise self._broken(f"piece {piece.decode()} of position {headers['position'].decode()} is out of order")
        self._take(record.value or b"", headers["ends"])
        if self._pieces_seen < self._pieces_due:
            return None
        return Snapshot(self._position, self._offset, self._slot, self._number)

    def _first(self, record: Record, position: int, pieces: int) -> None:
        if record.offset != self._offset:
            raise self._broken("its first piece is gone")
        self._begun, self._position, self._pieces_due = True, position, pieces
        self._slot = int((record.key or b"").removeprefix(self._prefix).partition(b"/")[0])

    def _take(self, value: bytes, ends: bytes) -> None:
        self._pieces_seen += 1
        if ends == b"none":
            return
        self._open.append(value)
        if ends == b"part":
            self.parts.append(b"".join(self._open))
            self._open.clear()

    def _broken(self, what: str) -> PartitionError:
        return PartitionError(
            "snapshot_lost",
            f"{self._where}: the snapshot at offset {self._offset} cannot be read: {what}; the state topic must be "
            "compacted, never deleted from, and written by this job alone",
        )
