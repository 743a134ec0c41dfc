"""Collectors: anything that measures and returns rows on a tick.

A collector may block, raise or hang: it runs in a thread of its own with a time limit and is replaced after a failure.
It keeps what it needs between two readings (the counters before).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from producers.differences import bounds, within
from runtime.counters import Counters
from schemas.fields import Event

Row = dict[str, Any]
Key = TypeVar("Key")
ROUND_MS_MAX = 5_000
"""Of a collector that asks several engines: a round that took so long ends, the next one begins with those left out.
With one more time limit of an engine still below that of a collector's call."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Labels of every row of this host (``host``, ``cluster``, ``region``), and where each GPU belongs.

    ``placement`` has engine_id, placement_group and workload by GPU UUID, as far as known. The registry of engines
    may replace it while the agent runs.
    """

    labels: Mapping[str, str | None]
    placement: Mapping[str, Mapping[str, str | None]]
    engine_of: Callable[[int], str | None] = lambda _pid: None
    """The engine of a process on a GPU, by pid: on a shared GPU the placement names none."""
    pod_of: Callable[[str | None], Row] = lambda _uid: {}
    """``pod_name`` and ``pod_namespace`` by the pod's UID, where Kubernetes reports them."""
    reserved_ppm: Callable[[str], int | None] = lambda _uuid: None
    """The share of a GPU's memory that the engines on it may take, by UUID, where each of them reports it."""


def reserved_bytes(row: Mapping[str, Any], share_ppm: int | None) -> Row:
    """``memory_engine_bytes`` of a GPU's row; nothing where its memory or the share is not known."""
    total = row.get("memory_total_bytes")
    return {} if total is None or share_ppm is None else {"memory_engine_bytes": total * share_ppm // 1_000_000}


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows of one topic, in the order they were measured."""

    event: Event
    rows: Sequence[Row]


class Collector(Protocol):
    """Something that measures. ``name`` stands in counters and logs; ``period_ms`` says how often it wants to."""

    @property
    def name(self) -> str: ...

    @property
    def period_ms(self) -> int: ...

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """What was measured at ``at_ms`` (wall clock, of the tick). Nothing is no error."""
        ...

    def close(self) -> None:
        """Let go of handles; called from the thread that collects, and not at all when that thread hangs."""
        ...


@runtime_checkable
class Waiter(Protocol):
    """A source of rare events: it waits and returns them at once, instead of on ticks."""

    @property
    def name(self) -> str: ...

    def wait(self, timeout_s: float) -> Sequence[Collected]:
        """What happened, as soon as something does; nothing after ``timeout_s``."""
        ...

    def close(self) -> None:
        """Let go of handles; called from the thread that waits."""
        ...


@runtime_checkable
class Succeeds(Protocol):
    """A collector that can go on from where another one of the same thing ended."""

    def succeed(self, before: Collector) -> None:
        """Take over what ``before`` knew; it collects no more."""
        ...


@runtime_checkable
class SpendsElsewhere(Protocol):
    """A collector with threads of its own: their processor time belongs to its cost."""

    def cpu_s(self) -> float:
        """Seconds that threads of its own spent since the last call."""
        ...


def one_round(
    collectors: MutableMapping[Key, Collector], monotonic_s: Callable[[], float]
) -> Iterator[tuple[Key, Collector]]:
    """Each once, while the round has taken less than ``ROUND_MS_MAX``: every one that is given moves to the end, so
    that the next round begins with those left out."""
    until_s = monotonic_s() + ROUND_MS_MAX / 1_000
    for key in list(collectors):
        if monotonic_s() >= until_s:
            return
        collectors[key] = collector = collectors.pop(key)
        yield key, collector


class FieldErrors:
    """What a collector could not read, or read and cannot be, counted by field."""

    def __init__(self, sampler: str, event: Event, counters: Counters) -> None:
        self._sampler = sampler
        self._bounds = bounds(event)
        self._counters = counters

    def count(self, field: str, times: int = 1) -> None:
        """Count a field, or a reason."""
        self._counters.add("sampler_errors", times, sampler=self._sampler, field=field)

    def checked(self, row: Row) -> Row:
        """The row with numbers outside their bounds made unknown, and counted."""
        checked, wrong = within(self._bounds, row)
        for name in wrong:
            self.count(name)
        return checked
