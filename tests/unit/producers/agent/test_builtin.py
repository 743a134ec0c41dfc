from __future__ import annotations

from collections.abc import Sequence

from producers.agent.life import CostMeter
from producers.agent.sources import HostCollector, SoughtEngines
from producers.collector import Collected, Identity
from schemas.events.event_types import ENGINE_SAMPLES

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
