"""Deployments: engine events of kind ``changed`` and ``marked``, kept for an hour as evidence for what begins after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from schemas.limits import MINUTE_MS

SHOWN_MAX = 5
AFTER_MS = MINUTE_MS
"""The window in which trouble begins begins before the trouble: a deployment may stand this long after its start."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One event. ``model`` None: it may concern any."""

    at_ms: int
    kind: str
    model: str | None
    version: str | None
    engine_id: str | None
    host: str | None
    message: str


def mark_of(row: Mapping[str, Any]) -> Mark:
    """Of an engine event."""
    message = str(row.get("message") or "")
    places = (row.get("engine_id"), row.get("host"))
    return Mark(int(row["at_ms"]), str(row["kind"]), row.get("model"), row.get("model_version"), *places, message)


def _concerns(mark: Mark, model: str | None, engine_id: str | None) -> bool:
    """By the model where both are known, else by the engine; a mark that names neither may concern any."""
    if mark.model is not None and model is not None:
        return mark.model == model
    return mark.engine_id == engine_id if mark.engine_id is not None else mark.model is None


class Marks:
    """At most ``marks_max``, the newest by arrival."""

    def __init__(self, marks_max: int, mark_ms: int) -> None:
        self._max = marks_max
        self._mark_ms = mark_ms
        self._marks: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Remember one more."""
        self._marks.append(mark)
        del self._marks[: -self._max]

    def of(self, model: str | None, engine_id: str | None, since_ms: int) -> list[dict[str, Any]]:
        """Deployments of the model (or the engine) in the hour before ``since_ms``, newest first, one per version."""
        found: dict[tuple[str | None, str | None, str], dict[str, Any]] = {}
        for mark in sorted(self._marks, key=lambda one: (one.at_ms, one.engine_id or "")):
            if not -AFTER_MS <= since_ms - mark.at_ms <= self._mark_ms:
                continue
            if not _concerns(mark, model, engine_id):
                continue
            one = found.setdefault((mark.model, mark.version, mark.kind), {**asdict(mark), "hosts": []})
            if mark.host is not None and mark.host not in one["hosts"]:
                one["hosts"].append(mark.host)
        newest = sorted(found.values(), key=lambda one: -one["at_ms"])
        return newest[:SHOWN_MAX]

    def forget(self, now_ms: int) -> None:
        """Forget what can be no evidence any more: what begins now began an hour ago at the earliest."""
        if self._marks and self._marks[0].at_ms < now_ms - 2 * self._mark_ms:
            self._marks = [mark for mark in self._marks if mark.at_ms >= now_ms - 2 * self._mark_ms]

    def dump(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [asdict(mark) for mark in self._marks]

    def load(self, found: Iterable[Mapping[str, Any]]) -> None:
        self._marks = [Mark(**one) for one in found]
