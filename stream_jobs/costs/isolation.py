"""Bills of which some cannot be made: the others are, and those that raise are named.

What producers send must never make a bill raise. Where it does all the same, that is a defect of ours, and no restart
would mend it: the minute would be billed again by the same code. It may cost the bills of one group and minute, not
those of the partition. Their rows stay in the tables, so a rerate can bill them once the defect is mended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schemas.codec.block import Block
from stream_jobs.costs.minute_buffer import EmittedMinute
from stream_jobs.costs.wide import Ints


@dataclass(frozen=True, slots=True)
class Failed:
    """A group and minute without bills, and what was raised."""

    group: str
    minute_ms: int
    cause: str


Make = Callable[[Sequence[EmittedMinute]], Block | None]


def made(emitted: Sequence[EmittedMinute], make: Make) -> tuple[list[Block], list[Failed]]:
    """What ``make`` makes of these minutes, in their order, without the groups and minutes of which it raises."""
    try:
        block = make(emitted)
    except MemoryError:
        raise
    except Exception as error:
        halves = _halves(emitted)
        if not halves:
            return [], [_failed(one, error) for one in emitted]
        found = [made(half, make) for half in halves]
        return [block for blocks, _ in found for block in blocks], [one for _, failed in found for one in failed]
    return ([] if block is None else [block]), []


def _halves(emitted: Sequence[EmittedMinute]) -> list[list[EmittedMinute]]:
    """The minutes, or the groups of a single one, in two; none where it is one group and minute."""
    if len(emitted) > 1:
        middle = len(emitted) // 2
        return [list(emitted[:middle]), list(emitted[middle:])]
    (one,) = emitted
    middle = len(one.groups) // 2
    return [[_of(one, slice(middle))], [_of(one, slice(middle, None))]] if middle else []


def _of(one: EmittedMinute, which: slice) -> EmittedMinute:
    """These groups of a minute."""
    groups: Ints = one.groups[which]
    picked = np.zeros(len(one.group_words), dtype=np.bool_)
    picked[groups] = True
    tables = {name: rows.of(picked[rows.keys[0]]) for name, rows in one.tables.items()}
    return replace(one, groups=groups, revision=one.revision[which], final=one.final[which], tables=tables)


def _failed(one: EmittedMinute, error: Exception) -> Failed:
    (group,) = one.groups.tolist()
    name = (one.group_words.list[group] or b"").decode(errors="replace")
    return Failed(name, one.minute_ms, f"{type(error).__name__}: {error}")
