"""The notes by which a repair, or a rerate, has rollups computed again, also where it is killed between rows and note.

A sink deals with a note as soon as it sees it. So the note before a copy says only that rows may have come; the one
behind it, that all have. Of a bucket that has the first alone, the repair that wrote it was killed or still runs: the
next one notes it again. It can for a day; then notes that were dealt with are gone. Of a writer's notes the greatest
number counts, so the three kinds stand for one another.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from schemas.ddl.merging import LEVELS
from schemas.ddl.tables import NOTES
from sinks.database import SinkDatabase
from sinks.landing import Bucket

_WRITER = "repair-"
_BEGUN, _RESUMED, _FINISHED = 1, 2, 3
_UNFINISHED = f"""
SELECT writer, topic, window_ms FROM {NOTES}
WHERE startsWith(writer, '{_WRITER}') AND level = '{LEVELS[0].name}'
GROUP BY writer, topic, window_ms HAVING max(noted) = {_BEGUN} ORDER BY writer, topic, window_ms
"""
Unfinished = tuple[str, str, int]
"""Who wrote it, topic and start of the bucket [ms]."""


class Notes:
    """Those of one repair, which notes each bucket once. When a call returns they are stored."""

    def __init__(self, database: SinkDatabase) -> None:
        self._database = database
        self._writer = f"{_WRITER}{secrets.token_hex(8)}"

    def begin(self, buckets: Sequence[Bucket]) -> None:
        """Rows of these buckets are about to be copied."""
        self._note([(self._writer, *bucket) for bucket in buckets], _BEGUN)

    def finish(self, buckets: Sequence[Bucket]) -> None:
        """They have been."""
        self._note([(self._writer, *bucket) for bucket in buckets], _FINISHED)

    def unfinished(self) -> list[Unfinished]:
        """Buckets whose copy was begun, and not finished by now, by any repair."""
        return [
            (str(writer), str(topic), int(window_ms)) for writer, topic, window_ms in self._database.rows(_UNFINISHED)
        ]

    def resume(self, unfinished: Sequence[Unfinished]) -> None:
        """Have them computed again. A repair that still runs finishes its own all the same."""
        self._note(unfinished, _RESUMED)

    def _note(self, of: Sequence[Unfinished], number: int) -> None:
        rows = [[LEVELS[0].name, topic, window_ms, writer, number] for writer, topic, window_ms in of]
        if rows:
            self._database.insert_rows(NOTES, ("level", "topic", "window_ms", "writer", "noted"), rows)
