from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource

from producers.otlp.proto_signals import spans_of_message
from producers.otlp.request_span import ATTRIBUTES, MOMENTS, span_of_request
from producers.otlp.semconv import request_of
from runtime.trace_context import Span, TraceContext
from runtime.trace_export import readable_span
from schemas.events.event_types import LLM_REQUESTS

SPAN, PARENT = TraceContext(0xAB << 120, 2), TraceContext(0xAB << 120, 1)
ROW: dict[str, Any] = {
    "at_ms": 1_700_000_001_500,
    "e2e_us": 1_500_250,
    "host": "h",
    "cluster": "c",
    "region": None,
    "origin": "measured",
    "reported_by": "otlp",
    "api": "chat",
    "model": "m",
    "model_version": "v",
    "precision": "fp8",
    "engine_id": "h:8000",
    "placement_group": "g",
    "tenant": "acme",
    "slo_class": "interactive",
    "request_id": "r-1",
    "trace_id": "ab" + "0" * 30,
    "status": "ok",
    "error_kind": None,
    "finish_reason": "stop",
    "http_status": 200,
    "start": "warm",
    "ttft_us": 250_000,
    "ttfo_us": 300_125,
    "tpot_us": 12_500,
    "queue_us": 50_000,
    "prefill_us": 200_000,
    "decode_us": 1_250_000,
    "input_tokens": 812,
    "cached_tokens": 100,
    "output_tokens": 101,
    "reasoning_tokens": 4,
    "choices": 2,
    "tokens_from": "engine",
}


def test_a_request_is_a_span() -> None:
    """Its begin and end to the microsecond, its engine and phases as attributes, its first tokens as events."""
    assert span_of_request(ROW, SPAN, PARENT) == Span(
        "chat m",
        "client",
        SPAN,
        PARENT,
        1_699_999_999_999.75,
        1_700_000_001_500,
        (),
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": "m",
            "gen_ai.request.id": "r-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.request.choice.count": 2,
            "gen_ai.usage.input_tokens": 812,
            "gen_ai.usage.output_tokens": 101,
            "gen_ai.usage.cache_read.input_tokens": 100,
            "gen_ai.usage.reasoning.output_tokens": 4,
            "gen_ai.latency.time_to_first_token": 0.25,
            "gen_ai.latency.time_in_queue": 0.05,
            "gen_ai.latency.time_in_model_prefill": 0.2,
            "gen_ai.latency.time_in_model_decode": 1.25,
            "http.response.status_code": 200,
            "fleetpulse.status": "ok",
            "fleetpulse.tokens_from": "engine",
            "fleetpulse.time_per_output_token": 0.0125,
            "fleetpulse.start": "warm",
            "fleetpulse.tenant": "acme",
            "fleetpulse.slo_class": "interactive",
            "fleetpulse.engine_id": "h:8000",
            "fleetpulse.placement_group": "g",
            "fleetpulse.model_version": "v",
            "fleetpulse.precision": "fp8",
            "fleetpulse.cluster": "c",
        },
        (("first_token", 1_700_000_000_249.75), ("first_output_token", 1_700_000_000_299.875)),
    )


def test_what_is_unknown_is_no_attribute() -> None:
    """And no event; a request that never reached an engine has neither."""
    row = {"at_ms": 7, "e2e_us": None, "model": "__unknown__", "api": None, "status": "ok"}

    found = span_of_request(row, SPAN, None)

    assert (found.name, found.start_ms, found.end_ms, found.moments) == ("generate_content __unknown__", 7, 7, ())
    assert found.attributes == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.response.model": "__unknown__",
        "fleetpulse.status": "ok",
    }


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ({"status": "rejected", "error_kind": "overload", "http_status": 429}, "429"),
        ({"status": "aborted", "error_kind": None, "http_status": 200}, "aborted"),
        ({"status": "error", "error_kind": "oom", "http_status": 200}, "oom"),
        ({"status": "timeout", "error_kind": "timeout", "http_status": None}, "timeout"),
    ],
)
def test_a_request_that_failed_is_a_span_that_failed(ending: dict[str, Any], kind: str) -> None:
    """By the HTTP status where that is an error, else by how it ended."""
    found = span_of_request(ROW | ending, SPAN, None)

    assert (found.failed, (found.attributes or {})["error.type"]) == (True, kind)


def test_what_went_out_comes_in_again() -> None:
    """Over the wire, by the module that reads spans: every figure that it knows of."""
    readable = readable_span(span_of_request(ROW, SPAN, PARENT), Resource({}))
    (span,) = spans_of_message(encode_spans([readable]))

    row = request_of(span, {"host": "h", "cluster": "c", "region": None})

    assert row == {name: ROW[name] for name in row}
    assert {"ttft_us", "queue_us", "decode_us", "cached_tokens", "engine_id", "http_status", "finish_reason"} <= set(
        row
    )


def test_the_fields_written_are_those_of_requests() -> None:
    """Each once."""
    names = {field.name for field in LLM_REQUESTS.fields} | {"model_requested"}

    assert {ours for _, ours, _ in ATTRIBUTES} | {ours for _, ours in MOMENTS} <= names
    assert len({theirs for theirs, _, _ in ATTRIBUTES}) == len(ATTRIBUTES)
