"""Record what this project measures of a real vLLM: ``python tests/data/vllm_latencies/record.py``, some five minutes.

The engine, the agent and the proxy run as in ``tests/engines``; streams come at random.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from lab.bench.stand import fresh_stand
from schemas.codec import wire
from schemas.codec.build import rows_of
from schemas.contract.headers import decode_headers
from schemas.contract.topics import BY_NAME
from schemas.events.event_types import BY_TOPIC
from tests.engines import rig, vllm_server
from tests.engines.vllm_server import MODEL

HERE = Path(__file__).resolve().parent
LASTS_S = 240
APART_S = 0.4
"""Between streams, on average."""
SETTLES_S = 20
KEPT = {
    "llm.requests": ("at_ms", "status", "model", "start", "input_tokens", "output_tokens", "ttft_us", "tpot_us",
                     "e2e_us", "itl_bins", "request_id", "host", "origin"),
    "engine.samples": ("at_ms", "model", "running", "waiting", "generation_tokens", "host", "engine_id", "origin"),
}  # fmt: skip
WORDS = ["tide", "moon", "salt", "shore", "wave", "harbour", "pilot", "anchor"]


async def one(client: httpx.AsyncClient, draw: random.Random) -> None:
    """A stream to its end: 40 to 120 words, 16 to 48 tokens."""
    content = " ".join(draw.choices(WORDS, k=draw.randint(40, 120)))
    body = {"model": MODEL, "stream": True, "max_tokens": draw.randint(16, 48), "ignore_eos": True}
    body |= {"messages": [{"role": "user", "content": content}]}
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for _ in answer.aiter_raw():
            pass


async def load(url: str, seconds: int, draw: random.Random) -> None:
    """Streams at random moments for so long, and until the last has ended."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            tasks.create_task(one(client, draw))
            await asyncio.sleep(draw.expovariate(1 / APART_S))


async def rows_in(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """All rows of a topic, in the order of their times."""
    event = BY_TOPIC[topic]
    places = [TopicPartition(topic, number) for number in range(BY_NAME[topic].partitions)]
    rows: list[dict[str, Any]] = []
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        for place, end in (await consumer.end_offsets(places)).items():
            while await consumer.position(place) < end:
                for record in (await consumer.getmany(place, timeout_ms=1_000)).get(place, ()):
                    headers = decode_headers(tuple(record.headers))
                    rows += rows_of(event.fields, wire.decode(headers.content_type, record.value, event.fields))
    return sorted(rows, key=lambda row: row["at_ms"])


def recorded(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of both topics, once the load has settled."""
    draw = random.Random(1)
    with contextlib.ExitStack() as running:
        stand = running.enter_context(fresh_stand(folder, lambda _text: None))
        engine = running.enter_context(vllm_server.serving(folder / "vllm.log"))
        running.enter_context(rig.agent(folder, stand, engine))
        port = running.enter_context(rig.proxy(folder, stand, engine))
        asyncio.run(load(f"http://127.0.0.1:{port}", SETTLES_S, draw))
        from_ms = time.time_ns() // 1_000_000
        asyncio.run(load(f"http://127.0.0.1:{port}", LASTS_S, draw))
        to_ms = from_ms + 1_000 * LASTS_S
        time.sleep(5.0)
        rows = {topic: asyncio.run(rows_in(stand.config.kafka.bootstrap, topic)) for topic in KEPT}
    return {topic: [row for row in some if from_ms <= row["at_ms"] < to_ms] for topic, some in rows.items()}


def main() -> None:
    """A line for each row: its topic, and what is kept of it."""
    with tempfile.TemporaryDirectory() as folder:
        rows = recorded(Path(folder))
    with (HERE / f"vllm-{rig.environments.VLLM}_cpu.jsonl").open("wb") as out:
        for topic, kept in KEPT.items():
            for row in rows[topic]:
                line = {"topic": topic} | {name: row[name] for name in kept if row.get(name) is not None}
                out.write(orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
