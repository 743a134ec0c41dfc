"""What the topic shows of open alerts before a target's cursor, and what of it the target was sent. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sinks.delivery.cursor import Cursor
from sinks.delivery.transition import Transition


@dataclass(frozen=True, slots=True)
class Past:
    """An open alert: its newest transition, the newest that was not silenced when it came and that the target's filter
    matched then or before, whether it matched any, and the number of the first that is still on the topic."""

    newest: Transition
    sent: Transition | None
    matched: bool
    first_number: int


class History:
    """Open alerts by fingerprint. ``cursors``: how far the target was, by partition; ``send_silenced``: it is sent
    silenced ones, too."""

    def __init__(self, cursors: Mapping[int, Cursor], *, send_silenced: bool) -> None:
        self._cursors = cursors
        self._send_silenced = send_silenced
        self._past: dict[str, Past] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._past))

    def remember(self, transition: Transition, *, matches: bool) -> None:
        """The next transition; ``matches``: the target's filter does."""
        alert, before = transition.alert, self._past.get(transition.alert.fingerprint)
        if transition.resolved:
            self.forget(alert.fingerprint)
            return
        cursor = self._cursors[transition.partition]
        matched = matches or (before is not None and before.matched)
        until_ms = 0 if self._send_silenced else alert.muted_until_ms or 0
        sent = before.sent if before else None
        if (matched or alert.fingerprint in cursor.unmatched) and until_ms <= transition.appended_ms:
            sent = transition
        if alert.fingerprint in cursor.withheld:
            sent = None
        first_number = before.first_number if before else alert.number
        self._past[alert.fingerprint] = Past(transition, sent, matched, first_number)

    def pop(self, fingerprint: str) -> Past | None:
        """What is known of it, from now on by others."""
        return self._past.pop(fingerprint, None)

    def forget(self, fingerprint: str) -> None:
        """It is open no more."""
        self._past.pop(fingerprint, None)
