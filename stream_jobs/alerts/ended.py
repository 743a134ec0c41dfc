"""Alerts that ended and still stand on the topic, until each is taken off it.

The topic is compacted: without this the last record of every alert that ever was would stay on it. An alert that has
been resolved for ``resolved_kept_ms`` of event time is taken off by a record without value; of more than
``resolved_max`` those that ended first go sooner. One that comes back meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.contract.alerts import Alert
from stream_jobs.alerts.policy import AlertPolicy


class Ended:
    """Fingerprints by when they were emitted as resolved, in that order."""

    def __init__(self, policy: AlertPolicy) -> None:
        self._policy = policy
        self._resolved_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._resolved_ms)

    def emitted(self, alerts: Iterable[Alert]) -> None:
        """These were emitted."""
        for alert in alerts:
            self._resolved_ms.pop(alert.fingerprint, None)
            if alert.transition == "resolved":
                self._resolved_ms[alert.fingerprint] = alert.at_ms

    def take_off(self, now_ms: int) -> list[str]:
        """Those whose time is over, or that find no room; they are known no more."""
        spare = len(self._resolved_ms) - self._policy.resolved_max
        old_ms = now_ms - self._policy.resolved_kept_ms
        gone = [name for n, (name, at_ms) in enumerate(self._resolved_ms.items()) if n < spare or at_ms <= old_ms]
        for name in gone:
            del self._resolved_ms[name]
        return gone

    def dump(self) -> list[tuple[str, int]]:
        """As plain values."""
        return list(self._resolved_ms.items())

    def load(self, found: Iterable[Sequence[str | int]]) -> None:
        """Restore a dump."""
        self._resolved_ms = {str(name): int(at_ms) for name, at_ms in found}
