"""Opening what was gathered of a window: joined by table, without what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.rows.finals import finals_schema
from schemas.rows.tables import EXEMPLARS, PARTIALS
from stream_jobs.alerts.gather import Piece, Ready
from stream_jobs.alerts.opening import window_of
from stream_jobs.insight.lexicon import Lexicons
from tests.unit.stream_jobs.alerts.log import queue_rows

FIELDS = PARTIALS["engine.samples"].fields
SCHEMA = finals_schema("engine.samples")
NO_ROWS = native.encode(FIELDS, block_from_rows(FIELDS, []))


def value(queues: Mapping[str, int]) -> bytes:
    return native.encode(FIELDS, block_from_rows(FIELDS, queue_rows(0, queues)))


def turned(queues: Mapping[str, int]) -> bytes:
    """The same rows with their columns in another order, as another writer may send them."""
    return native.encode(FIELDS[::-1], block_from_rows(FIELDS, queue_rows(0, queues)))


ONE, OTHER = {"e-0": 1, "e-1": 2}, {"e-2": 3}


@pytest.mark.parametrize(
    ("values", "engines", "unread"),
    [
        pytest.param([value(ONE), value(OTHER)], ["e-0", "e-1", "e-2"], 0, id="as our jobs write them"),
        pytest.param([value(OTHER), turned(ONE)], ["e-2", "e-0", "e-1"], 0, id="one with its columns in another order"),
        pytest.param([value(ONE), b"\x01", value(OTHER)], ["e-0", "e-1", "e-2"], 1, id="one cannot be read"),
        pytest.param([value(ONE), NO_ROWS], ["e-0", "e-1"], 0, id="one without rows"),
        pytest.param([NO_ROWS], [], 0, id="without rows"),
    ],
)
def test_pieces_of_a_table_are_one_block_in_order(values: list[bytes], engines: list[str], unread: int) -> None:
    """What cannot be read is counted and makes the window incomplete."""
    window, failed = window_of(Ready(0, True, tuple(Piece(0, SCHEMA, each) for each in values)), Lexicons())

    rows = rows_of(FIELDS, window.tables["engine.samples"])
    expected = queue_rows(0, {**ONE, **OTHER})
    by_engine = {row["engine_id"]: row for row in rows_of(FIELDS, block_from_rows(FIELDS, expected))}
    assert rows == [by_engine[engine] for engine in engines]
    assert (window.exemplars, window.complete, failed) == (None, not unread, unread)


def test_a_table_of_which_nothing_can_be_read_is_not_there() -> None:
    """Exemplars stand apart; an empty window has neither."""
    exemplars = native.encode(EXEMPLARS.fields, block_from_rows(EXEMPLARS.fields, []))

    window, unread = window_of(
        Ready(0, True, (Piece(0, SCHEMA, b""), Piece(1, EXEMPLARS.schema, exemplars))), Lexicons()
    )
    empty, none = window_of(Ready(0, False, ()), Lexicons())

    assert (window.tables, window.complete, unread) == ({}, False, 1)
    assert window.exemplars is not None
    assert window.exemplars.rows == 0
    assert (empty.tables, empty.exemplars, empty.complete, none) == ({}, None, False, 0)
