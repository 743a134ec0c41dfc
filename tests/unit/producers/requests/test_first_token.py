"""What clients of the field take for the first token of a stream, beside our TTFT, on recorded streams of vLLM 0.32.

Their rules are restated from their code: aiperf 0.13 (``endpoints/openai_chat.py``), GuideLLM 0.8.1
(``backends/openai/request_handlers.py``), ``vllm bench serve`` 0.32 (``benchmarks/lib/endpoint_request_func.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from producers.requests.sse import SseReader
from tests.unit.producers.requests.test_recorded_answers import ANSWERS, FOLDER, STEP_NS, row_of

STREAMS = [
    "chat_stream",
    "chat_stream_usage",
    "chat_stream_continuous",
    "completions_stream_usage",
    "completions_stream_continuous",
]
Event = dict[str, Any]


def events_of(name: str) -> list[Event | None]:
    """The events of a recorded stream, a millisecond apart; None for one without JSON."""
    reader = SseReader()
    found = [*reader.feed((FOLDER / ANSWERS[name]["file"]).read_bytes()), *reader.close()]
    return [None if event == b"[DONE]" else orjson.loads(event) for event in found]


def first_us(name: str, rule: Callable[[Event], bool]) -> int:
    place = next(at for at, event in enumerate(events_of(name)) if event is not None and rule(event))
    return (place + 1) * STEP_NS // 1_000


def aiperf(event: Event) -> bool:
    """Text, reasoning or a named tool call of the first choice."""
    if not event.get("choices"):
        return False
    (choice, *_) = event["choices"]
    delta = choice.get("delta") or {}
    texts = (choice.get("text"), delta.get("content"), delta.get("reasoning_content"), delta.get("reasoning"))
    calls = [call.get("function", {}) for call in delta.get("tool_calls") or ()]
    return any(texts) or any(call.get("name") or call.get("arguments") for call in calls)


def guidellm(event: Event) -> bool:
    """The same, and any tool call."""
    if not event.get("choices"):
        return False
    (choice, *_) = event["choices"]
    delta = choice.get("delta") or {}
    names = ("reasoning", "reasoning_content", "content", "tool_calls")
    return bool(choice.get("text") or any(delta.get(name) for name in names))


def vllm_bench(event: Event) -> bool:
    """Any choice, with or without text."""
    return bool(event.get("choices"))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("rule", [aiperf, guidellm])
def test_ttft_is_that_of_clients_that_wait_for_text(name: str, rule: Callable[[Event], bool]) -> None:
    """aiperf and GuideLLM pass over the empty chunk with the role and over tokens without text, as we do."""
    assert row_of(name)["ttft_us"] == first_us(name, rule)


@pytest.mark.parametrize("name", STREAMS)
def test_vllms_benchmark_takes_the_first_chunk(name: str) -> None:
    """That with the role, of a chat, and a token without text: what is between the two clients has no text."""
    before = [event for event in events_of(name)[: row_of(name)["ttft_us"] // 1_000 - 1] if event is not None]
    choices = [event["choices"][0] for event in before]

    assert row_of(name)["ttft_us"] - first_us(name, vllm_bench) == 1_000 * len(before) > 0
    assert {choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices} == {""}


def test_a_token_may_have_no_text() -> None:
    """Part of a character, or a special token: the engine counts it in a chunk whose text is empty. It is none of ours,
    and where such tokens come first, TTFT is later than vLLM's."""
    name = "chat_stream_n3_continuous"
    counted = [
        (event["usage"]["completion_tokens"], event["choices"][0]["delta"].get("content"))
        for event in events_of(name)
        if event is not None and event.get("choices")
    ]
    silent = [tokens for tokens, text in counted if tokens and text == ""]
    place = next(at for at, (_, text) in enumerate(counted) if text)

    assert silent
    assert counted[place - 1][0] >= 1
    assert row_of(name)["ttft_us"] == 1_000 * (place + 1) > first_us(name, vllm_bench)
