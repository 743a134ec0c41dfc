"""Look at Kafka: addresses, brokers, topics and their settings, groups, open transactions, the broker's clock.

Reads only; an id for a transactional producer is requested and not used. With ``probe`` a topic with a random name is
made, written to once and removed, to read the broker's clock where nothing else arrives.

No look outlasts ``within_s``: what has no answer by then is left None, and the rest is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from fleetpulse.doctor.facts import AGED_MS, GroupFacts, KafkaFacts, TopicFacts
from fleetpulse.doctor.facts import TopicPartition as FactsPartition
from runtime.access_lists import read_access_lists
from runtime.clock import Clock
from runtime.config import KafkaConfig
from runtime.consumer_groups import members_of, once_there
from runtime.contract_record import read_contract
from runtime.kafka_clients import has_no_cause, make_admin, make_consumer, make_producer, started, why_rejected
from runtime.topic_prefix import on_wire, topics_known
from schemas.contract.rights import writers_of_both
from schemas.contract.topics import CONTRACT, Topic
from schemas.errors import ConfigError, FleetpulseError

T = TypeVar("T")
_CONNECT_WITHIN_S = 3.0
_LISTEN_MS = 1_500
"""How long something is waited for that arrives now: agents send every second."""
_AGAIN_S = 3.0
"""Between two looks at open transactions: jobs commit every second or two."""
GROUP_WITHIN_S = 5.0
"""So long the coordinator of a group has to answer about it."""
_WORLD = (KafkaError, OSError, TimeoutError, FleetpulseError)


@dataclass(slots=True)
class _Look:
    """One look and when it has to be over."""

    kafka: KafkaConfig
    clock: Clock
    end_s: float

    @property
    def left_s(self) -> float:
        return max(0.05, self.end_s - self.clock.monotonic_s())

    async def at(self, asking: Awaitable[T]) -> T | None:
        """The answer; None when there is none in time or an error instead."""
        with contextlib.suppress(*_WORLD):
            return await asyncio.wait_for(asking, self.left_s)
        return None


async def look_at_kafka(
    kafka: KafkaConfig,
    topics: Sequence[Topic],
    groups: Sequence[str],
    clock: Clock,
    *,
    within_s: float,
    probe: bool = False,
) -> KafkaFacts:
    """Facts about the cluster, its topics of ``topics`` and its groups of ``groups``. Never raises for the world's
    errors."""
    bounded = kafka.model_copy(update={"request_timeout_ms": max(1_000, int(within_s * 500))})
    look = _Look(bounded, clock, clock.monotonic_s() + within_s)
    facts = KafkaFacts(kafka.bootstrap, await _addresses(kafka.bootstrap), topic_prefix=kafka.topic_prefix)
    if all(error is not None for error in facts.addresses.values()):
        return facts
    async with contextlib.AsyncExitStack() as running:
        try:
            admin = await running.enter_async_context(started(make_admin(bounded)))
        except ConfigError as error:
            return replace(facts, error=str(error))
        except _WORLD as error:
            return await _rejected(look, facts, error)
        facts = await _cluster(admin, look, facts, topics)
        facts = await _logs(look, facts, topics)
        return await _others(admin, look, facts, groups, probe=probe)


async def _rejected(look: _Look, facts: KafkaFacts, error: Exception) -> KafkaFacts:
    why = await look.at(why_rejected(look.kafka)) if has_no_cause(error) else None
    if why is None:
        detail = f"accepts connections and does not speak {look.kafka.security_protocol} as configured: {error!r}"
        return replace(facts, error=detail)
    return replace(facts, error=str(why), key=getattr(why, "key", None))


async def _addresses(bootstrap: str) -> dict[str, str | None]:
    addresses = [address.strip() for address in bootstrap.split(",")]
    return dict(zip(addresses, await asyncio.gather(*map(_connects, addresses)), strict=True))


async def _connects(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        connecting = asyncio.open_connection(host.strip("[]"), int(port))
        _reader, writer = await asyncio.wait_for(connecting, _CONNECT_WITHIN_S)
    except TimeoutError:
        return f"no answer in {_CONNECT_WITHIN_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None


async def _cluster(admin: Any, look: _Look, facts: KafkaFacts, topics: Sequence[Topic]) -> KafkaFacts:
    cluster = await look.at(admin.describe_cluster())
    if cluster is None:
        return replace(facts, error="the cluster does not describe itself: it hangs, or this login may not ask")
    brokers = [broker["node_id"] for broker in cluster["brokers"]]
    names, broker = [topic.name for topic in topics], str(min(brokers))
    there, hidden = await look.at(_topics(admin, names)) or (None, frozenset())
    return replace(
        facts,
        brokers=len(brokers),
        topics=there,
        hidden=hidden,
        broker_settings=(await look.at(_settings(admin, ConfigResourceType.BROKER, [broker])) or {}).get(broker, {}),
    )


async def _topics(admin: Any, names: Sequence[str]) -> tuple[dict[str, TopicFacts], frozenset[str]]:
    """Topics that are there, and names of those that this login may not ask about."""
    described = await admin.describe_topics(list(names)) if names else []
    there = [topic for topic in described if topic["error_code"] == 0]
    hidden = {topic["topic"] for topic in described if topic["error_code"] == TopicAuthorizationFailedError.errno}
    settings = await _settings(admin, ConfigResourceType.TOPIC, [topic["topic"] for topic in there])
    found = {topic["topic"]: _topic(topic["partitions"], settings.get(topic["topic"], {})) for topic in there}
    return found, frozenset(hidden)


def _topic(partitions: Sequence[Mapping[str, Any]], settings: Mapping[str, str]) -> TopicFacts:
    return TopicFacts(
        partitions=len(partitions),
        replicas=min(len(one["replicas"]) for one in partitions),
        without_leader=tuple(sorted(one["partition"] for one in partitions if one["leader"] < 0)),
        under_replicated=tuple(
            sorted(one["partition"] for one in partitions if len(one["isr"]) < len(one["replicas"]))
        ),
        settings=settings,
    )


async def _settings(admin: Any, kind: ConfigResourceType, names: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(kind, name) for name in names]
    answers = await admin.describe_configs(resources) if resources else ()
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for answer in answers
        for code, _message, _kind, name, entries in answer.resources
        if code == 0
    }


async def _logs(look: _Look, facts: KafkaFacts, topics: Sequence[Topic]) -> KafkaFacts:
    """Where logs begin and end, what holds readers up, and the clock behind what arrives."""
    partitions = led(facts.topics or {})
    stamped = {topic.name for topic in topics if topic.log_append_time}
    unread = CONTRACT.name in (facts.topics or {}) and not any(one.topic == CONTRACT.name for one in partitions)
    contract = None if unread else await look.at(read_contract(look.kafka))
    async with _consumer(look, "read_uncommitted") as every, _consumer(look, "read_committed") as committed:
        if every is None or committed is None:
            return facts
        for consumer in (every, committed):
            await look.at(learn_leaders(consumer, partitions))
        begins = await look.at(every.beginning_offsets(partitions))
        stable = await look.at(committed.end_offsets(partitions))
        skew_ms = await look.at(_clock(every, look, [one for one in partitions if one.topic in stamped]))
        await look.at(learn_leaders(every, partitions))  # the clock's assignment made it forget the others
        ends = await look.at(every.end_offsets(partitions))
        aged = await look.at(aged_offsets(every, plain(ends), look.clock.now_ms() + (skew_ms or 0) - AGED_MS))
        held_up = await look.at(_held_up(committed, every, stable or {}))
    return replace(
        facts,
        log_ids=None if contract is None else frozenset(contract.log_ids),
        deployment=None if contract is None else contract.deployment,
        foreign=contract is not None and contract.deployment not in (None, look.kafka.deployment),
        begins=plain(begins),
        ends=plain(ends),
        aged=aged or {},
        held_up=held_up,
        skew_ms=skew_ms,
    )


def led(topics: Mapping[str, TopicFacts]) -> list[TopicPartition]:
    """Partitions that have a leader: what is asked about another waits for one until the look is over."""
    return [
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number in range(topic.partitions)
        if number not in topic.without_leader
    ]


async def learn_leaders(consumer: Any, partitions: Sequence[TopicPartition]) -> None:
    """Have the consumer know who leads these partitions. Without it a request for their offsets finds out itself,
    at 0.1 s a topic."""
    await topics_known(consumer).set_topics({on_wire(consumer, one.topic) for one in partitions})


def plain(offsets: Mapping[TopicPartition, int] | None) -> dict[TopicPartition, int]:
    """Offsets by topic and partition."""
    return {(one.topic, one.partition): offset for one, offset in (offsets or {}).items()}


async def aged_offsets(consumer: Any, ends: Mapping[FactsPartition, int], before_ms: int) -> dict[FactsPartition, int]:
    """Offsets of the first records since then, or where there is none the ends of the logs."""
    found = await consumer.offsets_for_times({TopicPartition(*one): before_ms for one in ends})
    return {**ends, **{tuple(one): first.offset for one, first in found.items() if first is not None}}


@contextlib.asynccontextmanager
async def _consumer(look: _Look, isolation: str) -> AsyncIterator[Any]:
    """A consumer without a group; None when it cannot start."""
    consumer = make_consumer(look.kafka, isolation_level=isolation)
    try:
        try:
            await consumer.start()
        except _WORLD:
            yield None
        else:
            yield consumer
    finally:
        await consumer.stop()


async def _held_up(committed: Any, every: Any, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partitions whose stable end stood still behind the real end for some seconds."""
    ends = await every.end_offsets(list(before))
    held = [one for one, stable in before.items() if stable < ends[one]]
    if not held:
        return {}
    await asyncio.sleep(_AGAIN_S)
    again = await committed.end_offsets(held)
    return {(one.topic, one.partition): ends[one] - again[one] for one in held if again[one] == before[one]}


async def _clock(consumer: Any, look: _Look, partitions: Sequence[TopicPartition]) -> int | None:
    """The broker's clock minus ours, by append times of what arrives while we listen; else by records that are in our
    future; None without either."""
    if not partitions:
        return None
    consumer.assign(list(partitions))
    await consumer.seek_to_end(*partitions)
    fetched = await consumer.getmany(timeout_ms=_LISTEN_MS, max_records=1)
    now_ms = look.clock.now_ms()
    stamps = [record.timestamp for records in fetched.values() for record in records]
    if not stamps:
        later = await consumer.offsets_for_times(dict.fromkeys(partitions, now_ms))
        stamps = [found.timestamp for found in later.values() if found is not None]
    return max(stamps) - now_ms if stamps else None


async def _others(admin: Any, look: _Look, facts: KafkaFacts, groups: Sequence[str], *, probe: bool) -> KafkaFacts:
    skew_ms = facts.skew_ms
    if probe and skew_ms is None:
        skew_ms = await look.at(_probe(admin, look))
    facts = await _logins(admin, look, facts)
    facts = await _later_ends(look, replace(facts, groups=await look.at(look_at_groups(admin, groups))))
    error, denied = await _transactional(look)
    return replace(facts, transaction_error=error, transaction_denied=denied, skew_ms=skew_ms)


async def _later_ends(look: _Look, facts: KafkaFacts) -> KafkaFacts:
    """The facts with ends that are no older than what was committed meanwhile, where jobs read on."""
    groups = [group for group in (facts.groups or {}).values() if group is not None]
    committed = [each for group in groups for each in group.committed.items()]
    moved = {
        TopicPartition(*partition) for partition, offset in committed if offset > facts.ends.get(partition, offset)
    }
    if not moved:
        return facts
    async with _consumer(look, "read_uncommitted") as every:
        if every is None:
            return facts
        await look.at(learn_leaders(every, [*moved]))
        return replace(facts, ends={**facts.ends, **plain(await look.at(every.end_offsets([*moved])))})


async def _logins(admin: Any, look: _Look, facts: KafkaFacts) -> KafkaFacts:
    try:
        held = await asyncio.wait_for(read_access_lists(admin, look.kafka), look.left_s)
    except _WORLD:
        return facts
    if held is None:
        return replace(facts, access_lists=False)
    return replace(facts, access_lists=True, shared_logins=writers_of_both(held, look.kafka.topic_prefix))


async def look_at_groups(
    admin: Any, names: Sequence[str], within_s: float = GROUP_WITHIN_S
) -> dict[str, GroupFacts | None]:
    """Members and offsets of each group; None for one that this login may not ask about. One whose coordinator says
    nothing within ``within_s`` is not answered; it holds up no other."""
    return dict(zip(names, await asyncio.gather(*(_group(admin, name, within_s) for name in names)), strict=True))


async def _group(admin: Any, name: str, within_s: float) -> GroupFacts | None:
    async def ask() -> GroupFacts:
        offsets = await committed(admin, name)
        return GroupFacts(await members_of(admin, name), offsets)

    try:
        async with asyncio.timeout(within_s):
            return await once_there(ask)
    except TimeoutError:
        return GroupFacts(0, {}, answered=False)
    except GroupAuthorizationFailedError:
        return None


async def committed(admin: Any, group: str) -> dict[TopicPartition, int]:
    """What a group has committed; empty where it never ran."""
    offsets = await admin.list_consumer_group_offsets(group)
    return plain({one: found.offset for one, found in offsets.items() if found.offset >= 0})


async def _transactional(look: _Look) -> tuple[str | None, bool]:
    """Why a transactional producer gets no id, None when it does; and whether this login may not have one."""
    own = f"{look.kafka.namespace}-doctor-{secrets.token_hex(4)}"
    producer = make_producer(look.kafka, transactional_id=own)
    try:
        await asyncio.wait_for(producer.start(), look.left_s)
    except TimeoutError:
        return "no answer in time", False
    except (KafkaError, OSError) as error:
        return repr(error), isinstance(error, TransactionalIdAuthorizationFailed)
    finally:
        await producer.stop()
    return None, False


async def _probe(admin: Any, look: _Look) -> int:
    """The broker's clock minus ours, by the append time of one record in a topic made for it."""
    name = f"fleetpulse-doctor-{secrets.token_hex(6)}"
    settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "60000"}
    await admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings)])
    try:
        async with started(make_producer(look.kafka)) as producer:
            await producer.send_and_wait(name, b"")  # the first one waits for metadata
            before_ms = look.clock.now_ms()
            sent = await producer.send_and_wait(name, b"")
            return int(sent.timestamp - (before_ms + look.clock.now_ms()) // 2)
    finally:
        await admin.delete_topics([name])
