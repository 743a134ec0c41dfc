from __future__ import annotations

from pathlib import Path

from producers.agent.publishing import Handover, packed
from producers.collector import Collected
from producers.publish.publisher import Publisher
from producers.spool.spool import Spool, SpoolLimits
from runtime.config import KafkaConfig
from runtime.counters import Counters
from schemas.events.event_types import HOST_SAMPLES


async def test_whoever_can_send_again_is_told_that_the_spool_is_full(tmp_path: Path) -> None:
    """Nothing of theirs is shed; once there is room it is taken."""
    limits = SpoolLimits(bytes_max=64 * 1024, segment_bytes=8 * 1024)
    spool, counters = Spool.open(tmp_path, limits), Counters()
    publisher = Publisher(spool, KafkaConfig(), host="h", counters=counters)
    handover = Handover(publisher)
    parcel = packed([Collected(HOST_SAMPLES, [{"at_ms": 1, "host": "h", "origin": "measured"}] * 3)])

    taken = 0
    while handover.offer_fit(parcel):
        handover.drain()
        await publisher.written()
        taken += 1
    spool.sync()
    spool.acknowledge(spool.take())
    spool.save()
    again = handover.offer_fit(parcel)
    handover.drain()
    await publisher.written()
    tally = spool.books[1, "host.samples"]
    spool.close()

    assert taken > 10
    assert again
    assert (tally.records, tally.shed_events) == (taken + 1, 0)


async def test_a_full_spool_sheds_what_is_new_and_keeps_what_it_took(tmp_path: Path) -> None:
    """Every event is in the books, as spooled or as shed; what the sender was handed stays; room is used again."""
    limits = SpoolLimits(bytes_max=64 * 1024, segment_bytes=8 * 1024)
    spool, counters = Spool.open(tmp_path, limits), Counters()
    publisher = Publisher(spool, KafkaConfig(), host="h", counters=counters)
    handover = Handover(publisher)
    parcel = packed([Collected(HOST_SAMPLES, [{"at_ms": 1, "host": "h", "origin": "measured"}] * 3)])
    spool.sync()

    handed = 0
    while not counters.value("edge_events_shed", topic="host.samples") >= 9:
        handover.give(parcel)
        handover.drain()
        await publisher.written()
        spool.sync()
        handed += 3
    taken = spool.take()
    shed_before = spool.books[1, "host.samples"].shed_events
    handover.give(parcel)
    handover.drain()
    await publisher.written()
    still = list(spool.taken)
    spool.acknowledge(taken)
    spool.save()
    handover.give(parcel)
    handover.drain()
    await publisher.written()
    tally = spool.books[1, "host.samples"]
    spool.close()

    assert still == taken
    assert (shed_before, tally.shed_events) == (9, 12)
    assert tally.events + tally.shed_events == handed + 6
    assert tally.acknowledged_events == sum(record.events for record in taken) == tally.events - 3
