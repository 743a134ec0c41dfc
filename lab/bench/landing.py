"""``bench landing``: what it costs, client and server, to keep raw events, against JSONEachRow over the same HTTP.

Both sides get the same events into tables of the same definition, in inserts of as many seconds as the sink gathers;
merges of the tables are held off. Ours starts from Native records as they come from Kafka: admission, one merged block
with every row's identity, one insert. The other starts from NDJSON records: joined, one insert, parsed by the server.
Connections stand, and compiled code is loaded, when the clock starts; all else of the first insert counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleetpulse.commands.progress import Progress
from lab.bench import cpu, peer
from lab.bench.feed import Message, messages
from lab.bench.stand import Stand
from lab.bench.workload import PROFILES, Profile, Workload
from runtime.clickhouse_clients import connect
from runtime.clock import SystemClock
from schemas.contract.headers import NATIVE, NDJSON
from schemas.contract.record import Record
from schemas.ddl.stored import raw_table
from schemas.errors import FleetpulseError
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS
from sinks.database import SinkDatabase
from sinks.landing import land_raw
from sinks.service import SinkSettings
from sinks.warm import warm

SECONDS_PER_INSERT = SinkSettings().raw_flush_ms // 1_000
_LINES = f"{peer.DATABASE}.lines"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU microseconds per event."""

    client_us: float
    server_us: float

    @property
    def total_us(self) -> float:
        """Both sides together."""
        return self.client_us + self.server_us


def measure(stand: Stand, profile_name: str, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Costs by topic and their ratio."""
    profile = PROFILES[profile_name]
    client = connect(stand.config.clickhouse, database="default")
    try:
        client.command(f"CREATE DATABASE IF NOT EXISTS {peer.DATABASE}")
        found = {topic: _compare(stand, client, profile, topic, seconds, seed, progress) for topic in profile.topics}
    finally:
        client.command(f"DROP DATABASE IF EXISTS {peer.DATABASE} SYNC")
        client.close()
    return {"profile": profile.name, "seconds": seconds, "by_topic": found}


def _compare(
    stand: Stand, client: Any, profile: Profile, topic: str, seconds: int, seed: int, progress: Progress
) -> dict[str, Any]:
    table = raw_table(BY_TOPIC[topic]).name
    own = f"{stand.config.clickhouse.database}.{table}"
    client.command(f"DROP TABLE IF EXISTS {_LINES} SYNC")
    client.command(f"CREATE TABLE {_LINES} AS {own}")
    client.command(f"ALTER TABLE {_LINES} REMOVE TTL")  # by append time, which lines do not have
    client.command(f"TRUNCATE TABLE {own}")
    for name in (own, _LINES):
        client.command(f"SYSTEM STOP MERGES {name}")
    native, events = _seconds_of(profile, topic, seconds, seed, NATIVE)
    lines, _ = _seconds_of(profile, topic, seconds, seed, NDJSON)
    warm()
    sink = SinkDatabase(stand.config.clickhouse)
    with progress.task(f"{topic}: Native by the sink"):
        ours = _cost(stand, events, lambda part: _land(sink, topic, part), native)
    with progress.task(f"{topic}: JSONEachRow"):
        theirs = _cost(stand, events, lambda part: _insert_lines(client, part), lines)
    sink.close()
    for name in (own, _LINES):
        client.command(f"SYSTEM START MERGES {name}")
    counted = [int(client.command(f"SELECT count() FROM {name}")) for name in (own, _LINES)]
    if counted != [events, events]:
        raise FleetpulseError(f"{topic}: {events} events should have landed, found {counted}")
    return {"events": events, "native": ours, "json_each_row": theirs, "ratio": ours.total_us / theirs.total_us}


def _seconds_of(
    profile: Profile, topic: str, seconds: int, seed: int, content_type: str
) -> tuple[list[list[Message]], int]:
    """The topic's records by insert, and how many events they hold."""
    from_ms = SystemClock().now_ms() // 1_000 * 1_000 - seconds * 1_000
    partitions = dict.fromkeys(profile.topics, 1)
    workload = Workload(profile, seed)
    own = [one for one in messages(workload, from_ms, seconds, content_type, partitions, "l") if one.topic == topic]
    each = len(own) * SECONDS_PER_INSERT // seconds
    return [own[at : at + each] for at in range(0, len(own), each)], sum(one.events for one in own)


def _cost(stand: Stand, events: int, insert: Callable[[list[Message]], None], parts: list[list[Message]]) -> Cost:
    insert(parts[0][:1])  # the connection and compiled code are there
    client_s, server_s = time.process_time(), cpu.cpu_s(stand.clickhouse_pid)
    insert(parts[0][1:])
    for part in parts[1:]:
        insert(part)
    client_s, server_s = time.process_time() - client_s, cpu.cpu_s(stand.clickhouse_pid) - server_s
    return Cost(1e6 * client_s / events, 1e6 * server_s / events)


def _land(sink: SinkDatabase, topic: str, part: list[Message]) -> None:
    now_ms = SystemClock().now_ms()
    records = [Record(topic, 0, at, now_ms, one.key, one.value, one.headers) for at, one in enumerate(part)]
    sink.insert(land_raw(topic, records, {topic: "bench"}, now_ms, DEFAULT_LIMITS).inserts)


def _insert_lines(client: Any, part: list[Message]) -> None:
    body = b"".join(one.value for one in part)
    # Rows without identity are all alike to the table: keep them apart (which is less work, too).
    settings = {"async_insert": 0, "wait_end_of_query": 1, "insert_deduplicate": 0, "optimize_on_insert": 0}
    client.raw_insert(_LINES, insert_block=body, fmt="JSONEachRow", settings=settings)
