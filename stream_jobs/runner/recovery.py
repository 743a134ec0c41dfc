"""What a new owner reads before it goes live, and the checks of it.

What no restart can mend is a ``PartitionError``: the partition is quarantined, the others go on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from schemas.contract.record import Record
from schemas.errors import ContractError, FencedError, NewerReleaseError, PartitionError
from stream_jobs.runner.job import AnyStep, Names, Source
from stream_jobs.runner.ports import Broker
from stream_jobs.runner.snapshot import Assembly, Snapshot, topic_id_of

NO_LEADER = "no_leader"
"""The cause of a partition without leader: nobody has to mend it in the job."""
RUN_GAP_MAX = 64
"""Offsets between two pieces for which it is cheaper to begin to read again."""


async def demand_partitions(broker: Broker, names: Names, source: Source) -> None:
    """Raise ``PartitionError`` where the state topic lacks this partition: the source has grown and the state topic
    has not; or where it or the source has no leader."""
    topic = names.state_topic(source.topic)
    if not await broker.has_partition(topic, source.partition):
        raise PartitionError(
            "no_state_partition",
            f"{source}: topic {topic} has no partition {source.partition}; run `fleetpulse migrate`",
        )
    await demand_leaders(broker, names, source)


async def demand_leaders(broker: Broker, names: Names, source: Source) -> None:
    """Raise ``PartitionError`` where the partition of the source, or that of its state, has no leader."""
    for topic in (source.topic, names.state_topic(source.topic)):
        if not await broker.has_leader(topic, source.partition):
            raise PartitionError(
                NO_LEADER,
                f"{source}: partition {source.partition} of {topic} has no leader: the brokers that hold all of it are "
                "away; start one of them",
            )


async def refuse_if_known(
    broker: Broker, names: Names, source: Source, progressed: Callable[[], None] = lambda: None
) -> None:
    """For a source without committed offset. A snapshot proves that there was one: it went with a topic that was
    deleted and made again, or the group's offsets were lost, and starting from the beginning would count everything
    twice. ``progressed`` is called whenever some of the state topic was read. Raises ``PartitionError``."""
    last = await _last_piece(broker, names, source, progressed)
    if last is None:
        return
    if await broker.committed(names.group, source.topic, source.partition) is not None:
        raise FencedError(f"{source}: another owner took over and has committed already")
    await demand_same_topic(broker, source, topic_id_of(last))
    raise PartitionError(
        "offset_lost",
        f"{source}: group {names.group} has no committed offset, yet {last.topic} holds a snapshot: the offset was "
        "lost (offsets.retention.minutes?), and starting from the beginning would count everything twice",
    )


async def _last_piece(broker: Broker, names: Names, source: Source, progressed: Callable[[], None]) -> Record | None:
    """The last record in the state topic that is of a snapshot."""
    topic, found = names.state_topic(source.topic), list[Record]()
    position = await broker.begin_offset(topic, source.partition)
    end = await broker.end_offset(topic, source.partition)
    if position >= end:
        return None
    reader = await broker.reader(topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            if batch.position > position:
                progressed()
            position = batch.position
            pieces = (record for record in batch.records if (record.key or b"").startswith(names.state_prefix))
            found = [*found, *pieces][-1:]
    finally:
        await reader.close()
    return found[0] if found else None


async def snapshots(broker: Broker, names: Names, source: Source) -> list[int]:
    """Offsets of the first pieces of all snapshots that the state topic holds, in order."""
    topic, found = names.state_topic(source.topic), list[int]()
    position = await broker.begin_offset(topic, source.partition)
    end = await broker.end_offset(topic, source.partition)
    if position >= end:
        return []
    reader = await broker.reader(topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            position = batch.position
            found += [
                record.offset
                for record in batch.records
                if (record.key or b"").startswith(names.state_prefix)
                and dict(record.headers).get("piece", b"").startswith(b"0/")
            ]
    finally:
        await reader.close()
    return found


async def read_snapshot(
    broker: Broker,
    names: Names,
    source: Source,
    offset: int,
    *,
    settled: bool,
    progressed: Callable[[], None] = lambda: None,
) -> tuple[Snapshot, list[bytes]]:
    """The snapshot whose first piece stands at ``offset`` of the state topic, and its parts. ``settled``: no
    transaction is open there. A live owner's last one may be: committed and not yet visible; then this waits.
    ``progressed`` is called whenever some of it was read. Raises ``PartitionError`` where it cannot be read."""
    topic = names.state_topic(source.topic)
    assembly = Assembly(names, offset, str(source))
    end = await broker.end_offset(topic, source.partition)
    reader = await broker.reader(topic, source.partition, offset)
    try:
        position = offset
        while position < end or not settled:
            batch = await reader.poll()
            position = batch.position
            if batch.records:
                progressed()
            for record in batch.records:
                found = assembly.add(record)
                if found is not None:
                    return found, assembly.parts
                if assembly.kept and not assembly.follows:
                    return await _read_kept(broker, topic, source, assembly, progressed), assembly.parts
            if not batch.records and not settled:
                await broker.pause()
    finally:
        await reader.close()
    raise PartitionError("snapshot_lost", f"{source}: {topic} ends at {end}, before the snapshot at {offset} is whole")


def loaded(step: AnyStep, source: Source, parts: Sequence[bytes]) -> Any:
    """The state that a snapshot's parts are. Raises ``PartitionError`` where they are none; what another process could
    load, one with more memory or of the release that wrote it, is not damaged, and ends this one."""
    try:
        return step.load(source.topic, source.partition, parts)
    except (MemoryError, NewerReleaseError):
        raise
    except Exception as error:
        raise PartitionError(
            "snapshot_damaged", f"{source}: the snapshot cannot be loaded: {type(error).__name__}: {error}"
        ) from error


async def _read_kept(
    broker: Broker, topic: str, source: Source, assembly: Assembly, progressed: Callable[[], None]
) -> Snapshot:
    """The pieces that the snapshot refers to, and with them the whole. Those that stand together are read in one go."""
    offsets = sorted(set(assembly.kept.values()))
    starts = [
        offset for before, offset in itertools.pairwise([-RUN_GAP_MAX, *offsets]) if offset - before >= RUN_GAP_MAX
    ]
    for start, beyond in itertools.pairwise([*starts, offsets[-1] + 1]):
        last = max(offset for offset in offsets if start <= offset < beyond)
        reader = await broker.reader(topic, source.partition, start)
        try:
            position = start
            while position <= last:
                batch = await reader.poll()
                if batch.position > position:  # else the partition may have no leader
                    progressed()
                position = batch.position
                for record in batch.records:
                    if (found := assembly.add_kept(record)) is not None:
                        return found
        finally:
            await reader.close()
    raise assembly.lacks()


async def first_created_ms(broker: Broker, source: Source, span: tuple[int, int]) -> int | None:
    """The timestamp of the first record of ``[from, to)``: when it was appended where the topic is LogAppendTime, else
    when its producer made it, by its own clock. None where there is no record."""
    position, end = span
    reader = await broker.reader(source.topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            position = batch.position
            if batch.records:
                return batch.records[0].timestamp_ms
    finally:
        await reader.close()
    return None


async def last_created_ms(broker: Broker, source: Source, span: tuple[int, int]) -> int | None:
    """The newest timestamp, as of ``first_created_ms``, at the end of ``[from, to)``; None where only markers are."""
    position, end = max(span[0], span[1] - RUN_GAP_MAX), span[1]
    found: list[int] = []
    reader = await broker.reader(source.topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            found += [record.timestamp_ms for record in batch.records]
            position = batch.position
    finally:
        await reader.close()
    return max(found, default=None)


async def check_log(broker: Broker, source: Source, start: int, committed: int) -> None:
    """Raise ``PartitionError`` unless the log still holds ``[start, committed)``."""
    begin = await broker.begin_offset(source.topic, source.partition)
    end = await broker.end_offset(source.topic, source.partition)
    if not begin <= start <= committed <= end:
        raise PartitionError(
            "log_cut" if begin > start else "log_short",
            f"{source}: the log holds [{begin}, {end}), but the snapshot needs it from {start}, and {committed} was "
            "committed: retention deleted records too early, or the topic was recreated under the same name",
        )


async def demand_same_topic(broker: Broker, source: Source, known: str | None) -> str | None:
    """The id of the source topic, or what is ``known`` of it where the brokers do not say. Raises ``PartitionError``
    where both are there and differ."""
    found = await broker.topic_id(source.topic)
    if None not in (found, known) and found != known:
        raise PartitionError(
            "log_recreated",
            f"{source}: the topic was recreated under the same name: its id is {found}, that of the snapshot {known}",
        )
    return found or known


async def demand_log_from(broker: Broker, source: Source, start: int) -> None:
    """Raise ``PartitionError`` where the log begins after ``start``. Looked at after reading from there, it shows that
    retention deleted nothing that was still to be read."""
    begin = await broker.begin_offset(source.topic, source.partition)
    if begin > start:
        raise PartitionError(
            "log_cut",
            f"{source}: the log begins at {begin}, but is needed from {start}: retention deleted records too early",
        )


async def only_markers(broker: Broker, source: Source, position: int, end: int) -> bool:
    """Whether ``[position, end)`` holds only markers and aborted records. Raises ``PartitionError`` where the log
    begins later: what retention deleted unread is missing too."""
    if position >= end:
        return True
    begun = position
    reader = await broker.reader(source.topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            if batch.records and batch.records[0].offset < end:
                await demand_log_from(broker, source, begun)
                return False
            position = batch.position
    finally:
        await reader.close()
    await demand_log_from(broker, source, begun)
    return True


async def demand_only_markers(broker: Broker, source: Source, position: int, records: Sequence[Record]) -> None:
    """Raise unless whoever reads the log from ``position`` finds the same records: then what is missing before and
    among them are the markers of somebody's transactions. ``PartitionError`` where the log itself lacks them,
    ``ContractError`` where only the reader left some out and a restart reads them."""
    first, last = records[0].offset, records[-1].offset
    got = f"{source}: expected offset {position}, got {len(records)} records from {first} to {last}"
    found = await offsets_of(broker, source, position, last + 1)
    if found is None:
        raise PartitionError("log_cut", f"{got}: retention deleted those between before they were read")
    if found == [record.offset for record in records]:
        return
    if first < position and await broker.end_offset(source.topic, source.partition) < position:
        raise PartitionError("log_short", f"{got}: the log was truncated, or the topic recreated under the same name")
    raise ContractError(got)


async def offsets_of(broker: Broker, source: Source, position: int, end: int) -> list[int] | None:
    """Offsets of the records in ``[position, end)``; None where the log begins later. It is looked at afterwards: what
    retention deletes while it is read is missing too."""
    begun, found = position, list[int]()
    reader = await broker.reader(source.topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            found += [record.offset for record in batch.records if record.offset < end]
            position = batch.position
    finally:
        await reader.close()
    return found if await broker.begin_offset(source.topic, source.partition) <= begun else None
