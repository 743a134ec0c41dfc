"""Runner of a baseline: a closed loop of so many clients at each concurrency, over httpx. Bounded in requests and time.

A step starts ``requests`` requests, at most ``concurrency`` at one time, and no new one after ``seconds_max``; one that
is open longer than ``timeout_s`` is cut and counts as failed. Ctrl-C cancels what is open, which closes its connection,
so that the engine stops too.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import orjson

from fleetpulse.baseline.curve import Point
from fleetpulse.baseline.load import PATHS, body, point
from producers.requests.endings import WHOLE, Ending, How
from producers.requests.request_meta import RequestMeta
from producers.requests.sse import SseReader
from producers.requests.tracker import Row, Tracker

BODY_BYTES_MAX = 1024 * 1024
"""Kept of an answer that is no stream: an error's text."""

OnRequest = Callable[[int, int], None]
"""Takes (ended, all) of a step."""


@dataclass(frozen=True, slots=True)
class Run:
    """What to send where. ``requests`` of a step: 0 is four for each client, at least 16."""

    url: str
    model: str
    api: str = "chat"
    prompt_tokens: int = 512
    output_tokens: int = 128
    requests: int = 0
    seconds_max: float = 120.0
    timeout_s: float = 300.0
    ignore_eos: bool = True
    api_key: str | None = None

    def requests_of(self, concurrency: int) -> int:
        """Requests of one step."""
        return self.requests or max(16, 4 * concurrency)


class Runner:
    """Sends a run's requests over one pool of connections. Use it as a context."""

    def __init__(self, run: Run, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {run.api_key}"} if run.api_key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._run = run
        self._seeds: Iterator[int] = count(secrets.randbits(48))  # a run before may have left its prompts in a cache
        self._client = httpx.AsyncClient(
            base_url=run.url,
            headers=headers,
            limits=limits,
            timeout=run.timeout_s,
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> Runner:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.aclose()

    async def warm_up(self) -> Row:
        """One request that is not counted: an engine's first may compile, load or connect."""
        return await self._request()

    async def step(self, concurrency: int, on_request: OnRequest) -> Point:
        """Measure one concurrency."""
        wanted, rows = self._run.requests_of(concurrency), list[Row]()
        left, begun_s = iter(range(wanted)), time.monotonic()

        async def client() -> None:
            for _ in left:
                rows.append(await self._request())
                on_request(len(rows), wanted)
                if time.monotonic() - begun_s > self._run.seconds_max:
                    return

        async with asyncio.TaskGroup() as clients:
            for _ in range(min(concurrency, wanted)):
                clients.create_task(client())
        return point(concurrency, rows, time.monotonic() - begun_s)

    async def _request(self) -> Row:
        run, seed = self._run, next(self._seeds)
        request = body(run.model, run.api, run.prompt_tokens, run.output_tokens, seed, ignore_eos=run.ignore_eos)
        meta = RequestMeta(request_id=f"baseline-{seed}", api=run.api, model=run.model, streamed=True)
        tracker, ending = Tracker(meta, time.monotonic_ns()), WHOLE
        try:
            async with (
                asyncio.timeout(run.timeout_s),
                self._client.stream("POST", PATHS[run.api], content=orjson.dumps(request)) as response,
            ):
                await _read(response, tracker)
        except (TimeoutError, httpx.TimeoutException):
            ending = Ending(How.TIMEOUT)
        except httpx.HTTPError:
            ending = Ending(How.ENGINE_LOST)
        row = tracker.end(time.monotonic_ns(), 0, ending)
        assert row is not None, "a tracker ends once"
        return row


async def _read(response: httpx.Response, tracker: Tracker) -> None:
    tracker.status(time.monotonic_ns(), response.status_code)
    if "event-stream" not in response.headers.get("content-type", ""):
        whole = bytearray()
        async for piece in response.aiter_bytes():
            whole += piece[: BODY_BYTES_MAX - len(whole)]
        tracker.body(time.monotonic_ns(), bytes(whole))
        return
    reader = SseReader()
    async for piece in response.aiter_bytes():
        at_ns = time.monotonic_ns()
        for data in reader.feed(piece):
            tracker.data(at_ns, data)
    for data in reader.close():
        tracker.data(time.monotonic_ns(), data)


async def served(url: str, api_key: str | None, timeout_s: float = 10.0) -> dict[str, Any]:
    """What the endpoint says of itself: ``models`` (names) and ``version``; nothing where it does not say."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout_s, trust_env=False) as client:
        models, version = await asyncio.gather(_json(client, "/v1/models"), _json(client, "/version"))
    listed = models.get("data") if isinstance(models, dict) else None
    names = [one["id"] for one in listed or () if isinstance(one, dict) and isinstance(one.get("id"), str)]
    said = version.get("version") if isinstance(version, dict) else None
    return {"models": names, "version": said if isinstance(said, str) else None}


async def _json(client: httpx.AsyncClient, path: str) -> Any:
    try:
        answer = await client.get(path)
        return answer.json() if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, ValueError):
        return None
