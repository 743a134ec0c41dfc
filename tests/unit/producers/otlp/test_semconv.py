from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.otlp.json_signals import CUMULATIVE, DELTA, STATUS_ERROR, Point, Span
from producers.otlp.points import SERIES_MAX, Points, address_of
from producers.otlp.semconv import Unmapped, is_of_engine, request_of, unmapped_names
from schemas.codec.build import block_from_rows
from schemas.events.event_types import ENGINE_SAMPLES, LLM_REQUESTS

LABELS = {"host": "h", "cluster": None, "region": None}
AT_NS = 1_700_000_000_000_000_000
CHAT = Span(
    "chat m",
    "ab" * 16,
    "cd" * 8,
    AT_NS,
    AT_NS + 1_500_000_000,
    {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-2",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["tool_calls", "stop"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "gen_ai.request.choice.count": 2,
    },
)
CHAT_ROW = {
    "at_ms": 1_700_000_001_500,
    "host": "h",
    "cluster": None,
    "region": None,
    "model": "m-2",
    "request_id": "chatcmpl-1",
    "trace_id": "ab" * 16,
    "api": "chat",
    "status": "ok",
    "error_kind": None,
    "finish_reason": "tool_calls",
    "http_status": None,
    "e2e_us": 1_500_000,
    "ttft_us": None,
    "tpot_us": None,
    "queue_us": None,
    "prefill_us": None,
    "decode_us": None,
    "input_tokens": 10,
    "output_tokens": 5,
    "cached_tokens": 4,
    "reasoning_tokens": 2,
    "choices": 2,
    "tokens_from": "engine",
    "engine_id": None,
    "reported_by": "otlp",
    "origin": "measured",
}


VLLM_SPAN = Span(
    "llm_request",
    "ab" * 16,
    "cd" * 8,
    AT_NS,
    AT_NS + 1_500_000_000,
    {
        "gen_ai.response.model": "m",
        "gen_ai.request.id": "r-1",
        "gen_ai.request.n": 1,
        "gen_ai.usage.prompt_tokens": 100,
        "gen_ai.usage.completion_tokens": 11,
        "gen_ai.latency.time_in_queue": 0.1,
        "gen_ai.latency.time_to_first_token": 0.4,
        "gen_ai.latency.e2e": 1.5,
        "gen_ai.latency.time_in_model_prefill": 0.3,
        "gen_ai.latency.time_in_model_decode": 1.1,
    },
)


def with_attributes(**more: Any) -> Span:
    return replace(
        CHAT, attributes={**CHAT.attributes, **{name.replace("__", "."): each for name, each in more.items()}}
    )


def test_a_span_of_a_chat_is_a_request() -> None:
    """Every field of it."""
    assert request_of(CHAT, LABELS) == CHAT_ROW


def test_the_engine_s_own_span_tells_its_phases() -> None:
    """By vLLM's names; time per token from the decode phase."""
    row = request_of(VLLM_SPAN, LABELS)

    latencies = {"ttft_us": 400_000, "queue_us": 100_000, "prefill_us": 300_000, "decode_us": 1_100_000}
    assert row == CHAT_ROW | latencies | {
        "model": "m",
        "request_id": "r-1",
        "api": "other",
        "finish_reason": None,
        "tpot_us": 110_000,
        "input_tokens": 100,
        "output_tokens": 11,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "choices": 1,
    }
    assert unmapped_names(VLLM_SPAN.attributes) == []


@pytest.mark.parametrize(
    ("kind", "code", "ending"),
    [
        (None, 0, ("ok", None)),
        (None, STATUS_ERROR, ("error", "other")),
        ("429", STATUS_ERROR, ("rejected", "overload")),
        ("RateLimitError", STATUS_ERROR, ("rejected", "overload")),
        ("openai.APITimeoutError", STATUS_ERROR, ("timeout", "timeout")),
        ("CancelledError", STATUS_ERROR, ("aborted", None)),
        ("torch.OutOfMemoryError", STATUS_ERROR, ("error", "oom")),
        ("400", 0, ("error", "client")),
        ("500", 0, ("error", "server")),
        ("APIConnectionError", STATUS_ERROR, ("error", "network")),
        ("_OTHER", STATUS_ERROR, ("error", "other")),
    ],
)
def test_the_ending_comes_from_the_error_s_type(kind: str | None, code: int, ending: tuple[str, str | None]) -> None:
    """An HTTP status, an exception's name or a word."""
    span = replace(with_attributes(error__type=kind) if kind else CHAT, status=code)

    row = request_of(span, LABELS)

    assert (row["status"], row["error_kind"]) == ending


@pytest.mark.parametrize(
    ("span", "broken"),
    [
        (with_attributes(gen_ai__operation__name="execute_tool"), False),
        (replace(CHAT, attributes={"http.method": "GET"}), False),
        (replace(CHAT, end_ns=AT_NS - 1), True),
        (replace(CHAT, start_ns=0), True),
        (replace(CHAT, end_ns=AT_NS + 3_600_000_000_001), True),
        (replace(CHAT, attributes={"gen_ai.operation.name": "chat"}), True),
    ],
    ids=["a tool", "no GenAI", "ends before it begins", "no begin", "above an hour", "no model"],
)
def test_what_is_no_request_is_told_from_what_is_broken(span: Span, broken: bool) -> None:
    """Neither becomes a row."""
    with pytest.raises(Unmapped) as raised:
        request_of(span, LABELS)

    assert raised.value.broken is broken


@pytest.mark.parametrize(
    ("attribute", "value", "field"),
    [
        ("gen_ai__usage__input_tokens", -1, "input_tokens"),
        ("gen_ai__usage__input_tokens", float("nan"), "input_tokens"),
        ("gen_ai__usage__input_tokens", "ten", "input_tokens"),
        ("gen_ai__usage__input_tokens", True, "input_tokens"),
        ("gen_ai__usage__input_tokens", 1.5, "input_tokens"),
        ("gen_ai__usage__cache_read__input_tokens", 11, "cached_tokens"),
        ("gen_ai__usage__reasoning__output_tokens", 6, "reasoning_tokens"),
        ("gen_ai__latency__time_to_first_token", 1.6, "ttft_us"),
        ("http__response__status_code", 42, "http_status"),
    ],
)
def test_a_figure_that_cannot_be_is_unknown(attribute: str, value: Any, field: str) -> None:
    """The rest of the request stays."""
    row = request_of(with_attributes(**{attribute: value}), LABELS)

    assert row[field] is None
    assert row["e2e_us"] == 1_500_000


def test_attributes_nobody_takes_are_named() -> None:
    """Those of GenAI alone."""
    span = with_attributes(gen_ai__request__temperature=0.5, server__port=80)

    assert unmapped_names(span.attributes) == ["gen_ai.request.temperature"]
    assert request_of(span, LABELS) == CHAT_ROW


@pytest.mark.parametrize(
    ("span", "ttft_us"),
    [
        (with_attributes(gen_ai__response__time_to_first_chunk=0.1), 100_000),
        (
            with_attributes(gen_ai__response__time_to_first_chunk=0.1, gen_ai__latency__time_to_first_token=0.2),
            200_000,
        ),
        (replace(CHAT, events=(("First Token Stream Event", AT_NS + 7_000),)), 7),
        (
            replace(
                CHAT,
                events=(
                    ("exception", AT_NS + 1_000),
                    ("llm.content.completion.chunk", AT_NS + 9_000),
                    ("llm.content.completion.chunk", AT_NS + 8_000),
                ),
            ),
            8,
        ),
        (replace(CHAT, events=(("First Token Stream Event", AT_NS - 1),)), None),
        (replace(CHAT, events=(("First Token Stream Event", CHAT.end_ns + 1_000),)), None),
    ],
    ids=["first chunk", "an engine's word first", "OpenInference", "OpenLLMetry", "before the span", "after it"],
)
def test_the_first_chunk_is_the_first_token_where_only_the_client_measured(span: Span, ttft_us: int | None) -> None:
    """By its attribute, else by the first event that is a chunk; never outside the span."""
    assert request_of(span, LABELS) == CHAT_ROW | {"ttft_us": ttft_us}


OPEN_INFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.system": "openai",
    "llm.model_name": "m",
    "llm.token_count.prompt": 10,
    "llm.token_count.completion": 5,
    "llm.token_count.total": 15,
    "llm.token_count.prompt_details.cache_read": 4,
    "llm.token_count.completion_details.reasoning": 2,
}
OPEN_LLMETRY = {
    "llm.request.type": "chat",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.openai.api_base": "http://engine:8000/v1",
    "gen_ai.usage.prompt_tokens": 10,
    "gen_ai.usage.completion_tokens": 5,
    "gen_ai.usage.cache_read_input_tokens": 4,
    "gen_ai.usage.reasoning_tokens": 2,
}


@pytest.mark.parametrize(
    ("attributes", "api"),
    [(OPEN_INFERENCE, "other"), (OPEN_LLMETRY, "chat")],
    ids=["OpenInference", "OpenLLMetry"],
)
def test_spans_of_other_instrumentations_are_requests(attributes: dict[str, Any], api: str) -> None:
    """By their documented names; they are a client's spans, not an engine's."""
    span = replace(CHAT, attributes=attributes)
    ours = {"model": "m", "request_id": f"{CHAT.trace_id}-{CHAT.span_id}", "finish_reason": None, "choices": None}

    assert request_of(span, LABELS) == CHAT_ROW | ours | {"api": api}
    assert not is_of_engine(span)


@pytest.mark.parametrize(
    "attributes",
    [OPEN_INFERENCE | {"openinference.span.kind": "CHAIN"}, OPEN_LLMETRY | {"llm.request.type": "rerank"}],
    ids=["a chain", "a reranking"],
)
def test_other_spans_of_other_instrumentations_are_none(attributes: dict[str, Any]) -> None:
    """What contains a request would count it twice."""
    with pytest.raises(Unmapped) as raised:
        request_of(replace(CHAT, attributes=attributes), LABELS)

    assert not raised.value.broken


def test_an_engine_is_named_by_the_span_or_its_resource() -> None:
    """``fleetpulse.engine_id``; the span's own goes first."""
    of_resource = replace(CHAT, resource={"fleetpulse.engine_id": "e"})
    of_span = replace(of_resource, attributes={**CHAT.attributes, "fleetpulse.engine_id": "own"})

    assert [request_of(span, LABELS)["engine_id"] for span in (of_resource, of_span)] == ["e", "own"]


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))


@given(
    st.dictionaries(st.sampled_from([*CHAT.attributes, "gen_ai.latency.time_in_queue", "error.type"]), values),
    st.integers(-5, 2**63),
    st.integers(-5, 2**63),
)
def test_any_span_becomes_a_row_that_fits_or_none(attributes: dict[str, Any], start_ns: int, end_ns: int) -> None:
    """Whatever its attributes are."""
    try:
        row = request_of(Span("s", "", "1", start_ns, end_ns, attributes), LABELS)
    except Unmapped:
        return

    assert block_from_rows(LLM_REQUESTS.fields, [row]).rows == 1


def tokens(at_s: float, total: float, *, kind: str = "input", temporality: int = DELTA, start_s: float = 0.0) -> Point:
    attributes = {"gen_ai.token.type": kind, "gen_ai.request.model": "m", "server.address": "e", "server.port": 8000}
    start_ns, at_ns = AT_NS + round(start_s * 10**9), AT_NS + round(at_s * 10**9)
    return Point("gen_ai.client.token.usage", start_ns, at_ns, temporality, 3, total, attributes)


def row(at_s: float, interval_ms: int, **amounts: int) -> dict[str, Any]:
    about = {"at_ms": AT_NS // 10**6 + round(at_s * 1_000), "model": "m", "origin": "measured"}
    return LABELS | about | {"interval_ms": interval_ms} | amounts


def test_delta_points_are_samples_as_they_are() -> None:
    """Tokens in and out, with the time they cover."""
    points = Points(LABELS)

    assert points.sample_of(tokens(1, 70.0)) == row(1, 1_000, prompt_tokens=70)
    assert points.sample_of(tokens(2, 7.0, kind="output", start_s=1)) == row(2, 1_000, generation_tokens=7)


def test_cumulative_points_become_differences() -> None:
    """The first says nothing, a restart begins at 0, what comes again or late says nothing."""
    points = Points(LABELS)
    seen = [
        points.sample_of(tokens(at_s, total, temporality=CUMULATIVE, start_s=start_s))
        for at_s, total, start_s in (
            (1, 70, 0),
            (2, 100, 0),
            (2, 100, 0),
            (1.5, 80, 0),
            (3, 100, 0),
            (5, 8, 4),
            (6, 9, 4),
        )
    ]

    assert seen == [
        None,
        row(2, 1_000, prompt_tokens=30),
        None,
        None,
        row(3, 1_000, prompt_tokens=0),
        row(5, 1_000, prompt_tokens=8),
        row(6, 1_000, prompt_tokens=1),
    ]


def test_processes_that_share_a_name_are_series_of_their_own() -> None:
    """By their start: what one had counted when the other is seen first is never counted again. One that begins after
    another ended counts from 0; so does what another instrumentation measured by itself."""
    points = Points(LABELS)
    seen = [
        points.sample_of(replace(tokens(at_s, total, temporality=CUMULATIVE, start_s=start_s), scope=(scope, "1")))
        for at_s, total, start_s, scope in (
            (60, 1_000, 0, "a"),
            (61, 500, 1, "a"),
            (62, 300, 1, "b"),
            (120, 1_010, 0, "a"),
            (121, 520, 1, "a"),
            (122, 303, 1, "b"),
            (123, 7, 120.5, "a"),
            (124, 8, 121, "a"),
        )
    ]

    assert [each and each["prompt_tokens"] for each in seen] == [None, None, None, 10, 20, 3, 7, 8]
    assert [each and each["interval_ms"] for each in seen[3:]] == [60_000] * 3 + [2_500, 3_000]


def test_finished_requests_are_the_count_of_durations() -> None:
    """Whatever they sum up to."""
    point = replace(tokens(1, 2.5), metric="gen_ai.server.request.duration")

    assert Points(LABELS).sample_of(point) == row(1, 1_000, finished_requests=3)


@pytest.mark.parametrize(
    ("point", "broken"),
    [
        (replace(tokens(1, 1.0), metric="gen_ai.server.time_to_first_token"), False),
        (tokens(1, 1.0, kind="audio"), False),
        (tokens(1, float("nan")), True),
        (tokens(1, -1.0), True),
        (replace(tokens(1, 1.0), total=None), True),
        (tokens(1, 1.0, temporality=0), True),
        (tokens(1, 1.0, start_s=2), True),
        (tokens(3_601, 1.0), True),
    ],
    ids=["a latency", "other tokens", "NaN", "negative", "no sum", "no temporality", "backwards", "above an hour"],
)
def test_points_that_become_no_sample(point: Point, broken: bool) -> None:
    """Either not mapped, or broken."""
    with pytest.raises(Unmapped) as raised:
        Points(LABELS).sample_of(point)

    assert raised.value.broken is broken


def test_the_series_remembered_are_bounded() -> None:
    """The one not seen for longest is forgotten and restarts."""
    points = Points(LABELS)
    first = tokens(1, 1.0, temporality=CUMULATIVE)

    points.sample_of(first)
    for number in range(SERIES_MAX):
        points.sample_of(replace(first, attributes={**first.attributes, "server.address": str(number)}))

    assert points.sample_of(tokens(2, 5.0, temporality=CUMULATIVE)) is None


def test_the_address_of_an_engine() -> None:
    """With its port, where there is one."""
    assert address_of({"server.address": "e"}) == "e"
    assert address_of({"server.address": "e", "server.port": 8000}) == "e:8000"
    assert address_of({"server.address": "fd00::7", "server.port": 8000}) == "[fd00::7]:8000"
    assert address_of({"server.address": "[fd00::7]", "server.port": 8000}) == "[fd00::7]:8000"
    assert address_of({"server.port": 1}) is None
    assert address_of({"gen_ai.openai.api_base": "http://e:8000/v1"}) == "e:8000"
    assert address_of({"gen_ai.openai.api_base": "https://e/v1"}) == "e:443"
    assert address_of({"gen_ai.openai.api_base": "http://e:nine/v1"}) is None
    assert address_of({"gen_ai.openai.api_base": "e"}) is None
    assert block_from_rows(ENGINE_SAMPLES.fields, [row(1, 5, prompt_tokens=1)]).rows == 1
