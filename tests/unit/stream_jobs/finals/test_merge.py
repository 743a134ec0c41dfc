"""Merging rows by whole columns agrees with the meaning in plain Python, whatever the order and the cut."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows, rows_of
from schemas.rows.tables import EXEMPLARS, EXEMPLARS_MAX, PARTIALS
from stream_jobs.finals.held import Held, Pile, merged
from stream_jobs.finals.merge import merge, merge_exemplars
from tests.merged_rows import merge_rows
from tests.unit.stream_jobs.finals.cases import an_exemplar, request_rows, sample_rows
from tests.unit.stream_jobs.windows.cases import BASE_MS, Row

METRICS = sorted(EXEMPLARS_MAX)
LLM, GPU = PARTIALS["llm.requests"], PARTIALS["gpu.samples"]

REQUESTS = st.lists(
    st.builds(
        request_rows,
        st.integers(BASE_MS, BASE_MS + 9_999),
        host=st.sampled_from(["h1", "h2", "ä"]),
        model=st.sampled_from(["m", "n"]),
        tenant=st.sampled_from([None, "", "t"]),
        ttft_us=st.none() | st.integers(0, 5_000_000),
        input_tokens=st.none() | st.integers(0, 100_000),
        itl_bins=st.dictionaries(st.integers(-1, 1_016), st.integers(1, 9), max_size=3),
    ),
    min_size=1,
    max_size=12,
)
SAMPLES = st.lists(
    st.builds(
        sample_rows,
        st.integers(BASE_MS, BASE_MS + 2),
        gpu_uuid=st.sampled_from(["GPU-1", "GPU-2"]),
        temperature_c=st.none() | st.integers(-5, 90),
        power_mw=st.none() | st.integers(0, 700_000),
        energy_mj=st.none() | st.integers(0, 10**12),
    ),
    min_size=1,
    max_size=12,
)


def blocks(fields: Any, rows: list[Row], draw: random.Random) -> list[Block]:
    """The rows in blocks of any size."""
    left, made = list(rows), []
    while left:
        size = draw.randint(1, len(left))
        made.append(block_from_rows(fields, left[:size]))
        left = left[size:]
    return made


@settings(max_examples=30)
@given(st.tuples(st.just(LLM), REQUESTS) | st.tuples(st.just(GPU), SAMPLES), st.randoms(use_true_random=False))
def test_columns_agree_with_rows(case: Any, draw: random.Random) -> None:
    """Values as by the plain rules; and rows merged in two steps, in another order, are the same bytes."""
    table, events = case
    rows = [row for event in events for row in event]

    whole = merge(table, blocks(table.fields, rows, draw)).block
    draw.shuffle(rows)
    middle = draw.randint(0, len(rows))
    halves = [block_from_rows(table.fields, half) for half in (rows[:middle], rows[middle:]) if half]
    again = merge(table, [merge(table, [half]).block for half in halves]).block

    wanted = merge_rows(table, rows)
    assert sorted(map(str, rows_of(table.fields, whole))) == sorted(map(str, wanted.values()))
    assert native.encode(table.fields, again) == native.encode(table.fields, whole)


def test_rows_stand_in_canonical_order() -> None:
    """Grouping set by name, then labels by their bytes, null first."""
    rows = [row for tenant in ("b", None, "a", "") for row in request_rows(tenant=tenant)]

    found = rows_of(LLM.fields, merge(LLM, [block_from_rows(LLM.fields, rows)]).block)

    assert [(row["grouping"], row["tenant"]) for row in found] == [
        ("engine", None),
        ("service", None),
        ("service", ""),
        ("service", "a"),
        ("service", "b"),
    ]


@pytest.mark.parametrize(
    ("readings", "last"),
    [
        ([(1, 50), (2, 40)], 40),
        ([(2, 40), (1, 50)], 40),
        ([(2, 40), (2, 60)], 60),
        ([(2, None), (1, 50)], None),
        ([(2, None), (2, 50)], 50),
    ],
    ids=["later", "later came first", "at once: the greatest", "the latest does not know", "one of two knows"],
)
def test_the_last_value_is_that_of_the_latest_row(readings: list[tuple[int, int | None]], last: int | None) -> None:
    """Null is less than any value."""
    rows = [row for at, celsius in readings for row in sample_rows(BASE_MS + at, temperature_c=celsius)]

    (found,) = rows_of(GPU.fields, merge(GPU, [block_from_rows(GPU.fields, [row]) for row in rows]).block)

    assert found["temperature_c_last"] == last


def test_newest_tells_which_rows_changed() -> None:
    """The last of the input rows that went into a row, counted over all blocks."""
    first = [*sample_rows(gpu_uuid="a"), *sample_rows(gpu_uuid="b")]
    then = sample_rows(gpu_uuid="b")

    found = merge(GPU, [block_from_rows(GPU.fields, rows) for rows in (first, then)])

    assert found.newest.tolist() == [0, 2]


def test_a_packed_pile_is_the_same_pile() -> None:
    """Rows that come to it later are told alone, merged with what was there."""
    pile = Pile(GPU, parts=[block_from_rows(GPU.fields, [*sample_rows(gpu_uuid="a"), *sample_rows(gpu_uuid="b")])])
    pile.settle()
    pile.settle()
    packed = (pile.base, len(pile.packed) > 0, list(pile.parts))

    pile.parts.append(block_from_rows(GPU.fields, sample_rows(gpu_uuid="b")))
    changed = rows_of(GPU.fields, pile.changed(1))

    assert packed == (None, True, [])
    assert [(row["gpu_uuid"], row["event_count"]) for row in changed] == [("b", 2)]
    assert [row["event_count"] for row in rows_of(GPU.fields, pile.whole())] == [1, 2]


def test_a_window_is_packed_table_by_table() -> None:
    """So many rows at a time, at least a table; in the end all of it, and then nothing more."""
    held = Held(BASE_MS, 0)
    held.add(GPU, block_from_rows(GPU.fields, [*sample_rows(gpu_uuid="a"), *sample_rows(gpu_uuid="b")]))
    held.add(LLM, block_from_rows(LLM.fields, request_rows()))

    packed = [(held.settle(1), [len(pile.packed) > 0 for pile in held.piles.values()]) for _ in range(3)]

    assert packed == [(2, [True, False]), (held.piles[LLM.schema].rows, [True, True]), (0, [True, True])]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(EXEMPLARS_MAX)),
            st.sampled_from(["e1", "e2", None]),
            st.none() | st.integers(0, 3),
            st.sampled_from([("aborted", None), ("error", "client"), ("error", "server"), ("timeout", None)]),
        ),
        min_size=1,
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_exemplars_keep_the_greatest(
    found: list[tuple[str, str | None, int | None, tuple[str, str | None]]], draw: random.Random
) -> None:
    """By value and request id; of failed ones those of our side first, each by id; in any order and cut the same rows
    and bytes."""
    rows = [
        an_exemplar(
            metric=metric, engine_id=engine, value_us=value, request_id=f"r{number:02}", status=status, error_kind=kind
        )
        for number, (metric, engine, value, (status, kind)) in enumerate(found)
    ]
    whole = merged(EXEMPLARS, [block_from_rows(EXEMPLARS.fields, rows)]).block
    draw.shuffle(rows)
    parts = [merge_exemplars([block]).block for block in blocks(EXEMPLARS.fields, rows, draw)]

    kept = rows_of(EXEMPLARS.fields, merge_exemplars(parts).block)

    assert [(row["engine_id"], row["metric"], row["request_id"]) for row in kept] == _greatest(rows)
    assert native.encode(EXEMPLARS.fields, merge_exemplars(parts).block) == native.encode(EXEMPLARS.fields, whole)


@settings(max_examples=100)
@given(
    st.lists(
        st.text("a\0ä", max_size=3) | st.sampled_from(["b" * 128, "b" * 129, "b" * 128 + "\0"]),
        max_size=12,
        unique=True,
    )
)
def test_ids_are_compared_as_bytes_whatever_is_in_them(ids: list[str]) -> None:
    """A zero at the end counts, a prefix is less, long ones are ids too; the greatest come first."""
    rows = [an_exemplar(metric="failed", request_id=one) for one in ids] + [an_exemplar()]

    kept = rows_of(EXEMPLARS.fields, merge_exemplars([block_from_rows(EXEMPLARS.fields, rows)]).block)

    assert [row["request_id"] for row in kept if row["metric"] == "failed"] == (
        sorted(ids, key=str.encode, reverse=True)[: EXEMPLARS_MAX["failed"]]
    )


def _greatest(rows: list[Row]) -> list[tuple[str | None, str, str]]:
    """What must be kept, by brute force."""
    groups: dict[tuple[str, str, str], list[tuple[int, str, Row]]] = {}
    for row in rows:
        value = -1 if row["value_us"] is None else row["value_us"]
        if row["metric"] == "failed":
            value = row["status"] != "aborted" and row["error_kind"] != "client"
        key = (row["engine_id"] or "", row["model"], row["metric"])
        groups.setdefault(key, []).append((value, row["request_id"], row))
    kept = []
    for key in sorted(groups):
        best = sorted(groups[key], key=lambda one: one[:2], reverse=True)[: EXEMPLARS_MAX[key[2]]]
        kept += [(row["engine_id"], row["metric"], row["request_id"]) for _, _, row in best]
    return kept
