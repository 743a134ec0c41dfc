"""``stream_jobs.insight.fleet_detector``, its state: a detector that was kept and loaded judges as the one that was
not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ContractError
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.insight.rule_detector import CHANGED
from stream_jobs.rules.model import Function, Measure
from tests.unit.stream_jobs.insight.cases import GPU, a_rule, run, temperatures, told

WARM = {"warm_up_windows": 3, "relearn_after_s": 100.0}
RULES = (
    a_rule(options={"above": 80.0, "leave": 70.0}, m=2, n=3, clear_after=2),
    a_rule("deviation", options={**WARM, "direction": "both"}, m=2, n=2),
    a_rule("moving_average", options={**WARM, "direction": "both"}, window_ms=20_000),
    a_rule("rate_of_change", options={"above": 10.0, "over_s": 40.0}),
    a_rule("no_data", options={"after_s": 20.0}),
    a_rule(name="long", options={"above": 60.0}, window_ms=120_000),
    a_rule(name="fleet", options={"above": 60.0}, by=(), window_ms=60_000),
)


def run_of(seen: list[dict[str, int | None] | None]) -> list[Window]:
    """One window per entry; None: it never came. Every seventh is incomplete."""
    return [temperatures(n, values, n % 7 != 6) for n, values in enumerate(seen) if values is not None]


@settings(max_examples=10, deadline=None)
@given(
    seen=st.lists(
        st.none() | st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(40, 99), max_size=4), max_size=25
    ),
    cut=st.integers(0, 25),
)
def test_a_judge_split_at_any_window_is_the_undisturbed_one(seen: list[dict[str, int | None] | None], cut: int) -> None:
    """The same findings, and at the end the same bytes; a loaded one dumps what it was loaded from."""
    windows = run_of(seen)
    whole, first, second = (FleetDetector(RULES, series_max=3) for _ in range(3))
    expected = run(whole, windows)

    found = run(first, windows[:cut])
    parts = first.dump()
    second.load(parts)
    again = second.dump()
    found += run(second, windows[cut:])

    assert again == parts
    assert found == expected
    assert second.dump() == whole.dump()


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.none() | st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(40, 99), max_size=4), max_size=25
    )
)
def test_dumps_in_between_do_not_show_in_a_later_one(seen: list[dict[str, int | None] | None]) -> None:
    """What is packed once for several dumps is what it would be if it were packed anew, whatever came meanwhile."""
    dumped, whole = FleetDetector(RULES, series_max=3), FleetDetector(RULES, series_max=3)
    for window in run_of(seen):
        dumped.detect(window)
        whole.detect(window)
        fresh = FleetDetector(RULES, series_max=3)
        fresh.load(dumped.dump())
        for one in fresh.detectors.values():
            one.packed = None  # nor is it what it was loaded from

        assert fresh.dump() == dumped.dump()

    assert dumped.dump() == whole.dump()


def test_a_judge_split_while_windows_are_incomplete_is_the_undisturbed_one() -> None:
    """How long it has been so is state, and so is whether a longer window was heard from its beginning."""
    windows = [temperatures(n, {"a": 90 - n % 3, "b": 40 + n}, n < 4 or n > 44) for n in range(3, 50)]
    whole = FleetDetector(RULES)
    expected = run(whole, windows)

    for cut in range(1, len(windows), 5):
        first, second = FleetDetector(RULES), FleetDetector(RULES)
        found = run(first, windows[:cut])
        second.load(first.dump())
        assert found + run(second, windows[cut:]) == expected
        assert second.dump() == whole.dump()


HOT = a_rule(options={"above": 80.0}, clear_after=1)


def test_thresholds_may_change_without_losing_what_was_learned() -> None:
    """What the state does not depend on: levels, m of n, words."""
    one = FleetDetector([a_rule("deviation", options=WARM)])
    run(one, [temperatures(n, {"a": 50}) for n in range(10)])
    two = FleetDetector(
        [replace(a_rule("deviation", options={**WARM, "enter_sigmas": 2.0}), severity="critical", m=1, n=2)]
    )

    two.load(one.dump())

    assert told(two.detect(temperatures(10, {"a": 60}))) == [("a", True, 60.0)]


@pytest.mark.parametrize(
    "changed",
    [
        [],
        [replace(HOT, name="other")],
        [replace(HOT, by=("host", "gpu_uuid"))],
        [replace(HOT, window_ms=20_000)],
        [a_rule("deviation", name="threshold")],
    ],
    ids=["removed", "another name", "other labels", "another window", "another kind"],
)
def test_what_a_lost_rule_had_firing_is_told_as_cleared(changed: list[object]) -> None:
    """Once, with a note, also when it is kept in between; a new rule begins anew."""
    one = FleetDetector([HOT])
    one.detect(temperatures(0, {"a": 90, "b": 70}))
    two, three = FleetDetector(changed), FleetDetector(changed)  # type: ignore[arg-type]
    two.load(one.dump())
    three.load(two.dump())

    found = [finding for detector in (two, three) for finding in detector.detect(temperatures(1, {"a": 50}))]

    assert [(one.rule, one.labels, one.firing, one.note) for one in found] == [
        ("threshold", (("gpu_uuid", "a"),), False, CHANGED)
    ] * 2
    assert two.detect(temperatures(2, {"a": 50})) == []


def test_a_rule_added_within_a_window_waits_for_the_next() -> None:
    """Its first window was not heard in full; the other rules' is judged."""
    old, new = (a_rule(name=name, options={"above": 80.0}, window_ms=60_000) for name in ("old", "new"))
    new = replace(new, by=("host",))
    one, two = FleetDetector([old]), FleetDetector([old, new])
    run(one, [temperatures(n, {"a": 90}) for n in range(3)])
    two.load(one.dump())

    assert [finding.rule for finding in run(two, [temperatures(n, {"a": 90}) for n in range(3, 6)])] == ["old"]
    assert [finding.rule for finding in run(two, [temperatures(n, {"a": 90}) for n in range(6, 12)])] == ["new", "old"]


def test_a_rule_with_a_window_length_of_its_own_waits_for_the_next_window() -> None:
    """No state has the beginning of its window: the rest of it, here half a minute, is not judged as the whole."""
    events = Measure("value", GPU, Function.COUNT, text="count()")
    minute = a_rule(name="minute", measures=(events,), options={"below": 5.0}, window_ms=60_000)
    before, after = FleetDetector([RULES[0]]), FleetDetector([RULES[0], minute])
    run(before, [temperatures(n, {"a": 40}) for n in range(3)])
    after.load(before.dump())

    assert run(after, [temperatures(n, {"a": 40}) for n in range(3, 12)]) == []
    assert after.stats["incomplete"] == 1
    assert told(run(after, [temperatures(n, {"a": 40}) for n in range(12, 18) if n % 3])) == [("a", True, 4.0)]


@pytest.mark.parametrize(
    "harm",
    [
        lambda parts: [],
        lambda parts: parts[:-1],
        lambda parts: parts[1:],
        lambda parts: [b"xxxx" + parts[0][4:], *parts[1:]],
        lambda parts: [parts[0], parts[1][:-9]],
    ],
    ids=["none", "one too few", "without the head", "not ours", "cut off"],
)
def test_parts_that_are_not_a_state_are_refused(harm: object) -> None:
    """With a ``ContractError``."""
    detector = FleetDetector([HOT])
    detector.detect(temperatures(0, {"a": 90}))

    with pytest.raises(ContractError):
        FleetDetector([HOT]).load(harm(detector.dump()))  # type: ignore[operator]
