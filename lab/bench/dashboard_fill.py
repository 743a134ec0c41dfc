"""Puts a fleet's history into the tables: what the server draws itself, and requests by the sink's own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lab.bench.dashboard_fleet import Drawn
from lab.bench.dashboard_windows import Span
from lab.bench.workload import Profile, Workload
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.ddl.stored import RAW
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import HOUR_MS
from sinks.database import SinkDatabase
from sinks.landing import Insert

REQUESTS = Profile("history", hosts=25, requests_per_record=40, gpus_per_host=0, seconds=1)
"""A second of raw requests: a thousand."""


def draw(database: SinkDatabase, statements: Iterable[tuple[str, Drawn]], say: Callable[[str], None]) -> int:
    """Let the server draw rows; how many. ``say`` gets what they are, once."""
    rows, said = 0, ""
    for what, one in statements:
        if what != said:
            say(what)
            said = what
        database.command(one.sql())
        rows += one.rows
    return rows


def fill_requests(database: SinkDatabase, span: Span, seconds: int, seed: int) -> int:
    """Raw requests of so many seconds, spread evenly over the last hour; how many there are."""
    table = RAW[LLM_REQUESTS.topic]
    columns = tuple(one.name for one in table.fields)
    step_ms = (span.to_ms - max(span.from_ms, span.to_ms - HOUR_MS)) // seconds // 1_000 * 1_000
    rows = 0
    for number in range(seconds):
        at_ms = max(span.from_ms, span.to_ms - HOUR_MS) + number * step_ms
        emissions = next(Workload(REQUESTS, seed + number).steps(at_ms, 1))
        block = native.concat(LLM_REQUESTS.fields, [one.block for one in emissions])
        pieces = native.pieces(table.fields, Block(block.rows, {**block.columns, **_sent(block.rows, number, at_ms)}))
        database.insert([Insert(table.name, columns, pieces, block.rows)])
        rows += block.rows
    return rows


def _sent(rows: int, number: int, at_ms: int) -> dict[str, Column]:
    """Identity of raw rows, as if one sender had sent a record each second."""
    word = np.ones(rows, np.uint8)
    return {
        "source": Labels(word, [None, b"bench"]),
        "boot": Numbers(np.ones(rows, "<u8")),
        "seq": Numbers(np.full(rows, number + 1, "<u8")),
        "row": Numbers(np.arange(rows, dtype="<u4")),
        "appended_ms": Numbers(np.full(rows, at_ms + 1_000, "<i8")),
        "partition": Numbers(np.zeros(rows, "<u4")),
        "offset": Numbers(np.full(rows, number, "<u8")),
        "verdict": Labels(word, [None, b"accepted"]),
    }
