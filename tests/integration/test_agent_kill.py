"""The agent killed again and again while requests arrive and its Kafka comes and goes: the books stay exact.

From the applications' own counts through spool, log, windows job and sink to every table; steps of training and metrics
of the application's own, and processes of an engine, beside the requests. Three kills here; for the
long run: ``FLEETPULSE_KILLS=50 python -m pytest -s tests/integration/test_agent_kill.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from fleetpulse.sql.database import Database
from fleetpulse_track.handover import WAITING_MAX
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.contract.headers import decode_headers
from schemas.contract.topics import BY_NAME, SOURCE_TOPICS
from schemas.ddl.stored import RAW
from schemas.events.event_types import CUSTOM_METRICS, HOST_PROCESSES, HOST_SAMPLES, LLM_REQUESTS, TRAINING_STEPS
from tests.integration.agent_kill_rig import JOB, SINK, STEPS, Application, Stage, blows, runs_of, staged

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

KILLS = int(os.environ.get("FLEETPULSE_KILLS", "3"))
SEED = 11
TOPICS = [topic.name for topic in SOURCE_TOPICS]
IN_FLIGHT_MAX = 1_000
"""Requests that one kill may find in the socket or gathering: a fifth of a second of them, with room."""
LANDED_WITHIN_S = 60.0
_KEPT = "FLEETPULSE_CACHE_DIR"

Books = dict[tuple[int, str], tuple[int, int, int, int]]
"""Records, events, acknowledged and shed events by (boot, topic)."""
Landed = dict[tuple[int, int], tuple[str, int, bytes]]


async def read_all(bootstrap: str) -> dict[TopicPartition, list[Any]]:
    partitions = [TopicPartition(name, n) for name in TOPICS for n in range(BY_NAME[name].partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign(partitions)
    ends = await consumer.end_offsets(partitions)
    read: dict[TopicPartition, list[Any]] = defaultdict(list)
    for partition in partitions:
        while await consumer.position(partition) < ends[partition]:
            for tp, records in (await consumer.getmany(timeout_ms=1_000)).items():
                read[tp] += records
    await consumer.stop()
    return read


def landed_of(read: Mapping[TopicPartition, list[Any]]) -> Landed:
    """(topic, events, value) by (boot, seq), as a reader that drops what it has seen, or is below ``low``, keeps it."""
    landed: Landed = {}
    for partition, records in read.items():
        highest_low, seen = (0, 0), set[tuple[int, int]]()
        for record in records:
            headers = decode_headers(tuple(record.headers))
            assert headers.identity is not None
            assert headers.count is not None
            identity = (headers.identity.boot, headers.identity.seq)
            assert identity in seen or identity >= highest_low, "a reader would drop a record it has never seen"
            told = (partition.topic, headers.count, record.value)
            assert landed.setdefault(identity, told) == told
            seen.add(identity)
            highest_low = max(highest_low, headers.identity.low)
    return landed


def requests_of(landed: Landed) -> list[int]:
    """The numbers of the applications' requests that are in the log."""
    values = [value for topic, _, value in landed.values() if topic == LLM_REQUESTS.topic]
    fields = LLM_REQUESTS.fields
    return [
        int(row["request_id"].removeprefix("r-")) for value in values for row in rows_of(fields, decode(value, fields))
    ]


def read_books(stage: Stage) -> Books:
    """The agents' books, as the sink landed them."""
    with closing(Database(stage.config.reading)) as database:
        rows = database.sql(
            "SELECT boot, topic, max(records), max(events), max(acknowledged_events), max(shed_events)"
            " FROM producer_books GROUP BY boot, topic"
        ).rows
    return {(row[0], row[1]): tuple(row[2:]) for row in rows}


def read_numbers(stage: Stage) -> list[int]:
    """The numbers of the requests, as the sink landed them."""
    with closing(Database(stage.config.reading)) as database:
        numbers = database.sql(f"SELECT substring(request_id, 3) FROM {RAW[LLM_REQUESTS.topic].name} FINAL").rows
    return sorted(int(number) for (number,) in numbers)


def taken_last(books: Books) -> int:
    """Events that the last agent's receiver took, as its books have them."""
    boot = max((boot for boot, topic in books if topic == LLM_REQUESTS.topic), default=0)
    received = (LLM_REQUESTS, TRAINING_STEPS, CUSTOM_METRICS)
    return sum(books.get((boot, each.topic), (0, 0))[1] for each in received)


def check_events(stage: Stage, books: Books) -> None:
    """Steps of training and values of metrics stand in their tables as they were handed over, each once; of processes
    as many rows as the agents' books have, those of the engine's process among them."""
    with closing(Database(stage.config.reading)) as database:
        steps = database.sql(
            "SELECT job, rank, count(), uniqExact(step), sum(tokens), sum(samples), max(loss_micro)"
            " FROM training_steps FINAL GROUP BY job, rank ORDER BY rank"
        ).rows
        values = database.sql(
            "SELECT metric, attributes, count(), sum(value_micro), sum(increase_micro)"
            " FROM custom_metrics FINAL GROUP BY metric, attributes ORDER BY metric"
        ).rows
        ((processes, of_engine),) = database.sql(
            "SELECT count(), countIf(pid = {pid:UInt32} AND endsWith(engine_id, {port:String}))"
            " FROM host_processes FINAL",
            {"pid": os.getpid(), "port": f":{stage.engine_port}"},
        ).rows
    tokens = sum(range(STEPS))
    assert [tuple(row) for row in steps] == [
        ("sft", rank, STEPS, STEPS, tokens, 32 * STEPS, 1_000_000) for rank in ("0", "1")
    ]
    assert [tuple(row) for row in values] == [
        ("depth", "pool=a", STEPS, 1_000_000 * tokens, None),
        ("evicted", None, STEPS, None, 3_000_000 * STEPS),
    ]
    assert processes == sum(amounts[1] for (_, topic), amounts in books.items() if topic == HOST_PROCESSES.topic)
    assert of_engine > KILLS


def declared_at_least(dropped: Sequence[int], landed: set[int], sent: int) -> int:
    """Drops of which a request in the log tells: the next one that was handed over after them, or the farewell."""
    return sum(len(run) for run in runs_of(dropped) if run.stop in landed or run.stop == sent)


def tell(facts: Mapping[str, object]) -> None:
    sys.stdout.write("\n" + "\n".join(f"{name}: {json.dumps(value)}" for name, value in facts.items()) + "\n")


def check_log(books: Books, landed: Landed) -> None:
    """Every record of the books is in Kafka once, of every boot, and acknowledged."""
    records, events = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for (boot, _), (topic, count, _) in landed.items():
        records[boot, topic] += 1
        events[boot, topic] += count
    spooled = {key: amounts[:3] for key, amounts in books.items() if amounts[0]}
    assert spooled == {key: (records[key], events[key], events[key]) for key in records}
    assert KILLS // 2 < len({boot for boot, _ in records}) <= KILLS + 1


def check_application(
    stage: Stage, application: Application, requests: list[int], declared: int, figures: Mapping[str, float]
) -> None:
    """Sent = taken + dropped + what stood in a socket, or gathered, when its agent was killed; drops are declared."""
    landed, dropped = set(requests), set(application.dropped)
    handed = [number for number in range(application.sent) if number not in dropped]
    gone = runs_of([place for place, number in enumerate(handed) if number not in landed])
    kills = [bisect_left(handed, at) for at in stage.killed_at]

    def waiting(run: range) -> list[int]:
        """Requests between those that went with an agent and each kill: for the right one they wait in the client."""
        return [place - run.stop for place in kills]

    least = declared_at_least(application.dropped, landed, application.sent)
    tell(
        {
            "sent": application.sent,
            "taken": len(requests),
            "dropped by the client": len(dropped),
            "of these declared": declared,
            "of these told of by a request in the log": least,
            "in a socket or gathering at a kill": [len(run) for run in gone],
        }
    )
    assert application.counts == (application.sent, len(dropped))
    assert len(requests) == len(landed) > 100 * KILLS
    assert landed.isdisjoint(dropped)
    assert landed <= set(handed)
    assert len(gone) <= KILLS
    assert max((len(run) for run in gone), default=0) <= IN_FLIGHT_MAX
    assert all(any(0 <= each <= WAITING_MAX + 1 for each in waiting(run)) for run in gone)
    assert application.sent == len(requests) + len(dropped) + sum(len(run) for run in gone)
    assert least <= declared <= len(dropped)
    assert figures.get("missing", 0) == 0


def test_the_books_are_exact_whoever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`reconcile` agrees from the agents' books to every table, beside running producers and after them; the log has
    every record of every boot; every request arrives at most once, in log and tables alike; what is missing was dropped
    by the client, or was in a socket or gathering when its agent was killed."""
    for name in [name for name in os.environ if name.startswith("FLEETPULSE_") and name != _KEPT]:
        monkeypatch.delenv(name)
    with staged(tmp_path / "stack") as stage:
        application, figures, beside = blows(stage, KILLS, random.Random(SEED))
        stage.until(lambda: taken_last(read_books(stage)) == figures["taken"], LANDED_WITHIN_S, "books are missing")
        code, report = stage.reconcile()
        landed = landed_of(asyncio.run(read_all(stage.config.kafka.bootstrap)))
        books, stored = read_books(stage), read_numbers(stage)
        check_events(stage, books)
        restarts = {name: stage.processes.restarts(name) for name in (JOB, SINK)}
        logs = "\n".join(stage.processes.tail(name) for name in (JOB, SINK))

    tell({"agents killed": KILLS, "Kafka killed": stage.kafka_kills, "restarts": restarts, "reconcile": code})
    tell({each["topic"]: each for each in report["topics"] if each["produced"]})
    for live, found in beside:
        assert (live, found["exact"], found["differences"]) == (0, True, [])
        assert found["growing"] > 0
        assert found["produced"] > 0
    topics = {each["topic"]: each for each in report["topics"]}
    requests = requests_of(landed)
    llm = {boot: amounts for (boot, topic), amounts in books.items() if topic == LLM_REQUESTS.topic}
    assert (code, report["exact"], report["unchecked"], report["differences"]) == (0, True, 0, []), logs
    assert topics[LLM_REQUESTS.topic]["produced"] == len(requests)
    assert topics[HOST_SAMPLES.topic]["produced"] > 0
    assert {each["topic"] for each in report["topics"] if each["unidentified"]} == set()
    check_log(books, landed)
    assert stored == sorted(requests)
    assert min(topics[each.topic]["produced"] for each in (HOST_PROCESSES, TRAINING_STEPS, CUSTOM_METRICS)) > 0
    assert figures["taken"] == taken_last(books)
    check_application(stage, application, requests, sum(shed for *_, shed in llm.values()), figures)
