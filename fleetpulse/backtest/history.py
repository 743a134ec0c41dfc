"""What the database kept, as records of ``window.finals`` in order of time, as the alert job reads them live.

Partial rows are merged per window and series by the server, in stretches of time that hold about ``ROWS_WANTED`` rows,
so memory stays bounded whatever the range. A window of the past is complete, and final as soon as it may be. GPU and
engine events stand between the windows by when they were appended, at the latest as long after they happened as windows
wait for late data: else those of a busy hour, when all came late, would stand behind windows that had waited with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.native_cursor import Cursor, skip
from schemas.codec.select import select
from schemas.contract.record import Headers, Record
from schemas.contract.topics import WINDOW_FINALS
from schemas.ddl.merging import labels_of, measures_of
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Event, Field, Kind, Role
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.finals import PASSED_ON_TOPICS, PROGRESS_SCHEMA, FinalsHeaders, PassedOnHeaders, finals_schema
from schemas.rows.tables import GROUPED, PARTIALS

ROWS_WANTED = 200_000
_FIRST_STRETCH_MS = 10 * MINUTE_MS
_LOGGED = Field("logged_ms", Kind.INT64, Role.TIME, "ms", "when an event stands in the log, since 1970")

Fetch = Callable[[str], bytes]
"""Runs a query and returns its result as Native."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of ``[from_ms, to_ms)`` of event time, made of so many stored rows; ``windows`` are those that have any
    (their begin, ms)."""

    from_ms: int
    to_ms: int
    records: list[Record]
    rows: int = 0
    windows: frozenset[int] = frozenset()


def merged_sql(event: Event, from_ms: int, to_ms: int) -> str:
    """The rows of a source topic's partials in ``[from_ms, to_ms)``, one per window, grouping set and series."""
    labels = ["grouping", *(field.name for field in labels_of(event))]
    columns = [*(f"p.{name} AS {name}" for name in ("window_ms", *labels))]
    columns += [f"{measure.sql} AS {measure.name}" for measure in measures_of(event)]
    return (
        f"SELECT {', '.join(columns)}\nFROM {PARTIALS[event.topic].name} AS p FINAL\n"
        f"WHERE p.window_ms >= {from_ms} AND p.window_ms < {to_ms}\n"
        f"GROUP BY {', '.join(f'p.{name}' for name in ('window_ms', *labels))}\nORDER BY p.window_ms"
    )


def events_sql(event: Event, from_ms: int, to_ms: int) -> str:
    """The accepted events of a raw table that stood in the log in ``[from_ms, to_ms)``, with when that was."""
    columns = ", ".join(field.name for field in event.fields)
    return (
        f"SELECT {columns}, least(appended_ms, at_ms + {DEFAULT_LIMITS.out_of_orderness_ms}) AS {_LOGGED.name}\n"
        f"FROM {event.topic.replace('.', '_')} FINAL\n"
        f"WHERE verdict = 'accepted' AND {_LOGGED.name} >= {from_ms} AND {_LOGGED.name} < {to_ms}\n"
        f"ORDER BY {_LOGGED.name}, at_ms"
    )


def stretches(fetch: Fetch, from_ms: int, to_ms: int) -> Iterator[Stretch]:
    """The range in order of time, window by window from the grid; stretches grow and shrink with the rows in them."""
    begin = from_ms - from_ms % WINDOW_MS
    length = _FIRST_STRETCH_MS
    offset = 0
    while begin < to_ms:
        end = min(begin + length, -(-to_ms // WINDOW_MS) * WINDOW_MS)
        parts, rows, windows = _parts(fetch, begin, end)
        records = [Record(WINDOW_FINALS, 0, offset + i, at, None, *part) for i, (at, part) in enumerate(parts)]
        offset += len(records)
        yield Stretch(begin, end, records, rows, windows)
        begin = end
        wanted = int(length * min(2.0, ROWS_WANTED / max(rows, 1)))
        length = min(max(wanted - wanted % WINDOW_MS, WINDOW_MS), HOUR_MS)


def decode_blocks(data: bytes, fields: Sequence[Field]) -> Block:
    """The rows of all blocks of an answer: there is none where there are no rows, and several where there are many.

    Raises ``RejectedError`` for what is no answer of a server.
    """
    cursor, blocks = Cursor(data), []
    while cursor.position < len(data):
        begin = cursor.position
        columns, rows = cursor.number(), cursor.number()
        for _ in range(columns):
            cursor.text()
            skip(cursor, cursor.text().decode("utf-8", "replace"), rows, 0)
        blocks.append(native.decode(data[begin : cursor.position], fields))
    return native.concat(fields, blocks)


Part = tuple[bytes, Headers]


def _parts(fetch: Fetch, from_ms: int, to_ms: int) -> tuple[list[tuple[int, Part]], int, frozenset[int]]:
    """(time of appending, value and headers), by that time; how many rows were read; and the windows that have some."""
    found: list[tuple[int, int, Part]] = []
    rows, windows = 0, set[int]()
    for event in GROUPED:
        block = decode_blocks(fetch(merged_sql(event, from_ms, to_ms)), PARTIALS[event.topic].fields)
        rows += block.rows
        finals = list(_finals(event, block))
        windows |= {window for window, _ in finals}
        found += [(_final_ms(window), 1, part) for window, part in finals]
    for topic in PASSED_ON_TOPICS:
        events = list(_passed_on(fetch, BY_TOPIC[topic], from_ms, to_ms))
        rows += len(events)
        found += [(at, 0, part) for at, part in events]
    found += [(_final_ms(window), 2, _progress(window)) for window in range(from_ms, to_ms, WINDOW_MS)]
    found.sort(key=lambda part: part[:2])
    return [(at, part) for at, _, part in found], rows, frozenset(windows)


def _final_ms(window_ms: int) -> int:
    return window_ms + WINDOW_MS + DEFAULT_LIMITS.out_of_orderness_ms


def _finals(event: Event, block: Block) -> Iterator[tuple[int, Part]]:
    if not block.rows:
        return
    windows = block.numbers("window_ms")
    fields = PARTIALS[event.topic].fields
    for window in np.unique(windows.values).tolist():
        rows = select(block, windows.values == window)
        headers = FinalsHeaders(finals_schema(event.topic), 0, window, 0, True, 0, rows.rows)
        yield window, (native.encode(fields, rows), headers.encode())


def _passed_on(fetch: Fetch, event: Event, from_ms: int, to_ms: int) -> Iterator[tuple[int, Part]]:
    late = DEFAULT_LIMITS.out_of_orderness_ms
    data = fetch(events_sql(event, from_ms + late, to_ms + late))
    block = decode_blocks(data, (*event.fields, _LOGGED))
    if not block.rows:
        return
    logged = block.numbers(_LOGGED.name)
    for at_ms in np.unique(logged.values).tolist():
        rows = select(block, logged.values == at_ms)
        yield at_ms, (native.encode(event.fields, rows), PassedOnHeaders(event.schema, at_ms, rows.rows).encode())


def _progress(window_ms: int) -> Part:
    return b"", FinalsHeaders(PROGRESS_SCHEMA, 0, 0, 0, True, window_ms + WINDOW_MS, 0).encode()
