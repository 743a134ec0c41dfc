"""Conditions between measures: what is out of reach of a rule trains nothing, fires nothing and clears."""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Detection, Floats, Frame, Window
from stream_jobs.insight.rule_detector import apply_while, judged_while
from stream_jobs.rules.load import parse_set
from stream_jobs.rules.model import Rule
from tests.unit.stream_jobs.insight.cases import BASE_MS, GPU, GRAIN_MS, a_block, a_gpu, a_row, run

NAN = float("nan")
UNKNOWN = np.full(4, NAN)


def rule(condition: str) -> Rule:
    text = (
        "rules: [{name: a, kind: threshold, metric: mean(power_mw), by: [host], "
        f"measures: {{heat: mean(temperature_c)}}, while: {condition}, options: {{above: 1W}}}}]"
    )
    return parse_set(text.encode(), "a").rules[0]


def frame(heat: list[float]) -> Frame:
    count = len(heat)
    values = {"value": np.arange(1.0, count + 1), "heat": np.array(heat)}
    return Frame(0, 10_000, np.arange(count) * 2, values, np.ones(count, np.int64), np.zeros(count, np.bool_))


def seen(found: Frame) -> Floats:
    return found.values["value"]


def test_the_value_is_known_only_while_the_condition_holds() -> None:
    """Both ends belong to the range; an unknown condition judges nothing and clears nothing."""
    found, off = apply_while(rule("{heat: {above: 40C, below: 75C}}"), frame([39.9, 40.0, 75.0, 75.1, NAN]))

    np.testing.assert_array_equal(seen(found), [NAN, 2.0, 3.0, NAN, NAN])
    np.testing.assert_array_equal(off, [True, False, False, True, False])


def test_without_conditions_the_frame_is_as_it_was() -> None:
    """Nothing is copied."""
    plain = parse_set(
        b"rules: [{name: a, kind: threshold, metric: mean(power_mw), by: [host], options: {above: 1W}}]", "a"
    )
    before = frame([1.0])
    found, off = apply_while(plain.rules[0], before)

    assert found is before
    assert off.tolist() == [False]


def test_series_out_of_reach_are_well() -> None:
    """By slot, whatever the order of the detection; others stay as they were judged."""
    before = frame([80.0, 50.0, 80.0, 50.0])
    _, off = apply_while(rule("{heat: {below: 75C}}"), before)
    slots = np.array([6, 4, 2, 0, 9])
    flags = np.array([True, True, False, False, True])
    five = np.full(5, NAN)
    found = judged_while(Detection(slots, flags, ~flags, five, five, five, five), before, off)

    assert found.beyond.tolist() == [True, False, False, False, True]
    assert found.within.tolist() == [False, True, True, True, False]


def test_a_judgement_within_reach_is_as_it_was() -> None:
    """Nothing is copied."""
    before = frame([50.0, 50.0, 50.0, 50.0])
    flags = np.array([True, False, True, False])
    detection = Detection(before.slots, flags, ~flags, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)

    assert judged_while(detection, before, np.zeros(4, np.bool_)) is detection


def test_a_count_of_none_is_judged_while_another_topic_says_so() -> None:
    """A GPU that no event comes of is beyond while its host is busy, and well once that is idle or events come."""
    text = """
        rules:
          - {name: a, kind: threshold, metric: count(), topic: gpu.samples, by: [host, gpu_uuid], min_count: 0,
             clear_after: 1, measures: {busy: max(cpu_busy_ppm)}, while: {busy: {above: 50%}}, options: {below: 1}}"""
    detector = FleetDetector(list(parse_set(text.encode(), "a").rules))

    def window(number: int, gpus: int, busy_ppm: int) -> Window:
        host = a_row("host.samples", "host", host="h1", cpu_busy_ppm_max=busy_ppm)
        rows = {GPU: a_block(GPU, [a_gpu("g", 50)] * gpus), "host.samples": a_block("host.samples", [host])}
        return Window(BASE_MS + number * GRAIN_MS, rows, None, complete=True)

    seen = [(1, 900_000), (0, 900_000), (0, 100_000), (0, 900_000), (1, 900_000)]
    found = run(detector, [window(number, *one) for number, one in enumerate(seen)])

    numbers = [(one.window_ms - BASE_MS) // GRAIN_MS for one in found]
    assert list(zip(numbers, [one.firing for one in found], strict=True)) == [
        (1, True),
        (2, False),
        (3, True),
        (4, False),
    ]
