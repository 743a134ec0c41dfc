"""Snapshots: how a state stands in the state topic, and how a committed offset points to it.

A snapshot is the state at one source offset, its *position*: parts from ``Step.dump``, cut into pieces of at most
512 KiB, one record each. A small one goes out whole with the commit of its position. A large one is frozen there and
written a few pieces per commit; only the commit that writes its last piece moves the pointer, so the pointer always
names a snapshot that is complete. It stands in the metadata of the committed offset, hence in the same transaction::

    v1 number=1234 snapshot=567        records written so far; state-topic offset of the snapshot's first piece

Every piece names the id of the source topic, where the brokers give it one: they forget the offsets of a topic that is
deleted, and what is made under its name is another log. 0.1.0 names none.

The state topic is compacted. A snapshot's keys end in a slot, and the next one uses the other slot, so compaction
never takes a piece of the snapshot that is pointed to, not even when an owner dies half-way through the next.

A step that takes a whole snapshot with every commit that has outputs writes of it only what changed: a piece that the
snapshot pointed to has as well is referred to by its offset, in header ``kept`` of the first piece, which is always
written. Keys of such pieces end in numbers, and the next snapshot takes those that the one pointed to does not use. One
of a single piece has nothing to refer to: its key ends in a slot.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from schemas.contract.record import Headers, Output, Record
from schemas.errors import PartitionError
from stream_jobs.runner.job import NUMBERED, Names

PIECE_BYTES_MAX = 512 * 1024
SLOTS = 2
_KEPT = "kept"
"""Header: offsets of pieces that are referred to, by their place in the snapshot."""
_TOPIC_ID = "topic-id"
"""Header: the id of the source topic."""


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


class Stored(NamedTuple):
    """A piece in the state topic: the number of its key, its offset (-1: not written yet), what it holds."""

    number: int
    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a complete snapshot is. ``offset`` is that of its first piece in the state topic; ``number`` counts what
    had been written when the state was dumped. ``stored`` are the pieces that the next one may refer to; ``topic_id``
    that of the source, None where nobody knows."""

    position: int
    offset: int
    slot: int
    number: int
    stored: tuple[Stored, ...] = ()
    topic_id: str | None = None


@dataclass(slots=True)
class Round:
    """A snapshot on its way out: frozen at ``position``, ``written`` of its pieces are in committed transactions."""

    position: int
    slot: int
    number: int
    pieces: list[Output] = field(repr=False)
    written: int = 0
    offset: int | None = None
    stored: list[Stored] = field(default_factory=list, repr=False)
    topic_id: str | None = None

    def next_pieces(self, pieces_max: int | None) -> list[Output]:
        """Pieces for the next commit; all that are left when ``pieces_max`` is None."""
        stop = len(self.pieces) if pieces_max is None else self.written + pieces_max
        return self.pieces[self.written : stop]

    def wrote(self, offsets: Sequence[int]) -> None:
        """Note the offsets of the pieces last returned by ``next_pieces``, whose transaction is not committed yet."""
        if self.offset is None and offsets:
            self.offset = offsets[0]
        new = [place for place, one in enumerate(self.stored) if one.offset < 0]
        for place, offset in zip(new, offsets, strict=False):
            self.stored[place] = self.stored[place]._replace(offset=offset)
        self.written += len(offsets)

    def complete(self) -> Snapshot | None:
        if self.offset is None or self.written < len(self.pieces):
            return None
        return Snapshot(self.position, self.offset, self.slot, self.number, tuple(self.stored), self.topic_id)


def begin(
    names: Names,
    topic: str,
    partition: int,
    position: int,
    slot: int,
    number: int,
    parts: Sequence[bytes],
    last: Sequence[Stored] | None = None,
    topic_id: str | None = None,
) -> Round:
    """A round for a state that was dumped at ``position``, after ``number`` outputs. ``last`` are the pieces of the
    snapshot that is pointed to, which are not written again; None: all are."""
    cut = [piece for part in parts for piece in _pieces(part)] or [(b"", b"none")]
    stored = [] if last is None or len(cut) == 1 else _stored(cut, last)
    kept = {place: one.offset for place, one in enumerate(stored) if one.offset >= 0}
    pieces = []
    for piece, (value, ends) in enumerate(cut):
        if piece in kept:
            continue
        headers: Headers = (
            ("position", b"%d" % position),
            ("piece", b"%d/%d" % (piece, len(cut))),
            ("ends", ends),
            ("number", b"%d" % number),
        )
        if topic_id is not None:
            headers = (*headers, (_TOPIC_ID, topic_id.encode()))
        if kept and piece == 0:
            headers = (*headers, (_KEPT, json.dumps(kept, separators=(",", ":")).encode()))
        key = names.numbered_key(stored[piece].number) if stored else names.state_key(slot, piece)
        pieces.append(Output(names.state_topic(topic), partition, key, value, headers))
    return Round(position, slot, number, pieces, stored=stored, topic_id=topic_id)


def _stored(cut: Sequence[tuple[bytes, bytes]], last: Sequence[Stored]) -> list[Stored]:
    """Every piece as it stands in ``last``, or with a number that is free there. The first is always written."""
    known, used = {one.digest: one for one in last}, {one.number for one in last}
    free = (number for number in itertools.count() if number not in used)
    digests = [_digest(value, ends) for value, ends in cut]
    found = [None, *(known.get(digest) for digest in digests[1:])]
    return [one or Stored(next(free), -1, digest) for one, digest in zip(found, digests, strict=True)]


def _digest(value: bytes, ends: bytes) -> bytes:
    return blake2b(ends + b"/" + value, digest_size=16).digest()


def _pieces(part: bytes) -> list[tuple[bytes, bytes]]:
    """The part cut to size; the second of each pair says what ends with the piece: the part or nothing yet."""
    starts = range(0, max(len(part), 1), PIECE_BYTES_MAX)
    return [(part[s : s + PIECE_BYTES_MAX], b"part" if s == starts[-1] else b"piece") for s in starts]


def topic_id_of(piece: Record) -> str | None:
    """The id of the source topic that a piece names."""
    found = dict(piece.headers).get(_TOPIC_ID)
    return None if found is None else found.decode()


class Assembly:
    """Puts a snapshot together from the records that follow a pointer, and then from those that ``kept`` names. Raises
    ``PartitionError`` when it can't."""

    def __init__(self, names: Names, offset: int, where: str) -> None:
        self._prefix = names.state_prefix
        self._where = where
        self._offset = offset
        self._head: Snapshot | None = None
        self._pieces_due = 1
        self._found: dict[int, tuple[Record, bytes]] = {}
        """Pieces by their place, each with what ends with it."""
        self._next = 0
        self.kept: dict[int, int] = {}
        """Offsets of pieces that do not follow the pointer, by their place, until ``add_kept`` brings them."""

    @property
    def parts(self) -> list[bytes]:
        """Of the pieces so far, in their order."""
        parts, begun = list[bytes](), list[bytes]()
        for _, (record, ends) in sorted(self._found.items()):
            if ends != b"none":
                begun.append(record.value or b"")
            if ends == b"part":
                parts.append(b"".join(begun))
                begun = []
        return parts

    def add(self, record: Record) -> Snapshot | None:
        """The snapshot, once its last piece was added. Records of other deployments are passed over."""
        if record.key is None or not record.key.startswith(self._prefix):
            return None
        with self._sound_headers():
            self._add(record, dict(record.headers))
            return self._whole()

    def _add(self, record: Record, headers: dict[str, bytes]) -> None:
        piece, _, pieces = headers["piece"].partition(b"/")
        if self._head is None:
            self._begin(record, int(pieces))
        assert self._head is not None
        if int(headers["position"]) != self._head.position or int(piece) != self._next:
            raise self._broken(f"piece {piece.decode()} of position {headers['position'].decode()} is out of order")
        self._take(int(piece), record)

    def add_kept(self, record: Record) -> Snapshot | None:
        """The snapshot, once the last piece of ``kept`` was added. Other records are passed over."""
        with self._sound_headers():
            for place in [place for place, offset in self.kept.items() if offset == record.offset]:
                self._found[place] = record, dict(record.headers)["ends"]
                del self.kept[place]
            return self._whole()

    @contextlib.contextmanager
    def _sound_headers(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._broken(f"headers of a piece are damaged ({error!r})") from error

    @property
    def follows(self) -> bool:
        """Whether more pieces follow the pointer."""
        return self._next < self._pieces_due

    def lacks(self) -> PartitionError:
        """Pieces that it refers to are gone."""
        return self._broken(f"{len(self.kept)} pieces that it refers to are gone")

    def _begin(self, record: Record, pieces: int) -> None:
        if record.offset != self._offset:
            raise self._broken("its first piece is gone")
        headers = dict(record.headers)
        slot = (record.key or b"").removeprefix(self._prefix).partition(b"/")[0]
        number = int(slot) if slot.isdigit() else 0
        topic_id = topic_id_of(record)
        self._head = Snapshot(int(headers["position"]), self._offset, number, int(headers["number"]), topic_id=topic_id)
        self._pieces_due = pieces
        self.kept = {int(place): int(offset) for place, offset in json.loads(headers.get(_KEPT, b"{}")).items()}

    def _take(self, piece: int, record: Record) -> None:
        self._found[piece] = record, dict(record.headers)["ends"]
        rest = range(piece + 1, self._pieces_due)
        self._next = next((place for place in rest if place not in self.kept), self._pieces_due)

    def _whole(self) -> Snapshot | None:
        if self._head is None or self.follows or self.kept:
            return None
        found = [piece for _, piece in sorted(self._found.items())]
        return replace(self._head, stored=tuple(one for piece in found for one in self._numbered(*piece)))

    def _numbered(self, record: Record, ends: bytes) -> list[Stored]:
        kind, _, number = (record.key or b"").removeprefix(self._prefix).partition(b"/")
        if kind != NUMBERED:
            return []
        return [Stored(int(number), record.offset, _digest(record.value or b"", ends))]

    def _broken(self, what: str) -> PartitionError:
        return PartitionError(
            "snapshot_lost",
            f"{self._where}: the snapshot at offset {self._offset} cannot be read: {what}; the state topic must be "
            "compacted, never deleted from, and written by this job alone",
        )
