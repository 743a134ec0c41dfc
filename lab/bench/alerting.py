"""``bench alerts``: how soon an alert stands on its topic, measured from outside while a fleet runs and GPUs fail.

- *events*: from the moment an edge of the bench's own reports an XID to its alert, through its spool;
- *rules*: from the moment all of a window's finals could be read to the alert of a rule that judged it;
- *finals*: from a window's end until all of its finals could be read: whether the machine keeps up with the fleet.

GPUs of ever other hosts are lost or throttled, so that every delay is measured many times, on every phase of commits.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from fleetpulse.commands.progress import Progress
from fleetpulse.services.edge import publishing
from fleetpulse.services.processes import Command, Processes
from lab.bench import live
from lab.bench.stand import fresh_stand
from producers.agent.publishing import publish_rows
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.kafka_clients import make_consumer, started
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.alerts import Alert, decode
from schemas.contract.topics import ALERTS_TOPIC, BY_NAME, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from schemas.events.event_types import GPU_EVENTS
from schemas.rows.finals import FinalsHeaders, PassedOnHeaders
from schemas.rows.finals import decode as headers_of
from stream_jobs.rules.load import load_set

PREFIX = "bench-xid-"
SETTLE_S = 60
"""The fleet runs so long before the first fault: services start, series become known."""
APART_S = 1.1
LASTS_S = 25.0
TAIL_S = 25.0
TARGETS = {"events_p99_s": 1.0, "rules_p99_s": 1.0}
ANSWERED_WITHIN_S = 10.0
"""An event without an alert by then has none: delays of those that have one say nothing of it."""
SLOWEST = 5
"""Events whose way is listed leg by leg."""
_READY_WITHIN_S = 90.0
_LOOK_EVERY_S = 0.1


LEGS = ("edge", "finals_take", "finals_commit", "alerts_take", "alerts_commit")
"""From the event's own time over the append time of its record, when the finals job sends it on, when the observer can
read that, and when the alert job sends the alert, to when the observer can read the alert."""


@dataclass(slots=True)
class Trail:
    """When each event came where, ms, by its GPU; an event whose trail has a hole is left out."""

    passed: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """Its own time, its append time, sent on, could be read."""
    alerts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Alert sent, could be read."""

    def pass_on(self, headers: PassedOnHeaders, value: bytes, sent_ms: int, now_ms: int, prefix: str) -> None:
        """A record of window.finals that passes events on."""
        if headers.schema != GPU_EVENTS.schema:
            return
        for row in rows_of(GPU_EVENTS.fields, native.decode(value, GPU_EVENTS.fields)):
            uuid = str(row["gpu_uuid"])
            if uuid.startswith(prefix):
                self.passed.setdefault(uuid, (int(row["at_ms"]), headers.at_ms, sent_ms, now_ms))

    def alerted(self, uuid: str, sent_ms: int, now_ms: int) -> None:
        """The alert that it opened."""
        self.alerts.setdefault(uuid, (sent_ms, now_ms))

    def legs_s(self) -> Mapping[str, list[float]]:
        """Seconds by leg, in the order of the alerts."""
        whole = [(*self.passed[uuid], *alert) for uuid, alert in self.alerts.items() if uuid in self.passed]
        steps = [[(after - before) / 1_000 for before, after in pairwise(times)] for times in whole]
        return {leg: [one[number] for one in steps] for number, leg in enumerate(LEGS)}

    def slowest(self, count: int) -> list[dict[str, float]]:
        """The events that took longest, leg by leg, with the second of its window in which each happened."""
        found = self.legs_s()
        each = [dict(zip(LEGS, legs, strict=True)) for legs in zip(*found.values(), strict=True)]
        starts = [self.passed[uuid][0] for uuid in self.alerts if uuid in self.passed]
        for legs, at_ms in zip(each, starts, strict=True):
            legs["of_window"] = at_ms % 10_000 / 1_000
        return sorted(each, key=lambda legs: -sum(legs[leg] for leg in LEGS))[:count]


@dataclass(slots=True)
class Seen:
    """What the observer read and when (ms). ``final_ms``: by end of window, when its last finals could be read."""

    opened: list[tuple[int, Alert]] = field(default_factory=list)
    resolved: int = 0
    through: dict[int, int] = field(default_factory=dict)
    final_ms: dict[int, int] = field(default_factory=dict)
    newest_end_ms: int = 0
    begun_ms: int = 0
    """When the observer began, which is when the fleet was started."""
    trail: Trail = field(default_factory=Trail)
    sent_ms: dict[str, int] = field(default_factory=dict)
    """When each event of the bench's own was sent, by its GPU."""
    ended_ms: int = 0
    """When the observer ended."""

    def finals(self, now_ms: int, headers: FinalsHeaders, upstreams: int) -> None:
        """A record of window.finals."""
        self.through[headers.upstream] = max(self.through.get(headers.upstream, 0), headers.through_ms)
        if len(self.through) < upstreams:
            return
        end_ms = min(self.through.values()) // 10_000 * 10_000
        if end_ms > self.newest_end_ms:
            for passed_ms in range(max(self.newest_end_ms + 10_000, end_ms - 600_000), end_ms + 1, 10_000):
                self.final_ms[passed_ms] = now_ms
            self.newest_end_ms = end_ms

    def alert(self, now_ms: int, alert: Alert) -> None:
        """A record of alerts."""
        if alert.transition == "opened":
            self.opened.append((now_ms, alert))
        self.resolved += alert.transition == "resolved"

    def unanswered(self) -> list[str]:
        """GPUs of events that opened no alert, though there was time to."""
        alerted = {alert.labels.get("gpu_uuid") for _, alert in self.opened}
        until_ms = self.ended_ms - round(ANSWERED_WITHIN_S * 1_000)
        return [uuid for uuid, at_ms in self.sent_ms.items() if at_ms <= until_ms and uuid not in alerted]


def delays_s(seen: Seen, rules: frozenset[str]) -> tuple[list[float], list[float]]:
    """Delays of alerts opened by the bench's events and by ``rules``. What opened in a window not seen final is left
    out."""
    events, judged = [], []
    for at_ms, alert in seen.opened:
        if alert.labels.get("gpu_uuid", "").startswith(PREFIX):
            events.append((at_ms - alert.opened_ms) / 1_000)
        elif alert.rule in rules and alert.opened_ms in seen.final_ms:
            judged.append((at_ms - seen.final_ms[alert.opened_ms]) / 1_000)
    return events, judged


def finals_s(seen: Seen, from_ms: int, to_ms: int) -> list[float]:
    """Seconds from the end of each window that ended between the two times to its last finals."""
    ended = ((end_ms, at_ms) for end_ms, at_ms in sorted(seen.final_ms.items()) if from_ms < end_ms <= to_ms)
    return [(at_ms - end_ms) / 1_000 for end_ms, at_ms in ended]


def schedule(hosts: int, seconds: int) -> list[dict[str, Any]]:
    """Faults in turn, each on a host of its own: a GPU is lost, a GPU is throttled."""
    faults: list[dict[str, Any]] = []
    number = 0
    while SETTLE_S + number * APART_S + LASTS_S < seconds and number < hosts:
        kind, strength = (("gpu_lost", 1.0), ("thermal_throttle", 0.5))[number % 2]
        from_s = SETTLE_S + number * APART_S
        target = f"gpu-{number:05d}:{number % 8}"
        faults.append(
            {"kind": kind, "field": "gpu", "value": target, "from_s": from_s, "to_s": from_s + LASTS_S}
            | {"strength": strength}
        )
        number += 1
    return faults


def measure(data_dir: Path | None, hosts: int, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Run it; delays in seconds."""
    faults = schedule(hosts, seconds)
    with fresh_stand(data_dir, progress.say) as stand, live.pipeline(stand, progress) as processes:
        for job in ("finals", "alerts"):
            processes.start(Command(job, ("jobs", job, "--name", f"bench-{job}"), stand.environment))
        path = stand.data_dir / "faults.json"
        path.write_bytes(orjson.dumps(faults))
        processes.start(live.fleet(stand, hosts, seconds, seed, "--faults", str(path)))
        before, begun_s = live.cpu_s(stand, processes), time.monotonic()
        spent_s = dict(before)
        with progress.task(f"{hosts * live.GPUS_PER_HOST:,} GPUs for {seconds} s, {len(faults)} faults") as on_progress:

            def passed(done: int) -> None:
                spent_s.update(live.cpu_s(stand, processes))
                on_progress(done, seconds)

            seen = asyncio.run(_observe(stand.config, processes, passed))
        wall_s = time.monotonic() - begun_s
        cores = {name: (now - before.get(name, 0.0)) / wall_s for name, now in spent_s.items()}
    return _report(seen, hosts, seconds, len(faults), cores)


def _report(seen: Seen, hosts: int, seconds: int, faults: int, cores: Mapping[str, float]) -> dict[str, Any]:
    events, judged = delays_s(seen, frozenset(rule.name for rule in load_set(None).rules))
    found = {"events": _quantiles(events), "rules": _quantiles(judged)}
    while_it_ran = finals_s(seen, seen.begun_ms + SETTLE_S * 1_000, seen.begun_ms + seconds * 1_000)
    by_rule = Counter(alert.rule for _, alert in seen.opened)
    p99 = {f"{name}_p99_s": quantiles["p99_s"] for name, quantiles in found.items()}
    within = {name: (value := p99[name]) is not None and value <= bound for name, bound in TARGETS.items()}
    unanswered = seen.unanswered()
    return {
        "gpus": hosts * live.GPUS_PER_HOST,
        "seconds": seconds,
        "faults": faults,
        "events_sent": len(seen.sent_ms),
        "events_unanswered": len(unanswered),
        "alerts_opened": len(seen.opened),
        "alerts_resolved": seen.resolved,
        "by_rule": dict(sorted(by_rule.items())),
        **found,
        "finals": _quantiles(while_it_ran),
        "legs": {leg: _quantiles(delays) for leg, delays in seen.trail.legs_s().items()},
        "slowest": seen.trail.slowest(SLOWEST),
        **p99,
        "cores": dict(cores),
        "targets": TARGETS,
        "within": within | {"every_event": not unanswered},
    }


def _quantiles(delays: list[float]) -> dict[str, float | None]:
    values = np.sort(np.array(delays, np.float64))
    at = {f"p{q}_s": float(np.quantile(values, q / 100, method="higher")) if len(values) else None for q in (50, 99)}
    return {"count": len(values), **at, "max_s": float(values[-1]) if len(values) else None}


async def _observe(config: Config, processes: Processes, on_progress: Any) -> Seen:
    """Read both topics until the fleet has ended and some time after."""
    clock = SystemClock()
    seen, ended_s = Seen(begun_ms=clock.now_ms()), None
    begun_s = time.monotonic()
    take = partial(_take, seen, BY_NAME[WINDOW_PARTIALS].partitions)
    readers = [follow(config, topic, take) for topic in (WINDOW_FINALS, ALERTS_TOPIC)]
    tasks = [asyncio.create_task(one) for one in (*readers, _report_events(config, clock, seen))]
    try:
        while ended_s is None or time.monotonic() - ended_s < TAIL_S:
            await asyncio.sleep(_LOOK_EVERY_S)
            for task in tasks:
                if task.done():
                    task.result()
            processes.tend()
            if ended_s is None and live.ended_well(processes, "simulate"):
                ended_s = time.monotonic()
            if not seen.through and time.monotonic() - begun_s > _READY_WITHIN_S:
                raise FleetpulseError(f"no final came in {_READY_WITHIN_S:.0f} s:\n{processes.tail('finals')}")
            on_progress(int(time.monotonic() - begun_s))
    finally:
        seen.ended_ms = clock.now_ms()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def follow(config: Config, topic: str, take: Callable[[int, Any], None]) -> None:
    """``take`` every record as it comes, with the time in ms, for ever. One topic: a reader of two waits for the one
    before it asks again for the other, or asks so often that it is load."""
    clock = SystemClock()
    async with started(make_consumer(config.kafka, topic, max_partition_fetch_bytes=16 << 20)) as consumer:
        while True:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                now_ms = clock.now_ms()
                for record in records:
                    take(now_ms, record)


async def _report_events(config: Config, clock: SystemClock, seen: Seen) -> None:
    """An XID of ever another GPU, as an agent reports it: at once, through a spool of its own."""
    await asyncio.sleep(SETTLE_S / 2)  # what is sent while jobs start waits for them
    async with publishing(config, config.data_dir / "spool-events", "bench") as publisher:
        for number in itertools.count():
            at_ms, uuid = clock.now_ms(), f"{PREFIX}{number}"
            row = {"at_ms": at_ms, "code": 79, "kind": "xid", "severity": "critical", "origin": "simulated"}
            await publish_rows(publisher, GPU_EVENTS, [row | {"host": uuid, "gpu_uuid": uuid}])
            seen.sent_ms[uuid] = at_ms
            await asyncio.sleep(APART_S)


def _take(seen: Seen, upstreams: int, now_ms: int, record: Any) -> None:
    if record.topic == ALERTS_TOPIC:
        if record.value:
            alert = decode(record.value)
            seen.alert(now_ms, alert)
            uuid = alert.labels.get("gpu_uuid", "")
            if alert.transition == "opened" and uuid.startswith(PREFIX):
                seen.trail.alerted(uuid, record.timestamp, now_ms)
        return
    headers = headers_of(tuple(record.headers), f"{record.topic}@{record.offset}")
    if isinstance(headers, FinalsHeaders):
        seen.finals(now_ms, headers, upstreams)
    else:
        seen.trail.pass_on(headers, record.value, record.timestamp, now_ms, PREFIX)
