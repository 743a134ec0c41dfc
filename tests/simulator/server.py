"""A Kafka cluster in memory: logs with transactions, a transaction coordinator, group offsets.

What matters of the real one is kept: a transaction's end is decided first and its markers follow one by one, so its
parts become visible at different times; ``init`` of a transactional id bumps the epoch, ends what its predecessor left
open, and answers only when that is done; a writer of an old epoch is refused by the coordinator at once, by a
partition as soon as that has seen a marker of a newer epoch; read_committed ends at the last stable offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schemas.contract.record import Output, Record
from schemas.errors import FencedError
from stream_jobs.runner.ports import Batch, Committed

TopicPartition = tuple[str, int]

OFFSETS: TopicPartition = ("__consumer_offsets", 0)


class BusyError(Exception):
    """CONCURRENT_TRANSACTIONS: come again."""


@dataclass(slots=True)
class Entry:
    """``state``: plain, open, committed, aborted or marker."""

    record: Record | None
    state: str


@dataclass(slots=True)
class Log:
    """One partition. Entries that compaction took are None."""

    entries: list[Entry | None] = field(default_factory=list)
    begin: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, list[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.entries)

    def stable_end(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=len(self.entries))

    def read(self, start: int, records_max: int, *, committed: bool = True) -> Batch:
        """Records from ``start`` on, and the position after them."""
        found: list[Record] = []
        position = max(start, self.begin)
        end = self.stable_end() if committed else len(self.entries)
        while position < end and len(found) < records_max:
            entry = self.entries[position]
            position += 1
            if entry is None or entry.record is None or (committed and entry.state == "aborted"):
                continue
            found.append(entry.record)
        return Batch(found, position)

    def resolve(self, owner: str, state: str, epoch: int) -> None:
        """A marker: what ``owner`` left open is committed or aborted."""
        for offset in self.open.pop(owner, ()):
            entry = self.entries[offset]
            assert entry is not None
            entry.state = state
        self.entries.append(Entry(None, "marker"))
        self.epochs[owner] = max(epoch, self.epochs.get(owner, 0))

    def compact(self) -> None:
        """Keep the newest committed record of each key below the stable end."""
        newest: dict[bytes | None, int] = {}
        end = self.stable_end()
        for offset in range(end):
            entry = self.entries[offset]
            if entry is not None and entry.record is not None and entry.state != "aborted":
                newest[entry.record.key] = offset
        for offset in range(end):
            entry = self.entries[offset]
            if entry is not None and (entry.record is None or newest.get(entry.record.key) != offset):
                self.entries[offset] = None


@dataclass(slots=True)
class Transaction:
    """The coordinator's memory of one transactional id. ``state``: empty, ongoing, commit or abort."""

    epoch: int = 0
    state: str = "empty"
    places: set[TopicPartition] = field(default_factory=set)
    offsets: dict[tuple[str, TopicPartition], Committed] = field(default_factory=dict)


class Server:
    """All of it. Methods are instant and raise ``FencedError`` or ``BusyError``; delays and faults are the client's."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.transactions: dict[str, Transaction] = {}
        self.group_offsets: dict[tuple[str, TopicPartition], Committed] = {}
        self.loading = False
        self.now_ms: Callable[[], int] = lambda: 0

    def log(self, place: TopicPartition) -> Log:
        return self.logs.setdefault(place, Log())

    def append(self, place: TopicPartition, output: Output) -> int:
        """A plain write, as the edge makes it."""
        return self._append(place, output, "plain", "")

    def _append(self, place: TopicPartition, output: Output, state: str, owner: str) -> int:
        log = self.log(place)
        offset = log.end
        record = Record(place[0], place[1], offset, self.now_ms(), output.key, output.value, output.headers)
        log.entries.append(Entry(record, state))
        if state == "open":
            log.open.setdefault(owner, []).append(offset)
        return offset

    # the coordinator

    def init(self, owner: str) -> int:
        """The new epoch; ``BusyError`` while a predecessor's transaction is being ended."""
        found = self.transactions.setdefault(owner, Transaction())
        if found.state == "ongoing":
            found.epoch += 1
            found.state = "abort"
        if found.state != "empty":
            raise BusyError
        found.epoch += 1
        return found.epoch

    def _mine(self, owner: str, epoch: int) -> Transaction:
        found = self.transactions[owner]
        if epoch != found.epoch:
            raise FencedError(f"{owner}: epoch {epoch} is fenced by {found.epoch}")
        if found.state in ("commit", "abort"):
            raise BusyError
        return found

    def add_place(self, owner: str, epoch: int, place: TopicPartition) -> None:
        found = self._mine(owner, epoch)
        found.state = "ongoing"
        found.places.add(place)

    def produce(self, owner: str, epoch: int, place: TopicPartition, output: Output) -> int:
        """Checked by the partition, not by the coordinator: a late write of a fenced owner may still land, inside the
        transaction that is about to be aborted."""
        found = self.transactions[owner]
        if place not in found.places or epoch < self.log(place).epochs.get(owner, 0):
            raise FencedError(f"{owner}: not in a transaction of epoch {epoch}")
        return self._append(place, output, "open", owner)

    def add_offset(self, owner: str, epoch: int, group: str, place: TopicPartition, committed: Committed) -> None:
        found = self._mine(owner, epoch)
        assert OFFSETS in found.places
        found.offsets[(group, place)] = committed

    def end(self, owner: str, epoch: int) -> None:
        """Decide to commit; the markers follow (``markers``)."""
        found = self._mine(owner, epoch)
        assert found.state == "ongoing"
        found.state = "commit"

    def expire(self, owner: str) -> None:
        """The transaction time-out: the coordinator itself aborts."""
        found = self.transactions[owner]
        if found.state == "ongoing":
            found.epoch += 1
            found.state = "abort"

    def markers(self) -> list[tuple[str, TopicPartition]]:
        """Markers that are still to be written."""
        return [
            (owner, place)
            for owner, found in self.transactions.items()
            if found.state in ("commit", "abort")
            for place in sorted(found.places)
        ]

    def write_marker(self, owner: str, place: TopicPartition) -> None:
        found = self.transactions[owner]
        if place == OFFSETS:
            if found.state == "commit":
                self.group_offsets.update(found.offsets)
        else:
            self.log(place).resolve(owner, "committed" if found.state == "commit" else "aborted", found.epoch)
        found.places.discard(place)
        if not found.places:
            found.state = "empty"
            found.offsets.clear()

    def ended(self) -> Sequence[str]:
        return [owner for owner, found in self.transactions.items() if found.state == "ongoing"]
