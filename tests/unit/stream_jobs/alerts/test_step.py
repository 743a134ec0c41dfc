"""The alert job as a step: the barrier, what acts at once, what cannot be read; batches change nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert, decode
from schemas.contract.record import Record
from schemas.errors import ContractError
from stream_jobs import parts as frame
from stream_jobs.alerts.changes import Changes, State
from stream_jobs.alerts.step import AlertStep, in_parts, of_parts
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.step import Commit
from tests.unit.stream_jobs.alerts.cases import RULESET, T0, at, short
from tests.unit.stream_jobs.alerts.log import QUICK, Detector, Evidence, Log, a_step

COMMIT = Commit("window.finals", 0, 0, 1, 0, T0, False)


def fold(records: list[Record], step: AlertStep | None = None) -> tuple[State, Changes]:
    step = step or a_step()
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, records, changes)
    return state, changes


def seen(state: State) -> list[tuple[int, bool]]:
    """Windows judged, by number, and whether they were complete."""
    assert isinstance(state.detector, Detector)
    return [((window_ms - T0) // 10_000, complete) for window_ms, complete in state.detector.seen]


def test_a_window_is_judged_once_all_upstreams_are_through_with_it() -> None:
    """Not before the last has told; the rows of all are in it."""
    log = Log()
    log.rows(0, 0, {"e-0": 900}, through=1)
    before, _ = fold(log.records)
    log.rows(1, 0, {"e-1": 900}, through=1)

    after, changes = fold(log.records)

    assert seen(before) == []
    assert seen(after) == [(0, True)]
    assert short(changes.alerts) == [("opened", "engine_kv", "e-0"), ("opened", "engine_kv", "e-1")]


def test_windows_are_judged_in_order_and_empty_ones_too() -> None:
    """An upstream that is ahead waits; nothing is judged twice."""
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.rows(0, 3, {"e-0": 1}, through=4)
    log.rows(1, 1, {"e-1": 1}, through=2)
    log.progress(1, 4)
    log.progress(1, 3)

    state, _ = fold(log.records)

    assert seen(state) == [(0, True), (1, True), (2, True), (3, True)]


def test_a_silent_upstream_holds_windows_for_a_minute_of_appending() -> None:
    """Then they are judged without it and count as incomplete; what it tells afterwards is late."""
    log = Log()
    log.rows(0, 0, {"e-0": 900}, through=1)
    for through in range(2, 8):
        log.progress(0, through)
    before, _ = fold(log.records)
    log.progress(0, 8)
    log.rows(1, 0, {"e-1": 900}, through=8)

    after, changes = fold(log.records)

    assert seen(before) == []
    assert seen(after) == [(0, False), (1, False), *((window, True) for window in range(2, 8))]
    assert (changes.judged, changes.incomplete, changes.late) == (8, 2, 1)
    assert {alert.labels["engine_id"] for alert in changes.alerts} == {"e-0"}


def a_late_upstream() -> Log:
    """One whose window comes when the other is two windows ahead; engines of both have long queues."""
    log = Log()
    for window in range(3):
        log.rows(0, window, {"e-0": 900 if window else 1}, through=window + 1)
    for window in range(3):
        log.rows(1, window, {"e-1": 900 if window else 1}, through=window + 1)
    return log


def test_a_late_upstream_delays_only_its_own_alerts() -> None:
    """What begins with the others is emitted when a window is looked at, once; it is judged when it is whole."""
    records = a_late_upstream().records
    before, early = fold(records[:3])
    after, changes = fold(records)

    assert (seen(before), early.early, early.judged) == ([], 2, 0)
    assert [(one.labels["engine_id"], one.transition, one.at_ms) for one in early.alerts] == [("e-0", "opened", at(2))]
    assert (seen(after), changes.incomplete) == ([(0, True), (1, True), (2, True)], 0)
    assert [(one.labels["engine_id"], one.transition) for one in changes.alerts] == [
        ("e-0", "opened"),
        ("e-1", "opened"),
    ]


def test_a_window_that_its_upstream_calls_incomplete_is() -> None:
    """A source did not pass it in time."""
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1, complete=False)
    log.progress(1, 1)

    assert seen(fold(log.records)[0]) == [(0, False)]


def test_a_revision_of_a_window_that_was_told_is_counted_and_not_judged() -> None:
    """Judged or still waiting for others: the first telling counts."""
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.rows(0, 0, {"e-0": 900})
    log.progress(1, 1)
    log.rows(0, 0, {"e-0": 900})

    state, changes = fold(log.records)

    assert seen(state) == [(0, True)]
    assert (changes.late, changes.alerts) == (2, [])


def test_a_long_gap_is_not_walked_through() -> None:
    """An hour of silence is judged, what follows is skipped to the next window with rows."""
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.progress(1, 1)
    log.rows(0, 10_000, {"e-0": 1}, through=10_001)
    log.progress(1, 10_001)

    state, _ = fold(log.records)

    assert [window for window, _ in seen(state)] == [*range(361), 10_000]


def test_a_far_progress_without_rows_is_not_walked_through() -> None:
    """The next window begins where the progress stands."""
    log = Log()
    log.progress(0, 5_000)
    log.progress(1, 5_000)
    log.rows(0, 5_000, {"e-0": 1}, through=5_001)
    log.progress(1, 5_001)

    assert seen(fold(log.records)[0]) == [(5_000, True)]


def test_gpu_events_act_before_any_window() -> None:
    """At once, where they stand in the log."""
    log = Log()
    log.gpu_event("xid", "g-10", at(3) + 5, code=79)
    log.engine_event("lost", "e-9", at(3) + 6)

    _, changes = fold(log.records)

    assert short(changes.alerts) == [("opened", "gpu_xid", "g-10"), ("opened", "engine_lost", "e-9")]


def test_commands_mute() -> None:
    """Passed on through the same log."""
    log = Log()
    log.command(Command("mute", "m-1", {"gpu_uuid": "g-10"}, at(0), at(100)))
    log.gpu_event("xid", "g-10", at(3), code=79)

    _, changes = fold(log.records)

    assert [alert.muted_until_ms for alert in changes.alerts] == [at(100)]


def test_what_cannot_be_read_is_counted_and_skipped() -> None:
    """Unknown schemas, missing headers, bytes that are no block, commands that are none, strange upstreams."""
    log = Log()
    log.strange(b"", schema="nobody/1")
    log.strange(b"")
    log.strange(b"junk", schema="gpu.events/1", at="1", rows="1")
    log.strange(b"{}", schema="alert.commands/1", at="1", rows="1")
    log.strange(b"", schema="finals_progress/1", upstream="x")
    told = {
        "schema": "finals_progress/1",
        "upstream": "0",
        "window": "0",
        "revision": "0",
        "complete": "1",
        "rows": "0",
    }
    log.strange(b"", **told, through=str(at(10_000)))
    log.strange(b"", **{**told, "window": str(at(0) + 5)}, through="0")
    log.rows(7, 0, {"e-0": 900}, through=1)
    log.rows(0, 0, {"e-0": 900}, through=1)
    junk = log.records[-1]
    log.records.append(
        junk._replace(value=b"junk", headers=tuple((n, b"1") if n == "upstream" else (n, v) for n, v in junk.headers))
    )

    state, changes = fold(log.records)

    assert changes.skipped == 8
    assert state.gather.strange == 1
    assert seen(state) == [(0, False)]
    assert short(changes.alerts) == [("opened", "engine_kv", "e-0")]


def test_a_rejected_record_is_counted() -> None:
    """What the host took out of the log."""
    step = a_step()
    state, changes = step.new("window.finals", 0), step.changes()

    step.reject(state, Record("window.finals", 0, 0, 0, None, None, ()), "why", changes)

    assert (state.skipped, changes.skipped) == (1, 1)


def test_transitions_go_out_at_once_keyed_by_fingerprint() -> None:
    """One record each; the id is a header too, so that nobody needs the value to recognise a repetition."""
    log = Log()
    log.gpu_event("xid", "g-10", at(3), code=79)
    step = a_step()
    state, changes = fold(log.records, step)

    outputs = step.rows(state, changes, COMMIT)

    alert = changes.alerts[0]
    assert step.due(state, changes)
    assert not step.due(state, step.changes())
    assert [(o.topic, o.partition, o.key, dict(o.headers)) for o in outputs] == [
        (
            "alerts",
            0,
            alert.fingerprint.encode(),
            {
                "schema": b"alerts/1",
                "content-type": b"application/json",
                "transition_id": alert.transition_id.encode(),
                "severity": b"critical",
            },
        )
    ]
    assert decode(outputs[0].value) == alert


FAILING = 3


class FailingDetector(Detector):
    """Has changed already when it raises."""

    def detect(self, window: Window) -> list[Finding]:
        found = super().detect(window)
        if window.window_ms == at(FAILING):
            raise ZeroDivisionError("a defect on one window")
        return found


class FailingRule(FailingDetector):
    """Says by a note which rule it was."""

    def detect(self, window: Window) -> list[Finding]:
        try:
            return super().detect(window)
        except ZeroDivisionError as error:
            error.add_note("judging rule engine_kv")
            raise


class FailingEvidence(Evidence):
    """Raises after the judge is done."""

    def remember(self, window: Window, findings: Sequence[Finding]) -> None:
        super().remember(window, findings)
        if window.window_ms == at(FAILING):
            raise KeyError("gone")


class FailingAsked(Evidence):
    """Raises when the alert is half told."""

    def of(self, alert: Alert) -> Mapping[str, Any]:
        if alert.at_ms == at(FAILING + 1):
            raise ValueError("never again")
        return super().of(alert)


def as_the_runner_does(step: AlertStep, records: Sequence[Record]) -> tuple[State, Changes]:
    """One by one; what raises is rejected on the state of before, and what it changed is forgotten."""
    state, whole = step.new("window.finals", 0), step.changes()
    for record in records:
        before, changes = step.dump(state), step.changes()
        try:
            step.fold(state, [record], changes)
        except Exception as error:
            state, changes = step.load("window.finals", 0, before), step.changes()
            step.reject(state, record, str(error), changes)
        whole.alerts += changes.alerts
        whole.failed += changes.failed
        whole.judged += changes.judged
    return state, whole


@pytest.mark.parametrize(
    ("judge", "evidence", "error"),
    [
        (FailingDetector, Evidence, "ZeroDivisionError: a defect on one window"),
        (FailingRule, Evidence, "ZeroDivisionError: a defect on one window; judging rule engine_kv"),
        (Detector, FailingEvidence, "KeyError: 'gone'"),
        (Detector, FailingAsked, "ValueError: never again"),
    ],
    ids=["judge", "rule", "evidence", "life"],
)
def test_a_window_that_raises_is_left_out_and_time_goes_on(
    judge: type[Detector], evidence: type[Evidence], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As if it had not been: judge, evidence and alerts are those of the others, the alert that goes on is told."""
    log = Log()
    for window in range(7):
        log.rows(0, window, {"e-0": 900 if window >= FAILING else 1}, through=window + 1)
    step = AlertStep(1, RULESET, judge, evidence, QUICK)

    state, changes = as_the_runner_does(step, log.records)

    assert seen(state) == [(window, True) for window in range(7) if window != FAILING]
    assert isinstance(state.evidence, Evidence)
    assert (state.evidence.windows, state.skipped) == (6, 0)
    assert (changes.judged, changes.failed) == (6, 1)
    logged = [(record.message, vars(record)["window_ms"], vars(record)["error"]) for record in caplog.records]
    assert logged == [("judging a window failed, please report it; the window is skipped", at(FAILING), error)]
    assert [(alert.rule, alert.at_ms) for alert in changes.alerts] == [("engine_kv", at(FAILING + 2))]


def test_of_many_windows_at_once_only_the_one_that_raises_is_left_out() -> None:
    """One record makes five of them ready."""
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.progress(0, 6)

    state, changes = as_the_runner_does(AlertStep(1, RULESET, FailingDetector, Evidence, QUICK), log.records)

    assert [window for window, _ in seen(state)] == [0, 1, 2, 4, 5]
    assert (changes.judged, changes.failed) == (5, 1)


def story() -> list[Record]:
    """Two upstreams, an incident, a flap, events, mutes, a silent upstream and poison."""
    log = Log()
    for window in range(26):
        hot = 900 if 2 <= window < 6 or 10 <= window < 12 else 1
        log.rows(0, window, {"e-0": hot, "e-2": 1}, through=window + 1)
        if window == 2:
            log.gpu_event("gpu_lost", "g-10", at(2) + 7, engine_id="e-2", placement_group="e-2")
        if window == 4:
            log.command(Command("mute", "m-1", {"engine_id": "e-0"}, at(0), at(5)))
            log.strange(b"junk", schema="gpu.events/1", at="1", rows="1")
        if window == 9:
            log.gpu_event("gpu_found", "g-10", at(9), "info", engine_id="e-2")
            log.engine_event("changed", "e-1", at(9), model="llama", model_version="v2")
        if not 14 <= window < 22:
            log.rows(1, window, {"e-1": 950 if window in (8, 9) else 2}, through=window + 1)
    return log.records


STORY = story()
WHOLE, UNDISTURBED = fold(STORY)


def test_the_story_has_every_transition() -> None:
    """What the next tests compare is worth comparing."""
    assert short(UNDISTURBED.alerts) == [
        ("opened", "gpu_lost", "g-10"),
        ("opened", "engine_kv", "e-0"),
        ("updated", "engine_kv", "e-0"),
        ("updated", "engine_kv", "e-0"),
        ("resolved", "engine_kv", "e-0"),
        ("opened", "engine_kv", "e-1"),
        ("resolved", "gpu_lost", "g-10"),
        ("updated", "engine_kv", "e-0"),
        ("resolved", "engine_kv", "e-1"),
        ("resolved", "engine_kv", "e-0"),
    ]


@settings(max_examples=10)
@given(st.lists(st.integers(0, len(STORY)), max_size=8), st.lists(st.booleans(), min_size=10, max_size=10))
def test_neither_batches_nor_snapshots_change_what_is_told(cuts: list[int], dumped: list[bool]) -> None:
    """Cut anywhere, dump and load anywhere, read again what waited: the same transitions and the same state."""
    step = a_step()
    state, alerts = step.new("window.finals", 0), []
    for number, (start, stop) in enumerate(pairwise([0, *sorted(cuts), len(STORY)])):
        changes = step.changes()
        step.fold(state, STORY[start:stop], changes)
        alerts += changes.alerts
        if dumped[number]:
            again, replayed = step.load("window.finals", 0, step.dump(state)), step.changes()
            step.fold(again, STORY[step.replay_from(state, stop) : stop], replayed)
            assert (replayed, step.dump(again)) == (step.changes(), step.dump(state))
            state = again

    assert alerts == UNDISTURBED.alerts
    assert step.dump(state) == step.dump(WHOLE)


def test_every_piece_of_a_state_is_a_part() -> None:
    """Parts belong together, and are refused otherwise."""
    much = {"judge": [b"one", b"two"], "gather": [], "topology": [b""]}

    parts = in_parts({}, much)

    assert parts[1:] == [b"one", b"two", b""]
    assert of_parts(parts) == ({}, much)
    with pytest.raises(ContractError, match="do not belong together"):
        of_parts(parts[1:])


def test_a_snapshot_holds_nothing_of_what_waits() -> None:
    """However much that is: it is read again, from the first record that waits, and the window is whole."""
    step, log = a_step(), Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.rows(1, 0, {"e-1": 1}, through=1)
    log.rows(0, 1, {f"e-{number}": number for number in range(5_000)}, through=2)
    log.rows(1, 1, {"e-9": 900})
    state, _ = fold(log.records, step)
    parts, start = step.dump(state), step.replay_from(state, 4)
    log.progress(1, 2)

    loaded, changes = step.load("window.finals", 0, parts), step.changes()
    step.fold(loaded, log.records[start:], changes)

    assert (start, len(b"".join(parts)) < 2_000) == (2, True)
    assert seen(loaded) == [(0, True), (1, True)]
    assert sorted(alert.labels["engine_id"] for alert in changes.alerts)[-1] == "e-999"


@pytest.mark.parametrize(("begins", "started"), [(3, True), (4, True), (5, False)])
def test_where_retention_deleted_what_waited_its_windows_are_incomplete(begins: int, started: bool) -> None:
    """What was folded and waits no more is needed no more; what nobody has folded is not passed over."""
    step, log = a_step(), Log()
    for upstream, window in ((0, 0), (1, 0), (0, 1), (0, 2)):
        log.rows(upstream, window, {"e-0": 1}, through=window + 1)
    state, _ = fold(log.records, step)
    loaded = step.load("window.finals", 0, step.dump(state))

    assert step.pass_over(loaded, begins) is started
    log.progress(1, 3)
    step.fold(loaded, log.records[begins:], step.changes())

    assert not started or seen(loaded) == [(0, True), (1, False), (2, begins == 3)]


def test_a_record_that_is_rejected_while_it_waits_is_read_again_too() -> None:
    """What it says of finals was taken, and stays taken."""
    step, log = a_step(), Log()
    log.rows(0, 0, {"e-0": 900}, through=1)
    state, changes = step.new("window.finals", 0), step.changes()
    step.reject(state, log.records[0], "", changes)
    loaded = step.load("window.finals", 0, step.dump(state))
    log.progress(1, 1)

    step.fold(loaded, log.records[step.replay_from(state, 1) :], changes)

    assert seen(loaded) == [(0, True)]
    assert short(changes.alerts) == [("opened", "engine_kv", "e-0")]


def test_a_snapshot_of_another_version_is_refused() -> None:
    """Told, not misread."""
    other = in_parts({}, {})
    told = zstandard.compress(json.dumps({"version": 9, "head": {}, "sections": {}}).encode())

    assert of_parts(other) == ({}, {})
    with pytest.raises(ContractError, match="version 9"):
        of_parts(frame.cut(b"FPA1", told, ()))


def test_more_upstreams_than_before_go_on() -> None:
    """After partitions were added the new ones have told nothing yet."""
    step = a_step(1)
    log = Log()
    log.rows(0, 0, {"e-0": 1}, through=1)
    state, _ = fold(log.records, step)

    loaded = a_step(3).load("window.finals", 0, step.dump(state))

    assert loaded.gather.through_ms == [at(1), 0, 0]
