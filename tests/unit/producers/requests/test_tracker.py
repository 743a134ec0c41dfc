from __future__ import annotations

from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests import reasons, tracker
from producers.requests.chunk import CONTENT, DONE, Chunk, Part, Usage
from producers.requests.counted_once import ID_LENGTH_MAX
from producers.requests.endings import Ending, How
from producers.requests.openai_shapes import read_document
from producers.requests.sse import SseReader
from producers.requests.tracker import RequestMeta, Row, Tracker
from schemas.codec.build import block_from_rows
from schemas.events.event_types import ERROR_KINDS, FINISH_REASONS, LLM_REQUESTS, STATUSES, TOKENS_FROM

MS = 1_000_000
LABELS = {"host": "h", "origin": "measured"}
STREAMED = RequestMeta("r", streamed=True, model="m", labels=LABELS)
NULLS: Row = dict.fromkeys(
    "trace_id tenant slo_class http_status error_kind finish_reason ttft_us ttfo_us tpot_us icl_max_us chunks "  # noqa: SIM905
    "input_tokens cached_tokens output_tokens reasoning_tokens speculative_tokens tokens_from choices tool_calls "
    "queue_us prefill_us decode_us".split()
)
BLANK: Row = {**NULLS, **LABELS, "at_ms": 9, "request_id": "r", "api": "chat", "model": "m", "itl_bins": {}}


def choice(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def data(*choices: dict[str, Any], **fields: Any) -> bytes:
    return orjson.dumps({"id": "c", "choices": list(choices), **fields})


def streamed(
    *events: tuple[int, bytes], meta: RequestMeta = STREAMED, end_ms: int = 1_000, how: How = How.COMPLETE
) -> Row:
    """The row of a stream whose events came at these milliseconds."""
    tracker = Tracker(meta, 0)
    tracker.status(1 * MS, 200)
    for at_ms, event in events:
        tracker.data(at_ms * MS, event)
    row = tracker.end(end_ms * MS, 9, Ending(how))
    assert row is not None
    return row


ROLE = data(choice(role="assistant", content=""))
TEXT = data(choice(content="a"))
STOP = data(choice(finish="stop"))
LAST = b"[DONE]"


@pytest.mark.parametrize("reported", [100_000_001, 2**31 - 1, 2**31, 2**63])
@pytest.mark.parametrize("index", [0, 1])
def test_a_count_that_no_request_has_says_nothing(reported: int, index: int) -> None:
    """Reported with each text, as an engine does that counts as it goes: nothing is raised, and chunks count."""
    counts = {"prompt_tokens": 1, "completion_tokens": reported}
    chunk = data(choice(index, content="a"), usage=counts)

    row = streamed((10, chunk), (15, chunk), (20, STOP), (20, LAST))

    assert (row["status"], row["output_tokens"], row["tokens_from"], row["chunks"]) == ("ok", 2, "counted", 2)


@pytest.mark.parametrize(
    ("ended", "status"),
    [([0, 0], "aborted"), ([1, 1], "aborted"), ([0, 0, 1], "ok"), ([1, 0], "ok")],
    ids=["the first twice", "the second twice", "both, one twice", "both"],
)
def test_a_choice_that_ends_twice_is_one(ended: list[int], status: str) -> None:
    """Some engines repeat its reason: who gave up the others gave up."""
    events = [(10 + at, data(choice(index, finish="stop"))) for at, index in enumerate(ended)]
    meta = RequestMeta("r", streamed=True, model="m", choices=2, api="chat")

    assert streamed((5, TEXT), *events, meta=meta, how=How.CLIENT_GONE)["status"] == status


def test_a_stream_from_role_to_done() -> None:
    """The role is no token, the gap of 40 ms is the longest, usage comes from the engine."""
    usage = data(
        usage={"prompt_tokens": 12, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}, model="m"
    )

    row = streamed((50, ROLE), (100, TEXT), (110, TEXT), (150, TEXT), (160, STOP), (161, usage), (161, LAST))

    assert row == BLANK | {
        "status": "ok",
        "http_status": 200,
        "finish_reason": "stop",
        "ttft_us": 100_000,
        "ttfo_us": 100_000,
        "tpot_us": 25_000,
        "e2e_us": 1_000_000,
        "icl_max_us": 40_000,
        "chunks": 3,
        "itl_bins": {426: 1, 490: 1},
        "input_tokens": 12,
        "cached_tokens": 8,
        "output_tokens": 4,
        "tokens_from": "engine",
        "choices": 1,
        "tool_calls": 0,
    }


def test_reasoning_comes_first() -> None:
    """TTFT is the first token of any kind, TTFO the first that is no reasoning."""
    thought = data(choice(reasoning_content="hm"))

    row = streamed((100, thought), (120, thought), (140, TEXT), (150, STOP), (150, LAST))

    assert (row["ttft_us"], row["ttfo_us"]) == (100_000, 140_000)
    assert (row["output_tokens"], row["reasoning_tokens"], row["tokens_from"]) == (3, 2, "counted")


def test_reasoning_that_is_counted_but_not_sent_is_no_gap() -> None:
    """Of 52 tokens 50 were thought in silence: two came, 30 ms apart."""
    usage = data(usage={"completion_tokens": 52, "completion_tokens_details": {"reasoning_tokens": 50}})

    row = streamed((900, TEXT), (930, TEXT), (931, STOP), (931, usage), (931, LAST))

    assert (row["output_tokens"], row["reasoning_tokens"], row["tpot_us"]) == (52, 50, 30_000)
    assert sum(row["itl_bins"].values()) == 1


@pytest.mark.parametrize(("texts", "tpot_us"), [(0, None), (1, None), (2, 10_000), (3, 10_000)], ids="{} tokens".format)
def test_tpot_is_null_below_two_tokens(texts: int, tpot_us: int | None) -> None:
    """One token has no gap; none has not even a first."""
    row = streamed(*[(100 + 10 * i, TEXT) for i in range(texts)], (200, STOP), (200, LAST))

    assert row["tpot_us"] == tpot_us
    assert row["ttft_us"] == (100_000 if texts else None)
    assert row["output_tokens"] == (texts or None)
    assert row["status"] == "ok"


def test_one_token_and_the_end_of_sequence_have_no_tpot() -> None:
    """The engine counts two, but only one came at a moment: nothing, not zero."""
    row = streamed((100, TEXT), (110, STOP), (110, data(usage={"completion_tokens": 2})), (110, LAST))

    assert (row["output_tokens"], row["tpot_us"]) == (2, None)


def test_usage_that_comes_as_it_goes_tells_the_tokens_of_each_chunk() -> None:
    """Three tokens in 30 ms are three gaps of 10 ms, the accepted drafts of one step."""
    events = [(100, 1), (130, 4), (140, 5)]

    row = streamed(
        *[
            (at, data(choice(content="a"), usage={"prompt_tokens": 3, "completion_tokens": so_far}))
            for at, so_far in events
        ],
        (141, STOP),
        (141, LAST),
    )

    assert (row["output_tokens"], row["tokens_from"], row["tpot_us"]) == (5, "engine", 10_000)
    assert row["itl_bins"] == {426: 4}


def test_usage_of_choices_that_comes_as_it_goes_adds_up() -> None:
    """Each choice is counted by itself; the prompt once."""

    def event(index: int, so_far: int) -> bytes:
        return data(choice(index, content="a"), usage={"prompt_tokens": 3, "completion_tokens": so_far})

    meta = RequestMeta("r", streamed=True, model="m", choices=2)
    row = streamed((100, event(0, 1)), (100, event(1, 2)), (120, event(0, 3)), (120, event(1, 4)), meta=meta)

    assert (row["input_tokens"], row["output_tokens"], row["choices"]) == (3, 7, 2)
    assert (row["tpot_us"], row["itl_bins"]) == (40_000 // 5, {426: 4})


def test_usage_with_the_last_chunk_alone_says_nothing_of_that_chunk() -> None:
    """Five tokens, five chunks, though the count came with the fifth."""
    last = data(choice(content="a", finish="stop"), usage={"prompt_tokens": 1, "completion_tokens": 5})

    row = streamed(*[(100 + 10 * i, TEXT) for i in range(4)], (140, last), (141, LAST))

    assert (row["output_tokens"], row["tpot_us"], row["itl_bins"]) == (5, 10_000, {426: 4})


def test_several_choices_are_several_sequences() -> None:
    """Gaps are within a choice; the gravest finish reason stands for all; each tool call counts once."""
    call = choice(1, tool_calls=[{"index": 0, "id": "x", "function": {"name": "f"}}])
    meta = RequestMeta("r", streamed=True, model="m", choices=2)

    row = streamed(
        (100, data(choice(0, content="a"))),
        (105, data(call)),
        (110, data(choice(0, content="a"))),
        (125, data(call)),
        (130, data(choice(0, finish="length"))),
        (130, data(choice(1, finish="tool_calls"))),
        meta=meta,
    )

    assert (row["status"], row["finish_reason"], row["tool_calls"], row["choices"]) == ("ok", "length", 1, 2)
    assert (row["tpot_us"], row["icl_max_us"], row["itl_bins"]) == (15_000, 15_000, {426: 1, 458: 1})


@pytest.mark.parametrize(
    ("api", "body", "expected"),
    [
        pytest.param(
            "chat",
            {
                "choices": [{"message": {"content": "abc", "tool_calls": [{"id": "t"}]}, "finish_reason": "stop"}] * 2,
                "usage": {"prompt_tokens": 5, "completion_tokens": 7},
            },
            {"finish_reason": "stop", "input_tokens": 5, "output_tokens": 7, "choices": 2, "tool_calls": 1},
            id="chat",
        ),
        pytest.param(
            "completions",
            {"choices": [{"text": "abc", "finish_reason": "length"}], "usage": {"completion_tokens": 7}},
            {"finish_reason": "length", "output_tokens": 7, "choices": 1},
            id="completions",
        ),
        pytest.param("embeddings", {"data": [{}], "usage": {"prompt_tokens": 5}}, {"input_tokens": 5}, id="embeddings"),
        pytest.param(
            "responses",
            {"object": "response", "status": "completed", "usage": {"input_tokens": 2, "output_tokens": 1}},
            {"finish_reason": "stop", "input_tokens": 2, "output_tokens": 1, "choices": 1, "tool_calls": 0},
            id="responses",
        ),
    ],
)
def test_a_whole_body_has_tokens_but_no_token_times(api: str, body: dict[str, Any], expected: Row) -> None:
    """What was not streamed has an end to end and nothing inside it."""
    tracker = Tracker(RequestMeta("r", api=api, model="m", labels=LABELS), 0)
    tracker.status(5 * MS, 200)
    tracker.body(8 * MS, orjson.dumps(body))

    row = tracker.end(10 * MS, 9)

    measured = {"api": api, "status": "ok", "http_status": 200, "e2e_us": 10_000, "tokens_from": "engine"}
    assert row == BLANK | measured | expected
    assert tracker.reasons == {}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"id": "resp_bc8ae5156020bcd1", "status": "in_progress"}, "resp_bc8ae5156020bcd1"),
        ({"id": "resp_a\nb"}, None),
        ({"id": "resp_a.b"}, "resp_a.b"),
        ({"id": "mine"}, "mine"),
        ({"id": "r" * ID_LENGTH_MAX}, "r" * ID_LENGTH_MAX),
        ({"id": "r" * (ID_LENGTH_MAX + 1)}, None),
        ({"id": "a b"}, None),
        ({"id": ""}, None),
        ({"id": "\u20ac"}, None),
        ({"id": 7}, None),
        ({}, None),
        ("resp_a", None),
    ],
)
def test_the_id_of_a_response_is_known_from_its_first_event(response: object, expected: str | None) -> None:
    """An event that names none leaves it unknown."""
    tracker = Tracker(RequestMeta("r", api="responses", streamed=True), 0)
    tracker.data(MS, orjson.dumps({"type": "response.created", "response": response}))
    other = Tracker(RequestMeta("r"), 0)
    other.data(MS, TEXT)

    assert (tracker.answer_id, other.answer_id) == (expected, None)


@pytest.mark.parametrize(
    ("answer_id", "expected"),
    [
        ("chatcmpl-lJLITtCyzGYMAeLfzgh4vCx7QoykkZeb", True),
        ("cmpl-be26609bd84c2765", True),
        ("41e1ae4f2b8946a3a4ae9c1d2c4d5f60", True),
        ("chatcmpl-123", False),
        ("17", False),
        ("", False),
        (7, False),
        (None, False),
    ],
)
def test_the_id_of_a_chat_is_known_from_its_first_chunk_or_its_body(answer_id: object, expected: bool) -> None:
    """Of SGLang, llama.cpp and others, which make it up. Numbers come back (Ollama, LMDeploy), and are no names."""
    found = answer_id if expected else None
    named = orjson.loads(TEXT) | {"id": answer_id}
    plain, other, whole = (Tracker(RequestMeta("r", streamed=streamed), 0) for streamed in (True, True, False))
    plain.data(MS, orjson.dumps(named))
    plain.data(MS, orjson.dumps(named | {"id": "chatcmpl-of-a-later-chunk"} if expected else named))
    other.data(MS, orjson.dumps(named | {"choices": [choice(role="assistant"), choice(1, role="assistant")]}))
    whole.body(MS, orjson.dumps(named))

    assert [each.answer_id for each in (plain, other, whole)] == [found] * 3


def test_choices_of_which_one_has_ended_are_counted() -> None:
    """llama.cpp says what a choice took as it ends; the caller left before the other had."""
    tracker = Tracker(RequestMeta("r", streamed=True, choices=2), 0)
    for number in range(8):
        delta = {"index": number % 2, "delta": {"content": "t"}, "finish_reason": None}
        tracker.data(number * MS, orjson.dumps({"choices": [delta]}))
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    timings = {"prompt_n": 3, "cache_n": 2, "predicted_n": 4}
    tracker.data(8 * MS, orjson.dumps({"choices": [last], "timings": timings}))

    row = tracker.end(9 * MS, 9, Ending(How.CLIENT_GONE))

    assert row is not None
    assert [row[name] for name in ("input_tokens", "output_tokens", "tokens_from")] == [5, 8, "counted"]


def test_a_response_stream() -> None:
    """Deltas are tokens; the last event has usage and end."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.reasoning_text.delta", "delta": "h"},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call"}},
        {"type": "response.function_call_arguments.delta", "delta": "{}"},
        {
            "type": "response.completed",
            "response": {
                "status": "completed",
                "output": [{"type": "reasoning"}, {"type": "function_call"}],
                "usage": {"input_tokens": 2, "output_tokens": 2},
            },
        },
    ]
    meta = RequestMeta("r", api="responses", streamed=True, model="m")

    row = streamed(*[(100 + 10 * i, orjson.dumps(event)) for i, event in enumerate(events)], meta=meta)

    assert (row["status"], row["finish_reason"], row["tool_calls"]) == ("ok", "tool_calls", 1)
    assert (row["ttft_us"], row["ttfo_us"], row["output_tokens"]) == (110_000, 130_000, 2)


@pytest.mark.parametrize(
    ("events", "http_status", "how", "expected"),
    [
        pytest.param([], None, How.CLIENT_GONE, ("aborted", None, "abort"), id="away before anything"),
        pytest.param([TEXT], 200, How.CLIENT_GONE, ("aborted", None, "abort"), id="away in the middle"),
        pytest.param([TEXT, STOP], 200, How.CLIENT_GONE, ("ok", None, "stop"), id="away when all had come"),
        pytest.param([TEXT, LAST], 200, How.ENGINE_LOST, ("ok", None, None), id="broken when all had come"),
        pytest.param([TEXT], 200, How.ENGINE_LOST, ("error", "engine_lost", "error"), id="broken in the middle"),
        pytest.param([TEXT], 200, How.COMPLETE, ("error", "engine_lost", "error"), id="closed in order, too early"),
        pytest.param([TEXT], 200, How.TIMEOUT, ("timeout", "timeout", None), id="our own limit"),
        pytest.param([], 502, How.UNREACHABLE, ("error", "network", None), id="no connection"),
        pytest.param([], 503, How.REFUSED, ("rejected", "overload", None), id="our queue is full"),
        pytest.param(
            [TEXT, b'{"error":{"message":"CUDA out of memory"}}'],
            200,
            How.COMPLETE,
            ("error", "oom", "error"),
            id="oom",
        ),
        pytest.param(
            [b'{"error":{"code":503}}'], 200, How.COMPLETE, ("rejected", "overload", None), id="overload inside"
        ),
    ],
)
def test_however_it_ends(
    events: list[bytes], http_status: int | None, how: How, expected: tuple[str, str | None, str | None]
) -> None:
    """Exactly one row, whose status follows from what was seen."""
    tracker = Tracker(STREAMED, 0)
    if http_status is not None:
        tracker.status(MS, http_status)
    for event in events:
        tracker.data(2 * MS, event)

    row = tracker.end(3 * MS, 9, Ending(how))

    assert row is not None
    assert (row["status"], row["error_kind"], row["finish_reason"]) == expected
    assert row["http_status"] == http_status
    assert tracker.end(4 * MS, 10) is None
    assert tracker.ended


@pytest.mark.parametrize(
    ("code", "status", "error_kind"),
    [(400, "error", "client"), (429, "rejected", "overload"), (500, "error", "oom"), (503, "rejected", "overload")],
)
def test_an_error_instead_of_a_stream(code: int, status: str, error_kind: str) -> None:
    """The status says it; the body of a 500 may say why; nothing was counted, so nothing is known of tokens."""
    tracker = Tracker(STREAMED, 0)
    tracker.status(5 * MS, code)
    tracker.body(6 * MS, b'{"error":{"message":"CUDA out of memory"}}')

    row = tracker.end(7 * MS, 9)

    reason = "error" if error_kind == "oom" else None
    expected = {"status": status, "error_kind": error_kind, "http_status": code, "finish_reason": reason}
    assert row == BLANK | expected | {"e2e_us": 7_000, "choices": None, "tool_calls": None}


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        pytest.param([b"{", TEXT], {"broken_json": 1}, id="broken JSON"),
        pytest.param(
            [b'{"choices":[{"index":0,"delta":{"content":"\xff"}}]}', TEXT], {"broken_json": 1}, id="no UTF-8"
        ),
        pytest.param([b"", TEXT], {}, id="an event without data"),
        pytest.param([b"[]", b"7", TEXT], {"no_object": 2}, id="no object"),
        pytest.param([b'{"a":1}', TEXT], {"unknown_shape": 1}, id="an object of nobody"),
        pytest.param(
            [data(choice(content="a"), usage={"completion_tokens": -5})], {"usage_unreadable": 1}, id="negative"
        ),
        pytest.param([TEXT, data(usage={"completion_tokens": 0})], {"usage_contradicts": 1}, id="no output"),
    ],
)
def test_what_could_not_be_read_is_counted(events: list[bytes], counted: dict[str, int]) -> None:
    """It never raises and the one token that came is counted."""
    tracker = Tracker(STREAMED, 0)
    for event in [*events, STOP, LAST]:
        tracker.data(MS, event)

    row = tracker.end(2 * MS, 9)

    assert row is not None
    assert (row["status"], row["output_tokens"], row["tokens_from"], tracker.reasons) == ("ok", 1, "counted", counted)


def test_parts_above_their_whole_are_unknown() -> None:
    """The rest of that usage stands."""
    tracker = Tracker(STREAMED, 0)
    tracker.chunk(MS, Chunk(usage=Usage(5, 6, 7, 8, 9), done=True))

    row = tracker.end(2 * MS, 9)

    assert row is not None
    assert [row[name] for name in ("input_tokens", "cached_tokens", "output_tokens")] == [5, None, 7]
    assert [row[name] for name in ("reasoning_tokens", "speculative_tokens")] == [None, None]
    assert tracker.reasons == {reasons.USAGE_CONTRADICTS: 1}


def test_what_the_event_cannot_hold_is_unknown() -> None:
    """An hour and a hundred million are held; more is counted and null."""
    tracker = Tracker(STREAMED, 0)
    tracker.chunk(MS, Chunk(usage=Usage(100_000_000, None, 100_000_001), done=True))

    row = tracker.end(3_600_000 * MS + 1_000, 9)

    assert row is not None
    assert (row["input_tokens"], row["output_tokens"], row["e2e_us"]) == (100_000_000, None, None)
    assert tracker.reasons == {reasons.OUT_OF_RANGE: 2}


def test_a_clock_that_steps_back_gives_gaps_of_zero() -> None:
    """Time stands still until the clock has caught up; it is counted once a request."""
    tracker = Tracker(STREAMED, 100 * MS)
    for at_ms in (110, 105, 120, 90):
        tracker.data(at_ms * MS, TEXT)
    tracker.data(0, LAST)

    row = tracker.end(50 * MS, 9)

    assert row is not None
    assert (row["ttft_us"], row["e2e_us"], row["itl_bins"]) == (10_000, 20_000, {-1: 2, 426: 1})
    assert tracker.reasons == {reasons.CLOCK_BACK: 1}


def test_beyond_the_kept_chunks_only_some_figures_are_unknown() -> None:
    """First token, end and number of chunks stand; what needs every time is null, not wrong."""
    with patch.object(tracker, "CHUNKS_MAX", 3):
        row = streamed(
            *[(100 + i, TEXT) for i in range(5)], (200, data(choice(reasoning="a"))), (201, STOP), (201, LAST)
        )

    assert (row["chunks"], row["ttft_us"], row["status"]) == (6, 100_000, "ok")
    unknown = ("tpot_us", "icl_max_us", "output_tokens", "reasoning_tokens")
    assert [row[name] for name in unknown] == [None] * 4
    assert row["itl_bins"] == {}


def test_tool_calls_beyond_the_bound_are_not_kept() -> None:
    """On the bound they are counted; a forger's flood takes no memory and gives null."""
    found = []
    for calls in (tracker.CALLS_MAX, tracker.CALLS_MAX + 1):
        flooded = Tracker(STREAMED, 0)
        flooded.chunk(MS, Chunk(tool_calls=tuple((0, index) for index in range(calls)), done=True))
        row = flooded.end(MS, 9)
        assert row is not None
        found.append((row["tool_calls"], dict(flooded.reasons)))

    assert found == [(10_000, {}), (None, {reasons.OUT_OF_RANGE: 1})]


def test_after_the_end_nothing_changes() -> None:
    """Whatever still comes is ignored and counted."""
    tracker = Tracker(STREAMED, 0)
    tracker.end(MS, 9)
    tracker.status(MS, 200)
    tracker.data(MS, TEXT)
    tracker.body(MS, TEXT)
    tracker.chunk(MS, DONE)

    assert (tracker.end(MS, 9), tracker.chunks) == (None, 0)
    assert tracker.reasons == {reasons.AFTER_END: 5, reasons.UNFINISHED: 1}


@pytest.mark.parametrize(
    ("requested", "reported", "model"), [("a", "b", "a"), (None, "b", "b"), (None, None, "__unknown__")]
)
def test_the_model_is_the_one_requested_else_the_one_that_answered(
    requested: str | None, reported: str | None, model: str
) -> None:
    """The event may not lack one."""
    row = streamed(
        (1, data(choice(content="a"), model=reported)), meta=RequestMeta("r", model=requested, streamed=True)
    )

    assert row["model"] == model


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_in_the_background_is_no_answer_of_its_api(status: str) -> None:
    """Nothing is generated yet: among responses it would be a quick one of no tokens."""
    tracker = Tracker(RequestMeta("r", "responses", "m", labels=LABELS), 0)
    tracker.status(MS, 200)
    tracker.body(MS, orjson.dumps({"object": "response", "id": "resp_1", "status": status, "usage": None}))

    row = tracker.end(MS, 9)

    assert row is not None
    assert (row["api"], row["status"], row["output_tokens"], row["finish_reason"]) == ("other", "ok", None, None)
    assert (tracker.answer_id, dict(tracker.reasons)) == ("resp_1", {"background": 1})


@pytest.mark.parametrize(
    ("events", "status"), [([TEXT], "error"), ([ROLE], "rejected"), ([], "rejected")], ids=["text", "a role", "nothing"]
)
def test_an_overload_after_output_is_no_rejection(events: list[bytes], status: str) -> None:
    """Rejected is what never began: tokens that came were made, and cost."""
    full = orjson.dumps({"error": {"type": "overloaded_error", "message": "Overloaded"}})

    row = streamed(*((1, each) for each in events), (2, full))

    assert (row["status"], row["error_kind"]) == (status, "overload")


@pytest.mark.parametrize("chunk", [{"content": "a"}, {"role": "assistant"}], ids=["the short way", "the long way"])
@pytest.mark.parametrize("reported", ["x" * 257, "\N{GREEK SMALL LETTER ALPHA}" * 129, "a\nb"])
def test_a_name_that_no_event_can_have_is_not_taken_from_the_answer(reported: str, chunk: dict[str, Any]) -> None:
    """An event with a name of more than 256 bytes is rejected; the next name that fits counts."""
    event = data(choice(**chunk), model=reported)

    unnamed = streamed((1, event), meta=RequestMeta("r", streamed=True))
    named = streamed((1, event), (2, data(choice(content="a"), model="m")), meta=RequestMeta("r", streamed=True))

    assert (unnamed["model"], named["model"]) == ("__unknown__", "m")


def test_a_status_that_is_none_is_not_taken() -> None:
    """On the bounds it is; beside them it is not."""
    tracker = Tracker(STREAMED, 0)
    for code in (100, 99, 600):
        tracker.status(MS, code)

    row = tracker.end(MS, 9, Ending(How.TIMEOUT))

    assert row is not None
    assert row["http_status"] == 100


def test_reasons_met_elsewhere_are_noted() -> None:
    """Such as an event that the reader skipped: it may have been the last, so its absence is no error."""
    tracker = Tracker(STREAMED, 0)
    tracker.note(reasons.OVERSIZE_EVENT)

    row = tracker.end(MS, 9)

    assert row is not None
    assert (row["status"], tracker.reasons) == ("ok", {reasons.OVERSIZE_EVENT: 1})


EVENTS = st.sampled_from(
    [
        ROLE, TEXT, STOP, LAST, b"{", b"[]", b"{}", b"",
        data(choice(1, content="a")),
        data(choice(reasoning="a")),
        data(choice(content="a"), usage={"completion_tokens": 7, "prompt_tokens": 3}),
        data(usage={"completion_tokens": 0}),
        data(choice(tool_calls=[{"index": 0}])),
        data({**choice(content="ab"), "token_ids": [1, 2]}),
        b'{"error":"x"}',
        b'{"type":"response.completed","response":{}}',
    ]
)  # fmt: skip
STEPS = st.lists(st.tuples(EVENTS, st.integers(-10, 500)), max_size=14)


def run(
    meta: RequestMeta, steps: list[tuple[bytes, int]], how: How, http_status: int | None
) -> tuple[Row, dict[str, int]]:
    tracker, now = Tracker(meta, 10**9), 10**9
    if http_status is not None:
        tracker.status(now, http_status)
    for event, gap_ms in steps:
        now += gap_ms * MS
        tracker.data(now, event)
    row, counted = tracker.end(now + MS, 9, Ending(how)), dict(tracker.reasons)
    assert row is not None
    assert tracker.end(now, 9) is None
    return row, counted


@given(STEPS, st.sampled_from(How), st.sampled_from([None, 200, 400, 429, 500]), st.booleans())
def test_every_request_gives_one_row_that_fits(
    steps: list[tuple[bytes, int]], how: How, http_status: int | None, is_streamed: bool
) -> None:
    """Whatever comes: closed sets, times in order, parts within their whole, and the schema takes it."""
    row, counted = run(RequestMeta("r", streamed=is_streamed, labels=LABELS), steps, how, http_status)

    assert row["status"] in STATUSES
    assert row["error_kind"] in (None, *ERROR_KINDS)
    assert row["finish_reason"] in (None, *FINISH_REASONS)
    assert row["tokens_from"] in (None, *TOKENS_FROM)
    assert set(counted) <= set(reasons.REASONS)
    assert set(row) <= {field.name for field in LLM_REQUESTS.fields}
    assert block_from_rows(LLM_REQUESTS.fields, [row]).rows == 1
    known = [row[name] for name in ("ttft_us", "ttfo_us", "e2e_us") if row[name] is not None]
    assert known == sorted(known)
    if row["icl_max_us"] is not None:
        assert row["ttft_us"] + row["icl_max_us"] <= row["e2e_us"]
    assert (row["ttft_us"] is None) == (row["chunks"] is None)
    if row["reasoning_tokens"] is not None:
        assert row["reasoning_tokens"] <= row["output_tokens"]


@given(STEPS, st.lists(st.integers(0, 2_000), max_size=8))
def test_any_cut_of_the_stream_gives_the_same_row(steps: list[tuple[bytes, int]], places: list[int]) -> None:
    """All of it at one moment, in pieces or whole."""
    stream = b"".join(b"data: " + event + b"\n\n" for event, _ in steps)
    rows = []
    for ends in ([len(stream)], sorted({*(min(place, len(stream)) for place in places), len(stream)})):
        reader, tracker, begin = SseReader(), Tracker(STREAMED, 0), 0
        for end in ends:
            for event in reader.feed(stream[begin:end]):
                tracker.data(MS, event)
            begin = end
        rows.append((tracker.end(2 * MS, 9), tracker.reasons))

    assert rows[0] == rows[1]


@given(STEPS)
def test_the_short_way_is_the_long_way(steps: list[tuple[bytes, int]]) -> None:
    """Chunks that are taken without building a Chunk give the same row as those that are read one by one."""
    long, now = Tracker(STREAMED, 10**9), 10**9
    for event, gap_ms in steps:
        now += gap_ms * MS
        if event[:1] == b"{" and event != b"{":
            long.chunk(now, read_document(orjson.loads(event), whole=False))
        else:
            long.data(now, event)

    assert (long.end(now + MS, 9, Ending(How.COMPLETE)), dict(long.reasons)) == run(STREAMED, steps, How.COMPLETE, None)


def test_a_part_that_was_read_elsewhere_counts() -> None:
    """What an application hands over needs no JSON."""
    tracker = Tracker(STREAMED, 0)
    tracker.chunk(10 * MS, Chunk(parts=(Part(0, CONTENT, 3),)))
    tracker.chunk(40 * MS, Chunk(parts=(Part(0, CONTENT, 3),), finish_reasons=("stop",)))

    row = tracker.end(50 * MS, 9)

    assert row is not None
    assert (row["output_tokens"], row["tpot_us"], row["itl_bins"]) == (6, 6_000, {426: 3})
