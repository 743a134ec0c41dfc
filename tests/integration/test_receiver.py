"""The receiver among real processes: many applications, agents that come and go, HTTP over loopback.

Nothing here needs Kafka: what is spooled is judged as the jobs judge it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab.bench import sdk
from producers.publish.publisher import Publisher
from producers.receiver.client_fields import Where
from producers.receiver.http import serve
from producers.receiver.server import run_receiver
from runtime.edge_config import ReceiverConfig
from schemas.codec.build import rows_of
from schemas.contract.admission import admit
from schemas.contract.headers import RecordHeaders
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS
from tests.unit.producers.receiver.spooled import RecordingCounters, publisher, shed

pytestmark = pytest.mark.integration

APPLICATION = """if True:
    import random, sys, time
    import fleetpulse_track as track

    requests, seed = int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    client = track.Client(sys.argv[1], waiting_max=int(sys.argv[4]))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(requests):
        with track.request(f"m{seed}", client=client, request_id=f"{seed}-{number}") as request:
            for _ in range(chance.randrange(20)):
                request.token()
        if number % 20 == 19:
            print("twenty", flush=True)
        time.sleep(chance.random() / 1_000)
    print("all", flush=True)
    sys.stdin.read()  # requests that end while no agent listens cannot be declared
    client.close()
    print(client.finished, client.lost)
"""


class Said:
    """How often applications said what: ``ready``, ``twenty`` more requests, ``all`` of them."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._changed = asyncio.Condition()

    async def add(self, word: str) -> None:
        async with self._changed:
            self._counts[word] += 1
            self._changed.notify_all()

    async def reaches(self, word: str, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._counts[word] >= times)


async def application(
    path: Path, requests: int, seed: int, waiting_max: int, said: Said, may_begin: asyncio.Event, may_end: asyncio.Event
) -> tuple[int, int]:
    """Run one, until it may end; how many of its requests ended, and how many of these it says it dropped."""
    arguments = (str(path), str(requests), str(seed), str(waiting_max))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", APPLICATION, *arguments, stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    word = ""
    while word != "all":
        word = (await process.stdout.readline()).decode().strip()
        assert word, "it ended too early"
        await said.add(word)
        if word == "ready":
            await may_begin.wait()
            process.stdin.write(b"\n")
    await may_end.wait()
    out, _ = await process.communicate(b"")
    assert process.returncode == 0
    finished, lost = out.split()
    return int(finished), int(lost)


@contextlib.asynccontextmanager
async def receiving(path: Path, publishes: Publisher, counters: RecordingCounters) -> AsyncIterator[None]:
    stop = asyncio.Event()
    settings = ReceiverConfig(socket=path, linger_ms=20)
    task = asyncio.create_task(run_receiver(publishes, settings, stop, counters, where=Where("h-1")))
    while not path.exists() and not task.done():  # noqa: ASYNC110, ASYNC240 (its first steps, no more)
        await asyncio.sleep(0.001)
    yield
    stop.set()
    await task


def judged(publishes: Publisher) -> tuple[list[dict[str, Any]], Counter[int]]:
    """What is spooled, and how the jobs judge it."""
    publishes.spool.sync()
    rows: list[dict[str, Any]] = []
    verdicts: Counter[int] = Counter()
    while taken := publishes.spool.take():
        for each in taken:
            record = Record(each.topic, 0, 0, each.at_ms, each.key, each.value, ())
            headers = RecordHeaders(each.schema, each.content_type, None, each.events)
            found = admit(LLM_REQUESTS, [record], [headers], DEFAULT_LIMITS)
            verdicts.update(found.verdicts.tolist())
            rows += rows_of(LLM_REQUESTS.fields, found.block)
        publishes.spool.acknowledge(taken)
    return rows, verdicts


async def test_the_books_balance_while_agents_come_and_go(tmp_path: Path) -> None:
    """Three agents, one after the other, with nobody there in between; applications that hardly wait for them.

    Every request that ended is in the spool once, or declared as shed by the count of its own application.
    """
    path, publishes, counters = tmp_path / "a.sock", publisher(tmp_path / "spool"), RecordingCounters()
    said, may_begin, may_end = Said(), asyncio.Event(), asyncio.Event()
    applications = asyncio.gather(*(application(path, 400, seed, 4, said, may_begin, may_end) for seed in range(4)))
    await said.reaches("ready", 4)
    may_begin.set()
    for number in range(3):
        async with receiving(path, publishes, counters):
            await said.reaches("twenty", 24 * number + 16)
        await said.reaches("twenty", 24 * number + 24)
    async with receiving(path, publishes, counters):
        may_end.set()
        reported = await applications

    rows, verdicts = judged(publishes)
    declared = shed(publishes)
    publishes.spool.close()
    ids = [row["request_id"] for row in rows]
    assert len(ids) == len(set(ids)) > 0
    assert declared > 0
    assert (sum(finished for finished, _ in reported), len(ids) + declared) == (1_600, 1_600)
    assert sum(lost for _, lost in reported) == declared == counters.totals["receiver_lost",]
    assert counters.levels["receiver_missing"] == 0
    assert verdicts == {Verdict.ACCEPTED: len(ids)}


async def test_nothing_is_lost_with_an_agent_that_is_there(tmp_path: Path) -> None:
    """A line that is long enough for all that an application sends at once drops nothing."""
    path, publishes, counters = tmp_path / "a.sock", publisher(tmp_path / "spool"), RecordingCounters()
    said, at_once = Said(), asyncio.Event()
    at_once.set()
    async with receiving(path, publishes, counters):
        reported = await asyncio.gather(
            *(application(path, 500, seed, 500, said, at_once, at_once) for seed in range(4))
        )

    rows, verdicts = judged(publishes)
    publishes.spool.close()
    assert reported == [(500, 0)] * 4
    assert Counter(row["model"] for row in rows) == {f"m{seed}": 500 for seed in range(4)}
    assert verdicts == {Verdict.ACCEPTED: 2_000}


async def test_lines_over_http(tmp_path: Path) -> None:
    """A plain client of another library: taken, refused with a reason, taken again on the same server."""
    publishes, counters = publisher(tmp_path / "spool"), RecordingCounters()
    good = json.dumps({"model": "m", "status": "ok", "request_id": "r"}).encode()

    def post(url: str, body: bytes) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(url, body, {"content-type": "application/x-ndjson"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    async with serve(publishes, ReceiverConfig(http_port=0), Where("h-1"), counters) as port:
        url = f"http://127.0.0.1:{port}/v1/requests"
        answers = [await asyncio.to_thread(post, url, body) for body in (good, b"{", good + b"\n" + good)]
        with pytest.raises(ConfigError, match="must be free"):
            async with serve(publishes, ReceiverConfig(http_port=port), Where("h-1"), counters):
                pytest.fail("the port was free")

    rows, verdicts = judged(publishes)
    publishes.spool.close()
    assert [status for status, _ in answers] == [202, 400, 202]
    assert [body["accepted"] for _, body in answers] == [1, 0, 2]
    assert answers[1][1]["error"]["reason"] == "syntax"
    assert [row["host"] for row in rows] == ["h-1"] * 3
    assert verdicts == {Verdict.ACCEPTED: 3}


def test_the_measurement_measures() -> None:
    """Each figure is there and above nothing; bounds are for a machine without other work."""
    taken = sdk.ingest(0.2, 20)
    costs = {"token_us": sdk.token_us(200), "chunk_us": sdk.chunk_us(200), **sdk.request_us(50)}

    assert set(taken) == {"datagrams_per_cpu_s", "datagrams_per_s"}
    assert min(taken.values()) > 100
    assert 0 < costs["token_us"] < costs["request_us"] < 10_000
    assert 0 < costs["chunk_us"] < 1_000
