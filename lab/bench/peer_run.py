"""Let ClickHouse's own Kafka engine read topics to their end, and count what that costs the server.

The CPU counted is that of the whole server from just before the first view is made until the engine's group has
committed the last offset (it does so after its views have taken the block); background merges of the target tables are
held off meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.bench import cpu, peer
from lab.bench.feed import OnProgress, until_committed
from runtime.clickhouse_clients import connect
from runtime.config import Config
from schemas.events.grouping import sets_of

_WITHIN_S = 600.0
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PeerRun:
    """CPU and wall clock of one reading."""

    options: peer.Options
    cpu_s: float
    wall_s: float
    idle_cpu_share: float
    """CPU-seconds per second of the server just before, with nothing to read: already taken off ``cpu_s``."""


class Peer:
    """The engine of one server. Everything it makes is in a database of its own, removed by ``close``."""

    def __init__(self, config: Config, server_pid: int, topics: tuple[str, ...]) -> None:
        self._client = connect(config.clickhouse, database="default")
        self._kafka = config.kafka
        self._pid = server_pid
        self._topics = topics

    def run(
        self,
        options: peer.Options,
        ends: Offsets,
        *,
        core: int,
        on_progress: OnProgress = lambda _done, _all: None,
    ) -> PeerRun:
        """Read everything once, bound to ``core``. The results stay in the tables until the next run."""
        group = self.prepare(options)
        for grouping in (one for topic in self._topics for one in sets_of(topic)):
            self._client.command(f"SYSTEM STOP MERGES {peer.DATABASE}.{peer.group_table(grouping)}")
        try:
            with cpu.pinned(self._pid, core):
                return self._read(options, group, ends, on_progress)
        finally:
            self.stop_reading()

    def prepare(self, options: peer.Options) -> str:
        """Make all tables, empty; nothing reads yet; the engine's group."""
        self.close()
        self._client.command(f"CREATE DATABASE {peer.DATABASE}")
        group = f"bench-peer-{time.time_ns()}"
        for topic in self._topics:
            for statement in peer.tables(topic, options, self._kafka.bootstrap, group):
                self._client.command(statement)
        return group

    def start_reading(self, options: peer.Options) -> None:
        """Make the views."""
        for topic in self._topics:
            for statement in peer.views(topic, options):
                self._client.command(statement)

    def landed(self) -> dict[str, int]:
        """Events by table: raw tables as ``TOPIC raw``, others by their grouping set."""
        found: dict[str, int] = {}
        for topic in self._topics:
            found[f"{topic} raw"] = self._number(f"SELECT count() FROM {peer.DATABASE}.{peer.raw_table(topic)}")
            for grouping in sets_of(topic):
                table = f"{peer.DATABASE}.{peer.group_table(grouping)}"
                found[grouping.name] = self._number(f"SELECT sum(event_count) FROM {table}")
        return found

    def _number(self, question: str) -> int:
        return int(self.query(question)[0][0])

    def _read(self, options: peer.Options, group: str, ends: Offsets, on_progress: OnProgress) -> PeerRun:
        idle = self._idle_share()
        before_s, begun_s = cpu.cpu_s(self._pid), time.monotonic()
        self.start_reading(options)
        asyncio.run(until_committed(self._kafka, group, ends, _WITHIN_S, on_progress, lambda: True))
        wall_s = time.monotonic() - begun_s
        return PeerRun(options, cpu.cpu_s(self._pid) - before_s - idle * wall_s, wall_s, idle)

    def _idle_share(self) -> float:
        before_s = cpu.cpu_s(self._pid)
        time.sleep(2.0)
        return (cpu.cpu_s(self._pid) - before_s) / 2.0

    def stop_reading(self) -> None:
        """Remove what reads; the results stay."""
        for topic in self._topics:
            tables = [*(peer.group_table(grouping) for grouping in sets_of(topic)), peer.raw_table(topic)]
            for table in tables:
                self._client.command(f"DROP VIEW IF EXISTS {peer.DATABASE}.{table}_view SYNC")
            self._client.command(f"DROP TABLE IF EXISTS {peer.DATABASE}.{peer.kafka_table(topic)} SYNC")

    def insert(self, table: str, ddl: str, blocks: Sequence[bytes]) -> None:
        """Make a table, empty, and put Native blocks into it."""
        self._client.command(f"DROP TABLE IF EXISTS {table} SYNC")
        self._client.command(ddl)
        for block in blocks:
            self._client.raw_insert(table, insert_block=block, fmt="Native")

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Rows of a query on what was kept."""
        return [tuple(row) for row in self._client.query(text).result_rows]

    def close(self) -> None:
        """Remove the database."""
        self._client.command(f"DROP DATABASE IF EXISTS {peer.DATABASE} SYNC")
