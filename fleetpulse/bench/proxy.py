"""What the proxy adds: streams of a mock engine, with and without it, in turns of one run.

Engine, client and proxy are processes of their own; the proxy has a core to itself where there are two. Every stream
goes once straight to the engine and once through the proxy, in rounds that take turns. *Added* is the difference
within such a pair: of the time to the first token, and of the way of the n-th token from its writing to its reading.
What machine and loops do to both shows in the quantiles of *direct*; a pair's difference holds the noise of both.

The yardstick is a bare relay, which passes bytes on and looks at nothing: every stream goes once through it too, in the
same rounds. What it adds, any process in between adds on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from fleetpulse.bench import cpu
from schemas.errors import UnavailableError

STREAMS = 64
TOKENS = 200
GAP_MS = 10.0
FIRST_MS = 50.0
ROUNDS = 4
TARGETS = {"added_ttft_p99_us": 1_000, "added_chunk_p99_us": 1_000, "chunks_per_cpu_s": 20_000}
"""At most, at most, at least (2,000 chunks a second for each tenth of a core)."""
_QUANTILES = (50, 90, 99)


def apart_ms(streams: int, gap_ms: float) -> float:
    """How far apart streams begin, so that their chunks never come together: a gap and a share of one."""
    return gap_ms + gap_ms / streams


def quantiles_us(values_ns: Sequence[int]) -> dict[str, float]:
    """p50, p90, p99 and the greatest, in microseconds; order statistics, not interpolated."""
    values = np.sort(np.asarray(values_ns, dtype=np.float64)) / 1_000
    found = {f"p{q}_us": float(np.percentile(values, q, method="lower")) for q in _QUANTILES}
    return {name: round(value, 1) for name, value in (found | {"max_us": float(values[-1])}).items()}


def pairs_of(direct: Sequence[dict[str, Any]], proxied: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Differences of the n-th stream, and of its n-th token, with and without the proxy. Whole streams only."""
    both = [pair for pair in zip(direct, proxied, strict=True) if pair[0]["whole"] and pair[1]["whole"]]
    return {
        "ttft_ns": [via["ttft_ns"] - straight["ttft_ns"] for straight, via in both],
        "chunk_ns": [
            added for straight, via in both for added in np.subtract(via["transit_ns"], straight["transit_ns"]).tolist()
        ],
    }


@dataclass(slots=True)
class Way:
    """What was seen of all rounds on one way; ``cpu_s`` of the process in between, ``seconds`` of its rounds."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0
    seconds: float = 0.0

    @property
    def chunks_per_cpu_s(self) -> int | None:
        """Chunks passed on per second of processor time."""
        chunks = sum(len(stream["transit_ns"]) for stream in self.seen)
        return round(chunks / self.cpu_s) if self.cpu_s else None


def beside_the_relay(direct: Sequence[dict[str, Any]], proxied: Way, relayed: Way) -> dict[str, Any]:
    """What the bare relay adds and costs, and the proxy's figures as ratios of it."""
    relay, proxy = pairs_of(direct, relayed.seen), pairs_of(direct, proxied.seen)
    ttft, chunk = quantiles_us(relay["ttft_ns"]), quantiles_us(relay["chunk_ns"])
    own, bare = proxied.chunks_per_cpu_s, relayed.chunks_per_cpu_s
    return {
        "relay_added_ttft": ttft,
        "relay_added_chunk": chunk,
        "relay_chunks_per_cpu_s": bare,
        "added_ttft_p99_to_relay": _ratio(quantiles_us(proxy["ttft_ns"])["p99_us"], ttft["p99_us"]),
        "added_chunk_p99_to_relay": _ratio(quantiles_us(proxy["chunk_ns"])["p99_us"], chunk["p99_us"]),
        "chunks_per_cpu_s_to_relay": _ratio(own, bare),
    }


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return round(ours / theirs, 2) if ours and theirs else None


def report(direct: list[dict[str, Any]], proxied: list[dict[str, Any]], cpu_s: float, seconds: float) -> dict[str, Any]:
    """The figures of all rounds. ``cpu_s`` of the proxy's process, and ``seconds`` of the rounds it served."""
    pairs = pairs_of(direct, proxied)
    chunks = sum(len(stream["transit_ns"]) for stream in proxied)
    ttft, chunk = quantiles_us(pairs["ttft_ns"]), quantiles_us(pairs["chunk_ns"])
    straight = quantiles_us([at for stream in direct for at in stream["transit_ns"]])
    through = quantiles_us([at for stream in proxied for at in stream["transit_ns"]])
    return {
        "added_ttft": ttft,
        "added_chunk": chunk,
        "direct_chunk": straight,
        "proxied_chunk": through,
        "added_ttft_p99_us": ttft["p99_us"],
        "added_chunk_p99_us": chunk["p99_us"],
        "difference_of_chunk_p99_us": round(through["p99_us"] - straight["p99_us"], 1),
        "streams": len(proxied),
        "streams_identical": sum(stream["whole"] for stream in direct + proxied) == len(direct + proxied),
        "chunks": chunks,
        "proxy_cpu_s": round(cpu_s, 3),
        "proxy_core_share": round(cpu_s / seconds, 4) if seconds else None,
        "chunks_per_cpu_s": round(chunks / cpu_s) if cpu_s else None,
        "targets": TARGETS,
    }


def run(
    streams: int = STREAMS,
    tokens: int = TOKENS,
    gap_ms: float = GAP_MS,
    rounds: int = ROUNDS,
    *,
    ask_usage: bool = False,
) -> dict[str, Any]:
    """Measure, after one round of each to warm up; some 9 s for each round of the default."""
    pace = {"tokens": tokens, "first_ms": FIRST_MS, "gap_ms": gap_ms}
    with ExitStack() as running:
        engine, engine_port = _started(running, "proxy_engine", pace)
        served, proxy_port = _started(
            running, "proxy_served", {"upstream": f"http://127.0.0.1:{engine_port}", "ask_usage": ask_usage}
        )
        relay, relay_port = _started(running, "proxy_relay", {"upstream": f"http://127.0.0.1:{engine_port}"})
        ports = [engine_port, proxy_port, relay_port]
        client = _process(
            running, "proxy_load", {"ports": ports, "streams": streams, "apart_ms": apart_ms(streams, gap_ms)}
        )
        _give_cores((served.pid, relay.pid), (engine.pid, client.pid))
        figures = _rounds(client, (None, psutil.Process(served.pid), psutil.Process(relay.pid)), rounds)
        figures["proxy_memory_mib"] = round(psutil.Process(served.pid).memory_info().rss / 2**20, 1)
        served.terminate()
        assert served.stdout is not None
        figures["events"] = json.loads(served.stdout.readline())["events"]
        figures["events_expected"] = streams * (rounds + 1)
        figures["machine"] = {"cores": os.cpu_count(), "load_1m": round(os.getloadavg()[0], 2)}
        return figures


def _rounds(client: subprocess.Popen[str], between: tuple[psutil.Process | None, ...], rounds: int) -> dict[str, Any]:
    """Direct, through the proxy and through the relay, in an order that turns; ``between`` are their processes."""
    ways = [Way() for _ in between]
    for which in range(len(ways)):
        _round(client, which)
    for number in range(rounds):
        for turn in range(len(ways)):
            which = (number + turn) % len(ways)
            way, process = ways[which], between[which]
            before_s, began_s = _cpu_s(process), time.monotonic()
            way.seen += _round(client, which)
            way.cpu_s += _cpu_s(process) - before_s
            way.seconds += time.monotonic() - began_s
    direct, proxied, relayed = ways
    figures = report(direct.seen, proxied.seen, proxied.cpu_s, proxied.seconds)
    return figures | beside_the_relay(direct.seen, proxied, relayed)


def _round(client: subprocess.Popen[str], which: int) -> list[dict[str, Any]]:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{which}\n")
    client.stdin.flush()
    line = client.stdout.readline()
    if not line:
        raise UnavailableError("the load client of the bench ended early; its error stands above")
    seen: list[dict[str, Any]] = json.loads(line)
    return seen


def _cpu_s(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


def _started(running: ExitStack, module: str, told: dict[str, Any]) -> tuple[subprocess.Popen[str], int]:
    process = _process(running, module, told)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise UnavailableError(f"{module} of the bench did not start; its error stands above")
    return process, int(line)


def _process(running: ExitStack, module: str, told: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"fleetpulse.bench.{module}", json.dumps(told)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running.callback(_ended, process)
    return process


def _ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _give_cores(between: Sequence[int], others: Sequence[int]) -> None:
    """Proxy and relay, which take turns, on the last core, the rest on all others, where there is more than one."""
    cores = cpu.cores()
    if len(cores) < 2:
        return
    for pid in between:
        cpu.pin(pid, {cores[-1]})
    for pid in others:
        cpu.pin(pid, set(cores[:-1]))
