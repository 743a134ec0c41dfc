from __future__ import annotations

import gzip
import http.client
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from producers.agent.publishing import Parcel
from producers.identity.directory import Directory
from producers.identity.joiner import Joiner
from producers.otlp.http_server import JSON, PROTOBUF, OtlpHttp, unpacked
from producers.otlp.intake import NAMES_MAX, OTHER, Answer, Full, Intake, Unkept
from producers.otlp.json_signals import Point, Span, Unreadable, points_of_json, spans_of_json
from producers.otlp.proto_signals import points_of_proto, spans_of_proto
from runtime.counters import Counters
from runtime.http_server import Refused
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.contract.engines import Engine
from schemas.events.event_types import LLM_REQUESTS
from tests.unit.producers.otlp.test_semconv import AT_NS, CHAT, LABELS, tokens

BYTES_MAX = 20_000


def attribute(name: str, value: Any) -> dict[str, Any]:
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    if isinstance(value, list):
        return {"key": name, "value": {"arrayValue": {"values": [attribute("", each)["value"] for each in value]}}}
    plain = str(value) if type(value) is int else value
    return {"key": name, "value": {kinds[type(value)]: plain}}


def span_json(span: Span) -> dict[str, Any]:
    return {
        "name": span.name,
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": [attribute(name, value) for name, value in span.attributes.items()],
        "status": {"code": span.status} if span.status else {},
        "events": [{"name": name, "timeUnixNano": str(at_ns)} for name, at_ns in span.events],
    }


def traces_json(*spans: Span) -> bytes:
    resource = {"attributes": [attribute("service.name", "app")]}
    scopes = [{"scope": {"name": "x"}, "spans": [span_json(span) for span in spans]}]
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]})


def traces_proto(*spans: Span) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    fill(resource.resource, {"service.name": "app"})
    scope = resource.scope_spans.add()
    for span in spans:
        made = scope.spans.add(
            name=span.name,
            trace_id=bytes.fromhex(span.trace_id),
            span_id=bytes.fromhex(span.span_id),
            start_time_unix_nano=span.start_ns,
            end_time_unix_nano=span.end_ns,
        )
        made.status.code = span.status  # type: ignore[assignment]
        fill(made, span.attributes)
        for name, at_ns in span.events:
            made.events.add(name=name, time_unix_nano=at_ns)
    return request.SerializeToString()


def fill(message: Any, attributes: Any) -> None:
    for name, value in attributes.items():
        kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
        made = message.attributes.add(key=name).value
        if isinstance(value, list):
            for each in value:
                made.array_value.values.add(string_value=each)
        else:
            setattr(made, kinds[type(value)], value)


def test_both_encodings_tell_the_same_spans() -> None:
    """Attributes of every kind, ids, times, resource."""
    span = Span(
        "chat",
        "0a" * 16,
        "0b" * 8,
        AT_NS,
        AT_NS + 5,
        {"s": "text", "i": 2**40, "d": 0.5, "b": True, "list": ["a", "b"]},
        {"service.name": "app"},
        2,
        (("First Token Stream Event", AT_NS + 1),),
    )

    assert list(spans_of_json(traces_json(span))) == list(spans_of_proto(traces_proto(span))) == [span]


def test_both_encodings_tell_the_same_points() -> None:
    """Histograms and sums; a summary has a sum but no temporality."""
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    scope.scope.name, scope.scope.version = "meter", "1.2"
    histogram = scope.metrics.add(name="h", unit="ms").histogram
    histogram.aggregation_temporality = 1  # type: ignore[assignment]
    histogram.data_points.add(start_time_unix_nano=1, time_unix_nano=2, count=3, sum=4.5)
    total = scope.metrics.add(name="s").sum
    total.aggregation_temporality = 2  # type: ignore[assignment]
    total.is_monotonic = True
    total.data_points.add(start_time_unix_nano=1, time_unix_nano=2, as_int=7)
    times = {"startTimeUnixNano": "1", "timeUnixNano": "2"}
    metrics = [
        {
            "name": "h",
            "unit": "ms",
            "histogram": {"aggregationTemporality": 1, "dataPoints": [times | {"count": "3", "sum": 4.5}]},
        },
        {
            "name": "s",
            "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [times | {"asInt": "7"}]},
        },
    ]
    scopes = [{"scope": {"name": "meter", "version": "1.2"}, "metrics": metrics}]
    body = orjson.dumps({"resourceMetrics": [{"scopeMetrics": scopes}]})

    about = ("meter", "1.2")
    points = [
        Point("h", 1, 2, 1, 3, 4.5, {}, kind="histogram", unit="ms", scope=about),
        Point("s", 1, 2, 2, 0, 7.0, {}, kind="sum", monotonic=True, scope=about),
    ]
    assert list(points_of_json(body)) == list(points_of_proto(request.SerializeToString())) == points


def test_points_without_a_value_are_none_in_both_encodings() -> None:
    """They mark the end of a series: no zero, and nothing that could be broken."""
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    metrics = []
    for kind, json_kind in _KINDS_OF_POINTS.items():
        made = getattr(scope.metrics.add(name=kind), kind).data_points
        made.add(start_time_unix_nano=1, time_unix_nano=2, flags=3)
        made.add(start_time_unix_nano=1, time_unix_nano=2, flags=2)
        times = {"startTimeUnixNano": "1", "timeUnixNano": "2"}
        both = [times | {"flags": 3}, times | {"flags": 2}]
        metrics.append({"name": kind, json_kind: {"dataPoints": both}})
    body = orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]})

    for points in (points_of_json(body), points_of_proto(request.SerializeToString())):
        assert [each.kind for each in points] == list(_KINDS_OF_POINTS)


_KINDS_OF_POINTS = {
    "gauge": "gauge",
    "sum": "sum",
    "histogram": "histogram",
    "exponential_histogram": "exponentialHistogram",
    "summary": "summary",
}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"resourceSpans": 3}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "x"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"endTimeUnixNano": 1e300, "status": 1}]}]}]}',
        b'{"resourceSpans": [{"resource": [], "scopeSpans": 1}]}',
    ],
)
def test_json_that_is_no_request_is_unreadable(body: bytes) -> None:
    """One error, whatever is wrong."""
    with pytest.raises(Unreadable):
        list(spans_of_json(body))


@pytest.mark.parametrize("name", ["name", "unit"])
def test_a_metric_whose_name_is_nested_deep_is_unreadable(name: str) -> None:
    """It can be read and not written as text: one error, too."""
    deep = b"[" * 1_000 + b"]" * 1_000
    metric = b'{"%s": %s, "sum": {"dataPoints": [{}]}}' % (name.encode(), deep)
    with pytest.raises(Unreadable):
        list(points_of_json(b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [%s]}]}]}' % metric))


def test_bytes_turned_over_are_unreadable_or_fit() -> None:
    """A thousand damaged bodies of either encoding raise nothing else; some of each are the one, some the other."""
    chance = random.Random(3)
    for whole, read in ((traces_json(CHAT), spans_of_json), (traces_proto(CHAT), spans_of_proto)):
        unreadable = 0
        for _ in range(500):
            body = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                body[chance.randrange(len(body))] = chance.randrange(256)
            intake = Intake(LABELS, lambda _parcel: True)
            try:
                intake.traces(read(bytes(body[: chance.choice([len(body), chance.randrange(len(body))])])))
            except Unreadable:
                unreadable += 1
        assert 0 < unreadable < 500, read


def test_what_is_not_kept_is_counted_by_name_up_to_a_number_of_names() -> None:
    """The rest share one name."""
    unkept = Unkept(names_max=2)

    for name in ("a", "b", "c", "a", "d"):
        unkept.add("metric", name)

    assert unkept.counts() == {"metric:a": 2, "metric:b": 1, OTHER: 2}
    assert NAMES_MAX == 256


def test_a_batch_is_taken_whole_and_broken_parts_are_told() -> None:
    """Good spans go on; tools are counted; a broken one is rejected."""
    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None)
    tool = Span("t", "", "", AT_NS, AT_NS, {"gen_ai.operation.name": "execute_tool"})
    broken = Span("b", "", "", AT_NS, AT_NS, {"gen_ai.operation.name": "chat"})

    answer = intake.traces([CHAT, tool, broken, CHAT])

    assert answer == Answer(1, "chat: no model")
    assert [parcel.events() for parcel in taken] == [[("llm.requests", 2)]]
    assert intake.unkept.counts() == {"span:execute_tool": 1, "broken span:chat": 1}


def test_what_is_not_kept_is_among_the_figures_of_the_process() -> None:
    """By kind and name, each once, however many batches brought it; names beyond the bound share one."""
    counters = Counters()
    intake = Intake(LABELS, lambda _parcel: True, counters)
    tool = Span("t", "", "", AT_NS, AT_NS, {"gen_ai.operation.name": "execute_tool"})

    intake.traces([tool, tool])
    intake.traces([tool])
    intake.metrics([])

    unkept = Unkept(names_max=1)
    unkept.add("metric", "a:b")
    unkept.add("metric", "c")
    unkept.count_into(counters)

    assert counters.value("otlp_unmapped", kind="span", item="execute_tool") == 3
    assert counters.value("otlp_unmapped", kind="metric", item="a:b") == 1
    assert counters.value("otlp_unmapped", kind=OTHER, item=OTHER) == 1


def test_without_room_nothing_is_taken() -> None:
    """The sender gets 503 and retries."""
    intake = Intake(LABELS, lambda _parcel: False)

    with pytest.raises(Full):
        intake.traces([CHAT])
    with pytest.raises(Full):
        intake.metrics([tokens(1, 5.0)])


def test_unpacking_is_bounded() -> None:
    """On the bound, one above, a bomb, broken, cut off, two members, an unknown packing."""
    packed = gzip.compress(b"x" * 100)

    assert unpacked(packed, "gzip", 100) == b"x" * 100
    assert unpacked(b"plain", "", 100) == b"plain"
    for body, encoding, status in (
        (packed, "gzip", 413),
        (gzip.compress(bytes(50_000_000)), "gzip", 413),
        (b"nonsense", "gzip", 400),
        (packed[:-9], "gzip", 400),
        (packed + packed, "gzip", 400),
        (packed, "zstd", 415),
    ):
        with pytest.raises(Refused) as raised:
            unpacked(body, encoding, 99 if status == 413 else 1_000)
        assert raised.value.status == status


@pytest.fixture
def server() -> Iterator[OtlpHttp]:
    with OtlpHttp(Intake(LABELS, lambda _parcel: True), 0, BYTES_MAX) as running:
        yield running


def post(server: OtlpHttp, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.enable_socket
def test_bodies_are_answered_in_their_own_encoding(server: OtlpHttp) -> None:
    """Whole, in part, packed, unreadable, too large, of an unknown kind or place."""
    broken = Span("b", "aa" * 16, "bb" * 8, AT_NS, AT_NS, {"gen_ai.operation.name": "chat"})
    json, proto = {"Content-Type": JSON}, {"Content-Type": PROTOBUF}

    answers = [
        post(server, "/v1/traces", traces_json(CHAT), json),
        post(server, "/v1/traces", gzip.compress(traces_proto(CHAT)), proto | {"Content-Encoding": "gzip"}),
        post(
            server, "/v1/traces", traces_json(CHAT, broken), json | {"Content-Type": "application/json; charset=utf-8"}
        ),
        post(server, "/v1/traces", b"{", json)[:1],
        post(server, "/v1/traces", bytes(BYTES_MAX + 1), proto)[:1],
        post(server, "/v1/logs", b"{}", json)[:1],
        post(server, "/v1/traces", b"{}", {"Content-Type": "text/plain"})[:1],
        post(server, "/v1/metrics", b"{}", json),
    ]
    in_part = ExportTraceServiceResponse.FromString(post(server, "/v1/traces", traces_proto(broken, CHAT), proto)[1])

    partial = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "chat: no model"}}
    assert answers == [
        (200, b"{}"),
        (200, b""),
        (200, orjson.dumps(partial)),
        (400,),
        (413,),
        (404,),
        (415,),
        (200, b"{}"),
    ]
    assert (in_part.partial_success.rejected_spans, in_part.partial_success.error_message) == (1, "chat: no model")


@pytest.mark.enable_socket
def test_grpc_takes_the_same() -> None:
    """Where grpcio is installed: spans by a call, a broken one reported."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp.grpc_server import OtlpGrpc

    taken: list[Parcel] = []
    with OtlpGrpc(Intake(LABELS, lambda parcel: taken.append(parcel) is None), 0, BYTES_MAX) as running:
        channel = grpc.insecure_channel(f"127.0.0.1:{running.port}")
        call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        answer = ExportTraceServiceResponse.FromString(call(traces_proto(CHAT), timeout=20))
        channel.close()

    assert not answer.HasField("partial_success")
    assert [parcel.events() for parcel in taken] == [[("llm.requests", 1)]]


@pytest.mark.enable_socket
@pytest.mark.parametrize("service", ["trace.v1.TraceService", "metrics.v1.MetricsService"])
@pytest.mark.parametrize("body", [b"no protobuf", b"\n\x04\n\x02\n\x09"], ids=["none at all", "cut within"])
def test_a_call_that_cannot_be_read_is_the_sender_s_fault(service: str, body: bytes) -> None:
    """OTLP's code for what no retry mends: exporters drop the batch."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp.grpc_server import OtlpGrpc

    taken: list[Parcel] = []
    with (
        OtlpGrpc(Intake(LABELS, lambda parcel: taken.append(parcel) is None), 0, BYTES_MAX) as running,
        grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        call = channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
        answered = call.future(body, timeout=20).exception()

    assert answered.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert answered.details().startswith("unreadable: ")
    assert taken == []


@pytest.mark.enable_socket
@pytest.mark.parametrize("connections", [1, 4])
def test_many_calls_at_once_wait_for_their_turn(connections: int) -> None:
    """None is refused for good: of one sender and of several."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp.grpc_server import OtlpGrpc

    goes_on, taken = threading.Event(), list[Parcel]()

    def offer(parcel: Parcel) -> bool:
        goes_on.wait(60)
        taken.append(parcel)
        return True

    with OtlpGrpc(Intake(LABELS, offer), 0, BYTES_MAX) as running, ExitStack() as opened:
        calls = []
        for _ in range(connections):
            alone = [("grpc.use_local_subchannel_pool", 1)]
            channel = opened.enter_context(grpc.insecure_channel(f"127.0.0.1:{running.port}", options=alone))
            call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            calls += [call.future(traces_proto(CHAT), timeout=60) for _ in range(40)]
        threading.Timer(0.5, goes_on.set).start()
        answers = [each.code() for each in calls]

    assert answers == [grpc.StatusCode.OK] * len(calls)
    assert len(taken) == len(calls)


@pytest.mark.enable_socket
def test_calls_whose_message_does_not_come_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cancelled when their time is up, however many there are; one without any message is answered at once."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp import grpc_server

    monkeypatch.setattr(grpc_server, "WITHIN_S", 0.5, raising=False)
    taken: list[Parcel] = []
    method, goes_on = "/opentelemetry.proto.collector.trace.v1.TraceService/Export", threading.Event()

    def nothing() -> Iterator[bytes]:
        goes_on.wait(60)
        yield from ()

    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None)
    with (
        grpc_server.OtlpGrpc(intake, 0, BYTES_MAX) as running,
        grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        slow = [channel.stream_unary(method).future(nothing()) for _ in range(20)]
        empty = channel.stream_unary(method).future(iter(()), timeout=20)
        channel.unary_unary(method)(traces_proto(CHAT), timeout=20)
        codes = [each.code() for each in slow]
        goes_on.set()

    assert codes == [grpc.StatusCode.CANCELLED] * len(slow)
    assert empty.code() is grpc.StatusCode.UNIMPLEMENTED
    assert [parcel.events() for parcel in taken] == [[("llm.requests", 1)]]


@pytest.mark.enable_socket
def test_a_token_is_asked_for_where_one_is_set() -> None:
    """Without it, or with another, nothing is taken, by HTTP or gRPC."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp.grpc_server import OtlpGrpc

    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None)
    tokens_sent = (None, "Bearer wrong", "Bearer the-right-token")
    seen: list[Any] = []
    with (
        OtlpHttp(intake, 0, BYTES_MAX, token="the-right-token") as by_http,
        OtlpGrpc(intake, 0, BYTES_MAX, token="the-right-token") as by_grpc,
        grpc.insecure_channel(f"127.0.0.1:{by_grpc.port}") as channel,
    ):
        call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        for sent in tokens_sent:
            headers = {"content-type": JSON} | ({} if sent is None else {"authorization": sent})
            connection = http.client.HTTPConnection("127.0.0.1", by_http.port, timeout=20)
            connection.request("POST", "/v1/traces", traces_json(CHAT), headers)
            status = connection.getresponse().status
            connection.close()
            try:
                call(traces_proto(CHAT), timeout=20, metadata=[] if sent is None else [("authorization", sent)])
                seen.append((status, None))
            except grpc.RpcError as error:
                seen.append((status, error.code()))

    assert seen == [(401, grpc.StatusCode.UNAUTHENTICATED)] * 2 + [(200, None)]
    assert [parcel.events() for parcel in taken] == [[("llm.requests", 1)]] * 2


def test_a_span_finds_its_tenant_and_its_engine() -> None:
    """In its own attributes, else in its resource's; an engine's own span, which names no address, by its model."""
    taken: list[Parcel] = []
    engine = Engine("e", "h", "g", ("h:8000",), model="m", precision="fp8")
    joiner = Joiner("otlp", lambda: Directory([engine], "h"), Counters())
    names = ("tenant.id", "tenant")
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, joiner=joiner, tenant_attributes=names)
    client = {**CHAT.attributes, "server.address": "127.0.0.1", "server.port": 8000, "tenant": "own"}
    own = {"gen_ai.usage.prompt_tokens": 3, "gen_ai.response.model": "m"}
    resource = {"tenant.id": "of the service", "tenant": "not this"}

    intake.traces(
        [
            replace(CHAT, attributes=client, resource=resource),
            replace(CHAT, attributes=own, resource=resource),
            replace(CHAT, attributes={**own, "gen_ai.response.model": "other"}),
        ]
    )

    (parcel,) = taken
    fields = LLM_REQUESTS.fields
    rows = [row for batch in parcel.batches for row in rows_of(fields, decode(batch.value, fields))]
    seen = [(row["tenant"], row["engine_id"], row["placement_group"], row["precision"]) for row in rows]
    assert sorted(seen, key=str) == sorted(
        [("own", "e", "g", "fp8"), ("of the service", "e", "g", "fp8"), (None, None, None, None)], key=str
    )


@pytest.mark.parametrize(("peer", "engine_id"), [("10.0.0.7", "e"), ("10.0.0.8", None), ("", None), (None, "e")])
def test_a_sender_elsewhere_names_no_engine_of_this_host_by_loopback(peer: str | None, engine_id: str | None) -> None:
    """By no attribute, nor by the model where it names an address; the host's own name means it everywhere."""
    taken: list[Parcel] = []
    joiner = Joiner("otlp", lambda: Directory([Engine("e", "h", "g", ("h:8000",), model="m")], "h"), Counters())
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, joiner=joiner, is_here="10.0.0.7".__eq__)
    loopback = {"server.address": "127.0.0.1", "server.port": 8000}
    own = {"gen_ai.usage.prompt_tokens": 3, "gen_ai.response.model": "m"}
    spans = [{**CHAT.attributes, **loopback}, {**CHAT.attributes, "fleetpulse.engine_id": "localhost:8000"}]
    named = replace(CHAT, attributes={**CHAT.attributes, **loopback, "server.address": "h"})

    intake.traces([replace(CHAT, attributes=each) for each in (*spans, {**own, **loopback})], peer)
    intake.traces([named], peer)
    intake.metrics([replace(tokens(1, 70.0), attributes={**tokens(1, 70.0).attributes, **loopback})], peer)

    fields = LLM_REQUESTS.fields
    batches = [batch for parcel in taken for batch in parcel.batches if batch.topic == LLM_REQUESTS.topic]
    rows = [row for batch in batches for row in rows_of(fields, decode(batch.value, fields))]
    assert [row["engine_id"] for row in rows] == [engine_id] * 3 + ["e"]
    assert (sum(name == "engine.samples" for parcel in taken for name, _ in parcel.events()) == 0) == bool(engine_id)


@pytest.mark.enable_socket
def test_both_servers_say_who_sent() -> None:
    """The address of the connection, without its port."""
    grpc = pytest.importorskip("grpc")
    from producers.otlp.grpc_server import OtlpGrpc

    asked: list[str] = []
    intake = Intake(LABELS, lambda _parcel: True, is_here=lambda peer: asked.append(peer) is None)
    with OtlpHttp(intake, 0, BYTES_MAX) as running:
        assert post(running, "/v1/traces", traces_proto(CHAT), {"content-type": PROTOBUF})[0] == 200
    with OtlpGrpc(intake, 0, BYTES_MAX) as calls, grpc.insecure_channel(f"127.0.0.1:{calls.port}") as channel:
        for service in ("trace.v1.TraceService", "metrics.v1.MetricsService"):
            channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")(b"", timeout=20)

    assert asked == ["127.0.0.1"] * 3


@pytest.mark.parametrize(
    ("written", "address"),
    [("ipv4:10.0.0.7:4711", "10.0.0.7"), ("ipv6:%5Bfd00::7%5D:4711", "fd00::7"), ("ipv6:[::1]:4711", "::1")],
)
def test_the_address_of_a_caller_as_grpc_writes_it(written: str, address: str) -> None:
    """With the brackets of IPv6, which its versions write in two ways."""
    pytest.importorskip("grpc")
    from producers.otlp.grpc_server import _peer_of

    assert _peer_of(SimpleNamespace(peer=lambda: written)) == address
