"""A small job to try runners with: adds up amounts by key, drops re-sends, keeps books; what it commits can be checked
against the truth to the last unit.

Its state shows every mistake of a runner: identities (a lost or doubled fold is seen as a duplicate or a gap), and a
running total that each output repeats.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.contract.record import Headers, Output, Record
from stream_jobs.step import Commit, Step

POISON = b"poison"
OUT_TOPIC = "out"


def encode(key: str, amount: int, source: str, boot: int, seq: int, low: tuple[int, int]) -> tuple[bytes, Headers]:
    """Value and headers of a source record."""
    headers = (
        ("source", source.encode()),
        ("boot", b"%d" % boot),
        ("seq", b"%d" % seq),
        ("low", b"%d.%d" % low),
    )
    return f"{key}={amount}".encode(), headers


@dataclass(slots=True)
class Seen:
    """Identities of one source: everything below ``low``, and those above it one by one."""

    low: tuple[int, int] = (0, 0)
    above: set[tuple[int, int]] = field(default_factory=set)

    def take(self, identity: tuple[int, int], low: tuple[int, int]) -> bool:
        """False when the identity was taken before."""
        if identity < self.low or identity in self.above:
            return False
        self.above.add(identity)
        if low > self.low:
            self.low = low
            self.above = {each for each in self.above if each >= low}
        return True


@dataclass(slots=True)
class State:
    seen: dict[str, Seen] = field(default_factory=dict)
    total: int = 0
    count: int = 0


@dataclass(slots=True)
class Changes:
    sums: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0


class CountingStep(Step[State, Changes]):
    """``part_bytes`` cuts the dumped state, so that snapshots of many parts are tried too. ``lenient`` is a later
    release, which can read what poisoned this one."""

    name = "counting"
    Seen = Seen

    def __init__(
        self, out_topic: str = OUT_TOPIC, out_partitions: int = 1, part_bytes: int = 1 << 19, lenient: bool = False
    ) -> None:
        self._lenient = lenient
        self._out_topic = out_topic
        self._out_partitions = out_partitions
        self._part_bytes = part_bytes

    def new(self, topic: str, partition: int) -> State:
        return State()

    def changes(self) -> Changes:
        return Changes()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        for record in records:
            if not self._is_new(state, record):
                changes.duplicates += 1
                continue
            value = record.value or b""
            state.count += 1  # on purpose before what may raise: a runner must not keep a spoilt state
            if value.startswith(POISON):
                if not self._lenient:
                    raise ValueError("poison")
                value = b"poison=0"
            key, _, amount = value.decode().partition("=")
            state.total += int(amount)
            changes.sums[key] = changes.sums.get(key, 0) + int(amount)
            changes.accepted += 1

    def _is_new(self, state: State, record: Record) -> bool:
        headers = dict(record.headers)
        if "source" not in headers:
            return True
        identity = (int(headers["boot"]), int(headers["seq"]))
        boot, _, seq = headers["low"].partition(b".")
        seen = state.seen.setdefault(headers["source"].decode(), self.Seen())
        return seen.take(identity, (int(boot), int(seq)))

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        if self._is_new(state, record):
            changes.rejected += 1
        else:
            changes.duplicates += 1

    def due(self, state: State, changes: Changes) -> bool:
        return changes.rejected > 0

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        told = {
            "from": commit.offset_from,
            "to": commit.offset_to,
            "number": commit.number,
            "source": f"{commit.topic}/{commit.partition}",
            "now_ms": commit.now_ms,
            "idle": commit.idle,
            "sums": changes.sums,
            "accepted": changes.accepted,
            "duplicates": changes.duplicates,
            "rejected": changes.rejected,
            "total": state.total,
            "count": state.count,
        }
        value = json.dumps(told, sort_keys=True).encode()
        return [Output(self._out_topic, commit.partition % self._out_partitions, None, value, ())]

    def dump(self, state: State) -> list[bytes]:
        seen = {source: [list(s.low), sorted(map(list, s.above))] for source, s in sorted(state.seen.items())}
        whole = json.dumps({"total": state.total, "count": state.count, "seen": seen}).encode()
        size = self._part_bytes
        return [whole[start : start + size] for start in range(0, len(whole), size)]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        told = json.loads(b"".join(parts))
        seen = {s: self.Seen((low[0], low[1]), {(b, q) for b, q in above}) for s, (low, above) in told["seen"].items()}
        return State(seen, told["total"], told["count"])


class QuietStep(CountingStep):
    """Tells nothing when nothing came, not even that time has passed."""

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        return [] if commit.offset_from == commit.offset_to else super().rows(state, changes, commit)
