"""When the runner commits, snapshots and times out: all of its intervals and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schemas.errors import ConfigError

NEVER_MS = 10**12
"""30 years. After so long without a fetch aiokafka takes a worker out of its group, and never back where it has nothing
to fetch: a stand-by, or one whose partitions are all quarantined. The watchdog sees to those that hang."""
_MAY_BE_ZERO = frozenset({"fetch_linger_ms"})


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """Names end in their unit; none may be 0 but ``fetch_linger_ms``."""

    interval_ms: int = 5_000
    """A changed partition is committed this long after its last commit, unless the step was due earlier: twice in a
    window of ten seconds. After a takeover it is committed as soon as something was folded, so that an owner that dies
    often makes progress. Every commit carries a row of each series that had an event."""
    due_interval_ms: int = 250
    """The same when the step is due."""
    commit_bytes_per_s: int = 1 << 30
    """After a commit of so many bytes, outputs and snapshot, the next of the partition waits at least a second: records
    that arrive meanwhile go with it."""
    idle_interval_ms: int = 2_000
    """An idle partition commits so often, so that its watermark moves by the clock."""
    idle_after_ms: int = 1_000
    """A partition without new records for this long, and read to its end, counts as idle."""
    keep_alive_ms: int = 6 * 3_600_000
    """An idle partition that wrote nothing for this long commits a snapshot, so that the brokers do not forget its
    transactional id (``transactional.id.expiration.ms``, a week)."""
    snapshot_interval_ms: int = 15_000
    """A new snapshot begins this long after the last: it bounds what the owner after a takeover folds again."""
    snapshot_records: int = 50_000
    """The same, by records folded."""
    snapshot_pieces_per_commit: int = 8
    """A large snapshot is spread over commits, this many pieces of at most 512 KiB at a time."""
    tick_ms: int = 50
    """How often partitions are checked for due commits."""
    commits_at_once: int = 8
    acquires_at_once: int = 8
    acquire_limit_ms: int = 20_000
    """Beyond it without progress, such as another part of a snapshot that was read, the process ends."""
    commit_limit_ms: int = 20_000
    """Beyond it the process ends."""
    live_limit_ms: int = 60_000
    """An assignment that is not live by then and makes no progress, or a first one that did not arrive: the watchdog
    ends the process."""
    quarantine_look_ms: int = 2_000
    """How often it is looked up whether a quarantined partition was reset."""
    quarantine_examine_ms: int = 30_000
    """After this it is looked whether what kept a partition from being acquired is mended; then after twice as long,
    and so on."""
    quarantine_examine_max_ms: int = 960_000
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 1_500
    rebalance_timeout_ms: int = 15_000
    fetch_wait_ms: int = 200
    """How long the broker waits for records before it answers a fetch with none."""
    fetch_linger_ms: int = 100
    """Pause between two fetches, so that one brings many records: halves the CPU. 0: none."""
    fetch_bytes_max: int = 8 * 1024 * 1024
    """Of a partition, in one fetch."""
    fetch_records_max: int = 4_000
    """Records handed to a step at once."""
    fold_bytes_max: int = 64 * 1024 * 1024
    """Folded without yielding to the event loop, at least one record. Large folds cost less per record."""
    transaction_timeout_ms: int = 30_000
    """After this the broker aborts a transaction that a dead owner left open, if nobody took over."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or value < (0 if name in _MAY_BE_ZERO else 1):
                raise ConfigError(f"policy.{name}", value, "must be a whole number above 0")
        if self.transaction_timeout_ms <= self.commit_limit_ms:
            raise ConfigError("policy.transaction_timeout_ms", self.transaction_timeout_ms, "must be > commit_limit_ms")
        if self.live_limit_ms <= self.acquire_limit_ms:
            raise ConfigError("policy.live_limit_ms", self.live_limit_ms, "must be > acquire_limit_ms")


DEFAULT_POLICY = CommitPolicy()

PROMPT_POLICY = CommitPolicy(
    due_interval_ms=50,
    commit_bytes_per_s=32 << 20,
    tick_ms=10,
    fetch_linger_ms=20,
    fetch_wait_ms=50,
    fold_bytes_max=512 * 1024,
)
"""For jobs with low latency: finals and alerts. They have few records, so frequent fetches cost little. An urgent
record waits for a fold of at most half a MiB, some 50 ms, however large the fleet's windows are. A commit that emits
alerts carries the job's whole state (5 MiB at 10,000 GPUs): in a storm of events one every 0.2 s, not every 50 ms.
``fetch_wait_ms`` is short because the next fetch leaves out a partition that has just returned records, and waits that
long."""

PROMPT_POLICY_OF_ONE = replace(PROMPT_POLICY, fetch_wait_ms=DEFAULT_POLICY.fetch_wait_ms)
"""The same for a job that reads a single partition, as alerts do: a waiting fetch delays no other partition."""
