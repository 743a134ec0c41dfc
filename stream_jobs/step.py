"""What a job is: a pure step, one instance of its state per source partition.

The runner (``stream_jobs.runner``) owns all input and output and is the same for every job; a step owns the meaning.
Rules that a step must keep, because exactness hangs on them:

- ``fold`` depends on the records and their order alone, never on where batches are cut, never on a clock;
- ``rows`` is called once per commit and returns *all* of ``changes``; that is sent in the same transaction as the
  source offset, and the runner throws ``changes`` away. Nothing that counts may move from ``changes`` to ``state``
  there: after a crash ``state`` comes from ``fold`` alone;
- a state that went through ``dump`` and ``load`` behaves like the one that did not;
- a release that raises on records which another release accepted must not take turns with it: what was accepted and
  sent cannot be rejected any more.

During recovery the runner folds silently from a snapshot to the committed offset and drops those changes. A record
that makes ``fold`` raise is handed to ``reject`` on a state rebuilt from the records before it. While a transaction is
on its way, ``fold`` goes on with the next records.

A step whose state is large and can be read again overrides ``replay_from``: its dump is then small, the runner keeps
the offset returned as the snapshot's position, and the silent fold from there completes what was loaded. Such a step
keeps two more rules: records from there up to the dump change nothing but what is rebuilt, and those that were
rejected among them are skipped and do not make ``fold`` raise again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Generic, NamedTuple, TypeVar

from schemas.contract.record import Output, Record

State = TypeVar("State")
Changes = TypeVar("Changes")


@dataclass(frozen=True, slots=True)
class Commit:
    """What the runner knows at the moment of a commit.

    The commit covers source offsets ``[offset_from, offset_to)`` of ``topic``/``partition``. ``number`` counts the
    records this job has written about this source partition (continued over restarts). ``idle`` says that the runner
    has read the partition to its end and nothing came for a while: only then may ``now_ms`` (wall clock of the
    owner, ms since the epoch) move the watermark.
    """

    topic: str
    partition: int
    offset_from: int
    offset_to: int
    number: int
    now_ms: int
    idle: bool


class Stat(NamedTuple):
    """A number about one commit: added to the counter ``metric``, or the new value where that is a gauge."""

    metric: str
    value: float
    labels: Mapping[str, object] = MappingProxyType({})


class Step(ABC, Generic[State, Changes]):
    """A job. ``name`` is part of the transactional id and of the state topic's name.

    Methods that are not abstract have the default that most steps want.
    """

    name: str

    snapshot_with_outputs: ClassVar[bool] = False
    """Every commit with outputs carries a whole snapshot, and recovery folds nothing silently that was not sent: for a
    step whose results depend on rules that people change, so that what was sent is never folded under other rules. Of
    such a snapshot only parts that changed since the last are written: what seldom changes should be a part of its own,
    and not stand in the first, which is always written."""

    @abstractmethod
    def new(self, topic: str, partition: int) -> State: ...

    @abstractmethod
    def changes(self) -> Changes:
        """An empty accumulator for what will be sent at the next commit."""

    @abstractmethod
    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        """Take records in offset order. May raise only for a defect of our own: the runner then isolates the
        record; and ``NewerReleaseError``, which ends the process."""

    @abstractmethod
    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """Book a record that made ``fold`` raise as rejected with reason ``internal`` (its state change is none)."""

    @abstractmethod
    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        """The messages of this commit; may be empty of data but carries progress when something changed."""

    @abstractmethod
    def dump(self, state: State) -> list[bytes]:
        """The state as parts, equal bytes for equal states; the runner cuts parts above 512 KiB. Called every snapshot
        interval, in one go: its time is taken from the fold's."""

    @abstractmethod
    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        """What was dumped. May raise anything where the parts are damaged: the partition stops alone; and
        ``NewerReleaseError``, which ends the process."""

    def due(self, state: State, changes: Changes) -> bool:
        """True when the changes should be committed now rather than at the next tick (a window has passed)."""
        return False

    def stats(self, state: State, changes: Changes) -> Iterable[Stat]:
        """Numbers about the commit whose ``rows`` were just made, for the counters of the process. Pure; the runner
        counts them once the commit is done, and drops those of silent folds."""
        return ()

    def replay_from(self, state: State, position: int) -> int:
        """The source offset, at most ``position``, from which folding must begin to make the state again of what
        ``dump`` returns. ``state`` was folded up to ``position``."""
        return position

    def pass_over(self, state: State, offset: int) -> bool:
        """Go on without the records before ``offset``: retention deleted some that ``replay_from`` needs. They had
        been read and committed; the state must never emit as complete what they were a part of. False when the step
        cannot do without them: then the partition is not started."""
        return False

    def ends_without(self, state: State) -> Sequence[str]:
        """Names of what this process has not been given, though a state that was just loaded has something open of it,
        which would end by that: rules of alerts, but those that an owner before was not given. A person who resets the
        partition is told, and has given another file."""
        return ()

    def begin_again(self, state: State, offset: int, lost_to_ms: int) -> None:
        """Go on at ``offset``, whatever was folded before: somebody resets the partition. Records that were created up
        to ``lost_to_ms`` may be missing that nobody has read, and its log may be another one of the same name, with
        other records at the offsets that the state knows. None of these may be needed or passed over from now on
        (``replay_from`` is ``offset``), and the state must never emit as complete what may lack records. A step whose
        state knows no offsets of its source has nothing to do."""
