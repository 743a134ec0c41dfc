"""What a commit sends to which partition of ``window.partials``, and that what it leaves out changes no final."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, WINDOW_MS
from stream_jobs.finals.step import FinalsStep
from stream_jobs.step import Commit
from stream_jobs.windows.step import WindowsStep
from tests.unit.stream_jobs.finals.cases import headers_of, rows_told
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    fold_all,
    header,
)

REQUESTS, SAMPLES = "llm.requests", "gpu.samples"
OUT_OF_ORDERNESS_MS = DEFAULT_LIMITS.out_of_orderness_ms
PATIENT = replace(DEFAULT_LIMITS, final_wait_ms=HOUR_MS)
"""How long a silent source is waited for is counted from record to record, and there are fewer of them."""
TARGETS = list(range(PARTITIONS[WINDOW_PARTIALS]))


def sent(step: WindowsStep, state: Any, changes: Any, **fields: Any) -> list[Output]:
    found = step.rows(state, changes, a_commit(state.topic, **fields))
    return [output for output in found if output.topic == WINDOW_PARTIALS]


def test_within_a_window_a_commit_goes_where_it_has_rows() -> None:
    """Elsewhere its watermark says nothing that a reader acts on; where it has rows it is announced with them."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + 3_000)])], SAMPLES)
    first = sent(step, state, changes)
    changes = step.changes()
    step.fold(state, [a_record(SAMPLES, [a_sample(BASE_MS + 9_000)], 1)], changes)

    (second,) = sent(step, state, changes, number=len(first))

    assert [output.partition for output in first] == TARGETS
    assert second.value
    assert header(second, "watermark") == str(BASE_MS + 9_000 - OUT_OF_ORDERNESS_MS)
    (before,) = [output for output in first if output.partition == second.partition]
    assert header(second, "previous") == header(before, "number")


def test_a_watermark_that_passes_another_window_goes_everywhere() -> None:
    """At the end of a window, not a millisecond before."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + OUT_OF_ORDERNESS_MS)])], SAMPLES)
    sent(step, state, changes)
    end_ms = BASE_MS + WINDOW_MS + OUT_OF_ORDERNESS_MS

    assert sent(step, state, step.changes(), now_ms=end_ms - 1, idle=True, offset_to=0) == []
    everywhere = sent(step, state, step.changes(), now_ms=end_ms, idle=True, offset_to=0)
    assert [(output.partition, output.value) for output in everywhere] == [(target, b"") for target in TARGETS]
    assert sent(step, state, step.changes(), now_ms=end_ms + 9_999, idle=True, offset_to=0) == []


def test_an_idle_partition_sends_nothing_while_no_window_passes() -> None:
    """Not even a transaction: there is no output at all."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + OUT_OF_ORDERNESS_MS)])], SAMPLES)
    sent(step, state, changes)

    assert step.rows(state, step.changes(), a_commit(SAMPLES, 1, 1, now_ms=BASE_MS + 5_000, idle=True)) == []


def test_a_new_owner_announces_everywhere_once() -> None:
    """What was sent is in no snapshot: the commit of it may have failed."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(BASE_MS + 3_000)])], SAMPLES)
    sent(step, state, changes)
    again = step.load(SAMPLES, 0, step.dump(state))

    announced = sent(step, again, step.changes())

    assert step.dump(again) == step.dump(state)
    assert [(output.partition, header(output, "previous")) for output in announced] == [(n, "") for n in TARGETS]


class Log:
    """One partition of ``window.partials``, and the finals job behind it."""

    def __init__(self, target: int) -> None:
        self._step = FinalsStep(PATIENT, {REQUESTS: 1, SAMPLES: 1})
        self._state = self._step.new(WINDOW_PARTIALS, target)
        self._offset = 0
        self._target = target
        self.gaps = 0
        self.finals: list[tuple[Any, ...]] = []

    def take(self, outputs: list[Output], at_ms: int) -> None:
        """Append what a commit sent here, and note what the finals job makes of it."""
        own = [one for one in outputs if (one.topic, one.partition) == (WINDOW_PARTIALS, self._target)]
        changes = self._step.changes()
        for one in own:
            record = Record(WINDOW_PARTIALS, self._target, self._offset, at_ms, None, one.value or b"", one.headers)
            self._step.fold(self._state, [record], changes)
            self._offset += 1
        found = self._step.rows(self._state, changes, Commit(WINDOW_PARTIALS, self._target, 0, 0, 0, at_ms, False))
        self.gaps += changes.gaps
        for output in found:
            head = headers_of(output)
            rows = [] if head.window_ms == 0 else rows_told([output], head.schema)
            self.finals.append((at_ms, head.schema, head.window_ms, head.complete, head.through_ms, rows))


COMMITS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 6_000), st.integers(0, 3), st.integers(0, 30_000), st.sampled_from("ehi")),
    max_size=15,
)
"""Of which source, after how long, with how many events that are how old, and whether another owner does it (e), or the
clock of an idle one (i)."""


@given(COMMITS)
@settings(max_examples=12)
def test_what_is_left_out_changes_no_final(commits: list[tuple[bool, int, int, int, str]]) -> None:
    """Whoever hears of every commit emits the same finals at the same moments, and nobody counts a gap."""
    steps = {topic: a_step() for topic in (REQUESTS, SAMPLES)}
    states = {topic: step.new(topic, 0) for topic, step in steps.items()}
    numbers = {"sparse": dict.fromkeys(steps, 0), "dense": dict.fromkeys(steps, 0)}
    sparse, dense = [Log(target) for target in TARGETS], [Log(target) for target in TARGETS]
    now_ms = BASE_MS
    closing = [(n % 2 > 0, 5_000, 1, 0, "e") for n in range(8)]
    for offset, (is_request, later_ms, events, age_ms, how) in enumerate([*commits, *closing]):
        topic, now_ms = (REQUESTS if is_request else SAMPLES), now_ms + later_ms
        step, state = steps[topic], states[topic]
        make = a_request if is_request else a_sample
        rows = [make(now_ms - age_ms // (n + 1), host=f"h{n}", engine_id=f"e{n}") for n in range(events)]
        records = [a_record(topic, rows, 0, now_ms)] if rows else []
        sparse_changes, dense_changes = step.changes(), step.changes()
        silent = step.load(topic, 0, step.dump(state))
        step.fold(silent, records, dense_changes)
        if how == "h":
            state = states[topic] = step.load(topic, 0, step.dump(state))
        step.fold(state, records, sparse_changes)
        idle = how == "i" and not rows
        for name, of, changes, logs in (
            ("sparse", state, sparse_changes, sparse),
            ("dense", silent, dense_changes, dense),
        ):
            commit = a_commit(topic, offset, offset + 1, now_ms=now_ms, idle=idle, number=numbers[name][topic])
            found = step.rows(of, changes, commit)
            numbers[name][topic] += len(found)
            for log in logs:
                log.take(found, now_ms)

    assert [log.finals for log in sparse] == [log.finals for log in dense]
    assert any(log.finals for log in sparse)
    assert sum(log.gaps for log in sparse) == 0
