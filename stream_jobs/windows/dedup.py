"""Duplicates: which records of a source partition were taken before.

The edge gives every record an identity (source, boot, seq) and says in each how far everything was acknowledged
(``low``). Per source we keep ``low`` and the identities seen at or above it: below ``low`` everything was acknowledged,
so it is in the log, so it was seen. "Highest seq seen" would lose what lands after something newer.

A partition sees only part of a source's sequence (its other records go elsewhere), so what is kept above ``low`` are
ranges, most of them of length one; ``low`` follows the sends closely and keeps them few.

Limits: a source that sends nothing for ``source_expiry_ms`` of *append* time is forgotten (never by a clock, so that
recovery forgets the same). A source with more than ``RANGES_MAX`` ranges (only one that never moves its ``low`` for
hours) and, beyond ``SOURCES_MAX`` sources, the one silent for longest are forgotten in part or whole: duplicates of
that age would then count twice. Both are counted in ``forgotten``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator

from schemas.contract.headers import Identity

RANGES_MAX = 100_000
SOURCES_MAX = 1_000_000

_SEQ_BITS = 60
"""A seq has at most 18 digits, so boot and seq fit one number that sorts as the pair does."""


class SourceSeen:
    """What was seen of one source: everything below ``low``, and ``[starts[i], ends[i]]`` above, rising."""

    __slots__ = ("appended_ms", "ends", "low", "starts")

    def __init__(self, low: int, starts: list[int], ends: list[int], appended_ms: int) -> None:
        self.low = low
        self.starts = starts
        self.ends = ends
        self.appended_ms = appended_ms

    def take(self, number: int) -> bool:
        """True when the number was not seen before; it is from now on."""
        starts, ends = self.starts, self.ends
        if number < self.low:
            return False
        if not ends or number > ends[-1] + 1:
            starts.append(number)
            ends.append(number)
            return True
        if number == ends[-1] + 1:
            ends[-1] = number
            return True
        return self._insert(number)

    def _insert(self, number: int) -> bool:
        starts, ends = self.starts, self.ends
        after = bisect_right(starts, number)
        if after and number <= ends[after - 1]:
            return False
        joins_left = after > 0 and ends[after - 1] + 1 == number
        joins_right = after < len(starts) and starts[after] == number + 1
        if joins_left and joins_right:
            ends[after - 1] = ends[after]
            del starts[after], ends[after]
        elif joins_left:
            ends[after - 1] = number
        elif joins_right:
            starts[after] = number
        else:
            starts.insert(after, number)
            ends.insert(after, number)
        return True

    def raise_low(self, low: int) -> None:
        """Everything below ``low`` was acknowledged: ranges below it are no longer needed."""
        if low <= self.low:
            return
        self.low = low
        starts, ends = self.starts, self.ends
        if ends and ends[0] < low:
            gone = bisect_right(ends, low - 1)
            del starts[:gone], ends[:gone]
        if starts and starts[0] < low:
            starts[0] = low


class Dedup:
    """All sources of one partition, in the order of their last records."""

    __slots__ = ("appended_ms_max", "expiry_ms", "forgotten", "sources")

    def __init__(self, expiry_ms: int) -> None:
        self.expiry_ms = expiry_ms
        self.appended_ms_max = 0
        self.forgotten = 0
        self.sources: OrderedDict[str, SourceSeen] = OrderedDict()

    def take(self, identity: Identity, appended_ms: int) -> bool:
        """True when the record was not taken before; from now on it is. Records must come in log order."""
        if appended_ms > self.appended_ms_max:
            self.appended_ms_max = appended_ms
            self._expire()
        low_boot, low_seq = identity.low
        low = low_boot << _SEQ_BITS | low_seq
        entry = self.sources.get(identity.source)
        if entry is None:
            entry = self._new(identity.source, low)
        else:
            self.sources.move_to_end(identity.source)
        entry.appended_ms = self.appended_ms_max
        fresh = entry.take(identity.boot << _SEQ_BITS | identity.seq)
        entry.raise_low(low)
        if len(entry.starts) > RANGES_MAX:
            self.forgotten += 1
            del entry.starts[0], entry.ends[0]
        return fresh

    def _new(self, source: str, low: int) -> SourceSeen:
        if len(self.sources) >= SOURCES_MAX:
            self.forgotten += 1
            self.sources.popitem(last=False)
        entry = self.sources[source] = SourceSeen(low, [], [], self.appended_ms_max)
        return entry

    def _expire(self) -> None:
        oldest_ms = self.appended_ms_max - self.expiry_ms
        sources = self.sources
        while sources:
            source = next(iter(sources))
            if sources[source].appended_ms >= oldest_ms:
                return
            del sources[source]

    def entries(self) -> Iterator[tuple[str, SourceSeen]]:
        """The sources, the one silent for longest first."""
        return iter(self.sources.items())


def split(number: int) -> tuple[int, int]:
    """The (boot, seq) of a number."""
    return number >> _SEQ_BITS, number & (1 << _SEQ_BITS) - 1


def join(boot: int, seq: int) -> int:
    """The number of a (boot, seq); it sorts as the pair does."""
    return boot << _SEQ_BITS | seq
