"""``bench peers``: the same question about the same records, answered by others (``peers_answers``, ``peers_sides``).

One side after the other, each on fresh topics: a few records to warm up, committed, then the events. *Burst*: as fast
as they can be written; counted is the CPU of all processes of the side, on one core, from the first record until its
rows hold every event, less what it spends with nothing to do. *Paced*: as a small fleet sends them, in real time;
freshness is from a window's end until its rows were complete for a reader of committed records. 15 s before the end of
the last window comes SIGKILL, two seconds later a start. A last second of events closes windows that go by event time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic

from fleetpulse.commands.progress import Progress
from lab.bench import cpu
from lab.bench.feed import Fed, Message, end_offsets, fresh_topics, made, messages, send_all, senders, until_committed
from lab.bench.peers_answers import TOPIC, Exact, Key, events_by_window, exact, judge
from lab.bench.peers_sides import OUTPUT, RESTART_AFTER_S, Side, sides
from lab.bench.stand import Stand, partitions_of
from lab.bench.workload import FLEET, Profile, Workload
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_admin, make_consumer, started
from schemas.contract.headers import NDJSON
from schemas.contract.topics import BY_NAME, WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from schemas.limits import WINDOW_MS

PARTITIONS = {TOPIC: BY_NAME[TOPIC].partitions}
WARM_MS = 60_000
TAIL_MS = 15_000
"""How long after the last window the closing second is."""
IDLE_S = 3.0
READY_WITHIN_S = 240.0
LEADS_MS = (35_000, 90_000, 180_000)
"""Before what is sent in real time begins, a side must be ready; on a busy machine it gets more."""
KILLED_BEFORE_S = 15
"""How long before the last window's end the kill is."""
SETTLED_S = 12.0
"""Windows that ended so long before the kill count for freshness."""
QUIET_S = 60.0
"""A side whose rows did not change for so long has ended."""


@dataclass(frozen=True, slots=True)
class Options:
    """``windows`` of the burst; ``hosts`` and ``paced_windows`` of what is sent in real time (0: not)."""

    sides: tuple[str, ...]
    windows: int
    hosts: int
    paced_hosts: int
    paced_windows: int
    seed: int


@dataclass(frozen=True, slots=True)
class Load:
    """Records by the second in which they are sent, and what is asked of them."""

    seconds: list[list[Message]]
    from_ms: int
    to_ms: int

    @property
    def events(self) -> int:
        """Requests in all."""
        return sum(one.events for second in self.seconds for one in second)


@dataclass(slots=True)
class Watched:
    """What a reader of the rows saw: events by window, and when they last became more."""

    wanted: dict[int, int]
    events: dict[int, int] = field(default_factory=dict)
    at_s: dict[int, float] = field(default_factory=dict)
    records: list[bytes] = field(default_factory=list)
    changed_s: float = field(default_factory=time.monotonic)
    silences: list[tuple[float, float]] = field(default_factory=list)
    _held: dict[tuple[int, str], int] = field(default_factory=dict)

    def note(self, window_ms: int, series: str | None, events: int) -> None:
        """A row: it adds to its window, or replaces an earlier one of its series."""
        if window_ms not in self.wanted:
            return
        if series is not None:
            before = self._held.get((window_ms, series), 0)
            self._held[window_ms, series] = events
            events -= before
        self.total(window_ms, self.events.get(window_ms, 0) + events)

    def total(self, window_ms: int, events: int) -> None:
        """All events of a window by now."""
        if window_ms in self.wanted and events != self.events.get(window_ms, 0):
            now_s = time.monotonic()
            self.silences.append((self.changed_s, now_s))
            self.events[window_ms], self.at_s[window_ms], self.changed_s = events, time.time(), now_s

    @property
    def complete(self) -> bool:
        """Whether every window holds as many events as were sent."""
        return all(self.events.get(window_ms, 0) >= events for window_ms, events in self.wanted.items())

    def freshness(self, before_s: float) -> dict[str, Any]:
        """From the end of a window to its last change, of those that ended before a time and are complete; and the
        longest time without a change."""
        ended = {
            at: at / 1_000 + WINDOW_MS / 1_000 for at, events in self.wanted.items() if self.events.get(at) == events
        }
        delays_s = [self.at_s[at] - end_s for at, end_s in ended.items() if end_s < before_s]
        if not delays_s:
            return {"windows": 0}
        found = {"p50_s": float(np.median(delays_s)), "max_s": max(delays_s)}
        return {
            "windows": len(delays_s),
            **found,
            "silent_s_max": max((end - begin for begin, end in self.silences[1:]), default=0.0),
        }

    def resumed_s(self, killed_s: float) -> float | None:
        """From a kill to the first change after the pause before the restart: what was under way may come before."""
        changes = (end - killed_s for _, end in self.silences)
        return next((after_s for after_s in changes if after_s > RESTART_AFTER_S), None)


def load(profile: Profile, from_ms: int, windows: int, content_type: str, seed: int) -> Load:
    """Whole windows from ``from_ms`` on, and the closing second."""
    to_ms, sent = from_ms + windows * WINDOW_MS, list[list[Message]]()
    for at_ms, seconds in ((from_ms, windows * WINDOW_MS // 1_000), (to_ms + TAIL_MS, 1)):
        workload = Workload(profile, seed)
        every = messages(workload, at_ms, seconds, content_type, PARTITIONS, f"{seed}/{at_ms}")
        for _ in range(seconds):
            sent.append([next(every) for _ in range(profile.hosts)])
    return Load(sent, from_ms, to_ms)


def measure(stand: Stand, options: Options, environments: Path, progress: Progress) -> dict[str, Any]:
    """All sides one after the other; the result as plain data."""
    burst = replace(FLEET, hosts=options.hosts, gpus_per_host=0)
    from_ms = SystemClock().now_ms() // WINDOW_MS * WINDOW_MS - (options.windows + 30) * WINDOW_MS
    truth: dict[Key, Exact] = {}
    found: dict[str, dict[str, Any]] = {}
    loads: dict[str, Load] = {}
    for side in sides(stand, options.sides, environments, progress.say):
        if side.content_type not in loads:
            with progress.task(f"making events as {side.content_type}"):
                loads = {side.content_type: load(burst, from_ms, options.windows, side.content_type, options.seed)}
        if not truth:
            with progress.task("working out the exact answer"):
                truth = _truth(burst, from_ms, options)
        with progress.task(f"{side.name}: burst") as on_progress:
            one = asyncio.run(_Run(stand, side, loads[side.content_type], truth, on_progress).burst())
        found[side.name] = {"how": side.how, "records": side.content_type, **one}
        if options.paced_windows:
            with progress.task(f"{side.name}: paced, and killed") as on_progress:
                found[side.name] |= _paced(stand, side, options, on_progress)
    ours = next(iter(found.values()))
    for one in found.values():
        one["times_ours"] = one["cpu_s_per_million"] / ours["cpu_s_per_million"]
    return {"events": sum(one.events for one in truth.values()), "series": len(truth), "sides": found}


def _truth(profile: Profile, from_ms: int, options: Options) -> dict[Key, Exact]:
    lines = load(profile, from_ms, options.windows, NDJSON, options.seed)
    return exact((one.value for second in lines.seconds for one in second), lines.from_ms, lines.to_ms)


class _Late(Exception):
    """A side was not ready when what is sent in real time had to begin."""


def _paced(stand: Stand, side: Side, options: Options, on_progress: Any) -> dict[str, Any]:
    profile = replace(FLEET, hosts=options.paced_hosts, gpus_per_host=0)
    for lead_ms in LEADS_MS:
        from_ms = (SystemClock().now_ms() + lead_ms + WINDOW_MS) // WINDOW_MS * WINDOW_MS
        kinds = {side.content_type, NDJSON}
        sent = {kind: load(profile, from_ms, options.paced_windows, kind, options.seed) for kind in kinds}
        lines = (one.value for second in sent[NDJSON].seconds for one in second)
        own = sent[side.content_type]
        with contextlib.suppress(_Late):
            return asyncio.run(_Run(stand, side, own, exact(lines, from_ms, own.to_ms), on_progress).paced())
    raise FleetpulseError(f"{side.name} was not ready in {LEADS_MS[-1] / 1_000:.0f} s")


class _Run:
    """One side, one load."""

    def __init__(self, stand: Stand, side: Side, load: Load, truth: dict[Key, Exact], on_progress: Any) -> None:
        self._stand, self._side, self._load, self._truth = stand, side, load, truth
        self._kafka: KafkaConfig = stand.config.kafka
        self._on_progress = on_progress
        self._watched = Watched(events_by_window(truth))

    async def burst(self) -> dict[str, Any]:
        """CPU, memory, and whether the answer is right."""
        async with self._ready(), self._watching():
            with contextlib.ExitStack() as bound:
                pids = self._side.pids()
                for pid in pids.values():
                    cpu.forget_peak(pid)
                    bound.enter_context(cpu.pinned(pid, cpu.job_core()))
                idle = await self._spent(pids, asyncio.sleep(IDLE_S))
                broker_s, begun_s = cpu.cpu_s(self._stand.kafka_pid), time.monotonic()
                spent = await self._spent(pids, self._write_and_wait())
                wall_s = time.monotonic() - begun_s
            total_s = sum(spent.values()) - sum(idle.values()) / IDLE_S * wall_s
            events = self._load.events
            memory = sum(cpu.memory_bytes(pid)["resident_peak_bytes"] for pid in pids.values())
            verdict = self._judged()
            return {
                "cpu_s_per_million": 1e6 * total_s / events,
                "idle_cores": sum(idle.values()) / IDLE_S,
                "wall_s": wall_s,
                "broker_cpu_s": cpu.cpu_s(self._stand.kafka_pid) - broker_s,
                "memory_peak_bytes": memory,
                "equal": verdict.equal,
                "answer": verdict,
            }

    async def _spent(self, pids: dict[str, int], work: Any) -> dict[str, float]:
        before = {name: cpu.cpu_s(pid) for name, pid in pids.items()}
        await work
        return {name: cpu.cpu_s(pid) - before[name] for name, pid in pids.items()}

    async def _write_and_wait(self) -> None:
        every = (one for second in self._load.seconds for one in second)
        async with senders(self._kafka) as producers:
            await send_all(producers, every, 1, {}, lambda _done: None)
        await self._until_complete()

    async def paced(self) -> dict[str, Any]:
        """Freshness, and what a kill does."""
        fed: dict[str, Fed] = {}
        killing = (self._load.to_ms - self._load.from_ms) // 1_000 - KILLED_BEFORE_S
        killed_s, fresh = 0.0, dict[str, Any]()
        async with self._ready(), self._watching(), senders(self._kafka) as producers:
            if time.time() > self._sent_s(0):
                raise _Late
            restarting: asyncio.Task[None] | None = None
            for number, second in enumerate(self._load.seconds):
                await asyncio.sleep(max(0.0, self._sent_s(number) - time.time()))
                await send_all(producers, iter(second), 1, fed, lambda _done: None)
                if number == killing:
                    killed_s, fresh = time.monotonic(), self._watched.freshness(time.time() - SETTLED_S)
                    restarting = asyncio.create_task(asyncio.to_thread(self._kill_and_restart))
                self._on_progress(number + 1, len(self._load.seconds))
            if restarting is not None:
                await restarting
            await self._until_complete()
            await asyncio.sleep(SETTLED_S)  # rows that come twice come by now
            verdict = self._judged()
            parts = {name: getattr(verdict, name) for name in ("events", "lost", "doubled", "repeated", "wrong_sums")}
            return {"freshness": fresh, "killed": {**parts, "resumed_s": self._watched.resumed_s(killed_s)}}

    def _sent_s(self, number: int) -> float:
        """When the records of a second are sent: at its end; the closing second when its own time has come."""
        at_ms = self._load.from_ms + (number + 1) * 1_000
        return (at_ms + (TAIL_MS if at_ms > self._load.to_ms else 0)) / 1_000

    def _kill_and_restart(self) -> None:
        self._side.kill()
        time.sleep(RESTART_AFTER_S)
        self._side.restart()

    def _judged(self) -> Any:
        return judge(self._truth, self._side.rows(self._watched.records), self._side.error_allowed)

    @contextlib.asynccontextmanager
    async def _ready(self) -> AsyncIterator[None]:
        """The side, started on fresh topics, when it has committed what it is warmed up with."""
        ours = self._side.output == WINDOW_PARTIALS
        await fresh_topics(self._kafka, partitions_of((TOPIC,)) if ours else PARTITIONS)
        if self._side.output == OUTPUT:
            await _fresh_output(self._kafka)
        few = replace(FLEET, hosts=40, gpus_per_host=0)
        warm = load(few, self._load.from_ms - WARM_MS, 0, self._side.content_type, 0)
        async with senders(self._kafka) as producers:
            await send_all(producers, (one for second in warm.seconds for one in second), 1, {}, lambda _done: None)
        await asyncio.to_thread(self._side.start)
        try:
            ends = await end_offsets(self._kafka, PARTITIONS)
            alive = lambda: bool(self._side.pids())  # noqa: E731
            await until_committed(self._kafka, self._side.group, ends, READY_WITHIN_S, lambda _d, _a: None, alive)
            yield
        except FleetpulseError as error:
            raise FleetpulseError(f"{self._side.name}: {error}; the end of its log:\n{self._side.tail()}") from error
        finally:
            self._side.stop()

    @contextlib.asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        self._reading = asyncio.create_task(self._read_topic() if self._side.output else self._ask())
        try:
            yield
        finally:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _read_topic(self) -> None:
        assert self._side.output is not None
        places = [TopicPartition(self._side.output, number) for number in range(BY_NAME[TOPIC].partitions)]
        async with started(make_consumer(self._kafka, max_partition_fetch_bytes=16 << 20)) as consumer:
            consumer.assign(places)
            await consumer.seek_to_end()
            while True:
                for fetched in (await consumer.getmany(*places, timeout_ms=200)).values():
                    for one in fetched:
                        self._take(one.value or b"", dict(one.headers))
                        await asyncio.sleep(0)

    def _take(self, value: bytes, headers: dict[str, bytes]) -> None:
        seen = list(self._side.seen(value, headers))
        if seen:
            self._watched.records.append(value)
        for one in seen:
            self._watched.note(*one)

    async def _ask(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # it may be down: then there is nothing new
                for window_ms, events in await asyncio.to_thread(self._side.counted):
                    self._watched.total(window_ms, events)
            await asyncio.sleep(0.3)

    async def _until_complete(self) -> None:
        """Return when all rows are there, or nothing has changed for long."""
        begun_s = time.monotonic()
        while True:
            if self._watched.complete or self._reading.done():
                return
            if time.monotonic() - max(begun_s, self._watched.changed_s) > QUIET_S:
                return
            if not self._side.pids():
                raise FleetpulseError("it ended")
            await asyncio.sleep(0.05)


async def _fresh_output(kafka: KafkaConfig) -> None:
    async with started(make_admin(kafka)) as admin:
        if OUTPUT in set(await admin.list_topics()):
            await admin.delete_topics([OUTPUT])
        await made(admin, NewTopic(OUTPUT, BY_NAME[TOPIC].partitions, 1))
