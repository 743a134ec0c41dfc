"""Checks of topics before a job starts, so that a mistake is reported at once and not by a time-out of 40 s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError

from runtime.config import KafkaConfig
from runtime.kafka_clients import no_right, open_admin, settings_unreadable
from schemas.contract.topics import BY_NAME, Growth
from schemas.errors import ContractError, TopicMissingError
from stream_jobs.runner.job import Job, Names

_HINT = "run `fleetpulse migrate`"


async def check_topics(kafka: KafkaConfig, job: Job, names: Names, relied_on: Mapping[str, int]) -> int:
    """Partitions of all source topics. Raises ``ContractError`` for the first topic that is missing or not as the job
    needs it.

    Every source topic has LogAppendTime (but those written by jobs) and a compacted state topic; every one of
    ``relied_on`` has at least that many partitions, and no more where it may not grow at any time: there a worker that
    counts otherwise than the others would send elsewhere what belongs together. A state topic with too few is no reason
    to stop: partitions that it lacks are quarantined.
    """
    async with open_admin(kafka) as admin:
        counts = await _partition_counts(kafka, admin, job, names, relied_on)
        _check_counts(counts, job, names, relied_on)
        await _check_settings(admin, job, names)
        return sum(counts[topic] for topic in job.topics)


async def _partition_counts(
    kafka: KafkaConfig, admin: Any, job: Job, names: Names, relied_on: Mapping[str, int]
) -> dict[str, int]:
    topics = [*job.topics, *(names.state_topic(topic) for topic in job.topics), *relied_on]
    found = await admin.describe_topics(topics)
    for each in found:
        if each["error_code"] == TopicAuthorizationFailedError.errno:
            raise no_right(kafka, f"topic {each['topic']} is not for it")
    return {each["topic"]: len(each["partitions"]) for each in found if each["error_code"] == 0}


def _check_counts(counts: Mapping[str, int], job: Job, names: Names, relied_on: Mapping[str, int]) -> None:
    for topic in job.topics:
        state = names.state_topic(topic)
        for needed in (topic, state):
            if needed not in counts:
                raise TopicMissingError(needed)
    for topic, partitions in relied_on.items():
        if topic not in counts:
            raise TopicMissingError(topic)
        if counts[topic] < partitions:
            raise ContractError(f"topic {topic} has {counts[topic]} partitions, needed are {partitions}; {_HINT}")
        if counts[topic] > partitions and topic in BY_NAME and BY_NAME[topic].growth is not Growth.ANY_TIME:
            raise ContractError(
                f"topic {topic} has {counts[topic]} partitions, the configuration says {partitions}: set"
                f' "{topic}" = {counts[topic]} under [partitions] for every process'
            )


async def _check_settings(admin: Any, job: Job, names: Names) -> None:
    wanted = [
        (topic, "message.timestamp.type", "LogAppendTime") for topic in job.topics if topic not in job.transactional
    ]
    wanted += [(names.state_topic(topic), "cleanup.policy", "compact") for topic in job.topics]
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: None}) for topic, key, _ in wanted]
    for response in await admin.describe_configs(resources):
        for code, message, _kind, topic, entries in response.resources:
            if code:
                raise settings_unreadable(topic, message)
            found = {entry[0]: entry[1] for entry in entries}
            for name, key, value in wanted:
                if name == topic and found.get(key) != value:
                    raise ContractError(f"topic {topic} has {key}={found.get(key)}, but it must be {value}")
