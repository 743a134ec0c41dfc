"""Latencies of a real vLLM through the windows job: what the shipped rules of 15 % and of the slowest 1 % say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.rules.load import load
from tests.unit.stream_jobs.insight.cases import BASE_MS, GRAIN_MS, Row, a_block
from tests.unit.stream_jobs.windows.cases import a_record, a_step, fold_all, partials

(RECORDING,) = (Path(__file__).parents[3] / "data" / "vllm_latencies").glob("*.jsonl")
TOPICS = ("llm.requests", "engine.samples")
RULES = [rule for rule in load() if rule.name in ("itl_moving_average", "ttft_p99_unusual", "tpot_p99_unusual")]
LEARNS, HALF_AN_HOUR = 1_440, 180
"""Windows of ten seconds; the first are four hours."""

Seconds_10 = dict[str, list[Row]]


def as_it_was(event: Row) -> Row:
    """A recorded event."""
    return event


def steps_of_a_fifth_more(event: Row) -> Row:
    """Every gap between tokens 1.215 times as long: nine bins of the sketch."""
    bins = {bin + 9: count for bin, count in event.get("itl_bins", {}).items()}
    return event | ({"itl_bins": bins, "tpot_us": round(event["tpot_us"] * 1.215)} if bins else {})


def one_in_thirty_much_slower(event: Row) -> Row:
    """One request of thirty takes six times as long for each token."""
    slow = "tpot_us" in event and int(event["request_id"][:8], 16) % 30 == 0
    return event | ({"tpot_us": 6 * event["tpot_us"]} if slow else {})


@cache
def windows_of(made: Callable[[Row], Row]) -> list[Seconds_10]:
    """Rows of windows by topic, of each whole ten seconds of the recording; as if each began at ``BASE_MS``."""
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    first_ms = min(line["at_ms"] for line in lines)
    count = (max(line["at_ms"] for line in lines) - first_ms) // GRAIN_MS
    found: list[Seconds_10] = [{} for _ in range(count)]
    for number, window in enumerate(found):
        for topic in TOPICS:
            events = [event_of(line, first_ms + number * GRAIN_MS) for line in lines if line["topic"] == topic]
            events = [made(event) for event in events if 0 <= event["at_ms"] - BASE_MS < GRAIN_MS]
            step = a_step()
            window[topic] = partials(step, *fold_all(step, [a_record(topic, events)], topic)) if events else []
    return found


def event_of(line: dict[str, Any], from_ms: int) -> Row:
    """As it was recorded, later by so much that ``from_ms`` is ``BASE_MS``."""
    bins = {int(bin): count for bin, count in line.get("itl_bins", {}).items()}
    return line | {"at_ms": line["at_ms"] - from_ms + BASE_MS} | ({"itl_bins": bins} if bins else {})


def drawn(made: Callable[[Row], Row], count: int, seed: int) -> list[Seconds_10]:
    """So many windows, each drawn from all of the recording."""
    return random.Random(seed).choices(windows_of(made), k=count)


def fired(windows: Sequence[Seconds_10]) -> set[str]:
    """The rules that fire over these windows, one after the other."""
    detector, found = FleetDetector(RULES), set[str]()
    for number, rows in enumerate(windows):
        blocks = {topic: a_block(topic, rows[topic]) for topic in TOPICS if rows[topic]}
        window = Window(BASE_MS + number * GRAIN_MS, blocks)
        found |= {finding.rule for finding in detector.detect(window) if finding.firing}
    return found


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("made", "told"),
    [
        (as_it_was, set()),
        (steps_of_a_fifth_more, {"itl_moving_average"}),
        (one_in_thirty_much_slower, {"tpot_p99_unusual"}),
    ],
)
def test_a_real_engine_is_slower_than_it_was(made: Callable[[Row], Row], told: set[str], seed: int) -> None:
    """Four hours as recorded, then half an hour: the median's rule fires for all that is slower by more than 15 %, that
    of the slowest 1 % for a tail which the median does not show, and neither for what was measured."""
    assert fired(drawn(as_it_was, LEARNS, seed) + drawn(made, HALF_AN_HOUR, seed + 10)) == told
