"""A job that is killed at random moments and goes on from its last snapshot, as its runner would let it.

A kill falls between two commits, because a transaction that was cut short is as if it had not been. The state then
comes from the last snapshot and a silent fold of the records behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schemas.contract.record import Output, Record
from stream_jobs.step import Commit, Step

SNAPSHOT_COMMITS = 30
"""A snapshot every so many commits, as with a commit every second and a snapshot every half minute."""


@dataclass(slots=True)
class _Source:
    """A source partition as the runner knows it. ``kept``: records that a recovery may have to fold again."""

    state: Any
    parts: list[bytes]
    snapshot_at: int = 0
    read: int = 0
    written: int = 0
    commits: int = 0
    kept: list[Record] = field(default_factory=list)


class Disturbed:
    """Takes records as ``backtest.alerting.Stage``; before a commit it is killed with probability ``kill_share``, and
    for certain before the first with records from number ``kill_by`` on, where it was not killed till then."""

    def __init__(
        self, step: Step[Any, Any], random: np.random.Generator, kill_share: float, kill_by: int | None = None
    ) -> None:
        self._step = step
        self._random = random
        self._kill_share = kill_share
        self._kill_by = kill_by
        self._takes = 0
        self._sources: dict[tuple[str, int], _Source] = {}
        self.kills = 0
        self.stats: Counter[str] = Counter()
        """Sums of the step's statistics, by metric."""

    def take(self, topic: str, partition: int, records: Sequence[Record], now_ms: int) -> list[Output]:
        """What one commit over these records writes. Without records the source counts as idle."""
        source = self._source(topic, partition)
        self._takes += 1
        due = self._kill_by is not None and not self.kills and self._takes >= self._kill_by and bool(records)
        if self._random.random() < self._kill_share or due:
            self._step.fold(source.state, records, self._step.changes())  # lost: the kill comes before the commit
            self._recover(source, topic, partition)
        changes = self._step.changes()
        self._step.fold(source.state, records, changes)
        begin = source.read
        source.read = records[-1].offset + 1 if records else begin
        source.kept += records
        commit = Commit(topic, partition, begin, source.read, source.written, now_ms, not records)
        outputs = self._step.rows(source.state, changes, commit)
        source.written += len(outputs)
        for stat in self._step.stats(source.state, changes):
            self.stats[stat.metric] += int(stat.value)
        self._maybe_snapshot(source, bool(outputs))
        return outputs

    def _source(self, topic: str, partition: int) -> _Source:
        found = self._sources.get((topic, partition))
        if found is None:
            state = self._step.new(topic, partition)
            found = self._sources[topic, partition] = _Source(state, self._step.dump(state))
        return found

    def _recover(self, source: _Source, topic: str, partition: int) -> None:
        self.kills += 1
        source.state = self._step.load(topic, partition, source.parts)
        again = [record for record in source.kept if record.offset >= source.snapshot_at]
        self._step.fold(source.state, again, self._step.changes())

    def _maybe_snapshot(self, source: _Source, emitted: bool) -> None:
        """The state is dumped as it stands after a commit, as the runner does."""
        source.commits += 1
        with_outputs = emitted and self._step.snapshot_with_outputs
        if not with_outputs and source.commits % SNAPSHOT_COMMITS:
            return
        source.parts = self._step.dump(source.state)
        source.snapshot_at = self._step.replay_from(source.state, source.read)
        source.kept = [record for record in source.kept if record.offset >= source.snapshot_at]
