"""Takes engines out of the router when their GPU is lost, and back in when the alert that says so is over
(docs/how-to/alerts.md). Which are out it reads from the topic at every start; one process is enough.

KAFKA=127.0.0.1:9092 ROUTER=http://router:8080 python examples/drain_engine.py
"""

import asyncio
import json
import os
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer, TopicPartition

LOST = {"gpu_lost", "gpu_unresponsive"}
SAME = "same cause as "
Out = dict[str, set[str]]
"""Engines that are out, by the fingerprint of the alert that took them out."""


def lost(alert: dict[str, Any]) -> set[str]:
    """Engines whose GPUs the alert says are lost: one cause may hit many, so that most are members of it."""
    parts = [alert, *alert["members"]]
    return {one["labels"]["engine_id"] for one in parts if one["rule"] in LOST and one["labels"].get("engine_id")}


def moves(alert: dict[str, Any], out: Out) -> tuple[str, list[str]]:
    """What is to be done with which engines. Those of an alert stay out until it is resolved; one that turned out to be
    part of another leaves them to that one."""
    engines = out.pop(alert["fingerprint"], set()) | lost(alert)
    if alert["transition"] != "resolved":
        out[alert["fingerprint"]] = engines
        return "drain", sorted(engines)
    if SAME in alert["note"]:
        whole = alert["note"].partition(SAME)[2][:16]
        out[whole] = out.get(whole, set()) | engines
        return "drain", sorted(engines)
    return "undrain", sorted(engines.difference(*out.values()))


async def follow(consumer: AIOKafkaConsumer, router: httpx.AsyncClient, topic: str) -> None:
    """Read the topic from its beginning, which says what is out, and act on what the group has not committed."""
    place, out = TopicPartition(topic, 0), Out()  # it has one partition
    consumer.assign([place])
    done = await consumer.committed(place) or 0
    await consumer.seek_to_beginning(place)
    async for record in consumer:
        alert = json.loads(record.value or "null")  # a record without value takes an alert off the topic
        action, engines = moves(alert, out) if alert else ("", [])
        if record.offset < done:
            continue
        for engine in engines:
            key = {"Idempotency-Key": f"{alert['transition_id']}-{engine}"}
            (await router.post(f"/engines/{engine}/{action}", headers=key)).raise_for_status()
        await consumer.commit()  # after it was done: at least once


async def main() -> None:
    settings = {"bootstrap_servers": os.environ["KAFKA"], "group_id": os.environ.get("GROUP", "drain-engine")}
    offsets = {"isolation_level": "read_committed", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(**settings, **offsets)
    async with consumer, httpx.AsyncClient(base_url=os.environ["ROUTER"]) as router:
        await follow(consumer, router, os.environ.get("TOPIC", "alerts"))


if __name__ == "__main__":
    asyncio.run(main())
