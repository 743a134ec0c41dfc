"""The way of every batch, told to a collector by the real processes; and a collector that is away."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.migrate.run import migrate
from fleetpulse.services.processes import Command, Processes
from producers.publish.publisher import Publisher
from producers.spool.spool import Spool
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.counters import Counters
from runtime.trace_context import trace_of
from runtime.trace_export import OtlpExporter
from runtime.tracing import ExportingTracer
from runtime.tracing_config import TracingConfig
from sinks.service import SinkSettings, run_sink
from tests.integration.installation import variables_of, variables_of_database
from tests.integration.otlp_receiver import Received, Receiver, receiving
from tests.integration.sink_rig import send, until
from tests.unit.sinks.landing_cases import partials
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.tables, pytest.mark.timeout(420)]

WITHIN_S = 180.0


class Pipeline:
    """Simulator, windows job and sink, each a process of its own that is started again; every batch is traced."""

    def __init__(self, folder: Path, processes: Processes, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.processes = processes
        self.environment = {**settings, "FLEETPULSE_DATA_DIR": str(folder)}

    def start(self, *words: str, restart: bool = True) -> None:
        self.processes.start(Command(words[0], words, self.environment, restart))

    def eventually(self, holds: Callable[[], object], what: Callable[[], object] = str) -> None:
        until_s = time.monotonic() + WITHIN_S
        while not holds():
            if time.monotonic() > until_s:
                pytest.fail(f"not within {WITHIN_S} s: {what()}\n{self.tails()}")
            self.processes.tend()
            time.sleep(0.2)

    def line(self, name: str, event: str) -> dict[str, Any]:
        """The one line of this event that a process logged."""
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        (found,) = (line for line in map(json.loads, lines) if line["event"] == event)
        return dict(found)

    def tails(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-1_500:]}" for path in self.folder.glob("*.log"))


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def pipeline(
    own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig, collector: Receiver, tmp_path: Path
) -> Iterator[Pipeline]:
    """On topics, in a database and under a deployment of its own."""
    migrate(own_kafka, clickhouse_config)
    with Processes(tmp_path) as processes:
        settings = {
            **variables_of(own_kafka),
            **variables_of_database("CLICKHOUSE", clickhouse_config),
            "FLEETPULSE_TRACING__ENDPOINT": collector.url,
            "FLEETPULSE_TRACING__RATIO": "1",
            "FLEETPULSE_TRACING__QUEUE_SPANS_MAX": "65536",
            "FLEETPULSE_TRACING__FLUSH_WITHIN_MS": "60000",
        }
        yield Pipeline(tmp_path, processes, settings)


def by_key(spans: list[Received]) -> dict[tuple[bytes, bytes], Received]:
    return {span.key: span for span in spans}


def test_every_batch_is_followed_from_the_edge_to_its_rows(
    pipeline: Pipeline, collector: Receiver, clickhouse: Any
) -> None:
    """publish -> fold -> commit -> land, by parents and links alone; and what landed is exactly what was produced."""
    pipeline.start("sink")
    pipeline.start("jobs", "windows", "--shell", "bare", "--name", f"w{secrets.token_hex(4)}")
    pipeline.start("simulate", "--gpus", "8", "--load", "poisson", "--rate", "20", "--seconds", "3", restart=False)
    pipeline.eventually(lambda: pipeline.processes.exit_code("simulate") == 0)
    told = pipeline.line("simulate", "simulated")
    spool = pipeline.line("simulate", "spool open")

    def booked() -> dict[str, int]:
        found = clickhouse.query(
            "SELECT topic, sum(events) FROM books FINAL WHERE source = {source:String} GROUP BY topic",
            parameters={"source": spool["source"]},
        ).result_rows
        return {topic: int(events) for topic, events in found}

    def stored() -> dict[str, int]:
        return {
            topic: clickhouse.query(
                f"SELECT count() FROM {topic.replace('.', '_')} FINAL WHERE source = {{source:String}}",
                parameters={"source": spool["source"]},
            ).result_rows[0][0]
            for topic in told["events"]
        }

    pipeline.eventually(lambda: booked() == told["events"] == stored(), lambda: (told, booked(), stored()))
    pipeline.eventually(lambda: collector.of("land llm_requests_partials"))
    pipeline.processes.stop()

    assert_followed(collector, told["records"], spool["source"])


def assert_followed(collector: Receiver, records: int, source: str) -> None:
    """Every record that was sent, to its raw table and through the job's commit to the table of its aggregates."""
    published, every_fold, committed = (by_key(collector.of(name)) for name in ("publish", "fold", "commit"))
    folded = {
        key: span for key, span in every_fold.items() if span.parent in published
    }  # others left theirs in the log
    landed = collector.of("land")
    raw = [span for span in landed if span.parent in published]
    aggregates = [span for span in landed if span.parent in committed]

    assert len(published) == records
    assert {span.attributes["fleetpulse.source"] for span in published.values()} == {source}
    assert {span.parent for span in folded.values()} == {span.parent for span in raw} == published.keys()
    assert all(span.links for span in committed.values())
    assert {link for span in committed.values() for link in span.links} == every_fold.keys()
    assert all(span.links == (span.parent,) for span in (*raw, *aggregates, *folded.values()))
    assert {span.service for span in collector.spans} == {
        "fleetpulse-simulate",
        "fleetpulse-jobs-windows",
        "fleetpulse-sink",
    }

    requests, commit, fold = next(
        (span, commit, folded[link])
        for span in aggregates
        if span.name == "land llm_requests_partials" and span.parent is not None
        for commit in (committed[span.parent],)
        for link in commit.links
        if link in folded
    )
    assert fold.parent is not None
    publish = published[fold.parent]
    (row,) = [span for span in raw if span.parent == publish.key]
    assert [span.name for span in (publish, fold, commit, row)] == [
        "publish llm.requests",
        "fold llm.requests",
        "commit llm.requests",
        "land llm_requests",
    ]
    place = ("messaging.destination.name", "messaging.destination.partition.id", "messaging.kafka.offset")
    assert len({tuple(span.attributes[name] for name in place) for span in (publish, fold, row)}) == 1
    assert publish.start_ms <= publish.end_ms <= commit.end_ms <= requests.end_ms


async def test_a_collector_that_is_away_delays_and_changes_nothing(
    own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig, clickhouse: Any, tmp_path: Path
) -> None:
    """Records go out and rows land as ever; the spans are dropped and counted, and the end waits for no collector."""
    kafka = own_kafka
    await asyncio.to_thread(migrate, kafka, clickhouse_config)
    config = TracingConfig(endpoint=f"http://127.0.0.1:{unused_ports()[0]}", ratio=1)
    counters, stop = Counters(), asyncio.Event()
    assert config.url is not None
    tracer = ExportingTracer(config, OtlpExporter(config.url, "test", config.export_within_ms / 1_000), counters)
    settings = SinkSettings(flush_ms=100, raw=False, roll=False)
    sink = asyncio.create_task(run_sink(kafka, clickhouse_config, settings, stop, tracer=tracer))
    window_ms = SystemClock().now_ms() // 10_000 * 10_000
    record = partials([{"window_ms": window_ms, "grouping": "service", "event_count": 3}], 0)

    async with Publisher(Spool.open(tmp_path / "spool"), kafka, host="h", tracer=tracer) as publisher:
        # The books of the spool go out beside it; they are of no trace.
        await send(kafka, [record._replace(headers=(*record.headers, trace_of(1).header))])
        await until(lambda: clickhouse.query(COUNTED).result_rows[0][0], WITHIN_S)
        assert await publisher.flush(WITHIN_S)
    stop.set()
    await sink
    await asyncio.wait_for(asyncio.to_thread(tracer.close), WITHIN_S)  # an end, however busy the machine

    assert (await asyncio.to_thread(clickhouse.query, COUNTED)).result_rows == [(1, 3)]
    outcomes = {name: counters.value("trace_spans", outcome=name) for name in ("exported", "refused", "shutdown")}
    assert outcomes["exported"] == 0
    assert outcomes["refused"] + outcomes["shutdown"] == 1


COUNTED = "SELECT count(), sum(event_count) FROM llm_requests_partials FINAL"
