"""What the SDK costs an application, and what taking its datagrams costs the agent.

- ``token_us``: one ``request.token()``; ``chunk_us``: one chunk of an OpenAI-shaped stream through the wrapper;
- ``request_us``: a request without chunks, its datagram handed to a socket that another process empties;
- ``datagrams_per_cpu_s``: the agent's receiver from its socket into a spool on disk, by tokens per request.

Processor time of this process everywhere, median of rounds: other load on the machine makes it grow.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER as HEAD
from fleetpulse_track.handover import MAGIC, REQUEST, Finished
from producers.publish.publisher import Publisher
from producers.receiver.fold import Where
from producers.receiver.server import run_receiver
from producers.spool.spool import Spool, SpoolLimits
from runtime.config import KafkaConfig
from runtime.counters import Counters
from runtime.edge_config import ReceiverConfig

Say = Callable[[str], None]

TOKEN_US_MAX, REQUEST_US_MAX, DATAGRAMS_PER_CPU_S_MIN = 1.0, 30.0, 50_000
ROUNDS = 15
TOKENS = (20, 200)
"""Tokens of a request: a short answer, and the mean of the Azure conversation trace."""
_SPOOL_BYTES_MAX = 4 * 1024 * 1024 * 1024
_SAID: dict[str, Any] = {
    "tenant": "acme",
    "slo_class": "chat",
    "api": "chat",
    "engine_id": "engine-1",
    "input_tokens": 812,
    "cached_tokens": 256,
    "finish_reason": "stop",
    "http_status": 200,
    "tokens_from": "engine",
}


def measure(seconds: int, say: Say) -> dict[str, Any]:
    """All numbers, and which bounds they keep; a tenth of ``seconds`` for each size of request."""
    say("what a token costs")
    result: dict[str, Any] = {"token_us": token_us(), "chunk_us": chunk_us()}
    say("what a request costs")
    result |= request_us()
    for tokens in TOKENS:
        say(f"what the agent takes, {tokens} tokens a request")
        taken = ingest(max(1, seconds // 10), tokens)
        result |= {f"{name}_{tokens}_tokens": value for name, value in taken.items()}
    slowest = min(result[f"datagrams_per_cpu_s_{tokens}_tokens"] for tokens in TOKENS)
    result["within"] = {
        "token_us": result["token_us"] <= TOKEN_US_MAX,
        "request_us": result["request_us"] <= REQUEST_US_MAX,
        "datagrams_per_cpu_s": slowest >= DATAGRAMS_PER_CPU_S_MIN,
    }
    return result


def token_us(tokens: int = 4_000) -> float:
    """Processor time of one token."""

    def once() -> float:
        token = track.Request("m").token
        begun_s = time.process_time()
        for _ in range(tokens):
            token()
        return (time.process_time() - begun_s) / tokens

    return _median_us(once)


def chunk_us(chunks: int = 4_000) -> float:
    """Processor time of one chunk of an OpenAI-shaped stream, what reading the stream itself takes left out."""
    delta = SimpleNamespace(content="word", tool_calls=None, refusal=None, function_call=None)
    choice = SimpleNamespace(index=0, delta=delta, finish_reason=None)
    chunk = SimpleNamespace(id="chatcmpl-1", model="m", choices=[choice], usage=None)

    def once() -> float:
        begun_s = time.process_time()
        for _ in iter([chunk] * chunks):
            pass
        bare_s, begun_s = time.process_time() - begun_s, time.process_time()
        for _ in track.watch(iter([chunk] * chunks), track.Request("m", client=_Mute())):
            pass
        return (time.process_time() - begun_s - bare_s) / chunks

    return _median_us(once)


class _Mute(track.Client):
    """Hands nothing over."""

    def hand_over(self, finished: Finished) -> None:
        """Nothing."""


def request_us(requests: int = 2_000) -> dict[str, float]:
    """Processor time of one request without chunks; the share of requests that the socket took at once."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/agent.sock"
        with _reader(path), closing(track.Client(path)) as client:

            def once() -> float:
                begun_s = time.process_time()
                for _ in range(requests):
                    with track.Request("llama-3.3-70b", client=client, **_SAID):
                        pass
                return (time.process_time() - begun_s) / requests

            cost_us = _median_us(once)
            return {"request_us": cost_us, "requests_dropped_share": client.lost / client.finished}


@contextmanager
def _reader(path: str) -> Iterator[None]:
    """Another process that empties the socket and throws away what it reads."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as opened:
        opened.bind(path)
        opened.settimeout(10.0)
        process = multiprocessing.get_context("fork").Process(target=_read_on, args=(opened,), daemon=True)
        process.start()
        try:
            yield
        finally:
            process.terminate()
            process.join()


def _read_on(opened: socket.socket) -> None:
    buffer = bytearray(1 << 17)
    while True:
        opened.recv_into(buffer)


def ingest(seconds: float, tokens: int) -> dict[str, float]:
    """Datagrams that the receiver took, per second of its processor time and of the clock."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_ingest(Path(folder), seconds, tokens))


@dataclass(frozen=True, slots=True)
class _Moment:
    cpu_s: float
    clock_s: float
    taken: float

    @classmethod
    def of(cls, counters: Counters) -> _Moment:
        taken = counters.value("edge_events", topic="llm.requests")
        return cls(time.process_time(), time.perf_counter(), taken)


async def _ingest(folder: Path, seconds: float, tokens: int) -> dict[str, float]:
    path, stop, counters = folder / "agent.sock", asyncio.Event(), Counters()
    spool = Spool.open(folder / "spool", SpoolLimits(bytes_max=_SPOOL_BYTES_MAX))
    publisher = Publisher(spool, KafkaConfig(), host="h", counters=counters)
    receiver = asyncio.create_task(
        run_receiver(publisher, ReceiverConfig(socket=path), stop, Counters(), where=Where("h"))
    )
    await asyncio.sleep(0.1)
    sender = multiprocessing.get_context("spawn").Process(target=send_on, args=(str(path), tokens), daemon=True)
    sender.start()
    try:
        while not counters.value("edge_events", topic="llm.requests"):  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        begun = _Moment.of(counters)
        await asyncio.sleep(seconds)
        ended = _Moment.of(counters)
    finally:
        sender.terminate()
        sender.join()
        stop.set()
        await receiver
        spool.close()
    taken = ended.taken - begun.taken
    return {
        "datagrams_per_cpu_s": taken / (ended.cpu_s - begun.cpu_s),
        "datagrams_per_s": taken / (ended.clock_s - begun.clock_s),
    }


def send_on(path: str, tokens: int) -> None:
    """Send requests of so many tokens, as fast as the socket takes them, until it is gone."""
    finished = _finished(tokens)
    sizes = (MAGIC, REQUEST, finished.flags, finished.json_bytes, finished.times, finished.chunks, 1, 0)
    start_ns, at_ms = time.time_ns(), time.time_ns() // 1_000_000
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as opened:
        opened.connect(path)
        number = 0
        while True:
            head = HEAD.pack(*sizes, start_ns, number, 0, at_ms, finished.begin_ns, finished.end_ns)
            try:
                opened.send(head + finished.body)
            except OSError:
                return
            number += 1


def _finished(tokens: int) -> Finished:
    """A request whose tokens came 10 ms apart, some 0.1 ms more or less."""
    said: dict[str, Any] = {**_SAID, "output_tokens": tokens}
    request = track.Request("llama-3.3-70b", **said)
    for index in range(tokens):
        request._times.append(request.begin_ns + 150_000_000 + 10_000_000 * index + 7_919 * index % 100_000)
    return request._finished(request.begin_ns + 160_000_000 + 10_000_000 * tokens, None)


def _median_us(once: Callable[[], float]) -> float:
    return round(median(once() for _ in range(ROUNDS)) * 1_000_000, 3)
