"""How far each target has come; kept in the metadata of the group's committed offset.

The offset committed is that of the target furthest behind: a crash loses nothing. The cursor of every target is kept
in the offset's metadata, so that one that is unavailable does not make the others receive duplicates.

``released_ms``: silences that ended up to then were handled. -1: the target is new, and every alert that was open when
it was added is still to be sent.

``unmatched``: open alerts that the target was notified of although, as they are now, its filter does not match: it has
to be notified of their end. Their fingerprints are kept as far as the metadata has room, which is shared by the targets
that need it; for those beyond, what is left of the topic's history has to show that they matched once.
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
class Cursor:
    """Transitions before ``offset`` are done with."""

    offset: int
    released_ms: int
    unmatched: tuple[str, ...] = ()


class Progress:
    """The offset in one partition up to which all is done, while deliveries end in any order."""

    __slots__ = ("_next", "_unfinished", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._next = start
        self._unfinished: dict[int, None] = {}

    def read(self, offset: int) -> None:
        """This record was read."""
        self._next = max(self._next, offset + 1)

    def begin(self, offset: int) -> None:
        """It has to be delivered."""
        self._unfinished[offset] = None

    def finish(self, offset: int) -> None:
        """It was delivered, or is on the topic of undelivered transitions."""
        self._unfinished.pop(offset, None)

    @property
    def offset(self) -> int:
        """The offset of the oldest unfinished delivery, else behind the last record read."""
        return min(self._unfinished, default=self._next)


def encode(cursors: Mapping[str, Cursor]) -> str:
    """Cursors by target as metadata, never longer than a broker accepts."""
    bare = {name: [one.offset, one.released_ms] for name, one in sorted(cursors.items())}
    needing = [name for name, one in sorted(cursors.items()) if one.unmatched]
    if not needing:
        return _json(bare)
    share = (METADATA_CHARACTERS_MAX - len(_json(bare))) // len(needing)
    full: dict[str, list[Any]] = dict(bare)
    for name in needing:
        room = max(0, share - len(",[]")) // (_FINGERPRINT_CHARACTERS + len('"",'))
        full[name] = [*bare[name], list(cursors[name].unmatched[-room:])] if room else bare[name]
    return _json(full)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def cursors_of(
    targets: tuple[str, ...], committed: int | None, metadata: str, begin: int, end: int
) -> dict[str, Cursor]:
    """Where each target continues, given the committed offset and the log's ends ``[begin, end)``.

    Nothing committed, or a target that metadata does not name: it is new and starts at the end, with the open alerts.
    A committed offset without readable metadata was set by a person: every target continues there. An offset behind
    the end is that of another log of this name: everything is new.
    """
    if committed is None or committed > end:
        return dict.fromkeys(targets, Cursor(end, NEW))
    known = _decode(metadata)
    if known is None:
        return dict.fromkeys(targets, Cursor(max(committed, begin), 0))
    return {name: known.get(name, Cursor(end, NEW)) for name in targets}


def _decode(metadata: str) -> dict[str, Cursor] | None:
    try:
        found = json.loads(metadata)
        return {str(name): _cursor(*parts) for name, parts in found.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _cursor(offset: Any, released_ms: Any, unmatched: Any = ()) -> Cursor:
    return Cursor(int(offset), int(released_ms), tuple(str(one) for one in unmatched))
