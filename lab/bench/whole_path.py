"""``bench throughput --whole-path``: job + sink + ClickHouse, against ClickHouse's Kafka engine doing the same.

Both sides are ready on empty topics before the same events are written, and both keep raw rows; rollups are off.
Counted is the CPU of every process of a side, all bound to one core, from the first record written until everything
has landed and merges are over. Broker and writer have the other cores. Ours also keeps its books.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from fleetpulse.commands.progress import Progress
from fleetpulse.migrate.run import migrate
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from lab.bench import cpu, live, peer
from lab.bench.feed import Message, end_offsets, fill, fresh_topics, messages, until_committed
from lab.bench.peer import Peer
from lab.bench.stand import Stand
from lab.bench.workload import PROFILES, Profile, Workload
from runtime.clock import SystemClock
from schemas.contract.headers import NATIVE
from schemas.contract.topics import BY_NAME, WINDOW_PARTIALS
from schemas.ddl.stored import raw_table
from schemas.errors import FleetpulseError
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import sets_of
from schemas.rows.tables import PARTIALS

_WITHIN_S = 900.0
_QUIET_S = 3.0


@dataclass(frozen=True, slots=True)
class Side:
    """What one side spent. ``landed`` counts by table; ``idle_cores`` is what it spends with nothing to do."""

    cpu_s: dict[str, float]
    wall_s: float
    idle_cores: float
    landed: dict[str, int]

    @property
    def total_s(self) -> float:
        """All processes together."""
        return sum(self.cpu_s.values())


def measure(
    stand: Stand, profile_name: str, seconds: int | None, records_per_batch: int, seed: int, progress: Progress
) -> dict[str, Any]:
    """Both sides once, ours first; ``stand`` must be fresh."""
    profile = PROFILES[profile_name]
    span_s = seconds or profile.seconds
    now_ms, events = SystemClock().now_ms(), span_s * profile.events_per_s
    partitions = {topic: BY_NAME[topic].partitions for topic in profile.topics}
    with progress.task("making the events"):
        from_ms = now_ms // 1_000 * 1_000 - span_s * 1_000
        made = list(messages(Workload(profile, seed), from_ms, span_s, NATIVE, partitions, f"{now_ms}"))
    filling = _Filling(stand, profile, partitions, records_per_batch, events, made)
    ours = _ours(stand, filling, progress)
    theirs = {work: _theirs(stand, filling, work, progress) for work in ("lean", "same")}
    for side in (ours, *theirs.values()):
        _check(side, profile, events)
    return {
        "profile": profile,
        "events": events,
        "ours": {"us_per_event": 1e6 * ours.total_s / events, "side": ours},
        "clickhouse": {
            work: {"us_per_event": 1e6 * side.total_s / events, "side": side} for work, side in theirs.items()
        },
        "ratio": {work: side.total_s / ours.total_s for work, side in theirs.items()},
    }


@dataclass(frozen=True, slots=True)
class _Filling:
    """Records made beforehand, so that they are written as fast as a fleet would send them, or faster."""

    stand: Stand
    profile: Profile
    partitions: dict[str, int]
    records_per_batch: int
    events: int
    made: Sequence[Message]

    def write(self, progress: Progress, text: str) -> dict[tuple[str, int], int]:
        """Write all events; the end of every partition."""
        kafka = self.stand.config.kafka
        with progress.task(text) as on_progress:
            asyncio.run(
                fill(kafka, iter(self.made), self.records_per_batch, lambda done: on_progress(done, self.events))
            )
        return asyncio.run(end_offsets(kafka, self.partitions))

    def clear(self) -> None:
        """Empty source topics."""
        asyncio.run(fresh_topics(self.stand.config.kafka, self.partitions))


def _ours(stand: Stand, filling: _Filling, progress: Progress) -> Side:
    with live.pipeline(stand, progress, rollups=False) as processes:
        pids = {"clickhouse": stand.clickhouse_pid}
        pids |= {name: pid for name in processes.names() if (pid := processes.pid(name)) is not None}
        spent = _counted(
            pids,
            lambda: filling.write(progress, "job, sink and server: writing"),
            lambda ends: _until_landed(stand, processes, ends, progress),
        )
    return Side(*spent, landed=_landed(stand, filling.profile))


def _counted(
    pids: Mapping[str, int], write: Callable[[], dict[tuple[str, int], int]], wait: Callable[[Any], None]
) -> tuple[dict[str, float], float, float]:
    """CPU by process, wall clock, and idle cores."""
    with ExitStack() as bound:
        for pid in pids.values():
            bound.enter_context(cpu.pinned(pid, cpu.job_core()))
        first = {name: cpu.cpu_s(pid) for name, pid in pids.items()}
        time.sleep(_QUIET_S)
        before, begun_s = {name: cpu.cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
        wait(write())
        spent = {name: cpu.cpu_s(pid) - before[name] for name, pid in pids.items()}
        wall_s = time.monotonic() - begun_s
    return spent, wall_s, (sum(before.values()) - sum(first.values())) / _QUIET_S


def _until_landed(stand: Stand, processes: Processes, ends: dict[tuple[str, int], int], progress: Progress) -> None:
    kafka, deployment = stand.config.kafka, stand.config.kafka.deployment

    def alive() -> bool:
        return all(processes.exit_code(name) is None for name in processes.names())

    with progress.task("job, sink and server: landing") as on_progress:
        asyncio.run(until_committed(kafka, f"{deployment}-windows", ends, _WITHIN_S, on_progress, alive))
        asyncio.run(until_committed(kafka, f"{deployment}-raw", ends, _WITHIN_S, on_progress, alive))
        derived = asyncio.run(end_offsets(kafka, {WINDOW_PARTIALS: BY_NAME[WINDOW_PARTIALS].partitions}))
        asyncio.run(until_committed(kafka, f"{deployment}-sink", derived, _WITHIN_S, lambda _d, _a: None, alive))
        _until_merged(stand)


def _until_merged(stand: Stand) -> None:
    quiet = 0
    with closing(Database(stand.config.clickhouse)) as database:
        while quiet < 2:
            quiet = 0 if int(database.sql("SELECT count() FROM system.merges").rows[0][0]) else quiet + 1
            time.sleep(0.5)


def _landed(stand: Stand, profile: Profile) -> dict[str, int]:
    found: dict[str, int] = {}
    with closing(Database(stand.config.clickhouse)) as database:
        for topic in profile.topics:
            raw = raw_table(BY_TOPIC[topic]).name
            found[f"{topic} raw"] = int(database.sql(f"SELECT count() FROM {raw} FINAL").rows[0][0])
            for grouping in sets_of(topic):
                question = f"SELECT sum(event_count) FROM {PARTIALS[topic].name} FINAL WHERE grouping = {{name:String}}"
                found[grouping.name] = int(database.sql(question, {"name": grouping.name}).rows[0][0] or 0)
    return found


def _theirs(stand: Stand, filling: _Filling, work: str, progress: Progress) -> Side:
    filling.clear()
    engine = Peer(stand.config, stand.clickhouse_pid, filling.profile.topics)
    options = peer.Options(work=work, raw=True, block_rows=65_536)
    group = engine.prepare(options)
    try:
        engine.start_reading(options, group)

        def wait(ends: dict[tuple[str, int], int]) -> None:
            with progress.task(f"ClickHouse's Kafka engine, {work} work: landing") as on_progress:
                asyncio.run(until_committed(stand.config.kafka, group, ends, _WITHIN_S, on_progress, lambda: True))
                _until_merged(stand)

        text = f"ClickHouse's Kafka engine, {work} work: writing"
        spent = _counted({"clickhouse": stand.clickhouse_pid}, lambda: filling.write(progress, text), wait)
        return Side(*spent, landed=engine.landed())
    finally:
        engine.stop_reading()
        engine.close()
        migrate(stand.config.kafka, stand.config.clickhouse, dry_run=False)


def _check(side: Side, profile: Profile, events: int) -> None:
    """Every table of a side holds every event of its topic."""
    share = {"llm.requests": profile.requests_per_record, "gpu.samples": profile.gpus_per_host}
    each = events // sum(share.values())
    wanted = {f"{topic} raw": each * share[topic] for topic in profile.topics}
    wanted |= {grouping.name: each * share[topic] for topic in profile.topics for grouping in sets_of(topic)}
    if side.landed != wanted:
        raise FleetpulseError(f"not everything landed: expected {wanted}, found {side.landed}")
