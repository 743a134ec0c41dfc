"""A producer that is killed again and again, while its Kafka comes and goes: nothing is lost, nothing is made twice."""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from fleetpulse import stack
from fleetpulse.stack import manage, ports
from runtime.local_stack import StackState, write_state
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.contract.headers import decode_headers
from schemas.contract.topics import BOOKS_TOPIC, BY_NAME
from schemas.rows.tables import PRODUCER_BOOKS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("host.samples", "gpu.samples")
SEED = 7
ROUNDS = 9

# Puts records until it is killed, and notes each in a file once it was told that it is spooled.
CHILD = """
import asyncio, os, sys
from pathlib import Path
from producers.batch import Batch
from producers.publish.publisher import Publisher, PublisherSettings
from producers.spool.spool import Spool, SpoolLimits
from runtime.config import KafkaConfig

async def main(folder, bootstrap, truth, seconds, save_every_s):
    limits = SpoolLimits(segment_bytes=20_000, window_records_max=200)
    settings = PublisherSettings(save_every_s=save_every_s, books_every_s=0.2)
    kafka = KafkaConfig(bootstrap=bootstrap, request_timeout_ms=5_000)
    publisher = Publisher(Spool.open(Path(folder), limits), kafka, host="h", settings=settings)
    notes = os.open(truth, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with publisher:
        if not seconds:
            assert await publisher.close(60.0), publisher.spool.unacknowledged_records
            return
        for number in range(10**9):
            topic = ("host.samples", "gpu.samples")[number % 2]
            name = b"%d-%d" % (publisher.spool.boot, number)
            value = name + b" " * (number * 37 % 2_000)
            batch = Batch(topic, topic + "/1", "application/x-ndjson", name, 1 + number % 5, value)
            assert await publisher.put(topic, name, batch)
            os.write(notes, name + b"\\n")
            await asyncio.sleep(0.001)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5])))
"""
UNSAVED_RECORDS = 500
"""That arrive from a producer that saves next to nothing of it before it is killed."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[StackState]:
    """A Kafka of this test's own: others would not like it to be killed."""
    folder = tmp_path / "stack"
    (folder / "log").mkdir(parents=True)
    cluster = base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).decode().rstrip("=")
    write_state(StackState(folder, cluster, ports.choose(folder)[0], secrets.token_hex(8), secrets.token_hex(8)))
    state = manage.start_part(folder, manage.KAFKA)
    try:
        yield state
    finally:
        stack.down(folder)


async def make_topics(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, BY_NAME[name].partitions, 1) for name in (*TOPICS, BOOKS_TOPIC)])
    await admin.close()


def child(
    spool: Path, state: StackState, truth: Path, seconds: float, *, save_every_s: float = 0.1
) -> subprocess.Popen[bytes]:
    words = (spool, state.kafka_bootstrap, truth, seconds, save_every_s)
    command = [sys.executable, "-c", CHILD, *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL if seconds else None)


async def read_all(bootstrap: str) -> dict[TopicPartition, list[object]]:
    partitions = [TopicPartition(name, n) for name in (*TOPICS, BOOKS_TOPIC) for n in range(BY_NAME[name].partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign(partitions)
    ends = await consumer.end_offsets(partitions)
    read: dict[TopicPartition, list[object]] = defaultdict(list)
    for partition in partitions:
        while await consumer.position(partition) < ends[partition]:
            for tp, records in (await consumer.getmany(timeout_ms=1_000)).items():
                read[tp] += records
    await consumer.stop()
    return read


def blows(broker: StackState, spool: Path, truth: Path, chance: random.Random) -> None:
    """Kill producers, and the broker under some of them; the last of these has not saved what Kafka acknowledged, so
    that one more, which sends what is left, sends that again."""
    for number in range(ROUNDS):
        process = child(spool, broker, truth, 60.0)
        await_growth(truth, chance.randrange(60, 240))
        if number % 3 == 1:
            manage.kill(broker.data_dir, manage.KAFKA)
            await_growth(truth, chance.randrange(20, 120))
        process.kill()
        process.wait()
        if number % 3 == 2:
            manage.start_part(broker.data_dir, manage.KAFKA)
    process = child(spool, broker, truth, 60.0, save_every_s=3_600.0)
    await_arrivals(broker.kafka_bootstrap, UNSAVED_RECORDS)
    process.kill()
    process.wait()
    assert child(spool, broker, truth, 0.0).wait(240) == 0


def await_growth(truth: Path, records: int) -> None:
    """Until the child has spooled so many more."""
    until = noted(truth) + records
    end_s = time.monotonic() + 120
    while noted(truth) < until:
        assert time.monotonic() < end_s, "the child spools too little"
        time.sleep(0.02)


def await_arrivals(bootstrap: str, records: int) -> None:
    """Until Kafka has so many more."""
    until = asyncio.run(arrived(bootstrap)) + records
    end_s = time.monotonic() + 120
    while asyncio.run(arrived(bootstrap)) < until:
        assert time.monotonic() < end_s, "too little arrives"
        time.sleep(0.02)


async def arrived(bootstrap: str) -> int:
    """Records in Kafka, but those of books."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    partitions = [TopicPartition(name, n) for name in TOPICS for n in range(BY_NAME[name].partitions)]
    ends = await consumer.end_offsets(partitions)
    await consumer.stop()
    return sum(ends.values())


def noted(truth: Path) -> int:
    """Records that a child was told are spooled."""
    return truth.read_bytes().count(b"\n") if truth.exists() else 0


async def test_everything_spooled_arrives_whoever_is_killed(broker: StackState, tmp_path: Path) -> None:
    """By (boot, seq): each record that was reported spooled is in Kafka under one identity, with the same bytes;
    a reader that drops what is below ``low`` or seen drops only re-sends; the producer's last books are exact."""
    spool, truth = tmp_path / "spool", tmp_path / "truth"
    await make_topics(broker.kafka_bootstrap)

    await asyncio.to_thread(blows, broker, spool, truth, random.Random(SEED))

    read = await read_all(broker.kafka_bootstrap)
    books = read.pop(TopicPartition(BOOKS_TOPIC, 0))
    landed = check_identities(read)
    spooled = truth.read_bytes().split()
    assert len(spooled) > 50 * ROUNDS
    assert set(spooled) <= {value.split()[0] for value, _ in landed.values()}
    assert len({value.split()[0] for value, _ in landed.values()}) == len(landed)
    assert told(books) == {
        (boot, topic): (len(counts), sum(counts), sum(counts), 0)
        for (boot, topic), counts in by_boot(landed, read).items()
    }


Landed = dict[tuple[int, int], tuple[bytes, int]]


def check_identities(read: dict[TopicPartition, list[object]]) -> Landed:
    """(value, events) by (boot, seq), after the checks a reader of each partition relies on."""
    landed: Landed = {}
    places: dict[tuple[int, int], TopicPartition] = {}
    resent = 0
    for partition, records in read.items():
        highest_low = (0, 0)
        seen = set()
        for record in records:
            headers = decode_headers(tuple(record.headers))  # type: ignore[attr-defined]
            assert headers.identity is not None
            assert headers.count is not None
            identity = (headers.identity.boot, headers.identity.seq)
            value: bytes = record.value  # type: ignore[attr-defined]
            if identity in seen:
                resent += 1
            else:
                assert identity >= highest_low, "a reader would drop a record it has never seen"
            assert landed.setdefault(identity, (value, headers.count)) == (value, headers.count)
            assert places.setdefault(identity, partition) == partition
            seen.add(identity)
            highest_low = max(highest_low, headers.identity.low)
    assert resent > 0, "the test did not bring about what it is for"
    return landed


def by_boot(landed: Landed, read: dict[TopicPartition, list[object]]) -> dict[tuple[int, str], list[int]]:
    """Events of each record by (boot, topic)."""
    topics = {
        (headers.identity.boot, headers.identity.seq): partition.topic
        for partition, records in read.items()
        for record in records
        if (headers := decode_headers(tuple(record.headers))).identity is not None  # type: ignore[attr-defined]
    }
    out: dict[tuple[int, str], list[int]] = defaultdict(list)
    for identity, (_, events) in landed.items():
        out[identity[0], topics[identity]].append(events)
    return out


def told(books: list[object]) -> dict[tuple[int, str], tuple[int, int, int, int]]:
    """The greatest books row of each (boot, topic): records, events, acknowledged, shed."""
    rows = [row for each in books for row in rows_of(PRODUCER_BOOKS.fields, decode(each.value, PRODUCER_BOOKS.fields))]  # type: ignore[attr-defined]
    assert len({row["source"] for row in rows}) == 1
    best: dict[tuple[int, str], tuple[int, int, int, int]] = {}
    for row in rows:
        amounts = (row["records"], row["events"], row["acknowledged_events"], row["shed_events"])
        key = (row["boot"], row["topic"])
        best[key] = max(best.get(key, amounts), amounts)
    return best
