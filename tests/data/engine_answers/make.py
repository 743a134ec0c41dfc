"""Record what an engine answers: bodies as they came, byte by byte, and its pages before and after.

    python tests/data/engine_answers/make.py http://127.0.0.1:8000 FOLDER

``FOLDER/answers.json``: status, content type and the request of each; the bodies lie beside it. Standard library alone.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from pathlib import Path
from typing import Any

MESSAGES = [{"role": "user", "content": "tide moon salt shore " * 60}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": 6, "temperature": 0, "ignore_eos": True}
TEXT: dict[str, Any] = {"model": "tiny", "prompt": "tide moon salt", "max_tokens": 6, "ignore_eos": True}
STREAM, USAGE = {"stream": True}, {"stream_options": {"include_usage": True}}
SEVERAL = {"n": 3, "temperature": 1, "seed": 1}
CONTINUOUS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
POSTS: dict[str, tuple[str, Any]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat_again": ("/v1/chat/completions", CHAT),
    "chat_n3": ("/v1/chat/completions", CHAT | SEVERAL),
    "chat_stream": ("/v1/chat/completions", CHAT | STREAM),
    "chat_stream_usage": ("/v1/chat/completions", CHAT | STREAM | USAGE),
    "chat_stream_continuous": ("/v1/chat/completions", CHAT | STREAM | CONTINUOUS),
    "chat_stream_continuous_without_include": (
        "/v1/chat/completions",
        CHAT | STREAM | {"stream_options": {"continuous_usage_stats": True}},
    ),
    "chat_stream_n3_usage": ("/v1/chat/completions", CHAT | STREAM | USAGE | SEVERAL),
    "chat_stream_n3_continuous": ("/v1/chat/completions", CHAT | STREAM | CONTINUOUS | SEVERAL),
    "completions": ("/v1/completions", TEXT),
    "completions_stream_usage": ("/v1/completions", TEXT | STREAM | USAGE),
    "completions_stream_continuous": ("/v1/completions", TEXT | STREAM | CONTINUOUS),
    "unknown_model": ("/v1/chat/completions", CHAT | {"model": "invented"}),
    "bad_request": ("/v1/chat/completions", CHAT | {"max_tokens": -1}),
    "too_long": ("/v1/chat/completions", CHAT | {"max_tokens": 100_000}),
    "options_without_stream": ("/v1/chat/completions", CHAT | USAGE),
    "options_unknown": ("/v1/chat/completions", CHAT | STREAM | {"stream_options": {"no_such_option": True}}),
    "broken_json": ("/v1/chat/completions", b'{"model": "tiny", '),
    "responses": ("/v1/responses", {"model": "tiny", "input": "tide moon", "max_output_tokens": 6}),
}
ABORTED_AFTER_BYTES = 1_500
PAGES = ("/version", "/props", "/v1/models", "/metrics")
"""Those that an engine does not have answer 404, and are kept so."""
OF_ENGINES = ("vllm:", "llamacpp:", "process_start_time_seconds")


def main(url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    address = urllib.parse.urlsplit(url).netloc
    index: dict[str, Any] = {}
    for path in PAGES:
        page(address, path, folder, index, "before_")
    for name, (path, request) in POSTS.items():
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        status, kind, answer = exchange(address, "POST", path, body)
        file = f"{name}.{'sse' if 'event-stream' in kind else 'json'}"
        (folder / file).write_bytes(answer)
        sent = body.decode() if isinstance(request, bytes) else request
        index[name] = {"path": path, "request": sent, "status": status, "content_type": kind, "file": file}
    name, request = "chat_stream_aborted", CHAT | STREAM | CONTINUOUS | {"max_tokens": 1_500}
    answer = aborted(address, json.dumps(request).encode())
    (folder / f"{name}.sse").write_bytes(answer)
    index[name] = {"path": "/v1/chat/completions", "request": request, "status": 200, "file": f"{name}.sse"}
    page(address, "/metrics", folder, index, "after_")
    (folder / "answers.json").write_text(json.dumps(index, indent=1) + "\n")


def page(address: str, path: str, folder: Path, index: dict[str, Any], before: str) -> None:
    status, kind, body = exchange(address, "GET", path, None)
    name = before + path.strip("/").replace("/", "_") if path == "/metrics" else path.strip("/").replace("/", "_")
    file = name + (".prom" if path == "/metrics" else ".json")
    if path == "/metrics":  # the engine's own; the rest is Python's and the web server's
        lines = body.decode().splitlines(keepends=True)
        kept = [each for each in lines if any(name in each for name in OF_ENGINES)]
        body = "".join(each for each in kept if "_bucket{" not in each).encode()
    (folder / file).write_bytes(body)
    index[name] = {"path": path, "status": status, "content_type": kind, "file": file}


def exchange(address: str, method: str, path: str, body: bytes | None) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request(method, path, body, {"Content-Type": "application/json", "X-Request-ID": "recorded"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), content


def aborted(address: str, body: bytes) -> bytes:
    """The first whole events of a stream that the client gives up."""
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    content = connection.getresponse().read(ABORTED_AFTER_BYTES)
    connection.close()
    return content[: content.rindex(b"\n\n") + 2]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
