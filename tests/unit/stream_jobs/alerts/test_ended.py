"""Which alerts are taken off the topic, and when."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract.alerts import Alert
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.alerts.changes import Ended
from stream_jobs.alerts.policy import DEFAULT_POLICY, AlertPolicy
from stream_jobs.alerts.step import AlertStep
from stream_jobs.step import Commit
from tests.unit.stream_jobs.alerts.cases import RULESET, T0, at
from tests.unit.stream_jobs.alerts.log import QUICK, Detector, Evidence, Log

KEPT_MS = 100
POLICY = AlertPolicy(resolved_kept_ms=KEPT_MS, resolved_max=3)


def told(fingerprint: str, at_ms: int, transition: str = "resolved") -> Alert:
    return Alert(fingerprint, transition, 1, "rule", "warning", "", "", {}, 0, 0, at_ms)


def ended_of(stories: Mapping[str, int]) -> Ended:
    ended = Ended(POLICY)
    ended.emitted(told(name, at_ms) for name, at_ms in stories.items())
    return ended


def test_a_reader_who_was_away_still_hears_of_the_end() -> None:
    """By default an alert that ended stays on the topic longer than any outage of a reader."""
    assert DEFAULT_POLICY.resolved_kept_ms > DEFAULT_LIMITS.outage_ms


@pytest.mark.parametrize(
    ("now_ms", "gone"),
    [
        pytest.param(KEPT_MS + 9, [], id="one ms before its time"),
        pytest.param(KEPT_MS + 10, ["a"], id="at its time"),
        pytest.param(KEPT_MS + 12, ["a", "b"], id="both"),
    ],
)
def test_what_ended_stays_for_a_time(now_ms: int, gone: list[str]) -> None:
    """And is taken off once."""
    ended = ended_of({"a": 10, "b": 12})

    assert ended.take_off(now_ms) == gone
    assert ended.take_off(now_ms) == []
    assert len(ended) == 2 - len(gone)


def test_what_comes_back_stays() -> None:
    """Its time counts from its next end."""
    ended = ended_of({"a": 10, "b": 11})
    ended.emitted([told("a", 20, "updated"), told("b", 21, "opened"), told("b", 30)])

    assert ended.take_off(KEPT_MS + 29) == []
    assert ended.take_off(KEPT_MS + 30) == ["b"]


def test_of_too_many_those_that_ended_first_go() -> None:
    """Whatever time they have left."""
    assert ended_of(dict.fromkeys("dcbea", 10)).take_off(11) == ["d", "c"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 300), st.booleans()), max_size=30))
def test_a_state_that_was_kept_goes_on_the_same(stories: list[tuple[str, int, bool]]) -> None:
    """Whatever was told before it was dumped."""
    one, other = Ended(POLICY), Ended(POLICY)
    one.emitted(told(name, at_ms, "resolved" if over else "updated") for name, at_ms, over in stories)
    other.load(one.dump())

    assert [other.take_off(now_ms) for now_ms in (150, 300, 400)] == [one.take_off(t) for t in (150, 300, 400)]
    assert len(one) == len(other) == 0


def a_story() -> Log:
    """An engine has a long queue for a window; then all is well for as long as a resolved alert stands on the topic."""
    log = Log()
    log.rows(0, 0, {"e-0": 900}, through=1)
    for through in range(2, 12):
        log.rows(0, through - 1, {}, through=through)
    return log


def test_the_job_takes_an_alert_off_the_topic() -> None:
    """A record without value, after the one that resolved it; however the log is cut and whoever takes over."""
    policy = AlertPolicy(hold_ms=QUICK.hold_ms, flap_ms=QUICK.flap_ms, resolved_kept_ms=60_000)
    step, records = AlertStep(1, RULESET, Detector, Evidence, policy), a_story().records

    def written(cuts: list[int]) -> list[tuple[bytes | None, bool]]:
        state, found = step.new("window.finals", 0), []
        for first, stop in zip([0, *cuts], [*cuts, len(records)], strict=True):
            changes = step.changes()
            step.fold(state, records[first:stop], changes)
            outputs = step.rows(state, changes, Commit("window.finals", 0, first, stop, 0, T0, False))
            found += [(output.key, output.value is not None) for output in outputs]
            state = step.load("window.finals", 0, step.dump(state))
        return found

    whole = written([])
    assert [has_value for _, has_value in whole] == [True, True, False]
    assert len({key for key, _ in whole}) == 1
    assert written(list(range(1, len(records)))) == whole
    assert at(0) == T0
