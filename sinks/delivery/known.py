"""What a target knows: the alerts it was told of, those that ended lately, and those it cannot be told again.

Telling again keeps alerts alive in Alertmanager. An alert that is refused then is left out for a while that doubles
each time, so that the others live on.
"""

from __future__ import annotations

from runtime.delivery_config import TargetConfig
from sinks.delivery.backlog import Transition
from sinks.delivery.schedule import Moment

ENDED_KEPT_MS = 15 * 60_000
"""Alertmanager is told so long again that an alert has ended, in case it lost it."""
LEFT_OUT_MAX_MS = 3_600_000
_DOUBLINGS_MAX = 20


class Known:
    """Alerts by fingerprint. ``open_max`` bounds each of its books."""

    def __init__(self, config: TargetConfig, open_max: int) -> None:
        self._config = config
        self._open_max = open_max
        self._told: dict[str, Transition] = {}
        self._odd: dict[str, None] = {}
        self._ended: dict[str, tuple[Transition, int]] = {}
        self._left_out: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._told)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._told

    def get(self, fingerprint: str) -> Transition | None:
        """What it was told last of an alert that is open; None when it does not know it."""
        return self._told.get(fingerprint)

    def keep(self, transition: Transition) -> bool:
        """It knows this now; False when there is no room."""
        alert = transition.alert
        if alert.fingerprint not in self._told and len(self._told) >= self._open_max:
            return False
        self._told[alert.fingerprint] = transition
        self._odd.pop(alert.fingerprint, None)
        if not self._config.asks_for(alert.severity, alert.labels):
            self._odd[alert.fingerprint] = None
        return True

    def heard(self, transition: Transition, now: Moment) -> bool:
        """It took this transition; False when there is no room to remember it."""
        fingerprint = transition.alert.fingerprint
        self._left_out.pop(fingerprint, None)
        if not transition.resolved:
            self._ended.pop(fingerprint, None)
            return self.keep(transition)
        self.forget(fingerprint)
        if self._config.kind == "alertmanager" and len(self._ended) < self._open_max:
            self._ended[fingerprint] = (transition, now.ms + ENDED_KEPT_MS)
        return True

    def forget(self, fingerprint: str) -> None:
        """The alert is open no more."""
        self._told.pop(fingerprint, None)
        self._odd.pop(fingerprint, None)

    def odd(self, partition: int) -> tuple[str, ...]:
        """Open alerts that it was told of although, as they are now, it would not ask for them."""
        return tuple(name for name in self._odd if self._told[name].partition == partition)

    @property
    def any(self) -> bool:
        """Whether anything is to be told again, now or later."""
        return bool(self._told or self._ended)

    def again(self, now: Moment) -> tuple[Transition, ...]:
        """What is to be told again now."""
        self._ended = {name: kept for name, kept in self._ended.items() if kept[1] > now.ms}
        everything = self._told | {name: one for name, (one, _) in self._ended.items() if name not in self._told}
        self._left_out = {name: kept for name, kept in self._left_out.items() if name in everything}
        return tuple(one for name, one in everything.items() if self._left_out.get(name, (0, now.ms))[1] <= now.ms)

    def leave_out(self, fingerprint: str, now: Moment) -> bool:
        """It could not be told this again; True for the first time."""
        times = self._left_out.get(fingerprint, (0, 0))[0]
        pause_ms = min(round(self._config.resend_s * 1_000) * 2 ** min(times, _DOUBLINGS_MAX), LEFT_OUT_MAX_MS)
        self._left_out[fingerprint] = (times + 1, now.ms + pause_ms)
        return times == 0

    def took_again(self, fingerprint: str) -> None:
        """It was told this again."""
        self._left_out.pop(fingerprint, None)
