"""The span of a request: a finished row of ``llm.requests`` in the names of ``producers.otlp.semconv``. Pure.

What that module reads of a span, this one writes, so that a request that went out comes in again as it was. Latencies
that an engine reported are attributes, by vLLM's names: how long they took is known, not when they began. What the
conventions have no word for begins with ``fleetpulse.``. Text of prompts and answers is in no row, and so in no span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from producers.collector import Row
from producers.otlp.semconv import APIS
from runtime.trace_context import Attribute, Span, TraceContext

_OPERATIONS: Mapping[str, str] = {ours: theirs for theirs, ours in APIS.items()} | {"responses": "chat"}


def _seconds(value: Any) -> Attribute:
    return float(value / 1_000_000)


def _same(value: Any) -> Attribute:
    return value


def _several(value: Any) -> Attribute:
    return (str(value),)


ATTRIBUTES: tuple[tuple[str, str, Callable[[Any], Attribute]], ...] = (
    ("gen_ai.request.model", "model_requested", _same),
    ("gen_ai.response.model", "model", _same),
    ("gen_ai.request.id", "request_id", _same),
    ("gen_ai.response.finish_reasons", "finish_reason", _several),
    ("gen_ai.request.choice.count", "choices", _same),
    ("gen_ai.usage.input_tokens", "input_tokens", _same),
    ("gen_ai.usage.output_tokens", "output_tokens", _same),
    ("gen_ai.usage.cache_read.input_tokens", "cached_tokens", _same),
    ("gen_ai.usage.reasoning.output_tokens", "reasoning_tokens", _same),
    ("gen_ai.latency.time_to_first_token", "ttft_us", _seconds),
    ("gen_ai.latency.time_in_queue", "queue_us", _seconds),
    ("gen_ai.latency.time_in_model_prefill", "prefill_us", _seconds),
    ("gen_ai.latency.time_in_model_decode", "decode_us", _seconds),
    ("http.response.status_code", "http_status", _same),
    ("fleetpulse.status", "status", _same),
    ("fleetpulse.tokens_from", "tokens_from", _same),
    ("fleetpulse.time_per_output_token", "tpot_us", _seconds),
    ("fleetpulse.start", "start", _same),
    ("fleetpulse.tenant", "tenant", _same),
    ("fleetpulse.slo_class", "slo_class", _same),
    ("fleetpulse.engine_id", "engine_id", _same),
    ("fleetpulse.placement_group", "placement_group", _same),
    ("fleetpulse.model_version", "model_version", _same),
    ("fleetpulse.precision", "precision", _same),
    ("fleetpulse.cluster", "cluster", _same),
    ("fleetpulse.region", "region", _same),
)
"""The attribute, our field, and how its value is written. A field that is unknown is no attribute."""
MOMENTS = (("first_token", "ttft_us"), ("first_output_token", "ttfo_us"))
"""Events: their name, and our field for how long after the start they came."""


def span_of_request(row: Row, span: TraceContext, parent: TraceContext | None) -> Span:
    """The span ``span`` of a row that has its end (``at_ms``) and its duration."""
    start_ms = row["at_ms"] - (row.get("e2e_us") or 0) / 1_000
    operation = _OPERATIONS.get(str(row.get("api")), "generate_content")
    attributes: dict[str, Attribute] = {"gen_ai.operation.name": operation}
    attributes |= {name: write(row[ours]) for name, ours, write in ATTRIBUTES if row.get(ours) is not None}
    failed = row.get("status") != "ok"
    if failed:
        attributes["error.type"] = _error_type(row)
    moments = tuple((name, start_ms + row[ours] / 1_000) for name, ours in MOMENTS if row.get(ours) is not None)
    name = f"{operation} {row.get('model')}"
    return Span(name, "client", span, parent, start_ms, row["at_ms"], (), attributes, moments, failed)


def _error_type(row: Row) -> str:
    """The HTTP status where that is an error, else what kind of end it was."""
    http_status = row.get("http_status")
    if http_status is not None and http_status >= 400:
        return str(http_status)
    return str(row.get("error_kind") or row.get("status"))
