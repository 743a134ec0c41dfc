"""Who has the same trouble: machines by the keys of what they share, and when it began for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Having(NamedTuple):
    """A signal that counts: the machine it is of and when it began there."""

    place: str
    since_ms: int
    keys: tuple[str, ...]


class Alike:
    """Signals by id. ``close`` is called for each of many that come at once, so answers are kept until the next
    change."""

    def __init__(self) -> None:
        self._having: dict[str, Having] = {}
        self._places: dict[str, dict[int, dict[str, int]]] = {}
        """By key and beginning: how often a place."""
        self._answers: dict[tuple[str, int, int], int] = {}

    def __contains__(self, signal_id: str) -> bool:
        return signal_id in self._having

    def __len__(self) -> int:
        return len(self._having)

    def add(self, signal_id: str, having: Having) -> None:
        """Count one that is not counted yet."""
        self._having[signal_id] = having
        self._answers.clear()
        for key in having.keys:
            places = self._places.setdefault(key, {}).setdefault(having.since_ms, {})
            places[having.place] = places.get(having.place, 0) + 1

    def discard(self, signal_id: str) -> None:
        """Count it no more, if it was."""
        having = self._having.pop(signal_id, None)
        if having is None:
            return
        self._answers.clear()
        for key in having.keys:
            self._remove(key, having)

    def _remove(self, key: str, having: Having) -> None:
        began = self._places[key]
        places = began[having.since_ms]
        places[having.place] -= 1
        if not places[having.place]:
            del places[having.place]
        if not places:
            del began[having.since_ms]
        if not began:
            del self._places[key]

    def close(self, key: str, since_ms: int, within_ms: int) -> int:
        """How many machines have had the same trouble since about the same time."""
        query = (key, since_ms, within_ms)
        if query not in self._answers:
            began = self._places.get(key, {}).items()
            near = [places.keys() for at_ms, places in began if abs(since_ms - at_ms) <= within_ms]
            self._answers[query] = len(set().union(*near))
        return self._answers[query]

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "like_of": {signal_id: one.keys for signal_id, one in self._having.items()},
            "began": {signal_id: (one.place, one.since_ms) for signal_id, one in self._having.items()},
        }

    def load(self, found: Mapping[str, Any]) -> None:
        self._having, self._places = {}, {}
        for signal_id, (place, since_ms) in found["began"].items():
            self.add(signal_id, Having(place, since_ms, tuple(found["like_of"][signal_id])))
