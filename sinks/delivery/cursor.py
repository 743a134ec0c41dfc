"""How far each target has come; kept in the metadata of the group's committed offset.

The offset committed is that of the target furthest behind: a crash loses nothing. The cursor of every target is kept
in the offset's metadata, so that one that is unavailable does not make the others receive duplicates.

``released_ms``: silences that ended up to then were handled. -1: the target is new, and every alert that was open when
it was added is still to be sent.

``unmatched``: open alerts that the target was notified of although, as they are now, its filter does not match: it has
to be notified of their end. ``withheld``: open alerts of which the target was never notified although the topic holds a
transition that was not silenced when it came: they were silenced before it could be sent, or before the target was
added. Their fingerprints are kept as far as the metadata has room, which is shared by the targets that need it; for
those beyond, what is left of the topic's history has to show that they matched once, or were not silenced.

Beside a cursor stands an id of the target's filter: where that changed, the target is new to every alert that is open,
those of ``unmatched`` apart. A cursor without one, of a release before, goes for any filter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

NEW = -1
METADATA_CHARACTERS_MAX = 4_096
"""``offset.metadata.max.bytes`` of a broker, unless changed."""
_WITHHELD = "!"
"""Before a fingerprint of those withheld: a release that knows no others takes it for none."""
_FILTER = "~"
"""Before the id of the filter, likewise."""
_ANY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cursor:
    """Transitions before ``offset`` are done with."""

    offset: int
    released_ms: int
    unmatched: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


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


def encode(cursors: Mapping[str, Cursor], filters: Mapping[str, str] = _ANY) -> str:
    """Cursors by target, and ids of filters, as metadata, never longer than a broker accepts."""
    ids = {name: [f"{_FILTER}{filters[name]}"] if name in filters else [] for name in sorted(cursors)}
    bare: dict[str, list[Any]] = {name: _entry(cursors[name], ids[name]) for name in ids}
    named = {name: _names(cursors[name]) for name in ids}
    needing = [name for name, names in named.items() if names]
    if not needing:
        return _json(bare)
    share = (METADATA_CHARACTERS_MAX - len(_json(bare))) // len(needing)
    full = dict(bare)
    for name in needing:
        full[name] = _entry(cursors[name], [*_that_fit(named[name], share - len(",[]")), *ids[name]])
    return _json(full)


def _entry(cursor: Cursor, names: list[str]) -> list[Any]:
    return [cursor.offset, cursor.released_ms, *([names] if names else [])]


def _names(cursor: Cursor) -> list[str]:
    """What is kept first where there is little room stands last."""
    return [*(f"{_WITHHELD}{one}" for one in cursor.withheld), *cursor.unmatched]


def _that_fit(names: list[str], characters: int) -> list[str]:
    """The last of them that have room."""
    for count, name in enumerate(reversed(names)):
        characters -= len(name) + len('"",')
        if characters < 0:
            return names[len(names) - count :]
    return names


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def cursors_of(
    targets: tuple[str, ...],
    committed: int | None,
    metadata: str,
    begin: int,
    end: int,
    filters: Mapping[str, str] = _ANY,
) -> dict[str, Cursor]:
    """Where each target continues, given the committed offset and the log's ends ``[begin, end)``.

    Nothing committed, or a target that metadata does not name: it is new and starts at the end, with the open alerts.
    With another filter than before it continues, and is new to these. A committed offset without readable metadata was
    set by a person: every target continues there. An offset behind the end is that of another log of this name:
    everything is new; of a target that was ahead of the committed offset, that target is.
    """
    if committed is None or committed > end:
        return dict.fromkeys(targets, Cursor(end, NEW))
    known = _decode(metadata)
    if known is None:
        return dict.fromkeys(targets, Cursor(max(committed, begin), 0))
    found = {}
    for name in targets:
        cursor, before = known.get(name, (Cursor(end, NEW), ""))
        changed = before and before != filters.get(name, before)
        if cursor.offset > end:
            found[name] = Cursor(end, NEW)
        else:
            found[name] = replace(cursor, released_ms=NEW) if changed else cursor
    return found


def _decode(metadata: str) -> dict[str, tuple[Cursor, str]] | None:
    """Cursor and id of the filter by target; None for what is no metadata of ours."""
    try:
        found = json.loads(metadata)
        return {str(name): _cursor(*parts) for name, parts in found.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _cursor(offset: Any, released_ms: Any, names: Any = ()) -> tuple[Cursor, str]:
    marked: dict[str, list[str]] = {_WITHHELD: [], _FILTER: [], "": []}
    for text in map(str, names):
        mark = text[:1] if text[:1] in marked else ""
        marked[mark].append(text.removeprefix(mark))
    cursor = Cursor(int(offset), int(released_ms), tuple(marked[""]), tuple(marked[_WITHHELD]))
    return cursor, next(iter(marked[_FILTER]), "")
