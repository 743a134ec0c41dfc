"""The windows job as a step: verdicts, books, outputs, time, and what a defect leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.headers import NATIVE, Identity
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.tables import PARTIALS
from stream_jobs.windows import step as step_module
from stream_jobs.windows.series import SWEEP_MS
from tests.unit.stream_jobs.stat_values import values_of
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    SOURCE,
    WINDOW_MS,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    expected,
    fold_all,
    header,
    merged,
    partials,
    rows_in,
)

REQUESTS, SAMPLES = "llm.requests", "gpu.samples"
OUT_OF_ORDERNESS_MS, SKEW_MS, ALLOWED_LATENESS_MS = (
    DEFAULT_LIMITS.out_of_orderness_ms,
    DEFAULT_LIMITS.future_skew_ms,
    DEFAULT_LIMITS.allowed_lateness_ms,
)


def identity(seq: int, boot: int = 1, low: int = 0) -> Identity:
    return Identity(SOURCE, boot, seq, (boot, low))


def books_of(step: Any, state: Any, changes: Any) -> list[tuple[Any, ...]]:
    rows = rows_in(step.rows(state, changes, a_commit(state.topic)), "books")
    return [(r["source"], r["boot"], Verdict(r["verdict"]).name, r["records"], r["events"]) for r in rows]


def test_a_re_sent_record_is_booked_and_adds_nothing() -> None:
    """The second copy of a record is a duplicate with its count header; the rows are those of one copy."""
    step = a_step()
    events = [a_sample(), a_sample(BASE_MS + 1)]
    records = [a_record(SAMPLES, events, offset, identity=identity(0)) for offset in range(3)]
    state, changes = fold_all(step, records, SAMPLES)

    assert merged(SAMPLES, partials(step, state, changes)) == expected(SAMPLES, events)
    assert books_of(step, state, changes) == [(SOURCE, 1, "ACCEPTED", 1, 2), (SOURCE, 1, "DUPLICATE", 2, 4)]


def test_every_event_is_booked_once_by_its_verdict() -> None:
    """Accepted, late, future, refused and third-party events stand apart, by source and boot, and add up."""
    step = a_step()
    now = BASE_MS
    mixed = [
        a_sample(now - ALLOWED_LATENESS_MS),
        a_sample(now - ALLOWED_LATENESS_MS - 1),
        a_sample(now + SKEW_MS),
        a_sample(now + SKEW_MS + 1),
    ]
    records = [
        a_record(SAMPLES, mixed, 0, now, identity(0)),
        a_record(SAMPLES, [a_sample(util_gpu_pct=101), a_sample()], 1, now, identity(0, boot=2)),
        a_record(SAMPLES, [a_sample()], 2, now),
        Record(SAMPLES, 0, 3, now, None, b"junk", ()),
    ]
    state, changes = fold_all(step, records, SAMPLES)

    assert books_of(step, state, changes) == [
        (None, 0, "ACCEPTED", 1, 1),
        (None, 0, "REJECTED", 1, 1),
        (SOURCE, 1, "ACCEPTED", 1, 2),
        (SOURCE, 1, "LATE", 1, 1),
        (SOURCE, 1, "FUTURE", 1, 1),
        (SOURCE, 2, "ACCEPTED", 1, 1),
        (SOURCE, 2, "REJECTED", 1, 1),
    ]
    assert sum(row["event_count"] for row in partials(step, state, changes)) == 4


def test_refused_events_are_kept_with_reason_place_and_source() -> None:
    """``rejected`` names offset, row, source and reason, for single events and for whole records."""
    step = a_step()
    good = a_record(SAMPLES, [a_sample(), a_sample(util_gpu_pct=101)], 7, BASE_MS, identity(0))
    broken = good._replace(offset=8, value=b"\x01", headers=(*good.headers[:4], ("seq", b"1"), *good.headers[5:]))
    state, changes = fold_all(step, [good, broken, broken._replace(offset=9)], SAMPLES)
    rows = rows_in(step.rows(state, changes, a_commit(SAMPLES)), "rejected")

    assert [(r["offset"], r["row"], r["events"], r["source"], r["reason"]) for r in rows] == [
        (7, 1, 1, SOURCE, "out_of_range"),
        (8, None, 2, SOURCE, "syntax"),
    ]
    assert (rows[1]["schema"], rows[1]["content_type"], rows[1]["bytes"], rows[1]["bytes_total"]) == (
        "gpu.samples/1",
        NATIVE,
        "\x01",
        1,
    )
    assert books_of(step, state, changes)[-1] == (SOURCE, 1, "DUPLICATE", 1, 2)


def test_a_record_refused_before_its_contents_counts_for_its_source_once() -> None:
    """Another topic's schema: refused, but the identity is known and a re-send is a duplicate."""
    step = a_step()
    record = a_record(SAMPLES, [a_sample()], 0, BASE_MS, identity(0))
    state, changes = fold_all(step, [_with(record, "schema", b"no.such/1")] * 2, SAMPLES)

    assert books_of(step, state, changes) == [(SOURCE, 1, "REJECTED", 1, 1), (SOURCE, 1, "DUPLICATE", 1, 1)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("count", b"999999999999999999", id="more events than a batch may hold"),
        pytest.param("count", None, id="a header without a value"),
        pytest.param("schema", None, id="a schema without a value"),
        pytest.param("content-type", None, id="a content type without a value"),
    ],
)
def test_headers_that_cannot_be_read_are_nobodys(name: str, value: bytes | None) -> None:
    """One event of nobody's whatever they claim; whoever forges them moves no book and no dedup state of a source."""
    step = a_step()
    good = a_record(SAMPLES, [a_sample()], 3, BASE_MS, identity(0))
    state, changes = fold_all(step, [_with(good, name, value)] * 2 + [good], SAMPLES)

    assert books_of(step, state, changes) == [(None, 0, "REJECTED", 2, 2), (SOURCE, 1, "ACCEPTED", 1, 1)]
    rows = rows_in(step.rows(state, changes, a_commit(SAMPLES)), "rejected")
    assert [(r["events"], r["source"], r["reason"]) for r in rows] == [(1, None, "headers")] * 2


def test_a_defect_met_by_unreadable_headers_is_one_event_of_nobodys() -> None:
    """Also a record that makes the fold raise books no count that nobody can trust."""
    step = a_step()
    state, changes = step.new(SAMPLES, 0), step.changes()
    record = a_record(SAMPLES, [a_sample()], 0, BASE_MS, identity(0))
    step.reject(state, _with(record, "count", b"999999999999999999"), "broken", changes)

    assert books_of(step, state, changes) == [(None, 0, "REJECTED", 1, 1)]


def _with(record: Record, name: str, value: bytes | None) -> Record:
    """The record with another value of a header; Kafka allows None."""
    headers: Any = tuple((key, value if key == name else known) for key, known in record.headers)
    return record._replace(headers=headers)


def test_a_record_that_makes_the_fold_raise_leaves_no_trace(monkeypatch: Any) -> None:
    """Judging raises before anything moved; then the record is booked as internal, its re-send as duplicate."""
    step = a_step()
    good, poison = (a_record(SAMPLES, [a_sample()], n, BASE_MS, identity(n)) for n in range(2))
    state, changes = fold_all(step, [good], SAMPLES)
    before = (step.dump(state), step.rows(state, changes, a_commit(SAMPLES)))
    state.last_sent.clear()

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(step_module, "judge", fails)
        with pytest.raises(ZeroDivisionError):
            step.fold(state, [poison], changes)
    assert (step.dump(state), step.rows(state, changes, a_commit(SAMPLES))) == before

    step.reject(state, poison, "ZeroDivisionError", changes)
    step.fold(state, [poison], changes)
    rejected = rows_in(step.rows(state, changes, a_commit(SAMPLES)), "rejected")
    assert [(r["reason"], r["detail"], r["events"]) for r in rejected] == [("internal", "ZeroDivisionError", 1)]
    assert books_of(step, state, changes) == [
        (SOURCE, 1, "ACCEPTED", 1, 1),
        (SOURCE, 1, "REJECTED", 1, 1),
        (SOURCE, 1, "DUPLICATE", 1, 1),
    ]


def test_rejecting_twice_books_a_duplicate() -> None:
    """A poison record that the edge sends again is rejected once."""
    step = a_step()
    state, changes = step.new(SAMPLES, 0), step.changes()
    poison = a_record(SAMPLES, [a_sample()], 0, BASE_MS, identity(0))
    for _ in range(2):
        step.reject(state, poison, "broken", changes)

    assert books_of(step, state, changes) == [(SOURCE, 1, "REJECTED", 1, 1), (SOURCE, 1, "DUPLICATE", 1, 1)]
    assert len(changes.rejections) == 1


def test_every_target_partition_hears_of_the_first_commit_that_passes_a_window() -> None:
    """One record per target partition, with rows or without, each with progress and where it stands."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + 4_000)], identity=identity(0))], SAMPLES)
    outputs = step.rows(state, changes, a_commit(SAMPLES, 5, 9, number=40))
    sent = [output for output in outputs if output.topic == "window.partials"]

    assert [output.partition for output in sent] == list(range(PARTITIONS["window.partials"]))
    assert sorted(header(output, "rows") for output in sent) == ["0", "0", "1"]
    assert all((header(output, "rows") == "0") == (output.value == b"") for output in sent)
    names = (
        "job",
        "schema",
        "content-type",
        "source-topic",
        "source-partition",
        "offsets",
        "part",
        "previous",
        "watermark",
        "idle",
    )
    assert {tuple(header(output, name) for name in names) for output in sent} == {
        ("windows", PARTIALS[SAMPLES].schema, NATIVE, SAMPLES, "0", "5-9", "1/1", "", str(BASE_MS + 2_000), "0")
    }
    assert [header(output, "number") for output in sent] == ["40", "41", "42"]


def test_a_commit_without_events_writes_one_line_of_zeros() -> None:
    """Offsets that held nothing bookable are covered all the same; a commit without offsets writes no books."""
    step = a_step()
    state, changes = step.new(SAMPLES, 0), step.changes()

    assert books_of(step, state, changes) == [(None, 0, "ACCEPTED", 0, 0)]
    assert rows_in(step.rows(state, changes, a_commit(SAMPLES, 4, 4)), "books") == []


@pytest.mark.parametrize(
    ("at_ms", "appended_ms", "progress_ms"),
    [(BASE_MS, BASE_MS + 9, BASE_MS), (BASE_MS + 9, BASE_MS, BASE_MS), (BASE_MS - 9, BASE_MS, BASE_MS - 9)],
    ids=["the event time", "never above the append time", "also behind it"],
)
def test_progress_is_event_time_not_above_append_time(at_ms: int, appended_ms: int, progress_ms: int) -> None:
    """A fast clock at one edge moves nobody's watermark ahead of the log."""
    step = a_step()
    state, _ = fold_all(step, [a_record(SAMPLES, [a_sample(at_ms)], 0, appended_ms)], SAMPLES)

    assert state.progress_ms == progress_ms


def test_only_accepted_events_make_progress() -> None:
    """Late, future, refused and repeated events move no watermark."""
    step = a_step()
    rows = [a_sample(BASE_MS + SKEW_MS + 1), a_sample(BASE_MS - ALLOWED_LATENESS_MS - 1), a_sample(util_gpu_pct=101)]
    first = a_record(SAMPLES, [a_sample(BASE_MS - 9_000)], 0, BASE_MS, identity(0))
    repeated = a_record(SAMPLES, [a_sample(BASE_MS)], 1, BASE_MS, identity(0))
    state, _ = fold_all(step, [first, repeated, a_record(SAMPLES, rows, 2, BASE_MS)], SAMPLES)

    assert state.progress_ms == BASE_MS - 9_000


TEN_MINUTES_MS = 600_000


@pytest.mark.parametrize("skew_ms", [-TEN_MINUTES_MS, TEN_MINUTES_MS, -ALLOWED_LATENESS_MS - TEN_MINUTES_MS])
def test_a_host_whose_clock_is_off_holds_up_no_watermark(skew_ms: int) -> None:
    """Alone in its partition it moves the watermark as if its clock were right; its events stay where they were."""
    step = a_step()
    record = a_record(SAMPLES, [a_sample(BASE_MS + skew_ms)], 0, BASE_MS + 40, identity(0), skew_ms)
    state, changes = fold_all(step, [record], SAMPLES)

    outputs = step.rows(state, changes, a_commit(SAMPLES))
    assert header(outputs[0], "watermark") == str(BASE_MS - OUT_OF_ORDERNESS_MS)
    windows = {row["window_ms"] for row in partials(step, state, changes)}
    assert windows == ({(BASE_MS + skew_ms) // WINDOW_MS * WINDOW_MS} if skew_ms == -TEN_MINUTES_MS else set())


def test_a_host_whose_clock_is_off_moves_the_watermark_of_others_never_beyond_the_log() -> None:
    """What it says of its clock can be wrong too: no further than the append time, and never back."""
    step = a_step()
    right = a_record(SAMPLES, [a_sample(BASE_MS)], 0, BASE_MS + 40, identity(0))
    behind = a_record(SAMPLES, [a_sample(BASE_MS)], 1, BASE_MS + 50, identity(1), -TEN_MINUTES_MS)
    ahead = a_record(SAMPLES, [a_sample(BASE_MS)], 2, BASE_MS + 60, identity(2), TEN_MINUTES_MS)

    assert fold_all(step, [right, behind], SAMPLES)[0].progress_ms == BASE_MS + 50
    assert fold_all(step, [right, ahead], SAMPLES)[0].progress_ms == BASE_MS


@pytest.mark.parametrize(("skew_ms", "progress_ms"), [(-SKEW_MS, BASE_MS - SKEW_MS), (-SKEW_MS - 1, BASE_MS)])
def test_a_clock_that_is_off_by_less_than_a_future_event_is_waited_for(skew_ms: int, progress_ms: int) -> None:
    """Its events then reach the windows that they name before these close."""
    record = a_record(SAMPLES, [a_sample(BASE_MS + skew_ms)], 0, BASE_MS + 40, identity(0), skew_ms)
    state, _ = fold_all(a_step(), [record], SAMPLES)

    assert state.progress_ms == progress_ms


def test_events_that_are_late_though_the_clock_is_off_hold_the_watermark_as_a_backlog_does() -> None:
    """The skew alone is taken out: a spool that waited for an hour is an hour behind."""
    at_ms = BASE_MS - TEN_MINUTES_MS - 3_600_000
    record = a_record(SAMPLES, [a_sample(at_ms)], 0, BASE_MS, identity(0), -TEN_MINUTES_MS)

    assert fold_all(a_step(), [record], SAMPLES)[0].progress_ms == BASE_MS - 3_600_000


def test_the_clock_moves_the_watermark_only_of_an_idle_partition() -> None:
    """The owner's clock counts when the partition was read to its end and is quiet, and never backwards."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS)])], SAMPLES)

    def announced(**fields: Any) -> int:
        state.last_sent.clear()
        return int(header(step.rows(state, changes, a_commit(SAMPLES, **fields))[0], "watermark"))

    assert announced(now_ms=BASE_MS + 60_000) == BASE_MS - OUT_OF_ORDERNESS_MS
    assert announced(now_ms=BASE_MS + 60_000, idle=True) == BASE_MS + 60_000 - OUT_OF_ORDERNESS_MS
    assert announced(now_ms=0, idle=True) == BASE_MS - OUT_OF_ORDERNESS_MS


def test_a_partition_that_never_held_an_event_announces_nothing() -> None:
    """Before the first event the watermark is 0: no window has passed."""
    step = a_step()

    outputs = step.rows(step.new(SAMPLES, 0), step.changes(), a_commit(SAMPLES))

    assert [output.topic for output in outputs] == ["books"]


@pytest.mark.parametrize(("ahead_ms", "due"), [(-1, False), (0, True)])
def test_a_commit_is_due_when_the_watermark_reaches_the_end_of_an_open_window(ahead_ms: int, due: bool) -> None:
    """Due exactly when a window with unsent rows has passed."""
    step = a_step()
    end = BASE_MS + WINDOW_MS + OUT_OF_ORDERNESS_MS
    records = [a_record(SAMPLES, [a_sample(BASE_MS)], 0), a_record(SAMPLES, [a_sample(end + ahead_ms)], 1)]
    state, changes = fold_all(step, records, SAMPLES)

    assert step.due(state, changes) is due


def test_rows_for_a_window_that_passed_before_wait_for_the_next_tick() -> None:
    """Stragglers ask for no commit of their own, else every late event would be one."""
    step = a_step()
    state, _ = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + 60_000)])], SAMPLES)
    changes = step.changes()
    step.fold(state, [a_record(SAMPLES, [a_sample(BASE_MS)], 1, BASE_MS + 60_000)], changes)

    assert not step.due(state, changes)
    assert len(partials(step, state, changes)) == 1


def test_no_records_fold_to_nothing() -> None:
    """An empty fetch changes nothing."""
    step = a_step()
    state, changes = step.new(SAMPLES, 0), step.changes()
    before = step.dump(state)
    step.fold(state, [], changes)

    assert (step.dump(state), changes.segments, changes.books.lines()) == (before, [], [])


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(-7, 7), min_size=1, max_size=4)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_books_add_up_to_what_was_sent(sent: list[tuple[int, list[int]]]) -> None:
    """Accepted + late + future + rejected of all sources is the events of distinct records; duplicates stand apart."""
    step = a_step()
    seen, distinct, repeated = set(), 0, 0
    records = []
    for offset, (seq, kinds) in enumerate(sent):
        rows = [a_sample(BASE_MS + kind * 2_000, util_gpu_pct=101 if kind == 0 else 1) for kind in kinds]
        records.append(a_record(SAMPLES, rows, offset, BASE_MS, identity(seq)))
        if seq in seen:
            repeated += len(rows)
        else:
            distinct += len(rows)
        seen.add(seq)
    state, changes = fold_all(step, records, SAMPLES)
    totals = dict.fromkeys(Verdict, 0)
    for _, _, verdict, _, events in changes.books.lines():
        totals[Verdict(verdict)] += events

    assert sum(totals.values()) - totals[Verdict.DUPLICATE] == distinct
    assert totals[Verdict.DUPLICATE] == repeated
    assert sum(row["event_count"] for row in partials(step, state, changes)) == totals[Verdict.ACCEPTED]


def test_every_topic_folds() -> None:
    """Each source topic has its plan, also without sketches or without measures."""
    step = a_step()
    where = {"at_ms": BASE_MS, "host": "h", "origin": "measured"}
    events = {
        "gpu.events": {**where, "gpu_uuid": "g", "kind": "xid", "severity": "critical", "code": 79},
        "host.samples": {**where, "cpu_busy_ppm": 5, "disk_read_bytes": 7},
        "engine.samples": {**where, "running": 3, "generation_tokens": 70, "model": "m"},
        "host.processes": {**where, "process_name": "vllm", "cpu_ppm": 1_900_000, "read_bytes": 9},
        "training.steps": {**where, "job": "j", "step_us": 800_000, "loss_micro": -7, "samples": 16},
        "custom.metrics": {**where, "metric": "depth", "value_micro": -5, "increase_micro": None},
    }
    for topic, event in events.items():
        state, changes = fold_all(step, [a_record(topic, [event, event])], topic)

        assert merged(topic, partials(step, state, changes)) == expected(topic, [event, event])


@pytest.mark.parametrize(
    ("topic", "event", "heard_by"),
    [
        ("gpu.processes", {"gpu_uuid": "g", "pid": 7, "memory_bytes": 2**30}, PARTITIONS["window.partials"]),
        ("host.devices", {"device": "eth0", "device_kind": "interface", "tx_bytes": 5}, 0),
        ("engine.events", {"engine_id": "e", "kind": "registered", "gpu_uuids": "g,h"}, 0),
    ],
)
def test_a_topic_without_grouping_sets_is_judged_and_booked_and_has_no_rows(
    topic: str, event: dict[str, Any], heard_by: int
) -> None:
    """Every event is in the books by its verdict, progress is announced where bills wait for it, and the state survives
    a sweep and a restart."""
    step = a_step()
    row = {"at_ms": BASE_MS, "host": "h", "origin": "measured", **event}
    later = {**row, "at_ms": BASE_MS + SWEEP_MS + ALLOWED_LATENESS_MS}
    first = a_record(topic, [row, {**row, "host": ""}], 0, identity=identity(0))
    again, last = a_record(topic, [row, row], 1, identity=identity(0)), a_record(topic, [later], 2)
    state, changes = fold_all(step, [first, again, last], topic)

    outputs = step.rows(state, changes, a_commit(topic, 0, 3))
    assert sorted(books_of(step, state, changes), key=str) == [
        (SOURCE, 1, "ACCEPTED", 1, 1),
        (SOURCE, 1, "DUPLICATE", 1, 2),
        (SOURCE, 1, "REJECTED", 1, 1),
        (None, 0, "ACCEPTED", 1, 1),
    ]
    assert [line["reason"] for line in rows_in(outputs, "rejected")] == ["missing_field"]
    progress = [output for output in outputs if output.topic == "window.partials"]
    assert [output.value for output in progress] == [b""] * heard_by
    watermarks = {header(output, "watermark") for output in progress}
    assert watermarks <= {str(later["at_ms"] - OUT_OF_ORDERNESS_MS)}
    stats = values_of(step.stats(state, changes))
    assert not [metric for metric, *_ in stats if metric in ("job_series", "job_overflow_events")]
    assert stats["job_label_values", topic, 0] == 0
    assert step.dump(step.load(topic, 0, step.dump(state))) == step.dump(state)


def test_a_smaller_window_is_a_parameter() -> None:
    """Windows of another length start at multiples of it."""
    small = step_module.WindowsStep(DEFAULT_LIMITS, PARTITIONS, window_ms=1_000)
    state, changes = fold_all(small, [a_record(REQUESTS, [a_request(BASE_MS + 1_999)])], REQUESTS)

    assert {row["window_ms"] for row in partials(small, state, changes)} == {BASE_MS + 1_000}
