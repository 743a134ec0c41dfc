"""The fleet in real time: nothing is sent before its moment, truth stands first, stop ends between steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from lab.simulator.plan import FleetPlan
from lab.simulator.run import Report, simulate
from lab.simulator.truth_file import TruthWriter, read_lives, truth_of
from producers.batch import Batch
from schemas.codec import native
from schemas.codec.block import Numbers
from schemas.events.event_types import BY_TOPIC


class RunningClock:
    """Each look at it finds it ``stride_ms`` later; what is left of a step's second is waited for."""

    def __init__(self, start_ms: int, stride_ms: int = 800) -> None:
        self.at_ms = start_ms
        self._stride_ms = stride_ms

    def now_ms(self) -> int:
        self.at_ms += self._stride_ms
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1_000


class RecordingPublisher:
    """Notes what came when; stops the run after so many records; fails where told."""

    def __init__(self, clock: RunningClock, stop: asyncio.Event, records_max: int = 10**9, dies: bool = False) -> None:
        self.records: list[tuple[str, bytes, int, int]] = []
        self.clock, self.stop, self.records_max, self.dies = clock, stop, records_max, dies
        self.newest_ms = 0

    async def put(self, topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool:
        assert wait, "a simulation can wait; shed events would not be in the books"
        block = native.decode(batch.value, BY_TOPIC[topic].fields)
        assert (batch.topic, batch.key, batch.count, batch.schema) == (topic, key, block.rows, BY_TOPIC[topic].schema)
        at_ms = block.columns["at_ms"]
        assert isinstance(at_ms, Numbers)
        self.newest_ms = int(at_ms.values.max())
        assert self.newest_ms <= self.clock.at_ms
        self.records.append((topic, key, batch.count, self.newest_ms))
        if len(self.records) >= self.records_max:
            if self.dies:
                raise ConnectionError("killed")
            self.stop.set()
        return True


def start(clock: RunningClock, records_max: int = 10**9, *, dies: bool = False) -> RecordingPublisher:
    return RecordingPublisher(clock, asyncio.Event(), records_max, dies)


async def test_a_run_sends_every_second_once_its_end_has_come(
    small_plan: Callable[..., FleetPlan], start_ms: int, tmp_path: Path
) -> None:
    """Eight seconds: eight steps, events counted, truth equal to what was sent, begun at a whole second."""
    clock = RunningClock(start_ms + 123)
    publisher = start(clock)
    writer = TruthWriter(tmp_path / "truth", {"source": "s", "boot": 1})

    report = await simulate(small_plan(), 3, publisher, clock, publisher.stop, seconds=8.0, truth=writer)

    writer.close()
    sent: dict[str, int] = {}
    for topic, _, rows, _ in publisher.records:
        sent[topic] = sent.get(topic, 0) + rows
    assert (report.steps, report.to_ms - report.from_ms) == (8, 8_000)
    assert report.from_ms == start_ms + 1_000
    assert report.events == sent == truth_of(read_lives(tmp_path / "truth")).events()
    assert report.records == len(publisher.records)


async def test_stop_ends_after_the_step_that_is_being_sent(
    small_plan: Callable[..., FleetPlan], start_ms: int, tmp_path: Path
) -> None:
    """Asked to stop in the middle of a step, the rest of it is sent, and the truth holds no more."""
    clock = RunningClock(start_ms)
    publisher = start(clock, records_max=20)
    writer = TruthWriter(tmp_path / "truth", {"source": "s", "boot": 1})

    report = await simulate(small_plan(), 3, publisher, clock, publisher.stop, truth=writer)

    writer.close()
    assert len(publisher.records) >= 20
    assert report.to_ms == report.from_ms + report.steps * 1_000
    assert truth_of(read_lives(tmp_path / "truth")).events() == report.events


async def test_truth_stands_before_the_first_record_of_a_step(
    small_plan: Callable[..., FleetPlan], start_ms: int, tmp_path: Path
) -> None:
    """A generator killed while sending has every record it sent in its truth; cut to them it is exact."""
    clock = RunningClock(start_ms)
    publisher = start(clock, records_max=33, dies=True)
    writer = TruthWriter(tmp_path / "truth", {"source": "s", "boot": 1})
    report = Report()
    try:
        await simulate(small_plan(), 3, publisher, clock, publisher.stop, truth=writer, report=report)
    except ConnectionError:
        writer.close()

    sent: dict[str, list[int]] = {}
    for topic, _, rows, _ in publisher.records:
        sent.setdefault(topic, []).append(rows)
    books = {topic: len(rows) for topic, rows in sent.items()}
    cut = truth_of(read_lives(tmp_path / "truth"), {("s", 1): books})
    assert cut.events() == {topic: sum(rows) for topic, rows in sent.items()}
    assert sum(truth_of(read_lives(tmp_path / "truth")).events().values()) > sum(cut.events().values())
