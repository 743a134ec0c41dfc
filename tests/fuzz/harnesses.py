"""What is fuzzed: everything that reads bytes which somebody else wrote, each behind one function of bytes.

A harness returns or raises one of its ``refusals``, which are the errors that its reader documents; anything else is a
defect. Most check more than that: what was taken is written and read again, a stream cut anywhere gives the same
events, a request that is passed on is one that its engine reads as we did.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from zlib import crc32

import httptools
import numpy as np
import orjson

from fleetpulse.dashboard import url_state
from producers import exposition
from producers.batch import batches_of
from producers.dcgm.fields import read_page
from producers.engines import reading
from producers.kubernetes.pods import PodListError, pods_of
from producers.log_tail.mapping import cut, field_map, rows_of
from producers.log_tail.steps import step_map, steps_of
from producers.nvidia_smi.fields import read_table
from producers.otlp.intake import Intake
from producers.otlp.item_bound import demand_few_in_json
from producers.otlp.json_signals import Unreadable, points_of_json, spans_of_json
from producers.otlp.proto_signals import points_of_proto, spans_of_proto
from producers.proxy.routes import Routes, read_path
from producers.receiver.datagram import read as read_datagrams
from producers.receiver.fold import Where, fold
from producers.receiver.lines import read_lines
from producers.requests.request_meta import RequestMeta, client_fields
from producers.requests.sse import SseReader
from producers.requests.tracker import Tracker
from producers.rocm_smi.fields import read_cards
from producers.spool.ack_state import AckState
from producers.spool.frame import encode_header
from producers.spool.segment import read_segment
from producers.spool.slots import Slots
from runtime import http_server, trace_context
from schemas.codec import native, ndjson_walk, wire
from schemas.codec.build import rows_of as rows_of_block
from schemas.contract import admission, alert_commands, engines
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, decode_any, decode_headers
from schemas.contract.record import Record
from schemas.errors import ContractError, NewerReleaseError, PartitionError, RejectedError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS
from stream_jobs import parts as frame
from stream_jobs.budgets.load import parse_budgets
from stream_jobs.prices.list_csv import read_csv
from stream_jobs.prices.list_map import read_map
from stream_jobs.prices.load import parse_prices
from stream_jobs.rules.load import parse_set
from stream_jobs.runner import recovery
from stream_jobs.runner.job import Source
from stream_jobs.yaml_files.errors import FileError
from tests.fuzz import loops, seeds
from tests.unit.producers.proxy.test_proxy_sides import ANSWER, CHUNKED, PLAIN, Setting, Wire
from tests.unit.stream_jobs.windows.cases import a_step

CORPUS = Path(__file__).parent / "corpus"
"""What was found, by harness."""
Run = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Harness:
    """One reader. ``seeds`` are sound inputs to begin with; ``words`` are what its format consists of."""

    name: str
    run: Run
    seeds: seeds.Seeds
    refusals: tuple[type[Exception], ...] = ()
    words: tuple[bytes, ...] = ()
    bytes_max: int = 4_096

    def __call__(self, data: bytes) -> None:
        """Read the bytes. Raises what is a defect."""
        try:
            self.run(data)
        except self.refusals:
            return


def _codec(kind: str) -> Run:
    def run(data: bytes) -> None:
        fields = LLM_REQUESTS.fields
        block = wire.parse(kind, data, fields, 1_000).sound()
        again = wire.parse(kind, wire.encode(kind, fields, block), fields).sound()
        assert rows_of_block(fields, again) == rows_of_block(fields, block)

    return run


def _compiled_lines(data: bytes) -> None:
    """The compiled walk over JSON lines: what it reads, the careful reader reads, too, and as the same block."""
    fields = LLM_REQUESTS.fields
    (block,) = ndjson_walk.translate(fields, [data], 1_000)
    if block:
        parsed = wire.parse(NDJSON, data, fields, 1_000)
        assert not parsed.problems
        assert block == native.encode(fields, parsed.block)


def _admission(data: bytes) -> None:
    """The whole way into a job: headers, format and values of a record of a source topic."""
    kind = (NATIVE, NDJSON, JSON_COLUMNS)[data[0] % 3] if data else NATIVE
    headers = (("schema", LLM_REQUESTS.schema.encode()), ("content-type", kind.encode()))
    records = [Record(LLM_REQUESTS.topic, 0, offset, seeds.NOW_MS, None, data[1:], headers) for offset in (7, 8)]
    read = admission.read_headers(LLM_REQUESTS, records, DEFAULT_LIMITS)
    sound = [one for one in read if not isinstance(one, admission.Reject)]
    assert len(sound) == len(records)
    admission.admit(LLM_REQUESTS, records, sound, DEFAULT_LIMITS)


def _headers(data: bytes) -> None:
    """Pairs divided by line feeds and ``=``: in the order of our own producers and in any."""
    pairs = [line.partition(b"=") for line in data.split(b"\n")]
    headers = tuple((name.decode("latin-1"), value) for name, _, value in pairs)
    try:
        found = decode_any(headers)
    except RejectedError:
        try:
            decode_headers(headers)
        except RejectedError:
            return
        raise AssertionError("one way takes what the other refuses") from None
    assert decode_headers(headers) == found


def _datagrams(data: bytes) -> None:
    """Datagrams divided by a marker, as they lie in the receiver's buffer."""
    parts = [part for part in data.split(seeds.MARK) if part][:64]
    buffer = np.frombuffer(b"".join(parts), np.uint8)
    found = read_datagrams(buffer, np.cumsum([len(part) for part in parts], dtype=np.int64))
    assert len(found) + sum(found.rejected.values()) == len(parts)
    result = fold(buffer, found, Where("h", "c", None))
    assert result.events + len(result.unfit) + result.broken == len(found)
    for key, block in result.blocks:
        assert sum(batch.count for batch in batches_of(LLM_REQUESTS, key, block)) == block.rows


def _lines(data: bytes) -> None:
    read_lines(data, Where("h", "c", None), seeds.NOW_MS, DEFAULT_LIMITS)


def _otlp_json(data: bytes) -> None:
    """Traces and metrics into an intake that takes everything."""
    demand_few_in_json(data)
    _taken(data, spans_of_json, points_of_json)


def _otlp_proto(data: bytes) -> None:
    """The same, as protobuf."""
    _taken(data, spans_of_proto, points_of_proto)


def _taken(data: bytes, spans: Callable[[bytes], Any], points: Callable[[bytes], Any]) -> None:
    intake = Intake({"host": "h"}, lambda _parcel: True)
    for take, read in ((intake.traces, spans), (intake.metrics, points)):
        with contextlib.suppress(Unreadable):
            take(list(read(data)))


def _events_of(pieces: Iterable[bytes]) -> list[bytes]:
    reader = SseReader(2_000)
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


def _stream(data: bytes) -> None:
    """Server-sent events: whole, in threes of bytes, and cut where the bytes say; then folded into a request."""
    places = [0, *sorted({byte * 7 % (len(data) + 1) for byte in data[:8]}), len(data)]
    events = _events_of([data])
    assert _events_of([data[at : at + 3] for at in range(0, len(data), 3)]) == events
    assert _events_of([data[a:b] for a, b in itertools.pairwise(places)]) == events
    tracker = Tracker(RequestMeta("r", _one_of(data, "chat", "completions", "responses", "messages"), streamed=True), 0)
    tracker.status(1, 200)
    for number, event in enumerate(events):
        tracker.data(2 + number, event)
    _fits(tracker.end(10**9, seeds.NOW_MS))


def _answer(data: bytes) -> None:
    """A request's body, and the same bytes as an answer that was not streamed."""
    api = _one_of(data, "chat", "embeddings", "responses", "messages", "rerank")
    client_fields(api, data)
    tracker = Tracker(RequestMeta("r", api), 0)
    tracker.status(1, 200)
    tracker.body(2, data)
    _fits(tracker.end(10**9, seeds.NOW_MS))


def _one_of(data: bytes, *names: str) -> str:
    """One of them, by the input alone: all of them at each input would take as many times as long."""
    return names[len(data) % len(names)]


def _fits(row: dict[str, Any] | None) -> None:
    """Whatever an engine says, the row is one of the event."""
    if row is not None:
        value = orjson.dumps({**row, "host": "h", "origin": "measured"}, option=orjson.OPT_NON_STR_KEYS)
        wire.parse(NDJSON, value, LLM_REQUESTS.fields).sound()


class _Engine:
    """How an engine reads what the proxy passes on: the requests of one connection."""

    def __init__(self) -> None:
        self.urls: list[bytes] = []
        self.whole = 0

    def on_url(self, part: bytes) -> None:
        self.urls.append(part)

    def on_message_complete(self) -> None:
        self.whole += 1


def _proxy(data: bytes) -> None:
    """Bytes of a client, then an answer: never an error, never more rows than requests, and what the engine gets is
    requests of allowed paths below its prefix."""

    async def run() -> Setting:
        setting = Setting()
        setting.client.data_received(data)
        if setting.upstream_wire.written:
            setting.upstream.data_received(ANSWER)
        setting.client.connection_lost(None)
        setting.server.settle()
        return setting

    setting = loops.run(run)
    assert setting.server.held.bytes == 0
    assert [upstream.open for upstream in setting.server.choice.upstreams] == [0]
    engine = _Engine()
    if setting.upstream_wire.written:
        httptools.HttpRequestParser(engine).feed_data(setting.upstream_wire.written)
    for url in engine.urls:
        path = read_path(url.partition(b"?")[0])
        assert path is not None
        assert path.startswith("/base/")
    assert engine.whole <= 1, "one answer was given, so one request may be there"


def _engine_answers(data: bytes) -> None:
    """Bytes of an engine to a request that waits for its answer."""

    async def run() -> Setting:
        setting = Setting()
        setting.client.data_received(PLAIN)
        setting.upstream.data_received(data)
        setting.client.connection_lost(None)
        setting.server.settle()
        return setting

    setting = loops.run(run)
    assert len(setting.rows) == 1
    assert setting.server.held.bytes == 0


HTTP_BODY_BYTES_MAX = 200


async def _echo(request: http_server.Request) -> http_server.Response:
    assert len(request.body) <= HTTP_BODY_BYTES_MAX
    return http_server.Response(200, request.body, "text/plain")


async def _failing(request: http_server.Request) -> http_server.Response:
    raise http_server.Refused(503, "not now")


_ENDPOINTS = http_server.App(
    {
        "/echo": http_server.Route("POST", _echo, ("application/json",)),
        "/any": http_server.Route("GET", _echo),
        "/not": http_server.Route("GET", _failing),
    },
    lambda refused, request: http_server.Response(refused.status, refused.reason.encode(), "text/plain"),
    connections_max=1,
    within_s=60.0,
    body_bytes_max=HTTP_BODY_BYTES_MAX,
)


def _endpoints(data: bytes) -> None:
    """Bytes of a client to a process's own endpoints: the same answers whatever pieces they come in, each of them one
    that a client can read, and nothing is held beyond the bounds."""
    places = [0, *sorted({byte * 7 % (len(data) + 1) for byte in data[:8]}), len(data)]
    whole = _answers([data])
    assert _answers([data[a:b] for a, b in itertools.pairwise(places)]) == whole
    assert _answers([data[at : at + 1] for at in range(len(data))]) == whole
    for answer in whole:
        parser = httptools.HttpResponseParser(_Engine())
        parser.feed_data(answer)
        assert 200 <= parser.get_status_code() < 600


def _answers(pieces: Sequence[bytes]) -> list[bytes]:
    """What is answered to these pieces, but for the leave to send a body, which does not wait for its turn."""
    wire, crowd = Wire(), set[http_server.Connection]()

    async def run() -> None:
        connection = http_server.Connection(_ENDPOINTS, crowd)
        connection.connection_made(wire)  # type: ignore[arg-type]
        for piece in pieces:
            if wire.closed:
                break
            assert wire.reading, "it answered, and does not go on to read"
            connection.data_received(piece)
            assert len(connection._body) <= HTTP_BODY_BYTES_MAX
            if not wire.reading:
                await loops.turns()
        connection.connection_lost(None)

    loops.run(run)
    assert not crowd
    return [each for each in wire.writes if each != b"HTTP/1.1 100 Continue\r\n\r\n"]


def _traceparent(data: bytes) -> None:
    """What is taken is written as a header that means the same."""
    context = trace_context.parse(data)
    if context is not None:
        assert trace_context.parse(context.header[1]) == context
        assert len(context.header[1]) == len(seeds.TRACEPARENT)


def _path(data: bytes) -> None:
    path = read_path(data)
    if path is not None:
        assert ".." not in path.split("/")
        Routes(("/admin/*",)).of(b"POST", path)


def _scrape(data: bytes) -> None:
    samples = exposition.parse(data.decode("utf-8", "replace")).samples
    reading.read(samples)


def _dcgm(data: bytes) -> None:
    read_page(data.decode("utf-8", "replace"))


def _nvidia_smi(data: bytes) -> None:
    read_table(data.decode("utf-8", "replace"))


def _rocm_smi(data: bytes) -> None:
    read_cards(data.decode("utf-8", "replace"), "h")


_LABELS = {"host": "h", "cluster": None, "region": None}
_REQUEST_MAP = field_map({"at_ms": "ts", "model": "model", "e2e_us": "took s", "status": "status"})
_STEP_MAPS = {
    kind: step_map(kind, {"job": "=j", **fields})
    for kind, fields in (("training", {"step": "step", "loss": "loss"}), ("hf_trainer", {}), ("megatron", {}))
}


def _log(data: bytes) -> None:
    """A tailed file: cut into lines, then read as requests and as steps of training."""
    lines = cut(data, 0, False, 1_000).lines
    rows_of(_REQUEST_MAP, lines, _LABELS, "/var/log/engine.jsonl")
    for kind, mapped in _STEP_MAPS.items():
        steps_of(kind, mapped, lines, _LABELS, seeds.NOW_MS)


def _pods(data: bytes) -> None:
    pods_of(data, 100)


_MEMORY = "/dev/shm"
_FOLDER = tempfile.TemporaryDirectory(prefix="fleetpulse-fuzz-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)


def _segment(data: bytes) -> None:
    """Bytes behind a sound header; each piece between markers also stands in a frame with a sound checksum."""
    path = Path(_FOLDER.name) / "000000000001.seg"
    frames = [
        len(body).to_bytes(4, "little") + crc32(body).to_bytes(4, "little") + body for body in data.split(seeds.MARK)
    ]
    for content in (data, encode_header(1, 1) + data, encode_header(1, 1) + b"".join(frames)):
        path.write_bytes(content)
        found = read_segment(path)
        if found is not None:
            segment, records = found
            events = sum(record.events for record in records)
            assert events == sum(tally.events for tally in segment.books.values())
            assert segment.size_bytes <= len(content)


def _ack_state(data: bytes) -> None:
    """What a checkpoint and a declaration of shed events say, whole by their checksums."""
    saved, _, shed = data.partition(seeds.MARK)
    for name, size, value in (("checkpoint", 256 * 1024, saved), ("shed", 4 * 1024, shed)):
        slots = Slots.open(Path(_FOLDER.name) / name, size)
        try:
            slots.write(value[: slots.room], durable=False)
        finally:
            slots.close()
    AckState(Path(_FOLDER.name)).close()


def _snapshot(data: bytes) -> None:
    """Parts of a snapshot: a partition whose own cannot be loaded is quarantined."""
    recovery.loaded(a_step(), Source(LLM_REQUESTS.topic, 0), data.split(seeds.MARK))


def _snapshot_text(data: bytes) -> None:
    """What stands in the parts, behind sound checksums: the opening, then the pieces."""
    opening, *pieces = data.split(seeds.MARK)
    recovery.loaded(a_step(), Source(LLM_REQUESTS.topic, 0), frame.cut(seeds.SNAPSHOT, opening, pieces))


def _link(data: bytes) -> None:
    """The query of a link to the dashboard: what was understood makes a link that means the same."""
    query = dict(parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True)[:50])
    state, _ = url_state.parse(query, ("model", "tenant", "host"), {"by": "model"})
    again, left_out = url_state.parse(
        dict(parse_qsl(state.query({"by": "model"}), keep_blank_values=True)),
        ("model", "tenant", "host"),
        {"by": "model"},
    )
    assert again == state
    assert not left_out


def _yaml(parse: Callable[[bytes, str], object]) -> Run:
    return lambda data: parse(data, "file.yaml")


RULES = """include: defaults
slo_classes: {fast: {ttft: 1s, share: 99%}}
disable: [gpu_hot]
rules:
  - name: vram_high
    options: {above: 0.9}
  - name: mine
    kind: threshold
    metric: mean(temperature_c)
    by: [host, gpu_uuid]
    for: 2 of 3
    clear_after: 6
    severity: warning
    summary: "GPU {gpu_uuid} is at {value}"
    options: {above: 84C, leave: 80C}
"""
PRICE_MAP = """{
 "m": {"input_cost_per_token": 6e-08, "output_cost_per_token": 2.4e-07, "litellm_provider": "p", "mode": "chat"},
 "n": {"input_cost_per_token_above_128k_tokens": 1e-06, "cache_read_input_token_cost": 1e-09}
}"""
_YAML_REFUSALS = (FileError,)
_LOAD_REFUSALS = (PartitionError, NewerReleaseError)

HARNESSES: tuple[Harness, ...] = (
    Harness("native", _codec(NATIVE), seeds.golden("native"), (RejectedError,), bytes_max=16_384),
    Harness("ndjson", _codec(NDJSON), seeds.golden("ndjson"), (RejectedError,), bytes_max=8_192),
    Harness("ndjson_walk", _compiled_lines, seeds.golden("ndjson"), bytes_max=8_192),
    Harness("json_columns", _codec(JSON_COLUMNS), seeds.golden("columns.json"), (RejectedError,)),
    Harness("admission", _admission, seeds.framed(seeds.files("golden/llm.requests.v1.*")), bytes_max=16_384),
    Harness("headers", _headers, seeds.headers),
    Harness("datagrams", _datagrams, seeds.datagrams),
    Harness("lines", _lines, seeds.golden("ndjson"), bytes_max=8_192),
    Harness("otlp_json", _otlp_json, seeds.otlp_json, (Unreadable,)),
    Harness("otlp_proto", _otlp_proto, seeds.otlp_proto, (Unreadable,)),
    Harness(
        "stream",
        _stream,
        seeds.files("data/engine_answers/**/*.sse"),
        words=(*seeds.SSE_WORDS, *seeds.JSON_WORDS),
        bytes_max=2_048,
    ),
    Harness("answer", _answer, seeds.files("data/engine_answers/**/*.json"), words=seeds.JSON_WORDS),
    Harness("proxy", _proxy, lambda: (PLAIN, CHUNKED), words=seeds.HTTP_WORDS),
    Harness("engine", _engine_answers, lambda: (ANSWER,), words=(*seeds.HTTP_WORDS, *seeds.SSE_WORDS)),
    Harness(
        "endpoints",
        _endpoints,
        seeds.texts(
            "POST /echo HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
            "GET /any?a=b HTTP/1.1\r\nConnection: close\r\n\r\n",
            "POST /echo HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\nHEAD /not HTTP/1.1\r\n\r\n",
        ),
        words=(*seeds.HTTP_WORDS, b"/echo", b"/any", b"/not", b"Content-Type: application/json\r\n"),
        bytes_max=1_024,
    ),
    Harness("traceparent", _traceparent, seeds.texts(seeds.TRACEPARENT, "cc" + seeds.TRACEPARENT[2:] + "-more")),
    Harness("path", _path, seeds.texts("/v1/chat/completions", "/a/%2e%2e/v1/models", "/v1;x/chat")),
    Harness(
        "prometheus",
        _scrape,
        seeds.files("data/engine_scrapes/**/*.prom", bytes_max=16_384),
        (reading.UnknownEngineError,),
    ),
    Harness("dcgm", _dcgm, seeds.files("data/dcgm_scrapes/*.prom", bytes_max=16_384)),
    Harness("nvidia_smi", _nvidia_smi, seeds.nvidia_smi),
    Harness("rocm_smi", _rocm_smi, seeds.files("data/rocm_smi_captures/*.json")),
    Harness("log", _log, seeds.files("data/training_logs/*.log", bytes_max=16_384)),
    Harness("pods", _pods, seeds.files("data/pod_lists/*.json"), (PodListError,)),
    Harness("engine_record", engines.decode, seeds.engine_record, (RejectedError,)),
    Harness(
        "alert_command",
        alert_commands.decode,
        seeds.texts(
            '{"schema":"alert.commands.v1","command":"mute","id":"a","by":"b","reason":"r","labels":{"model":"m"},'
            '"from_ms":1,"until_ms":2,"every":"Mon-Fri 22:00-06:00","zone":"Europe/Berlin"}'
        ),
        (RejectedError,),
    ),
    Harness("segment", _segment, seeds.segment),
    Harness(
        "checkpoint",
        _ack_state,
        seeds.checkpoint,
        (ContractError,),
    ),
    Harness("snapshot", _snapshot, seeds.snapshot, _LOAD_REFUSALS, bytes_max=16_384),
    Harness("snapshot_text", _snapshot_text, seeds.snapshot_text, _LOAD_REFUSALS, bytes_max=16_384),
    Harness("rules", _yaml(parse_set), seeds.texts(RULES), _YAML_REFUSALS),
    Harness("prices", _yaml(parse_prices), seeds.files("data/releases/0.1.0/prices.yaml"), _YAML_REFUSALS),
    Harness("budgets", _yaml(parse_budgets), seeds.files("../lab/data/demo/budgets.yaml"), _YAML_REFUSALS),
    Harness("price_map", _yaml(read_map), seeds.texts(PRICE_MAP), _YAML_REFUSALS),
    Harness(
        "price_csv",
        _yaml(read_csv),
        seeds.texts("model,mode,input,output\nm,chat,0.5,1.5\n"),
        _YAML_REFUSALS,
    ),
    Harness("link", _link, seeds.texts("last=1h&model=m", "from=2026-01-01T00:00&to=2026-01-02T00:00&live=1")),
)
