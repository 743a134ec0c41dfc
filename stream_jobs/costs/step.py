"""The cost job as a step: GPU time and usage of a minute become bills with all their parts, emitted with revisions.

Source is ``window.partials``, one state per partition of it: what must be billed together stands there together, by
``placement_group``. The buffer keeps the sums of each minute and says when it is emitted; event time passes as the
finals job has it (``stream_jobs.finals.progress``), in steps of a window. What is emitted is gathered in the fold and
priced when it is sent: prices are no part of the state.

A dump holds the marks of every (group, minute), the progress, and the sums, packed: those of a minute and table that
did not change are packed once. So an owner folds again what came since the last snapshot, not all that is held. Dumps
of 0.1.0 hold no sums (``SUMLESS``): there ``replay_from`` named the offset of the oldest row that is held, and rows
before the offset of the dump are added to the minutes that it names and to no others, and nothing else of their records
is heard again. Until that is done, a dump is of that kind, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from schemas.codec import native
from schemas.codec.block import Block
from schemas.contract.record import Output, Record
from schemas.contract.topics import COSTS_TOPIC
from schemas.limits import Limits
from schemas.rows.costs import COSTS
from schemas.rows.gpu_shares import SHARES_OF
from stream_jobs import parts as parts_of
from stream_jobs.costs.account import PriceOf, cost_block, unpriced_ms
from stream_jobs.costs.intake import TABLES, Taken, taken
from stream_jobs.costs.isolation import made
from stream_jobs.costs.minute_buffer import BufferLimits, EmittedMinute, MinuteBuffer
from stream_jobs.costs.wide import Ints
from stream_jobs.finals.decode import decode
from stream_jobs.finals.progress import Progress, sources_of
from stream_jobs.finals.step import LOST_BEYOND_MS
from stream_jobs.finals.upstream import Source, UpstreamHeaders, read
from stream_jobs.parts import compress, decompress
from stream_jobs.step import Commit, Stat, Step
from stream_jobs.windows.messages import cut_outputs

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class State:
    """``position`` is the offset behind the last record; records below ``replay_to`` were folded before the state was
    dumped, without its sums, and ``restored_to`` is how far these were made again. ``rejected`` are offsets of records
    that made a fold raise. ``wait_ms`` is how long idle sources are waited for: what an owner folds again it folds with
    no less than the one before, since by less a minute may pass that nobody has sent."""

    partition: int
    progress: Progress
    buffer: MinuteBuffer
    wait_ms: int
    rejected: set[int] = field(default_factory=set)
    position: int = 0
    replay_to: int = 0
    restored_to: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the sums are those of all rows up to the position."""
        return self.restored_to >= self.replay_to


@dataclass(slots=True)
class Changes:
    """Since the last commit: minutes to be emitted; the rest is counted. ``bills`` are those of the commit's records,
    ``final`` of them are, ``failed`` (group, minute)s whose bills raised, ``late_rows`` came too late to be billed,
    ``gaps`` are places where a record of the windows job was missing or could not be read; ``unpriced_ms`` is the GPU
    time of the bills without a price, by type."""

    emitted: list[EmittedMinute] = field(default_factory=list)
    bills: int = 0
    final: int = 0
    failed: int = 0
    late_rows: int = 0
    gaps: int = 0
    unpriced_ms: dict[str, int] = field(default_factory=dict)


VERSION = 2
SUMLESS = 1
"""The version of dumps without sums."""
MAGIC = b"FPC2"


class CostStep(Step[State, Changes]):
    """Costs of a partition of ``window.partials``. ``partitions`` are the counts of each source topic, ``targets``
    that of ``costs``."""

    name = "costs"

    def __init__(
        self,
        limits: Limits,
        partitions: Mapping[str, int],
        price_of: PriceOf,
        prices_version: str,
        targets: int = 1,
        buffer_limits: BufferLimits | None = None,
        topic: str = COSTS_TOPIC,
    ) -> None:
        self._limits = limits
        shares = ((SHARES_OF, number) for number in range(partitions.get(SHARES_OF, 0)))
        self._sources: tuple[Source, ...] = (*sources_of(partitions), *shares)  # who pays for a GPU waits for both
        self._price_of = price_of
        self._prices_version = prices_version
        self._targets = targets
        self._topic = topic
        self._buffer_limits = buffer_limits or BufferLimits()

    def new(self, topic: str, partition: int) -> State:
        return State(
            partition, Progress.new(self._sources), MinuteBuffer(self._buffer_limits), self._limits.final_wait_ms
        )

    def changes(self) -> Changes:
        return Changes()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        records = [record for record in records if record.offset not in state.rejected]
        heads = [read(record) for record in records]
        decoded = decode(records, [head.schema for head in heads], TABLES)
        state.buffer.forget_words()
        found = [taken(one, state.buffer) for one in decoded]
        offsets = np.array([record.offset for record in records], dtype=np.int64)
        again = int(np.searchsorted(offsets, state.replay_to))
        for one in found:
            rows = one.of(0, again)
            state.buffer.restore(rows.table, offsets[rows.record], rows.minutes, rows.rows)
        first = again
        for number in range(again, len(records)):
            if self._advances(state, changes, records[number], heads[number]):
                self._add(state, changes, found, offsets, first, number + 1)
                changes.emitted += state.buffer.pass_to(state.progress.through_ms)
                first = number + 1
        self._add(state, changes, found, offsets, first, len(records))
        if records:
            state.position = max(state.position, records[-1].offset + 1)
            state.restored_to = records[-1].offset + 1

    def _advances(self, state: State, changes: Changes, record: Record, head: UpstreamHeaders) -> bool:
        """Take the progress that the record announces of its source; whether another window has passed by it."""
        progress, before_ms = state.progress, state.progress.through_ms
        changes.gaps += not progress.is_next(head)
        progress.advance(head, record.timestamp_ms, state.wait_ms)
        return progress.through_ms > before_ms

    def _add(
        self, state: State, changes: Changes, found: Sequence[Taken], offsets: Ints, first: int, stop: int
    ) -> None:
        """Add the rows of records ``[first, stop)``."""
        parts = [part for one in found if len((part := one.of(first, stop)).record)]
        if not parts:
            return
        of = [offsets[part.record] for part in parts]
        minutes, groups = (np.concatenate(c) for c in zip(*((p.minutes, p.rows.keys[0]) for p in parts), strict=True))
        state.buffer.open(np.concatenate(of), minutes, groups)
        for part, part_offsets in zip(parts, of, strict=True):
            changes.late_rows += state.buffer.add(part.table, part_offsets, part.minutes, part.rows)

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """The record's rows are missing from now on; whoever folds from an earlier offset passes it over."""
        state.rejected.add(record.offset)
        state.position = max(state.position, record.offset + 1)
        changes.gaps += 1

    def due(self, state: State, changes: Changes) -> bool:
        return bool(changes.emitted)

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        state.wait_ms = self._limits.final_wait_ms  # nothing that was sent before is folded any more
        blocks, failed = made(changes.emitted, self._block)
        changes.failed = len(failed)
        for one in failed:
            facts = {"partition": state.partition, "group": one.group, "minute_ms": one.minute_ms, "error": one.cause}
            _log.error("making bills failed, please report it; the minute of this group is not billed", extra=facts)
        if not blocks:
            return []
        block = native.concat(COSTS.fields, blocks)
        changes.bills, changes.unpriced_ms = block.rows, unpriced_ms(block)
        changes.final = int(block.numbers("final").values.sum())
        return outputs_of(block, commit, self._targets, self._topic)

    def _block(self, emitted: Sequence[EmittedMinute]) -> Block | None:
        return cost_block(emitted, self._price_of, self._prices_version)

    def stats(self, state: State, changes: Changes) -> Iterator[Stat]:
        partition = {"partition": state.partition}
        yield Stat("cost_bills", changes.bills, partition)
        yield Stat("cost_bills_failed", changes.failed, partition)
        yield Stat("cost_final_bills", changes.final, partition)
        yield Stat("cost_late_rows", changes.late_rows, partition)
        yield Stat("cost_gaps", changes.gaps, partition)
        for model, amount_ms in changes.unpriced_ms.items():
            yield Stat("cost_unpriced_ms", amount_ms, {"gpu_model": model})
        yield Stat("cost_held", state.buffer.held, partition)
        yield Stat("cost_through_ms", state.progress.through_ms, partition)

    def replay_from(self, state: State, position: int) -> int:
        first = state.buffer.first_offset
        return position if state.is_whole or first is None else first

    def pass_over(self, state: State, offset: int) -> bool:
        """Rows before ``offset`` are gone: minutes that may have had any are not billed from what is left of them. The
        tables have all of it, for a rerate."""
        state.buffer.lose(LOST_BEYOND_MS if offset > state.position else 0, 0)
        state.position = state.replay_to = state.restored_to = max(state.position, offset)
        return True

    def begin_again(self, state: State, offset: int, lost_to_ms: int) -> None:
        """Minutes so far, and those that records which nobody has read may cover, are not billed from what is left."""
        state.buffer.lose(0, lost_to_ms + self._limits.future_skew_ms)
        state.rejected.clear()
        state.position = state.replay_to = state.restored_to = offset

    def dump(self, state: State) -> list[bytes]:
        kept_from = state.position if state.is_whole else state.buffer.first_offset
        found = {
            "version": VERSION if state.is_whole else SUMLESS,
            "partition": state.partition,
            "position": state.position,
            "rejected": sorted(number for number in state.rejected if kept_from is not None and number >= kept_from),
            "passed_ms": state.progress.passed_ms,
            "wait_ms": state.wait_ms,
            "progress": state.progress.dump(),
            "ledger": state.buffer.dump(),
        }
        if not state.is_whole:
            return [compress(orjson.dumps(found))]
        sums = list(state.buffer.dump_sums())
        found["sums"] = [(minute_ms, table, len(data)) for minute_ms, table, data in sums]
        return parts_of.cut(MAGIC, compress(orjson.dumps(found)), (data for *_, data in sums))

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        whole = parts[0].startswith(MAGIC)
        opening, sums = parts_of.joined(MAGIC, parts) if whole else (b"".join(parts), b"")
        found = orjson.loads(decompress(opening))
        parts_of.check_head(found, VERSION if whole else SUMLESS, partition=partition)
        progress = Progress.load(found["progress"], found["passed_ms"], self._sources)
        buffer = MinuteBuffer.load(found["ledger"], self._buffer_limits)
        lengths = [length for *_, length in found.get("sums", ())]
        for (minute_ms, table, _), data in zip(found.get("sums", ()), parts_of.pieces_of(sums, lengths), strict=True):
            buffer.load_sums(minute_ms, table, data)
        position, wait_ms = found["position"], max(found.get("wait_ms", 0), self._limits.final_wait_ms)
        restored_to = position if whole else 0
        return State(partition, progress, buffer, wait_ms, set(found["rejected"]), position, position, restored_to)


def outputs_of(block: Block, commit: Commit, partitions: int, topic: str = COSTS_TOPIC) -> list[Output]:
    """Rows of ``COSTS`` as records, in the partition of their source partition."""
    return cut_outputs(topic, COSTS, block, commit, partitions, "costs")
