"""Partitions of a process that stand still because no restart can mend them, while all others go on.

A quarantined partition has no live owner: nothing of it is folded, nothing is committed for it, and its state stays
where its last snapshot left it. It comes back by an assignment of all partitions of the process, which is the one way
into being live that there is, as soon as

- it had no leader, and has one;
- its committed offset is another than the one it stood at: somebody has reset it (``stream_jobs.runner.reset``), in a
  transaction with the owner's own transactional id, or owns it elsewhere;
- or, where already acquiring it failed, all that acquiring reads is well again: a state topic has grown, for example.

The first two are looked up every few seconds. The last needs the snapshot, so it is looked up ever less often.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from runtime.clock import Clock
from runtime.counters import Counters
from runtime.health import Readiness
from runtime.runbook import QUARANTINE, section
from schemas.errors import FleetpulseError, PartitionError, UnavailableError
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.limits import progress_within
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.ports import Broker, Committed
from stream_jobs.runner.recovery import NO_LEADER, demand_leaders

_log = logging.getLogger(__name__)

CAUSES: dict[str, str] = {
    "log_cut": "retention deleted records that the job still needs",
    "log_short": "the log ends before what was committed: truncated, or recreated under the same name",
    "log_recreated": "the topic was recreated under the same name since the last snapshot: its id says so",
    "offset_lost": "the group's offset has expired while a snapshot is there",
    "foreign_offset": "the group's offset was committed by something else",
    "snapshot_lost": "the snapshot in the state topic cannot be read",
    "snapshot_damaged": "the snapshot is whole, and no state can be made of it",
    "no_state_partition": "the state topic has fewer partitions than the source",
    NO_LEADER: "no broker leads the partition, or that of its state",
}
"""Closed set of causes, each with what it means."""

_WITHOUT_OFFSET = frozenset({"offset_lost", "log_recreated"})
"""Causes for which a partition without a committed offset is quarantined."""

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class Held:
    """A quarantined partition. ``found`` is the committed offset as far as its owner knew it."""

    source: Source
    error: PartitionError
    found: Committed | None
    acquired: bool
    look_at_ms: float
    examine_at_ms: float
    examine_after_ms: float


class Quarantine:
    """Those of one process. Its gauge is ``job_quarantined``; readiness notes each with its cause."""

    def __init__(
        self, broker: Broker, names: Names, policy: CommitPolicy, clock: Clock, counters: Counters, readiness: Readiness
    ) -> None:
        self._broker = broker
        self._names = names
        self._policy = policy
        self._clock = clock
        self._counters = counters
        self._readiness = readiness
        self._held: dict[TopicPartition, Held] = {}
        self._logged: dict[TopicPartition, str] = {}

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Those that are quarantined now."""
        return frozenset(self._held)

    def add(self, owner: PartitionOwner, error: PartitionError, *, acquired: bool) -> None:
        """Quarantine the partition of an owner that is not fed any more; ``acquired``: it was live before."""
        source, now_ms = owner.source, self._now_ms()
        after_ms = self._policy.quarantine_examine_ms
        self._held[source.topic, source.partition] = Held(
            source, error, owner.found, acquired, now_ms + self._policy.quarantine_look_ms, now_ms + after_ms, after_ms
        )
        self._show(source, error.cause, 1)
        self._readiness.note(f"{source}", f"partition {source} is quarantined ({error.cause}): {error}")
        if self._logged.get((source.topic, source.partition)) != error.cause:
            self._logged[source.topic, source.partition] = error.cause
            facts = {"source": str(source), "cause": error.cause, "error": str(error)}
            _log.error("partition quarantined; the others go on", extra=facts | {"runbook": section(QUARANTINE)})

    def clear(self) -> None:
        """None is any more: all were revoked, or are acquired again."""
        for held in self._held.values():
            self._show(held.source, held.error.cause, 0)
            self._readiness.note(f"{held.source}", None)
        self._held.clear()

    def recovered(self, partition: TopicPartition) -> None:
        """The partition is live: should it be quarantined again, that is logged again."""
        if self._logged.pop(partition, None) is not None:
            _log.info("partition left quarantine", extra={"source": "/".join(map(str, partition))})

    def due(self) -> list[TopicPartition]:
        """Those to look at now; each becomes due again later."""
        now_ms = self._now_ms()
        found = [partition for partition, held in self._held.items() if now_ms >= held.look_at_ms]
        for partition in found:
            self._held[partition].look_at_ms = now_ms + self._policy.quarantine_look_ms
        return found

    async def damage(self, owner: PartitionOwner, error: BaseException) -> PartitionError | None:
        """What is wrong with the partition of an owner that failed with ``error``; None where that is the process's:
        Kafka does not answer, and not because of this partition."""
        if isinstance(error, PartitionError):
            return error
        if isinstance(error, UnavailableError):
            try:
                async with progress_within(self._policy.acquire_limit_ms, f"look for a leader of {owner.source}"):
                    await demand_leaders(self._broker, self._names, owner.source)
            except PartitionError as found:
                return found
            except FleetpulseError as failed:
                _log.debug("it is not known whether the partition has a leader", exc_info=failed)
        return None

    async def may_return(self, partition: TopicPartition, fresh: PartitionOwner) -> bool:
        """Whether the partition should be acquired again; ``fresh`` is an owner that is used for nothing else. Where
        there is no answer, the next look asks again."""
        held = self._held.get(partition)
        if held is None:  # it was revoked before the look began
            return False
        try:
            async with progress_within(self._policy.acquire_limit_ms, f"look at {fresh.source}") as fresh.progressed:
                return await self._is_mended(partition, held, fresh)
        except PartitionError:
            return False
        except FleetpulseError as error:
            self._counters.add("errors", where="quarantine", error=type(error).__name__)
            return False

    async def _is_mended(self, partition: TopicPartition, held: Held, fresh: PartitionOwner) -> bool:
        """Raises ``PartitionError`` where what was looked at is damaged."""
        if held.error.cause == NO_LEADER:
            await demand_leaders(self._broker, self._names, fresh.source)
            return True
        committed = await self._broker.committed(self._names.group, *partition)
        if held.found is not None and committed != held.found and committed is not None:
            return True
        if held.found is None and held.error.cause in _WITHOUT_OFFSET and committed is not None:
            return True
        if held.acquired or self._now_ms() < held.examine_at_ms:
            return False
        held.examine_after_ms = min(2 * held.examine_after_ms, self._policy.quarantine_examine_max_ms)
        held.examine_at_ms = self._now_ms() + held.examine_after_ms
        await fresh.examine()
        return True

    def _show(self, source: Source, cause: str, value: int) -> None:
        self._counters.set("job_quarantined", value, topic=source.topic, partition=source.partition, cause=cause)

    def _now_ms(self) -> float:
        return self._clock.monotonic_s() * 1_000
