"""What the search begins with: sound inputs of every format, from captures where there are any, and the words of some.

Divided parts (datagrams, frames, parts of a snapshot) stand in one input between ``MARK``s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson

from producers.nvidia_smi.fields import query
from producers.spool.frame import Spooled, encode_frame
from schemas.contract import engines
from schemas.contract.headers import NATIVE, Identity, encode_headers
from schemas.events.event_types import LLM_REQUESTS
from stream_jobs import parts
from tests.unit.producers.receiver import sent
from tests.unit.stream_jobs.windows.cases import SOURCE, a_record, a_request, a_step, fold_all

NOW_MS = 1_700_000_000_000
TESTS = Path(__file__).resolve().parent.parent
MARK = b"\xff\xfe\xfd\xfc"
SNAPSHOT = b"FPW1"
"""With which parts of a snapshot of windows begin."""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Seeds = Callable[[], Iterable[bytes]]


def _bytes(*words: str) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in words)


HTTP_WORDS = _bytes(
    *(
        "POST ",
        "GET ",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n\r\n",
        "/v1/chat/completions",
        "/v1/%2e%2e/",
        "//",
        ";a=b",
    ),
    *("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "Upgrade: h2c\r\n"),
    *("Expect: 100-continue\r\n", "Host: p\r\n", "Authorization: Bearer a\r\n", "0\r\n\r\n", "5\r\nabcde\r\n"),
)
SSE_WORDS = (
    *_bytes("data: ", "data:", "\n\n", "\r\n", "\r", ": ", "event: message_start\n", "[DONE]"),
    b"\xef\xbb\xbf",
)
JSON_WORDS = tuple(
    f'"{word}"'.encode()
    for word in (
        *("choices", "index", "delta", "content", "finish_reason", "usage", "prompt_tokens", "completion_tokens"),
        *("tool_calls", "message", "model", "type", "code", "status", "output_tokens", "input_tokens", "total_tokens"),
        "error",
    )
)


def files(*patterns: str, bytes_max: int = 65_536) -> Seeds:
    """The captures that lie below tests/, cut to a size that a fuzzer can work with."""
    return lambda: (path.read_bytes()[:bytes_max] for pattern in patterns for path in sorted(TESTS.glob(pattern)))


def texts(*found: str) -> Seeds:
    """Short seeds, written here."""
    return lambda: (text.encode() for text in found)


def golden(suffix: str) -> Seeds:
    return files(f"golden/llm.requests.v1.{suffix}")


def framed(seeds: Seeds) -> Seeds:
    """The seed with the byte before it that says which format it has."""
    return lambda: (bytes([kind]) + one for one in seeds() for kind in range(3))


def datagrams() -> Iterable[bytes]:
    client = sent.Recorded()
    client.hand_over(sent.finished([1_000, 200, 300], model="m", tenant="t", input_tokens=7))
    client.hand_over(sent.finished([1], marks=[sent.mark(3)], merged=2, end_us=5, model="m"))
    yield MARK.join(client.sent)


def otlp_json() -> Iterable[bytes]:
    attribute = {"key": "gen_ai.request.model", "value": {"stringValue": "m"}}
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "chat m",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [attribute],
    }
    point = {"attributes": [attribute], "startTimeUnixNano": "1", "timeUnixNano": "2", "count": "3", "sum": 4.5}
    metric = {"name": "gen_ai.client.token.usage", "histogram": {"dataPoints": [point], "aggregationTemporality": 1}}
    yield orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    yield orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]})


def otlp_proto() -> Iterable[bytes]:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for text in otlp_json():
        found = orjson.loads(text)
        message = ExportTraceServiceRequest() if "resourceSpans" in found else ExportMetricsServiceRequest()
        with contextlib.suppress(ValueError):
            yield ParseDict(found, message).SerializeToString()


def headers() -> Iterable[bytes]:
    found = encode_headers(LLM_REQUESTS.schema, NATIVE, Identity("ab" * 16, 3, 9, (3, 7)), 5)
    yield b"\n".join(name.encode() + b"=" + value for name, value in found)


def segment() -> Iterable[bytes]:
    record = Spooled(1, 7, NOW_MS, "llm.requests", 2, "llm.requests.v1", NATIVE, b"k", 3, b"value")
    yield encode_frame(record)[8:]
    yield MARK.join([encode_frame(record)[8:]] * 2)


def snapshot() -> Iterable[bytes]:
    step = a_step()
    yield MARK.join(step.dump(step.new(LLM_REQUESTS.topic, 0)))


def snapshot_text() -> Iterable[bytes]:
    """Opening and pieces of the same: of a new state, and of one that has seen events."""
    step = a_step()
    record = a_record(LLM_REQUESTS.topic, [a_request(tenant="t")], identity=Identity(SOURCE, 1, 2, (1, 2)))
    used, _ = fold_all(step, [record], LLM_REQUESTS.topic)
    for state in (step.new(LLM_REQUESTS.topic, 0), used):
        yield MARK.join(parts.joined(SNAPSHOT, step.dump(state)))


def engine_record() -> Iterable[bytes]:
    yield engines.encode(engines.Engine("e", "h-1", "g", ("h-1:8000",), gpu_uuids=("GPU-1",), started_ms=NOW_MS))


def nvidia_smi() -> Iterable[bytes]:
    """A card that answers every column of the query, and one that answers none."""
    names = query()
    known = {"uuid": "GPU-1", "name": "NVIDIA H100", "pstate": "P0", "power.draw": "69.85 W"}
    for cells in (
        [known.get(name, "1") for name in names],
        [known["uuid"] if name == "uuid" else "[N/A]" for name in names],
    ):
        yield "\n".join((", ".join(names), ", ".join(cells))).encode()


def checkpoint() -> Iterable[bytes]:
    """What a spool keeps of its acknowledgements, and what it declared as shed."""
    yield MARK.join((b'{"low": [1, 2], "first_segment": 3, "books": [[1, "t", 1, 2, 3, 4]]}', b'[1, {"t": 4}]'))
