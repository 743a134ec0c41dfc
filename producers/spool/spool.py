"""Spool: a durable queue; every record is on disk before it is sent, under an identity that never changes.

Rules
- ``append`` has written the record when it returns: a kill -9 loses nothing that was reported spooled. What a power
  cut may take is never sent: records are handed out only after a sync.
- (boot, seq) with the spool's id is a record's identity. A boot is one opening of the spool, its ordinal on disk
  before anything is sent; seq counts from 0 over all topics. After a kill the records of older boots that were not
  acknowledged are handed out again as they are, before any new one.
- ``low`` is the oldest identity not acknowledged: everything below it is in Kafka. It may be lower after a kill than
  it was before (acknowledgements since the last save are forgotten); those records are sent again, as duplicates.
- At most ``window_records_max`` records and ``window_bytes_max`` bytes are handed out and not acknowledged. Records
  that cannot be delivered leave window and segments for files of their own (``undeliverable``), so that they hold up
  nobody else: nothing is dropped.
- Segments are removed once everything in them is below ``low`` and the books on disk know them.
- Full (``bytes_max``, the share of an undeliverable topic, or the disk): new records are rejected before they have an
  identity, and counted as shed on disk at once. A record that was spooled is never shed.

One process holds a spool; within it every method belongs to one thread, ``run`` of ``Append``, ``Sync``, ``Take``,
``Hold`` and ``Save`` to any, one of them at a time.
On a memory disk a spool survives its process, not the machine. A copied folder is a source of its own (``identity``).
"""

from __future__ import annotations

import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence, ValuesView
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from producers.spool.ack_state import AckState, Declaration, Save
from producers.spool.books import BookKey, Books, tally_of
from producers.spool.frame import FRAME_BYTES_MIN, Spooled
from producers.spool.identity import known_identity, lock_folder, next_identity
from producers.spool.segment_log import Backlog, SegmentLog, Sync, Take
from producers.spool.undeliverable import Hold, Undeliverable
from runtime.runbook import Cause
from schemas.errors import RejectedError
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.rows.tables import SEQ_ALL

_log = logging.getLogger(__name__)

_SEGMENT_BYTES = 16 * 1024 * 1024
_KEY_BYTES_MAX = 1_024
_TOPIC_SHARE = 4
"""An undeliverable topic takes at most this part of the spool; all of them leave as much to the others."""
_NAMES_BYTES_MAX = 512
"""Room that topic, schema and content type take beside the key."""


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """Bounds of one spool. ``tail_bytes_max`` bounds what memory keeps of records not handed out yet."""

    bytes_max: int = DEFAULT_LIMITS.spool_bytes_max
    record_bytes_max: int = DEFAULT_LIMITS.record_bytes_max
    segment_bytes: int = _SEGMENT_BYTES
    tail_bytes_max: int = 32 * 1024 * 1024
    window_records_max: int = 4_096
    window_bytes_max: int = 32 * 1024 * 1024

    @classmethod
    def of(cls, limits: Limits) -> SpoolLimits:
        """The part of the table of limits that a spool keeps to; a segment is at most a sixteenth of it."""
        segment_bytes = min(_SEGMENT_BYTES, max(64 * 1024, limits.spool_bytes_max // 16))
        return cls(limits.spool_bytes_max, limits.record_bytes_max, segment_bytes)


@dataclass(slots=True)
class Append:
    """Writes ``records`` as far as there is room, and declares the others, and ``more``, as shed. ``run`` may block:
    use a thread. After an error, what ``written`` holds is on disk, and nothing was declared."""

    spool: Spool
    records: Sequence[Spooled]
    more: Mapping[str, int]
    kept: Collection[int] = ()
    """Places of records whose senders keep them: where they are not written they are not shed either."""
    written: list[Spooled] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of ``written`` among ``records``."""
    why: str | None = None
    """Of the last record that was not written."""
    full_topics: set[str] = field(default_factory=set)
    """Whose share is used up."""
    declaration: Declaration | None = None
    declared: bool = False

    def run(self) -> None:
        shed = Counter(self.more)
        for place, record in enumerate(self.records):
            if (found := self.spool.written(record, len(self.written), self)) is not None:
                self.written.append(found)
                self.places.append(place)
            elif place not in self.kept:
                shed[record.topic] += record.events
        if shed:
            self.declaration = self.spool.declaration(shed)
            self.declaration.run()
        self.declared = True


class Spool:
    """Make it with ``open``. ``source`` is its id, ``boot`` the ordinal of this opening; records of older openings may
    have another source (``identity.source_of``)."""

    def __init__(self, folder: Path, lock: int, limits: SpoolLimits) -> None:
        self.limits = limits
        self._lock = lock
        with ExitStack() as opened:  # whoever tries again with what cannot be read must not run out of descriptors
            waiting = self._recover(folder, opened)
            opened.pop_all()
        self._window: OrderedDict[tuple[int, int], Spooled] = OrderedDict()
        self._full_topics: set[str] = set()
        self._window_bytes = 0
        self._next_seq = 0
        self._durable_seq = 0
        self.shedding: str | None = None  # why, since records were not taken and none has been since
        facts = {"source": self.source, "boot": self.boot, "unacknowledged_records": waiting}
        _log.info("spool open", extra=facts)

    def _recover(self, folder: Path, opened: ExitStack) -> int:
        """Open and read what earlier openings left; how many records of theirs wait. What is open closes with
        ``opened``."""
        limits, segments = self.limits, folder / "segments"
        segments.mkdir(exist_ok=True)
        self._acks = opened.enter_context(closing(AckState(folder)))
        fresh = self._acks.fresh and not any(segments.iterdir())
        known_identity(folder, fresh=fresh)
        share_bytes = limits.bytes_max // _TOPIC_SHARE
        self._held_bytes_max = limits.bytes_max - share_bytes
        queues = Undeliverable(folder / "undeliverable", limits.segment_bytes, share_bytes, self._held_bytes_max)
        self.undeliverable = opened.enter_context(closing(queues))
        self._log = SegmentLog(segments, limits.segment_bytes)
        opened.callback(self._log.abandon)
        waiting = sum(map(self._found, self._log.recover(self._acks.first_segment)))
        self._log.report_damage()
        boots = {boot for boot, _ in self._acks.books} | self._log.boots() | self.undeliverable.boots()
        self.identity = next_identity(folder, fresh=fresh, oldest_boot=min(boots, default=0))
        self.source, self.boot = self.identity.source, self.identity.boot
        self._shed_boot = self._acks.begin_boot(self.boot, lambda boot: self.identity.source_of(boot) == self.source)
        self._ends = self._log.ends()
        self._backlog = Backlog(self._log, self._acks.low, waiting, limits.tail_bytes_max, self.undeliverable.knew)
        for topic, boot, events in self.undeliverable.found():
            tally_of(self.books, boot, topic).acknowledged_events -= events
        return waiting

    @classmethod
    def open(cls, folder: Path, limits: SpoolLimits | None = None) -> Self:
        """The spool in this folder, made on first use, for this process alone.

        Raises ConfigError when another process holds it, ContractError when its identity is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
        try:
            return cls(folder, lock, limits or SpoolLimits())
        except BaseException:
            os.close(lock)
            raise

    @property
    def low(self) -> tuple[int, int]:
        """The oldest (boot, seq) that is not acknowledged; everything below is."""
        first = next(iter(self._window), None)
        return self._backlog.through if first is None else first

    def end_of(self, boot: int) -> int:
        """Above every seq that a record of this boot has, as far as this spool knows."""
        if boot == self.boot:
            return self._next_seq
        is_own = self.identity.source_of(boot) == self.source
        return SEQ_ALL if is_own else self._ends.get(boot, SEQ_ALL)  # its original may go on elsewhere

    @property
    def unacknowledged_records(self) -> int:
        """Records that Kafka has not acknowledged."""
        return self._backlog.records + len(self._window) + self.undeliverable.records

    @property
    def size_bytes(self) -> int:
        """What the spool takes on disk."""
        return self._log.size_bytes + self.undeliverable.size_bytes

    @property
    def taken(self) -> ValuesView[Spooled]:
        """Records handed out and not acknowledged, oldest first; those of undeliverable topics may be among them."""
        return self._window.values()

    def low_of(self, topic: str) -> tuple[int, int]:
        """``low`` as far as this topic is concerned: what of it is undeliverable lies not below."""
        low, held = self.low, self.undeliverable.low(topic)
        return low if held is None else min(low, held)

    @property
    def books(self) -> Books:
        """Totals per boot and topic since the spool was made; not to be changed."""
        return self._acks.books

    def append(self, record: Spooled) -> Spooled | None:
        """Write a record (its boot and seq are given here) and return it, or None when it was shed.

        Raises RejectedError for a value above ``record_bytes_max`` or a key above 1,024 bytes; nothing changed then.
        """
        demand_sendable(record, self.limits)
        append = self.begin_append([record], {})
        try:
            append.run()
        finally:
            self.finish_append(append)
        return append.written[0] if append.written else None

    def begin_append(self, records: Sequence[Spooled], shed: Mapping[str, int], kept: Collection[int] = ()) -> Append:
        """What is to be written: these records, each of which is sendable, and these declarations."""
        return Append(self, records, shed, kept)

    def written(self, record: Spooled, before: int, append: Append) -> Spooled | None:
        """Write a record, ``before`` others of the same append before it: what it is now. None: it must be shed."""
        if not self.has_room(len(record.value)):
            append.why = "the spool is full"
            return None
        if not self.undeliverable.has_share(record.topic, len(record.value)):
            append.full_topics.add(record.topic)
            return None
        record = record._replace(boot=self.boot, seq=self._next_seq + before)
        try:
            self._log.append(record)
        except OSError as error:
            append.why = f"the disk takes no more ({error})"
            return None
        return record

    def declaration(self, shed: Mapping[str, int]) -> Declaration:
        """Writes that these events were shed."""
        return self._acks.declaration(self._shed_boot, shed)

    def finish_append(self, append: Append) -> None:
        """Take note of what of it is on disk."""
        for record in append.written:
            tally = tally_of(self.books, record.boot, record.topic)
            tally.records += 1
            tally.events += record.events
            self._backlog.push(record)
        self._next_seq += len(append.written)
        if append.declaration is not None and append.declared:
            self._acks.declared(append.declaration)
        for topic in append.full_topics - self._full_topics:
            why = "the topic is undeliverable and its share of the spool is used"
            _log.error("shedding new events", extra={"why": why, "topic": topic, "cause": Cause.SPOOL})
        self._full_topics |= append.full_topics
        if append.why is not None and self.shedding is None:
            facts = {"why": append.why, "bytes": self.size_bytes, "topic": append.records[-1].topic}
            _log.error("shedding new events", extra={**facts, "cause": Cause.SPOOL})
        self.shedding = append.why or (None if append.written else self.shedding)

    def has_room(self, value_bytes: int) -> bool:
        """Whether a record of this size would be taken now."""
        most = FRAME_BYTES_MIN + _KEY_BYTES_MAX + _NAMES_BYTES_MAX + value_bytes
        held = min(self.undeliverable.size_bytes, self._held_bytes_max)  # more of them came before they were rejected
        return self._log.size_bytes + held + most <= self.limits.bytes_max

    def shed(self, topic: str, events: int) -> None:
        """Declare events that will never be spooled. The declaration survives a kill at once."""
        self._acks.shed(self._shed_boot, topic, events)

    def begin_sync(self) -> Sync | None:
        """What must be made safe before new records are handed out; None when all are."""
        return None if self._durable_seq == self._next_seq else self._log.begin_sync(self._next_seq)

    def finish_sync(self, sync: Sync) -> None:
        """Take note that ``sync`` has run."""
        self._log.finish_sync(sync)
        self._durable_seq = sync.through_seq

    def sync(self) -> None:
        """Begin, run and finish a sync at once."""
        if (sync := self.begin_sync()) is not None:
            sync.run()
            self.finish_sync(sync)

    def begin_take(self) -> Take | None:
        """What reads the next records; None when the window is full."""
        room = self.limits.window_records_max - len(self._window)
        room_bytes = self.limits.window_bytes_max - self._window_bytes
        if room <= 0 or room_bytes <= 0:
            return None
        return Take(self._backlog, (self.boot, self._durable_seq), room, room_bytes)

    def finish_take(self, take: Take) -> list[Spooled]:
        """The records that are handed out, in order, to be acknowledged one day. Those of undeliverable topics are
        not among them: they are in the window until ``Hold`` has written them elsewhere."""
        self._backlog.handed_out(take.records)
        for record in take.records:
            self._window[record[:2]] = record
            self._window_bytes += len(record.value)
        return [record for record in take.records if not self.undeliverable.holds(record)]

    def take(self) -> list[Spooled]:
        """Begin, run and finish a take at once."""
        if (take := self.begin_take()) is None:
            return []
        take.run()
        return self.finish_take(take)

    def hold(self, topic: str) -> None:
        """This topic is undeliverable until ``undeliverable`` releases it. Its records must not be on their way."""
        self.undeliverable.hold(topic)

    def begin_hold(self) -> Hold | None:
        """What of the window must be written elsewhere; None when nothing must. It may take a segment more than
        ``bytes_max``: what it leaves is removed only afterwards."""
        room_bytes = self.limits.bytes_max + self.limits.segment_bytes - self.size_bytes
        return self.undeliverable.begin(self._window.values(), room_bytes)

    def finish_hold(self, hold: Hold) -> None:
        """Take note that ``hold`` has run."""
        for record in self.undeliverable.finish(hold):
            if self._window.pop(record[:2], None) is not None:
                self._window_bytes -= len(record.value)

    def release(self, topic: str) -> bool:
        """Deliver a topic as any other again; False while records of it are undeliverable."""
        if any(record.topic == topic for record in self._window.values()) or not self.undeliverable.release(topic):
            return False
        self._full_topics.discard(topic)
        return True

    def acknowledge(self, records: Iterable[Spooled]) -> int:
        """Take note that Kafka has these records; returns how many were not acknowledged before."""
        new = 0
        for record in records:
            if self._window.pop(record[:2], None) is not None:
                self._window_bytes -= len(record.value)
            elif not self.undeliverable.acknowledge(record):
                continue
            new += 1
            self.books[record.boot, record.topic].acknowledged_events += record.events
        return new

    def begin_save(self) -> Save | None:
        """What must be written so that acknowledged segments can go; None when nothing has changed."""
        low = self.low
        return self._acks.begin_save(low, self._log.below(low))

    def finish_save(self, save: Save) -> None:
        """Take note that ``save`` has run."""
        self._acks.finish_save(save)
        self._log.remove(save.segments)

    def save(self) -> None:
        """Begin, run and finish a save at once."""
        if (save := self.begin_save()) is not None:
            save.run()
            self.finish_save(save)

    def books_delivered(self, delivered: Iterable[BookKey]) -> None:
        """Forget all but the 64 newest of the finished boots among these. Not between begin and end of a save."""
        live = self._log.boots() | self.undeliverable.boots() | {self.boot, self._shed_boot}
        self._acks.forget(delivered, live)

    def close(self) -> None:
        """Make everything safe, save, and let the folder go. No sync or save may be running."""
        self.sync()
        self._log.finish()
        self.save()
        self.abandon()

    def abandon(self) -> None:
        """Let the folder go as the end of the process would: nothing is written. The spool is of no use afterwards."""
        self._backlog.close()
        self._log.abandon()
        self.undeliverable.close()
        self._acks.close()
        os.close(self._lock)

    def _found(self, record: Spooled) -> bool:
        """Count a record of an older boot; whether it waits to be acknowledged."""
        tally = tally_of(self.books, record.boot, record.topic)
        tally.records += 1
        tally.events += record.events
        acknowledged = record[:2] < self._acks.low or self.undeliverable.knew(record)
        if acknowledged:
            tally.acknowledged_events += record.events
        return not acknowledged


def demand_sendable(record: Spooled, limits: SpoolLimits) -> None:
    """Raises RejectedError for a value above ``record_bytes_max`` or a key above 1,024 bytes."""
    if len(record.value) > limits.record_bytes_max:
        raise RejectedError("too_large", f"{len(record.value)} bytes; at most {limits.record_bytes_max}")
    if len(record.key) > _KEY_BYTES_MAX:
        raise RejectedError("too_long", f"a key of {len(record.key)} bytes; at most {_KEY_BYTES_MAX}")
    names = (record.topic, record.schema, record.content_type)
    assert sum(map(len, names)) <= _NAMES_BYTES_MAX, names
    assert record.events > 0, "an empty batch"
