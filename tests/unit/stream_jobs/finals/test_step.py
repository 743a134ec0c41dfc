"""The finals step: when a window is told, what of it, what again, and that a replay makes the same state."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.record import Output, Record
from schemas.errors import ContractError
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.finals import PROGRESS_SCHEMA, finals_schema
from stream_jobs.finals import changes as commits
from stream_jobs.finals.changes import Changes, State
from stream_jobs.finals.decode import decode
from stream_jobs.finals.progress import PAUSE_MS, sources_of
from stream_jobs.finals.step import FinalsStep
from stream_jobs.finals.upstream import read
from tests.unit.stream_jobs.finals.cases import (
    END_MS,
    PARTITION,
    REQUESTS,
    SAMPLES,
    SOURCES,
    WINDOW_MS,
    Upstream,
    a_state,
    a_step,
    an_exemplar,
    folded,
    headers_of,
    heads,
    last_rows,
    request_rows,
    rows_told,
    sample_rows,
    sent,
)
from tests.unit.stream_jobs.stat_values import values_of
from tests.unit.stream_jobs.windows.cases import BASE_MS, merged


def test_a_window_is_told_when_every_source_has_passed_it() -> None:
    """Not one millisecond before; whole, merged over commits, with the offset of its last change."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    rows = [request_rows(BASE_MS + at, ttft_us=at) for at in (1, 2)]
    step.fold(state, upstream.commit(SAMPLES, END_MS) + upstream.commit(REQUESTS, BASE_MS), changes)
    sent(step, state, changes)
    changes = step.changes()

    for part in rows:
        step.fold(state, upstream.commit(REQUESTS, END_MS - 1, part), changes)
    early = (step.due(state, changes), sent(step, state, changes))
    step.fold(state, upstream.commit(REQUESTS, END_MS), changes)
    due, outputs = step.due(state, changes), sent(step, state, changes)

    assert early == (False, [])
    assert due
    assert heads(outputs) == [(BASE_MS, 3, True, END_MS)]
    assert merged("llm.requests", rows_told(outputs)) == merged("llm.requests", [row for part in rows for row in part])
    assert dict(outputs[0].headers)["upstream"] == b"%d" % PARTITION


def test_progress_is_told_where_there_are_no_rows() -> None:
    """Whoever waits for this upstream must not wait for ever; told once."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)

    step.fold(state, upstream.commit(SAMPLES, END_MS + 3) + upstream.commit(REQUESTS, END_MS + 7), changes)
    outputs = sent(step, state, changes)
    changes = step.changes()
    step.fold(state, upstream.commit(SAMPLES, END_MS + 9) + upstream.commit(REQUESTS, END_MS + 9), changes)

    assert [headers_of(output).schema for output in outputs] == [PROGRESS_SCHEMA]
    assert (heads(outputs), outputs[0].value) == ([(0, 0, False, END_MS)], b"")
    assert (step.due(state, changes), sent(step, state, changes)) == (False, [])


def test_only_the_last_record_of_a_commit_tells_progress() -> None:
    """Tables in their order, windows in theirs, exemplars last."""
    step, upstream = a_step(), Upstream()
    later = request_rows(END_MS)
    upstream.commit(SAMPLES, BASE_MS + 5, sample_rows(BASE_MS))
    upstream.commit(REQUESTS, END_MS + WINDOW_MS, request_rows(BASE_MS), later, exemplars=[an_exemplar()])
    upstream.commit(SAMPLES, END_MS + WINDOW_MS)

    outputs = folded(step, upstream.log)

    assert [(headers_of(output).schema, *head) for output, head in zip(outputs, heads(outputs), strict=True)] == [
        ("llm_requests_finals/1", BASE_MS, 2, True, 0),
        ("gpu_samples_finals/1", BASE_MS, 2, True, 0),
        ("exemplars/1", BASE_MS, 2, True, 0),
        ("llm_requests_finals/1", END_MS, 3, True, END_MS + WINDOW_MS),
    ]


def test_a_hot_window_that_changes_is_told_again_by_its_changed_series() -> None:
    """Each whole, with the higher revision; the others stay as told."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    step.fold(state, upstream.commit(SAMPLES, END_MS, sample_rows(gpu_uuid="a") + sample_rows(gpu_uuid="b")), changes)
    step.fold(state, upstream.commit(REQUESTS, END_MS), changes)
    sent(step, state, changes)
    changes = step.changes()

    step.fold(state, upstream.commit(SAMPLES, END_MS + 1, sample_rows(gpu_uuid="b")), changes)
    outputs = sent(step, state, changes)

    assert not step.due(state, changes)
    assert heads(outputs) == [(BASE_MS, 2, True, END_MS)]
    assert [(r["gpu_uuid"], r["event_count"]) for r in rows_told(outputs, "gpu_samples_finals/1")] == [("b", 2)]


def test_what_changes_before_the_commit_is_told_once() -> None:
    """A window that was closed and changed between two commits is one whole."""
    step, upstream = a_step(), Upstream()
    upstream.commit(SAMPLES, END_MS, sample_rows(gpu_uuid="a"))
    upstream.commit(REQUESTS, END_MS)
    upstream.commit(SAMPLES, END_MS + 1, sample_rows(gpu_uuid="a"))

    outputs = folded(step, upstream.log)

    assert heads(outputs) == [(BASE_MS, 2, True, END_MS)]
    assert [r["event_count"] for r in rows_told(outputs, "gpu_samples_finals/1")] == [2]


@pytest.mark.parametrize(("beyond_ms", "told"), [(-WINDOW_MS, 1), (0, 0)], ids=["still hot", "cold"])
def test_rows_of_cold_windows_are_counted_and_dropped(beyond_ms: int, told: int) -> None:
    """The tables have them; the stream has moved on."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    now_ms = END_MS + DEFAULT_LIMITS.hot_ms + beyond_ms
    step.fold(state, upstream.commit(SAMPLES, now_ms) + upstream.commit(REQUESTS, now_ms), changes)
    sent(step, state, changes)
    changes = step.changes()

    step.fold(state, upstream.commit(SAMPLES, now_ms, sample_rows()), changes)
    outputs = sent(step, state, changes)

    assert len(outputs) == told
    stats = values_of(step.stats(state, changes))
    assert [stats[name, PARTITION] for name in ("finals_rows", "finals_late_rows")] == [told, 1 - told]


def test_what_was_lost_is_said_first_in_whatever_is_sent_until_that_is_well_behind_it() -> None:
    """Over a restart too: a reset may fold silently what is said first. Then no snapshot has it any more."""
    step, upstream = a_step(), Upstream()
    state, _ = a_state(step)
    step.begin_again(state, 0, BASE_MS)
    lost_to_ms = state.progress.through_ms
    state, said = step.load("window.partials", PARTITION, step.dump(state)), list[list[int]]()
    for number in range(30):
        at_ms, changes = BASE_MS + number * WINDOW_MS, step.changes()
        records = upstream.commit(REQUESTS, at_ms, request_rows(at_ms)) + upstream.commit(SAMPLES, at_ms)
        step.fold(state, records, changes)
        found = [headers_of(output) for output in sent(step, state, changes)]
        said.append([place for place, one in enumerate(found) if one.window_ms == lost_to_ms and not one.rows])

    spoken = {*range(1, 13), *range(14, 27)}  # nothing is sent of window 0, which is cold, nor while 13 is open
    assert lost_to_ms == BASE_MS + 13 * WINDOW_MS
    assert said == [[0] if number in spoken else [] for number in range(30)]
    assert b"lost" not in step.dump(state)[0]


def test_a_silent_source_is_waited_for_then_left_out() -> None:
    """The window is closed without it once others are ``final_wait_ms`` beyond its end; it says so."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    wait_ms = DEFAULT_LIMITS.final_wait_ms
    told = []
    for passed_s in range(0, 50, 2):
        watermark_ms = BASE_MS + 1_000 * passed_s
        rows = sample_rows() if passed_s == 0 else []
        step.fold(state, upstream.commit(SAMPLES, watermark_ms, rows), changes)
        if step.due(state, changes):
            told += [(passed_s, *head) for head in heads(sent(step, state, changes)) if head[0]]
            changes = step.changes()

    assert told == [((WINDOW_MS + wait_ms) // 1_000, BASE_MS, 0, False, END_MS)]


def test_progress_does_not_fall_by_a_restart() -> None:
    """What passed because a source was silent stays passed when that source speaks again, dumped in between or not."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    step.fold(state, upstream.commit(REQUESTS, BASE_MS), changes)
    for second in range(0, 70, 2):
        step.fold(state, upstream.commit(SAMPLES, BASE_MS + 1_000 * second), changes)
    passed_ms = state.progress.passed_ms

    again = step.load("window.partials", PARTITION, step.dump(state))
    back = upstream.commit(REQUESTS, BASE_MS + 1_000, at_ms=BASE_MS + 72_000)
    for each in (state, again):
        step.fold(each, back, changes)

    assert passed_ms == BASE_MS + 38_000
    assert (state.progress.passed_ms, again.progress.passed_ms) == (passed_ms, passed_ms)
    assert step.replay_from(state, state.position) == state.position


def test_what_is_replayed_is_packed_not_kept_for_a_commit() -> None:
    """A job that starts holds no more than one that runs: windows told long ago wait for no commit."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    upstream.commit(SAMPLES, END_MS, sample_rows())
    upstream.commit(REQUESTS, END_MS)
    step.fold(state, upstream.log, changes)

    again, changes = step.load("window.partials", PARTITION, step.dump(state)), step.changes()
    step.fold(again, upstream.log, changes)
    step.fold(again, [], changes)
    (pile,) = again.windows[BASE_MS].piles.values()

    assert step.replay_from(state, state.position) == 0
    assert (changes, pile.parts, pile.base, pile.rows) == (step.changes(), [], None, 1)


def test_a_source_that_works_off_a_backlog_is_waited_for() -> None:
    """Its watermark rises: it is behind, not silent, however far ahead the others are."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    step.fold(state, upstream.commit(REQUESTS, BASE_MS, request_rows()), changes)
    for second in range(100):
        at_ms = BASE_MS + 3_600_000 + 1_000 * second
        step.fold(state, upstream.commit(SAMPLES, at_ms, at_ms=at_ms), changes)
        step.fold(state, upstream.commit(REQUESTS, BASE_MS + 90 * second, at_ms=at_ms), changes)

    assert (step.due(state, changes), state.progress.through_ms) == (True, BASE_MS)


def test_a_silence_of_everybody_makes_nobody_silent() -> None:
    """After an outage the first to come back does not close windows on the others."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    step.fold(state, upstream.commit(REQUESTS, BASE_MS, at_ms=BASE_MS), changes)
    step.fold(state, upstream.commit(SAMPLES, BASE_MS, at_ms=BASE_MS), changes)
    hour_ms = BASE_MS + 3_600_000

    step.fold(state, upstream.commit(SAMPLES, hour_ms, at_ms=hour_ms), changes)

    assert (state.progress.passed_ms, state.progress.clock.now_ms) == (BASE_MS, PAUSE_MS)


def test_a_worker_whose_clock_was_ahead_and_that_died_keeps_no_window_waiting() -> None:
    """Its successor's records are older than its own for as long as that; a snapshot remembers it."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    step.fold(state, upstream.commit(REQUESTS, BASE_MS, at_ms=BASE_MS), changes)
    step.fold(state, upstream.commit(SAMPLES, BASE_MS, at_ms=BASE_MS + 3_600_000), changes)
    wait_ms = DEFAULT_LIMITS.final_wait_ms
    for second in range(2 * wait_ms // 1_000 + 1):
        at_ms = BASE_MS + 1_000 * second
        step.fold(state, upstream.commit(SAMPLES, at_ms, at_ms=at_ms), changes)
        state = step.load("window.partials", PARTITION, step.dump(state))

    assert state.progress.passed_ms == BASE_MS + wait_ms


def test_a_source_outside_the_contract_holds_nothing_up() -> None:
    """Topics without grouping sets announce too; a partition more than was told counts from when it is heard."""
    step, upstream = a_step(), Upstream()
    upstream.commit(SAMPLES, END_MS, sample_rows())
    upstream.commit(REQUESTS, END_MS)
    upstream.commit(("gpu.processes", 0), BASE_MS)
    state, changes = a_state(step)
    step.fold(state, upstream.log, changes)

    upstream.commit(("gpu.samples", 1), END_MS + 1)
    step.fold(state, upstream.log[-1:], changes)

    assert sources_of({"gpu.samples": 2, "gpu.processes": 1}) == (("gpu.samples", 0), ("gpu.samples", 1))
    assert sorted(state.progress.announced) == [SAMPLES, ("gpu.samples", 1), REQUESTS]
    assert heads(sent(step, state, changes)) == [(BASE_MS, 0, True, END_MS)]


def test_a_source_that_the_contract_has_no_more_is_forgotten_at_the_next_start() -> None:
    """A topic whose partitions became fewer: what stands still there made every window incomplete for ever."""
    upstream, large = Upstream(), a_step(sources={**SOURCES, "gpu.samples": 2})
    state, changes = a_state(large)
    for source in (SAMPLES, ("gpu.samples", 1), REQUESTS):
        large.fold(state, upstream.commit(source, BASE_MS), changes)

    small = a_step()
    state, changes = small.load("window.partials", PARTITION, large.dump(state)), small.changes()
    small.fold(state, [*upstream.commit(SAMPLES, END_MS, sample_rows()), *upstream.commit(REQUESTS, END_MS)], changes)

    assert sorted(state.progress.announced) == [SAMPLES, REQUESTS]
    assert heads(sent(small, state, changes)) == [(BASE_MS, 3, True, END_MS)]


def test_too_many_open_rows_close_the_oldest_windows() -> None:
    """Memory has a limit; what is closed so is incomplete."""
    step, upstream = a_step(open_rows_max=3), Upstream()
    for window_ms in (BASE_MS, END_MS, END_MS + WINDOW_MS):
        upstream.commit(SAMPLES, BASE_MS, sample_rows(window_ms, gpu_uuid="a") + sample_rows(window_ms, gpu_uuid="b"))

    outputs = folded(step, upstream.log)

    assert heads(outputs) == [(BASE_MS, 0, False, 0), (END_MS, 1, False, END_MS + WINDOW_MS)]


@pytest.mark.parametrize(
    ("links", "left_out", "gaps"),
    [
        (True, (), 0),
        (True, (0,), 0),
        (True, (1,), 1),
        (True, (2,), 1),
        (True, (3,), 1),
        (True, (1, 2), 1),
        (True, (1, 3), 2),
        (False, (), 0),
        (False, (1,), 1),
        (False, (2,), 1),
    ],
    ids=str,
)
def test_gaps_are_counted_never_fatal(links: bool, left_out: tuple[int, ...], gaps: int) -> None:
    """A part or a commit that is missing; not before the first record of a source. Without links, as 0.1.0 writes, a
    part."""
    step, upstream = a_step(), Upstream(links=links)
    upstream.commit(SAMPLES, BASE_MS)
    upstream.commit(SAMPLES, BASE_MS, sample_rows(gpu_uuid="a"), sample_rows(gpu_uuid="b"))
    upstream.commit(SAMPLES, BASE_MS + 1)
    upstream.commit(SAMPLES, BASE_MS + 2)

    state, changes = a_state(step)
    step.fold(state, [record for number, record in enumerate(upstream.log) if number not in left_out], changes)

    assert values_of(step.stats(state, changes))["finals_gaps", PARTITION] == gaps


def test_a_record_of_another_version_is_refused_by_name() -> None:
    """The runner isolates it; the step counts it and passes it over ever after."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    (good,) = upstream.commit(SAMPLES, END_MS, sample_rows())
    strange = [
        good._replace(headers=(("schema", b"later/1"),)),
        good._replace(headers=good.headers[:3]),
        good._replace(value=b"\x01"),
    ]
    for record in strange:
        with pytest.raises(ContractError, match=r"window\.partials\[2\] offset 0"):
            step.fold(state, [record], step.changes())

    state, changes = a_state(step)
    step.reject(state, strange[0], "why", changes)
    step.fold(state, strange, changes)

    assert (changes.rejected, state.position) == (1, 1)
    assert step.load("window.partials", PARTITION, step.dump(state)).rejected == set()


def test_large_blocks_are_cut_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record is larger than the limit while it has more rows than one; together they are the block."""
    upstream = Upstream()
    rows = [row for number in range(9) for row in request_rows(tenant=f"t{number}")]
    exemplars = [an_exemplar(engine_id=f"e{number}") for number in range(9)]
    upstream.commit(REQUESTS, END_MS, rows, exemplars=exemplars)
    upstream.commit(SAMPLES, END_MS)
    whole = folded(a_step(), upstream.log)
    monkeypatch.setattr(commits, "RECORD_BYTES_MAX", 3_000)

    cut = folded(a_step(), upstream.log)

    assert len(cut) > len(whole) == 2
    for schema in (finals_schema("llm.requests"), "exemplars/1"):
        assert rows_told(cut, schema) == rows_told(whole, schema)
    assert [head[3] for head in heads(cut)] == [0] * (len(cut) - 1) + [END_MS]
    assert sum(headers_of(output).rows for output in cut) == sum(headers_of(output).rows for output in whole)


def test_rows_of_a_foreign_order_are_read_too() -> None:
    """Columns may come in another order."""
    upstream = Upstream()
    (record,) = upstream.commit(SAMPLES, END_MS, sample_rows())
    (decoded,) = decode([record], [read(record).schema])

    assert list(decoded.pieces()) == [(0, BASE_MS, 1)]
    assert decode([record._replace(value=b"")], [read(record).schema]) == []


# Random logs.

LIMITS = dataclasses.replace(DEFAULT_LIMITS, hot_ms=25_000, final_wait_ms=6_000)
COMMITS = st.lists(
    st.tuples(
        st.sampled_from([REQUESTS, SAMPLES]),
        st.integers(0, 4),
        st.lists(st.tuples(st.integers(-4, 4), st.sampled_from("abc")), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


def random_log(commits: list[Any], hole: int) -> list[Record]:
    """Sources that move by some seconds a commit, rows of windows around; some come in two parts."""
    upstream, at = Upstream(hole), {REQUESTS: 0, SAMPLES: 0}
    for source, seconds, found, in_two in commits:
        at[source] += seconds
        watermark_ms = BASE_MS + 5_000 * at[source]
        make = request_rows if source == REQUESTS else sample_rows
        label = "tenant" if source == REQUESTS else "gpu_uuid"
        rows = [row for away, word in found for row in make(watermark_ms + WINDOW_MS * away, **{label: word})]
        middle = len(rows) // 2 if in_two else len(rows)
        upstream.commit(source, watermark_ms, rows[:middle], *([rows[middle:]] if in_two else []))
    return upstream.log


class Run:
    """A step fed with a log, committing after some records."""

    def __init__(self, step: FinalsStep) -> None:
        self.step = step
        self.state: State
        self.changes: Changes
        self.state, self.changes = a_state(step)
        self.told: list[list[Output]] = []

    def feed(self, records: list[Record], cut: int) -> None:
        for start in range(0, len(records), cut):
            self.step.fold(self.state, records[start : start + cut], self.changes)

    def commit(self) -> None:
        self.told.append(sent(self.step, self.state, self.changes))
        self.changes = self.step.changes()

    def die(self, log: list[Record], dumped: tuple[list[bytes], int], committed: int, cut: int) -> None:
        """Load what was dumped, and fold silently up to the committed offset."""
        parts, start = dumped
        self.state, self.changes = self.step.load("window.partials", PARTITION, parts), self.step.changes()
        self.feed([record for record in log if start <= record.offset < committed], cut)
        self.changes = self.step.changes()

    def dumped(self) -> tuple[list[bytes], int]:
        return self.step.dump(self.state), self.step.replay_from(self.state, self.state.position)


@settings(max_examples=30)
@given(COMMITS, st.data(), st.sampled_from([0, 1]), st.sampled_from([3, 10**6]))
def test_a_replayed_state_tells_the_same_bytes(commits: list[Any], data: Any, hole: int, open_rows_max: int) -> None:
    """However the log is cut into folds, and wherever the job dies after a dump some commits ago."""
    log = random_log(commits, hole)
    whole, broken = (Run(a_step(LIMITS, open_rows_max=open_rows_max)) for _ in range(2))
    stops = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=5)) | {len(log)})
    dumped, start = broken.dumped(), 0
    for stop in stops:
        whole.feed(log[start:stop], len(log))
        whole.commit()
        broken.feed(log[start:stop], data.draw(st.integers(1, 4)))
        broken.commit()
        if data.draw(st.booleans()):
            dumped = broken.dumped()
        if data.draw(st.booleans()):
            committed = log[stop - 1].offset + 1 if stop else 0
            broken.die(log, dumped, committed, data.draw(st.integers(1, 5)))
        assert broken.dumped() == whole.dumped()
        start = stop

    assert broken.told == whole.told


@settings(max_examples=25)
@given(COMMITS, st.data())
def test_the_last_revisions_are_the_same_wherever_commits_are(commits: list[Any], data: Any) -> None:
    """One commit or many: of every window and series the row with the greatest revision is the same, and it is what
    plain merging makes of all rows that were not too late; ``through`` never falls."""
    log = random_log(commits, 0)
    run, whole = (Run(a_step(LIMITS)) for _ in range(2))
    stops = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=8)) | {len(log)})
    for start, stop in zip([0, *stops], stops, strict=False):
        run.feed(log[start:stop], 3)
        run.commit()
    whole.feed(log, len(log))
    whole.commit()

    told = [output for outputs in run.told for output in outputs]
    throughs = [through for *_, through in heads(told) if through]
    assert throughs == sorted(throughs)
    for schema in ("llm_requests_finals/1", "gpu_samples_finals/1"):
        assert last_rows(told, schema) == last_rows(whole.told[0], schema)
