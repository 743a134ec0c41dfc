"""Maps GenAI spans to rows of ``llm.requests``, by a pinned version of OpenTelemetry's semantic conventions. Pure.

Sources: semantic conventions 1.44.0, gen-ai (https://opentelemetry.io/docs/specs/semconv/gen-ai/, status development),
with the names before 1.28 (``prompt_tokens``); what vLLM writes on its own spans (vllm/tracing.py); OpenLLMetry
(opentelemetry-semantic-conventions-ai: ``llm.request.type``); OpenInference
(https://arize-ai.github.io/openinference/spec/attributes/semantic-conventions.html). Names change while the
conventions are in flux: this module is the only place that knows them.

TTFT is what an engine says it is; where only the client measured, that of its first chunk (an attribute, else the
moment of the first event of ``FIRST_CHUNK_EVENTS``), be it an empty role chunk: at most the engine's step too early.
Tokens of the cache and of reasoning are *inside* the totals, as they are with us.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from producers.collector import Row
from producers.otlp.json_signals import STATUS_ERROR, Attributes, Span, Value
from producers.requests.endings import finish_reason_of
from producers.requests.tracker import MODEL_UNKNOWN

SEMCONV_VERSION = "1.44.0"
MINUTE_NS = 60_000_000_000

APIS = {"chat": "chat", "text_completion": "completions", "embeddings": "embeddings", "generate_content": "other"}
"""``gen_ai.operation.name`` of spans that are requests -> our ``api``. Tools, agents and retrievals are none."""
OTHER_APIS = (
    ("llm.request.type", {"chat": "chat", "completion": "completions", "embedding": "embeddings"}),
    ("openinference.span.kind", {"LLM": "other", "EMBEDDING": "embeddings"}),
)
"""The same of OpenLLMetry and OpenInference, where there is no ``gen_ai.operation.name``."""
FIRST_CHUNK_EVENTS = frozenset({"First Token Stream Event", "llm.content.completion.chunk"})
"""Events that OpenInference puts into a span at the first chunk of a stream, OpenLLMetry at every one."""

ENDINGS: tuple[tuple[re.Pattern[str], str, str | None], ...] = (
    (re.compile(r"^(429|503)$|rate.?limit|overload|too.?many|resource.?exhausted", re.I), "rejected", "overload"),
    (re.compile(r"^(408|504)$|time.?out|deadline", re.I), "timeout", "timeout"),
    (re.compile(r"cancel|abort|disconnect", re.I), "aborted", None),
    (re.compile(r"out.?of.?memory|\boom\b", re.I), "error", "oom"),
    (re.compile(r"^4\d\d$|bad.?request|invalid|authentication|permission|not.?found", re.I), "error", "client"),
    (re.compile(r"connect|network|socket|dns", re.I), "error", "network"),
    (re.compile(r"^5\d\d$|server|internal", re.I), "error", "server"),
)
"""``error.type`` (an HTTP status, an exception's name, a word) -> our status and error_kind; the first that fits."""


USERS = ("user.id", "enduser.id", "llm.user")
"""Attributes that name a request's user: OpenTelemetry's (OpenInference has the first of them), then OpenLLMetry's."""


class Unmapped(Exception):
    """A span or point that becomes no row. ``broken``: it should have, but contradicts itself or lacks a need."""

    def __init__(self, why: str, *, broken: bool) -> None:
        super().__init__(why)
        self.broken = broken


def _whole(value: Value) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:
        return None
    return round(value) if float(value).is_integer() else None


def _seconds_us(value: Value) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3_600:
        return None
    return round(value * 1_000_000)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None


Read = Callable[[Value], Any]

FIELDS: tuple[tuple[str, tuple[str, ...], Read], ...] = (
    ("model", ("gen_ai.response.model", "llm.response.model_name", "gen_ai.request.model", "llm.model_name"), _text),
    ("request_id", ("gen_ai.request.id", "gen_ai.response.id"), _text),
    ("engine_id", ("fleetpulse.engine_id",), _text),
    ("input_tokens", ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"), _whole),
    (
        "output_tokens",
        ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
        _whole,
    ),
    (
        "cached_tokens",
        (
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "llm.token_count.prompt_details.cache_read",
        ),
        _whole,
    ),
    (
        "reasoning_tokens",
        (
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.reasoning_tokens",
            "llm.token_count.completion_details.reasoning",
        ),
        _whole,
    ),
    ("choices", ("gen_ai.request.choice.count", "gen_ai.request.n"), _whole),
    ("http_status", ("http.response.status_code",), _whole),
    ("ttft_us", ("gen_ai.latency.time_to_first_token", "gen_ai.response.time_to_first_chunk"), _seconds_us),
    ("queue_us", ("gen_ai.latency.time_in_queue",), _seconds_us),
    ("prefill_us", ("gen_ai.latency.time_in_model_prefill",), _seconds_us),
    ("decode_us", ("gen_ai.latency.time_in_model_decode",), _seconds_us),
)
"""Our field, the attributes it may come from (the first that is there), and how the value is read."""

_ELSEWHERE = {
    "gen_ai.operation.name",
    "gen_ai.response.finish_reasons",
    "gen_ai.request.model",
    "error.type",
    "gen_ai.latency.e2e",
    "gen_ai.openai.api_base",
}
KNOWN = frozenset(name for _, names, _ in FIELDS for name in names) | _ELSEWHERE


def request_of(span: Span, labels: Attributes) -> Row:
    """The request that a span describes. ``labels`` are the host's. Raises ``Unmapped``."""
    attributes = span.attributes
    api = _api(span)
    if not 0 < span.start_ns <= span.end_ns or span.end_ns - span.start_ns > 60 * MINUTE_NS:
        raise Unmapped("times that contradict themselves", broken=True)
    row: Row = dict(labels) | {name: _first(attributes, names, read) for name, names, read in FIELDS}
    if row["model"] is None:
        raise Unmapped("no model", broken=True)
    if row["model"] == MODEL_UNKNOWN:  # a span of ours that came back
        row["model_requested"] = _first(attributes, ("gen_ai.request.model",), _text)
    row["request_id"] = row["request_id"] or f"{span.trace_id}-{span.span_id}"
    row["engine_id"] = row["engine_id"] or _first(span.resource, ("fleetpulse.engine_id",), _text)
    row["ttft_us"] = _first_chunk_us(span) if row["ttft_us"] is None else row["ttft_us"]
    row |= {"at_ms": span.end_ns // 1_000_000, "e2e_us": (span.end_ns - span.start_ns) // 1_000, "api": api}
    row |= {
        "origin": "measured",
        "reported_by": "otlp",
        "trace_id": span.trace_id or None,
        "finish_reason": _finish(attributes),
    }
    if row["output_tokens"] is not None:
        row["tokens_from"] = "engine"
    return _consistent(row) | _ending(span, row["http_status"])


def is_of_engine(span: Span) -> bool:
    """Whether it is an engine's own span (vLLM's), which has usage and no operation."""
    names = span.attributes
    operation = "gen_ai.operation.name" in names or any(name in names for name, _ in OTHER_APIS)
    return not operation and any(name.startswith("gen_ai.usage.") for name in names)


def text_of(span: Span, names: Iterable[str]) -> str | None:
    """The first of these attributes that is a text, of the span or else of its resource."""
    return _first(span.attributes, names, _text) or _first(span.resource, names, _text)


def user_of(span: Span) -> str | None:
    """The user that a span names; not its resource, which is a program."""
    return _first(span.attributes, USERS, _text)


def _api(span: Span) -> str:
    if is_of_engine(span):
        return "other"
    for name, apis in (("gen_ai.operation.name", APIS), *OTHER_APIS):
        if name in span.attributes:
            api = apis.get(str(span.attributes[name]))
            if api is not None:
                return api
            break
    raise Unmapped("no LLM request", broken=False)


def _first_chunk_us(span: Span) -> int | None:
    """From the span's start to the first event that is a chunk."""
    times = [at_ns for name, at_ns in span.events if name in FIRST_CHUNK_EVENTS and span.start_ns <= at_ns]
    return (min(times) - span.start_ns) // 1_000 if times else None


def _first(attributes: Attributes, names: Iterable[str], read: Read) -> Any:
    found = (read(attributes[name]) for name in names if name in attributes)
    return next((value for value in found if value is not None), None)


def _finish(attributes: Attributes) -> str | None:
    reasons = attributes.get("gen_ai.response.finish_reasons")
    first = reasons[0] if isinstance(reasons, list) and reasons else reasons
    return finish_reason_of(first) if isinstance(first, str) else None


def _consistent(row: Row) -> Row:
    """The row without values that contradict others, and with the time per token where it can be computed."""
    for part, whole in (("cached_tokens", "input_tokens"), ("reasoning_tokens", "output_tokens")):
        if row[part] is not None and row[whole] is not None and row[part] > row[whole]:
            row[part] = None
    for name in ("ttft_us", "queue_us", "prefill_us", "decode_us"):
        if row[name] is not None and row[name] > row["e2e_us"]:
            row[name] = None
    status = row["http_status"]
    row["http_status"] = status if status is not None and 100 <= status <= 599 else None
    tokens, decode_us = row["output_tokens"], row["decode_us"]
    row["tpot_us"] = None if decode_us is None or tokens is None or tokens < 2 else decode_us // (tokens - 1)
    return row


def _ending(span: Span, http_status: int | None) -> Row:
    kind = span.attributes.get("error.type")
    if kind is None and span.status != STATUS_ERROR and (http_status is None or http_status < 400):
        return {"status": "ok", "error_kind": None}
    text = str(kind) if kind is not None else str(http_status or "")
    for pattern, status, error_kind in ENDINGS:
        if pattern.search(text):
            return {"status": status, "error_kind": error_kind}
    return {"status": "error", "error_kind": "other"}


def unmapped_names(attributes: Attributes) -> list[str]:
    """The GenAI attributes of a span that are mapped to no field."""
    return [name for name in attributes if name.startswith("gen_ai.") and name not in KNOWN]
