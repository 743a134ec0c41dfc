"""Sending open alerts again, as Alertmanager requires, and around those that it rejects. Pure.

``Notified`` remembers what a target was notified of and says what is due to be sent again: open alerts, and for a while
those that ended. ``Round`` is one pass over them, in batches: a batch that fails is halved until the alert is found
that is the cause; all others are sent. An alert that fails by itself is excluded for a while that doubles each time, so
that the others stay alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from runtime.backoff import Backoff
from runtime.delivery_config import TargetConfig
from sinks.delivery.schedule import Moment, Response, Verdict
from sinks.delivery.shapes import SHAPES
from sinks.delivery.transition import Transition

ENDED_KEPT_MS = 15 * 60_000
"""How long the end of an alert is sent again, in case the target lost it."""
EXCLUDED_MAX_MS = 3_600_000
BATCH_MAX = 100
"""Alerts in one request."""
FAILED_MAX = 100
"""Requests of a round that may fail; then the rest waits for the next round."""
_FAILED_ALL_MAX = 16
"""The same while none was delivered and none rejected: then the target fails by itself."""


class Notified:
    """Alerts that a target was notified of, by fingerprint. ``open_max`` bounds each of its maps."""

    def __init__(self, config: TargetConfig, open_max: int) -> None:
        self._config = config
        self._exclusion = Backoff(config.resend_s, EXCLUDED_MAX_MS / 1_000, jitter=0.0)
        self._open_max = open_max
        self._open: dict[str, Transition] = {}
        self._unmatched: dict[str, None] = {}
        self._ended: dict[str, tuple[Transition, int]] = {}
        self._excluded: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._open

    def get(self, fingerprint: str) -> Transition | None:
        """The newest transition of an open alert that the target was notified of; None without."""
        return self._open.get(fingerprint)

    def remember(self, transition: Transition) -> bool:
        """The target was notified of this open alert; False when there is no room for it."""
        alert = transition.alert
        if alert.fingerprint not in self._open and len(self._open) >= self._open_max:
            return False
        self._open[alert.fingerprint] = transition
        self._unmatched.pop(alert.fingerprint, None)
        if not self._config.matches(alert.severity, alert.rule, alert.labels):
            self._unmatched[alert.fingerprint] = None
        return True

    def delivered(self, transition: Transition, now: Moment) -> bool:
        """This transition was delivered; False when there is no room to remember it."""
        fingerprint = transition.alert.fingerprint
        self._excluded.pop(fingerprint, None)
        if not transition.resolved:
            self._ended.pop(fingerprint, None)
            return self.remember(transition)
        self.end(transition, now)
        return True

    def end(self, transition: Transition, now: Moment) -> None:
        """The alert is open no more, whether or not the target took this end of it; the end is sent again for a
        while."""
        fingerprint = transition.alert.fingerprint
        self.forget(fingerprint)
        if SHAPES[self._config.kind].expires and len(self._ended) < self._open_max:
            self._ended[fingerprint] = (transition, now.ms + ENDED_KEPT_MS)

    def forget(self, fingerprint: str) -> None:
        """The alert is open no more."""
        self._open.pop(fingerprint, None)
        self._unmatched.pop(fingerprint, None)

    def unmatched(self, partition: int) -> tuple[str, ...]:
        """Open alerts that the target was notified of although, as they are now, its filter does not match."""
        return tuple(name for name in self._unmatched if self._open[name].partition == partition)

    @property
    def any(self) -> bool:
        """Whether anything is to be sent again, now or later."""
        return bool(self._open or self._ended)

    def due_notifications(self, now: Moment) -> tuple[Transition, ...]:
        """What is to be sent again now."""
        self._ended = {name: kept for name, kept in self._ended.items() if kept[1] > now.ms}
        everything = self._open | {name: one for name, (one, _) in self._ended.items() if name not in self._open}
        self._excluded = {name: kept for name, kept in self._excluded.items() if name in everything}
        return tuple(one for name, one in everything.items() if self._excluded.get(name, (0, now.ms))[1] <= now.ms)

    def exclude(self, fingerprint: str, now: Moment) -> bool:
        """Sending it again failed; True for the first time."""
        times = self._excluded.get(fingerprint, (0, 0))[0] + 1
        self._excluded[fingerprint] = (times, now.ms + round(self._exclusion.pause_s(times, 0.0) * 1_000))
        return times == 1

    def include(self, fingerprint: str) -> None:
        """Sending it again succeeded."""
        self._excluded.pop(fingerprint, None)


class Round:
    """Post what ``next`` returns and pass the response to ``responded``, until None."""

    def __init__(self, transitions: Sequence[Transition], batch_max: int = BATCH_MAX) -> None:
        self._left = deque(tuple(transitions[at : at + batch_max]) for at in range(0, len(transitions), batch_max))
        self._single: list[tuple[Transition, Response]] = []
        self._stopped: Response | None = None
        self._delivered = 0
        self._failed = 0

    def next(self) -> tuple[Transition, ...] | None:
        """What is to be posted; None at the end of the round."""
        return self._left[0] if self._left else None

    def responded(self, response: Response) -> None:
        """The target's response to that."""
        batch = self._left.popleft()
        if response.verdict is Verdict.DELIVERED:
            self._delivered += len(batch)
            return
        self._failed += 1
        if response.of_target or self._failed >= self._failed_max(response):
            self._stopped = response
            self._left.clear()
        elif len(batch) == 1:
            self._single.append((batch[0], response))
        else:
            half = len(batch) // 2
            self._left.extendleft((batch[half:], batch[:half]))

    def _failed_max(self, response: Response) -> int:
        return FAILED_MAX if self._delivered or response.verdict is Verdict.REJECTED else _FAILED_ALL_MAX

    @property
    def outcome(self) -> Response:
        """200 when everything but ``failing`` was delivered, else why the round ended early or delivered nothing."""
        if self._stopped is not None:
            return self._stopped
        failed = [response for _, response in self._single if response.verdict is Verdict.RETRY]
        return failed[0] if failed and not self._delivered else Response(200)

    @property
    def failing(self) -> list[tuple[Transition, Response]]:
        """Alerts that fail by themselves. A failure of the target counts for an alert only if others were delivered."""
        return [one for one in self._single if self._delivered or one[1].verdict is Verdict.REJECTED]
