"""What a new owner reads before it goes live, and what it refuses to believe."""

from __future__ import annotations

from schemas.errors import ContractError, FencedError
from stream_jobs.host.names import Names
from stream_jobs.host.ports import Broker
from stream_jobs.host.snapshot import Assembly, Snapshot
from stream_jobs.host.source import Source


async def refuse_if_known(broker: Broker, names: Names, source: Source) -> None:
    """For a source without committed offset. A snapshot says that there was one: the group's offsets were lost, and
    to begin anew would count everything twice. Raises ``ContractError``."""
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
                    "was lost (offsets.retention.minutes?), and to begin anew would count everything twice; restore "
                    "the offset, or empty outputs and state topic to begin anew"
                )
    finally:
        await reader.close()


async def read_snapshot(
    broker: Broker, names: Names, source: Source, offset: int, *, settled: bool
) -> tuple[Snapshot, list[bytes]]:
    """The snapshot whose first piece stands at ``offset`` of the state topic, and its parts. ``settled``: nobody has a
    transaction under way there. A live owner's last one may still be: committed, but not yet to be seen; it waits."""
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
            "committed: it was deleted too early (retention), or made anew under the same name"
        )


async def only_markers(broker: Broker, source: Source, position: int, end: int) -> bool:
    """Nothing but markers and aborted records stands in ``[position, end)``; never so where offsets have no holes."""
    if source.gapless:
        return position == end
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
