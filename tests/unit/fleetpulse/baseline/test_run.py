"""A baseline's requests and points, against an engine in this process.

Covers fleetpulse.baseline.load.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType

import httpx
import orjson
import pytest

from fleetpulse.baseline.load import body, point
from fleetpulse.baseline.run import Run, Runner

ROW = {"status": "ok", "itl_bins": {}, "input_tokens": 10, "output_tokens": 5, "ttft_us": 1, "e2e_us": 2}
ANSWERS = Path(__file__).resolve().parents[3] / "data" / "engine_answers"


class Stream(httpx.AsyncByteStream):
    """The events of a chat answer; waits for ``gate`` before the last."""

    def __init__(self, tokens: int, gate: asyncio.Event | None = None, opened: Callable[[int], None] = print) -> None:
        self._tokens, self._gate, self._opened = tokens, gate, opened

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._opened(1)
        for _ in range(self._tokens):
            yield b'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]}\n\n'
        await asyncio.sleep(0)
        yield b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}\n\n'
        usage = {"prompt_tokens": 12, "completion_tokens": self._tokens, "total_tokens": 12 + self._tokens}
        yield b"data: " + orjson.dumps({"choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n"
        self._opened(-1)


def _streams(tokens: int) -> httpx.MockTransport:
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=Stream(tokens, None, lambda _: 0)))


async def test_a_step_counts_every_request_and_token() -> None:
    """Requests asked for, tokens that the engine reported, none failed."""
    seen: list[tuple[int, int]] = []
    async with Runner(Run("http://e", "m", requests=6), _streams(3)) as runner:
        found = await runner.step(2, lambda done, total: seen.append((done, total)))

    assert (found.concurrency, found.requests, found.failed) == (2, 6, 0)
    assert found.output_tokens_per_s == pytest.approx(found.requests_per_s * 3, rel=0.01)
    assert found.input_tokens_per_s == pytest.approx(found.requests_per_s * 12, rel=0.01)
    assert seen == [(number, 6) for number in range(1, 7)]


@pytest.mark.parametrize(
    ("engine", "api", "tokens"),
    [("vllm-0.32.0", "chat", (255, 6)), ("vllm-0.32.0", "completions", (3, 6)), ("llama.cpp-0.5.0", "chat", (255, 6))],
)
async def test_tokens_are_those_that_real_engines_reported(engine: str, api: str, tokens: tuple[int, int]) -> None:
    """Of their streams as recorded, byte by byte."""
    content = (ANSWERS / engine / f"{api}_stream_usage.sse").read_bytes()
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=content))
    async with Runner(Run("http://e", "tiny", api, requests=4), transport) as runner:
        found = await runner.step(2, lambda *_: None)

    assert (found.requests, found.failed) == (4, 0)
    assert found.input_tokens_per_s == pytest.approx(found.requests_per_s * tokens[0], rel=0.01)
    assert found.output_tokens_per_s == pytest.approx(found.requests_per_s * tokens[1], rel=0.01)


async def test_no_more_than_the_concurrency_are_open() -> None:
    """Never more, and as many."""
    open_now, most = 0, 0

    def opened(by: int) -> None:
        nonlocal open_now, most
        open_now += by
        most = max(most, open_now)

    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=Stream(2, None, opened)))
    async with Runner(Run("http://e", "m", requests=20), transport) as runner:
        await runner.step(4, lambda *_: None)

    assert (open_now, most) == (0, 4)


def _refuses(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: httpx.Response(500, json={"error": {"message": "out of memory", "code": 500}}),
        lambda _: httpx.Response(404, json={"object": "error", "message": "no such model", "code": 404}),
        lambda _: httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=b'data: {"choices": []}\n\n'
        ),
        _refuses,
    ],
    ids=["an error of the server", "an unknown model", "a stream without an end", "nobody there"],
)
async def test_what_fails_is_counted_and_measures_nothing(answer: Callable[[httpx.Request], httpx.Response]) -> None:
    """A failed request has no part in latencies or throughput."""
    async with Runner(Run("http://e", "m", requests=3), httpx.MockTransport(answer)) as runner:
        found = await runner.step(1, lambda *_: None)

    assert (found.requests, found.failed, found.requests_per_s) == (3, 3, 0.0)
    assert (found.output_tokens_per_s, found.ttft_us["p50"], found.e2e_us["p99"]) == (None, None, None)


async def test_no_request_begins_after_the_time_of_a_step() -> None:
    """The time is over with the first request: each client has made one."""
    async with Runner(Run("http://e", "m", requests=50, seconds_max=-1.0), _streams(1)) as runner:
        found = await runner.step(3, lambda *_: None)

    assert found.requests == 3


def test_every_prompt_is_another_and_every_run_has_the_same() -> None:
    """A prefix cache cannot help, and two runs are comparable."""
    made = [body("m", "chat", 20, 5, seed, ignore_eos=True)["messages"][0]["content"] for seed in (1, 2, 1)]

    assert made[0] != made[1]
    assert made[0] == made[2]
    assert len(made[0].split()) == 20


@pytest.mark.parametrize("words", [1, 63, 64, 127, 128, 129, 1_000])
def test_a_long_prompt_begins_with_words_of_its_own(words: int) -> None:
    """As many words as were asked for. The first 64 of a thousand prompts are as many beginnings."""
    made = [body("m", "completions", words, 5, seed, ignore_eos=True)["prompt"].split() for seed in range(1_000)]

    assert {len(one) for one in made} == {words}
    assert len({" ".join(one[:64]) for one in made}) == (1_000 if words > 8 else 22)


def test_a_long_prompt_does_not_hold_up_the_clock_of_others() -> None:
    """It is made between two chunks of other streams: in a few hundred calls, where a word each would be 32,768."""
    body("m", "chat", 32_768, 5, 0, ignore_eos=True)  # what is made once, in the request before the first step
    calls = 0

    def count_call(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        body("m", "chat", 32_768, 5, 1, ignore_eos=True)
    finally:
        sys.setprofile(None)

    assert calls < 3_000


async def test_a_request_is_json() -> None:
    """And says so."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(500)

    async with Runner(Run("http://e", "m", api_key="k"), httpx.MockTransport(answer)) as runner:
        await runner.warm_up()

    (request,) = seen
    assert (request.headers["content-type"], request.headers["authorization"]) == ("application/json", "Bearer k")
    assert orjson.loads(request.content)["model"] == "m"


@pytest.mark.parametrize("ignore_eos", [True, False])
def test_an_engine_is_asked_for_answers_of_one_length(ignore_eos: bool) -> None:
    """Where it heeds it; an interface that knows no such field is not given it."""
    asked = body("m", "completions", 2, 5, 1, ignore_eos=ignore_eos)

    assert asked["max_tokens"] == 5
    assert asked["stream_options"] == {"include_usage": True}
    assert asked.get("ignore_eos", False) is ignore_eos
    assert isinstance(asked["prompt"], str)


def test_percentiles_of_a_point_are_those_of_its_requests() -> None:
    """The order statistic below, as numpy's ``lower``: of 1 to 100 the 50th, the 95th, the 99th."""
    rows = [ROW | {"e2e_us": value, "itl_bins": {320: 1}} for value in range(100, 0, -1)]

    found = point(8, rows, 10.0)

    assert found.e2e_us == {"p50": 50, "p95": 95, "p99": 99}
    assert found.itl_us["p99"] == pytest.approx(1_024, rel=0.011)
    assert (found.requests_per_s, found.input_tokens_per_s, found.output_tokens_per_s) == (10.0, 100.0, 50.0)


def test_tokens_that_one_request_did_not_report_are_no_rate() -> None:
    """A sum without them would be too small."""
    assert point(1, [ROW, ROW | {"input_tokens": None}], 1.0).input_tokens_per_s is None


async def test_no_two_runs_send_the_same_prompt() -> None:
    """The second would measure the prefix cache that the first has filled."""
    prompts: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        prompts.append(orjson.loads(request.content)["messages"][0]["content"])
        return httpx.Response(500)

    for _ in range(2):
        async with Runner(Run("http://e", "m", requests=5), httpx.MockTransport(answer)) as runner:
            await runner.warm_up()
            await runner.step(1, lambda *_: None)

    assert len(set(prompts)) == len(prompts) == 12
