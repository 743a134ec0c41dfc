"""The log id of every topic: a random name given when the topic is made, kept in the compacted topic ``contract``.

A row of a derived table is known by where it stood in the log. A topic that is deleted and made again begins at
offset 0 again; its new log id keeps its rows apart from the old ones. The id is written before the topic is made.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from runtime.config import KafkaConfig
from runtime.kafka_clients import make_producer, started
from schemas.contract.topics import CONTRACT


async def give_log_ids(kafka: KafkaConfig, topics: Iterable[str]) -> dict[str, str]:
    """Write a fresh log id for each of these topics and return them."""
    ids = {topic: secrets.token_hex(8) for topic in topics}
    async with started(make_producer(kafka)) as producer:
        for topic, log_id in ids.items():
            await producer.send_and_wait(CONTRACT.name, log_id.encode(), key=topic.encode(), partition=0)
    return ids
