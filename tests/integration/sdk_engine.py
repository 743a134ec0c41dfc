"""An engine on loopback that answers as vLLM's OpenAI server does: chat, completions, responses, embeddings.

The model's name in the request decides: ``fail-429-then-ok`` answers 429 once, ``fail-500`` always, ``breaks`` cuts the
stream, ``error`` puts vLLM's error event into it, anything else is answered well. Shapes of chunks are those of vLLM
0.32's ``/v1/chat/completions`` and ``/v1/completions`` and of OpenAI's ``/v1/responses``.
"""

from __future__ import annotations

import gzip
import json
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ["Score", " of", " the", " game", "."]
USAGE = {
    "prompt_tokens": 9,
    "total_tokens": 14,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 8},
}
_RESPONSES_USAGE = {
    "input_tokens": 9,
    "output_tokens": 5,
    "total_tokens": 14,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens_details": {"reasoning_tokens": 0},
}


class Engine(ThreadingHTTPServer):
    """Counts requests, connections and, of streams, the chunks that it could write."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients come and go."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.connections = 0
        self.written: list[int] = []
        """Chunks of each stream that ended, whole or left by its client."""
        self.failed: set[str] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/v1"


@contextmanager
def running() -> Iterator[Engine]:
    engine = Engine()
    thread = threading.Thread(target=engine.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        engine.shutdown()
        engine.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        except (ValueError, OSError):  # the client left before it had sent its request
            self.close_connection = True
            return
        self.server.paths.append(self.path)
        model = body["model"]
        if model == "fail-500" or (model == "fail-429-then-ok" and model not in self.server.failed):
            self.server.failed.add(model)
            self._json({"error": {"message": "no", "type": "x", "code": 429}}, 429 if "429" in model else 500)
        elif body.get("stream"):
            self._stream(model, events_of(self.path, body), body.get("max_tokens") == 1500)
        else:
            self._json(answer_of(self.path, model), packed=model == "packed")

    def _json(self, answer: dict[str, Any], status: int = 200, *, packed: bool = False) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if packed:
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        if status >= 400:
            self.send_header("Retry-After-Ms", "1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, model: str, events: list[str], endless: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        written = 0
        try:
            for event in _long(events) if endless else events:
                if endless:
                    time.sleep(0.005)
                    if select.select([self.connection], [], [], 0)[0]:
                        raise BrokenPipeError
                if model == "breaks" and written == 3:
                    raise BrokenPipeError
                self._chunk(event.encode())
                written += 1
            self._chunk(b"")
        except OSError:
            self.close_connection = True
        self.server.written.append(written)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


def _long(events: list[str]) -> Iterator[str]:
    """1,500 tokens, as an engine goes on until it learns that its client left."""
    for _ in range(1_500):
        yield events[1]
    yield events[-1]


def answer_of(path: str, model: str) -> dict[str, Any]:
    text = "".join(WORDS)
    if path.endswith("/embeddings"):
        data = [{"index": 0, "object": "embedding", "embedding": [0.5, 0.25]}]
        usage = {"prompt_tokens": 9, "total_tokens": 9, "completion_tokens": 0, "prompt_tokens_details": None}
        return {"id": "embd-1", "object": "list", "created": 1, "model": model, "data": data, "usage": usage}
    if path.endswith("/responses"):
        return response_of(model, "completed", _RESPONSES_USAGE)
    if path.endswith("/chat/completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**_head("chatcmpl-1", "chat.completion", model), "choices": [choice], "usage": USAGE}
    choice = {"index": 0, "text": text, "finish_reason": "stop"}
    return {**_head("cmpl-1", "text_completion", model), "choices": [choice], "usage": USAGE}


def response_of(model: str, status: str, usage: dict[str, Any] | None) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "".join(WORDS), "annotations": []}]
    output = [{"id": "msg-1", "type": "message", "role": "assistant", "status": "completed", "content": content}]
    fields = {"id": "resp-1", "object": "response", "created_at": 1, "model": model, "status": status, "usage": usage}
    tools = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**fields, **tools, "output": output if usage else []}


def events_of(path: str, body: dict[str, Any]) -> list[str]:
    model = body["model"]
    if path.endswith("/responses"):
        return _response_events(model)
    chat = path.endswith("/chat/completions")
    if chat:
        head = _head("chatcmpl-1", "chat.completion.chunk", model)
        choices = [{"delta": {"role": "assistant", "content": ""}}, *({"delta": {"content": word}} for word in WORDS)]
    else:
        head = _head("cmpl-1", "text_completion", model)
        choices = [{"text": word} for word in WORDS]
    reasons = [*[None] * (len(choices) - 1), "stop"]
    chunks = [
        {**head, "choices": [{"index": 0, **choice, "finish_reason": reason}]}
        for choice, reason in zip(choices, reasons, strict=True)
    ]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": USAGE})
    if model == "error":
        chunks[3:] = [{"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}]
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


def _response_events(model: str) -> list[str]:
    place = {"item_id": "msg-1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg-1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    text = "".join(WORDS)
    events = [
        {"type": "response.created", "response": response_of(model, "in_progress", None)},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in WORDS),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.completed", "response": response_of(model, "completed", _RESPONSES_USAGE)},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered]


def _head(name: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": 1, "model": model}
