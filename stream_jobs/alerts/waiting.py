"""Who has to wait when as many alerts are open as may be, and who makes room.

A finding comes again in every window; an event comes once, so events wait here for room. Room is made by alerts that
are resolved and only kept in case they come back, then by open ones that are less severe than what needs the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.contract.alerts import SEVERITIES
from stream_jobs.alerts.incidents import Incident
from stream_jobs.alerts.parts import dump_signal, load_signal
from stream_jobs.alerts.signals import Signal

RESOLVED = -1
"""Below every severity."""

Standing = tuple[int, int, str]


class Waiting:
    """Events by id, at most ``waiting_max``: of more those that are least severe, then those that are oldest, go."""

    def __init__(self, waiting_max: int) -> None:
        self._max = waiting_max
        self._signals: dict[str, Signal] = {}

    def __contains__(self, signal_id: str) -> bool:
        return signal_id in self._signals

    def __len__(self) -> int:
        return len(self._signals)

    def add(self, signal: Signal) -> bool:
        """Let it wait; False for one that waits already."""
        known = self._signals.get(signal.id)
        if known is signal:
            return False
        self._signals[signal.id] = signal if known is None else signal.after(known)
        if len(self._signals) > self._max:
            del self._signals[min(self._signals.values(), key=_least).id]
        return True

    def get(self, signal_id: str) -> Signal | None:
        """The event, if it waits."""
        return self._signals.get(signal_id)

    def about_gpu(self, uuid: str) -> list[Signal]:
        """Events of a GPU that wait."""
        return [one for one in self._signals.values() if one.labels.get("gpu_uuid") == uuid]

    def pop(self, signal_id: str) -> None:
        """It need not wait, or was never here."""
        self._signals.pop(signal_id, None)

    def forget(self, now_ms: int) -> None:
        """Let go of those that are over by themselves."""
        for one in list(self._signals.values()):
            if one.lasts_ms is not None and one.at_ms + one.lasts_ms <= now_ms:
                del self._signals[one.id]

    def in_order(self) -> list[Signal]:
        """Those that wait, the most severe and then the likeliest cause first."""
        return sorted(self._signals.values(), key=lambda one: (-SEVERITIES.index(one.severity), one.order))

    def dump(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [dump_signal(one) for one in self._signals.values()]

    def load(self, found: Iterable[Mapping[str, Any]]) -> None:
        self._signals = {one.id: one for one in map(load_signal, found)}


def _least(signal: Signal) -> tuple[int, int, str]:
    return (SEVERITIES.index(signal.severity), signal.at_ms, signal.id)


def standing_of(incident: Incident) -> Standing | None:
    """Its place among those that make room, the first to go least: resolved or how severe, then the oldest. None: what
    was not emitted yet, or is about to be emitted as resolved, cannot go."""
    emitted = incident.emitted
    if emitted is None or (incident.resolved_ms is not None and emitted.open):
        return None
    if incident.resolved_ms is not None:
        return (RESOLVED, incident.resolved_ms, incident.fingerprint)
    return (SEVERITIES.index(incident.severity), incident.opened_ms, incident.fingerprint)


def standings(incidents: Iterable[Incident]) -> list[Standing]:
    """Of all that can go, the first to go last."""
    return sorted((one for one in map(standing_of, incidents) if one is not None), reverse=True)
