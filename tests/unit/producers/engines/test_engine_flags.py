"""Which flags a vLLM lacks, by what it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from producers.engines.fetch import FetchError, FetchLimits
from producers.engines.flags import FLAGS, PROMPT, flags_missing_at, missing_flags, model_of_vllm

RECORDED = Path(__file__).resolve().parents[3] / "data" / "engine_answers" / "vllm-0.32.0"
MODELS = (RECORDED / "v1_models.json").read_bytes()
ANSWER: dict[str, Any] = json.loads((RECORDED / "completions.json").read_text())
METRICS, DETAILS = FLAGS


def test_an_answer_with_everything_lacks_no_flag() -> None:
    """As recorded from a vLLM that was started with both."""
    assert missing_flags(ANSWER) == ()


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        ({"metrics": None}, (METRICS,)),
        ({"usage": {**ANSWER["usage"], "prompt_tokens_details": None}}, (DETAILS,)),
        ({"metrics": None, "usage": None}, (METRICS, DETAILS)),
    ],
    ids=["no metrics", "no details", "neither"],
)
def test_what_is_null_is_a_flag_that_is_missing(change: dict[str, Any], flags: tuple[str, ...]) -> None:
    """vLLM writes null where a flag is not set."""
    assert missing_flags({**ANSWER, **change}) == flags


@pytest.mark.parametrize(
    "models", [{}, [], None, {"data": []}, {"data": [{"id": "m", "owned_by": "llamacpp"}]}], ids=str
)
def test_what_is_no_vllm_is_left_alone(models: Any) -> None:
    """Nothing is sent to it."""
    assert model_of_vllm(models) is None
    assert flags_missing_at("http://e", get=lambda *_: json.dumps(models).encode(), post=_unexpected) == ()


def _unexpected(*_: Any) -> bytes:
    raise AssertionError("a request was sent")


def test_one_request_for_one_token_is_sent() -> None:
    """To the model that the server names, with the key of its configuration."""
    sent = []

    def post(url: str, path: str, body: bytes, key: str | None) -> bytes:
        sent.append((url, path, json.loads(body), key))
        return json.dumps({**ANSWER, "metrics": None}).encode()

    assert flags_missing_at("http://e:8000", "k", get=lambda *_: MODELS, post=post) == (METRICS,)
    assert sent == [("http://e:8000", "/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 1}, "k")]
    assert len(PROMPT.split()) > 1


def test_an_engine_that_does_not_answer_lacks_nothing() -> None:
    """Neither its page nor the request may end the probe."""

    def no_page(url: str, _limits: FetchLimits, _key: str | None = None) -> bytes:
        raise FetchError("refused", url, "nobody listens")

    def broken(*_: Any) -> bytes:
        raise ConnectionResetError

    assert flags_missing_at("http://e", get=no_page, post=_unexpected) == ()
    assert flags_missing_at("http://e", get=lambda *_: MODELS, post=broken) == ()
    assert flags_missing_at("http://e", get=lambda *_: MODELS, post=lambda *_: b"no JSON") == ()
