"""llama.cpp's own completions, as its server writes them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests.chunk import CONTENT, Chunk, Part, Usage
from producers.requests.llamacpp_shapes import is_native, native_chunk
from producers.requests.openai_shapes import body_of
from producers.requests.request_meta import RequestMeta
from producers.requests.tracker import Tracker

MS = 1_000_000
LABELS = {"host": "h", "origin": "measured"}
LAST = {
    "index": 0,
    "content": "",
    "tokens": [],
    "stop": True,
    "model": "gpt-3.5-turbo",
    "tokens_predicted": 3,
    "tokens_evaluated": 12,
    "stop_type": "eos",
    "tokens_cached": 14,
    "timings": {"cache_n": 8, "prompt_n": 4, "prompt_ms": 12.5, "predicted_ms": 30.0},
}


def piece(text: str, predicted: int) -> dict[str, Any]:
    return {
        "index": 0,
        "content": text,
        "tokens": [5],
        "stop": False,
        "id_slot": 0,
        "tokens_predicted": predicted,
        "tokens_evaluated": 12,
    }


def tracked(*events: dict[str, Any]) -> dict[str, Any]:
    """The row of a stream of these events, ten milliseconds apart."""
    tracker = Tracker(RequestMeta("r", "completions", "m", streamed=True, choices=1, labels=LABELS), 0)
    tracker.status(MS, 200)
    for place, event in enumerate(events, 1):
        tracker.data(10 * place * MS, orjson.dumps(event))
    row = tracker.end(100 * MS, 9)
    assert row is not None
    return row


def test_a_stream_ends_with_its_stop() -> None:
    """No ``[DONE]`` follows it; the counts are the engine's, cached tokens inside the prompt's."""
    row = tracked(piece("a", 1), piece("bc", 3), LAST)

    assert (row["status"], row["finish_reason"], row["chunks"]) == ("ok", "stop", 2)
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (12, 8, 3)
    assert (row["ttft_us"], row["tpot_us"], row["tokens_from"]) == (10_000, 5_000, "engine")
    assert (row["prefill_us"], row["decode_us"]) == (12_500, 30_000)


def test_a_stream_without_its_stop_is_cut() -> None:
    """As any other that closes without a finish reason."""
    row = tracked(piece("a", 1))

    assert (row["status"], row["error_kind"], row["output_tokens"]) == ("error", "engine_lost", 1)


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"stop_type": "limit"}, "length"), ({"stop_type": "word"}, "stop"), ({"stopped_limit": True}, "length")],
    ids=str,
)
def test_why_it_stopped(more: dict[str, Any], reason: str) -> None:
    """By the type of the stop, or the flag of older servers."""
    assert native_chunk(LAST | more, whole=False).finish_reasons == (reason,)


def test_a_whole_body() -> None:
    """Its counts are the request's."""
    found = body_of(orjson.dumps(LAST | {"content": "abc", "timings": None}))

    assert found == Chunk(
        parts=(Part(0, CONTENT, 0),),
        finish_reasons=("stop",),
        usage=Usage(12, None, 3),
        model="gpt-3.5-turbo",
        done=True,
        choices=1,
    )


@given(
    st.dictionaries(
        st.sampled_from(["index", "tokens_predicted", "tokens_evaluated", "timings", "stop_type", "model"]),
        st.none() | st.integers(-5, 10**12) | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    )
)
def test_nothing_raises_on_any_values(fields: dict[str, Any]) -> None:
    """What is no count is unknown."""
    document = {"content": "", "stop": True, **fields}

    assert is_native(document)
    found = native_chunk(document, whole=False)
    assert all(amount is None or amount >= 0 for amount in found.usage or ())
