"""Rows as messages: order, placement, size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.headers import Identity
from schemas.contract.placement import join_key
from schemas.contract.verdicts import Verdict
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import Limits
from schemas.rows.tables import BOOKS, EXEMPLARS, PARTIALS, REJECTED
from schemas.rows.usage import USAGE
from stream_jobs.windows import messages
from stream_jobs.windows.books import Books, Rejection, rejections_block
from stream_jobs.windows.changes import Changes
from stream_jobs.windows.emit import blocks_of, part_of
from stream_jobs.windows.plan import plan_of
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    BESIDE,
    PARTITIONS,
    SOURCE,
    Row,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    fold_all,
    header,
    rows_in,
)

REQUESTS, SAMPLES = "llm.requests", "gpu.samples"
TARGETS = PARTITIONS["window.partials"]
GOLDEN = [3146785141, 870845391, 3492141205, 1607563037]
GOLDEN_USAGE = [4155809859, 1814998512, 1267742726]
GOLDEN_EXEMPLARS = [3488747434, 3178974515, 1667426549]


def varied_requests(count: int) -> list[Row]:
    return [
        a_request(
            BASE_MS + n * 700,
            tenant=[None, "b", "a", "ü"][n % 4],
            engine_id=f"e{n % 3}",
            placement_group=[None, "pg1", "pg2"][n % 3],
            host=f"h{n % 5}",
            ttft_us=n * 1_000,
            itl_bins={n % 50: 1},
        )
        for n in range(count)
    ]


def sent_by_target(events: list[Row], topic: str = REQUESTS) -> dict[int, list[Row]]:
    step = a_step()
    state, changes = fold_all(step, [a_record(topic, events)], topic)
    outputs = step.rows(state, changes, a_commit(topic))
    return {t: rows_in([o for o in outputs if o.partition == t], "window.partials") for t in range(TARGETS)}


def test_rows_follow_their_series_or_their_placement_group() -> None:
    """Rows of sets with a host follow their placement group (else host), others their whole series."""
    placed = {grouping.name: grouping for grouping in GROUPING_SETS}
    sent = sent_by_target(varied_requests(60))

    assert all(sent.values())
    for target, rows in sent.items():
        for row in rows:
            grouping = placed[row["grouping"]]
            words = [None if row[name] is None else row[name].encode() for name in grouping.dimensions]
            key = join_key([b"service", *words])
            if grouping.placed_by == "placement_group":
                key = (row["placement_group"] or row["host"]).encode()
            assert crc32(key) % TARGETS == target


def test_rows_stand_in_canonical_order() -> None:
    """Within a target partition: window, grouping set in the table's order, labels by their bytes, null first."""
    sets = [grouping.name for grouping in plan_of(REQUESTS).sets]
    names = plan_of(REQUESTS).dimensions

    def order(row: Row) -> tuple[Any, ...]:
        words = [(row[name] is not None, (row[name] or "").encode()) for name in names]
        return (row["window_ms"], sets.index(row["grouping"]), words)

    for rows in sent_by_target(varied_requests(60)).values():
        assert all(order(one) < order(next_one) for one, next_one in pairwise(rows))


def test_outputs_are_the_same_bytes_as_ever() -> None:
    """Golden checksums of a commit: encoding, order and placement change only on purpose (readers merge over time)."""
    step = a_step()
    state, changes = fold_all(step, [a_record(REQUESTS, varied_requests(40))], REQUESTS)
    outputs = step.rows(state, changes, a_commit(REQUESTS))

    beside = {table.schema: [o for o in outputs if header(o, "schema") == table.schema] for table in BESIDE}
    assert [crc32(o.value) for o in outputs if header(o, "schema") not in beside] == GOLDEN
    assert [crc32(o.value) for o in beside[EXEMPLARS.schema]] == GOLDEN_EXEMPLARS
    assert [crc32(o.value) for o in beside[USAGE.schema]] == GOLDEN_USAGE


def test_a_message_that_would_be_too_large_is_cut_between_rows() -> None:
    """Pieces hold all rows in order, none above the bound unless it is one row."""
    step = a_step()
    state, changes = fold_all(step, [a_record(REQUESTS, varied_requests(60))], REQUESTS)
    table = PARTIALS[REQUESTS]
    (segment,) = changes.segments
    block = next(blocks_of(state.plan, segment, 1))[1]
    whole = rows_of(table.fields, block)
    pieces = messages.encoded(table, block, bytes_max=4_000)

    assert len(pieces) > 2
    assert [row for _, value in pieces for row in rows_of(table.fields, native.decode(value, table.fields))] == whole
    assert all(len(value) <= 4_000 or rows == 1 for rows, value in pieces)
    assert rows_of(table.fields, part_of(block, 3, 7)) == whole[3:7]


def test_exemplars_that_would_be_too_large_are_cut_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are of any length, and an outage brings hours of windows at once."""
    events = [a_request(tenant=f"t{n}", ttft_us=n, request_id=f"{n:0>900}") for n in range(40)]

    def exemplars() -> list[Any]:
        step = a_step()
        state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
        outputs = step.rows(state, changes, a_commit(REQUESTS))
        return [o.value for o in outputs if header(o, "schema") == EXEMPLARS.schema]

    def rows(values: list[Any]) -> list[Any]:
        return [row for value in values for row in rows_of(EXEMPLARS.fields, native.decode(value, EXEMPLARS.fields))]

    (whole,) = exemplars()
    monkeypatch.setattr(messages.encoded, "__defaults__", (messages.part_of, 2_000))
    pieces = exemplars()

    assert len(pieces) > 1
    assert rows(pieces) == rows([whole])


def test_only_the_last_part_announces_the_watermark(monkeypatch: Any) -> None:
    """A reader of the first part must not believe that it holds everything up to the watermark."""
    monkeypatch.setattr(messages.encoded, "__defaults__", (messages.part_of, 4_000))
    step = a_step()
    state, changes = fold_all(step, [a_record(REQUESTS, varied_requests(60))], REQUESTS)
    outputs = [o for o in step.rows(state, changes, a_commit(REQUESTS)) if o.topic == "window.partials"]
    first = [o for o in outputs if o.partition == 0]

    assert len(first) > 1
    assert [header(o, "part") for o in first] == [f"{n + 1}/{len(first)}" for n in range(len(first))]
    watermark = str(state.progress_ms - Limits().out_of_orderness_ms)
    assert [header(o, "watermark") for o in first] == ["0"] * (len(first) - 1) + [watermark]
    assert [int(header(o, "number")) for o in outputs] == list(range(len(outputs)))


def test_room_is_remembered_and_given_back() -> None:
    """The next commit begins with the room the last one needed, and shrinks again when less is needed."""
    step = a_step()
    events = [a_request(tenant=f"t{n}", ttft_us=n) for n in range(300)]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    step.rows(state, changes, a_commit(REQUESTS))
    service = state.series.tables[0]
    assert service.expected == 512

    changes = step.changes()
    step.fold(state, [a_record(REQUESTS, events[:1], 1)], changes)
    assert len(changes.segments[0].sums[0].cells) == 512
    step.rows(state, changes, a_commit(REQUESTS))
    assert service.expected == 64


@pytest.mark.parametrize("table", [BOOKS, REJECTED], ids=lambda table: table.name)
def test_books_and_rejected_blocks_have_every_column(table: Any) -> None:
    """The blocks follow the field tables of ``schemas.rows.tables``."""
    rejection = Rejection(1, 2, None, 3, 4, None, "syntax", None, None, "détail", b"\x00")
    books = Books().block("windows", a_commit(REQUESTS))
    block = books if table is BOOKS else rejections_block([rejection], REQUESTS, 1)

    assert set(block.columns) == {field.name for field in table.fields}
    assert native.decode(native.encode(table.fields, block), table.fields).rows == 1


def test_books_add_over_records() -> None:
    """Lines of one source, boot and verdict are one, in rising order, for any number of sources."""
    books = Books()
    for n in range(40):
        books.add_one((f"{n % 20:032x}", 1), Verdict.ACCEPTED, 2)
    books.add_one((None, 0), Verdict.REJECTED, 5)

    assert books.lines() == [("", 0, 3, 1, 5), *((f"{n:032x}", 1, 0, 2, 4) for n in range(20))]


def test_many_refused_bytes_are_cut_between_rows() -> None:
    """Refused events beyond a message's size go to several, in order."""
    rejection = Rejection(1, 2, 0, 1, 4, Identity(SOURCE, 1, 7, (1, 0)), "syntax", None, None, "", b"x" * 1_000_000)
    outputs = messages.rejected([rejection] * 9, a_commit(REQUESTS), 1, "windows")

    assert [header(output, "rows") for output in outputs] == ["4", "4", "1"]


def test_memory_held_is_told() -> None:
    """Changes know what they hold, so that a commit is asked for in time."""
    step = a_step()
    _, changes = fold_all(step, [a_record(SAMPLES, [a_sample()])], SAMPLES)

    assert Changes().bytes == 0
    assert changes.bytes == changes.segments[0].bytes > 0
