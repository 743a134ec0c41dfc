from __future__ import annotations

from collections.abc import Sequence

import pytest

from producers.agent.life import CostMeter
from producers.agent.sought import SoughtEngines, UnlessNamed
from producers.agent.sources import HostCollector
from producers.collector import Collected, Identity
from producers.engines.placement import HostPlacement
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget
from schemas.events.event_types import ENGINE_SAMPLES
from tests.virtual_clock import VirtualClock

IDENTITY = Identity({"host": "h", "cluster": "c", "region": None}, {})


def test_the_host_s_row_tells_what_collecting_cost() -> None:
    """Since the row before; null when nothing was read."""
    meter = CostMeter()
    collector = HostCollector(IDENTITY, 1_000, meter)

    first = collector.collect(5)[0].rows[0]
    meter.add(700)
    meter.add(50)
    second = collector.collect(6)[0].rows[0]

    assert (first["at_ms"], first["host"], first["cluster"], first["agent_collect_us"]) == (5, "h", "c", None)
    assert second["agent_collect_us"] == 750


class Engine:
    name = "engine"
    period_ms = 1

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.closed = False

    def collect(self, at_ms: int) -> Sequence[Collected]:
        rows = self.answers.pop(0)
        return [Collected(ENGINE_SAMPLES, [{"at_ms": at_ms}] * rows)] if rows else []

    def close(self) -> None:
        self.closed = True


def test_engines_are_sought_seldom_and_read_often() -> None:
    """While none answers it rests; one thread scrapes all of them, and closes them."""
    engines = [Engine(0, 2, 0), Engine(0, 0, 0)]
    collector = SoughtEngines(engines, 1_000, 30_000)

    seen = [(len(collector.collect(5)), collector.period_ms) for _ in range(3)]
    collector.close()

    assert seen == [(0, 30_000), (1, 1_000), (0, 30_000)]
    assert all(engine.closed for engine in engines)


class Slow(Engine):
    """Takes its time limit, and counts how often it was asked."""

    def __init__(self, clock: VirtualClock, takes_ms: int, rows: int) -> None:
        super().__init__()
        self.asked, self._clock, self._takes_ms, self._rows = 0, clock, takes_ms, rows

    def collect(self, at_ms: int) -> Sequence[Collected]:
        self.asked += 1
        self.answers.append(self._rows)
        self._clock.advance(self._takes_ms)
        return super().collect(at_ms)


def test_ports_where_servers_hang_hide_no_other() -> None:
    """A round that takes too long goes on in the next, without a rest between them."""
    clock = VirtualClock()
    engines = [*(Slow(clock, 2_000, 0) for _ in range(6)), Slow(clock, 0, 1)]
    collector = SoughtEngines(engines, 1_000, 30_000, clock)

    rounds = []
    for _ in range(4):
        begun_s = clock.monotonic_s()
        rounds.append((len(collector.collect(5)), round(clock.monotonic_s() - begun_s), collector.period_ms))

    assert rounds == [(0, 6, 1_000), (0, 6, 1_000), (1, 6, 1_000), (0, 6, 1_000)]
    assert [engine.asked for engine in engines] == [2, 2, 2, 2, 2, 2, 1]


def test_an_engine_that_cannot_be_read_holds_up_no_other() -> None:
    """Its error ends a round; the next one begins with those left out."""
    broken, other = Engine(), Engine(1)
    collector = SoughtEngines([broken, other], 1_000, 30_000)

    with pytest.raises(IndexError):
        collector.collect(5)
    with pytest.raises(IndexError):
        collector.collect(5)

    assert other.answers == []


def test_an_engine_that_a_pod_names_is_not_sought() -> None:
    """Its port is scraped under the pod's name: its counters would count twice. It is again when the pod is gone."""
    registry, named = HostPlacement("h"), set[int]()
    target = EngineTarget("h:8000", "http://127.0.0.1:8000", sought=True)
    registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
    registry.saw_engine(target)
    engine = Engine(1, 1)
    collector = UnlessNamed(engine, target, registry, lambda: named)

    seen = [(len(collector.collect(5)), registry.of("h:8000")[0])]
    for ports in ({8000, 8001}, {8000}, {8001}):
        named.clear()
        named.update(ports)
        seen.append((len(collector.collect(5)), registry.of("h:8000")[0]))
    collector.close()

    assert seen == [(1, ("G",)), (0, ()), (0, ()), (1, ())]
    assert (engine.answers, engine.closed) == ([], True)
