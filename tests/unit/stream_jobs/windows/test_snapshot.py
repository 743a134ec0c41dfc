"""The state as bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.headers import Identity
from schemas.errors import ContractError
from schemas.limits import Limits
from stream_jobs.parts import PART_BYTES_MAX
from stream_jobs.windows import snapshot
from stream_jobs.windows.plan import plan_of
from stream_jobs.windows.series import Budget, Series
from tests.unit.stream_jobs.windows.cases import BASE_MS, a_commit, a_record, a_request, a_step, fold_all

REQUESTS = "llm.requests"
words = st.sampled_from(("a", "b", "ü", "", "c" * 100)) | st.none()
events = st.builds(
    a_request, st.integers(BASE_MS, BASE_MS + 30_000), tenant=words, engine_id=words, host=st.sampled_from("xy")
)


def identity(source: int, seq: int) -> Identity:
    return Identity(f"{source:032x}", seq // 4, seq, (0, max(seq - 3, 0)))


@st.composite
def logs(draw: st.DrawFn) -> list[Any]:
    sends = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=12))
    return [
        a_record(
            REQUESTS, draw(st.lists(events, min_size=1, max_size=3)), offset, BASE_MS + 30_000, identity(source, seq)
        )
        for offset, (source, seq) in enumerate(sends)
    ]


@given(logs(), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_a_loaded_state_behaves_like_the_one_that_was_dumped(log: list[Any], cut: int) -> None:
    """Dumped and loaded at any record, everything after gives the same outputs and the same state, byte for byte."""
    step = a_step(Limits(series_max=3, label_cardinality_max=3))
    state, _ = fold_all(step, log[:cut], REQUESTS)
    loaded = step.load(REQUESTS, 0, step.dump(state))
    assert step.dump(loaded) == step.dump(state)

    changes, loaded_changes = step.changes(), step.changes()
    step.fold(state, log[cut:], changes)
    step.fold(loaded, log[cut:], loaded_changes)
    assert step.rows(loaded, loaded_changes, a_commit(REQUESTS)) == step.rows(state, changes, a_commit(REQUESTS))
    assert step.dump(loaded) == step.dump(state)


def test_large_states_are_cut_into_parts() -> None:
    """No part is larger than the limit, and all together load."""
    step = a_step()
    records = [
        a_record(
            REQUESTS,
            [a_request(tenant=f"{n:08d}{'x' * 240}", host=f"h{n}") for n in range(start, start + 1_000)],
            start,
        )
        for start in range(0, 5_000, 1_000)
    ]
    state, _ = fold_all(step, records, REQUESTS)
    parts = step.dump(state)

    assert len(parts) > 2
    assert max(map(len, parts)) <= PART_BYTES_MAX
    assert step.dump(step.load(REQUESTS, 0, parts)) == parts


def test_parts_that_do_not_belong_together_are_refused() -> None:
    """Missing, swapped, foreign or damaged parts are told, never loaded."""
    step = a_step()
    records = [
        a_record(REQUESTS, [a_request(tenant=f"{n}{'x' * 250}") for n in range(start, start + 1_000)])
        for start in (0, 1_000, 2_000, 3_000)
    ]
    old, _ = fold_all(step, records[:3], REQUESTS)
    new, _ = fold_all(step, records, REQUESTS)
    one, other = step.dump(old), step.dump(new)
    assert min(len(one), len(other)) > 1

    for parts in ([], one[:-1], one[::-1], [one[0], *other[1:]], [one[0][:-1] + b"?", *one[1:]], [b"", *one[1:]]):
        with pytest.raises(ContractError, match="belong together"):
            step.load(REQUESTS, 0, parts)


def test_a_snapshot_of_another_partition_is_refused() -> None:
    """The state of one partition is never taken for that of another."""
    step = a_step()
    parts = step.dump(step.new(REQUESTS, 1))

    with pytest.raises(ContractError, match=r"'partition': 1\}, not of .*'partition': 0\}"):
        step.load(REQUESTS, 0, parts)


def test_series_of_sets_that_changed_begin_anew_and_others_go_on() -> None:
    """After a deploy with other grouping sets the unchanged ones keep their names."""
    step = a_step()
    state, _ = fold_all(step, [a_record(REQUESTS, [a_request(tenant="t", engine_id="e")])], REQUESTS)
    plan = plan_of(REQUESTS)
    service, engine = plan.sets
    changed = dataclasses.replace(service, dimensions=service.dimensions[1:])
    fresh = step.new(REQUESTS, 0)
    fresh.plan = dataclasses.replace(plan, sets=(changed, engine))
    fresh.series = Series.new(fresh.plan, Budget(10, 10, 10, 10))
    loaded = snapshot.load(fresh, step.dump(state))

    assert [table.count - 1 for table in loaded.series.tables] == [0, 1]
    assert b"e" in loaded.series.words[plan.dimensions.index("engine_id")].words


def test_series_of_a_snapshot_that_does_not_say_who_opened_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 0.1.0 wrote them: those that name a tenant count for it, the others and all words for nobody."""
    step = a_step()
    events = [a_request(tenant=tenant, model=f"m{tenant}") for tenant in ("a", "b", None)]
    state, _ = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    monkeypatch.setattr(snapshot, "_opener_names", lambda series, dimensions: [[], []])
    monkeypatch.setattr(snapshot, "_opener_sections", lambda series: [])
    loaded = step.load(REQUESTS, 0, step.dump(state)).series
    monkeypatch.undo()

    service, engine = loaded.tables
    code = loaded.words[loaded.tenant_at].codes.__getitem__
    assert [int(service.opened[code(tenant)]) for tenant in (b"a", b"b", None)] == [1, 1, 1]
    assert engine.opened.tolist() == [3]
    assert [words.openers for words in loaded.words if words.bounded and words.kept] == [[0, 0, 0]]
