"""The finals job as a step: partial rows of a window are merged and emitted once the window has passed.

Source is ``window.partials``, one state per partition of it. Rows are kept until their window has passed
(``stream_jobs.finals.progress``) and ``hot_ms`` longer; rows that arrive in that time make a revision of the changed
series, each whole; what comes later still is counted and dropped (the tables have it).

What is held is large and can be read again, so a dump holds none of it: it is the progress at a mark, and
``replay_from`` names the offset of the mark, before the first row that is still held. The replay ignores what had gone
by the time of the dump: ``passed_ms`` in it is that of the dump, and nothing else passes before the replay is over.

Which windows have passed hangs on ``final_wait_ms``, and an owner may have another than the one before. So every commit
with outputs carries a snapshot: what has passed since was sent by nobody, and no window is left out or sent twice. A
reset folds what was committed since without sending anything: the dump holds the wait where it is not the default, and
none that is shorter counts until the next commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from schemas.contract.record import Output, Record
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, WINDOW_MS, Limits
from stream_jobs import parts as parts_of
from stream_jobs.finals.changes import Changes, Mark, State, outputs_of
from stream_jobs.finals.decode import Decoded, decode
from stream_jobs.finals.held import Held
from stream_jobs.finals.progress import Progress, sources_of
from stream_jobs.finals.upstream import Source, UpstreamHeaders, read
from stream_jobs.step import Commit, Stat, Step

OPEN_ROWS_MAX = 4_000_000
"""Rows that came to windows not yet closed, per upstream partition; beyond, the oldest are closed as they are."""
LOST_BEYOND_MS = HOUR_MS
"""Event time that records between a snapshot and the last commit may cover: some seconds, more in a backlog. For
``pass_over`` alone; a reset is given a bound."""
SETTLED_AFTER_MS = 3 * WINDOW_MS
"""Rows of a window so much older than the newest are merged and packed, though it is open."""
SETTLED_AT_ONCE = 2_000
"""Rows that a fold merges and packs beside as many as it brought, so that never more wait than came."""
VERSION = 1


class FinalsStep(Step[State, Changes]):
    """Finals of a partition of ``window.partials``. ``partitions`` are the counts of each source topic."""

    name = "finals"
    snapshot_with_outputs = True

    def __init__(self, limits: Limits, partitions: Mapping[str, int], open_rows_max: int = OPEN_ROWS_MAX) -> None:
        self.limits = limits
        self._sources: tuple[Source, ...] = sources_of(partitions)
        self._open_rows_max = open_rows_max

    def new(self, topic: str, partition: int) -> State:
        return State(partition, Progress.new(self._sources), wait_ms=self.limits.final_wait_ms)

    def changes(self) -> Changes:
        return Changes()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        if state.rejected:
            records = [record for record in records if record.offset not in state.rejected]
        heads = [read(record) for record in records]
        decoded = decode(records, [head.schema for head in heads])
        self._settle(state, changes, SETTLED_AT_ONCE + sum(one.block.rows for one in decoded))
        Intake(self, state, changes, decoded).take(records, heads)
        self._say_lost(state, changes)

    def _say_lost(self, state: State, changes: Changes) -> None:
        """With whatever is sent, until that is of windows well behind those that were lost: what is said first may be
        folded silently by a reset."""
        if changes.passed or changes.touched:
            changes.lost_to_ms = max(changes.lost_to_ms, state.lost_to_ms)
            if state.progress.through_ms > state.lost_to_ms + self.limits.hot_ms:
                state.lost_to_ms = 0

    def _settle(self, state: State, changes: Changes, rows: int) -> None:
        """Some tables at a time: what waits for the fold to end does not wait for all of a window."""
        old_ms = state.progress.newest_ms - SETTLED_AFTER_MS
        for window_ms, held in state.windows.items():
            if (held.closed or window_ms < old_ms) and not changes.holds(window_ms):
                rows -= held.settle(rows)
            if rows <= 0:
                return

    def advance(self, state: State, changes: Changes, record: Record, head: UpstreamHeaders) -> None:
        """Take the progress that the record announces of its source, and close windows that have passed."""
        progress, before_ms = state.progress, state.progress.through_ms
        is_next, live = progress.is_next(head), record.offset >= state.replay_to
        progress.advance(head, record.timestamp_ms, state.wait_ms if live else None)
        if not live:
            return
        changes.gaps += not is_next
        self._make_room(state)
        if progress.through_ms > before_ms:
            self._close(state, changes)

    def _make_room(self, state: State) -> None:
        """Let the oldest open windows pass while all that are open have too many rows."""
        came = sum(held.came for held in state.windows.values() if not held.closed)
        if came <= self._open_rows_max:
            return
        for window_ms in sorted(window_ms for window_ms, held in state.windows.items() if not held.closed):
            came -= state.windows[window_ms].came
            state.progress.passed_ms = max(state.progress.passed_ms, window_ms + WINDOW_MS)
            if came <= self._open_rows_max:
                return

    def _close(self, state: State, changes: Changes) -> None:
        changes.passed = True
        passed_ms = state.progress.passed_ms
        for window_ms in sorted(state.windows):
            held = state.windows[window_ms]
            if window_ms + WINDOW_MS > passed_ms:
                break
            if not held.closed:
                held.closed = True
                changes.closed[window_ms] = held
            if self.is_cold(state, window_ms):
                del state.windows[window_ms]
        state.forget_marks()

    def is_cold(self, state: State, window_ms: int) -> bool:
        """Whether the window has passed so long ago that it is not revised any more."""
        return window_ms + WINDOW_MS <= state.progress.through_ms - self.limits.hot_ms

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """The record's rows are missing from now on; an owner that folds from an earlier offset skips it."""
        state.rejected.add(record.offset)
        state.position = max(state.position, record.offset + 1)
        changes.rejected += 1

    def due(self, state: State, changes: Changes) -> bool:
        return changes.passed

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        state.wait_ms = self.limits.final_wait_ms  # nothing that was sent before is folded any more
        return outputs_of(state, changes)

    def stats(self, state: State, changes: Changes) -> Iterator[Stat]:
        low_ms, partition = state.progress.low_ms, {"partition": state.partition}
        incomplete = sum(window_ms + WINDOW_MS > low_ms for window_ms in changes.closed)
        yield Stat("finals_windows", len(changes.closed), partition)
        yield Stat("finals_incomplete", incomplete, partition)
        yield Stat("finals_rows", changes.rows, partition)
        yield Stat("finals_late_rows", changes.late_rows, partition)
        yield Stat("finals_gaps", changes.gaps + changes.rejected, partition)
        yield Stat("finals_through_ms", state.progress.through_ms, partition)

    def replay_from(self, state: State, position: int) -> int:
        return state.checkpoint().offset if state.marks else position

    def dump(self, state: State) -> list[bytes]:
        offset, progress = state.checkpoint()
        found = {
            "version": VERSION,
            "partition": state.partition,
            "marked": bool(state.marks),
            "from": offset,
            "position": state.position,
            "passed_ms": state.progress.passed_ms,
            "newest_ms": max(state.newest_ms, state.progress.newest_ms),
            "rejected": sorted(number for number in state.rejected if number >= offset),
            "mark": progress.dump(),
        }
        if state.wait_ms != DEFAULT_LIMITS.final_wait_ms:  # else it stays the one that 0.1.0 takes, byte for byte
            found["wait_ms"] = state.wait_ms
        if state.lost_to_ms:
            found["lost_to_ms"] = state.lost_to_ms
        return [json.dumps(found, separators=(",", ":")).encode()]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        found = json.loads(b"".join(parts))
        parts_of.check_head(found, VERSION, partition=partition)
        progress, position = Progress.load(found["mark"], found["passed_ms"], self._sources), found["position"]
        marks = [Mark(found["from"], progress.copy())] if found["marked"] else []
        waited_ms, rejected = found.get("wait_ms", DEFAULT_LIMITS.final_wait_ms), set(found["rejected"])
        wait_ms, lost_to_ms = max(waited_ms, self.limits.final_wait_ms), found.get("lost_to_ms", 0)
        newest_ms = found["newest_ms"]
        return State(partition, progress, {}, marks, rejected, position, position, newest_ms, wait_ms, lost_to_ms)

    def pass_over(self, state: State, offset: int) -> bool:
        """Rows before ``offset`` are gone: windows that may have had any are passed and cold, so that no
        part of them is taken for the whole. Tables have all of them."""
        self._lose(state, LOST_BEYOND_MS if offset > state.position else 0, 0)
        state.position = state.replay_to = max(state.position, offset)
        return True

    def begin_again(self, state: State, offset: int, lost_to_ms: int) -> None:
        """As where rows are gone, those that nobody has read too: no event is newer than its record by more than
        ``future_skew_ms``."""
        self._lose(state, 0, lost_to_ms + self.limits.future_skew_ms)
        state.rejected.clear()
        state.position = state.replay_to = offset

    def _lose(self, state: State, beyond_ms: int, to_ms: int) -> None:
        """Rows of every window so far, of those up to ``beyond_ms`` later, and of those to ``to_ms`` may be gone. Who
        reads finals learns it before this upstream says how far it has come: else what stands behind it is silent."""
        progress = state.progress
        progress.newest_ms = max(progress.newest_ms, state.newest_ms)
        if progress.newest_ms or to_ms:
            newest_ms = max(progress.newest_ms + beyond_ms, to_ms)
            progress.passed_ms = max(progress.passed_ms, newest_ms + WINDOW_MS + self.limits.hot_ms)
            state.lost_to_ms = progress.through_ms
        state.windows.clear()
        state.marks = []


class Intake:
    """Records of one fold on their way into the state."""

    def __init__(self, step: FinalsStep, state: State, changes: Changes, decoded: Sequence[Decoded]) -> None:
        self._step = step
        self._state = state
        self._changes = changes
        self._decoded = decoded
        self._held: dict[int, Held] = {}
        self._dropped: dict[int, list[int]] = {}

    def take(self, records: Sequence[Record], heads: Sequence[UpstreamHeaders]) -> None:
        """Decide record by record, then move the rows window by window."""
        pieces: dict[int, list[tuple[int, int]]] = {}
        for decoded in self._decoded:
            for number, window_ms, rows in decoded.pieces():
                pieces.setdefault(number, []).append((window_ms, rows))
        for number, (record, head) in enumerate(zip(records, heads, strict=True)):
            for window_ms, rows in pieces.get(number, ()):
                self._admit(number, record, window_ms, rows)
            self._step.advance(self._state, self._changes, record, head)
            self._state.position = max(self._state.position, record.offset + 1)
        self._move()

    def _admit(self, number: int, record: Record, window_ms: int, rows: int) -> None:
        """Note that rows of a window came, or that they came too late."""
        state, live = self._state, record.offset >= self._state.replay_to
        is_cold = self._step.is_cold(state, window_ms)
        if window_ms > state.progress.newest_ms or not (state.marks or is_cold):
            state.mark(record.offset)
            state.progress.newest_ms = max(state.progress.newest_ms, window_ms)
        if is_cold:
            self._dropped.setdefault(window_ms, []).append(number)
            self._changes.late_rows += rows if live else 0
            return
        held = state.windows.get(window_ms)
        if held is None:
            closed = window_ms + WINDOW_MS <= state.progress.passed_ms
            held = state.windows[window_ms] = Held(window_ms, record.offset, closed=closed)
        held.revision, held.came = record.offset, held.came + rows
        self._held[window_ms] = held
        if held.closed and live:
            self._changes.touched[window_ms] = held

    def _move(self) -> None:
        for window_ms, held in self._held.items():
            for decoded in self._decoded:
                block = decoded.of(window_ms, self._dropped.get(window_ms, ()))
                if block.rows:
                    held.add(decoded.table, block)
                    if window_ms in self._changes.touched:
                        self._changes.parts[window_ms, decoded.table.schema] += 1
