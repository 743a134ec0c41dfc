"""The SDK's handlers inside the real LangChain, LlamaIndex and LiteLLM, and an ``openai`` on httpx, on a small engine.

``make test-engines``. They have an environment of their own (a minute, 400 MB), kept as those of the engines.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines.environments import ROOT, Environment, cache
from tests.integration import sdk_engine

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

PACKAGES = (
    *("openai==2.54.0", "litellm==1.106.2"),
    *("langchain-core==1.7.2", "langchain-openai==1.7.3"),
    *("llama-index-core==0.14.25", "llama-index-llms-openai-like==0.8.1"),
)
PROGRAM = Path(__file__).with_name("sdk_frameworks.py")
WHOLE, STREAM, LEFT, FAILED = ("ok", 9, 8, 5, 0), ("ok", 9, 8, 5, 5), ("aborted", None, None, None, 1), ("error",)
EXPECTED: dict[str, tuple[Any, ...]] = {
    "openai create": WHOLE,
    "openai stream": STREAM,
    "openai left": LEFT,
    "openai 500": FAILED,
    "langchain invoke": WHOLE,
    "langchain stream": STREAM,
    "langchain astream": STREAM,
    "langchain left": LEFT,
    "langchain 500": FAILED,
    "llama_index chat": WHOLE,
    "llama_index complete": WHOLE,
    "llama_index stream": STREAM,
    "llama_index astream": STREAM,
    "llama_index left": LEFT,
    "llama_index 500": FAILED,
    "litellm acompletion": WHOLE,
    "litellm astream": WHOLE,  # it reports the first chunk's time, and no other
    "litellm 500": FAILED,
}
"""Of each call: status, input, cached and output tokens, chunks."""


@pytest.fixture(scope="module")
def found() -> dict[str, list[dict[str, Any]]]:
    """What was reported of each call."""
    made = Environment(cache() / "sdk-frameworks")
    if not made.done.exists():
        made.create()
        made.install(*PACKAGES)
        made.done.touch()
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "sdk"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with sdk_engine.running() as engine:
        command = [made.program("python"), str(PROGRAM), engine.url]
        ended = subprocess.run(command, env=settings, check=True, capture_output=True, text=True, timeout=300)
    rows: dict[str, list[dict[str, Any]]] = json.loads(ended.stdout.splitlines()[-1])
    return rows


@pytest.mark.parametrize("name", EXPECTED)
def test_each_call_is_one_request_with_its_tokens_and_its_end(
    found: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Synchronous and awaited, whole, streamed, left early and failed."""
    (row,) = found[name]

    if EXPECTED[name] == FAILED:
        named = ("status", "error_kind", "http_status", "model", "output_tokens")
        assert [row.get(each) for each in named] == ["error", "server", 500, "fail-500", None]
    else:
        named = ("status", "input_tokens", "cached_tokens", "output_tokens", "chunks")
        assert tuple(row.get(each) for each in named) == EXPECTED[name]
    assert row["api"] == ("completions" if name == "llama_index complete" else "chat")


def test_the_first_token_of_a_stream_has_its_time(found: dict[str, list[dict[str, Any]]]) -> None:
    """Of LiteLLM as it measured it."""
    (row,) = found["litellm astream"]

    assert 0 < row["ttft_us"] <= row["e2e_us"]
