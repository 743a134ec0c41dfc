"""What a job is: a pure step, one instance of its state per source partition.

The host (``stream_jobs.host``) owns all input and output and is the same for every job; a step owns the meaning.
Rules that a step must keep, because exactness hangs on them:

- ``fold`` depends on the records and their order alone, never on where batches are cut, never on a clock;
- ``rows`` is called once per commit and returns *all* of ``changes``; that is sent in the same transaction as the
  source offset, and the host throws ``changes`` away. Nothing that counts may move from ``changes`` to ``state``
  there: after a crash ``state`` comes from ``fold`` alone;
- a state that went through ``dump`` and ``load`` behaves like the one that did not;
- a release that raises on records which another release accepted must not take turns with it: what was accepted and
  sent cannot be rejected any more.

A step whose results hang on rules that people change says ``snapshot_with_outputs = True``: every commit with outputs
then carries a whole snapshot, so nobody folds silently what was told.

During recovery the host folds silently from a snapshot to the committed offset and throws those changes away. A record
that makes ``fold`` raise is handed to ``reject`` on a state rebuilt from the records before it. While a transaction is
on its way, ``fold`` goes on with the next records.

A step whose state is large and can be read again may have one more method, ``replay_from(state) -> int | None``: the
source offset from which folding must begin again to make, of what ``dump`` returns, the state that was dumped. Its dump
is then small, the host keeps that offset as the snapshot's position, and what is loaded becomes whole by the silent
fold. Such a step keeps two more rules: records from there on up to the dump change nothing but what is held, whatever
was rejected among them is passed over and does not make ``fold`` raise again.

It may also have ``pass_over(state, offset) -> None``, called on what was loaded when the log begins at ``offset`` by
now, beyond the one asked for: what stood there was read and committed, and cannot be read again. The state goes on
without it, and never tells as whole what that was a part of. Without this method the job does not start then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from schemas.record import Output, Record

State = TypeVar("State")
Changes = TypeVar("Changes")


@dataclass(frozen=True, slots=True)
class Commit:
    """What the host knows at the moment of a commit.

    The commit covers source offsets ``[offset_from, offset_to)`` of ``topic``/``partition``. ``number`` counts the
    records this job has written about this source partition (continued over restarts). ``idle`` says that the host
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


class Step(Protocol[State, Changes]):
    """A job. ``name`` is part of the transactional id and of the state topic's name."""

    name: str

    def new(self, topic: str, partition: int) -> State: ...

    def changes(self) -> Changes:
        """An empty accumulator for what will be sent at the next commit."""
        ...

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        """Take records in offset order. May raise only for a defect of our own; the host then isolates the record."""
        ...

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """Book a record that made ``fold`` raise as rejected with reason ``internal`` (its state change is none)."""
        ...

    def due(self, state: State, changes: Changes) -> bool:
        """True when the changes should be committed now rather than at the next tick (a window has passed)."""
        ...

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        """The messages of this commit; may be empty of data but carries progress when something changed."""
        ...

    def dump(self, state: State) -> list[bytes]:
        """The state as parts, equal bytes for equal states; the host cuts parts above 512 KiB. Called every snapshot
        interval, in one go: its time is taken from the fold's."""
        ...

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State: ...


def passes_over(step: Step[Any, Any]) -> bool:
    """Whether the step goes on when retention took what it wanted to read again."""
    return hasattr(step, "pass_over")


def replay_from(step: Step[Any, Any], state: Any, position: int) -> int:
    """The source offset from which folding goes on after a dump of ``state``, which was folded up to ``position``, is
    loaded: there, unless the step wants to begin earlier."""
    asked = getattr(step, "replay_from", None)
    found = None if asked is None else asked(state)
    assert found is None or found <= position, f"{step.name}: replay from {found}, beyond {position}"
    return position if found is None else int(found)
