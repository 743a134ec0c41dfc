"""What a new owner reads before it goes live, and the checks of it."""

from __future__ import annotations

from schemas.errors import ContractError, FencedError
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.ports import Broker
from stream_jobs.runner.snapshot import Assembly, Snapshot


async def refuse_if_known(broker: Broker, names: Names, source: Source) -> None:
    """For a source without committed offset. A snapshot proves that there was one: the group's offsets were lost, and
    starting from the beginning would count everything twice. Raises ``ContractError``."""
    topic = names.state_topic(source.topic)
    end = await broker.end_offset(topic, source.partition)
    position = await broker.begin_offset(topic, source.partition)
    if position >= end:
        return
    reader = await broker.reader(topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            position = batch.position
            if any((record.key or b"").startswith(names.state_prefix) for record in batch.records):
                if await broker.committed(names.group, source.topic, source.partition) is not None:
                    raise FencedError(f"{source}: another owner took over and has committed already")
                raise ContractError(
                    f"{source}: group {names.group} has no committed offset, yet {topic} holds a snapshot: the offset "
                    "was lost (offsets.retention.minutes?), and starting from the beginning would count everything "
                    "twice; restore the offset, or empty outputs and state topic to start from the beginning"
                )
    finally:
        await reader.close()


async def read_snapshot(
    broker: Broker, names: Names, source: Source, offset: int, *, settled: bool
) -> tuple[Snapshot, list[bytes]]:
    """The snapshot whose first piece stands at ``offset`` of the state topic, and its parts. ``settled``: no
    transaction is open there. A live owner's last one may be: committed and not yet visible; then this waits."""
    topic = names.state_topic(source.topic)
    assembly = Assembly(names, offset, str(source))
    end = await broker.end_offset(topic, source.partition)
    reader = await broker.reader(topic, source.partition, offset)
    try:
        position = offset
        while position < end or not settled:
            batch = await reader.poll()
            position = batch.position
            for record in batch.records:
                found = assembly.add(record)
                if found is not None:
                    return found, assembly.parts
            if not batch.records and not settled:
                await broker.pause()
    finally:
        await reader.close()
    raise ContractError(f"{source}: {topic} ends at {end}, before the snapshot at {offset} is whole")


async def check_log(broker: Broker, source: Source, start: int, committed: int) -> None:
    """Raise ``ContractError`` unless the log still holds ``[start, committed)``."""
    begin = await broker.begin_offset(source.topic, source.partition)
    end = await broker.end_offset(source.topic, source.partition)
    if not begin <= start <= committed <= end:
        raise ContractError(
            f"{source}: the log holds [{begin}, {end}), but the snapshot needs it from {start}, and {committed} was "
            "committed: retention deleted records too early, or the topic was recreated under the same name"
        )


async def demand_log_from(broker: Broker, source: Source, start: int) -> None:
    """Raise ``ContractError`` where the log begins after ``start``. Looked at after reading from there, it shows that
    retention deleted nothing that was still to be read."""
    begin = await broker.begin_offset(source.topic, source.partition)
    if begin > start:
        raise ContractError(
            f"{source}: the log begins at {begin}, but is needed from {start}: retention deleted records too early"
        )


async def only_markers(broker: Broker, source: Source, position: int, end: int) -> bool:
    """Whether ``[position, end)`` holds only markers and aborted records."""
    if position >= end:
        return True
    reader = await broker.reader(source.topic, source.partition, position)
    try:
        while position < end:
            batch = await reader.poll()
            if batch.records:
                return False
            position = batch.position
    finally:
        await reader.close()
    return True


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
