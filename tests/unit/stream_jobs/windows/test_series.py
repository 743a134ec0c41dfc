"""Which labels keep their names: limits, ``__other__``, and when places become free again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.limits import HOUR_MS, MINUTE_MS, Limits
from stream_jobs.windows.plan import plan_of
from stream_jobs.windows.series import OTHER_CODE, SWEEP_MS, Budget, Series, Words
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    Row,
    a_record,
    a_request,
    a_sample,
    a_step,
    fold_all,
    merged,
    partials,
)

REQUESTS, SAMPLES, HOSTS = "llm.requests", "gpu.samples", "host.samples"


def tenants(rows: list[Row]) -> dict[str | None, int]:
    found: Counter[str | None] = Counter()
    for row in rows:
        if row["grouping"] == "service":
            found[row["tenant"]] += row["event_count"]
    return dict(found)


def test_series_beyond_the_limit_fall_into_other_and_are_counted() -> None:
    """The first N series of a set keep their names; events of later ones stand under ``__other__``, none is lost."""
    step = a_step(Limits(series_max=2))
    events = [a_request(tenant=name) for name in ("a", "b", "c", "a", "d", "b")]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    rows = partials(step, state, changes)

    assert tenants(rows) == {"a": 2, "b": 2, "__other__": 2}
    (other,) = [row for row in rows if row["tenant"] == "__other__"]
    kept = plan_of(REQUESTS).sets[0].dimensions
    assert {other[name] for name in kept} == {"__other__"}
    assert (other["host"], other["engine_id"]) == (None, None)


def test_each_grouping_set_has_its_own_limit() -> None:
    """Many tenants do not cost an engine its name."""
    step = a_step(Limits(series_max=2))
    events = [a_request(tenant=f"t{n}", engine_id="e") for n in range(5)]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    engines = [row for row in partials(step, state, changes) if row["grouping"] == "engine"]

    assert [(row["engine_id"], row["event_count"]) for row in engines] == [("e", 5)]


def test_words_beyond_the_limit_read_other_but_the_rest_of_the_series_stays() -> None:
    """A dimension with too many values loses their names alone."""
    step = a_step(Limits(label_cardinality_max=2))
    events = [a_request(tenant=name, model="m") for name in ("a", "b", "c", "d")]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    rows = partials(step, state, changes)

    assert tenants(rows) == {"a": 1, "b": 1, "__other__": 2}
    assert {row["model"] for row in rows} == {"m"}


def test_words_of_refused_events_take_no_place() -> None:
    """Only accepted events name anything."""
    step = a_step(Limits(label_cardinality_max=1))
    refused = a_sample(workload="idle", gpu_uuid="x", util_gpu_pct=101)
    state, changes = fold_all(step, [a_record(SAMPLES, [refused, a_sample(gpu_uuid="y")])], SAMPLES)

    assert [row["gpu_uuid"] for row in partials(step, state, changes)] == ["y"]


def test_a_label_that_says_other_itself_shares_its_row() -> None:
    """``__other__`` sent as a label is the word it looks like."""
    step = a_step(Limits(label_cardinality_max=1))
    events = [a_request(tenant=name) for name in ("a", "__other__", "b")]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)

    assert tenants(partials(step, state, changes)) == {"a": 1, "__other__": 2}


def host_at(host: str, at_ms: int, offset: int = 0) -> Any:
    return a_record(HOSTS, [{"at_ms": at_ms, "host": host, "origin": "measured"}], offset, at_ms)


def names(state: Any) -> list[bytes | None]:
    words = state.series.words[state.plan.dimensions.index("host")].words
    return list(words[OTHER_CODE + 1 :])


def test_places_become_free_when_the_watermark_leaves_a_series_behind() -> None:
    """A series unused for longer than the horizon makes room for a new one; one in use keeps its place."""
    limits = Limits(series_max=2)
    step = a_step(limits)
    state, changes = fold_all(step, [host_at("old", BASE_MS), host_at("kept", BASE_MS, 1)], HOSTS)
    later = BASE_MS + limits.allowed_lateness_ms + SWEEP_MS + MINUTE_MS
    step.fold(state, [host_at("kept", BASE_MS + HOUR_MS, 2), host_at("kept", later, 3)], changes)
    assert names(state) == [b"kept"]

    fresh = step.changes()
    step.fold(state, [host_at("new", later, 4), host_at("more", later, 5)], fresh)
    assert sorted(row["host"] for row in partials(step, state, fresh)) == ["__other__", "new"]


def test_rows_not_sent_yet_keep_their_names_over_a_sweep() -> None:
    """What a sweep forgets is still emitted by its own name."""
    step = a_step()
    later = BASE_MS + 20 * HOUR_MS
    records = [host_at("old", BASE_MS), host_at("kept", later, 1), host_at("new", later + 1, 2)]
    state, changes = fold_all(step, records, HOSTS)

    assert sorted((row["host"], row["window_ms"]) for row in partials(step, state, changes)) == [
        ("kept", later),
        ("new", later),
        ("old", BASE_MS),
    ]
    assert names(state) == [b"kept", b"new"]


hours = st.lists(st.tuples(st.integers(0, 200), st.sampled_from("abcdef")), min_size=1, max_size=20)


@given(hours, st.data())
@settings(max_examples=60, deadline=None)
def test_sweeps_do_not_depend_on_batches_or_commits(steps: list[tuple[int, str]], data: st.DataObject) -> None:
    """Who has a name is decided by the records alone: any cutting, any commits, any restart give the same state."""
    at_ms, records = BASE_MS, []
    for offset, (minutes, host) in enumerate(steps):
        at_ms += minutes * MINUTE_MS
        records.append(host_at(host, at_ms, offset))
    cut = data.draw(st.lists(st.integers(0, len(records)), max_size=5).map(sorted))
    step = a_step(Limits(series_max=3, label_cardinality_max=4))
    whole, whole_changes = fold_all(step, records, HOSTS)
    parts, rows = step.new(HOSTS, 0), []
    for start, stop in zip([0, *cut], [*cut, len(records)], strict=True):
        changes = step.changes()
        step.fold(parts, records[start:stop], changes)
        rows += partials(step, parts, changes)
        parts = step.load(HOSTS, 0, step.dump(parts))

    assert step.dump(parts) == step.dump(whole)
    assert merged(HOSTS, rows) == merged(HOSTS, partials(step, whole, whole_changes))


def test_a_sweep_that_finds_nothing_changes_nothing() -> None:
    """The tables stay the same objects, so that unsent rows need no new ones."""
    state, _ = fold_all(a_step(), [host_at("a", BASE_MS)], HOSTS)

    assert state.series.swept(BASE_MS) is state.series
    assert state.series.swept(BASE_MS + 1) is not state.series


def test_words_no_series_uses_are_swept() -> None:
    """Names taken by events that then fell into ``__other__`` do not stay for ever."""
    step = a_step(Limits(series_max=1))
    state, _ = fold_all(step, [host_at("a", BASE_MS), host_at("b", BASE_MS, 1)], HOSTS)
    assert names(state) == [b"a", b"b"]

    swept = state.series.swept(BASE_MS)
    assert swept.words[state.plan.dimensions.index("host")].words[OTHER_CODE + 1 :] == [b"a"]


def test_a_table_grows_beyond_its_first_room() -> None:
    """Series are found again after the table grew several times."""
    series = Series.new(plan_of(HOSTS), Budget(100_000, 100_000, 1, 1))
    (table,) = series.tables
    rows = 10_000
    codes = np.zeros((len(plan_of(HOSTS).dimensions), rows), np.int32)
    codes[0] = np.arange(2, rows + 2)
    zeros, out, again = np.zeros(rows, np.uint8), np.empty(rows, np.int64), np.empty(rows, np.int64)
    table.find(codes, zeros, np.zeros(rows, np.int64), 0, rows, out)
    table.find(codes, zeros, np.zeros(rows, np.int64), 0, rows, again)

    assert out.tolist() == again.tolist() == list(range(1, rows + 1))


def test_words_have_codes_in_the_order_they_came() -> None:
    """Null is 0, ``__other__`` 1, then first come, first served, up to the limit."""
    words = Words(2)

    assert [words.add(word) for word in (b"x", b"y", b"z")] == [2, 3, OTHER_CODE]
    assert (words.codes[None], words.codes[b"__other__"], words.kept) == (0, 1, 2)
