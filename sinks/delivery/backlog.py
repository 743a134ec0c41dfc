"""Deliveries of one target: a lane per alert, of which only the oldest transition may go out.

Among lanes that are due, the one that has been due longest goes first, so that an alert a target fails on never blocks
the others. Every operation is O(log lanes).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass

import orjson

from schemas.contract.alerts import Alert
from sinks.delivery.transition import Transition

UNDELIVERED_SCHEMA = "alerts.undelivered/1"


@dataclass(slots=True, eq=False)
class Delivery:
    """A transition on its way to one target. ``fresh``: read from the topic just now; else an alert that is sent
    late (a silence that ended, a new target), whose offset was passed long ago. ``again``: delivered before, and
    rejected when it was sent once more. ``due_ms`` and ``deadline_ms`` are monotonic; ``since_ms`` is the time of day
    from which on it could be sent: it was appended, or its silence ended."""

    transition: Transition
    number: int
    due_ms: int
    deadline_ms: int
    since_ms: int
    fresh: bool = True
    attempts: int = 0
    again: bool = False

    @property
    def fingerprint(self) -> str:
        return self.transition.alert.fingerprint


@dataclass(frozen=True, slots=True)
class Send:
    """Post this delivery. ``before``: the newest state of this alert that the target was notified of."""

    delivery: Delivery
    acknowledge: bool = False
    before: Alert | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A delivery that was given up. ``reason``: rejected, too_old or queue_full."""

    delivery: Delivery
    reason: str
    detail: str

    def record(self, target: str, now_ms: int, *, whole: bool = True) -> bytes:
        """Value of its record on topic ``alerts.undelivered``, JSON: why, and the transition as it stands on topic
        ``alerts``, null where it is not to be ``whole``."""
        transition = self.delivery.transition
        value = {
            "schema": UNDELIVERED_SCHEMA,
            "target": target,
            "reason": self.reason,
            "detail": self.detail,
            "attempts": self.delivery.attempts,
            "at_ms": now_ms,
            "transition_id": transition.alert.transition_id,
            "partition": transition.partition,
            "offset": transition.offset,
            "record": orjson.Fragment(transition.record) if whole else None,
        }
        return orjson.dumps(value)


class Backlog:
    """Lanes of deliveries by fingerprint."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Delivery]] = {}
        self._in_flight: set[str] = set()
        self._due: list[tuple[int, int, str]] = []
        self._by_age: OrderedDict[int, Delivery] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_age)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._lanes

    def add(self, delivery: Delivery) -> None:
        """Put it at the end of its lane."""
        lane = self._lanes.setdefault(delivery.fingerprint, deque())
        lane.append(delivery)
        self._by_age[delivery.number] = delivery
        if len(lane) == 1:
            self._push(delivery)

    def head(self, now_ms: int) -> Delivery | None:
        """The delivery that is to go out next; None while none is due."""
        self._drop_stale()
        if not self._due or self._due[0][0] > now_ms:
            return None
        return self._lanes[self._due[0][2]][0]

    def next_due_ms(self) -> int | None:
        """When the next one is due; None when none is queued (or all are in flight)."""
        self._drop_stale()
        return self._due[0][0] if self._due else None

    def start(self, delivery: Delivery) -> None:
        """It is in flight: the rest of its lane waits."""
        self._in_flight.add(delivery.fingerprint)

    def retry(self, delivery: Delivery, due_ms: int) -> None:
        """It has to go out once more, then."""
        self._in_flight.discard(delivery.fingerprint)
        delivery.due_ms = due_ms
        self._push(delivery)

    def remove(self, delivery: Delivery) -> None:
        """The first of its lane is done with; the next one may go."""
        lane = self._lanes[delivery.fingerprint]
        assert lane[0] is delivery, "only the first of a lane can be done"
        lane.popleft()
        del self._by_age[delivery.number]
        self._in_flight.discard(delivery.fingerprint)
        if lane:
            self._push(lane[0])
        else:
            del self._lanes[delivery.fingerprint]

    def last(self, fingerprint: str) -> Delivery | None:
        """The newest of a lane."""
        lane = self._lanes.get(fingerprint)
        return lane[-1] if lane else None

    def first(self) -> Delivery | None:
        """The oldest of all, those in flight included."""
        return next(iter(self._by_age.values()), None)

    def oldest(self) -> Delivery | None:
        """The oldest that is not in flight; it is the first of its lane."""
        return next((one for one in self._by_age.values() if one.fingerprint not in self._in_flight), None)

    def _push(self, delivery: Delivery) -> None:
        heapq.heappush(self._due, (delivery.due_ms, delivery.number, delivery.fingerprint))

    def _drop_stale(self) -> None:
        """Remove entries whose delivery is gone, in flight or due later."""
        while self._due and not self._is_current(*self._due[0]):
            heapq.heappop(self._due)

    def _is_current(self, due_ms: int, number: int, fingerprint: str) -> bool:
        lane = self._lanes.get(fingerprint)
        if not lane or fingerprint in self._in_flight:
            return False
        return (lane[0].number, lane[0].due_ms) == (number, due_ms)
