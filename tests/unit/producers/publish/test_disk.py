"""How old what waits in a spool is, as its publisher says it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from producers.batch import Batch
from producers.publish.publisher import Publisher
from producers.spool import segment_log
from producers.spool.spool import Spool
from runtime.config import KafkaConfig
from runtime.counters import Counters
from tests.virtual_clock import VirtualClock

ONE = Batch("llm.requests", "s/1", "t", b"h", 1, b"value")


async def test_the_age_of_the_oldest_record_is_known_before_any_is_sent(tmp_path: Path) -> None:
    """Of a start while Kafka is away: of what an earlier one left on disk, and of what waits in memory."""
    clock, counters = VirtualClock(1_000), Counters()
    ages = []
    for step in ("it has a new record", "the record is on disk alone"):
        spool = Spool.open(tmp_path)
        publisher = Publisher(spool, KafkaConfig(), host="h", counters=counters, clock=clock)
        if step == "it has a new record":
            await publisher.put("llm.requests", b"h", ONE)
        clock.advance(86_400_000)
        await publisher._keep()
        ages.append(counters.value("edge_oldest_ms"))
        handed_out = len(spool.take())
        await publisher._keep()
        ages.append(counters.value("edge_oldest_ms"))
        spool.abandon()
        assert handed_out == 1

    assert ages == [86_400_000] * 2 + [2 * 86_400_000] * 2


async def test_a_spool_without_records_has_no_oldest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one whose disk does not give it now: that ends nobody before it is to be sent."""

    def unreadable(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    counters = Counters()
    first = Publisher(Spool.open(tmp_path), KafkaConfig(), host="h", counters=counters)
    await first._keep()
    ages = [counters.value("edge_oldest_ms")]
    await first.put("llm.requests", b"h", ONE)
    first.spool.abandon()
    again = Publisher(Spool.open(tmp_path), KafkaConfig(), host="h", counters=counters)
    with monkeypatch.context() as disk:
        disk.setattr(segment_log, "SegmentReader", unreadable)
        await again._keep()
    ages.append(counters.value("edge_oldest_ms"))
    taken = len(again.spool.take())
    again.spool.abandon()

    assert (ages, taken) == ([0, 0], 1)
