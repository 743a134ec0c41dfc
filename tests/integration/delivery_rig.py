"""What the tests of delivery share: alerts to send, and a receiver on loopback that behaves as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_consumer, make_producer, started
from schemas.contract.alerts import Alert, encode
from schemas.contract.topics import ALERTS_TOPIC, DEAD_LETTERS

OPENED_MS = 1_790_000_000_000


def an_alert(test: str, fingerprint: str, number: int = 1, transition: str = "opened", **fields: Any) -> Alert:
    """An alert that only targets with ``match = {test = ...}`` take."""
    whole: dict[str, Any] = {
        "rule": "ttft_high",
        "severity": "critical",
        "summary": "TTFT is 40 % above its baseline",
        "advice": "look at the engine",
        "labels": {"test": test, "host": "h1"},
        "opened_ms": OPENED_MS,
        "since_ms": OPENED_MS - 10_000,
        "at_ms": OPENED_MS + number,
    }
    if transition == "resolved":
        whole["resolved_ms"] = OPENED_MS + number
    return Alert(fingerprint=fingerprint, transition=transition, number=number, **{**whole, **fields})


async def tell(kafka: KafkaConfig, *alerts: Alert, transaction: str | None = None) -> None:
    """Put alerts on the topic, as the alert job does; in one transaction where an id is given."""
    made = make_producer(kafka, transactional_id=transaction)
    async with started(made) as producer, _begun(producer, transaction):
        for alert in alerts:
            await producer.send_and_wait(ALERTS_TOPIC, encode(alert), key=alert.fingerprint.encode())


def _begun(producer: Any, transaction: str | None) -> Any:
    return producer.transaction() if transaction else contextlib.nullcontext()


async def undelivered(kafka: KafkaConfig, fingerprints: set[str]) -> list[bytes]:
    """Records of the topic of undelivered transitions of these alerts."""
    async with started(make_consumer(kafka)) as consumer:
        partition = TopicPartition(DEAD_LETTERS, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        found = []
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [r.value for r in records if r.key.decode() in fingerprints]
        return found


@dataclass(slots=True)
class Request:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes
    at_ms: int

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


Answers = Callable[[Request], tuple[int, dict[str, str]]]


def fine(_: Request) -> tuple[int, dict[str, str]]:
    return 200, {}


@dataclass(slots=True)
class Receiver:
    """An HTTP server for POST alone, behind TLS where ``tls`` is given. ``answers`` decides; what came is in
    ``requests``."""

    answers: Answers = fine
    requests: list[Request] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[Receiver]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def until(self, done: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not done():
                self.came.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.came.wait(), 0.2)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                request = await _request(head, reader)
                status, headers = self.answers(request)
                self.requests.append(request)
                self.came.set()
                told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {status} Told\r\n{told}Content-Length: 0\r\n\r\n".encode())
                await writer.drain()


async def _request(head: bytes, reader: asyncio.StreamReader) -> Request:
    first, *lines = head.decode().rstrip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Request(first.split(" ")[1], headers, body, SystemClock().now_ms())


async def until(done: Callable[[], Awaitable[bool]], within_s: float = 60.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(within_s):
        while True:
            if await done():
                return
            await asyncio.sleep(0.1)
