"""Rules, windows and rows that the tests of insight share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.fields import Kind
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

Row = dict[str, Any]

BASE_MS = 1_800_000_000_000
"""A multiple of an hour."""
GRAIN_MS = 10_000
GPU = "gpu.samples"
REQUESTS = "llm.requests"


def a_row(topic: str, grouping: str, **given: Any) -> Row:
    """A row of finals; what is not given is null, zero or empty."""
    row: Row = {}
    for field in PARTIALS[topic].fields:
        empty: Any = {} if field.kind is Kind.BINS else None if field.kind.optional else 0
        row[field.name] = given.pop(field.name, empty)
    row["grouping"] = grouping
    assert not given, given
    return row


def a_block(topic: str, rows: Sequence[Row]) -> Block:
    return block_from_rows(PARTIALS[topic].fields, rows)


def a_gpu(gpu: str, temperature_c: int | None, count: int = 1, **given: Any) -> Row:
    """A row whose mean temperature is the given one."""
    known = 0 if temperature_c is None else count
    return a_row(
        GPU,
        "gpu",
        event_count=count,
        temperature_c_count=known,
        temperature_c_sum=known * (temperature_c or 0),
        gpu_uuid=gpu,
        **{"host": "h1", "origin": "measured", **given},
    )


def a_window(number: int, rows: Sequence[Row] = (), complete: bool = True, topic: str = GPU) -> Window:
    """The ``number``-th window of 10 s after ``BASE_MS`` with rows of one topic."""
    return Window(BASE_MS + number * GRAIN_MS, {topic: a_block(topic, rows)} if rows else {}, None, complete)


def temperatures(number: int, values: Mapping[str, int | None], complete: bool = True) -> Window:
    return a_window(number, [a_gpu(gpu, value) for gpu, value in values.items()], complete)


MEAN = Measure("value", GPU, Function.MEAN, "temperature_c", text="mean(temperature_c)")


def a_rule(kind: str = "threshold", **given: Any) -> Rule:
    """A rule over mean temperatures per GPU, with the defaults of its kind."""
    options = {option.name: option.default for option in KINDS[kind].options}
    options.update(given.pop("options", {}))
    base: dict[str, Any] = {"measures": (MEAN,), "by": ("gpu_uuid",), "severity": "warning", "summary": ""}
    return Rule(given.pop("name", kind), kind, **{**base, **given}, options=options)


def told(findings: Sequence[Finding]) -> list[tuple[str, bool, float | None]]:
    """(last label, firing, value) of each."""
    return [(one.labels[-1][1] if one.labels else "", one.firing, one.value) for one in findings]


def run(detector: FleetDetector, windows: Sequence[Window]) -> list[Finding]:
    return [finding for window in windows for finding in detector.detect(window)]
