"""What a real vLLM answered, byte by byte, and the row that comes of it.

Covers producers.requests.tracker, producers.requests.usage and producers.requests.openai_shapes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from producers.requests.endings import Ending, How
from producers.requests.request_meta import RequestMeta, client_fields
from producers.requests.sse import SseReader
from producers.requests.tracker import Tracker

ALL = Path(__file__).resolve().parents[3] / "data" / "engine_answers"
FOLDER, LLAMA_CPP = ALL / "vllm-0.32.0", ALL / "llama.cpp-0.5.0"
ANSWERS: dict[str, Any] = json.loads((FOLDER / "answers.json").read_text())
LLAMA_CPP_ANSWERS: dict[str, Any] = json.loads((LLAMA_CPP / "answers.json").read_text())
STEP_NS = 1_000_000


def row_of(name: str, how: How = How.COMPLETE, folder: Path = FOLDER) -> dict[str, Any]:
    """The row of a recorded answer, its events a millisecond apart."""
    recorded = (ANSWERS if folder is FOLDER else LLAMA_CPP_ANSWERS)[name]
    api = {"chat": "chat", "comp": "completions", "resp": "responses"}[recorded["path"].removeprefix("/v1/")[:4]]
    fields = client_fields(api, json.dumps(recorded["request"]).encode())
    meta = RequestMeta("r", api, fields.model, fields.streamed, choices=fields.choices)
    tracker = Tracker(meta, 0)
    tracker.status(0, recorded["status"])
    body = (folder / recorded["file"]).read_bytes()
    at_ns = STEP_NS
    if recorded["file"].endswith(".sse"):
        reader = SseReader()
        for event in [*reader.feed(body), *reader.close()]:
            tracker.data(at_ns, event)
            at_ns += STEP_NS
    else:
        tracker.body(at_ns, body)
    row = tracker.end(at_ns, 1, Ending(how))
    assert row is not None
    assert not tracker.reasons
    return row


def metrics_of(name: str) -> dict[str, int]:
    """The engine's own times in the recorded answer, in microseconds, under our names."""
    text = (FOLDER / ANSWERS[name]["file"]).read_text()
    found = json.loads("{" + text[text.index('"metrics":') : text.index("}", text.index('"metrics":'))] + "}}")
    names = {"queue_us": "queue_time_ms", "prefill_us": "time_to_first_token_ms", "decode_us": "generation_time_ms"}
    return {ours: round(found["metrics"][theirs] * 1_000) for ours, theirs in names.items()}


@pytest.mark.parametrize(
    "name", ["chat", "chat_again", "chat_stream_usage", "chat_stream_continuous", "completions", "responses"]
)
def test_phases_are_what_the_engine_reports(name: str) -> None:
    """Queue, prefill and decode of an answer with one choice, streamed or whole."""
    row = row_of(name)

    assert {field: row[field] for field in ("queue_us", "prefill_us", "decode_us")} == metrics_of(name)


@pytest.mark.parametrize("name", ["chat_n3", "chat_stream_n3_usage", "chat_stream"])
def test_phases_are_unknown_where_the_engine_reports_none(name: str) -> None:
    """Three choices are three requests to the engine; a stream without usage ends without metrics."""
    row = row_of(name)

    assert (row["queue_us"], row["prefill_us"], row["decode_us"]) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("chat", (255, 0, 6)),
        ("chat_again", (255, 128, 6)),
        ("chat_n3", (255, 128, 18)),
        ("chat_stream_usage", (255, 128, 6)),
        ("chat_stream_continuous", (255, 128, 6)),
        ("chat_stream_n3_usage", (255, 128, 18)),
        ("chat_stream_n3_continuous", (255, 128, 18)),
        ("completions", (3, 0, 6)),
        ("completions_stream_continuous", (3, 0, 6)),
        ("responses", (16, 0, 6)),
    ],
)
def test_tokens_are_what_the_engine_counted(name: str, tokens: tuple[int, int, int]) -> None:
    """Input, of it cached, output; whole or streamed, one choice or three."""
    row = row_of(name)

    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == tokens
    assert (row["status"], row["tokens_from"], row["model"]) == ("ok", "engine", "tiny")


def test_an_aborted_stream_with_running_usage_has_its_tokens() -> None:
    """As many as the engine had made when the last chunk came; chunks without text are tokens too."""
    row = row_of("chat_stream_aborted", How.CLIENT_GONE)
    last = (FOLDER / "chat_stream_aborted.sse").read_bytes().rstrip().rsplit(b"\n\n", 1)[-1]
    usage = json.loads(last.removeprefix(b"data: "))["usage"]

    assert (row["status"], row["tokens_from"]) == ("aborted", "engine")
    assert (row["input_tokens"], row["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])


@pytest.mark.parametrize(
    ("name", "status"),
    [("unknown_model", 404), ("bad_request", 400), ("too_long", 400), ("options_without_stream", 400)],
)
def test_rejections_are_the_client_s(name: str, status: int) -> None:
    """A 4xx of the engine is an error of kind client, without tokens."""
    row = row_of(name)

    assert (row["http_status"], row["status"], row["error_kind"]) == (status, "error", "client")
    assert (row["input_tokens"], row["output_tokens"], row["tokens_from"]) == (None, None, None)


@pytest.mark.parametrize(
    "name", ["chat", "chat_again", "chat_stream", "chat_stream_usage", "completions", "completions_stream_usage"]
)
def test_llama_cpp_reports_tokens_and_phases_without_a_flag(name: str) -> None:
    """Its usage with cached tokens, prefill and decode of ``timings``, whole or streamed, requested or not."""
    text = (LLAMA_CPP / LLAMA_CPP_ANSWERS[name]["file"]).read_text()
    timings = json.loads(
        text[text.index('"timings":') + len('"timings":') : text.index("}", text.index('"timings":')) + 1]
    )
    row = row_of(name, folder=LLAMA_CPP)

    assert (row["prefill_us"], row["decode_us"]) == (
        round(timings["prompt_ms"] * 1_000),
        round(timings["predicted_ms"] * 1_000),
    )
    assert (row["input_tokens"], row["cached_tokens"]) == (timings["cache_n"] + timings["prompt_n"], timings["cache_n"])
    assert (row["output_tokens"], row["tokens_from"]) == (timings["predicted_n"], "engine")


def test_a_chunk_of_llama_cpp_is_a_token() -> None:
    """What a client had when it gave up is counted by chunks; the last of a stream without usage has ``timings``."""
    whole = row_of("chat_stream", folder=LLAMA_CPP)
    aborted = row_of("chat_stream_aborted", How.CLIENT_GONE, LLAMA_CPP)

    assert (whole["chunks"], whole["output_tokens"], whole["tokens_from"]) == (6, 6, "engine")
    assert (aborted["status"], aborted["output_tokens"], aborted["tokens_from"]) == ("aborted", 5, "counted")


def test_llama_cpp_serves_one_choice_and_says_so() -> None:
    """Several are the client's fault there; a name of no model is answered under that name."""
    several, unknown = row_of("chat_n3", folder=LLAMA_CPP), row_of("unknown_model", folder=LLAMA_CPP)

    assert (several["http_status"], several["status"], several["error_kind"]) == (400, "error", "client")
    assert (unknown["status"], unknown["model"]) == ("ok", "invented")
