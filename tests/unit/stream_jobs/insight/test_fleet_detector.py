"""``stream_jobs.insight.fleet_detector``: windows in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemas.errors import ConfigError
from stream_jobs.insight.detectors.against_baseline import ACCEPTED
from stream_jobs.insight.firing import SILENT
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Detection, Finding, Window
from stream_jobs.insight.lexicon import Lexicons
from stream_jobs.insight.series import IDLE_MS, PRESSED_IDLE_MS
from stream_jobs.rules.model import Function, Measure, Where, While
from tests.unit.stream_jobs.insight.cases import (
    BASE_MS,
    GPU,
    GRAIN_MS,
    MEAN,
    REQUESTS,
    a_block,
    a_gpu,
    a_row,
    a_rule,
    a_window,
    run,
    temperatures,
    told,
)

HOT = a_rule(options={"above": 80.0, "leave": 75.0}, clear_after=2)


def test_a_finding_says_what_where_and_since_when() -> None:
    """With the level it passed; told while it fires and once when it has cleared."""
    detector = FleetDetector([a_rule(options={"above": 80.0}, m=2, n=3, clear_after=1)])

    found = [detector.detect(temperatures(n, {"a": value})) for n, value in enumerate((90, 60, 91, 92, 70, 60))]

    base: dict[str, Any] = {"rule": "threshold", "labels": (("gpu_uuid", "a"),), "length_ms": GRAIN_MS, "count": 1}
    base |= {"since_ms": BASE_MS, "baseline": None, "low": None, "high": 80.0}
    assert found == [
        [],
        [],
        [Finding(window_ms=BASE_MS + 2 * GRAIN_MS, firing=True, value=91.0, **base)],
        [Finding(window_ms=BASE_MS + 3 * GRAIN_MS, firing=True, value=92.0, **base)],
        [Finding(window_ms=BASE_MS + 4 * GRAIN_MS, firing=False, value=70.0, **base)],
        [],
    ]


def test_what_a_rule_raises_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a person can switch it off."""
    detector = FleetDetector([a_rule(name=name, options={"above": 80.0}) for name in ("a", "b")])

    def fail(frame: object) -> Detection:
        raise ZeroDivisionError(frame)

    monkeypatch.setattr(detector.detectors["b"].detector, "detect", fail)
    with pytest.raises(ZeroDivisionError) as caught:
        detector.detect(temperatures(0, {"x": 90}))

    assert caught.value.__notes__ == ["judging rule b"]


def test_findings_stand_in_order_of_rule_and_labels() -> None:
    """Whatever the order of rules and rows."""
    detector = FleetDetector([a_rule(name=name, options={"above": 80.0}) for name in ("b", "a")])

    found = detector.detect(temperatures(0, {"z": 90, "x": 90}))

    assert [(one.rule, one.labels[0][1]) for one in found] == [("a", "x"), ("a", "z"), ("b", "x"), ("b", "z")]


def test_nothing_and_unknown_values_are_no_alarm() -> None:
    """Empty windows and rows of nulls."""
    detector = FleetDetector([HOT])

    assert run(detector, [a_window(0), temperatures(1, {"a": None}), a_window(2)]) == []
    assert +detector.stats == {"below_count": 1}


def test_a_window_that_is_not_newer_is_ignored_and_counted() -> None:
    """The clock of the fleet never goes back."""
    detector = FleetDetector([HOT])
    detector.detect(temperatures(5, {"a": 60}))

    assert detector.detect(temperatures(5, {"a": 90})) == []
    assert detector.detect(temperatures(3, {"a": 90})) == []
    assert (+detector.stats, detector.series) == ({"judged": 1, "ignored": 2}, {"threshold": 1})


def test_an_incomplete_window_trains_begins_and_ends_nothing() -> None:
    """What fires is told as it was."""
    detector = FleetDetector([HOT, a_rule("deviation", options={"warm_up_windows": 3})])

    before = run(detector, [temperatures(0, {"a": 90}, complete=False)])
    begun = told(detector.detect(temperatures(1, {"a": 90})))
    on = [told(detector.detect(temperatures(n, {"a": 10}, complete=False))) for n in range(2, 8)]

    assert (before, begun, on) == ([], [("a", True, 90.0)], [[("a", True, 90.0)]] * 6)
    assert detector.detectors["deviation"].detector.dump()["samples"].max() == 1
    assert detector.stats["incomplete"] == 2 * 7


def told_of(findings: list[Finding], rule: str) -> list[tuple[str, bool, float | None]]:
    return told([one for one in findings if one.rule == rule])


def test_incomplete_windows_for_minutes_are_told_and_rules_go_by_what_there_is() -> None:
    """One source that is stuck must not blind all rules for ever; after five minutes they begin and end findings."""
    detector = FleetDetector([HOT])
    detector.detect(temperatures(0, {"a": 90, "b": 60}))

    seen = [detector.detect(temperatures(n, {"a": 60, "b": 90}, complete=False)) for n in range(1, 33)]
    over = detector.detect(temperatures(33, {"a": 60, "b": 90}))

    assert [told_of(found, "threshold") for found in seen[:30]] == [[("a", True, 90.0)]] * 30
    assert [told_of(found, "threshold") for found in seen[30:]] == [
        [("a", True, 60.0), ("b", True, 90.0)],
        [("a", False, 60.0), ("b", True, 90.0)],
    ]
    incomplete = {"rule": "judging_incomplete", "labels": (), "length_ms": GRAIN_MS, "since_ms": BASE_MS + GRAIN_MS}
    incomplete |= {"baseline": None, "low": None, "high": None, "count": 0}
    assert [one for found in [*seen, over] for one in found if one.rule == "judging_incomplete"] == [
        Finding(window_ms=BASE_MS + 31 * GRAIN_MS, firing=True, value=310_000.0, **incomplete),
        Finding(window_ms=BASE_MS + 32 * GRAIN_MS, firing=True, value=320_000.0, **incomplete),
        Finding(window_ms=BASE_MS + 33 * GRAIN_MS, firing=False, value=320_000.0, **incomplete),
    ]


def test_a_complete_window_between_begins_the_patience_anew() -> None:
    """Minutes in a row; nothing is told that was not."""
    detector = FleetDetector([HOT])

    assert run(detector, [temperatures(n, {"a": 90}, complete=n % 31 == 30) for n in range(30)]) == []
    assert told(detector.detect(temperatures(30, {"a": 60}))) == []
    assert run(detector, [temperatures(n, {"a": 90}, complete=False) for n in range(31, 61)]) == []


def test_what_a_missing_source_would_mislead_waits_and_nothing_is_trained() -> None:
    """Silence, and sums over the fleet; a machine's own sum is whole. What was learned stays to the bit."""
    events = Measure("value", GPU, Function.COUNT, text="count()")
    below = {"options": {"below": 5.0}, "measures": (events,)}
    detector = FleetDetector(
        [
            a_rule("no_data"),
            a_rule(name="fleet", by=(), **below),
            a_rule(name="own", **below),
            a_rule("deviation", options={"warm_up_windows": 3}),
            a_rule("straggler", by=("gpu_uuid", "engine_id")),
        ]
    )
    run(detector, [a_window(n, [a_gpu(gpu, 60 + n % 2, count=9, engine_id="e") for gpu in "abcd"]) for n in range(20)])
    learned = {
        name: one.detector.dump() for name, one in detector.detectors.items() if name in ("deviation", "straggler")
    }
    learned = {name: {key: array.copy() for key, array in found.items()} for name, found in learned.items()}

    found = run(
        detector, [a_window(n, [a_gpu("a", 99, count=2, engine_id="e")], complete=False) for n in range(20, 60)]
    )

    assert {one.rule for one in found} == {"own", "deviation", "judging_incomplete"}
    for name, arrays in learned.items():
        now = detector.detectors[name].detector.dump()
        assert {key: array.tobytes() for key, array in now.items()} == {k: a.tobytes() for k, a in arrays.items()}


def test_a_sum_over_more_than_one_source_waits_also_where_it_is_of_a_host() -> None:
    """A host's GPUs are of several placement groups, and those of sources; its own readings come from one."""
    of_gpus = Measure("value", GPU, Function.COUNT, text="count()")
    own = Measure("value", "host.samples", Function.COUNT, text="count()")
    below = {"options": {"below": 5.0}, "by": ("host",)}
    rules = [
        a_rule(name="gpus", measures=(of_gpus,), **below),
        a_rule(name="joined", measures=(own, replace(of_gpus, name="gpus")), **below),
        a_rule(name="own", measures=(own,), **below),
        a_rule(name="mean", by=("host",), options={"above": 80.0}),
    ]

    def window(number: int, groups: str, complete: bool = True) -> Window:
        gpus = [a_gpu(one, 90, count=4, placement_group=one) for one in groups]
        hosts = [a_row("host.samples", "host", host="h1", origin="measured", event_count=1)]
        tables = {GPU: a_block(GPU, gpus), "host.samples": a_block("host.samples", hosts)}
        return Window(BASE_MS + number * GRAIN_MS, tables, None, complete)

    detector = FleetDetector(rules)
    found = run(detector, [window(n, "a", complete=False) for n in range(40)])
    whole = FleetDetector(rules).detect(window(0, "a"))

    assert {one.rule for one in found} == {"own", "mean", "judging_incomplete"}
    assert {one.rule for one in whole} == {"gpus", "joined", "own", "mean"}


def test_windows_that_were_passed_by_make_no_series_idle() -> None:
    """What went silent while some source was missing is still found when all are back, over a restart too."""
    rules = [a_rule("no_data", options={"after_s": 20.0, "forget_after_s": 60.0})]
    detector, restarted = FleetDetector(rules), FleetDetector(rules)
    run(detector, [temperatures(n, {"a": 60, "b": 60}) for n in range(3)])
    passed = run(detector, [temperatures(n, {"b": 60}, complete=False) for n in range(3, 23)])
    restarted.load(detector.dump())
    back = [temperatures(n, {"b": 60}) for n in range(23, 48)]

    found = [told(detector.detect(window)) for window in back]

    assert passed == []
    assert found[:5] == [[], *[[("a", True, silent)] for silent in (20.0, 30.0, 40.0, 50.0)]]
    assert found == [told(restarted.detect(window)) for window in back]
    assert detector.series == {"no_data": 1}


def test_windows_that_were_passed_by_are_no_silence_of_what_fires() -> None:
    """What cannot be judged in the first window that is whole again is cleared after minutes of such windows."""
    events = Measure("value", GPU, Function.COUNT, text="count()")
    rule = a_rule(name="fleet", by=(), measures=(events,), options={"above": 5.0}, min_count=6)
    detector = FleetDetector([rule])
    run(detector, [a_window(0, [a_gpu("a", 60, count=9)])])

    passed = [detector.detect(a_window(n, [a_gpu("a", 60, count=9)], complete=False)) for n in range(1, 41)]
    few = [detector.detect(a_window(n, [a_gpu("a", 60, count=3)])) for n in range(41, 71)]

    assert [told_of(found, "fleet") for found in passed] == [[("", True, 9.0)]] * 40
    assert [told_of(found, "fleet") for found in few] == [*[[("", True, 9.0)]] * 29, [("", False, 9.0)]]


@pytest.mark.parametrize(("min_count", "fires"), [(0, True), (1, False)])
def test_a_count_that_must_not_be_low_fires_when_nothing_comes_where_that_is_judged(
    min_count: int, fires: bool
) -> None:
    """And clears when something comes again."""
    events = Measure("value", GPU, Function.COUNT, text="count()")
    rule = a_rule(measures=(events,), options={"below": 5.0}, min_count=min_count, clear_after=1)
    detector = FleetDetector([rule])
    run(detector, [a_window(n, [a_gpu("a", 60, count=9)]) for n in range(3)])

    stopped = run(detector, [a_window(n) for n in range(3, 5)])
    again = run(detector, [a_window(5, [a_gpu("a", 60, count=9)])])

    assert told(stopped) == ([("a", True, 0.0)] * 2 if fires else [])
    assert told(again) == ([("a", False, 9.0)] if fires else [])


def test_what_was_taken_away_does_not_count_as_too_few_for_ever() -> None:
    """Nobody has seen it for eight days: it is said to be silent, and forgotten."""
    events, days = Measure("value", GPU, Function.COUNT, text="count()"), IDLE_MS // GRAIN_MS
    detector = FleetDetector([a_rule(measures=(events,), options={"below": 5.0}, min_count=0)])
    run(detector, [a_window(n, [a_gpu("a", 60, count=9)]) for n in range(3)])

    last, gone, over = (run(detector, [a_window(n)]) for n in (days + 2, days + 32, days + 40))

    assert told(last) == [("a", True, 0.0)]
    assert [(one.firing, one.note) for one in gone] == [(False, SILENT)]
    assert (over, detector.series) == ([], {"threshold": 0})


ABOVE = {"options": {"above": 80.0}}


def test_where_only_sources_are_missing_machines_are_judged_at_once() -> None:
    """Their series come from one source; what a missing one would mislead waits, and nothing is trained."""
    rules = [
        HOT,
        a_rule(name="long", window_ms=30_000, **ABOVE),
        a_rule(name="model", by=("gpu_model",), **ABOVE),
        a_rule(name="host", by=("host",), **ABOVE),
        a_rule("no_data"),
        a_rule("deviation", options={"warm_up_windows": 3}),
    ]
    detector = FleetDetector(rules)
    run(detector, [a_window(n, [a_gpu(gpu, 60, gpu_model="m") for gpu in "ab"]) for n in range(3)])
    windows = [a_window(n, [a_gpu("a", 90, gpu_model="m")], complete=False) for n in range(3, 30)]

    found = run(detector, [replace(window, series_whole=True) for window in windows])

    assert {(one.rule, one.labels, one.window_ms) for one in found if one.window_ms <= BASE_MS + 3 * GRAIN_MS} == {
        ("threshold", (("gpu_uuid", "a"),), BASE_MS + 3 * GRAIN_MS),
        ("long", (("gpu_uuid", "a"),), BASE_MS + 3 * GRAIN_MS),
        ("deviation", (("gpu_uuid", "a"),), BASE_MS + 3 * GRAIN_MS),
    }
    assert {one.rule for one in found} == {"threshold", "long", "deviation"}
    assert detector.detectors["deviation"].detector.dump()["samples"].max() == 3


M_OF_N = {"m": 2, "n": 3}


def test_a_look_says_what_begins_and_leaves_judging_as_it_was() -> None:
    """Once, by m of n over windows that were looked at; then every window is judged as if nobody had looked."""
    rules = [a_rule(**ABOVE, **M_OF_N), a_rule("deviation", options={"warm_up_windows": 3})]
    looked, plain = FleetDetector(rules), FleetDetector(rules)
    before = [temperatures(n, {"a": 60, "b": 90 if n == 2 else 60}) for n in range(3)]
    assert run(looked, before) == run(plain, before)
    whole = [temperatures(n, {"a": 60, "b": 90, "c": 90 + n}) for n in range(3, 7)]
    parts = [replace(temperatures(n, {"b": 90, "c": 90 + n}, complete=False), series_whole=True) for n in range(3, 7)]

    first = [told_of(looked.look(part), "threshold") for part in parts[:2]]
    restarted = FleetDetector(rules)
    restarted.load(looked.dump())
    rest = [[told_of(one.look(part), "threshold") for part in parts[2:]] for one in (looked, restarted)]
    judged = [plain.detect(window) for window in whole]

    assert (first, rest) == ([[("b", True, 90.0)], [("c", True, 94.0)]], [[[], []]] * 2)
    assert [looked.detect(window) for window in whole] == judged == [restarted.detect(window) for window in whole]
    assert looked.dump() == plain.dump() == restarted.dump()
    assert looked.look(parts[3]) == []


def test_a_window_older_than_one_that_was_looked_at_is_not_looked_at() -> None:
    """Its rows came behind those of the next one; both are judged as if nobody had looked."""
    looked, plain = FleetDetector([a_rule(**ABOVE)]), FleetDetector([a_rule(**ABOVE)])
    whole = [temperatures(n, {"a": 90, "b": 90 if n == 3 else 60}) for n in range(2, 5)]
    assert run(looked, whole[:1]) == run(plain, whole[:1])
    parts = [replace(temperatures(n, {"b": 90 if n == 3 else 60}, complete=False), series_whole=True) for n in (4, 3)]

    assert [looked.look(part) for part in parts] == [[], []]
    assert run(looked, whole[1:]) == run(plain, whole[1:]) != []
    assert looked.dump() == plain.dump()


def test_only_what_is_whole_where_its_source_is_is_looked_at() -> None:
    """Neither silence nor what spans sources nor longer windows; and it begins there once it is judged."""
    rules = [
        HOT,
        a_rule(name="long", window_ms=30_000, **ABOVE),
        a_rule(name="model", by=("gpu_model",), **ABOVE),
        a_rule(name="host", by=("host",), **ABOVE),
        a_rule("no_data", options={"after_s": 10}),
    ]
    detector = FleetDetector(rules)
    run(detector, [a_window(n, [a_gpu(gpu, 60, gpu_model="m") for gpu in "ab"]) for n in range(3)])

    found = [detector.look(a_window(n, [a_gpu("a", 90, gpu_model="m")], complete=False)) for n in range(3, 12)]

    assert [[(one.rule, one.labels) for one in each] for each in found] == [
        [("threshold", (("gpu_uuid", "a"),))],
        *[[]] * 8,
    ]


def test_too_few_events_are_not_judged() -> None:
    """Below ``min_count`` of the values behind the first measure."""
    detector = FleetDetector([a_rule(options={"above": 80.0}, min_count=5)])
    rows = [a_gpu("a", 90, count=4), a_gpu("b", 90, count=5)]

    assert told(detector.detect(a_window(0, rows))) == [("b", True, 90.0)]
    assert detector.stats["below_count"] == 1


def test_series_beyond_the_limit_are_counted_not_judged() -> None:
    """Those with a place are, and keep it."""
    detector = FleetDetector([HOT], series_max=2)

    found = run(detector, [temperatures(0, {"b": 90, "c": 90, "a": 90}), temperatures(1, {"c": 90, "b": 70, "a": 70})])

    assert told(found) == [("a", True, 90.0), ("b", True, 90.0), ("a", True, 70.0), ("b", True, 70.0)]
    assert detector.stats["beyond_limit"] == 2
    assert detector.series == {"threshold": 2}


def test_a_rule_without_room_is_said_once_until_it_has_room(caplog: pytest.LogCaptureFixture) -> None:
    """By name, with its limit and how many found no place; again when it happens again."""
    detector = FleetDetector([HOT], series_max=2)
    few, many = {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1, "d": 1}

    run(detector, [temperatures(number, found) for number, found in enumerate([few, many, many, few, many])])

    said = [(one.levelname, one.rule, one.series_max, one.beyond) for one in caplog.records]  # type: ignore[attr-defined]
    assert said == [("WARNING", "threshold", 2, 2)] * 2


def test_words_with_lasting_codes_change_nothing() -> None:
    """Findings and state are those of windows whose words are numbered anew each time, over a restart too."""
    rules = [HOT, a_rule(window_ms=60_000, name="long"), a_rule("no_data", name="silent", options={"after_s": 20})]
    plain, lasting = FleetDetector(rules), FleetDetector(rules)
    lexicons = Lexicons(words_max=4)
    for number in range(14):
        rows = [a_gpu(gpu, 70 + 3 * number, host=f"h-{gpu}") for gpu in "dacb"[number % 2 : 2 + number % 3]]
        window = a_window(number, rows)
        if number == 8:
            restarted = FleetDetector(rules)
            restarted.load(lasting.dump())
            lasting = restarted

        found = lasting.detect(replace(window, tables=lexicons.shared(window.tables)))

        assert found == plain.detect(window)
        assert lasting.dump() == plain.dump()


@pytest.mark.parametrize(("idle_ms", "series_max"), [(IDLE_MS, 100), (PRESSED_IDLE_MS, 2)], ids=["idle", "no room"])
def test_idle_series_give_their_place_away(idle_ms: int, series_max: int) -> None:
    """After days, or an hour where there is no room; one that comes again begins anew."""
    detector = FleetDetector([a_rule(options={"above": 80.0}, m=2, n=2)], series_max)
    last = idle_ms // GRAIN_MS
    detector.detect(temperatures(0, {"a": 90, "b": 70}))
    detector.detect(temperatures(last, {"b": 70}))
    kept = detector.series

    detector.detect(temperatures(last + 7, {"b": 70, "c": 90}))

    assert (kept, detector.series) == ({"threshold": 2}, {"threshold": 2})
    assert detector.stats["forgotten"] == 1
    assert told(detector.detect(temperatures(last + 8, {"a": 90, "c": 90}))) == [("c", True, 90.0)]


def test_what_fires_is_cleared_after_silence_not_forgotten() -> None:
    """With a note."""
    detector = FleetDetector([HOT])
    detector.detect(temperatures(0, {"a": 90, "b": 60}))

    found = run(detector, [temperatures(n, {"b": 60}) for n in range(1, 40)])

    assert [(one.firing, one.note) for one in found] == [(True, "")] * 29 + [(False, SILENT)]


def test_a_new_normal_clears_and_says_so() -> None:
    """The note stays on the finding until it has cleared."""
    options = {"warm_up_windows": 3, "relearn_after_s": 100.0}
    detector = FleetDetector([a_rule("deviation", options=options, clear_after=3)])

    found = run(detector, [temperatures(n, {"a": 50 if n < 10 else 90}) for n in range(30)])

    assert [(one.firing, one.note) for one in found] == [(True, "")] * 9 + [(True, ACCEPTED)] * 2 + [(False, ACCEPTED)]


MINUTE = a_rule(name="minute", options={"above": 80.0}, window_ms=60_000)


def test_a_longer_window_is_judged_when_its_last_part_has_come() -> None:
    """Its parts merged: a mean over the minute."""
    detector = FleetDetector([MINUTE])

    found = [detector.detect(temperatures(n, {"a": 60 if n % 2 else 120})) for n in range(6)]

    assert found[:5] == [[]] * 5
    assert [(one.value, one.count, one.window_ms, one.length_ms) for one in found[5]] == [(90.0, 6, BASE_MS, 60_000)]


def test_a_missing_part_stalls_nothing() -> None:
    """Missing in the middle; at the end: judged with the first part after it; many parts are brought together."""
    detector = FleetDetector([MINUTE, a_rule(name="long", options={"above": 80.0}, window_ms=300_000)])

    first = run(detector, [temperatures(n, {"a": 90}) for n in (0, 2, 3)])
    second = run(detector, [temperatures(n, {"a": 90}) for n in (6, 7, 8)])
    rest = run(detector, [temperatures(n, {"a": 90}) for n in range(9, 30)])

    assert (first, [(one.window_ms, one.count) for one in second]) == ([], [(BASE_MS, 3)])
    assert [(one.rule, one.count) for one in rest] == [("minute", 6)] * 3 + [("long", 27), ("minute", 6)]


def test_a_long_window_whose_beginning_was_not_heard_is_incomplete() -> None:
    """A start in its middle, or an incomplete part, judges nothing."""
    detector = FleetDetector([MINUTE])

    found = run(detector, [temperatures(n, {"a": 90}) for n in range(1, 6)])
    found += run(detector, [temperatures(n, {"a": 90}, complete=n != 8) for n in range(6, 12)])

    assert (found, detector.stats["incomplete"]) == ([], 2)
    assert len(run(detector, [temperatures(n, {"a": 90}) for n in range(12, 18)])) == 1


def requests(number: int, *counts: tuple[str, str, int]) -> Window:
    """Events by model and status."""
    rows = [a_row(REQUESTS, "service", model=model, status=status, event_count=n) for model, status, n in counts]
    return a_window(number, rows, topic=REQUESTS)


def test_a_count_comes_down_by_itself() -> None:
    """No row is no event: a burst that ended is within, and with ``min_count`` 0 a break is beyond."""
    errors = Measure("value", REQUESTS, Function.COUNT, where=(Where("status", ("error",)),), text="count()")
    every = Measure("value", REQUESTS, Function.RATE, text="rate()")
    detector = FleetDetector(
        [
            a_rule(name="burst", measures=(errors,), by=("model",), options={"above": 5.0}, clear_after=1),
            a_rule(name="break", measures=(every,), by=("model",), options={"below": 0.5}, min_count=0),
        ]
    )
    windows = [
        requests(0, ("m", "error", 9), ("m", "ok", 1)),
        requests(1, ("m", "ok", 10)),
        requests(2, ("n", "ok", 10)),
    ]

    found = [[(one.rule, one.firing, one.value) for one in detector.detect(window)] for window in windows]

    assert found == [[("burst", True, 9.0)], [("burst", False, 0.0)], [("break", True, 0.0)]]


def test_measures_of_other_topics_are_joined_by_the_labels_they_know() -> None:
    """A host's measure holds for all its GPUs; where there is none it is unknown."""
    frames: list[Any] = []
    heat = Measure("value", GPU, Function.MEAN, "temperature_c")
    cpu = Measure("cpu", "host.samples", Function.MAX, "cpu_busy_ppm")
    fleet = Measure("fleet", REQUESTS, Function.COUNT, where=(Where("tenant", ("t",)),))
    other = Measure("events", GPU, Function.COUNT, where=(Where("workload", ("training",)),))
    detector = FleetDetector(
        [a_rule(measures=(heat, cpu, fleet, other), by=("host", "gpu_uuid"), options={"above": 999.0})]
    )
    threshold: Any = detector.detectors["threshold"].detector
    inner = threshold.detect
    threshold.detect = lambda frame: (frames.append(frame), inner(frame))[1]
    gpus = [
        a_gpu("c", 3, host="h2"),
        a_gpu("a", 1, host="h1", workload="training"),
        a_gpu("b", 2, host="h1"),
        a_gpu("d", 4, host="h3"),
    ]
    hosts = [a_row("host.samples", "host", host=h, cpu_busy_ppm_max=n) for h, n in (("h2", 20), ("h1", 10), ("h9", 90))]
    tables = {
        GPU: a_block(GPU, gpus),
        "host.samples": a_block("host.samples", hosts),
        REQUESTS: a_block(REQUESTS, [a_row(REQUESTS, "service", tenant="t", event_count=n) for n in (3, 4)]),
    }

    detector.detect(Window(BASE_MS, tables))

    found = {name: values.tolist() for name, values in frames[0].values.items()}
    assert str(found) == str(
        {
            "value": [1.0, 2.0, 3.0, 4.0],
            "cpu": [10.0, 10.0, 20.0, float("nan")],
            "fleet": [7.0] * 4,
            "events": [1.0, float("nan"), float("nan"), float("nan")],
        }
    )


def test_rules_that_cannot_be_judged_are_refused() -> None:
    """More windows than are kept; kinds without a detector are left to others."""
    with pytest.raises(ConfigError, match="64"):
        FleetDetector([a_rule(options={"above": 1.0}, m=1, n=65)])

    assert FleetDetector([a_rule(kind="threshold", name="x")]).rules[0].name == "x"


@pytest.mark.parametrize("kind", ["threshold", "deviation", "moving_average", "rate_of_change"])
def test_what_is_judged_only_under_a_condition_is_well_without_it(kind: str) -> None:
    """It clears although its value is as far off as before, and trains nothing."""
    load = Measure("load", GPU, Function.COUNT)
    options = {"threshold": {"above": 80.0}, "rate_of_change": {"above": -1.0, "over_s": 20.0}}
    given = options.get(kind, {"warm_up_windows": 3})
    rule = a_rule(kind, measures=(MEAN, load), only_while=(While("load", low=2.0),), options=given, clear_after=2)
    detector = FleetDetector([rule])
    for n in range(5):
        detector.detect(a_window(n, [a_gpu("a", 50, count=2)]))

    found = [detector.detect(a_window(n, [a_gpu("a", 99, count=2 if n < 7 else 1)])) for n in range(5, 10)]

    assert [[one.firing for one in some] for some in found] == [[True], [True], [True], [False], []]


@pytest.mark.parametrize("measure", [MEAN, Measure("value", GPU, Function.COUNT)], ids=["a mean", "a count"])
def test_silence_of_a_series_is_judged(measure: Measure) -> None:
    """Although it is absent; it clears when it comes again."""
    detector = FleetDetector([a_rule("no_data", measures=(measure,), clear_after=2)])
    windows = [temperatures(0, {"a": 1, "b": 1}), *(temperatures(n, {"b": 1}) for n in range(1, 4))]
    windows += [temperatures(n, {"a": 1, "b": 1}) for n in range(4, 6)]

    found = [told(detector.detect(window)) for window in windows]

    assert found == [[], [], [], [("a", True, 30.0)], [("a", True, 0.0)], [("a", False, 0.0)]]
