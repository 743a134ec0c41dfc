"""Takes an engine out of the router when its GPU is lost, and back in when it is found (docs/how-to/alerts.md).

KAFKA=127.0.0.1:9092 ROUTER=http://router:8080 python examples/drain_engine.py
"""

import asyncio
import json
import os

import httpx
from aiokafka import AIOKafkaConsumer

LOST = {"gpu_lost", "gpu_unresponsive"}


async def main() -> None:
    settings = {"bootstrap_servers": os.environ["KAFKA"], "group_id": os.environ.get("GROUP", "drain-engine")}
    offsets = {"isolation_level": "read_committed", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(os.environ.get("TOPIC", "alerts"), **settings, **offsets)
    async with consumer, httpx.AsyncClient(base_url=os.environ["ROUTER"]) as router:
        async for record in consumer:
            alert = json.loads(record.value or b"{}")
            engine = alert.get("labels", {}).get("engine_id")
            if engine and alert["rule"] in LOST:
                action = "undrain" if alert["transition"] == "resolved" else "drain"
                key = {"Idempotency-Key": alert["transition_id"]}
                (await router.post(f"/engines/{engine}/{action}", headers=key)).raise_for_status()
            await consumer.commit()  # after it was done: at least once


asyncio.run(main())
