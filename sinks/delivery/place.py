"""How far each target is, as it is kept with the group's committed offset.

The offset committed is that of the target furthest behind: nothing is lost by a crash. Where each target stood is kept
in the offset's metadata, so that a target that is away does not make the others hear everything twice.

``released_ms``: mutes that ended up to then were dealt with. -1: the target is new, and every alert that was open when
it came is still to be told.

``known``: open alerts that the target was told of although, as they are now, it would not ask for them: it has to hear
of their end. Their fingerprints are kept as far as the metadata has room, which is shared by the targets that need it;
for those beyond it what is left of the topic's history has to say that they matched once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEW = -1
METADATA_CHARACTERS_MAX = 4_096
"""``offset.metadata.max.bytes`` of a broker, unless changed."""
_FINGERPRINT_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Transitions before ``offset`` are done with."""

    offset: int
    released_ms: int
    known: tuple[str, ...] = ()


class Progress:
    """The place in one partition while deliveries end in any order."""

    __slots__ = ("_next", "_unfinished", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._next = start
        self._unfinished: dict[int, None] = {}

    def read(self, offset: int) -> None:
        """This record was seen."""
        self._next = max(self._next, offset + 1)

    def begin(self, offset: int) -> None:
        """It has to be delivered."""
        self._unfinished[offset] = None

    def finish(self, offset: int) -> None:
        """It was, or is on the topic of undelivered ones."""
        self._unfinished.pop(offset, None)

    @property
    def at(self) -> int:
        """The offset of the oldest unfinished delivery, else behind the last record seen."""
        return min(self._unfinished, default=self._next)


def encode(places: Mapping[str, Place]) -> str:
    """Places by target as metadata, never longer than a broker takes."""
    bare = {name: [one.offset, one.released_ms] for name, one in sorted(places.items())}
    needing = [name for name, one in sorted(places.items()) if one.known]
    if not needing:
        return _json(bare)
    share = (METADATA_CHARACTERS_MAX - len(_json(bare))) // len(needing)
    full: dict[str, list[Any]] = dict(bare)
    for name in needing:
        room = max(0, share - len(",[]")) // (_FINGERPRINT_CHARACTERS + len('"",'))
        full[name] = [*bare[name], list(places[name].known[-room:])] if room else bare[name]
    return _json(full)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def places_of(targets: tuple[str, ...], committed: int | None, metadata: str, begin: int, end: int) -> dict[str, Place]:
    """Where each target goes on, given the committed offset and the log's ends ``[begin, end)``.

    Nothing committed, or a target that metadata does not name: it is new and begins at the end, with the open alerts.
    A committed offset without readable metadata was set by a person: every target goes on there. An offset behind
    the end is that of another log of this name: everything is new.
    """
    if committed is None or committed > end:
        return dict.fromkeys(targets, Place(end, NEW))
    known = _decode(metadata)
    if known is None:
        return dict.fromkeys(targets, Place(max(committed, begin), 0))
    return {name: known.get(name, Place(end, NEW)) for name in targets}


def _decode(metadata: str) -> dict[str, Place] | None:
    try:
        found = json.loads(metadata)
        return {str(name): _place(*parts) for name, parts in found.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _place(offset: Any, released_ms: Any, known: Any = ()) -> Place:
    return Place(int(offset), int(released_ms), tuple(str(one) for one in known))
