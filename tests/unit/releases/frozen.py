"""What 0.1.0 wrote, as its files in ``tests/data/releases`` hold it, and today's steps that read it."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.codec.native_cursor import Cursor, skip
from schemas.contract.headers import NATIVE
from schemas.contract.record import Output, Record
from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    COSTS_TOPIC,
    SOURCE_TOPICS,
    WINDOW_PARTIALS,
)
from schemas.events.event_types import BY_SCHEMA
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.finals import PASSED_ON_TOPICS, TABLE_BY_SCHEMA
from schemas.rows.spend import SPEND
from schemas.rows.tables import BY_TABLE_SCHEMA, Table
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.costs.account import Pricing
from stream_jobs.costs.step import CostStep
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.spend import SpendStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.prices.load import load as load_prices
from stream_jobs.rules.load import load_set
from stream_jobs.runner.job import Names
from stream_jobs.runner.snapshot import Assembly, Pointer, Snapshot
from stream_jobs.step import Commit
from stream_jobs.windows.step import WindowsStep
from tests.merged_rows import merge_rows

FOLDER = Path(__file__).parents[2] / "data" / "releases" / "0.1.0"
DEPLOYMENT = "frozen"
NEW_DIMENSIONS = {"service": ("precision",)}
"""Of grouping sets, those that 0.1.0 did not have."""


@cache
def lines(name: str) -> list[Any]:
    """The lines of a file."""
    with lzma.open(FOLDER / name) as opened:
        return [json.loads(line) for line in opened]


def record_of(line: dict[str, Any]) -> Record:
    key, value = (None if line[name] is None else bytes.fromhex(line[name]) for name in ("key", "value"))
    headers = tuple((name, text.encode()) for name, text in line["headers"])
    return Record(line["topic"], line["partition"], line["offset"], line["timestamp_ms"], key, value, headers)


@cache
def records() -> list[Record]:
    """All records of all topics, in the order in which they were written."""
    return [record_of(line) for line in lines("records.jsonl.xz")]


@cache
def by_place() -> dict[tuple[str, int, int], Record]:
    return {(one.topic, one.partition, one.offset): one for one in records()}


def between(topic: str, start: int, stop: int) -> list[Record]:
    """Records of a topic in a range of offsets."""
    return [one for one in records() if one.topic == topic and start <= one.offset < stop]


@cache
def columns_of(schema: str) -> frozenset[str]:
    """The columns of a schema as 0.1.0 wrote it."""
    wanted = {("schema", schema.encode()), ("content-type", NATIVE.encode())}
    blocks = (columns_in(one.value) for one in records() if one.value and wanted <= {*one.headers})
    return max(blocks, key=len, default=frozenset())


def columns_in(block: bytes) -> frozenset[str]:
    """Names of the columns of a Native block."""
    cursor, names = Cursor(block), []
    columns, rows = cursor.number(), cursor.number()
    for _ in range(columns):
        names.append(cursor.text().decode())
        skip(cursor, cursor.text().decode(), rows, 0)
    return frozenset(names)


def read_as_0_1_0(output: Output) -> Any:
    """What 0.1.0 has columns for, of a record that a job writes: rows, merged where today more dimensions tell them
    apart; of an alert all but the requests in its evidence, which were those before it began, too."""
    schema = dict(output.headers).get("schema", b"").decode()
    if output.topic == ALERTS_TOPIC and output.value:
        alert = orjson.loads(output.value)
        alert["evidence"].pop("requests", None)
        return output._replace(value=None), alert
    if not output.value or NATIVE.encode() not in dict(output.headers).values():
        return output
    table = BY_TABLE_SCHEMA.get(schema) or TABLE_BY_SCHEMA.get(schema) or BY_SCHEMA.get(schema) or SPEND
    known, rows = columns_of(schema), rows_of(table.fields, native.decode(output.value, table.fields))
    rows = [row | dict.fromkeys(NEW_DIMENSIONS.get(row.get("grouping", ""), ())) for row in rows]
    if isinstance(table, Table) and "grouping" in known:
        rows = list(merge_rows(table, rows).values())
    return output._replace(value=None), [{name: row[name] for name in row if name in known} for row in rows]


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot, its parts, and which offset was committed and when."""

    snapshot: Snapshot
    parts: list[bytes]
    committed: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job and one of its source topics."""

    name: str
    topic: str

    def __str__(self) -> str:
        return f"{self.name} of {self.topic}"

    def step(self) -> Any:
        """Today's step, set up as 0.1.0's was."""
        if self.name == "windows":
            return WindowsStep(DEFAULT_LIMITS, {WINDOW_PARTIALS: 1, BOOKS_TOPIC: 1, "rejected": 1})
        if self.name == "costs":
            pricing = Pricing(load_prices(FOLDER / "prices.yaml"))
            return CostStep(DEFAULT_LIMITS, ONE_EACH, pricing, pricing.version)
        if self.name == "alerts":
            return AlertStep(1, load_set(None), FleetDetector, Evidence, budgets=load_budgets(FOLDER / "budgets.yaml"))
        if self.topic == WINDOW_PARTIALS:
            return FinalsStep(DEFAULT_LIMITS, ONE_EACH)
        return SpendStep() if self.topic == COSTS_TOPIC else ForwardStep(DEFAULT_LIMITS)

    def commits(self) -> Iterator[tuple[Commit, list[Output]]]:
        """Every commit of 0.1.0, and what it wrote."""
        for line in lines("commits.jsonl.xz"):
            if (line["job"], line["topic"]) == (self.name, self.topic):
                commit = Commit(self.topic, 0, *(line[name] for name in ("from", "to", "number", "now_ms", "idle")))
                written = [by_place()[tuple(place)] for place in line["outputs"]]
                yield commit, [Output(*one[:2], *one[4:]) for one in written]

    def snapshot(self) -> Taken:
        """Its snapshot in the state topic, read as a new owner reads it."""
        (line,) = [one for one in lines("snapshots.jsonl.xz") if (one["job"], one["topic"]) == (self.name, self.topic)]
        pointer = Pointer.decode(line["metadata"], str(self))
        assembly = Assembly(Names(DEPLOYMENT, self.name), pointer.snapshot, str(self))
        found = [assembly.add(record_of(piece)) for piece in line["pieces"]]
        assert found[-1] is not None
        assert found[:-1] == [None] * (len(found) - 1)
        assert found[-1].number == pointer.number
        return Taken(found[-1], assembly.parts, line["committed"], line["now_ms"])


SOURCES = tuple(topic.name for topic in SOURCE_TOPICS if topic.name in {one.topic for one in records()})
"""Source topics of 0.1.0."""
ONE_EACH = dict.fromkeys(SOURCES, 1)
JOBS = (
    *(Job("windows", topic) for topic in SOURCES),
    Job("costs", WINDOW_PARTIALS),
    *(Job("finals", topic) for topic in (*PASSED_ON_TOPICS, ALERT_COMMANDS, COSTS_TOPIC, WINDOW_PARTIALS)),
    Job("alerts", "window.finals"),
)
