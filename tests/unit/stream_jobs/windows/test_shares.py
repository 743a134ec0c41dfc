"""Share rows of the windows job against brute force: the same sums whatever the cuts, and only of shared groups.

Covers stream_jobs.windows.shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.headers import Identity
from schemas.contract.record import Output
from schemas.rows.gpu_shares import SHARES, SHARES_AMOUNTS, SHARES_KEY
from schemas.rows.tables import PARTIALS as PARTIALS_TABLES
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    SOURCE,
    Row,
    a_commit,
    a_record,
    a_step,
    fold_all,
    header,
    rows_in,
)

PROCESSES = "gpu.processes"
PARTIALS = "window.partials"
Sums = dict[tuple[Any, ...], tuple[int | None, ...]]


def a_process(at_ms: int = BASE_MS, **fields: Any) -> Row:
    base = {"host": "h1", "gpu_uuid": "GPU-1", "origin": "measured", "engine_id": "a", "placement_group": "a+b"}
    return {"at_ms": at_ms, **base, "memory_bytes": 30, "sm_util_pct": 5, **fields}


def sent(outputs: Sequence[Output]) -> list[Row]:
    """The share rows of a commit."""
    return rows_in(outputs, PARTIALS, SHARES)


def merged(rows: Iterable[Row]) -> Sums:
    """Rows added up by minute and key; a sum of nulls is null."""
    found: dict[tuple[Any, ...], list[list[int]]] = {}
    for row in rows:
        key = (row["window_ms"], *(row[name] for name in SHARES_KEY))
        held = found.setdefault(key, [[] for _ in SHARES_AMOUNTS])
        for values, name in zip(held, SHARES_AMOUNTS, strict=True):
            values.extend([] if row[name] is None else [row[name]])
    return {key: tuple(sum(values) if values else None for values in held) for key, held in found.items()}


def by_brute_force(events: Iterable[Row]) -> Sums:
    """What the definition says: of engines whose group has another name."""
    rows = []
    for event in events:
        if event["engine_id"] is None or event["placement_group"] in (None, event["engine_id"]):
            continue
        memory, busy = event["memory_bytes"], event["sm_util_pct"]
        counts = {"readings": 1, "memory_readings": int(memory is not None), "sm_readings": int(busy is not None)}
        rows.append(event | counts | {"window_ms": event["at_ms"] - event["at_ms"] % 60_000})
    return merged(rows)


EVENTS = st.lists(
    st.builds(
        a_process,
        st.sampled_from([BASE_MS, BASE_MS + 59_999, BASE_MS + 60_000]),
        engine_id=st.sampled_from(["a", "b", None]),
        placement_group=st.sampled_from(["a", "a+b", None]),
        gpu_uuid=st.sampled_from(["GPU-1", "GPU-2"]),
        memory_bytes=st.sampled_from([None, 0, 7, 2**44]),
        sm_util_pct=st.sampled_from([None, 0, 100]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.data())
def test_sums_are_those_of_brute_force_whatever_the_cuts(events: list[Row], data: st.DataObject) -> None:
    """Folds and commits anywhere: the rows of all commits add up to the same, and one commit has a key once."""
    ends = sorted({*data.draw(st.lists(st.integers(1, len(events)), max_size=4)), len(events)})
    step = a_step()
    state, changes, commits = step.new(PROCESSES, 0), step.changes(), []
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        step.fold(state, [a_record(PROCESSES, events[start:end], number, BASE_MS + 60_000)], changes)
        if end == len(events) or data.draw(st.booleans()):
            commits.append(sent(step.rows(state, changes, a_commit(PROCESSES))))
            changes = step.changes()

    assert merged(row for rows in commits for row in rows) == by_brute_force(events)
    for rows in commits:
        assert len(merged(rows)) == len(rows)


def test_a_commit_tells_the_same_bytes_wherever_folds_are_cut() -> None:
    """Rows stand in the order in which they began, by the records alone."""
    events = [a_process(BASE_MS + 700 * n, engine_id="ab"[n % 2], gpu_uuid=f"GPU-{n % 5}") for n in range(60)]
    records = [a_record(PROCESSES, events[n : n + 5], n // 5, BASE_MS + 60_000) for n in range(0, 60, 5)]
    told = []
    for size in (1, 4, 12):
        step = a_step()
        state, changes = step.new(PROCESSES, 0), step.changes()
        for start in range(0, len(records), size):
            step.fold(state, records[start : start + size], changes)
        outputs = step.rows(state, changes, a_commit(PROCESSES))
        told.append([output.value for output in outputs if header(output, "schema") == SHARES.schema])

    assert told[0]
    assert told[0] == told[1] == told[2]


def test_what_was_late_or_seen_before_is_not_counted() -> None:
    """A re-send of a record, and an event that is older than its record by more than the horizon."""
    step = a_step()
    again = Identity(SOURCE, 1, 1, (1, 1))
    records = [
        a_record(PROCESSES, [a_process()], 0, BASE_MS + 100, again),
        a_record(PROCESSES, [a_process()], 1, BASE_MS + 200, again),
        a_record(PROCESSES, [a_process(BASE_MS - 86_400_000), a_process(BASE_MS + 1)], 2, BASE_MS + 300),
    ]

    (row,) = sent(step.rows(*fold_all(step, records, PROCESSES), a_commit(PROCESSES)))

    assert [row[name] for name in ("window_ms", *SHARES_AMOUNTS)] == [BASE_MS, 2, 2, 60, 2, 10]


def test_memory_beyond_64_bits_is_held_below() -> None:
    """Half a million readings of the greatest amount are; the commit is sent all the same."""
    step = a_step()
    state, changes = fold_all(step, [a_record(PROCESSES, [a_process(memory_bytes=2**44)])], PROCESSES)
    (sums,) = changes.shares[0].rows.values()
    sums[2] *= 2**19 - 1
    record = a_record(PROCESSES, [a_process(memory_bytes=2**44), a_process(memory_bytes=2**44)], 1)

    step.fold(state, [record], changes)

    (row,) = sent(step.rows(state, changes, a_commit(PROCESSES)))
    assert [row[name] for name in SHARES_AMOUNTS] == [3, 3, 2**63 - 1, 3, 15]


@pytest.mark.parametrize("group", ["a", None], ids=["alone in its group", "of no group"])
def test_an_engine_alone_on_its_gpus_makes_no_row(group: str | None) -> None:
    """Records carry progress alone, as before."""
    step = a_step()

    outputs = step.rows(*fold_all(step, [a_record(PROCESSES, [a_process(placement_group=group)])], PROCESSES),
                        a_commit(PROCESSES))  # fmt: skip

    partials = [output for output in outputs if output.topic == PARTIALS]
    schema = PARTIALS_TABLES[PROCESSES].schema
    assert [(header(output, "schema"), output.value) for output in partials] == [(schema, b"")] * PARTITIONS[PARTIALS]


def test_shares_stand_before_the_watermark_in_the_partition_of_their_group() -> None:
    """Where the GPU's readings are; whoever sees the watermark, which the last part announces, has seen them."""
    step = a_step()
    outputs = step.rows(*fold_all(step, [a_record(PROCESSES, [a_process()])], PROCESSES), a_commit(PROCESSES))

    target = crc32(b"a+b") % PARTITIONS[PARTIALS]
    parts = [(header(one, "schema"), header(one, "part"), header(one, "watermark") != "0") for one in outputs
             if one.topic == PARTIALS and one.partition == target]  # fmt: skip
    assert parts == [(SHARES.schema, "1/1", True)]


def test_what_is_held_counts_towards_the_commit() -> None:
    """So that a flood of names asks for one."""
    step = a_step()

    _, one = fold_all(step, [a_record(PROCESSES, [a_process()])], PROCESSES)
    _, many = fold_all(step, [a_record(PROCESSES, [a_process(gpu_uuid=f"g{n}") for n in range(50)])], PROCESSES)

    assert many.bytes - one.bytes == 49 * 600
