"""One request of the SDK: what it says, however it ends, and that it harms nobody."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fleetpulse_track as track
from fleetpulse_track import requests
from fleetpulse_track.handover import HEADER, MARKED, MERGED
from fleetpulse_track.requests import (
    FIELDS,
    JSON_BYTES_MAX,
    TEXT_CHARS_MAX,
    TIMES_MAX,
    USER_CHARS_MAX,
    json_of,
    user_in,
)
from producers.receiver.datagram import DATAGRAM_BYTES_MAX, chunks_of, read
from schemas.events.event_types import LLM_REQUESTS
from tests.unit.producers.receiver import sent


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The SDK's clock: a microsecond passes at each look, more where a test says so."""
    now = itertools.count(1_000_000, 1_000)
    ahead = [0]
    monkeypatch.setattr(requests, "perf_counter_ns", lambda: next(now) + ahead[0])

    def pass_us(us: int) -> None:
        ahead[0] += 1_000 * us

    return pass_us


def said(data: bytes) -> dict[str, Any]:
    size = HEADER.unpack_from(data)[3]
    return dict(json.loads(data[-size:]))


def times_us(data: bytes) -> list[int]:
    count, begin_ns = HEADER.unpack_from(data)[4], HEADER.unpack_from(data)[12]
    at_ns = np.frombuffer(data, "<u8", count, HEADER.size).astype(np.int64)
    return ((at_ns - begin_ns) // 1_000).tolist()


def test_every_field_it_may_say_is_a_field_of_the_event() -> None:
    """Nothing that the agent would not know; it finds the engine by ``address`` and makes a hash of ``user``."""
    names = {field.name for field in LLM_REQUESTS.fields}

    assert FIELDS - names == {"address", "user"}


@pytest.mark.parametrize(
    ("body", "user"),
    [
        ({"user": "u", "safety_identifier": "s"}, "s"),
        ({"user": "u", "safety_identifier": 7}, "u"),
        ({"metadata": {"user_id": "a"}, "user": "u" * (USER_CHARS_MAX + 1)}, "a"),
        ({"metadata": "a", "user": ""}, None),
        ("u", None),
    ],
)
def test_the_user_is_whom_the_body_names(body: Any, user: str | None) -> None:
    """OpenAI's newer field before its older one, then Anthropic's; nothing that is no name of usual length."""
    assert user_in(body) == user


def test_a_user_s_name_is_whole_or_left_out() -> None:
    """Cut short it could be another's."""
    assert json.loads(json_of({"user": "ann", "tenant": "t"})) == {"user": "ann", "tenant": "t"}
    assert json.loads(json_of({"user": "ann" * 30, "tenant": "t" * 9_000})) == {"tenant": "t" * TEXT_CHARS_MAX}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), np.float32("nan"), np.float64("inf")], ids=repr
)
def test_a_number_that_json_does_not_have_costs_its_field_alone(client: sent.Recorded, value: float) -> None:
    """The agent would reject the whole datagram; the other numbers stay, and what was left out is counted."""
    with track.request("m", client=client) as request:
        request.set(queue_us=value, input_tokens=np.int64(3), prefill_us=1.5)
    track.report(client=client, model="m", decode_us=value, cached_tokens=2)

    assert [orjson.loads(data[HEADER.size :]) for data in client.sent] == [
        {"status": "ok", "model": "m", "input_tokens": 3, "prefill_us": 1.5},
        {"status": "ok", "model": "m", "cached_tokens": 2},
    ]
    assert client.fields_left_out == 2


def test_a_stream_says_its_times(client: sent.Recorded, tick: Callable[[int], None]) -> None:
    """Each chunk's moment, the end after it, the fields that were set."""
    with track.request("m", client=client, tenant="t") as request:
        request.token()
        tick(10)
        request.token()
        request.set(input_tokens=3, tenant=None)

    (data,) = client.sent
    head = HEADER.unpack_from(data)
    assert times_us(data) == [1, 12]
    assert head[13] - head[12] == 13_000
    assert (head[2], head[5]) == (0, 2)
    assert said(data) == {"status": "ok", "model": "m", "input_tokens": 3}


def test_marks_are_sent_only_where_there_are_any(client: sent.Recorded) -> None:
    """From the first chunk on, once one of them has any; what makes no sense is left out."""
    with track.request("m", client=client) as request:
        request.token()
        request.token(reasoning=True)
        request.token(7, choice=2)
        for tokens, choice in ((-1, 0), (2**20, 0), ("x", 0), (None, 0), (1.5, 0), (0, -1), (0, 1_024), (0, "y")):
            request.token(tokens, choice=choice)  # type: ignore[arg-type]

    buffer, ends = sent.together(client.sent)
    chunks = chunks_of(buffer, read(buffer, ends))
    assert HEADER.unpack_from(client.sent[0])[2] == MARKED
    assert chunks.tokens is not None
    assert chunks.choices is not None
    assert chunks.tokens.tolist() == [0, 0, 7] + [0] * 8
    assert chunks.choices.tolist() == [0, 0, 2] + [0] * 8
    assert chunks.reasoning.tolist() == [False, True] + [False] * 9


@pytest.mark.parametrize("chunks", [TIMES_MAX - 1, TIMES_MAX, TIMES_MAX + 1, 3 * TIMES_MAX])
def test_a_long_stream_is_merged_and_its_counts_stay_exact(
    client: sent.Recorded, tick: Callable[[int], None], chunks: int
) -> None:
    """Chunks, tokens, first and last moment and the longest gap; the datagram stays within its bound."""
    with track.request("m", client=client) as request:
        for number in range(chunks):
            tick(50 if number == 1_001 else 0)
            request.token()

    (data,) = client.sent
    flags = HEADER.unpack_from(data)[2]
    buffer, ends = sent.together(client.sent)
    found = chunks_of(buffer, read(buffer, ends))
    tokens = np.ones(len(found.at_ns)) if found.tokens is None else np.maximum(found.tokens, 1)
    assert len(data) <= DATAGRAM_BYTES_MAX
    assert (HEADER.unpack_from(data)[5], tokens.sum()) == (chunks, chunks)
    assert (times_us(data)[0], times_us(data)[-1]) == (1, chunks + 50)
    assert len(times_us(data)) < TIMES_MAX
    assert flags == (MARKED | MERGED if chunks >= TIMES_MAX else 0)
    assert said(data).get("icl_max_us") == (51 if chunks >= TIMES_MAX else None)


@pytest.mark.parametrize("first_output", [1, 2_000, TIMES_MAX + 1, 2 * TIMES_MAX])
def test_merging_keeps_the_first_output_token(
    client: sent.Recorded, tick: Callable[[int], None], first_output: int
) -> None:
    """Its moment is sent, or still stands where it was."""
    with track.request("m", client=client) as request:
        for number in range(3 * TIMES_MAX):
            request.token(reasoning=number < first_output)

    (data,) = client.sent
    buffer, ends = sent.together(client.sent)
    reasoning = chunks_of(buffer, read(buffer, ends)).reasoning.tolist()
    found = said(data).get("ttfo_us", times_us(data)[reasoning.index(False)])
    assert found == first_output + 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("x"), {"status": "error", "error_kind": "other"}),
        (TimeoutError(), {"status": "timeout", "error_kind": "timeout"}),
        (ConnectionResetError(), {"status": "error", "error_kind": "network"}),
        (MemoryError(), {"status": "error", "error_kind": "oom"}),
        (GeneratorExit(), {"status": "aborted"}),
        (KeyboardInterrupt(), {"status": "aborted"}),
        (asyncio.CancelledError(), {"status": "aborted"}),
    ],
)
def test_an_exception_ends_a_request_and_goes_on(
    client: sent.Recorded, error: BaseException, expected: dict[str, Any]
) -> None:
    """By its kind; the caller sees it as it was."""
    with pytest.raises(type(error)) as seen, track.request("m", client=client):
        raise error

    assert seen.value is error
    assert said(client.sent[0]) == {**expected, "model": "m"}


def test_the_first_end_counts(client: sent.Recorded) -> None:
    """A stream that was closed after its end is not reported again."""
    with track.request("m", client=client) as request:
        request.finish(TimeoutError())

    assert [said(data)["status"] for data in client.sent] == ["timeout"]


def test_a_status_that_was_set_overrides_the_end(client: sent.Recorded) -> None:
    """The caller knows better."""
    with track.request("m", client=client) as request:
        request.set(status="rejected", error_kind="overload")

    assert said(client.sent[0])["status"] == "rejected"


def test_unknown_names_and_none_are_left_out(client: sent.Recorded) -> None:
    """The host is the agent's to say."""
    track.request("m", client=client, host="h-9", prompt="secret", tenant=None).finish()

    assert said(client.sent[0]) == {"status": "ok", "model": "m"}


class Hostile:
    """Raises whenever it is looked at."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_values_that_cannot_be_said_raise_nothing(client: sent.Recorded) -> None:
    """They are left out or replaced; the request is reported."""
    track.request("m", client=client, tenant=Hostile()).finish()
    track.request("m", client=client, tenant="\ud800").finish()

    assert [said(data).get("tenant") for data in client.sent] == [None, "?"]


class Once:
    """Can be written as text one time."""

    def __init__(self) -> None:
        self.written = False

    def __str__(self) -> str:
        if self.written:
            raise RuntimeError
        self.written = True
        return "once"


@pytest.mark.parametrize("model", ["m", "m" * JSON_BYTES_MAX])
@pytest.mark.parametrize("left_out", [Hostile(), None], ids=["with another left out", "alone"])
def test_a_value_is_written_once(client: sent.Recorded, model: str, left_out: Any) -> None:
    """A second time it may raise, and cost the request."""
    track.report(client=client, slo_class=left_out, tenant=Once(), model=model)

    found = said(client.sent[0])
    assert (found["model"], found.get("slo_class")) == (model if model == "m" else model[:TEXT_CHARS_MAX], None)
    assert found.get("tenant", "once") == "once"


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), st.text(max_size=3_000), max_size=25))
def test_json_is_bounded_and_whole(fields: dict[str, str]) -> None:
    """However long the texts: JSON of at most so many bytes, with all names."""
    text = json_of(fields)

    assert len(text) <= JSON_BYTES_MAX
    assert set(json.loads(text)) == set(fields)


async def test_async_with_is_the_same(client: sent.Recorded) -> None:
    """A cancelled task ends its request as aborted."""

    async def body() -> None:
        async with track.request("m", client=client):
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert said(client.sent[0])["status"] == "aborted"


def test_a_report_is_all_that_others_measured(client: sent.Recorded) -> None:
    """No clock of its own."""
    track.report(client=client, at_ms=5, model="m", e2e_us=7, status="error")

    head = HEADER.unpack_from(client.sent[0])
    assert (head[4], head[11], head[12], head[13]) == (0, 5, 0, 0)
    assert said(client.sent[0]) == {"status": "error", "model": "m", "e2e_us": 7}


def test_numbers_of_other_types_stay_numbers(client: sent.Recorded) -> None:
    """Those of numpy; a float too, which the pipeline judges."""
    numbers = {"input_tokens": np.int64(812), "output_tokens": np.float32(1.5), "choices": True}
    track.request("m", client=client, tenant=np.str_("t"), slo_class=object, **numbers).finish()

    found = said(client.sent[0])
    assert [found[name] for name in ("input_tokens", "output_tokens", "tenant", "slo_class")] == [
        812,
        1.5,
        "t",
        "<class 'object'>",
    ]


def test_cutting_long_texts_leaves_numbers(client: sent.Recorded) -> None:
    """One text that is too long costs that text its end, not the request its tokens."""
    track.request("m" * 9_000, client=client, input_tokens=np.int64(812), output_tokens=64).finish()

    assert said(client.sent[0]) == {
        "status": "ok",
        "model": "m" * TEXT_CHARS_MAX,
        "input_tokens": 812,
        "output_tokens": 64,
    }


def test_numbers_without_end_are_cut_too() -> None:
    """The bound holds whatever the values are."""
    assert len(json_of({"model": "m" * 9_000, "input_tokens": 10**4_000, "tenant": ["t"] * 9_000})) <= JSON_BYTES_MAX


@pytest.mark.parametrize("choices", [1, 2, 3, 1_024])
def test_merging_keeps_the_tokens_of_each_choice(client: sent.Recorded, choices: int) -> None:
    """vLLM's choices take turns: neighbours of one choice are merged, not neighbours in time."""
    with track.request("m", client=client) as request:
        for number in range(3 * TIMES_MAX):
            request.token(choice=number % choices)

    buffer, ends = sent.together(client.sent)
    found = chunks_of(buffer, read(buffer, ends))
    which = np.zeros(len(found.at_ns), int) if found.choices is None else found.choices
    assert found.tokens is not None
    assert len(found.at_ns) < TIMES_MAX
    assert np.bincount(which, np.maximum(found.tokens, 1)).tolist() == [
        len(range(choice, 3 * TIMES_MAX, choices)) for choice in range(choices)
    ]
