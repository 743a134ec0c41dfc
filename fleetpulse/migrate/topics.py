"""Topics as they are, and the steps that change them. Safe to repeat, also after a kill.

A row of a derived table is known by where it stood in the log. A topic that is deleted and made again begins at offset
0 again; its log id, a random name in the compacted topic ``contract``, keeps its rows apart from the old ones. The id
is written *before* the topic is made (``contract`` comes first): the other way round, after a kill the topic would have
the id of its predecessor, and its rows would replace the old ones. An id without its topic is harmless: the next run
writes another.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from fleetpulse.migrate.plan import GrowTopic, MakeTopic, NameDeployment, Plan, SetTopic, Step
from fleetpulse.migrate.topic_plan import REPLICAS, LiveTopic, plan_topics, refusals, topic_settings
from runtime.config import KafkaConfig
from runtime.consumer_groups import members_of, once_there
from runtime.contract_record import ContractRecord, demand_own, foreign, read_contract
from runtime.kafka_clients import make_consumer, make_producer, no_right, open_admin, settings_unreadable, started
from runtime.topic_prefix import on_wire, topics_known
from schemas.contract.topics import BY_NAME, CONTRACT, DEPLOYMENT_KEY, TOPICS, Growth, Topic
from schemas.errors import ContractError, UnavailableError
from schemas.limits import Limits

VISIBLE_WITHIN_S = 20
GROUPS_WITHIN_S = 20.0
JOBS = ("windows", "finals", "costs", "alerts")
"""Groups, by the end of their names, that must have no members while open windows must not be split."""
_WINDOWS = "-windows"
_TOPIC_ITSELF = 1
"""Source of a setting that was set on the topic."""
_MADE_MEANWHILE = 36


async def plan(kafka: KafkaConfig, partitions: Mapping[str, int], limits: Limits) -> Plan:
    """What the topics need. Raises ``ContractError`` with all that is refused and the procedure to follow,
    ``ConfigError`` for a login that is rejected, ``UnavailableError`` where no broker answers."""
    async with open_admin(kafka) as admin:
        live = await live_topics(kafka, admin, TOPICS)
        await _demand_missing(kafka, admin, [topic.name for topic in TOPICS if topic.name not in live])
        contract = await read_contract(kafka) or ContractRecord()
        demand_own(kafka, contract)
        found = plan_topics(TOPICS, live, partitions, limits, contract.log_ids)
        if contract.deployment is None:
            if live:
                await _demand_nobodys(kafka, admin)
            found += Plan((NameDeployment(kafka.deployment),))
        growing = [BY_NAME[step.subject] for step in found.steps if isinstance(step, GrowTopic)]
        careful = [topic.name for topic in growing if topic.growth is not Growth.ANY_TIME]
        filled = await _filled(kafka, careful) if careful else ()
        busy = await _busy(kafka, admin) if filled else {}
        brokers = await _brokers(admin)
    if refused := refusals(TOPICS, live, found, busy, filled, brokers):
        raise ContractError("\n".join(refused))
    return found


async def carry_out(kafka: KafkaConfig, steps: Sequence[Step], limits: Limits) -> None:
    """Do those of the steps that are about topics."""
    async with open_admin(kafka) as admin:
        await _make(kafka, admin, [step for step in steps if isinstance(step, MakeTopic)], limits)
        for step in steps:
            if isinstance(step, SetTopic):
                await _set(kafka, admin, step)
        for step in steps:
            if isinstance(step, GrowTopic):
                await _grow(kafka, admin, step)
            if isinstance(step, NameDeployment):
                await _write(kafka, {DEPLOYMENT_KEY: step.subject})
                with contextlib.suppress(KafkaError, TimeoutError):  # else a job asks first, and logs an error
                    async with asyncio.timeout(GROUPS_WITHIN_S):
                        await once_there(partial(members_of, admin, f"{kafka.namespace}{_WINDOWS}"))


async def _demand_nobodys(kafka: KafkaConfig, admin: Any) -> None:
    """Raise ``ConfigError`` where topics that name no deployment, as 0.1.0 left them, are read by another's jobs."""
    groups = sorted(group[0] for group in await admin.list_consumer_groups())
    others = [name.removesuffix(_WINDOWS) for name in groups if name.endswith(_WINDOWS)]
    if kafka.namespace in others:
        return
    for other in others:
        offsets = await admin.list_consumer_group_offsets(f"{other}{_WINDOWS}")
        if any(one.topic in BY_NAME for one in offsets):
            raise foreign(kafka, f"must be {other.removeprefix(kafka.topic_prefix)}, whose jobs read these topics")


async def live_topics(kafka: KafkaConfig, admin: Any, topics: Sequence[Topic]) -> dict[str, LiveTopic]:
    """Those of the topics that are there, by name."""
    existing = set(await admin.list_topics())
    names = [topic.name for topic in topics if topic.name in existing]
    if not names:
        return {}
    partitions = {found["topic"]: found["partitions"] for found in await admin.describe_topics(names)}
    settings = await _settings(kafka, admin, names)
    copies = {name: max((len(one["replicas"]) for one in partitions[name]), default=0) for name in names}
    return {name: LiveTopic(len(partitions[name]), *settings[name], copies[name]) for name in names}


async def _demand_missing(kafka: KafkaConfig, admin: Any, names: Sequence[str]) -> None:
    """Raise ``ConfigError`` for a topic that this login may not see: a list of all topics leaves it out, and to make it
    would part the log that it has from its rows, by another log id."""
    missing = {on_wire(admin, name): name for name in names}
    request = MetadataRequest(list(missing), allow_auto_topic_creation=False)
    for code, name, *_ in (await admin._send_request(request)).topics if missing else ():
        if code == TopicAuthorizationFailedError.errno:
            raise no_right(kafka, f"topic {missing[name]} cannot be described")


async def _settings(
    kafka: KafkaConfig, admin: Any, names: Sequence[str]
) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    found = {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    for response in await admin.describe_configs(resources):
        for code, message, _kind, name, entries in response.resources:
            if code:
                raise settings_unreadable(name, message)
            every = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            own = {entry[0]: entry[1] for entry in entries if entry[3] == _TOPIC_ITSELF}
            found[name] = (every, own)
    return found


async def _filled(kafka: KafkaConfig, names: Sequence[str]) -> set[str]:
    """Those of the topics that hold or held a record."""
    async with started(make_consumer(kafka, isolation_level="read_uncommitted")) as consumer:
        every = {on_wire(consumer, name) for name in names}
        await topics_known(consumer).set_topics(every)  # else it learns of one topic after the other
        partitions = [
            TopicPartition(name, number) for name in names for number in consumer.partitions_for_topic(name) or ()
        ]
        return {one.topic for one, end in (await consumer.end_offsets(partitions)).items() if end > 0}


async def _busy(kafka: KafkaConfig, admin: Any) -> dict[str, str]:
    """Groups of jobs that have members, with how many."""
    try:
        async with asyncio.timeout(GROUPS_WITHIN_S):
            groups = [f"{kafka.namespace}-{job}" for job in JOBS]
            found = {group: await once_there(partial(members_of, admin, group)) for group in groups}
    except GroupAuthorizationFailedError as error:
        raise no_right(kafka, f"group {error.args[0]} cannot be described") from error
    except TimeoutError as error:
        raise UnavailableError(f"Kafka did not describe its consumer groups within {GROUPS_WITHIN_S:g} s") from error
    return {group: f"{members} members" if members > 1 else "1 member" for group, members in found.items() if members}


async def _brokers(admin: Any) -> int:
    return len((await admin.describe_cluster())["brokers"])


async def _make(kafka: KafkaConfig, admin: Any, steps: Sequence[MakeTopic], limits: Limits) -> None:
    """The contract topic first, then every id, then the topics."""
    missing = [step.topic for step in steps if not step.known]
    if CONTRACT.name in {topic.name for topic in missing}:
        await create(kafka, admin, (CONTRACT,), limits)
        await visible(admin, CONTRACT.name)
    if steps:
        await give_log_ids(kafka, await _without_id(kafka, admin, [step.topic.name for step in steps]))
    others = [topic for topic in missing if topic.name != CONTRACT.name]
    if others:
        await create(kafka, admin, others, limits)


async def _without_id(kafka: KafkaConfig, admin: Any, names: Sequence[str]) -> list[str]:
    """Those of the topics that are missing or have no log id, looked at just before one is written: another migration
    may have made them since the plan, and a second id would part the rows of a log."""
    contract, existing = await read_contract(kafka) or ContractRecord(), set(await admin.list_topics())
    return [name for name in names if name not in existing or name not in contract.log_ids]


async def give_log_ids(kafka: KafkaConfig, topics: Iterable[str]) -> dict[str, str]:
    """Write a fresh log id for each of these topics and return them."""
    ids = {topic: secrets.token_hex(8) for topic in topics}
    await _write(kafka, ids)
    return ids


async def _write(kafka: KafkaConfig, records: Mapping[str, str]) -> None:
    async with started(make_producer(kafka)) as producer:
        for key, value in records.items():
            await producer.send_and_wait(CONTRACT.name, value.encode(), key=key.encode(), partition=0)


async def visible(admin: Any, name: str) -> None:
    """Wait until the topic has a leader, so that clients find it without complaints."""
    for _ in range(VISIBLE_WITHIN_S * 10):
        (found,) = await admin.describe_topics([name])
        if found["error_code"] == 0 and all(
            one["leader"] >= 0 and one["error_code"] == 0 for one in found["partitions"]
        ):
            return
        await asyncio.sleep(0.1)
    raise UnavailableError(f"topic {name} was made but has no leader after {VISIBLE_WITHIN_S} s")


async def create(kafka: KafkaConfig, admin: Any, topics: Iterable[Topic], limits: Limits) -> None:
    """Make these topics; one that somebody else made meanwhile is no error."""
    replicas = min(REPLICAS, await _brokers(admin))
    new = [NewTopic(t.name, t.partitions, replicas, topic_configs=topic_settings(t, replicas, limits)) for t in topics]
    response = await admin.create_topics(new)
    for name, code, *rest in response.topic_errors:
        if code == TopicAuthorizationFailedError.errno:
            raise no_right(kafka, f"topic {name} cannot be created")
        if code not in (0, _MADE_MEANWHILE):
            raise ContractError(f"topic {name} cannot be created: error {code} {rest}")


async def _set(kafka: KafkaConfig, admin: Any, step: SetTopic) -> None:
    """Kafka replaces all settings of a topic by those it is given, so it is given all."""
    (response,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, step.subject, dict(step.every))])
    for code, message, _kind, name in response.resources:
        if code == TopicAuthorizationFailedError.errno:
            raise no_right(kafka, f"settings of topic {name} cannot be altered")
        if code:
            raise ContractError(f"settings of topic {name} cannot be altered: {for_code(code).__name__} {message}")


async def _grow(kafka: KafkaConfig, admin: Any, step: GrowTopic) -> None:
    try:
        await admin.create_partitions({step.subject: NewPartitions(step.wanted)})
    except TopicAuthorizationFailedError:
        raise no_right(kafka, f"topic {step.subject} cannot get partitions") from None
