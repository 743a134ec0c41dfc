"""An engine that answers as the recorded vLLM 0.32 does: metrics, version, models, chat. ``python -m`` with a port.

Its counters count; its start is its own. ``LABELS`` of the recorded page stay as they are (model ``tiny``).
"""

from __future__ import annotations

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = (
    Path(__file__).parents[1] / "data" / "engine_scrapes" / "vllm-0.32.0_cpu_after_bench60_aiperf80.prom"
).read_text()
STARTED_S = time.time()
_COUNTED = re.compile(r"^(vllm:(?:request_success|generation_tokens|prompt_tokens)_total\{[^}]*\}) .*$", re.M)
_START = re.compile(r"^process_start_time_seconds .*$", re.M)
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}


class Engine(BaseHTTPRequestHandler):
    """One request of a client or of the agent."""

    protocol_version = "HTTP/1.1"
    served = 0

    def do_GET(self) -> None:
        if self.path == "/metrics":
            served = type(self).served
            page = _COUNTED.sub(lambda found: f"{found[1]} {float(served)}", PAGE)
            self._respond(_START.sub(f"process_start_time_seconds {STARTED_S}", page).encode(), "text/plain")
        elif self.path == "/version":
            self._respond(b'{"version": "0.32.0"}')
        elif self.path == "/v1/models":
            model = {"id": "tiny", "object": "model", "root": "./tiny", "max_model_len": 2048}
            self._respond(json.dumps({"object": "list", "data": [model]}).encode())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).served += 1
        self._respond(json.dumps(ANSWER).encode())

    def _respond(self, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
