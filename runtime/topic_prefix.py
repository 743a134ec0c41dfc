"""Clients of Kafka whose topics begin with ``kafka.topic_prefix``, so that several deployments share one cluster.

Everywhere in fleetpulse a topic has its name of the contract. These clients add the prefix to what they ask the brokers
and take it off what they answer; topics without it do not exist for them. Without a prefix the clients of aiokafka are
used as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

V = TypeVar("V")


def topics_known(client: Any) -> Any:
    """The metadata of a client, for requests that aiokafka has no method for; names in it are ``on_wire``."""
    return client._client


def on_wire(client: Any, topic: str) -> str:
    """The topic's name as the brokers of this client have it."""
    return f"{getattr(client, 'topic_prefix', '')}{topic}"


class _Names:
    """Names of the contract to those of the brokers, and back."""

    topic_prefix: str

    def _out(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.topic_prefix + partition[0], partition[1])

    def _in(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._name(partition[0]), partition[1])

    def _name(self, topic: str) -> str:
        return topic.removeprefix(self.topic_prefix)

    def _ours(self, topics: Iterable[str]) -> set[str]:
        return {self._name(topic) for topic in topics if topic.startswith(self.topic_prefix)}

    def _keys_out(self, found: Mapping[TopicPartition, V]) -> dict[TopicPartition, V]:
        return {self._out(one): value for one, value in found.items()}

    def _keys_in(self, found: Mapping[TopicPartition, V]) -> dict[TopicPartition, V]:
        return {self._in(one): value for one, value in found.items()}


class _Listener(ConsumerRebalanceListener):
    def __init__(self, names: _Names, listener: Any) -> None:
        self._names = names
        self._listener = listener

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._listener.on_partitions_revoked([self._names._in(one) for one in revoked])

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._listener.on_partitions_assigned([self._names._in(one) for one in assigned])


class PrefixedConsumer(_Names, AIOKafkaConsumer):
    """What fleetpulse uses of a consumer."""

    def __init__(self, prefix: str, *topics: str, **settings: Any) -> None:
        self.topic_prefix = prefix
        super().__init__(*(prefix + topic for topic in topics), **settings)

    async def topics(self) -> set[str]:
        return self._ours(await super().topics())

    def partitions_for_topic(self, topic: str) -> Any:
        return super().partitions_for_topic(self.topic_prefix + topic)

    def subscribe(self, topics: Iterable[str] = (), pattern: None = None, listener: Any = None) -> None:
        wrapped = None if listener is None else _Listener(self, listener)
        super().subscribe([self.topic_prefix + topic for topic in topics], listener=wrapped)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        super().assign([self._out(one) for one in partitions])

    def assignment(self) -> set[TopicPartition]:
        return {self._in(one) for one in super().assignment()}

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        await super().commit(None if offsets is None else self._keys_out(offsets))

    async def committed(self, partition: TopicPartition) -> Any:
        return await super().committed(self._out(partition))

    async def position(self, partition: TopicPartition) -> Any:
        return await super().position(self._out(partition))

    def highwater(self, partition: TopicPartition) -> Any:
        return super().highwater(self._out(partition))

    def last_stable_offset(self, partition: TopicPartition) -> Any:
        return super().last_stable_offset(self._out(partition))

    def last_poll_timestamp(self, partition: TopicPartition) -> Any:
        return super().last_poll_timestamp(self._out(partition))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        super().seek(self._out(partition), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> Any:
        return await super().seek_to_beginning(*map(self._out, partitions))

    async def seek_to_end(self, *partitions: TopicPartition) -> Any:
        return await super().seek_to_end(*map(self._out, partitions))

    async def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> Any:
        return self._keys_in(await super().offsets_for_times(self._keys_out(timestamps)))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> Any:
        return self._keys_in(await super().beginning_offsets([self._out(one) for one in partitions]))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> Any:
        return self._keys_in(await super().end_offsets([self._out(one) for one in partitions]))

    async def getmany(self, *partitions: TopicPartition, **limits: Any) -> Any:
        found = await super().getmany(*map(self._out, partitions), **limits)
        return {
            self._in(one): [replace(record, topic=self._name(one.topic)) for record in records]
            for one, records in found.items()
        }


class PrefixedProducer(_Names, AIOKafkaProducer):
    """What fleetpulse uses of a producer. ``send_and_wait`` goes by ``send``."""

    def __init__(self, prefix: str, **settings: Any) -> None:
        self.topic_prefix = prefix
        super().__init__(**settings)

    async def partitions_for(self, topic: str) -> Any:
        return await super().partitions_for(self.topic_prefix + topic)

    async def send(self, topic: str, *record: Any, **named: Any) -> Any:
        return await super().send(self.topic_prefix + topic, *record, **named)

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        return await super().send_batch(batch, self.topic_prefix + topic, partition=partition)

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        await super().send_offsets_to_transaction(self._keys_out(offsets), group_id)


class PrefixedAdmin(_Names, AIOKafkaAdminClient):
    """What fleetpulse uses of an admin client."""

    def __init__(self, prefix: str, **settings: Any) -> None:
        self.topic_prefix = prefix
        super().__init__(**settings)

    async def list_topics(self) -> list[str]:
        return sorted(self._ours(await super().list_topics()))

    async def describe_topics(self, topics: Sequence[str] | None = None) -> list[Any]:
        asked = None if topics is None else [self.topic_prefix + topic for topic in topics]
        return [{**one, "topic": self._name(one["topic"])} for one in await super().describe_topics(asked)]

    async def describe_configs(self, config_resources: Sequence[ConfigResource], **settings: Any) -> Any:
        answers = await super().describe_configs(self._resources(config_resources), **settings)
        return [self._without_prefix(answer) for answer in answers]

    async def alter_configs(self, config_resources: Sequence[ConfigResource]) -> Any:
        answers = await super().alter_configs(self._resources(config_resources))
        return [self._without_prefix(answer) for answer in answers]

    def _resources(self, resources: Sequence[ConfigResource]) -> list[ConfigResource]:
        return [
            ConfigResource(one.resource_type, self.topic_prefix + one.name, configs=one.configs)
            if one.resource_type is ConfigResourceType.TOPIC
            else one
            for one in resources
        ]

    def _without_prefix(self, answer: Any) -> Any:
        answer.resources = [
            (code, message, kind, self._name(name) if kind == ConfigResourceType.TOPIC.value else name, *rest)
            for code, message, kind, name, *rest in answer.resources
        ]
        return answer

    async def create_topics(self, new_topics: Sequence[NewTopic], **settings: Any) -> Any:
        for one in new_topics:
            one.name = self.topic_prefix + one.name
        answer = await super().create_topics(new_topics, **settings)
        answer.topic_errors = [(self._name(name), *rest) for name, *rest in answer.topic_errors]
        return answer

    async def delete_topics(self, topics: Sequence[str], **settings: Any) -> Any:
        return await super().delete_topics([self.topic_prefix + topic for topic in topics], **settings)

    async def create_partitions(self, topic_partitions: Mapping[str, Any], **settings: Any) -> Any:
        named = {self.topic_prefix + topic: wanted for topic, wanted in topic_partitions.items()}
        return await super().create_partitions(named, **settings)

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, **settings: Any
    ) -> Any:
        asked = None if partitions is None else [self._out(one) for one in partitions]
        found = await super().list_consumer_group_offsets(group_id, partitions=asked, **settings)
        return {self._in(one): at for one, at in found.items() if one.topic.startswith(self.topic_prefix)}
