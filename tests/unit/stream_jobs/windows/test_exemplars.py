"""Exemplars against brute force: the same requests whatever the cuts, and only once per place.

Covers stream_jobs.windows.exemplar_kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec.block import Block
from schemas.limits import Limits
from schemas.rows.tables import EXEMPLARS, EXEMPLARS_MAX
from schemas.rows.usage import USAGE
from stream_jobs.windows import exemplars
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    WINDOW_MS,
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

REQUESTS = "llm.requests"
PARTIALS = "llm_requests_partials/1"
VALUES = {"ttft": "ttft_us", "e2e": "e2e_us", "failed": "e2e_us"}


def is_ours(row: Row) -> bool:
    """Of what did not end well: whether that was the fault of the server's side."""
    return row["status"] != "aborted" and row["error_kind"] != "client"


def greatest(rows: Iterable[Row]) -> list[Row]:
    """What a reader keeps of the union: the greatest of each window, engine, model and metric."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["window_ms"], row["engine_id"] or "", row["model"], row["metric"]), []).append(row)
    kept = []
    for key, found in sorted(groups.items()):
        by_value = key[-1] != "failed"
        found.sort(
            key=lambda row: (row["value_us"] if by_value else is_ours(row), row["request_id"].encode()), reverse=True
        )
        kept += found[: EXEMPLARS_MAX[key[-1]]]
    return kept


def expected(events: Iterable[Row]) -> list[Row]:
    """By brute force: every event is a candidate for every metric it has."""
    rows = []
    for event in events:
        for metric, field in VALUES.items():
            value = event.get(field)
            if event["status"] == "ok" if metric == "failed" else value is None:
                continue
            own = {"window_ms": event["at_ms"] // WINDOW_MS * WINDOW_MS, "metric": metric, "value_us": value}
            rows.append({field.name: own.get(field.name, event.get(field.name)) for field in EXEMPLARS.fields})
    return greatest(rows)


def sent(batches: Sequence[Sequence[Row]], cuts: Sequence[bool]) -> list[list[Row]]:
    """Exemplars of each commit: a batch is one fold, and a commit follows where ``cuts`` says, and at the end."""
    step = a_step()
    state, changes = step.new(REQUESTS, 0), step.changes()
    commits = []
    for number, (batch, cut) in enumerate(zip(batches, cuts, strict=True)):
        step.fold(state, [a_record(REQUESTS, batch, number)], changes)
        if cut or number == len(batches) - 1:
            commits.append(rows_in(step.rows(state, changes, a_commit(REQUESTS)), "window.partials", EXEMPLARS))
            changes = step.changes()
    return commits


def requests(draws: Sequence[tuple[Any, ...]]) -> list[Row]:
    """Events with ids that are unique; some are the beginning of others, and many values are equal."""
    return [
        a_request(
            BASE_MS + window * WINDOW_MS,
            engine_id=engine,
            model=model,
            host=host,
            ttft_us=ttft,
            e2e_us=e2e,
            status="error" if status == "client" else status,
            error_kind="client" if status == "client" else None,
            tenant=f"t{number % 3}",
            http_status=None if number % 2 else 200 + number,
            trace_id=None if number % 3 else f"{number:032x}",
            request_id=f"same-beginning-{'x' * (number % 4)}{number % 7}-{number}",
        )
        for number, (window, engine, model, host, ttft, e2e, status) in enumerate(draws)
    ]


DRAWS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["e1", "e1", "e2", None]),
        st.sampled_from(["m1", "m1", "m2"]),
        st.sampled_from(["h1", "h2"]),
        st.sampled_from([None, 0, 5, 5, 7, 1_000_000]),
        st.sampled_from([None, 9, 9, 3_000_000]),
        st.sampled_from(["ok", "ok", "error", "timeout", "aborted", "client"]),
    ),
    min_size=1,
    max_size=80,
)


@settings(max_examples=40, deadline=None)
@given(DRAWS, st.data())
def test_the_union_of_commits_holds_the_greatest_whatever_the_cuts(draws: Any, data: st.DataObject) -> None:
    """Batches and commits anywhere: a reader that keeps the greatest of what was sent has those of brute force."""
    events = requests(draws)
    ends = sorted({*data.draw(st.lists(st.integers(1, len(events)), max_size=6)), len(events)})
    batches = [events[start:end] for start, end in pairwise([0, *ends])]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))

    commits = sent(batches, cuts)

    assert greatest(row for rows in commits for row in rows) == expected(events)
    for rows in commits:
        assert len(greatest(rows)) == len(rows)


def test_failures_of_the_servers_side_come_before_what_clients_did() -> None:
    """Whatever the ids and however many others there are, before and after them; of several with one beginning, too."""
    clients = [("aborted", None), ("error", "client")]
    many = [a_request(status=status, error_kind=kind, request_id=f"z{n}-{kind}") for n in range(9)
            for status, kind in clients]  # fmt: skip
    ours = [a_request(status=status, error_kind="server", request_id=f"a-{status}") for status in ("error", "timeout")]

    for batches in ([[*many, *ours]], [many, ours], [ours, many], [many[:9], ours[:1], many[9:], ours[1:]]):
        (found,) = sent(batches, [False] * len(batches))
        failed = [row["request_id"] for row in found if row["metric"] == "failed"]
        assert failed == ["a-timeout", "a-error", "z8-client", "z8-None"], batches


def test_candidates_that_fell_behind_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rising values make every request a candidate when it comes; memory stays bounded and the result the same."""
    monkeypatch.setattr(exemplars, "CANDIDATES_MIN", 8)
    events = requests([(0, "e1", "m1", "h1", n, 3 * n, "error") for n in range(300)])
    step = a_step()
    state, changes = step.new(REQUESTS, 0), step.changes()
    held = []
    for number in range(0, 300, 10):
        step.fold(state, [a_record(REQUESTS, events[number : number + 10], number)], changes)
        held.append(changes.exemplars[0].rows)

    assert max(held) <= 90
    found = rows_in(step.rows(state, changes, a_commit(REQUESTS)), "window.partials", EXEMPLARS)
    assert greatest(found) == expected(events)


def test_they_go_where_the_rows_of_their_engine_go_and_stand_in_order() -> None:
    """By placement group, else host; before the partials."""
    events = [
        a_request(host=f"h{n % 5}", engine_id=f"e{n % 5}", ttft_us=n, request_id=f"r{n}", placement_group=group)
        for n, group in enumerate([None, "pg1", "pg2", None, "pg3"] * 4)
    ]
    step = a_step()
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    outputs = [o for o in step.rows(state, changes, a_commit(REQUESTS)) if o.topic == "window.partials"]

    for target in range(PARTITIONS["window.partials"]):
        own = [output for output in outputs if output.partition == target]
        schemas = [header(output, "schema") for output in own]
        assert schemas == sorted(schemas, key=[EXEMPLARS.schema, USAGE.schema, PARTIALS].index)
        assert [header(output, "part") for output in own] == [f"{n}/{len(own)}" for n in range(1, len(own) + 1)]
        assert {header(output, "watermark") for output in own[:-1]} <= {"0"}
        rows = rows_in(own, "window.partials", EXEMPLARS)
        assert {crc32((row["placement_group"] or row["host"]).encode()) % 3 for row in rows} <= {target}
        keys = [(row["engine_id"], -row["value_us"]) for row in rows]
        assert keys == sorted(keys)
    assert [int(header(output, "number")) for output in outputs] == list(range(len(outputs)))


def test_what_is_refused_or_late_or_comes_twice_is_no_exemplar() -> None:
    """They are taken from what the rows count."""
    late_ms = BASE_MS - Limits().allowed_lateness_ms - 1
    events = [
        a_request(ttft_us=1, request_id="counts"),
        a_request(late_ms, ttft_us=9, request_id="late"),
        a_request(ttft_us=9, request_id="bad", status="no such status"),
    ]
    step = a_step()
    state, changes = fold_all(step, [a_record(REQUESTS, events, appended_ms=BASE_MS)], REQUESTS)

    found = rows_in(step.rows(state, changes, a_commit(REQUESTS)), "window.partials", EXEMPLARS)
    assert [(row["metric"], row["value_us"], row["request_id"]) for row in found] == [("ttft", 1, "counts")]


def test_series_beyond_the_limit_share_one_group() -> None:
    """The number of exemplars is bounded as the number of rows is; those kept say who they were."""
    events = [a_request(engine_id=f"e{n}", ttft_us=n, request_id=f"r{n:02}") for n in range(30)]
    step = a_step(Limits(series_max=4))  # of which requests without a tenant open half
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)

    found = rows_in(step.rows(state, changes, a_commit(REQUESTS)), "window.partials", EXEMPLARS)
    assert sorted(row["engine_id"] for row in found) == ["e0", "e1", "e28", "e29"]


def test_other_topics_have_none() -> None:
    """A GPU sample is no request; nothing is held for it."""
    step = a_step()
    state, changes = fold_all(step, [a_record("gpu.samples", [a_sample()])], "gpu.samples")

    assert changes.exemplars == []
    assert exemplars.details_of(state.plan, Block(0, {})) is None


def test_they_count_as_memory_of_the_changes() -> None:
    """A commit is asked for when all that is held grows too large."""
    step = a_step()
    _, changes = fold_all(step, [a_record(REQUESTS, [a_request(ttft_us=1)])], REQUESTS)

    assert changes.exemplars[0].bytes > 320
    assert changes.bytes == changes.segments[0].bytes + changes.exemplars[0].bytes + changes.usage[0].bytes
