"""What the agent costs beside an engine: as ``lab.bench.agent``, on one GPU, with another process at its side: an
engine whose metrics page is as long as vLLM's, a proxy that claims its requests, and a plug-in that reports each of
them as it ends.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import fleetpulse_track as track
from lab.bench import agent
from lab.bench.counterparts import await_port
from lab.bench.cpu import stop
from lab.bench.stand import free_port
from producers.identity.host_file import claims_beside
from producers.proxy.claims import GATHER_S

HISTOGRAMS, BUCKETS = 40, 22
"""vLLM 0.32 with one engine has 17 of some 20 buckets; two engines behind one address have twice as many."""
REQUESTS_PER_S = 20.0
LASTS_S = 1.0
"""How long each request takes, from its claim to its report."""
MODEL = "llama-3.1-8b"
_LABELS = f'{{engine="0",model_name="{MODEL}"}}'
_ANSWERS = {
    "/version": b'{"version":"0.32.0"}',
    "/v1/models": b'{"object":"list","data":[{"id":"llama-3.1-8b","root":"llama-3.1-8b","max_model_len":8192}]}',
}


def measure(seconds: int, say: agent.Say) -> dict[str, Any]:
    """Run the agent beside an engine for ``seconds`` and watch it."""
    return {"requests_per_s": REQUESTS_PER_S, **agent.measure(seconds, say, gpus=1, beside=_beside)}


@contextlib.contextmanager
def _beside(socket_path: Path) -> Iterator[dict[str, str]]:
    port = free_port()
    command = [sys.executable, "-m", "lab.bench.agent_engine", str(port), str(socket_path), str(REQUESTS_PER_S)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        await_port(port, process)
        yield {"FLEETPULSE_AGENT__ENGINE_PORTS": f"[{port}]"}
    finally:
        stop(process)


def page(requests: int) -> bytes:
    """The metrics after so many requests: some 1,000 lines."""
    out = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{_LABELS} 20.0",
        f"vllm:num_requests_waiting{_LABELS} 0.0",
        f"vllm:kv_cache_usage_perc{_LABELS} 0.25",
        f"vllm:num_preemptions_total{_LABELS} 0.0",
        f"vllm:prompt_tokens_total{_LABELS} {368.0 * requests}",
        f"vllm:prefix_cache_hits_total{_LABELS} {16.0 * requests}",
        f"vllm:generation_tokens_total{_LABELS} {84.0 * requests}",
        f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="{MODEL}"}} {float(requests)}',
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="{MODEL}"}} 0.0',
        "process_start_time_seconds 1.76e+09",
    ]
    for number in range(HISTOGRAMS):
        name = f"vllm:request_phase_{number:02d}_seconds"
        out += [f"# HELP {name} Histogram of a phase of requests in seconds.", f"# TYPE {name} histogram"]
        out += [
            f'{name}_bucket{{engine="0",le="{2.0**bound / 1_024}",model_name="{MODEL}"}} {float(requests)}'
            for bound in range(BUCKETS)
        ]
        out += [f"{name}_count{_LABELS} {float(requests)}", f"{name}_sum{_LABELS} {0.1 * requests}"]
    return ("\n".join(out) + "\n").encode()


class _Engine(BaseHTTPRequestHandler):
    def __init__(self, ended: list[int], *args: object) -> None:
        self._ended = ended
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        body = page(self._ended[0]) if self.path.startswith("/metrics") else _ANSWERS.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_args: object) -> None:
        """Nothing."""


def serve(port: int, socket_path: Path, requests_per_s: float) -> None:
    """Until it is killed: the page, and this many requests a second, evenly, once there is an agent."""
    ended = [0]
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Engine, ended))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not claims_beside(socket_path).exists():
        time.sleep(0.05)
    proxy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    proxy.connect(str(claims_beside(socket_path)))
    threading.Thread(target=_read_on, args=(proxy,), daemon=True).start()
    client, lasting = track.Client(str(socket_path)), round(LASTS_S * requests_per_s)
    together = max(round(GATHER_S * requests_per_s), 1)
    begun_s = time.monotonic()
    for number in count():
        time.sleep(max(begun_s + number / requests_per_s - time.monotonic(), 0.0))
        if number % together == 0:  # as the proxy sends claims
            proxy.sendall("".join(f"bench-{number + more}\n" for more in range(together)).encode())
        if number >= lasting:
            _report(client, f"chatcmpl-bench-{number - lasting}", port)
            ended[0] += 1


def _report(client: track.Client, request_id: str, port: int) -> None:
    """As the plug-in does."""
    times = {"e2e_us": 1_000_000, "ttft_us": 150_000, "queue_us": 20, "prefill_us": 140_000, "decode_us": 850_000}
    tokens = {"input_tokens": 368, "cached_tokens": 16, "output_tokens": 84, "tokens_from": "engine"}
    about = {"model": MODEL, "precision": "bf16", "address": f"127.0.0.1:{port}", "finish_reason": "length"}
    fields: dict[str, Any] = {**times, **tokens, **about, "tpot_us": 10_000}
    track.report(client=client, request_id=request_id, reported_by="plugin", **fields)


def _read_on(proxy: socket.socket) -> None:
    while proxy.recv(65_536):
        """What the agent gives to the proxy is of no further use here."""


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
