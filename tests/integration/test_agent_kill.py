"""The agent killed again and again while requests arrive and its Kafka comes and goes: the books stay exact.

Four kills here; for the long run: ``FLEETPULSE_KILLS=50 python -m pytest tests/integration/test_agent_kill.py``.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from fleetpulse import stack, track
from fleetpulse.stack import manage, ports
from runtime.local_stack import StackState, write_state
from schemas.build import rows_of
from schemas.events import LLM_REQUESTS
from schemas.headers import decode_headers
from schemas.native import decode
from schemas.tables import PRODUCER_BOOKS
from schemas.topics import BOOKS_TOPIC, BY_NAME, SOURCE_TOPICS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("FLEETPULSE_KILLS", "4"))
SEED = 11
TOPICS = [topic.name for topic in SOURCE_TOPICS]
IN_FLIGHT_MAX = 1_000
"""Requests that one kill may find in the socket or gathering: a fifth of a second of them, with room."""


class Application:
    """Hands over a request every millisecond, from a thread, until told to stop."""

    def __init__(self, socket: Path) -> None:
        self.sent = 0
        self._client = track.Client(str(socket))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            track.report(client=self._client, model="m", request_id=f"r-{self.sent}", output_tokens=self.sent % 7)
            self.sent += 1

    def stop(self) -> None:
        """Send what waits, and say how many were dropped."""
        self._stop.set()
        self._thread.join()
        self._client.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[StackState]:
    """A Kafka of this test's own: others would not like it to be killed."""
    folder = tmp_path / "stack"
    (folder / "log").mkdir(parents=True)
    cluster = base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).decode().rstrip("=")
    write_state(StackState(folder, cluster, ports.choose(folder), secrets.token_hex(8), secrets.token_hex(8)))
    state = manage.start_kafka(folder)
    try:
        yield state
    finally:
        stack.down(folder)


async def make_topics(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, BY_NAME[name].partitions, 1) for name in (*TOPICS, BOOKS_TOPIC)])
    await admin.close()


def agent(spool: Path, socket: Path, state: StackState, log: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETPULSE_")}
    environment |= {
        "FLEETPULSE_KAFKA__BOOTSTRAP": state.kafka_bootstrap,
        "FLEETPULSE_KAFKA__REQUEST_TIMEOUT_MS": "5000",
        "FLEETPULSE_AGENT__RECEIVER__SOCKET": str(socket),
        "FLEETPULSE_AGENT__PERIOD_MS": "100",
        "FLEETPULSE_AGENT__DRAIN_MS": "60000",
    }
    with log.open("ab") as out:
        command = [sys.executable, "-m", "fleetpulse", "agent", "--spool", str(spool)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)


def await_socket(process: subprocess.Popen[bytes], socket: Path) -> None:
    """Until the agent listens: there is a socket under the name that its predecessor's is not."""
    end_s = time.monotonic() + 60
    before = socket.stat().st_ino if socket.exists() else None
    while not socket.exists() or socket.stat().st_ino == before:
        assert process.poll() is None, "the agent ended by itself"
        assert time.monotonic() < end_s, "the agent does not listen"
        time.sleep(0.02)


def blows(broker: StackState, spool: Path, socket: Path, chance: random.Random) -> Application:
    """Kill agents, and the broker under some of them, while an application sends; the last agent sends the rest."""
    log = spool.parent / "agent.log"
    process = agent(spool, socket, broker, log)
    await_socket(process, socket)
    application = Application(socket)
    for number in range(KILLS):
        if number % 3 == 1:
            manage.kill(broker.data_dir, manage.KAFKA)
        time.sleep(chance.uniform(0.3, 1.5))
        process.kill()
        process.wait()
        if number % 3 == 2:
            manage.start_kafka(broker.data_dir)
        process = agent(spool, socket, broker, log)
        await_socket(process, socket)
    if (KILLS - 1) % 3 == 1:
        manage.start_kafka(broker.data_dir)
    time.sleep(1.0)
    application.stop()
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 0, log.read_text()[-3_000:]
    return application


async def read_all(bootstrap: str) -> dict[TopicPartition, list[Any]]:
    partitions = [TopicPartition(name, n) for name in (*TOPICS, BOOKS_TOPIC) for n in range(BY_NAME[name].partitions)]
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


Landed = dict[tuple[int, int], tuple[str, int, bytes]]


def landed_of(read: dict[TopicPartition, list[Any]]) -> Landed:
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


def told(books: list[Any]) -> dict[tuple[int, str], tuple[int, int, int, int]]:
    """The last books of each (boot, topic): records, events, acknowledged, shed."""
    rows = [row for each in books for row in rows_of(PRODUCER_BOOKS.fields, decode(each.value, PRODUCER_BOOKS.fields))]
    best: dict[tuple[int, str], tuple[int, int, int, int]] = {}
    for row in rows:
        amounts = (row["records"], row["events"], row["acknowledged_events"], row["shed_events"])
        key = (row["boot"], row["topic"])
        best[key] = max(best.get(key, amounts), amounts)
    return best


async def test_the_books_are_exact_whoever_is_killed(broker: StackState, tmp_path: Path) -> None:
    """Every record of the books is in Kafka once, of every boot; every request at most once; what is missing was in a
    socket when its agent was killed."""
    spool, socket = tmp_path / "spool", tmp_path / "agent.sock"
    await make_topics(broker.kafka_bootstrap)

    application = await asyncio.to_thread(blows, broker, spool, socket, random.Random(SEED))

    read = await read_all(broker.kafka_bootstrap)
    books = told([record for tp in list(read) if tp.topic == BOOKS_TOPIC for record in read.pop(tp)])
    landed = landed_of(read)
    records, events = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for (boot, _), (topic, count, _) in landed.items():
        records[boot, topic] += 1
        events[boot, topic] += count
    requests = [
        row["request_id"]
        for topic, _, value in landed.values()
        if topic == LLM_REQUESTS.topic
        for row in rows_of(LLM_REQUESTS.fields, decode(value, LLM_REQUESTS.fields))
    ]
    declared = sum(shed for (_, topic), (*_, shed) in books.items() if topic == LLM_REQUESTS.topic)
    missing = application.sent - len(requests) - declared
    spooled = {key: amounts[:3] for key, amounts in books.items() if amounts[0]}
    assert spooled == {key: (records[key], events[key], events[key]) for key in records}
    assert len({boot for boot, _ in records}) == KILLS + 1
    assert len(requests) == len(set(requests)) > 100 * KILLS
    assert set(requests) <= {f"r-{number}" for number in range(application.sent)}
    assert 0 <= missing <= KILLS * IN_FLIGHT_MAX
