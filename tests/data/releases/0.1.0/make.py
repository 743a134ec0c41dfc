"""Writes the frozen files beside it. Run by the code of 0.1.0, never by today's (README.md says how).

A small simulated fleet, all jobs and the sink of 0.1.0, one after the other on a clock of its own: what stands on each
topic, what each commit wrote, a snapshot of every job in the middle, and what the sink inserts.
"""

# ruff: noqa: I001
# Its imports are names of 0.1.0: who renames a module today leaves them as they are.
from __future__ import annotations

import hashlib
import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from producers.fleet.faults import Fault
from producers.fleet.fleet import RECORD_ROWS_MAX, Fleet
from producers.fleet.load import PoissonLoad, Share
from producers.fleet.plan import EnginePlan, FleetPlan, HostPlan, side_by_side
from producers.fleet.wide_native import WideEncoder
from producers.publisher import _BOOKS_HEADERS
from schemas.alert_commands import Command
from schemas.block import Block
from schemas.build import block_from_rows, rows_of
from schemas.headers import JSON_COLUMNS, NDJSON, Identity, encode_headers
from schemas.record import Record
from schemas.tables import BY_TABLE_SCHEMA
from schemas.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    COSTS_TOPIC,
    SOURCE_TOPICS,
    WINDOW_FINALS,
    WINDOW_PARTIALS,
)
from stream_jobs.host.names import Names
from stream_jobs.host.snapshot import Pointer, begin

from producers.batch import Batch, batches_of
from producers.spool.books import Tally, book_rows, encode_rows, tally_of
from schemas import alert_commands, finals, wire
from schemas.events import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS
from sinks.landing import land_derived, land_raw
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.costs.pricing import Pricing
from stream_jobs.costs.step import CostStep
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.spend import SpendStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.insight.judge import Judge
from stream_jobs.prices.load import load as load_prices
from stream_jobs.rules.load import load_set
from stream_jobs.step import Commit, replay_from
from stream_jobs.windows.step import WindowsStep

HERE = Path(__file__).parent
BASE_MS = 1_795_305_600_000
"""2026-11-22 00:00 UTC."""
STEP_MS, ROUND_MS = 5_000, 10_000
LOAD_ROUNDS, QUIET_ROUNDS, CUT_AT = 18, 30, 13
SOURCE = hashlib.sha256(b"frozen").hexdigest()[:32]
DEPLOYMENT = "frozen"
ONE_EACH = {topic.name: 1 for topic in SOURCE_TOPICS}
CHAT, CODE = "llama-3.1-8b-instruct", "qwen2.5-coder-7b-instruct"


def plan() -> FleetPlan:
    """Two hosts: an H100 of its own, one that two engines share, and an L40S; the first GPU is lost for a while."""
    hosts = (HostPlan("gpu-000", "eu-1", "eu-central", "H100", 2), HostPlan("gpu-001", "us-1", "us-east", "L40S", 1))
    shared = (((CHAT, "llama@2026-10", "fp8")), (CODE, "qwen@2026-10", "fp8"))
    engines = (
        EnginePlan("gpu-000/0", "gpu-000", CHAT, "llama@2026-10", "fp8", 0),
        *side_by_side("gpu-000", 1, 1, shared),
        EnginePlan("gpu-001/0", "gpu-001", CODE, "qwen@2026-10", "fp8", 0),
    )
    lost = Fault("gpu_lost", "gpu", "gpu-000:0", BASE_MS + 110_000, BASE_MS + 150_000)
    load = PoissonLoad(0.8, (Share(CHAT, 0.7), Share(CODE, 0.3)))
    return FleetPlan(hosts, engines, load, faults=(lost,), host_samples=True)


@dataclass
class Log:
    """All topics."""

    records: list[Record] = field(default_factory=list)
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def append(self, at_ms: int, topic: str, partition: int, key: Any, value: Any, headers: Any) -> Record:
        offset = self.ends[topic, partition]
        self.ends[topic, partition] += 1
        self.records.append(Record(topic, partition, offset, at_ms, key, value, tuple(headers)))
        return self.records[-1]

    def of(self, topic: str, start: int, before_ms: int) -> list[Record]:
        return [
            one for one in self.records if one.topic == topic and one.offset >= start and one.timestamp_ms < before_ms
        ]


class Edge:
    """One sender's spool."""

    def __init__(self, log: Log) -> None:
        self.log, self.seq = log, 0
        self.books: dict[tuple[int, str], Tally] = {}

    def send_books(self, at_ms: int) -> None:
        rows = book_rows(self.books, SOURCE, "gpu-000", at_ms)
        self.log.append(at_ms, BOOKS_TOPIC, 0, None, encode_rows(rows), _BOOKS_HEADERS)

    def send(self, at_ms: int, batch: Batch) -> None:
        identity = Identity(SOURCE, 1, self.seq, (1, max(0, self.seq - 3)))
        self.seq += 1
        headers = encode_headers(batch.schema, batch.content_type, identity, batch.count)
        record = self.log.append(at_ms, batch.topic, 0, batch.key, batch.value, headers)
        tally_of(self.books, 1, batch.topic).add(Tally(1, batch.count, batch.count))
        if identity.seq % 40 == 7:  # sent twice
            self.log.append(at_ms, *record[:2], *record[4:])


def events(topic: str, at_ms: int) -> list[dict[str, Any]]:
    """Those of 0.1.0's examples, at a time."""
    found = json.loads((Path(finals.__file__).parent / "examples" / f"{topic}.json").read_text())["accepted"]
    return [{**one["event"], "at_ms": at_ms} for one in found]


def produce(log: Log) -> None:
    """Records of all source topics, in all formats."""
    edge, encoder = Edge(log), WideEncoder()
    for step in Fleet(plan(), 1).steps(BASE_MS, BASE_MS + LOAD_ROUNDS * ROUND_MS, STEP_MS):
        for wide in step.wides:
            for value in encoder.encode(wide, RECORD_ROWS_MAX):
                schema, key = BY_TOPIC[wide.topic].schema, step.hosts[value.host].encode()
                native = Batch(wide.topic, schema, wire.NATIVE, key, value.rows, value.value)
                edge.send(step.to_ms + 200, native)
        if (step.to_ms - BASE_MS) % 60_000 == 0:
            others(edge, step.to_ms)
            edge.send_books(step.to_ms + 250)
    begin_ms = BASE_MS + 30_300
    for at_ms, command in (
        (begin_ms, Command("mute", "disk", {"host": "gpu-001"}, begin_ms, begin_ms + 600_000, "a new disk", "on call")),
        (begin_ms, Command("mute", "short", {"host": "gpu-000"}, begin_ms, begin_ms + 30_000)),
        (begin_ms, Command("unmute", "short", by="on call")),
        (begin_ms + 130_000, Command("unmute", "disk")),
    ):
        log.append(at_ms, ALERT_COMMANDS, 0, None, alert_commands.encode(command), ())
    log.records.sort(key=lambda one: one.timestamp_ms)


def others(edge: Edge, at_ms: int) -> None:
    """Events the fleet has none of, each format, and what does not count."""
    for topic, form in (("engine.events", "native"), ("host.devices", "ndjson"), ("llm.requests", "columns")):
        event = BY_TOPIC[topic]
        (batch,) = batches_of(event, b"gpu-017", block_from_rows(event.fields, events(topic, at_ms)), form)
        edge.send(at_ms + 210, batch)
    (late,) = events("gpu.samples", at_ms - 7 * 3_600_000)[:1]
    event, rows = BY_TOPIC["gpu.samples"], [late, {**late, "at_ms": at_ms}]
    (batch,) = batches_of(event, b"gpu-017", block_from_rows(event.fields, rows), "ndjson")
    edge.send(at_ms + 220, batch)
    edge.send(at_ms + 230, Batch("gpu.samples", event.schema, NDJSON, b"", 1, b'{"at_ms":1}\n'))
    headers = (("schema", event.schema.encode()), ("content-type", JSON_COLUMNS.encode()))
    value = wire.encode(JSON_COLUMNS, event.fields, block_from_rows(event.fields, events("gpu.samples", at_ms)))
    edge.log.append(at_ms + 240, event.topic, 0, b"gpu-017", value, headers)


@dataclass
class Owner:
    """A job's owner of one partition, without a broker."""

    job: str
    topic: str
    step: Any
    log: Log
    every: bool = False
    state: Any = None
    position: int = 0
    number: int = 0
    commits: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.step.new(self.topic, 0)

    def commit(self, now_ms: int) -> None:
        """Fold what came, and commit."""
        records = self.log.of(self.topic, self.position, now_ms)
        if not records and not self.every:
            return
        changes, to = self.step.changes(), max([self.position, *(one.offset + 1 for one in records)])
        if records:
            self.step.fold(self.state, records, changes)
        commit = Commit(self.topic, 0, self.position, to, self.number, now_ms, not records)
        outputs = self.step.rows(self.state, changes, commit)
        written = [self.log.append(now_ms + 20, *one) for one in outputs]
        for place in {(one.topic, one.partition) for one in written}:
            self.log.ends[place] += 1  # the transaction's marker
        self.commits.append(
            {
                "job": self.job,
                "topic": self.topic,
                "from": commit.offset_from,
                "to": to,
                "number": commit.number,
                "now_ms": now_ms,
                "idle": commit.idle,
                "outputs": [[one.topic, one.partition, one.offset] for one in written],
            }
        )
        self.position, self.number = to, self.number + len(outputs)

    def snapshot(self, now_ms: int) -> dict[str, Any]:
        """As it stands in the state topic, and the pointer beside the committed offset."""
        names = Names(DEPLOYMENT, self.job)
        position = replay_from(self.step, self.state, self.position)
        pieces = begin(names, self.topic, 0, position, 0, self.number, self.step.dump(self.state)).pieces
        return {
            "job": self.job,
            "topic": self.topic,
            "now_ms": now_ms,
            "committed": self.position,
            "metadata": Pointer(self.number, 0).encode(),
            "pieces": [as_json(Record(*one[:2], n, 0, *one[2:])) for n, one in enumerate(pieces)],
        }


def owners(log: Log) -> list[Owner]:
    """All jobs, in the order in which events pass through them."""
    windows = WindowsStep(DEFAULT_LIMITS, {WINDOW_PARTIALS: 1, BOOKS_TOPIC: 1, "rejected": 1})
    pricing = Pricing(load_prices(HERE / "prices.yaml"))
    costs = CostStep(DEFAULT_LIMITS, ONE_EACH, pricing, pricing.version)
    rules, budgets = load_set(None), load_budgets(HERE / "budgets.yaml")
    forward = ForwardStep(DEFAULT_LIMITS)
    return [
        *(Owner("windows", topic.name, windows, log, every=True) for topic in SOURCE_TOPICS),
        Owner("costs", WINDOW_PARTIALS, costs, log),
        *(Owner("finals", topic, forward, log) for topic in ("gpu.events", "engine.events", ALERT_COMMANDS)),
        Owner("finals", COSTS_TOPIC, SpendStep(), log),
        Owner("finals", WINDOW_PARTIALS, FinalsStep(DEFAULT_LIMITS, ONE_EACH), log),
        Owner("alerts", WINDOW_FINALS, AlertStep(1, rules, Judge, Evidence, budgets=budgets), log),
    ]


def as_json(record: Record) -> dict[str, Any]:
    """A record as JSON: bytes as hexadecimal digits, headers as text."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[name, value.decode()] for name, value in record.headers],
    }


def rows(record: Record) -> Any:
    """What 0.1.0 reads in a record; None where it is no record with rows."""
    head = dict(record.headers)
    schema = head.get("schema", b"").decode()
    if record.topic in (ALERTS_TOPIC, ALERT_COMMANDS) or schema == finals.COMMANDS_SCHEMA:
        return orjson.loads(record.value) if record.value else None
    event = {one.schema: one for one in BY_TOPIC.values()}.get(schema)
    table = BY_TABLE_SCHEMA.get(schema) or finals.TABLE_BY_SCHEMA.get(schema) or finals.SPEND
    fields = event.fields if event else table.fields
    if not record.value:
        return None
    block: Block = wire.parse(head["content-type"].decode(), record.value, fields).block
    return [{name: value for name, value in row.items() if value is not None} for row in rows_of(fields, block)]


def inserts(log: Log) -> Iterator[dict[str, Any]]:
    """What the sink makes of the topics."""
    ids = {topic: hashlib.sha256(topic.encode()).hexdigest()[:32] for topic, _ in log.ends}
    end_ms = max(one.timestamp_ms for one in log.records)
    raw = [land_raw(t.name, log.of(t.name, 0, end_ms + 1), ids, end_ms, DEFAULT_LIMITS) for t in SOURCE_TOPICS]
    derived_topics = (WINDOW_PARTIALS, BOOKS_TOPIC, "rejected", COSTS_TOPIC, ALERTS_TOPIC)
    derived = [one for one in log.records if one.topic in derived_topics]
    for landing in (*raw, land_derived(derived, ids, end_ms, DEFAULT_LIMITS)):
        for one in landing.inserts:
            yield {"table": one.table, "columns": one.columns, "rows": one.rows, "native": b"".join(one.pieces).hex()}


def write(name: str, lines: Iterable[Any]) -> None:
    data = b"".join(orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n" for line in lines)
    packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    (HERE / name).write_bytes(packed)


def main(argv: Sequence[str] = ()) -> None:
    log = Log()
    produce(log)
    jobs = owners(log)
    snapshots: list[dict[str, Any]] = []
    for number in range(1, LOAD_ROUNDS + QUIET_ROUNDS + 1):
        for job in jobs:
            job.commit(BASE_MS + number * ROUND_MS + 500)
        if number == CUT_AT:
            snapshots = [job.snapshot(BASE_MS + number * ROUND_MS + 500) for job in jobs]
    write("records.jsonl.xz", map(as_json, log.records))
    write("values.jsonl.xz", map(rows, log.records))
    write("commits.jsonl.xz", (commit for job in jobs for commit in job.commits))
    write("snapshots.jsonl.xz", snapshots)
    write("inserts.jsonl.xz", inserts(log))


if __name__ == "__main__":
    main()
