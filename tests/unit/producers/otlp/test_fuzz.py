"""Anything at all, as a body of OTLP: rows that fit, or one kind of error."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.agent.publishing import Parcel
from producers.otlp.http_server import unpacked
from producers.otlp.intake import Intake
from producers.otlp.json_signals import Unreadable, points_of_json, spans_of_json
from producers.otlp.proto_signals import points_of_proto, spans_of_proto
from producers.otlp.semconv import KNOWN
from runtime.http_server import Refused

NAMES = st.sampled_from(
    [
        *("resourceSpans", "scopeSpans", "spans", "resourceMetrics", "scopeMetrics", "metrics", "histogram", "sum"),
        *(
            "dataPoints",
            "attributes",
            "resource",
            "key",
            "value",
            "stringValue",
            "intValue",
            "doubleValue",
            "arrayValue",
        ),
        *("values", "name", "traceId", "spanId", "startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "status"),
        *("code", "count", "asInt", "aggregationTemporality"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([*sorted(KNOWN), "gen_ai.client.token.usage", "input", "1700000000000000000", "-1", "1e400", ""]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=25,
)


def taken(body: bytes, *, json: bool) -> None:
    """Take a body as spans and as points; what comes of it must be batches that were encoded."""
    parcels: list[Parcel] = []
    intake = Intake({"host": "h"}, lambda parcel: parcels.append(parcel) is None)
    for take, read in (
        (intake.traces, spans_of_json if json else spans_of_proto),
        (intake.metrics, points_of_json if json else points_of_proto),
    ):
        try:
            take(list(read(body)))  # type: ignore[operator]
        except Unreadable:
            continue
    assert all(parcel.batches for parcel in parcels)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_protobuf_request_or_unreadable(body: bytes) -> None:
    """Of either kind."""
    taken(body, json=False)


@settings(max_examples=40)
@given(TREES)
def test_any_json_is_a_request_or_unreadable(tree: Any) -> None:
    """Of either kind."""
    taken(orjson.dumps(tree), json=True)


@settings(max_examples=40)
@given(TREES, TREES)
def test_any_json_inside_the_frame_of_a_request_is_taken_or_unreadable(span: Any, attribute: Any) -> None:
    """Where a span, a point or an attribute stands."""
    spans = [span, {"attributes": [attribute, {"key": "gen_ai.request.model", "value": attribute}]}]
    taken(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), json=True)
    metrics = [{"name": "gen_ai.client.token.usage", "sum": {"dataPoints": spans}}]
    taken(orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}), json=True)


@pytest.mark.parametrize("depth", [1, 100, 300, 5_000])
def test_nesting_without_end_is_taken_or_unreadable(depth: int) -> None:
    """An array inside an array, again and again."""
    value = b'{"arrayValue":{"values":[' * depth + b'{"stringValue":"x"}' + b"]}}" * depth
    attribute = b'{"key":"a","value":' + value + b"}"

    taken(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[' + attribute + b"]}]}]}]}", json=True)


@given(st.binary(max_size=200))
def test_any_bytes_unpack_within_the_bound_or_are_refused(body: bytes) -> None:
    """Whatever they claim to be."""
    try:
        plain = unpacked(body, "gzip", 1_000)
    except Refused:
        return

    assert len(plain) <= 1_000
